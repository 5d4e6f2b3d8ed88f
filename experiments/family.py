"""The family beside its corners: what mistakes cost on seven data sets, and with which costs.

Needs the environment variable ROBUSTRUCT_DATA. Every cell has training samples, test samples and a
cost. AGM (temperature 0), CRF and SSVM choose alpha and decision, the family (`AutoModel`) also who
the predictor is and the temperature; all of them by the cost on held-out training samples, by the
same rule. The test samples are used once. Differences are tested by paired sign flips over test
samples, corrected for the six pairs of a cell (Holm).

Emotion has twenty splits, whose test samples overlap: there, as in emotion.py, choices are made on
the training sequences of split 1 alone, and pairs are tested over splits (Wilcoxon).

For models with probabilities the mean log loss of the true labels stands beside the cost; the
figure shows on some cells how often CRF and family are right against how sure they are.
"""

from __future__ import annotations

import functools
import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from corpora import (
    PrunedTree,
    emotion_splits,
    load_emotion,
    load_multilabel,
    load_ocr,
    load_srl,
    load_sst,
    load_wnut17,
    name_attributes,
)
from protocol import SIGNIFICANCE, Experiment, Key, Result, options, wilcoxon_p
from robustruct import charts
from robustruct.comparison import Samples, compare
from robustruct.comparison.compare import KINDS
from robustruct.comparison.significance import holm
from robustruct.datasets import load_counter, position_weights
from robustruct.losses import CostMatrix
from robustruct.metrics import mean_loss
from robustruct.multilabel import label_graph, label_graphs
from sentiment import with_features
from srl_features import Vocabulary, graphs, node_attributes
from tables import Table, bold, new_figure, save

METHODS = tuple(KINDS)
ALIKE = ("ceo", "ijlt", "mnuvw", "bhk", "gqy", "rs", "fp")  # letters that are easily confused
MISSED = (1, 5, 20)
DRAWN = (("digits", "absolute", 100), ("OCR", "hamming", 100), ("names", "5", 3394))
"""The cells whose reliability is shown."""
EMOTION = tuple(itertools.product(("equal", "position"), ("hamming", "absolute", "squared")))

Cell = tuple[Samples, Samples, Any]


# ------------------------------------------------------------------------------------------- cells


def digits(loss: str, n: int) -> Cell:
    """Sequences of handwritten digits that count; asymmetric: reading too little costs thrice."""
    parts = [load_counter(split, n_sequences=m) for split, m in (("train", n), ("test", 400))]
    cost: Any = loss
    if loss == "asymmetric":
        distance = np.subtract.outer(np.arange(10), np.arange(10)).astype(float)  # true - predicted
        cost = np.where(distance > 0, 3 * distance, -distance)
    train, test = (Samples(list(part.X), list(part.y)) for part in parts)
    return train, test, cost


def ocr(loss: str, n: int) -> Cell:
    """Handwritten words; look-alike: letters that are easily confused cost half."""
    data = load_ocr()
    words = [np.flatnonzero(data.groups == fold) for fold in (0, 1)]
    letters = np.unique(np.concatenate(data.y))
    cost = 1 - np.eye(26)
    if loss == "look-alike":
        for group in ALIKE:
            at = np.searchsorted(letters, list(group))
            cost[np.ix_(at, at)] /= 2
    # The same word stands in the file many times in a row: the first n would be a few words.
    drawn = np.random.default_rng(0).permutation(words[0])[:n]
    train, test = (
        Samples([data.X[i] for i in part], [data.y[i] for i in part]) for part in (drawn, words[1])
    )
    return train, test, CostMatrix(cost, letters)


def names(loss: str, n: int) -> Cell:
    """Names in noisy text; the loss is what a name costs that is taken for none."""
    parts = [load_wnut17(split) for split in ("train", "test")]
    labels = np.unique(np.concatenate(parts[0].y))
    cost = 1 - np.eye(len(labels))
    cost[:, labels == "O"] *= float(loss)
    drawn = np.random.default_rng(0).permutation(len(parts[0]))[:n]
    train, test = (
        Samples([name_attributes(words) for words in part.X], list(part.y))
        for part in (parts[0].subset(drawn), parts[1])
    )
    return train, test, CostMatrix(cost, labels)


def scene(loss: str, n: int) -> Cell:
    """Photographs with six yes-or-no labels on a tree; the loss is what a missed yes costs."""
    train, test = load_multilabel("train"), load_multilabel("test")
    drawn = np.random.default_rng(0).permutation(len(train.y))[:n]  # photographs are in order
    edges = label_graph(train.y[drawn])
    made = [
        Samples(label_graphs(X, edges, Y.shape[1]), list(Y))
        for X, Y in ((train.X[drawn], train.y[drawn]), (test.X, test.y))
    ]
    return *made, np.array([[0.0, 1.0], [float(loss), 0.0]])


