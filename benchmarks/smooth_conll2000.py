"""How long does certified training of the smooth family take on CoNLL-2000, beside CRFsuite?

Run: ROBUSTRUCT_DATA=... python benchmarks/smooth_conll2000.py

8936 sentences, 22 labels, the attributes of the CRF++ chunking template, alpha = 2 / 8936, which is
CRFsuite's c2 = 1. Both sides start from features in memory (ours: an encoded design; CRFsuite:
after Trainer.append), and compiling is done before. CRF, and AGM (Hamming) at temperatures 1 and
0.3, each to a certified gap of 1 %, with its test loss and chunk F1. Where other programs run,
compare the seconds of processor time. Bars, with one thread: 1/30 of CRFsuite's time for the CRF,
1/15 and 1/10 for the AGM.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported

import argparse
import resource
import tempfile
from pathlib import Path
from typing import Any

import pycrfsuite

from conll2000 import Task, assembled, qualities, trained
from robustruct import AGM, CRF
from robustruct.datasets import chunking_attributes, load_conll2000
from timing import machine, rounded, show, timed

BARS = {"CRF": 1 / 30, "AGM T=1": 1 / 15, "AGM T=0.3": 1 / 10}


def models(n_samples: int, n_jobs: int, tol: float) -> dict[str, Any]:
    options = {"alpha": 2 / n_samples, "tol": tol, "n_jobs": n_jobs, "random_state": 0}
    return {
        "CRF": CRF(decision="map", **options),
        "AGM T=1": AGM(temperature=1.0, **options),
        "AGM T=0.3": AGM(temperature=0.3, **options),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--limit", type=int, help="train on the first so many sentences only")
    parser.add_argument("--tol", type=float, default=0.01, help="the certified gap")
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--skip-crfsuite", type=float, metavar="SECONDS", help="its time, if known")
    parser.add_argument("--json", action="store_true", help="JSON lines instead of a table")
    args = parser.parse_args()
    about = machine("python-crfsuite")
    train, test = (load_conll2000(split) for split in ("train", "test"))
    train = train.subset(slice(args.limit))
    X, X_test = ([chunking_attributes(s) for s in data.X] for data in (train, test))
    for model in models(len(X), 1, 0.5).values():  # compiles
        model.fit(X[:200], train.y[:200]).predict(X_test[:10])
    with tempfile.TemporaryDirectory() as folder:
        items = [pycrfsuite.ItemSequence(sample) for sample in X_test]
        task = Task(X, train.y, X_test, test.y, items, Path(folder))
        rows: list[dict[str, Any]] = []
        for threads in args.threads:
            for name, model in models(len(X), threads, args.tol).items():
                problem = assembled(model, X, train.y)
                progress, seconds = timed(lambda m=model, p=problem: trained(m, p))
                row = {"model": name, "threads": threads, **seconds.columns()}
                row |= qualities(*task.quality(model.predict(X_test)))
                row |= {"passes": progress.n_iter, "gap": rounded(progress.gap, 2)}
                rows.append({**row, "bar": rounded(BARS[name], 3)})
                del model, problem, progress
        about["most MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        theirs: float = args.skip_crfsuite or 0.0
        if args.skip_crfsuite is None:
            peer = task.lbfgs
            theirs = peer.seconds.cpu
            row = {"model": "CRFsuite L-BFGS", "threads": 1, **peer.seconds.columns()}
            rows.append({**row, **qualities(*task.quality(task.tagged(peer)))})
        for row in rows:
            row["cpu ratio"] = rounded(row["cpu_s"] / theirs, 3)
        show(rows, {**about, "sentences": len(X)}, args.json)


if __name__ == "__main__":
    main()
