"""How do time and memory of training grow with samples, length and labels?

Run: python benchmarks/training_growth.py [--parts memory samples length labels]

samples, length, labels: seconds of a pass of an AGM (Hamming, dense features) over synthetic
    chains, one thread, while one size grows: 1,000 to 100,000 chains of 10 nodes; 20 chains of 10
    to 10,000 nodes; 3 to 100 labels on 200 chains of 20 nodes. A fit does --passes passes with the
    certificates among them (after passes 1, 2, 4, ...), which are divided over the passes; encoding
    and compiling are left out. Checked: bounds are finite and in order. The exponent is the slope
    of log time against log size from the second size on, as the first is mostly overhead. Linear
    is 1; labels may cost 2, as there are labels squared entries in a table.
memory: largest resident memory (VmHWM, Linux only) of a process that trains on CoNLL-2000 (needs
    ROBUSTRUCT_DATA): an AGM with the settings of benchmarks/conll2000.py, CRFsuite's L-BFGS (c2 =
    1; ten iterations, as it takes all its memory at the start), and one that only holds the
    attributes. Bar: twice CRFsuite's.

--limit cuts the lists of sizes and the sentences, for a quick run.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported

import argparse
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np

from robustruct import AGM
from robustruct.datasets import make_chains
from robustruct.objectives.build import in_memory
from robustruct.optimizers.certificates import Progress
from robustruct.optimizers.dual_ascent import DualAscent
from robustruct.optimizers.local_shards import LocalShards
from robustruct.optimizers.optimizer import Task
from timing import Seconds, machine, rounded, show, timed

# The varied size, and the other two.
GROWTH: dict[str, dict[str, Any]] = {
    "samples": {"sizes": (1_000, 10_000, 30_000, 100_000), "n_nodes": 10, "n_labels": 3},
    "length": {"sizes": (10, 100, 1_000, 10_000), "n_samples": 20, "n_labels": 3},
    "labels": {"sizes": (3, 10, 30, 100), "n_samples": 200, "n_nodes": 20},
}
ARGUMENT = {"samples": "n_samples", "length": "n_nodes", "labels": "n_labels"}
MEMORY_BAR = 2.0
# Run in processes of their own: the data as plain lists, then one way to use them.
WRITE = """
import pickle, sys
from corpora import chunking_attributes, load_conll2000
data = load_conll2000().subset(slice(int(sys.argv[2]) or None))
X = [chunking_attributes(sentence) for sentence in data.X]
with open(sys.argv[1], "wb") as file:
    pickle.dump((X, [labels.tolist() for labels in data.y]), file)
"""
LOAD = """
import pickle, sys
with open(sys.argv[1], "rb") as file:
    X, y = pickle.load(file)
"""
PEAK = """
with open("/proc/self/status") as file:
    print(next(line.split()[1] for line in file if line.startswith("VmHWM:")))
"""
HOLDERS = {
    "attributes": "",
    "CRFsuite": """
import pycrfsuite
trainer = pycrfsuite.Trainer("lbfgs", {"c2": 1.0, "max_iterations": 10}, verbose=False)
for sample, labels in zip(X, y):
    trainer.append(sample, labels)
trainer.train(sys.argv[2])
""",
    "AGM": """
import warnings
from robustruct import AGM
warnings.simplefilter("ignore")  # few passes, no small gap
AGM(alpha=3e-4, tol=0.2, max_iter=8, n_jobs=1, random_state=0).fit(X, y)
""",
    "CRF": """
from robustruct import CRF
CRF(alpha=2 / len(X), tol=0.01, n_jobs=1, random_state=0).fit(X, y)
""",
    "AGM, temperature 1": """
from robustruct import AGM
AGM(alpha=2 / len(X), temperature=1.0, tol=0.01, n_jobs=1, random_state=0).fit(X, y)
""",
}
OURS = ("AGM", "CRF", "AGM, temperature 1")


def seconds_of_passes(passes: int, **sizes: int) -> Seconds:
    """Of a fit without its encoding."""
    data = make_chains(**sizes)
    model = AGM(alpha=1e-3, tol=0.0, max_iter=passes, n_jobs=1, random_state=0)
    _, problem = in_memory(model, data.X, data.y)
    progress = Progress(problem, model.tol)
    _, seconds = timed(
        lambda: DualAscent().minimise(
            Task(LocalShards.of(problem), progress, model.max_iter, seed=0)
        )
    )
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


def memory(limit: int | None) -> list[dict[str, Any]]:
    """Each figure is that of a process of its own, which loads only what it needs."""
    peak = {}
    with tempfile.TemporaryDirectory() as folder:
        written = ["-c", WRITE, f"{folder}/data", str(limit or 0)]
        subprocess.run([sys.executable, *written], check=True)
        for name in (*OURS, *HOLDERS):  # ours twice, as the first one may have to compile
            code = f"{LOAD}\n{HOLDERS[name]}\n{PEAK}"
            command = [sys.executable, "-c", code, f"{folder}/data", f"{folder}/model"]
            told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            peak[name] = int(told) / 2**10
    rows: list[dict[str, Any]] = [
        {"holds": name, "threads": 1, "peak MiB": round(peak[name])} for name in HOLDERS
    ]
    beyond = {name: mib - peak["attributes"] for name, mib in peak.items()}
    for row in rows:
        name = row["holds"]
        if name in OURS:
            row["ratio to CRFsuite"] = rounded(peak[name] / peak["CRFsuite"], 3)
            row["ratio beyond the attributes"] = rounded(beyond[name] / beyond["CRFsuite"], 3)
            row["bar"] = MEMORY_BAR
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
    args = parser.parse_args()
    about = machine("python-crfsuite")
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
