"""How do time and memory of training grow with samples, length and labels?

Run: python benchmarks/training_growth.py [--parts memory samples length labels]

samples, length, labels: seconds of a pass of an AGM (Hamming, dense features) over synthetic
    chains, one thread, while one size grows: 1,000 to 100,000 chains of 10 nodes; 20 chains of 10
    to 10,000 nodes; 3 to 100 labels on 200 chains of 20 nodes. A fit does --passes passes with the
    certificates among them (after passes 1, 2, 4, ...), which are divided over the passes; encoding
    and compiling are left out. Checked: bounds are finite and in order. The exponent is the slope
    of log time against log size from the second size on, as the first is mostly overhead. Linear
    is 1; labels may cost 2, as there are labels squared entries in a table.
memory: largest resident memory of a process that trains on CoNLL-2000 (needs ROBUSTRUCT_DATA): an
    AGM of the quality of benchmarks/conll2000.py, CRFsuite's L-BFGS (c2 = 1, its first iterations,
    as it takes all its memory at the start), and one that only holds the attributes. Bar: twice
    CRFsuite's.

--limit cuts the lists of sizes and the sentences, for a quick run.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported

import argparse
import resource
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from robustruct import AGM
from robustruct.datasets import chunking_attributes, load_conll2000, make_chains
from robustruct.training.fit import Progress
from timing import Seconds, machine, rounded, show, timed

# The varied size, and the other two.
GROWTH: dict[str, dict[str, Any]] = {
    "samples": {"sizes": (1_000, 10_000, 30_000, 100_000), "n_nodes": 10, "n_labels": 3},
    "length": {"sizes": (10, 100, 1_000, 10_000), "n_samples": 20, "n_labels": 3},
    "labels": {"sizes": (3, 10, 30, 100), "n_samples": 200, "n_nodes": 20},
}
ARGUMENT = {"samples": "n_samples", "length": "n_nodes", "labels": "n_labels"}
MEMORY_BAR = 2.0
HOLDERS = ("attributes", "CRFsuite", "AGM")


def seconds_of_passes(passes: int, **sizes: int) -> Seconds:
    """Of a fit without its encoding."""
    data = make_chains(**sizes)
    model = AGM(alpha=1e-3, tol=0.0, max_iter=passes, n_jobs=1, random_state=0)
    _, problem = model._assembled(data.X, data.y, None, None)
    progress = Progress(problem, model.tol)
    _, seconds = timed(lambda: model._minimise(problem, progress, None))
    assert progress.n_iter == passes
    bounds = np.array([(at.dual, at.primal) for at in progress.history])
    assert np.isfinite(bounds).all(), bounds
    assert bounds[:, 0].max() <= bounds[:, 1].min(), bounds
    return seconds


def growth(part: str, passes: int, largest: float) -> list[dict[str, Any]]:
    fixed = dict(GROWTH[part])
    sizes = [size for size in fixed.pop("sizes") if size <= largest]
    rows, cpu = [], []
    for size in sizes:
        seconds = seconds_of_passes(passes, **fixed, **{ARGUMENT[part]: size})
        cpu.append(seconds.cpu)
        per_pass = Seconds(seconds.wall / passes, seconds.cpu / passes)
        rows.append({"grows": part, "size": size, "threads": 1, **per_pass.columns()})
    if len(sizes) > 2:
        slope = np.polyfit(np.log(sizes[1:]), np.log(cpu[1:]), 1)[0]
        rows[-1]["exponent (cpu)"] = round(float(slope), 2)
    return rows


def hold(kind: str, limit: int | None) -> None:
    """Train, and print the largest resident memory of this process in MiB."""
    data = load_conll2000("train").subset(slice(limit))
    X = [chunking_attributes(sentence) for sentence in data.X]
    if kind == "AGM":
        with warnings.catch_warnings(action="ignore"):  # few passes, no small gap
            AGM(alpha=3e-4, tol=0.2, max_iter=8, n_jobs=1, random_state=0).fit(X, data.y)
    elif kind == "CRFsuite":
        import pycrfsuite

        trainer = pycrfsuite.Trainer("lbfgs", {"c2": 1.0, "max_iterations": 10}, verbose=False)
        for sample, labels in zip(X, data.y, strict=True):
            trainer.append(sample, labels.tolist())
        with tempfile.TemporaryDirectory() as folder:
            trainer.train(str(Path(folder) / "model"))
    unit = 2**20 if sys.platform == "darwin" else 2**10
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit)


def memory(limit: int | None) -> list[dict[str, Any]]:
    peak = {}
    for kind in HOLDERS:
        command = [sys.executable, __file__, "--hold", kind]
        command += [] if limit is None else ["--limit", str(limit)]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        peak[kind] = float(told)
    rows: list[dict[str, Any]] = [
        {"holds": kind, "threads": 1, "peak MiB": round(mib)} for kind, mib in peak.items()
    ]
    rows[-1]["ratio to CRFsuite"] = rounded(peak["AGM"] / peak["CRFsuite"], 3)
    rows[-1]["bar"] = MEMORY_BAR
    beyond = [peak[kind] - peak["attributes"] for kind in ("AGM", "CRFsuite")]
    if min(beyond) > 0:
        rows[-1]["ratio beyond the attributes"] = rounded(beyond[0] / beyond[1], 3)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = ("memory", *GROWTH)
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts, metavar="PART")
    parser.add_argument("--passes", type=int, default=4)
    parser.add_argument("--limit", type=int, help="no size larger than this")
    parser.add_argument("--json", action="store_true", help="JSON lines instead of tables")
    parser.add_argument("--hold", choices=HOLDERS, help=argparse.SUPPRESS)  # in a process apart
    args = parser.parse_args()
    if args.hold:
        hold(args.hold, args.limit)
        return
    about = machine("python-crfsuite")
    # First, while this process is small: on Linux a child's figure starts at its parent's.
    if "memory" in args.parts:
        show(memory(args.limit), about, args.json)
    grown = [part for part in GROWTH if part in args.parts]
    if grown:
        seconds_of_passes(2, n_samples=20, n_nodes=10, n_labels=3)  # compiles
        largest = float("inf") if args.limit is None else args.limit
        for part in grown:
            show(growth(part, args.passes, largest), about, args.json)


if __name__ == "__main__":
    main()
