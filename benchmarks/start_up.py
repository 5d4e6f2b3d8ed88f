"""How long until something happens: import, help, the first call with and without compiled code?

Run: python benchmarks/start_up.py [--json]

Every figure is about a process of its own. A cold start compiles into an empty cache and runs once;
a warm one reads that cache and is the best of --repeat. CPU time stands beside wall time, as it
depends less on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

SCORES = """
import numpy as np
from robustruct.graphs import Batch
from robustruct.inference import best_labelling, k_best, marginals
from robustruct.scores import Scores
batch = Batch.build([(4, None), (3, np.array([[0, 1], [0, 2]]))])
scores = Scores.from_user(batch, np.zeros((7, 3)), np.zeros((5, 3, 3)))
"""
FIT = """
from robustruct import AGM, CRF, SSVM
from robustruct.datasets import load_counter
data = load_counter(n_sequences=5)
"""
QUICK = {
    "python alone": "pass",
    "import robustruct": "import robustruct",
    "robustruct --version": "import sys; sys.argv[1:] = ['--version']; "
    "from robustruct.cli.app import main; main()",
    "robustruct --help": "import sys; sys.argv[1:] = ['--help']; "
    "from robustruct.cli.app import main; main()",
}
COMPILED = {
    "first best labelling": SCORES + "best_labelling(scores)",
    "first marginals": SCORES + "marginals(scores)",
    "first best labelling, marginals and k best": SCORES
    + "best_labelling(scores); marginals(scores); k_best(scores, 2)",
    "first small game": "import numpy as np; from robustruct import solve_game\n"
    "solve_game(np.zeros((2, 3)), [(0, 1)], np.zeros((1, 3, 3)), 1 - np.eye(3))",
    "first fit of CRF": FIT + "CRF('absolute', alpha=1.0).fit(data.X, data.y)",
    "first fit of SSVM": FIT + "SSVM('absolute', alpha=1.0).fit(data.X, data.y)",
    "first fit of AGM": FIT + "AGM('absolute', alpha=1.0).fit(data.X, data.y)",
}


def seconds(code: str, cache: str) -> tuple[float, float]:
    """Wall and CPU time of a process that runs ``code``."""
    started, before = time.perf_counter(), os.times()
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "NUMBA_CACHE_DIR": cache},
    )
    after = os.times()
    cpu = after.children_user + after.children_system
    cpu -= before.children_user + before.children_system
    return time.perf_counter() - started, cpu


def shown(times: tuple[float, float] | None) -> str:
    return " | " if times is None else f"{times[0]:.2f} | {times[1]:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="JSON lines, not a table")
    options = parser.parse_args()
    if not options.json:
        print("| what | cold, s | cold, CPU s | warm, s | warm, CPU s |")
        print("|---|---:|---:|---:|---:|")
    for name, code in {**QUICK, **COMPILED}.items():
        with tempfile.TemporaryDirectory() as cache:
            cold = seconds(code, cache) if name in COMPILED else None
            warm = min(seconds(code, cache) for _ in range(options.repeat))
        if options.json:
            print(json.dumps({"what": name, "cold": cold, "warm": warm}), flush=True)
        else:
            print(f"| {name} | {shown(cold)} | {shown(warm)} |", flush=True)


if __name__ == "__main__":
    main()
