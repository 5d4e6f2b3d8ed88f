"""How long does it take from a column file to encoded features, against python-crfsuite?

Both read CoNLL-2000 and apply the template of the CRF++ chunking example; theirs is read and
expanded sentence by sentence with plain Python and handed to ``Trainer.append``. Run:
python benchmarks/reading.py (needs ROBUSTRUCT_DATA)
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Callable
from typing import Any

import pycrfsuite

from corpora import chunking_attributes
from corpora.files import data_file
from robustruct.features import FeatureSpace
from robustruct.formats.corpus import read_corpus
from robustruct.formats.templates import Template

WORDS = [(-2,), (-1,), (0,), (1,), (2,), (-1, 0), (0, 1)]
TAGS = [(-2,), (-1,), (0,), (1,), (2,), (-2, -1), (-1, 0), (0, 1), (1, 2)]
TAGS += [(-2, -1, 0), (-1, 0, 1), (0, 1, 2)]


def template_text() -> str:
    """The template of the CRF++ chunking example."""
    lines = [
        f"U{column}{i:02d}:" + "/".join(f"%x[{row},{column}]" for row in rows)
        for column, group in enumerate((WORDS, TAGS))
        for i, rows in enumerate(group)
    ]
    return "\n".join([*lines, "B"])


def seconds(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """(wall time, processor time, result)."""
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - wall, time.process_time() - processor, result


def ours(path: Any) -> int:
    """Number of attributes after reading, expanding and encoding."""
    corpus = read_corpus(path, template=Template.parse(template_text()))
    space, _ = FeatureSpace.fit(corpus.X)
    return space.n_node_features - 1


def theirs(path: Any) -> int:
    """Number of tokens after reading, expanding and appending."""
    trainer, n_tokens = pycrfsuite.Trainer(verbose=False), 0
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for block in file.read().strip().split("\n\n"):
            rows = [line.split(" ") for line in block.split("\n")]
            sentence = [(word, tag) for word, tag, _ in rows]
            trainer.append(chunking_attributes(sentence), [row[2] for row in rows])
            n_tokens += len(rows)
    return n_tokens


def main() -> None:
    """Print a line for each side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    json_wanted = parser.parse_args().json
    path = data_file("conll2000/train.txt.gz", "sentences of CoNLL-2000", None)
    assert ours(path) == 338_551  # also compiles; theirs has two more, __BOS__ and __EOS__
    assert theirs(path) == 211_727
    for name, work in (("robustruct", ours), ("python-crfsuite", theirs)):
        wall, processor, _ = seconds(lambda work=work: work(path))
        entry = {"tool": name, "wall_s": round(wall, 2), "cpu_s": round(processor, 2)}
        text = f"{name:16} {wall:6.2f} s, CPU {processor:6.2f} s"
        print(json.dumps(entry) if json_wanted else text)


if __name__ == "__main__":
    main()
