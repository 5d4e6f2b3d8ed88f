"""Labels known in part: training on what is known against the ways round it.

Needs the environment variable ROBUSTRUCT_DATA. Of some training sentences a share of the labels is
hidden at random, and models are trained on what is left: as it is ("in part"), on pieces of
labelled tokens in a row ("pieces"), on as many labels in whole sentences ("whole"), and with O for
what is hidden. Nothing is chosen: every model has its usual penalty. In the hard case half of the
names are known, and one O in twenty: there, what is hidden is also given as weights, 9 for O and 1
for each other label.
"""

from __future__ import annotations

import functools
import itertools
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from corpora import chunking_attributes, load_conll2000, load_wnut17, name_attributes
from corpora.files import data_file
from protocol import SIGNIFICANCE, Experiment, Key, Result, options
from robustruct import AGM, CRF
from robustruct.comparison.significance import sign_flip_p_value
from robustruct.formats.conll import TAB, sentences
from robustruct.formats.text import Lines
from robustruct.losses import CostMatrix, as_loss
from tables import Table

MODELS = {"CRF": {"optimizer": "natural_ascent"}, "AGM": {"temperature": 0.5}}
SIZES = {"CoNLL-2000": 1500, "citations": 500, "wnut17": 1500}
BAR = ("CoNLL-2000", 0.5)  # five seeds and both models; elsewhere two seeds of the CRF
HIDDEN = (0.1, 0.5, 0.9)
NAMES = "half of the names known"
KEPT_OUTSIDE = 0.05
MISS = 5.0  # what a missed token of a name costs in wnut17
WAYS = ("all", "in part", "whole", "pieces", "O", "weights")


def load_citations(split: str) -> tuple[list[Any], list[list[str]]]:
    """References with the field of each token."""
    X, y = [], []
    with Lines(data_file(f"citations/{split}.txt.gz", "fields of references", None)) as lines:
        for sentence in sentences(lines, [2], TAB):
            X.append(name_attributes(sentence.column(0)))
            y.append(sentence.column(1))
    return X, y


@functools.lru_cache(maxsize=2)
def corpus(name: str, split: str) -> tuple[list[Any], list[list[str]]]:
    """Attributes and labels of a corpus."""
    if name == "citations":
        return load_citations(split)
    load, attributes = {
        "CoNLL-2000": (load_conll2000, chunking_attributes),
        "wnut17": (load_wnut17, name_attributes),
    }[name]
    data = load(split)
    return [attributes(x) for x in data.X], [labels.tolist() for labels in data.y]


def cost_of(name: str, labels: Sequence[str]) -> Any:
    """The cost of mistakes: a missed name costs more."""
    if name != "wnut17":
        return "hamming"
    return CostMatrix(
        {(a, "O"): MISS for a in labels if a != "O"}, default="hamming", labels=labels
    )


def hidden(y: list[list[str]], share: Any, rng: np.random.Generator) -> list[list[Any]]:
    """The labels with a share of them None, or as in the hard case."""
    if share == NAMES:
        keep = {"O": KEPT_OUTSIDE}
        return [[a if rng.random() < keep.get(a, 0.5) else None for a in labels] for labels in y]
    return [[None if rng.random() < share else a for a in labels] for labels in y]


def pieces(X: list[Any], y: list[list[Any]]) -> tuple[list[Any], list[list[str]]]:
    """Tokens in a row whose labels are known, as samples of their own."""
    rows, labels = [], []
    for x, own in zip(X, y, strict=True):
        cuts = [-1, *[i for i, a in enumerate(own) if a is None], len(own)]
        for i, j in itertools.pairwise(cuts):
            if j - i > 1:
                rows.append(x[i + 1 : j])
                labels.append(own[i + 1 : j])
    return rows, labels


def training_sets(
    X: list[Any], y: list[list[str]], share: Any, rng: np.random.Generator
) -> dict[str, tuple[list[Any], Any]]:
    """What each way trains on."""
    part = hidden(y, share, rng)
    n_known = sum(a is not None for labels in part for a in labels)
    whole = np.searchsorted(np.cumsum([len(labels) for labels in y]), n_known) + 1
    sets = {
        "all": (X, y),
        "in part": (X, part),
        "whole": (X[:whole], y[:whole]),
        "pieces": pieces(X, part),
    }
    names = sorted({a for labels in y for a in labels})
    if "O" in names:
        sets["O"] = X, [["O" if a is None else a for a in labels] for labels in part]
    if share == NAMES:
        weights = {a: 9.0 if a == "O" else 1.0 for a in names}
        sets["weights"] = X, [[weights if a is None else a for a in own] for own in part]
        del sets["whole"]
    return sets


