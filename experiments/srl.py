"""Semantic roles on pruned constituent trees: AGM, CRF and SSVM under costs of many kinds.

Three parts, chosen by --part (default: all):

table   Table 2 of the paper on free data. Nine classes; the cost of a mistake is the distance of
        the two labels in a random order of the labels, scaled to [0, 1]; five orders. Both tree
        structures of srl_features.py.
map     Where does training for the cost pay? The three methods over three axes: the cost (a random
        order; a missed A0 at ten times the price of any other mistake; random prices, neither
        symmetric nor a metric), the number of training trees, and rich or poor features.
speed   AGM and SSVM on all training trees to a certified gap of 5 %, one thread, one after the
        other.

Protocol, the same for all methods: training trees are drawn at random with a fixed seed; alpha is
chosen on the development trees among half-decades, three of them at first, continued for as long as
the best one lies at an end; the test trees are labelled once, by the model so chosen. AGM and SSVM
predict the best-scoring labelling, the CRF makes the Bayes decision for the cost; beside them is
the AGM deciding by its predictor's strategy. Intervals are those of a paired bootstrap over test
trees.

The journal (--corpus wsj) has no development part: every fifth document of its training part is
held out instead.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from corpora import ROLES, load_srl
from protocol import Experiment, Key, Result, certificate, options
from robustruct.datasets import Dataset
from srl_features import (
    FEATURES,
    PATH,
    STRUCTURES,
    VERB,
    Vocabulary,
    graphs,
    node_attributes,
)
from tables import LOOK, Table, bold, new_figure, save
from tuning import (
    COMPARED,
    MAX_ITER,
    METHODS,
    PREDICTOR,
    TOL,
    Samples,
    answers_of,
    convergence,
    decoded,
    difference,
    new_model,
    not_worse,
    relative_difference,
    shown_difference,
    tuned,
)

LABELS = np.arange(len(ROLES))
NO_ROLE = [ROLES.index(name) for name in ("V", "O")]
N_ORDERS = 5
TABLE_SIZE = 2000  # training trees
SIZES = (100, 400, 2000)
SMALL, N_DRAWS = 400, 2  # training sets of at most SMALL trees are drawn several times
MAP_COSTS = ("order 0", "missed A0", "random")
MAP_STRUCTURE = "siblings"

SPEED_ALPHA, SPEED_GAP = 10**-2.5, 0.05


# ------------------------------------------------------------------------------------------ costs


def costs(n_orders: int = N_ORDERS) -> dict[str, np.ndarray]:
    """All cost matrices by name, [true, predicted], each with a largest entry of 1."""
    found = {f"order {seed}": ordinal_cost(label_order(seed)) for seed in range(n_orders)}
    missed = 1.0 - np.eye(len(LABELS))
    missed[0, 1:] = 10.0  # A0 is label 0
    found["missed A0"] = missed / 10.0
    prices = np.random.default_rng(0).random((len(LABELS), len(LABELS))).T
    np.fill_diagonal(prices, 0.0)
    found["random"] = prices / prices.max()
    return found


def label_order(seed: int) -> np.ndarray:
    """A random order of the labels."""
    return np.random.default_rng(seed).permutation(len(LABELS))


def ordinal_cost(order: np.ndarray) -> np.ndarray:
    """Distance of two labels in the order, scaled to [0, 1]."""
    place = np.argsort(order)
    return np.abs(place[:, None] - place[None, :]) / (len(order) - 1)


# ------------------------------------------------------------------------------------------- data


@functools.lru_cache(maxsize=1)
def load(corpus: str, limit: int | None) -> dict[str, Dataset]:
    """Training, development and test trees."""
    if corpus == "wsj":
        whole = load_srl("wsj", "train")
        document = np.array([tree.sent.rsplit("-", 1)[0] for tree in whole.X])
        held_out = np.isin(document, np.unique(document)[4::5])
        parts = {"train": whole.subset(~held_out), "dev": whole.subset(held_out)}
    else:
        parts = {split: load_srl(corpus, split) for split in ("train", "dev")}
    parts["test"] = load_srl(corpus, "test")
    return {split: data.subset(slice(limit)) for split, data in parts.items()}


@functools.lru_cache(maxsize=2)
def encoded(
    corpus: str, limit: int | None, features: str, n_train: int
) -> dict[str, tuple[Dataset, sp.csr_array]]:
    """All parts with the feature rows of their nodes; ``n_train`` training trees at random."""
    parts = dict(load(corpus, limit))
    order = np.random.default_rng(0).permutation(len(parts["train"]))
    parts["train"] = parts["train"].subset(order[:n_train])
    vocabulary = Vocabulary()
    found = {}
    for split, data in parts.items():  # the training part comes first
        rows = (row for tree in data.X for row in node_attributes(tree, features))
        encode = vocabulary.learn if split == "train" else vocabulary.encode
        found[split] = (data, encode(rows))
    return found


@functools.lru_cache(maxsize=1)
def samples(
    corpus: str, limit: int | None, structure: str, features: str, size: int, draw: int
) -> tuple[Samples, Samples, Samples]:
    """Graphs and labels of ``size`` training trees, and of the development and test trees.

    Draws are disjoint, as long as the training part has trees enough.
    """
    parts = encoded(corpus, limit, features, max(TABLE_SIZE, size))
    train, rows = parts["train"]
    last = min((draw + 1) * size, len(train))
    chosen = slice(max(last - size, 0), last)
    first_node = np.concatenate([[0], np.cumsum([tree.n_nodes for tree in train.X])])
    own_rows = rows[first_node[chosen.start] : first_node[chosen.stop]]
    # Columns that no training node uses have a weight of zero: leave them out.
    used = np.unique(own_rows.indices)
    cut = {"train": (train.subset(chosen), own_rows)}
    found = [
        (graphs(data.X, rows[:, used], structure), list(data.y))
        for data, rows in (parts | cut).values()
    ]
    return found[0], found[1], found[2]


# ----------------------------------------------------------------------------------------- pieces


def solve(settings: dict[str, Any], key: Key) -> Result:
    """Train on the trees of the key and label the test trees, for its cost or, a CRF, for all."""
    place = [key[name] for name in ("structure", "features", "size", "draw")]
    matrices = costs()
    wanted = matrices if key["model"] == "CRF" else {key["cost"]: matrices[key["cost"]]}
    return tuned(key["model"], wanted, *samples(settings["corpus"], settings["limit"], *place))


def keys_of(
    structure: str, features: str, size: int, wanted: Sequence[str], draw: int
) -> list[Key]:
    """One piece for each method; a CRF serves every cost."""
    place = {"structure": structure, "features": features, "size": size, "draw": draw}
    found = [place | {"model": "CRF", "cost": "all"}]
    for cost in wanted:
        found += [place | {"model": model, "cost": cost} for model in ("AGM", "SSVM")]
    return found


# ------------------------------------------------------------------------------------- evaluation


class Judge:
    """The test trees: what predictions cost, tree by tree, and their role F1."""

    def __init__(self, test: Dataset) -> None:
        self.truth = np.concatenate(list(test.y))
        self.tree = np.repeat(np.arange(len(test)), [len(labels) for labels in test.y])
        kind = np.concatenate([tree.kind for tree in test.X])
        self.candidate = (kind != PATH) & (kind != VERB)
        self.n_trees = len(test)

    def tree_costs(
        self, predicted: str, cost: np.ndarray, *, candidates: bool = False
    ) -> np.ndarray:
        """(n_trees,) with the mean cost per node as their mean."""
        counted = self.candidate if candidates else np.ones_like(self.candidate)
        paid = np.where(counted, cost[self.truth, decoded(predicted)], 0.0)
        per_tree = np.bincount(self.tree, weights=paid, minlength=self.n_trees)
        return per_tree * self.n_trees / counted.sum()

    def role_f1(self, predicted: str) -> float:
        """F1 of labelled arguments: every label but O and V."""
        labels = decoded(predicted)
        is_role, said_role = (~np.isin(y, NO_ROLE) for y in (self.truth, labels))
        right = (said_role & (labels == self.truth)).sum()
        return float(2 * right / max(is_role.sum() + said_role.sum(), 1))


@dataclass(frozen=True, eq=False)
class Cell:
    """The three methods on one task: costs per test tree (a mean over draws), F1, certificates."""

    costs: dict[str, np.ndarray]
    candidate_costs: dict[str, np.ndarray]
    f1: dict[str, float]
    fits: list[Result]


def cell(results: Sequence[Result], judge: Judge, place: Key) -> Cell:
    """All results of a task, draws joined."""
    cost = costs()[place["cost"]]
    at = ("structure", "features", "size")
    same = [result for result in results if all(result[name] == place[name] for name in at)]
    found = answers_of(same, place["cost"])

    def means(of: Callable[[str], Any]) -> dict[str, Any]:
        return {m: np.mean([of(line["predicted"]) for line in found[m]], axis=0) for m in METHODS}

    return Cell(
        means(lambda predicted: judge.tree_costs(predicted, cost)),
        means(lambda predicted: judge.tree_costs(predicted, cost, candidates=True)),
        {m: float(value) for m, value in means(judge.role_f1).items()},
        [line for lines in found.values() for line in lines],
    )


# ----------------------------------------------------------------------------------------- report


def run_table(experiment: Experiment, judge: Judge) -> tuple[list[Table], dict[str, Any]]:
    """Five orders, both structures."""
    args, settings = experiment.args, experiment.settings
    size = min(args.trees, settings["n_train"])
    orders = [f"order {seed}" for seed in range(args.orders)]
    keys = [key for s in STRUCTURES for key in keys_of(s, "full", size, orders, 0)]
    results = experiment.run(functools.partial(solve, settings), keys, "table")
    cells = {
        (structure, order): cell(
            results,
            judge,
            {"structure": structure, "features": "full", "size": size, "cost": order},
        )
        for structure in STRUCTURES
        for order in orders
    }
    fits = [fit for found in cells.values() for fit in found.fits]
    costs_table = Table(
        f"Table 2 on {settings['corpus']}: mean cost per node",
        ["structure, order", *METHODS, *COMPARED],
        [[", ".join(place), *shown_costs(found)] for place, found in cells.items()],
        f"{size} training trees, {judge.n_trees} test trees. Bold: the least cost, or not "
        f"significantly more. {convergence(fits)}",
    )
    detail_table = Table(
        "Candidates only (without path and verb): mean cost, and role F1 in %",
        ["structure, order", *METHODS, *(f"{m} F1" for m in METHODS)],
        [
            [", ".join(place), *(f"{found.candidate_costs[m].mean():.5f}" for m in METHODS)]
            + [f"{100 * found.f1[m]:.2f}" for m in METHODS]
            for place, found in cells.items()
        ],
    )
    report = [
        summary(found, dict(zip(("structure", "cost"), place, strict=True)))
        for place, found in cells.items()
    ]
    tables = [costs_table, detail_table, structures_table(cells, orders)]
    return tables, {"table": report}


def structures_table(cells: dict[tuple[str, str], Cell], orders: Sequence[str]) -> Table:
    """What the second structure changes, for each method, over all orders."""
    rows = []
    for model in METHODS:
        costs = {
            structure: np.mean([cells[structure, order].costs[model] for order in orders], axis=0)
            for structure in STRUCTURES
        }
        first, second = STRUCTURES
        rows.append(
            [model, *(f"{costs[s].mean():.5f}" for s in STRUCTURES)]
            + [shown_difference(costs, second, first)]
        )
    columns = ["model", *STRUCTURES, f"{second} - {first}"]
    return Table("Mean cost per node by structure, over the orders", columns, rows)


def run_map(experiment: Experiment, judge: Judge) -> tuple[list[Table], dict[str, Any]]:
    """Cost, training size and features."""
    args, settings = experiment.args, experiment.settings
    sizes = [size for size in args.sizes if size <= settings["n_train"]]
    keys = [
        key
        for size in sizes
        for features in FEATURES
        for draw in range(args.draws if size <= SMALL else 1)
        for key in keys_of(MAP_STRUCTURE, features, size, MAP_COSTS, draw)
    ]
    results = experiment.run(functools.partial(solve, settings), keys, "map")
    rows, report, fits, cells = [], [], [], {}
    for features in FEATURES:
        for cost in MAP_COSTS:
            for size in sizes:
                place = {"structure": MAP_STRUCTURE, "features": features, "size": size}
                found = cell(results, judge, place | {"cost": cost})
                cells[features, cost, size] = found
                rows.append([f"{features}, {cost}, {size}", *shown_costs(found)])
                report.append(summary(found, place | {"cost": cost}))
                fits += found.fits
    draw_map(cells, sizes, experiment)
    caption = (
        f"Mean cost per node and relative differences with 95 % intervals; structure "
        f"{MAP_STRUCTURE}. {convergence(fits)}"
    )
    columns = ["features, cost, trees", *METHODS, *COMPARED]
    return [Table("Where training for the cost pays", columns, rows, caption)], {"map": report}


def draw_map(cells: dict[Any, Cell], sizes: Sequence[int], experiment: Experiment) -> None:
    """What the others cost more than the CRF, over the number of training trees."""
    figure, axes = new_figure(len(FEATURES), len(MAP_COSTS), sharex=True, sharey="row")
    for row, features in enumerate(FEATURES):
        for column, cost in enumerate(MAP_COSTS):
            panel = axes[row, column]
            panel.axhline(0.0, color=LOOK["CRF"]["color"], linewidth=1)
            for nudge, other in ((0.96, "AGM"), (1.0, "SSVM"), (1.04, PREDICTOR)):
                lines = [
                    relative_difference(cells[features, cost, size].costs, "CRF", other)
                    for size in sizes
                ]
                middle, low, high = -np.array(lines).T
                panel.errorbar(
                    nudge * np.array(sizes),
                    middle,
                    [middle - high, low - middle],
                    label=other,
                    linewidth=1.2,
                    markersize=4,
                    capsize=2,
                    **LOOK[other],
                )
            panel.set_xscale("log")
            panel.set_xticks(sizes, [str(size) for size in sizes])
            panel.minorticks_off()
            panel.set_title(f"{cost}, {features} features", fontsize=9)
    for panel in axes[-1]:
        panel.set_xlabel("training trees", fontsize=8)
    for panel in axes[:, 0]:
        panel.set_ylabel("cost beyond the CRF's, %", fontsize=8)
    axes[0, 0].legend(fontsize=8, frameon=False)
    save(figure, experiment.figure_file)


def shown_costs(found: Cell) -> list[str]:
    """Mean costs, the best in bold, and relative differences with their intervals."""
    good = not_worse(found.costs)
    return [
        *(bold(f"{found.costs[m].mean():.5f}", m in good) for m in METHODS),
        *(shown_difference(found.costs, *pair) for pair in COMPARED.values()),
    ]


def summary(found: Cell, place: Key) -> dict[str, Any]:
    """A cell for the JSON file."""
    return place | {
        "cost_per_node": {m: float(found.costs[m].mean()) for m in METHODS},
        "cost_per_candidate": {m: float(found.candidate_costs[m].mean()) for m in METHODS},
        "role_f1": found.f1,
        "difference": {shown: difference(found.costs, *pair) for shown, pair in COMPARED.items()},
        "not_worse": sorted(not_worse(found.costs)),
        "fits": [{name: v for name, v in fit.items() if name != "predicted"} for fit in found.fits],
    }


# ------------------------------------------------------------------------------------------ speed


def run_speed(experiment: Experiment) -> tuple[list[Table], dict[str, Any]]:
    """AGM against SSVM on all trees."""
    keys: list[Key] = [{"speed": "all training trees"}]
    (result,) = experiment.run(functools.partial(race, experiment.settings), keys, "speed")
    rows = [
        [line["model"], f"{line['processor_s']:.1f}", f"{line['clock_s']:.1f}"]
        + [str(line["passes"]), f"{line['gap']:.1%}"]
        for line in result["lines"]
    ]
    ssvm, agm = (line["processor_s"] for line in result["lines"])
    caption = (
        f"{result['n_trees']} trees, alpha {SPEED_ALPHA:.2g}, structure {MAP_STRUCTURE}, cost "
        f"order 0, one thread, cold start, encoded features. AGM takes {agm / ssvm:.2f} times the "
        "SSVM's processor time; the bar is 2."
    )
    columns = ["model", "processor s", "clock s", "passes", "certified gap"]
    title = f"Training to a gap of {SPEED_GAP:.0%}"
    return [Table(title, columns, rows, caption)], {"speed": result}


def race(settings: dict[str, Any], key: Key) -> Result:
    """Time of both, after a small fit that compiles the kernels."""
    train = load(settings["corpus"], settings["limit"])["train"]
    rows = Vocabulary().learn(row for tree in train.X for row in node_attributes(tree))
    X, y = graphs(train.X, rows, MAP_STRUCTURE), list(train.y)
    cost = costs()["order 0"]
    lines = []
    for name in ("SSVM", "AGM"):
        parameters = {"alpha": SPEED_ALPHA, "tol": SPEED_GAP}
        new_model(name, cost, **parameters | {"max_iter": 2, "tol": 10.0}).fit(X[:50], y[:50])
        clock, processor = time.perf_counter(), time.process_time()
        model = new_model(name, cost, **parameters).fit(X, y)
        spent = {
            "clock_s": round(time.perf_counter() - clock, 2),
            "processor_s": round(time.process_time() - processor, 2),
        }
        lines.append({"model": name} | certificate(model) | spent)
    return {"lines": lines, "n_trees": len(X)}


PARTS = ("table", "map", "speed")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options("srl", __doc__)
    parser.add_argument("--corpus", choices=("ewt", "wsj"), default="ewt")
    parser.add_argument("--part", choices=PARTS, action="append", help="only this part")
    parser.add_argument("--trees", type=int, default=TABLE_SIZE, help="training trees of the table")
    parser.add_argument("--orders", type=int, default=N_ORDERS, choices=range(1, N_ORDERS + 1))
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="sizes of the map")
    parser.add_argument("--draws", type=int, default=N_DRAWS, help="of the map's small sizes")
    args = parser.parse_args(arguments)
    parts = load(args.corpus, args.limit)
    settings = {
        "corpus": args.corpus,
        "limit": args.limit,
        "n_train": len(parts["train"]),
        "tol": TOL,
        "max_iter": MAX_ITER,
    }
    experiment = Experiment(args, settings)
    judge = Judge(parts["test"])
    tables: list[Table] = []
    results: dict[str, Any] = {}
    for part in args.part or PARTS:
        if part == "speed":
            found, report = run_speed(experiment)
        else:
            found, report = (run_table if part == "table" else run_map)(experiment, judge)
        tables += found
        results |= report
    experiment.report(tables, results)


if __name__ == "__main__":
    main()