def sentiment(loss: str, n: int) -> Cell:
    """Phrases of sentences on trees, five degrees."""
    train, test = load_sst("train"), load_sst("test")
    drawn = np.random.default_rng(0).permutation(len(train))[:n]
    parts = train.subset(drawn), test.subset(slice(500))
    made = [
        Samples([with_features(graph, "phrases") for graph in part.X], list(part.y))
        for part in parts
    ]
    return *made, loss


def roles(loss: str, n: int) -> Cell:
    """Semantic roles on pruned trees of web texts; the loss is what a missed role costs."""
    parts = load_srl("ewt", "train").subset(slice(n)), load_srl("ewt", "test").subset(slice(500))
    labels = np.unique(np.concatenate([*parts[0].y, *parts[1].y]))
    cost = 1 - np.eye(len(labels))
    counts = np.unique(np.concatenate(parts[0].y), return_counts=True)
    none = counts[0][counts[1].argmax()]
    cost[:, labels == none] *= float(loss)
    words = Vocabulary()
    train, test = (
        Samples(graphs(part.X, encode(attributes_of(part.X)), "siblings"), list(part.y))
        for part, encode in zip(parts, (words.learn, words.encode), strict=True)
    )
    return train, test, CostMatrix(cost, labels)


def attributes_of(trees: Sequence[PrunedTree]) -> Iterator[list[str]]:
    """The feature strings of the nodes of all trees."""
    return (row for tree in trees for row in node_attributes(tree))


CELLS: dict[str, tuple[Callable[[str, int], Cell], Sequence[str], Sequence[int]]] = {
    "digits": (digits, ("absolute", "squared", "asymmetric"), (100,)),
    "OCR": (ocr, ("hamming", "look-alike"), (100, 400)),
    "names": (names, tuple(map(str, MISSED)), (300, 3394)),
    "roles": (roles, ("1", "5"), (200,)),
    "sentiment": (sentiment, ("absolute", "squared"), (150,)),
    "scene": (scene, ("1", "5"), (400,)),
}


# ------------------------------------------------------------------------------------------ pieces


def solve(settings: dict[str, Any], key: Key) -> Result:
    """One cell: all models, compared."""
    if key["data"] == "emotion":
        return solve_emotion(settings, key)
    make, _, _ = CELLS[key["data"]]
    train, test, cost = make(key["loss"], settings["limit"] or key["n"])
    found = compare(train, test, cost, n_examples=0, seed=0, standardize=False)
    return {
        "costs": {method.name: method.cost for method in found.methods},
        "chosen": {method.name: method.chosen for method in found.methods},
        "gaps": {method.name: method.gap for method in found.methods},
        "fit_and_all": {m.name: (m.seconds, m.seconds_in_all) for m in found.methods},
        "log_loss": {method.name: log_loss(method.model, test) for method in found.methods},
        "reliability": {
            method.name: reliability(method.model, test)
            for method in found.methods
            if (key["data"], key["loss"], key["n"]) in DRAWN and method.model.temperature_ > 0
        },
        "n_test": found.n_test,
        "p": {f"{d.first} - {d.second}": d.p_value for d in found.differences},
        "notes": list(found.notes),
    }


def log_loss(model: Any, test: Samples) -> float | None:
    """Mean log loss of the true labels, where probabilities are estimates of P(y | x)."""
    if model.temperature_ == 0:
        return None
    total, n = 0.0, 0
    for p, labels in zip(model.predict_proba(test.X), test.y, strict=True):
        place = np.searchsorted(model.classes_, labels).clip(max=len(model.classes_) - 1)
        known = model.classes_[place] == labels
        total -= np.log(np.where(known, p[np.arange(len(p)), place], 0.0).clip(1e-6)).sum()
        n += len(labels)
    return total / n


def reliability(model: Any, test: Samples) -> dict[str, list[float]]:
    """How sure the model is of the likeliest label, and how often that is right, in tenths."""
    line = charts.reliability({"": model}, test.X, test.y).lines[1]
    return {"sure": list(line.x), "right": list(line.y)}