def solve(settings: dict[str, Any], key: Key) -> Result:
    """One corpus, share, model and seed: cost of each test sentence, and time, by each way."""
    limit = settings["limit"]
    rng = np.random.default_rng(key["seed"])
    X, y = corpus(key["data"], "train")
    order = rng.permutation(len(X))[: limit or SIZES[key["data"]]]
    X, y = [X[i] for i in order], [y[i] for i in order]
    sets = training_sets(X, y, key["hidden"], rng)
    test_X, test_y = (part[:limit] for part in corpus(key["data"], "test"))
    every = np.array(sorted({a for labels in (*y, *test_y) for a in labels}))
    loss = cost_of(key["data"], every.tolist())
    kind = {"CRF": CRF, "AGM": AGM}[key["model"]]
    found: Result = {"costs": {}, "seconds_of": {}, "gap": 0.0, "n": sum(map(len, test_y))}
    for way, (train_X, train_y) in sets.items():
        model = kind(loss, tol=0.01, n_jobs=1, random_state=0, **MODELS[key["model"]])
        began = time.process_time()
        model.fit(train_X, train_y)
        found["seconds_of"][way] = time.process_time() - began
        found["gap"] = max(found["gap"], model.duality_gap_)
        predicted = model.predict(test_X)
        cost = as_loss(loss)
        found["costs"][way] = [
            float(cost.evaluate(np.asarray(a), np.asarray(b), every).sum())
            for a, b in zip(test_y, predicted, strict=True)
        ]
    return found


def tables(results: Sequence[Result]) -> list[Table]:
    """Mean cost by each way, and whether in part is less."""
    rows, rng = [], np.random.default_rng(0)
    for cell in dict.fromkeys((r["data"], r["hidden"], r["model"]) for r in results):
        some = [r for r in results if (r["data"], r["hidden"], r["model"]) == cell]
        data, share, model = cell
        row = [f"{data}, {share if isinstance(share, str) else f'{share:.0%}'}, {model}"]
        for way in WAYS:
            if way not in some[0]["costs"]:
                row.append("")
                continue
            text = f"{np.mean([sum(r['costs'][way]) / r['n'] for r in some]):.4f}"
            if way not in ("all", "in part"):
                less = np.subtract(*(
                    np.mean([r["costs"][one] for r in some], axis=0) for one in ("in part", way)
                ))  # fmt: skip
                p = sign_flip_p_value(less, rng)
                text += f" ({'+' if less.sum() < 0 else '-'}{'*' if p < SIGNIFICANCE else ''})"
            row.append(text)
        ratio = [r["seconds_of"]["in part"] / r["seconds_of"]["all"] for r in some]
        rows.append([*row, f"{np.median(ratio):.1f}"])
    caption = (
        "Test cost of a token, mean over seeds (CoNLL-2000 with half hidden: five, else two). In "
        "brackets: + where training in part costs less, - where more; * by sign flips over test "
        f"sentences, p < {SIGNIFICANCE}, of means over seeds. Time: that of training in part, in "
        "fits with all labels. "
        f"Largest gap {max(r['gap'] for r in results):.2g}."
    )
    heads = ["", "all labels", *WAYS[1:4], "hidden = O", "hidden = weights", "time"]
    return [Table("Labels known in part", heads, rows, caption)]


def main() -> None:
    parser = options("partial_labels", __doc__)
    parser.add_argument("--cells", type=int, metavar="N", help="the first N fits only")
    args = parser.parse_args()
    keys: list[Key] = [
        {"data": data, "hidden": share, "model": model, "seed": seed}
        for data in SIZES
        for share in (*HIDDEN, *([NAMES] if data == "wnut17" else []))
        for model in (MODELS if (data, share) == BAR else ["CRF"])
        for seed in range(5 if (data, share) == BAR else 2)
    ]
    # The bar first: what else there is time for follows with --resume.
    keys.sort(key=lambda key: (key["data"], key["hidden"]) != BAR)
    settings = {"limit": args.limit}
    keys = keys[: args.cells]
    experiment = Experiment(args, settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = experiment.run(functools.partial(solve, settings), keys, "fits")
    experiment.report(tables(results), results)


if __name__ == "__main__":
    main()
