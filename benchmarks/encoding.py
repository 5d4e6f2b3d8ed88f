"""Is encoding attributes as fast as handing them to python-crfsuite?

Run: python benchmarks/encoding.py --tokens 200000

Uses the tokens of CoNLL-2000 from ROBUSTRUCT_DATA, or made-up ones, with 20 attributes each: as
lists of strings, as dicts of strings, and as dicts of strings, bools and numbers. Prints one JSON
line per form; ratio is the time of FeatureSpace.fit over that of Trainer.append, both the median of
--repeat runs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pycrfsuite

from robustruct.features import FeatureSpace, SparseRows
from timing import machine, timed

Tokens = list[list[tuple[str, str]]]


def read_tokens(n_tokens: int) -> tuple[str, Tokens]:
    path = Path(os.environ.get("ROBUSTRUCT_DATA", ".")) / "conll2000" / "train.txt.gz"
    if not path.is_file():
        return "synthetic", made_up_tokens(n_tokens)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        sentences = [
            [(line.split()[0], line.split()[1]) for line in block.splitlines()]
            for block in file.read().strip().split("\n\n")
        ]
    return "conll2000", first_tokens(sentences, n_tokens)


def made_up_tokens(n_tokens: int) -> Tokens:
    rng = np.random.default_rng(0)
    words = [f"word{i}" for i in np.minimum(rng.zipf(1.4, n_tokens), 30_000)]
    tags = [f"T{i}" for i in rng.integers(40, size=n_tokens)]
    tokens = list(zip(words, tags, strict=True))
    return [tokens[i : i + 24] for i in range(0, n_tokens, 24)]


def first_tokens(sentences: Tokens, n_tokens: int) -> Tokens:
    kept, left = [], n_tokens
    for sentence in sentences:
        if left <= 0:
            break
        kept.append(sentence[:left])
        left -= len(sentence)
    return kept


def template(sentence: list[tuple[str, str]], i: int) -> dict[str, str]:
    """Words and tags around token i, their pairs and triples, affixes: 20 attributes."""
    at = [sentence[j] if 0 <= j < len(sentence) else ("<>", "<>") for j in range(i - 2, i + 3)]
    (w0, t0), (w1, t1), (w2, t2), (w3, t3), (w4, t4) = at
    return {
        "w[-2]": w0,
        "w[-1]": w1,
        "w[0]": w2,
        "w[1]": w3,
        "w[2]": w4,
        "w[-1]|w[0]": f"{w1}|{w2}",
        "w[0]|w[1]": f"{w2}|{w3}",
        "t[-2]": t0,
        "t[-1]": t1,
        "t[0]": t2,
        "t[1]": t3,
        "t[2]": t4,
        "t[-2]|t[-1]": f"{t0}|{t1}",
        "t[-1]|t[0]": f"{t1}|{t2}",
        "t[0]|t[1]": f"{t2}|{t3}",
        "t[1]|t[2]": f"{t3}|{t4}",
        "t[-1]|t[0]|t[1]": f"{t1}|{t2}|{t3}",
        "lower": w2.lower(),
        "pre": w2[:3],
        "suf": w2[-3:],
    }


def mixed(sentence: list[tuple[str, str]], i: int) -> dict[str, Any]:
    """The template with some of it as bools and numbers, as is usual with sklearn-crfsuite."""
    word, attributes = sentence[i][0], dict(template(sentence, i))
    for key in ("w[-2]", "w[2]", "t[-2]|t[-1]", "t[1]|t[2]", "pre"):
        del attributes[key]
    return attributes | {
        "bias": 1.0,
        "isupper": word.isupper(),
        "istitle": word.istitle(),
        "isdigit": word.isdigit(),
        "position": (i + 1) / len(sentence),
    }


def forms(sentences: Tokens) -> dict[str, Callable[[], list[Any]]]:
    def each(make: Callable[..., Any]) -> list[Any]:
        return [[make(s, i) for i in range(len(s))] for s in sentences]

    return {
        "strings": lambda: each(lambda s, i: [f"{k}={v}" for k, v in template(s, i).items()]),
        "dicts": lambda: each(template),
        "mixed dicts": lambda: each(mixed),
    }


def check(samples: list[Any]) -> None:
    """The encoded rows must be what python-crfsuite makes of the same samples."""
    space, design = FeatureSpace.fit(samples)
    names, rows = space.node_feature_names, design.nodes
    assert isinstance(rows, SparseRows)
    i = 0
    for sample in samples:
        for item in pycrfsuite.ItemSequence(sample).items():
            span = slice(rows.indptr[i], rows.indptr[i + 1])
            pairs = zip(rows.indices[span], rows.data[span], strict=True)
            ours = {names[column]: value for column, value in pairs}
            assert ours.pop("(bias)") == 1.0
            assert ours == {name: value for name, value in item.items() if value}
            i += 1


def append_all(samples: list[Any], labels: list[list[str]]) -> None:
    trainer = pycrfsuite.Trainer(verbose=False)
    for sample, y in zip(samples, labels, strict=True):
        trainer.append(sample, y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=200_000)
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    about = machine("python-crfsuite")
    data, sentences = read_tokens(args.tokens)
    labels = [["O"] * len(sentence) for sentence in sentences]
    for form, make in forms(sentences).items():
        samples = make()
        check(samples[:200])
        space, _ = FeatureSpace.fit(samples[:200])
        space.encode(samples[:200])  # compiles
        ours, again, theirs = [], [], []
        for _ in range(args.repeat):  # taken in turns, so that a busy machine slows both
            theirs.append(timed(lambda x=samples: append_all(x, labels))[1].wall)
            (space, _), seconds = timed(lambda x=samples: FeatureSpace.fit(x))
            ours.append(seconds.wall)
            again.append(timed(lambda s=space, x=samples: s.encode(x))[1].wall)
        line = {
            "form": form,
            "data": data,
            "tokens": sum(map(len, samples)),
            "attributes": sum(len(item) for sample in samples for item in sample),
            "columns": FeatureSpace.fit(samples)[0].n_node_features,
            "fit_s": round(median(ours), 3),
            "encode_s": round(median(again), 3),
            "crfsuite_append_s": round(median(theirs), 3),
            "ratio": round(median(ours) / median(theirs), 3),
            "encode_ratio": round(median(again) / median(theirs), 3),
            **about,
        }
        print(json.dumps(line), flush=True)
        del samples


if __name__ == "__main__":
    main()
