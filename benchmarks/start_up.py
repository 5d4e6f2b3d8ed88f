"""How long until something happens: import, help, the first fit, the first prediction?

Run: python benchmarks/start_up.py [--only "first fit of AGM"] [--json]

Every figure is about a process of its own, the best of --repeat. Python may keep its bytecode, as
it does where a package is installed. CPU time stands beside wall time, as it depends less on
what else the machine does; bars are CPU seconds. Memory is the most that a process held.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from timing import Seconds, machine, rounded, show

SCORES = """
import numpy as np
from robustruct.graphs import Batch
from robustruct.inference import best_labelling, k_best, marginals
from robustruct.scores import Scores
batch = Batch.build([(4, None), (3, np.array([[0, 1], [0, 2]]))])
scores = Scores.from_user(batch, np.zeros((7, 3)), np.zeros((5, 3, 3)))
"""
FIT = """
from robustruct import AGM, CRF, SSVM, AutoModel
from robustruct.datasets import make_chains
data = make_chains(n_samples=5)
"""
# A few made-up sentences as those of CoNLL-2000 are given: lists of strings, nine labels.
SENTENCES = """
import random
from robustruct import AGM, CRF, SSVM
from corpora import chunking_attributes
draw = random.Random(0)
tags = ["O", *(f"{begin}-{kind}" for kind in ("NP", "VP", "PP", "ADVP") for begin in "BI")]
y = [draw.choices(tags, k=12) for _ in range(20)]
X = [chunking_attributes([(f"{tag}{draw.randrange(9)}", tag[-2:]) for tag in s]) for s in y]
"""
ON_SENTENCES = "first fit of AGM on sentences"
PREPARE = (
    SENTENCES
    + """
AGM(tol=0.2, alpha=0.01, random_state=0).fit(X, y).save("small.model")
CRF(alpha=0.01).fit(X, y).save("crf.model")
lines = ("\\n".join(f"{tag}{draw.randrange(9)} {tag}" for tag in s) for s in y)
open("small.conll", "w").write("\\n\\n".join(lines) + "\\n")
from robustruct.cli.train import TrainOptions, train
train(TrainOptions(data=["small.conll"], output="files.model", model="crf", quiet=True))
"""
)
LOADED = """
import robustruct
model = robustruct.load("small.model")
X = [[["w=a", "bias"], ["w=b", "bias"], ["bias"]]]
"""
COMMAND = "import sys; sys.argv[1:] = {!r}; from robustruct.cli.app import main; main()"
QUICK = {
    "python alone": "pass",
    "import robustruct": "import robustruct",
    "robustruct --version": COMMAND.format(["--version"]),
    "robustruct --help": COMMAND.format(["--help"]),
}
FIRST = {
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
    "first fit of CRF on sentences": SENTENCES + "CRF(alpha=0.01).fit(X, y)",
    "first fit of SSVM on sentences": SENTENCES + "SSVM(tol=0.2, alpha=0.01).fit(X, y)",
    "first fit of AGM(temperature=1)": FIT
    + "AGM('absolute', alpha=1.0, temperature=1.0).fit(data.X, data.y)",
    "first fit of AutoModel": FIT + "AutoModel('absolute', alpha=[1.0]).fit(data.X, data.y)",
    "a model file, before data": LOADED,
    "a model file's first predict": LOADED + "model.set_params(decision='map').predict(X)",
    "a CRF's file and its first predict": LOADED.replace("small", "crf") + "model.predict(X)",
    "a model file's first predict_proba": LOADED + "model.predict_proba(X)",
    "robustruct predict": COMMAND.format(["predict", "files.model", "small.conll"]),
    "robustruct compare": COMMAND.format(["compare", "--quiet", "--no-report"]),
}
BARS = {
    "first best labelling": 1.5,
    "first small game": 1.5,
    "a model file's first predict_proba": 1.5,
    "first fit of CRF": 1.5,
    "first fit of SSVM": 1.5,
    "first fit of AGM": 1.5,
    ON_SENTENCES: 1.5,
    "first fit of CRF on sentences": 1.5,
    "first fit of SSVM on sentences": 1.5,
    "first fit of AGM(temperature=1)": 1.5,
    "first fit of AutoModel": 1.5,
    "robustruct predict": 1.5,
}


MEMORY_BARS = {"a CRF's file and its first predict": 60}


def seconds(code: str, folder: str) -> Seconds:
    """Of a process that runs ``code`` in a folder."""
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPATH"] = str(Path(__file__).parents[1] / "experiments")
    started, before = time.perf_counter(), os.times()
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        stdout=subprocess.DEVNULL,
        env=environment,
        cwd=folder,
    )
    after = os.times()
    cpu = after.children_user + after.children_system
    cpu -= before.children_user + before.children_system
    return Seconds(time.perf_counter() - started, cpu)


def columns(times: Seconds) -> dict[str, float]:
    return {"s": rounded(times.wall, 3), "CPU s": rounded(times.cpu, 3)}


def measured(name: str, code: str, folder: str, repeat: int) -> dict[str, object]:
    """A line of the table."""
    row: dict[str, object] = {"what": name}
    row |= columns(min(seconds(code, folder) for _ in range(repeat)))
    row["MiB"] = memory(code, folder)
    if name in BARS:
        row["bar"] = BARS[name]
    if name in MEMORY_BARS:
        row["MiB bar"] = MEMORY_BARS[name]
    return row


def memory(code: str, folder: str) -> int:
    """The most that a process held at once, in MiB; asked in one that has no other children."""
    asking = (
        "import resource, subprocess, sys; "
        "subprocess.run([sys.executable, '-c', sys.argv[1]], stdout=subprocess.DEVNULL); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)"
    )
    done = subprocess.run(
        [sys.executable, "-c", asking, code],
        check=True,
        capture_output=True,
        text=True,
        cwd=folder,
    )
    return int(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", nargs="+", metavar="WHAT", help="lines of the table")
    parser.add_argument("--json", action="store_true", help="JSON lines, not a table")
    options = parser.parse_args()
    all_code = {**QUICK, **FIRST}
    unknown = sorted(set(options.only or ()) - set(all_code))
    if unknown:
        raise SystemExit(f"no line {unknown[0]!r}; there are: {', '.join(all_code)}")
    about, rows = machine(), []
    names = options.only or list(all_code)
    with tempfile.TemporaryDirectory() as folder:
        if any(".model" in all_code[name] for name in names):
            seconds(PREPARE, folder)
        for name in names:
            row = measured(name, all_code[name], folder, options.repeat)
            if options.json:  # at once, as all of them take minutes
                show([row], about, True)
            rows.append(row)
    if not options.json:
        show(rows, about, False)


if __name__ == "__main__":
    main()
