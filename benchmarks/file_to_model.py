"""How long does it take from a file of sentences to a model file, against python-crfsuite?

Run: ROBUSTRUCT_DATA=... python benchmarks/file_to_model.py [--limit 500]

CoNLL-2000 with the template of the CRF++ chunking example, a process each, from its start to its
end: `robustruct train` (CRF with CRFsuite's penalty to a certified gap of 1 %, compiled code on
disk already), and a script for python-crfsuite that reads, makes attributes and trains (L-BFGS,
c2 = 1). A ratio is given only where test loss and chunk F1 are as good as CRFsuite's. Bar: 1/12.
"""

from __future__ import annotations

import argparse
import gzip
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pycrfsuite

from corpora import chunking_attributes, load_conll2000
from corpora.files import data_file
from reading import template_text
from robustruct import load
from robustruct.formats.corpus import read_corpus
from robustruct.formats.templates import Template
from robustruct.metrics import mean_loss, span_scores
from timing import Seconds, machine, rounded, show

BAR = 1 / 12
THEIRS = """
import sys
import pycrfsuite
from corpora import chunking_attributes
trainer = pycrfsuite.Trainer("lbfgs", {"c1": 0.0, "c2": 1.0}, verbose=False)
with open(sys.argv[1], encoding="utf-8") as file:
    for block in file.read().strip().split("\\n\\n"):
        rows = [line.split(" ") for line in block.split("\\n")]
        trainer.append(chunking_attributes([row[:2] for row in rows]), [row[2] for row in rows])
trainer.train(sys.argv[2])
"""


def seconds_of(command: list[str]) -> Seconds:
    """Of a process from its start to its end."""
    before = os.times()
    subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    cpu = after.children_user + after.children_system
    return Seconds(
        after.elapsed - before.elapsed, cpu - before.children_user - before.children_system
    )


def compare(folder: Path, args: argparse.Namespace) -> list[dict[str, Any]]:
    path = data_file("conll2000/train.txt.gz", "sentences of CoNLL-2000", None)
    blocks = gzip.decompress(path.read_bytes()).decode().strip().split("\n\n")[: args.limit]
    (folder / "train").write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
    (folder / "template").write_text(template_text(), encoding="utf-8")
    ours = [
        "-m",
        "robustruct",
        "train",
        f"{folder}/train",
        "-o",
        f"{folder}/model",
        "--model",
        "crf",
        "--tol",
        "0.01",
        "--alpha",
        str(2 / len(blocks)),
        "--template",
        f"{folder}/template",
        "--jobs",
        str(args.jobs),
    ]
    seconds_of([*ours, "--max-iter", "1"])  # compiles
    taken = {
        "CRF": seconds_of(ours),
        "CRFsuite": seconds_of(["-c", THEIRS, f"{folder}/train", f"{folder}/crfsuite"]),
    }
    test, tagger = load_conll2000("test"), pycrfsuite.Tagger()
    tagger.open(f"{folder}/crfsuite")
    test_path = data_file("conll2000/test.txt.gz", "sentences of CoNLL-2000", None)
    corpus = read_corpus(test_path, template=Template.parse(template_text()))
    labels = {
        "CRF": load(folder / "model").predict(corpus.X),
        "CRFsuite": [np.array(tagger.tag(chunking_attributes(one))) for one in test.X],
    }
    classes = np.unique(np.concatenate([*test.y, *(y for found in labels.values() for y in found)]))
    rows = []
    for name, seconds in taken.items():
        loss = mean_loss(test.y, labels[name], "hamming", classes=classes)
        f1 = span_scores(test.y, labels[name])[0].f1
        threads = args.jobs if name == "CRF" else 1
        rows.append(
            {
                "model": name,
                "threads": threads,
                **seconds.columns(),
                "test_loss": rounded(loss),
                "F1": rounded(f1),
            }
        )
    if rows[0]["test_loss"] <= rows[1]["test_loss"] and rows[0]["F1"] >= rows[1]["F1"]:
        rows[0]["ratio"] = rounded(taken["CRF"].wall / taken["CRFsuite"].wall, 3)
        rows[0]["cpu ratio"] = rounded(taken["CRF"].cpu / taken["CRFsuite"].cpu, 3)
    rows[0]["bar"] = BAR
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=1, help="threads of our side")
    parser.add_argument("--limit", type=int, help="train on the first so many sentences only")
    parser.add_argument("--json", action="store_true", help="JSON lines instead of a table")
    args = parser.parse_args()
    about = machine("python-crfsuite")
    with tempfile.TemporaryDirectory() as folder:
        show(compare(Path(folder), args), about, args.json)


if __name__ == "__main__":
    main()
