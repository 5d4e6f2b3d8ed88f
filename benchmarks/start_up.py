"""How long until something happens: import, help, the first call with and without compiled code?

Run: python benchmarks/start_up.py [--only "first fit of AGM"] [--json]

Every figure is about a process of its own. A cold start compiles into an empty cache and runs once;
a warm one reads that cache and is the best of --repeat. Python may keep its bytecode, as it does
where a package is installed. CPU time stands beside wall time, as it
depends less on what else the machine does. Bars for the first fit of an AGM on sentences: 25 s
cold, 1.5 s warm.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time

from timing import Seconds, machine, rounded, show

BARS = {"cold": 25.0, "warm": 1.5}
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
from robustruct.datasets import make_chains
data = make_chains(n_samples=5)
"""
# A few made-up sentences as those of CoNLL-2000 are given: lists of strings, nine labels.
SENTENCES = """
import random
from robustruct import AGM
from robustruct.datasets import chunking_attributes
draw = random.Random(0)
tags = ["O", *(f"{begin}-{kind}" for kind in ("NP", "VP", "PP", "ADVP") for begin in "BI")]
y = [draw.choices(tags, k=12) for _ in range(20)]
X = [chunking_attributes([(f"{tag}{draw.randrange(9)}", tag[-2:]) for tag in s]) for s in y]
"""
ON_SENTENCES = "first fit of AGM on sentences"
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
    ON_SENTENCES: SENTENCES + "AGM(tol=0.2, alpha=0.01).fit(X, y)",
}


def seconds(code: str, cache: str) -> Seconds:
    """Of a process that runs ``code``."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    started, before = time.perf_counter(), os.times()
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        stdout=subprocess.DEVNULL,
        env=environment,
    )
    after = os.times()
    cpu = after.children_user + after.children_system
    cpu -= before.children_user + before.children_system
    return Seconds(time.perf_counter() - started, cpu)


def columns(kind: str, times: Seconds) -> dict[str, float]:
    return {f"{kind}, s": rounded(times.wall, 3), f"{kind}, CPU s": rounded(times.cpu, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", nargs="+", metavar="WHAT", help="lines of the table")
    parser.add_argument("--json", action="store_true", help="JSON lines, not a table")
    options = parser.parse_args()
    all_code = {**QUICK, **COMPILED}
    unknown = sorted(set(options.only or ()) - set(all_code))
    if unknown:
        raise SystemExit(f"no line {unknown[0]!r}; there are: {', '.join(all_code)}")
    about, rows = machine(), []
    for name in options.only or all_code:
        row: dict[str, object] = {"what": name}
        with tempfile.TemporaryDirectory() as cache:
            if name in COMPILED:
                row |= columns("cold", seconds(all_code[name], cache))
            warm = [seconds(all_code[name], cache) for _ in range(options.repeat)]
            row |= columns("warm", min(warm))
        if name == ON_SENTENCES:
            row |= {f"{kind} bar": bar for kind, bar in BARS.items()}
        rows.append(row)
    show(rows, about, options.json)


if __name__ == "__main__":
    main()
