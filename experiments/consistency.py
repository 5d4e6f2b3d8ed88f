"""Fisher consistency made visible: does the risk go to the Bayes risk as the sample grows?

Labels are drawn from known distributions without a majority; the features are indicators of input,
place and label (and of pairs of labels on edges), so that every model can represent every decision.
The penalty is alpha = 1 / n for all three models. Risks are exact: each model labels every
input, and the expected cost under the true distribution is summed over all labellings. The row
"exact" trains on the true distribution itself, with alpha = 1e-4.

AGM and CRF (with its Bayes decision) are consistent for every cost. Max-margin training is
consistent for one node when the cost is the distance on a tree, such as the absolute loss, and not
for the zero-one loss of three labels or for unequal costs of two (Nowak-Vila et al., 2022).
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from protocol import (
    KINDS,
    Experiment,
    Key,
    Result,
    certificate,
    mean_and_error,
    options,
    worst_gaps,
)
from robustruct import Graph
from robustruct.losses import CostMatrix
from tables import LOOK, MODELS, Table, bold, new_figure, save

SIZES = (10, 30, 100, 300, 1000, 3000, 10_000, 30_000)
EXACT, EXACT_ALPHA = 0, 1e-4  # the "size" of training on the distribution itself
N_INPUTS = 6
TOL = {"AGM": 1e-3, "CRF": 1e-6, "SSVM": 1e-3}
MAX_ITER = 20_000
MARGIN = 0.05  # of the Bayes label over the second, in units of the largest cost

ZERO_ONE = 1.0 - np.eye(3)
ABSOLUTE = np.abs(np.subtract.outer(np.arange(3.0), np.arange(3.0)))
MISSED = np.array([[0.0, 1.0], [5.0, 0.0]])  # label 1 missed costs five times a false alarm
TRIAGE = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 1.0], [6.0, 3.0, 0.0]])  # too low costs thrice


@dataclass(frozen=True, eq=False)
class Case:
    """A family of label distributions: a graph, and a cost of mistakes."""

    title: str
    cost: np.ndarray
    """(k, k) [true, predicted]."""
    n_nodes: int
    edges: tuple[tuple[int, int], ...]
    ssvm: str
    """What is known of max-margin training here."""
    seed: int = 0

    @property
    def n_labels(self) -> int:
        return len(self.cost)

    @functools.cached_property
    def labellings(self) -> np.ndarray:
        """(n_labels ** n_nodes, n_nodes)"""
        return np.array(list(product(range(self.n_labels), repeat=self.n_nodes)))

    @functools.cached_property
    def truth(self) -> np.ndarray:
        """(N_INPUTS, labellings) distributions: every labelling possible, no label of a node a
        majority (for two labels: none certain), and a Bayes label clearly best on every node."""
        rng = np.random.default_rng(self.seed)
        drawn = []
        while len(drawn) < N_INPUTS:
            p = rng.dirichlet(np.ones(len(self.labellings)))
            marginals = self.marginals(p)
            risks = np.sort(marginals @ self.cost, axis=1)
            clear = (risks[:, 1] - risks[:, 0]).min() > MARGIN * self.cost.max()
            largest = 0.5 if self.n_labels > 2 else 0.9
            if clear and marginals.max() < largest and p.min() > 0.1 / len(p):
                drawn.append(p)
        return np.array(drawn)

    def marginals(self, p: np.ndarray) -> np.ndarray:
        """(n_nodes, n_labels) of a distribution over labellings."""
        indicators = self.labellings[:, :, None] == np.arange(self.n_labels)
        return np.einsum("y,yia->ia", p, indicators)

    def graph(self, x: int) -> Graph:
        """Input x: indicators of the input and the place, on nodes and edges."""
        nodes = np.zeros((self.n_nodes, N_INPUTS * self.n_nodes))
        nodes[np.arange(self.n_nodes), x * self.n_nodes + np.arange(self.n_nodes)] = 1.0
        m = len(self.edges)
        if m == 0:
            return Graph(nodes, np.empty((0, 2), int))
        edges = np.zeros((m, N_INPUTS * m))
        edges[np.arange(m), x * m + np.arange(m)] = 1.0
        return Graph(nodes, np.array(self.edges), edges)

    def risk(self, labels: list[np.ndarray]) -> float:
        """Exact expected cost per node of one labelling for each input, all equally likely."""
        per_input = [
            np.mean((self.cost[:, y].T * self.marginals(p)).sum(axis=1))
            for y, p in zip(labels, self.truth, strict=True)
        ]
        return float(np.mean(per_input))

    @functools.cached_property
    def bayes_risk(self) -> float:
        """The least risk of all labellings of each input, by enumeration."""
        totals = []
        for p in self.truth:
            marginals = self.marginals(p)
            costs = [(self.cost[:, y].T * marginals).sum(axis=1).mean() for y in self.labellings]
            totals.append(min(costs))
        return float(np.mean(totals))


CHAIN, STAR = ((0, 1), (1, 2)), ((0, 1), (0, 2), (0, 3))
CASES = {
    "node zero-one": Case("one node, zero-one", ZERO_ONE, 1, (), "inconsistent"),
    "node absolute": Case("one node, absolute", ABSOLUTE, 1, (), "consistent"),
    "node missed": Case("one node, a miss costs 5", MISSED, 1, (), "inconsistent"),
    "chain zero-one": Case("chain of 3, zero-one", ZERO_ONE, 3, CHAIN, "inconsistent"),
    "chain triage": Case("chain of 3, asymmetric", TRIAGE, 3, CHAIN, "inconsistent"),
    "tree triage": Case("tree of 4, asymmetric", TRIAGE, 4, STAR, "inconsistent"),
}


def trained_risk(key: Key) -> Result:
    """Train on a sample (labellings with their counts) and sum up the risk exactly."""
    case, n = CASES[key["case"]], key["n"]
    if n == EXACT:
        shares, alpha = case.truth / N_INPUTS, EXACT_ALPHA
    else:
        rng = np.random.default_rng([key["seed"], n])
        flat = rng.multinomial(n, case.truth.ravel() / N_INPUTS)
        shares, alpha = flat.reshape(case.truth.shape) / n, 1 / n
    seen = np.argwhere(shares > 0)
    graphs = [case.graph(x) for x in range(N_INPUTS)]
    name = key["model"]
    model = KINDS[name](
        CostMatrix(case.cost, labels=np.arange(case.n_labels)),
        alpha=alpha,
        tol=TOL[name],
        max_iter=MAX_ITER,
        standardize=False,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the report counts them
        model.fit(
            [graphs[x] for x, _ in seen],
            [case.labellings[y] for _, y in seen],
            sample_weight=shares[shares > 0],
        )
    return {"risk": case.risk(model.predict(graphs))} | certificate(model)


# --------------------------------------------------------------------------------------- report


def risks_of(results: list[Result]) -> dict[tuple[str, str, int], list[float]]:
    """The risks of all repetitions, by case, model and size."""
    risks: dict[tuple[str, str, int], list[float]] = {}
    for result in results:
        place = result["case"], result["model"], result["n"]
        risks.setdefault(place, []).append(result["risk"])
    return risks


def table_of_regrets(risks: dict, sizes: list[int], caption: str) -> Table:
    """Risk above the Bayes risk for the largest size and in the limit."""
    shown = {f"n = {sizes[-1]:,}": sizes[-1], "exact": EXACT}
    columns = ["case", "max-margin", "Bayes risk"]
    columns += [f"{name}, {label}" for label in shown for name in MODELS]
    rows = []
    for key, case in CASES.items():
        row = [case.title, case.ssvm, f"{case.bayes_risk:.3f}"]
        for n in shown.values():
            for name in MODELS:
                regret = round(np.mean(risks[key, name, n]) - case.bayes_risk, 9) + 0.0  # no -0
                row.append(bold(f"{regret:+.3f}", regret < 5e-4))
        rows.append(row)
    return Table("Risk above the Bayes risk", columns, rows, caption)


def draw(risks: dict, sizes: list[int], file: Any) -> None:
    """Risk against sample size; the last mark is training on the distribution itself."""
    figure, axes = new_figure(2, 3)
    last = sizes[-1] * 6
    for panel, (key, case) in zip(axes.flat, CASES.items(), strict=True):
        panel.axhline(case.bayes_risk, color="0.3", linestyle="--", linewidth=1)
        for name in MODELS:
            found = [mean_and_error(risks[key, name, n]) for n in sizes]
            means, errors = np.array(found).T
            panel.errorbar(
                sizes, means, errors, label=name, markersize=4, linewidth=1, **LOOK[name]
            )
            exact = np.mean(risks[key, name, EXACT])
            panel.plot([last], [exact], clip_on=False, markersize=7, **LOOK[name])
        panel.set_xscale("log")
        panel.minorticks_off()  # nine tenths of the file would be ticks
        panel.axvline(last / 2.4, color="0.85", linewidth=1)
        panel.set_title(f"{case.title} (SSVM {case.ssvm})", fontsize=8)
    for panel in axes[:, 0]:
        panel.set_ylabel("risk", fontsize=8)
    for panel in axes[-1]:
        panel.set_xlabel("training samples; far right: exact", fontsize=8)
    axes[0, 0].legend(fontsize=8, frameon=False)
    figure.suptitle("Risk under the true distribution; dashed: Bayes risk", fontsize=9)
    save(figure, file)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options("consistency", __doc__)
    parser.add_argument("--seeds", type=int, default=10, help="repetitions of every size")
    args = parser.parse_args(arguments)
    sizes = [n for n in SIZES if args.limit is None or n <= args.limit] or [SIZES[0]]
    experiment = Experiment(args, {"tol": TOL, "max_iter": MAX_ITER, "exact_alpha": EXACT_ALPHA})
    results = experiment.run(
        trained_risk,
        [
            {"case": key, "model": name, "n": n, "seed": seed}
            for n in (EXACT, *reversed(sizes))
            for seed in (range(args.seeds) if n != EXACT else [0])
            for name in MODELS
            for key in CASES
        ],
        "training",
    )
    risks = risks_of(results)
    draw(risks, sizes, experiment.figure_file)
    caption = (
        f"Means over {args.seeds} samples; in bold: less than 0.0005. "
        "Whether max-margin training is consistent is what theory says. "
        f"Certified: {worst_gaps(results)}."
    )
    experiment.report(
        [table_of_regrets(risks, sizes, caption)],
        {
            "bayes_risk": {key: case.bayes_risk for key, case in CASES.items()},
            "mean_risk": [
                {"case": case, "model": name, "n": n, "risk": float(np.mean(values))}
                for (case, name, n), values in risks.items()
            ],
            "fits": results,
        },
    )


if __name__ == "__main__":
    main()
