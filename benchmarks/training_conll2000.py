"""How long does certified training take on CoNLL-2000, against CRFsuite's L-BFGS?

Run: ROBUSTRUCT_DATA=... python benchmarks/training_conll2000.py

8936 sentences, 22 labels, the attributes of the CRF++ chunking template, one thread. The AGM
(Hamming) is trained to a certified gap of 1 % at alpha 1e-3 and of 5 % at 1e-4; CRFsuite runs with
c2 = 1 and its own stopping rule. Times include encoding (for CRFsuite: Trainer.append); compiling
is done before. The bars are a fifth and a third of CRFsuite's time. Where other programs
run, compare the seconds of processor time.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from corpora import chunking_attributes, load_conll2000
from robustruct import AGM
from robustruct.metrics import mean_loss
from timing import Seconds, machine, rounded, show, timed

GOALS = ((1e-3, 0.01, 1 / 5), (1e-4, 0.05, 1 / 3))  # alpha, gap, share of CRFsuite's time


def crfsuite(
    X: Sequence[Any], y: Sequence[Any], X_test: Sequence[Any]
) -> tuple[Seconds, list[list[str]]]:
    """Time of training, and predictions."""
    import pycrfsuite

    def train(file: str) -> None:
        trainer = pycrfsuite.Trainer("lbfgs", {"c1": 0.0, "c2": 1.0}, verbose=False)
        for sample, labels in zip(X, y, strict=True):
            trainer.append(sample, labels.tolist())
        trainer.train(file)

    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "model")
        _, seconds = timed(lambda: train(file))
        tagger = pycrfsuite.Tagger()
        tagger.open(file)
        predicted = [tagger.tag(sample) for sample in X_test]
        tagger.close()
    return seconds, predicted


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sentences", type=int, help="train on the first so many only")
    parser.add_argument(
        "--skip-crfsuite",
        type=float,
        metavar="SECONDS",
        help="take this as CRFsuite's time, known from an earlier run, instead of running it",
    )
    parser.add_argument("--json", action="store_true", help="JSON lines instead of a table")
    args = parser.parse_args()
    about = machine("python-crfsuite")
    train, test = (load_conll2000(split) for split in ("train", "test"))
    train = train.subset(slice(args.sentences))
    X, X_test = ([chunking_attributes(s) for s in data.X] for data in (train, test))
    # The same labels, and so the same compiled kernels.
    AGM(tol=0.5, random_state=0).fit(X[:500], train.y[:500]).predict(X_test[:10])

    def test_loss(predicted: Any) -> float:
        seen = [np.asarray(labels) for labels in predicted]
        classes = np.unique(np.concatenate([*train.y, *test.y]))
        return round(mean_loss(test.y, seen, "hamming", classes=classes), 5)

    lines: list[dict[str, Any]] = []
    for alpha, tol, bar in GOALS:
        model = AGM(alpha=alpha, tol=tol, random_state=0, n_jobs=1)
        _, seconds = timed(lambda m=model: m.fit(X, train.y))
        assert model.duality_gap_ <= tol, (alpha, model.duality_gap_)
        lines.append(
            {
                "model": f"AGM alpha {alpha:g}",
                **seconds.columns(),
                "passes": model.n_iter_,
                "gap": rounded(model.duality_gap_, 2),
                "test_loss": test_loss(model.predict(X_test)),
                "bar": round(bar, 3),
            }
        )
        del model
    if args.skip_crfsuite is None:
        seconds, predicted = crfsuite(X, train.y, X_test)
        theirs = {"model": "CRFsuite c2 1", **seconds.columns(), "test_loss": test_loss(predicted)}
    else:
        theirs = {"model": "CRFsuite c2 1 (given)", "seconds": args.skip_crfsuite}
    lines.append(theirs)
    for line in lines:
        line["ratio"] = rounded(line["seconds"] / theirs["seconds"], 3)
        if "cpu_s" in line and "cpu_s" in theirs:
            line["cpu ratio"] = rounded(line["cpu_s"] / theirs["cpu_s"], 3)
    show(lines, {**about, "sentences": len(X)}, args.json)


if __name__ == "__main__":
    main()