def solve_emotion(settings: dict[str, Any], key: Key) -> Result:
    """Choices on the training sequences of split 1, then twenty fits with them."""
    data, splits = load_emotion(), emotion_splits()
    weights, loss = key["loss"].split(", ")
    of = position_weights(data.y) if weights == "position" else None
    given = [np.full(len(y), 1 / len(y)) for y in data.y] if of is None else of

    def part(indices: np.ndarray) -> tuple[list, list, list]:
        return tuple([values[i] for i in indices] for values in (data.X, data.y, given))

    costs: dict[str, list[float]] = {}
    chosen = {}
    options = {"standardize": False, "random_state": 0}
    for name, kind in KINDS.items():
        X, y, w = part(splits[0][0])
        model = kind(loss, alpha="auto", **options).fit(X, y, node_weight=w)
        member = getattr(model, "member_", type(model).__name__)
        fixed = KINDS[member](loss, alpha=model.alpha_, decision=model.decision_, **options)
        if member != "CRF":
            fixed.set_params(temperature=model.temperature_)
        chosen[name] = f"{member}, {model.temperature_:g}, {model.decision_}, {model.alpha_:.2g}"
        costs[name] = []
        for train, test in splits[: settings["limit"]]:
            X, y, w = part(train)
            fitted = clone(fixed).fit(X, y, node_weight=w)
            fitted.decision_scale_ = model.decision_scale_
            X, y, w = part(test)
            found = fitted.predict(X, node_weight=w)
            costs[name].append(mean_loss(y, found, loss, w, average="sample"))
    pairs = list(itertools.combinations(KINDS, 2))
    p = holm([wilcoxon_p(np.array(costs[a]), np.array(costs[b])) for a, b in pairs])
    return {
        "costs": {name: float(np.mean(values)) for name, values in costs.items()},
        "chosen": chosen,
        "log_loss": dict.fromkeys(KINDS),
        "p": {f"{a} - {b}": value for (a, b), value in zip(pairs, p, strict=True)},
        "splits": costs,
    }


# ------------------------------------------------------------------------------------------ tables


def standing(result: Result, name: str) -> str:
    """The cost, with + where the family is significantly better and − where it is worse."""
    cost = result["costs"][name]
    text = f"{cost:.4f}" if cost < 1 else f"{cost:.3f}"
    if name == "auto":
        return bold(text, cost == min(result["costs"].values()))
    if result["p"][f"auto - {name}"] < SIGNIFICANCE:
        text += " +" if cost > result["costs"]["auto"] else " −"
    return bold(text, cost == min(result["costs"].values()))


def tables(results: Sequence[Result]) -> list[Table]:
    """Costs of all cells, then log losses."""
    rows = [
        [
            f"{r['data']}, {r['loss']}" + (f", {r['n']} samples" if r["n"] else ""),
            *(standing(r, name) for name in METHODS),
            r["chosen"]["auto"],
        ]
        for r in results
    ]
    marks = [cell for row in rows for cell in row[1:5]]
    worse = sum("−" in cell for cell in marks)
    better = {n: sum("+" in row[1 + m] for row in rows) for m, n in enumerate(METHODS) if m}
    counted = ", ".join(f"{name} in {count}" for name, count in better.items())
    costs = Table(
        "Mean test cost of the family and its corners",
        ["data, cost", "family", "AGM", "CRF", "SSVM", "what the family chose"],
        rows,
        f"+: the family costs significantly less ({counted} of {len(rows)} cells); −: more "
        f"({worse}). Bold: least.",
    )
    logs = [
        [f"{r['data']}, {r['loss']}, {r['n']} samples", *(shown(r["log_loss"][m]) for m in METHODS)]
        for r in results
        if any(value is not None for value in r["log_loss"].values())
    ]
    return [costs, Table("Mean log loss on test", ["data, cost", *METHODS], logs)]


def shown(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.4f}"


def draw(results: Sequence[Result], file: Path) -> None:
    """A reliability plot for each of some cells."""
    drawn = [r for r in results if r.get("reliability")]
    if not drawn:
        return
    figure, axes = new_figure(1, len(drawn))
    for ax, r in zip(axes.flat, drawn, strict=True):
        ax.plot([0, 1], [0, 1], color="0.6", linestyle="--", label="as sure as right")
        for name, line in r["reliability"].items():
            label = {"auto": "family"}.get(name, name)
            ax.plot(line["sure"], line["right"], marker=".", label=label)
        ax.set_title(f"{r['data']}, {r['loss']}, {r['n']} samples", fontsize=9)
        ax.set_xlabel("probability of the likeliest label", fontsize=8)
        ax.set_ylabel("share that is right", fontsize=8)
        ax.legend(fontsize=7)
    save(figure, file)


def main() -> None:
    parser = options("family", __doc__)
    parser.add_argument("--only", nargs="+", help="data sets")
    parser.add_argument("--finished", action="store_true", help="report on finished cells only")
    args = parser.parse_args()
    keys: list[Key] = [
        {"data": "emotion", "loss": f"{weights}, {loss}", "n": 0} for weights, loss in EMOTION
    ]
    for data, (_, losses, sizes) in CELLS.items():
        keys += [{"data": data, "loss": loss, "n": n} for n in sizes for loss in losses]
    if args.only:
        keys = [key for key in keys if key["data"] in args.only]
    settings = {"limit": args.limit}
    experiment = Experiment(args, settings)
    if args.finished:
        keys = [key for key in keys if key in experiment.store]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = experiment.run(functools.partial(solve, settings), keys, "cells")
    experiment.report(tables(results), results)
    draw(results, experiment.figure_file)


if __name__ == "__main__":
    main()
