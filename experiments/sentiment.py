"""Sentiment of phrases: five ordinal labels on every node of a binary tree, AGM, CRF and SSVM.

Stanford Sentiment Treebank with its own training, development and test trees; labels 0 (very
negative) to 4 (very positive). A mistake costs the distance of the labels, or its square. The cost
is reported as a mean over all nodes (phrases) and over roots (sentences); models are trained on all
nodes, and alpha is chosen on the development trees by the mean over all nodes.

Features of a phrase:

words    its distinct words;
phrases  its distinct words and pairs of neighbouring words, the phrase itself when it has at most
         five words, and its length in powers of two.

An edge joins a phrase to one of its two parts, and says which of the two it is and whether it is a
single word. How alpha is chosen: tuning.py. Intervals are those of a paired bootstrap over test
trees.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from corpora import load_sst
from protocol import Experiment, Key, Result, options
from robustruct import Graph
from robustruct.datasets import Dataset
from robustruct.losses import Absolute, Squared
from tables import Table, bold
from tuning import (
    COMPARED,
    MAX_ITER,
    METHODS,
    TOL,
    Samples,
    answers_of,
    convergence,
    decoded,
    difference,
    not_worse,
    shown_difference,
    tuned,
)

LABELS = np.arange(5)
COSTS = {"absolute": Absolute().matrix(LABELS), "squared": Squared().matrix(LABELS)}
FEATURES = ("words", "phrases")
LONGEST_PHRASE = 5
TREES = 1000  # training trees
WHERE = ("nodes", "roots")


# --------------------------------------------------------------------------------------- features


def phrase_attributes(words: list[str], features: str) -> list[str]:
    """The feature strings of a phrase."""
    words = [word.lower() for word in words]
    found = [f"word={word}" for word in dict.fromkeys(words)]
    if features == "phrases":
        pairs = itertools.pairwise(words)
        found += [f"pair={first} {second}" for first, second in dict.fromkeys(pairs)]
        if len(words) <= LONGEST_PHRASE:
            found.append(f"phrase={' '.join(words)}")
        found.append(f"length<{2 ** len(words).bit_length()}")
    return found


def edge_attributes(graph: Graph) -> list[list[str]]:
    """For each edge (phrase, part): left or right, and whether the part is a single word."""
    inner = set(graph.edges[:, 0].tolist())
    seen: set[int] = set()
    found = []
    for phrase, part in graph.edges.tolist():
        side = "right" if phrase in seen else "left"
        seen.add(phrase)
        found.append([f"side={side}", f"side&word={side}|{part not in inner}"])
    return found


def with_features(graph: Graph, features: str) -> Graph:
    """The tree of the loader, whose nodes end with the whole phrase, with features of ours."""
    phrases = [node[-1].removeprefix("phrase=").split(" ") for node in graph.node_features]
    nodes = [phrase_attributes(words, features) for words in phrases]
    return Graph(nodes, graph.edges, edge_attributes(graph))


# ----------------------------------------------------------------------------------------- pieces


@functools.lru_cache(maxsize=1)
def samples(features: str, trees: int, limit: int | None) -> tuple[Samples, Samples, Samples]:
    """Training, development and test trees."""
    train = load_sst("train").subset(slice(limit))
    drawn = np.random.default_rng(0).permutation(len(train))[:trees]
    parts = [train.subset(drawn)] + [load_sst(s).subset(slice(limit)) for s in ("dev", "test")]
    train_, dev, test = (
        ([with_features(graph, features) for graph in data.X], list(data.y)) for data in parts
    )
    return train_, dev, test


def solve(settings: dict[str, Any], key: Key) -> Result:
    """Train and label the test trees, for the cost of the key or, a CRF, for both."""
    wanted = COSTS if key["model"] == "CRF" else {key["cost"]: COSTS[key["cost"]]}
    parts = samples(key["features"], settings["trees"], settings["limit"])
    return tuned(key["model"], wanted, *parts)


# ------------------------------------------------------------------------------------- evaluation


def tree_costs(predicted: str, cost: np.ndarray, test: Dataset) -> dict[str, np.ndarray]:
    """Cost of each test tree: its share in the mean over nodes, and at its root."""
    sizes = np.array([len(labels) for labels in test.y])
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])  # a sentence comes before its parts
    paid = cost[np.concatenate(list(test.y)), decoded(predicted)]
    nodes = np.add.reduceat(paid, first) * len(sizes) / sizes.sum()
    return {"nodes": nodes, "roots": paid[first]}


def accuracies(predicted: str, test: Dataset) -> dict[str, float]:
    """Share of right labels."""
    mistakes = tree_costs(predicted, 1.0 - np.eye(len(LABELS)), test)
    return {where: 1.0 - float(values.mean()) for where, values in mistakes.items()}


def report(
    results: Sequence[Result], sets: Sequence[str], test: Dataset
) -> tuple[Table, list[dict[str, Any]]]:
    """One row for each set of features, cost and place."""
    rows, lines, fits = [], [], []
    for features in sets:
        for cost, matrix in COSTS.items():
            same = [result for result in results if result["features"] == features]
            found = {method: fit for method, (fit,) in answers_of(same, cost).items()}
            fits += found.values()
            paid = {m: tree_costs(found[m]["predicted"], matrix, test) for m in METHODS}
            right = {m: accuracies(found[m]["predicted"], test) for m in METHODS}
            for where in WHERE:
                costs = {m: paid[m][where] for m in METHODS}
                good = not_worse(costs)
                rows.append(
                    [
                        f"{features}, {cost}, {where}",
                        *(bold(f"{costs[m].mean():.4f}", m in good) for m in METHODS),
                        *(shown_difference(costs, *pair) for pair in COMPARED.values()),
                        *(f"{100 * right[m][where]:.1f}" for m in METHODS),
                    ]
                )
                lines.append(
                    {
                        "features": features,
                        "cost": cost,
                        "where": where,
                        "mean_cost": {m: float(costs[m].mean()) for m in METHODS},
                        "accuracy": {m: right[m][where] for m in METHODS},
                        "difference": {
                            shown: difference(costs, *pair) for shown, pair in COMPARED.items()
                        },
                        "not_worse": sorted(good),
                        "alpha": {m: found[m]["alpha"] for m in METHODS},
                        "gap": {m: found[m]["gap"] for m in METHODS},
                        "dev": {m: found[m]["dev"] for m in METHODS},
                    }
                )
    columns = ["features, cost, where", *METHODS, *COMPARED]
    columns += [f"{m} right, %" for m in METHODS]
    caption = (
        "Mean cost, relative differences with 95 % intervals, and share of right labels. Bold: the "
        f"least cost, or not significantly more. {convergence(fits)}"
    )
    return Table("Sentiment of phrases and sentences", columns, rows, caption), lines


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options("sentiment", __doc__)
    parser.add_argument("--trees", type=int, default=TREES, help="training trees, drawn at random")
    parser.add_argument("--features", choices=FEATURES, nargs="+", default=FEATURES)
    args = parser.parse_args(arguments)
    settings = {"limit": args.limit, "trees": args.trees, "tol": TOL, "max_iter": MAX_ITER}
    experiment = Experiment(args, settings)
    keys: list[Key] = []
    for features in args.features:
        keys.append({"features": features, "model": "CRF", "cost": "all"})
        for cost in COSTS:
            keys += [{"features": features, "model": m, "cost": cost} for m in ("AGM", "SSVM")]
    results = experiment.run(functools.partial(solve, settings), keys, "sentiment")
    table, lines = report(results, args.features, load_sst("test").subset(slice(args.limit)))
    experiment.report([table], lines)


if __name__ == "__main__":
    main()
