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
import json
import platform
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from robustruct import AGM
from robustruct.datasets import chunking_attributes, load_conll2000
from robustruct.metrics import mean_loss

GOALS = ((1e-3, 0.01, 1 / 5), (1e-4, 0.05, 1 / 3))  # alpha, gap, share of CRFsuite's time


def now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def since(start: tuple[float, float]) -> tuple[float, float]:
    return time.perf_counter() - start[0], time.process_time() - start[1]


def crfsuite(
    X: Sequence[Any], y: Sequence[Any], X_test: Sequence[Any]
) -> tuple[tuple[float, float], list[list[str]]]:
    """Seconds of training (by the clock, of the processor), and predictions."""
    import pycrfsuite

    start = now()
    trainer = pycrfsuite.Trainer("lbfgs", {"c1": 0.0, "c2": 1.0}, verbose=False)
    for sample, labels in zip(X, y, strict=True):
        trainer.append(sample, labels.tolist())
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "model")
        trainer.train(file)
        seconds = since(start)
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
        start = now()
        model = AGM(alpha=alpha, tol=tol, random_state=0, n_jobs=1).fit(X, train.y)
        seconds, processor = since(start)
        assert model.duality_gap_ <= tol, (alpha, model.duality_gap_)
        lines.append(
            {
                "model": f"AGM alpha {alpha:g}",
                "seconds": round(seconds, 2),
                "processor_s": round(processor, 2),
                "passes": model.n_iter_,
                "gap": float(f"{model.duality_gap_:.2g}"),
                "test_loss": test_loss(model.predict(X_test)),
                "bar": round(bar, 3),
            }
        )
        del model
    if args.skip_crfsuite is None:
        (theirs, processor), predicted = crfsuite(X, train.y, X_test)
        lines.append(
            {
                "model": "CRFsuite c2 1",
                "seconds": round(theirs, 2),
                "processor_s": round(processor, 2),
                "test_loss": test_loss(predicted),
            }
        )
    else:
        theirs = args.skip_crfsuite
        lines.append({"model": "CRFsuite c2 1 (given)", "seconds": theirs})
    for line in lines:
        line["ratio"] = round(line["seconds"] / theirs, 3)
    if args.json:
        about = {"sentences": len(X), "python": platform.python_version()}
        for line in lines:
            print(json.dumps(line | about | {"machine": platform.machine()}))
        return
    print(
        f"{'model':22} {'s':>8} {'cpu s':>8} {'passes':>6} {'gap':>6} "
        f"{'ratio':>6} {'bar':>6} {'test loss':>9}"
    )
    for line in lines:
        gap = f"{line['gap']:.2%}" if "gap" in line else ""
        print(
            f"{line['model']:22} {line['seconds']:8.2f} {line.get('processor_s', ''):>8} "
            f"{line.get('passes', ''):>6} {gap:>6} "
            f"{line['ratio']:6.3f} {line.get('bar', ''):>6} {line.get('test_loss', ''):>9}"
        )


if __name__ == "__main__":
    main()
