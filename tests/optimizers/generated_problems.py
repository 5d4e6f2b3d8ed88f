"""Training problems of all sizes of numbers, and their optima by generic convex solvers.

All labellings of every sample are listed (`Enumerated`), columns of features are brought to size 1
and objectives to the size of costs, so that a generic solver has no trouble with numbers that are
large or small. What it finds is certified by bounds of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import logsumexp
from training_cases import Case, Enumerated, quadratic_program, random_case

from robustruct import AGM, CRF, SSVM
from robustruct.graphs import Graph

MEMBERS: dict[str, tuple[type[Any], str]] = {
    "AGM": (AGM, "free"),
    "SSVM": (SSVM, "truth"),
    "CRF": (CRF, "nobody"),
}


@dataclass(frozen=True, eq=False)
class Generated:
    """A member of the family and the samples that it is to be trained on."""

    member: str
    temperature: float
    """As users give it; the CRF has none."""
    case: Case
    """Its costs are 0 on the diagonal."""

    def model(self, **options: Any) -> Any:
        """The estimator, not fitted."""
        kind, _ = MEMBERS[self.member]
        if self.member != "CRF":
            options["temperature"] = self.temperature
        return kind(self.case.cost, alpha=self.case.alpha, random_state=0, **options)

    def fitted(self, **options: Any) -> Any:
        """The estimator, fitted on sparse features, which are taken as they are."""
        case = self.case
        graphs = [
            Graph(sp.csr_array(graph.node_features), graph.edges, graph.edge_features)
            for graph in case.graphs
        ]
        weights = () if self.member == "CRF" else (case.node_weight or None,)
        own = self.model(standardize=False, **options)  # as are edge features, which are dense
        return own.fit(graphs, case.y, case.sample_weight, *weights)


@st.composite
def generated(draw: Any, member: str, temperature: float, most: float = 3.0) -> Generated:
    """Features, costs and weights between 10 to the -``most`` and to the ``most``."""

    def size(largest: float) -> float:
        return float(10.0 ** draw(st.floats(-largest, largest)))

    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    k = draw(st.integers(2, 3))
    n_features = draw(st.integers(1, 2))
    case = random_case(
        seed,
        sizes=(3, *draw(st.lists(st.integers(1, 3), max_size=4))),
        n_labels=k,
        n_features=n_features,
        n_edge_features=draw(st.integers(0, 1)),
        tree=True,
        weighted=draw(st.booleans()),
        cost=(1.0 - np.eye(k)) * rng.uniform(1.0, draw(st.sampled_from([1.0, 3.0, 30.0])), (k, k)),
    )
    case.y[0][:k] = np.arange(k)  # all labels occur
    columns = np.array([size(most) for _ in range(n_features)])
    shift = draw(st.sampled_from([0.0, 1.0, 10.0]))
    graphs = [
        Graph((graph.node_features + shift) * columns, graph.edges, graph.edge_features)
        for graph in case.graphs
    ]
    cost = size(most)
    case = replace(case, graphs=graphs, cost=cost * case.cost)
    # The penalty is relative to what features and costs are: any other is far from all data.
    scores = np.mean(columns) ** 2 / (1.0 if member == "CRF" else cost)
    case = case.with_alpha(float(scores * size(2) / 10.0))
    if case.sample_weight is not None:
        case = replace(case, sample_weight=case.sample_weight * size(most))
        case = replace(case, node_weight=[size(1) * weight for weight in case.node_weight])
    return Generated(member, temperature, case)


class Reference:
    """The optimum in units of its own: columns of size 1, costs or temperatures of size 1."""

    def __init__(self, made: Generated, temperature: float) -> None:
        """``temperature`` in the units of the cost."""
        self.case, self.all = made.case, Enumerated(made.case)
        _, self.player = MEMBERS[made.member]
        priced = self.player != "nobody"
        weight = max(float(np.max(np.concatenate(self.case.weights))), 1e-300)
        self.unit = max(temperature, float(self.case.cost.max()) * weight if priced else 0.0)
        self.T = temperature / self.unit
        self.features = [
            found - truth for found, truth in zip(self.all.features, self.all.truth, strict=True)
        ]
        size = np.max([np.abs(rows).max(axis=0) for rows in self.features], axis=0)
        size[size == 0.0] = 1.0
        self.features = [rows / size for rows in self.features]
        self.penalty = self.case.alpha * self.unit / size**2
        k = self.case.n_labels
        self.at = []  # hits of every labelling times node weights and costs: (labellings, n, k)
        for s, y in enumerate(self.all.labellings):
            costs = self.case.cost[y] if priced else np.zeros((*y.shape, k))
            self.at.append(self.case.weights[s][:, None] * costs / self.unit)
        self.possible = [self.all.possible(s) for s in range(len(self.at))]
        self.sizes = [len(labels) for labels in self.case.y]

    @property
    def free(self) -> bool:
        return self.player == "free"

    def _players(self, p: np.ndarray) -> list[np.ndarray]:
        """The predictor of every sample, (n, k)."""
        if self.free:
            return np.split(p.reshape(-1, self.case.n_labels), np.cumsum(self.sizes)[:-1])
        return [np.eye(self.case.n_labels)[labels] for labels in self.case.y]

    def _costs(self, s: int, p: np.ndarray) -> np.ndarray:
        if self.player == "truth":
            return self.all.hinge_costs(s) / self.unit
        return np.einsum("yik,ik->y", self.at[s], p)

    def primal(self, u: np.ndarray, p: np.ndarray) -> tuple[float, np.ndarray]:
        """(the smooth objective, its gradient in u and p)."""
        value, slope, slopes = 0.5 * float(self.penalty @ u**2), self.penalty * u, []
        for s, (share, player) in enumerate(zip(self.case.share, self._players(p), strict=True)):
            x = (self.features[s] @ u + self._costs(s, player)) / self.T
            log_z = float(logsumexp(x))
            q = np.exp(x - log_z)
            value += share * self.T * log_z
            slope = slope + share * (q @ self.features[s])
            slopes.append(share * np.einsum("y,yik->ik", q, self.at[s]).ravel())
        return value, np.concatenate([slope, *slopes]) if self.free else slope

    def hinge(self, u: np.ndarray, p: np.ndarray) -> float:
        """The objective at T = 0."""
        players = self._players(p)
        regrets = [
            (self.features[s] @ u + self._costs(s, player)).max()
            for s, player in enumerate(players)
        ]
        return 0.5 * float(self.penalty @ u**2) + float(self.case.share @ regrets)

    def dual(self, mixtures: list[np.ndarray]) -> float:
        """What distributions over labellings prove from below."""
        gains, moments = [], np.zeros(len(self.penalty))
        for s, (share, q) in enumerate(zip(self.case.share, mixtures, strict=True)):
            gain = -self.T * float(np.sum(q[q > 0] * np.log(q[q > 0])))
            if self.free:
                answers = np.einsum("y,yik->ik", q, self.at[s])
                answers[~self.possible[s]] = np.inf
                gain += float(answers.min(axis=1).sum())
            elif self.player == "truth":
                gain += float(q @ self._costs(s, q))
            gains.append(gain)
            moments += share * (q @ self.features[s])
        return float(self.case.share @ gains) - 0.5 * float(np.sum(moments**2 / self.penalty))

    def optimum(self) -> tuple[float, float]:
        """(lower, upper) bound, in the units of the case."""
        lower, upper = self._game() if self.T == 0.0 else self._smooth()
        return lower * self.unit, upper * self.unit

    def untrained(self) -> float:
        """The objective at weights of 0, with a predictor that prefers no label."""
        n, k = sum(self.sizes), self.case.n_labels
        u, even = np.zeros(len(self.penalty)), np.full(n * k, 1.0 / k)
        value = self.hinge(u, even) if self.T == 0.0 else self.primal(u, even)[0]
        return value * self.unit

    def _smooth(self) -> tuple[float, float]:
        d, n = len(self.penalty), sum(self.sizes)
        possible = np.concatenate(self.possible)
        even = (possible / possible.sum(axis=1, keepdims=True)).ravel()
        # Far down the valley of a weak penalty curvatures differ by it: bring these to 1 too.
        curved = sum(
            share * np.mean(rows**2, axis=0) / self.T
            for share, rows in zip(self.case.share, self.features, strict=True)
        )
        metric = 1.0 / np.sqrt(self.penalty + curved)
        scale = np.concatenate([metric, np.ones(len(even))]) if self.free else metric

        def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = self.primal((x * scale)[:d], (x * scale)[d:])
            return value, slope * scale

        if self.free:
            sums = np.zeros((n, d + len(even)))
            for i, row in enumerate(sums):
                row[d + i * self.case.n_labels : d + (i + 1) * self.case.n_labels] = 1.0
            found = minimize(
                objective, np.concatenate([np.zeros(d), even]), jac=True, method="SLSQP",
                bounds=[(None, None)] * d + [(0.0, float(one)) for one in possible.ravel()],
                constraints={"type": "eq", "fun": lambda x: sums @ x - 1.0, "jac": lambda x: sums},
                options={"ftol": 1e-15, "maxiter": 3000},
            ).x * scale  # fmt: skip
            p = np.maximum(found[d:], 0.0).reshape(n, -1)
            u, p = found[:d], (p / p.sum(axis=1, keepdims=True)).ravel()
        else:
            options = {"maxiter": 20_000, "maxfun": 20_000, "ftol": 1e-16, "gtol": 1e-12}
            found = minimize(
                objective, np.zeros(d), jac=True, method="L-BFGS-B",
                options={**options, "maxcor": 30},
            ).x  # fmt: skip
            u, p = found * scale, np.zeros(0)
        mixtures = []
        for s, player in enumerate(self._players(p)):
            x = (self.features[s] @ u + self._costs(s, player)) / self.T
            mixtures.append(np.exp(x - logsumexp(x)))
        return self.dual(mixtures), self.primal(u, p)[0]

    def _game(self) -> tuple[float, float]:
        """At T = 0: variables u, ξ_s, p; ξ_s >= u·(Φ_s(y) − Φ_s(y_s)) + cost_s(y; p) for all y."""
        d, n_samples, k = len(self.penalty), len(self.sizes), self.case.n_labels
        n_p = k * sum(self.sizes) if self.free else 0
        starts = d + n_samples + k * np.concatenate([[0], np.cumsum(self.sizes)])
        rows, least = [], []
        for s, features in enumerate(self.features):
            block = np.zeros((len(features), d + n_samples + n_p))
            block[:, :d], block[:, d + s] = -features, 1.0
            if self.free:
                block[:, starts[s] : starts[s + 1]] = -self.at[s].reshape(len(features), -1)
            rows.append(block)
            least.append(np.zeros(len(features)) if self.free else self._costs(s, np.zeros(0)))
        n_cuts, n_sums = sum(map(len, least)), n_p // k
        sums = np.zeros((n_sums, d + n_samples + n_p))
        for i, row in enumerate(sums):
            row[d + n_samples + i * k : d + n_samples + (i + 1) * k] = 1.0
        x, multipliers = quadratic_program(
            np.concatenate([self.penalty, np.zeros(n_samples + n_p)]),
            np.concatenate([np.zeros(d), self.case.share, np.zeros(n_p)]),
            np.vstack([*rows, sums]),
            np.concatenate([*least, np.ones(n_sums)]),
            np.concatenate([np.full(n_cuts, np.inf), np.ones(n_sums)]),
            np.concatenate([np.full(d + n_samples, -np.inf), np.zeros(n_p)]),
        )
        p = np.maximum(x[d + n_samples :], 0.0).reshape(-1, k)
        p = (p / p.sum(axis=1, keepdims=True)).ravel() if self.free else np.zeros(0)
        ends = np.cumsum([len(block) for block in rows])[:-1]
        mixtures = [
            np.maximum(some, 1e-300) / np.maximum(some, 1e-300).sum()
            for some in np.split(multipliers[:n_cuts], ends)
        ]
        return self.dual(mixtures), self.hinge(x[:d], p)
