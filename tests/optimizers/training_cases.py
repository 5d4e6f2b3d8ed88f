"""Small training problems, and their optima straight from the definitions.

`Enumerated` lists every allowed labelling of every sample with its features and its cost, in the
user's order of nodes and edges, and shares no code with the library. Its optima are certified by
bounds of their own, so that a failure of the generic solver cannot pass as an answer.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from scipy.linalg import LinAlgWarning, lu_factor, lu_solve
from scipy.optimize import minimize
from scipy.special import logsumexp

from robustruct.constraints import TransitionMasks
from robustruct.features import FeatureSpace
from robustruct.graphs import Graph
from robustruct.objectives.adversarial import Problem
from robustruct.optimizers.certificates import Progress
from robustruct.optimizers.dual_ascent import CentredAscent, fit_ascent
from robustruct.optimizers.dual_variables import DualVariables
from robustruct.optimizers.local_shards import LocalShards
from robustruct.testing.oracles import full_game_value


@dataclass(frozen=True, eq=False)
class Case:
    """Graphs with dense features, and what it costs to label them wrongly."""

    graphs: list[Graph]
    y: list[np.ndarray]
    """Label codes 0..k-1 of each sample."""
    cost: np.ndarray
    """(k, k) [true, predicted]."""
    alpha: float = 0.1
    node_weight: list[np.ndarray] = field(default_factory=list)
    sample_weight: np.ndarray | None = None
    forbidden: tuple[tuple[int, int], ...] = ()

    @property
    def n_labels(self) -> int:
        return len(self.cost)

    @property
    def share(self) -> np.ndarray:
        weight = np.ones(len(self.y)) if self.sample_weight is None else self.sample_weight
        return weight / weight.sum()

    @property
    def weights(self) -> list[np.ndarray]:
        return self.node_weight or [np.ones(len(labels)) for labels in self.y]

    def with_alpha(self, alpha: float) -> Case:
        return replace(self, alpha=alpha)

    def problem(self, *, hinge: bool = False, n_jobs: int | None = 1) -> Problem:
        """As the estimators pose it; ``hinge`` for the structured SVM."""
        _, design = FeatureSpace.fit(self.graphs)
        batch = design.batch
        cost = self.cost if hinge else self.cost.T
        return Problem(
            design,
            np.ascontiguousarray(batch.from_user(np.concatenate(self.y))),
            np.ascontiguousarray(cost, float),
            np.ascontiguousarray(batch.from_user(np.concatenate(self.weights))),
            self.share,
            self.alpha,
            TransitionMasks.build(range(self.n_labels), self.forbidden),
            hinge,
            n_jobs,
        )


def random_case(
    seed: int,
    *,
    sizes: tuple[int, ...] = (3, 2, 3, 1, 2),
    n_labels: int = 3,
    n_features: int = 2,
    n_edge_features: int = 1,
    tree: bool = False,
    cycle: bool = False,
    cost: Any = None,
    weighted: bool = False,
    forbidden: tuple[tuple[int, int], ...] = (),
    **options: Any,
) -> Case:
    """Random features with some signal. A tree has its edges in any order and direction.

    With ``cycle``, a few more edges close cycles in samples of more than three nodes.
    """
    rng = np.random.default_rng(seed)
    k = n_labels
    means = rng.normal(size=(k, n_features))
    graphs, y = [], []
    for n in sizes:
        edges = [(i, int(rng.integers(i)) if tree else i - 1) for i in range(1, n)]
        edges = [pair if tree and rng.random() < 0.5 else pair[::-1] for pair in edges]
        if cycle and n > 3:
            known = {frozenset(pair) for pair in edges}
            more = [(n - 1, 0), (1, n - 1), (0, 2)]
            edges += [pair for pair in more if frozenset(pair) not in known]
        if tree:
            edges = [edges[i] for i in rng.permutation(len(edges))]
        labels = rng.integers(k, size=n)
        while any((labels[i], labels[j]) in forbidden for i, j in edges):
            labels = rng.integers(k, size=n)
        rows = means[labels] + 1.5 * rng.normal(size=(n, n_features))
        edge_rows = rng.normal(size=(len(edges), n_edge_features)) if n_edge_features else None
        graphs.append(Graph(rows, edges, edge_rows))
        y.append(labels)
    if weighted:
        options["node_weight"] = [rng.uniform(0.2, 2.0, n) for n in sizes]
        options["node_weight"][0][0] = 0.0
        options["sample_weight"] = rng.uniform(0.5, 2.0, len(sizes))
    matrix = 1.0 - np.eye(k) if cost is None else np.asarray(cost, float)
    return Case(graphs, y, matrix, forbidden=forbidden, **options)


ABSOLUTE = np.abs(np.subtract.outer(np.arange(3.0), np.arange(3.0)))
ASYMMETRIC = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 0.3], [1.0, 0.5, 0.1]])

CASES = {
    "chains": random_case(0, sizes=(3, 2, 3, 1, 2, 3, 3), alpha=0.3),
    "chains, plain transitions": random_case(1, n_edge_features=0, alpha=1.0),
    "chains, absolute, weighted": random_case(2, cost=ABSOLUTE, weighted=True, alpha=0.03),
    "chains, asymmetric": random_case(3, cost=ASYMMETRIC, alpha=0.01),
    "trees": random_case(4, sizes=(4, 3, 4, 1), tree=True),
    "trees, asymmetric, weighted": random_case(
        5, sizes=(4, 4, 3, 2), tree=True, cost=ASYMMETRIC, weighted=True, alpha=0.05
    ),
    "trees, squared, strong penalty": random_case(
        6, sizes=(4, 4, 3), tree=True, cost=ABSOLUTE**2, alpha=3.0
    ),
    "two labels": random_case(
        7, sizes=(5, 4, 1, 5), n_labels=2, tree=True, cost=[[0.0, 1.0], [4.0, 0.0]], weighted=True
    ),
    "chains, forbidden": random_case(
        9, sizes=(4, 3, 3, 2, 4), forbidden=((0, 1), (2, 2)), weighted=True, alpha=0.2
    ),
    "trees, forbidden, asymmetric": random_case(
        10, sizes=(4, 4, 3), tree=True, forbidden=((1, 0),), cost=ASYMMETRIC, n_edge_features=0
    ),
    "cycles": random_case(12, sizes=(4, 5, 4), n_labels=2, cycle=True, alpha=0.1),
    "cycles, asymmetric, weighted": random_case(
        13, sizes=(4, 3, 4), cycle=True, tree=True, cost=ASYMMETRIC, weighted=True, alpha=0.05
    ),
    "cycles, forbidden": random_case(
        14, sizes=(4, 4, 2), cycle=True, forbidden=((1, 0),), n_edge_features=0, alpha=0.2
    ),
    # Label 1, the best answer where 0 and 2 are as likely, cannot occur where an edge enters.
    "chains, impossible labels": random_case(
        15, sizes=(3, 2, 3, 1, 3), forbidden=((0, 1), (1, 1), (2, 1)), cost=ABSOLUTE**2, alpha=0.1
    ),
    "cycles, impossible labels": random_case(
        16,
        sizes=(4, 3, 4),
        cycle=True,
        tree=True,
        forbidden=((0, 1), (1, 1), (2, 1)),
        cost=ABSOLUTE**2,
        alpha=0.1,
    ),
    "four labels, one node": random_case(8, sizes=(1,) * 8, n_labels=4, n_edge_features=0),
}


def with_constant(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Node and edge features, each with a last column of ones."""
    rows = np.hstack([graph.node_features, np.ones((graph.n_nodes, 1))])
    edge_rows = np.ones((graph.n_edges, 1))
    if graph.edge_features is not None:
        edge_rows = np.hstack([graph.edge_features, edge_rows])
    return rows, edge_rows


def sample_features(graph: Graph, y: np.ndarray, n_labels: int) -> np.ndarray:
    """Φ(y): node features and a bias by label, edge features and a constant by pair of labels."""
    k = n_labels
    rows, edge_rows = with_constant(graph)
    nodes = np.zeros((rows.shape[1], k))
    edges = np.zeros((edge_rows.shape[1], k, k))
    for i, label in enumerate(y):
        nodes[:, label] += rows[i]
    for e, (i, j) in enumerate(graph.edges):
        edges[:, y[i], y[j]] += edge_rows[e]
    return np.concatenate([nodes.ravel(), edges.ravel()])


@cache
def enumerated(name: str) -> Enumerated:
    return Enumerated(CASES[name])


@cache
def optimum(name: str, hinge: bool) -> tuple[float, float, np.ndarray]:
    """(lower, upper, θ) of a case; the bounds agree, or the test that asks may not trust them."""
    lower, upper, theta = enumerated(name).optimum(hinge=hinge)
    assert lower <= upper <= lower + 1e-7 * upper
    return lower, upper, theta


def fitted(
    problem: Problem,
    *,
    tol: float = 1e-6,
    seed: int = 0,
    max_iter: int = 3000,
    check_every: int | None = None,
) -> tuple[Progress, CentredAscent]:
    """A fit by pairwise ascent."""
    progress = Progress(problem, tol, check_every=check_every)
    ascent = CentredAscent(LocalShards.of(problem))
    fit_ascent(ascent, progress, max_iter, seed)
    return progress, ascent


def blocks_of(ascent: CentredAscent) -> DualVariables:
    """The dual blocks of all samples."""
    return ascent.shards.shards[0].dual


class Enumerated:
    """Every allowed labelling of every sample."""

    def __init__(self, case: Case) -> None:
        self.case = case
        k = case.n_labels
        self.labellings, self.features, self.truth = [], [], []
        for graph, labels in zip(case.graphs, case.y, strict=True):
            allowed = [
                y
                for y in product(range(k), repeat=graph.n_nodes)
                if not any((y[i], y[j]) in case.forbidden for i, j in graph.edges)
            ]
            self.labellings.append(np.array(allowed))
            self.features.append(np.array([sample_features(graph, y, k) for y in allowed]))
            self.truth.append(sample_features(graph, labels, k))
        self.n_weights = len(self.truth[0])
        self.n_node_weights = with_constant(case.graphs[0])[0].shape[1] * k

    def costs(self, s: int, p: np.ndarray) -> np.ndarray:
        """Σ_i w_i p_i' cost[y_i] of every labelling of sample s, for a predictor p (n, k)."""
        expected = self.case.weights[s][:, None] * (p @ self.case.cost.T)
        y = self.labellings[s]
        return expected[np.arange(y.shape[1]), y].sum(axis=1)

    def hinge_costs(self, s: int) -> np.ndarray:
        """Σ_i w_i cost[true label, y_i] of every labelling of sample s."""
        y = self.labellings[s]
        return (self.case.weights[s] * self.case.cost[self.case.y[s], y]).sum(axis=1)

    # ---- bounds by definition

    def marginals(self, s: int, mixture: np.ndarray) -> np.ndarray:
        """(n, k) node marginals of a mixture of the labellings of sample s."""
        hits = self.labellings[s][:, :, None] == np.arange(self.case.n_labels)
        return (mixture[:, None, None] * hits).sum(axis=0)

    def possible(self, s: int) -> np.ndarray:
        """(n, k) bool, the labels that some allowed labelling of sample s has."""
        return (self.labellings[s][:, :, None] == np.arange(self.case.n_labels)).any(axis=0)

    def moments(self, mixtures: list[np.ndarray]) -> np.ndarray:
        """Σ_s share_s (Φ_s(y_s) − Φ_s(mixture))."""
        return sum(
            share * (self.truth[s] - mixtures[s] @ self.features[s])
            for s, share in enumerate(self.case.share)
        )

    def primal(self, theta: np.ndarray, p: list[np.ndarray] | None) -> float:
        """The objective at θ, with the predictor p or (None) the hinge loss of an SVM."""
        total = 0.5 * self.case.alpha * float(theta @ theta)
        for s, share in enumerate(self.case.share):
            costs = self.hinge_costs(s) if p is None else self.costs(s, p[s])
            regret = (self.features[s] - self.truth[s]) @ theta + costs
            total += share * float(regret.max())
        return total

    def dual(self, mixtures: list[np.ndarray], hinge: bool) -> float:
        """What mixtures of labellings, one per sample, prove from below."""
        case, gain = self.case, 0.0
        for s, (share, mixture) in enumerate(zip(case.share, mixtures, strict=True)):
            if hinge:
                gain += share * float(mixture @ self.hinge_costs(s))
            else:
                answers = self.marginals(s, mixture) @ case.cost
                answers[~self.possible(s)] = np.inf
                gain += share * float(case.weights[s] @ answers.min(axis=1))
        moments = self.moments(mixtures)
        return gain - float(moments @ moments) / (2 * case.alpha)

    def objective(self, theta: np.ndarray) -> float:
        """The AGM's objective at θ, each game solved as a linear program over both players."""
        case, k = self.case, self.case.n_labels
        total = 0.5 * case.alpha * float(theta @ theta)
        cut = self.n_node_weights
        for s, graph in enumerate(case.graphs):
            rows, edge_rows = with_constant(graph)
            unary = rows @ theta[:cut].reshape(-1, k)
            pairwise = np.einsum("el,lab->eab", edge_rows, theta[cut:].reshape(-1, k, k))
            for a, b in case.forbidden:
                pairwise[:, a, b] = -np.inf
            value = full_game_value(unary, graph.edges, pairwise, case.cost, case.weights[s])
            total += case.share[s] * (value - float(self.truth[s] @ theta))
        return total

    # ---- optima by generic solvers

    def optimum(self, *, hinge: bool = False) -> tuple[float, float, np.ndarray]:
        """(lower, upper, θ) of the AGM or (``hinge``) the SVM, by a quadratic program.

        Variables θ, ξ_s and p; constraints ξ_s >= θ·(Φ_s(y) − Φ_s(y_s)) + cost_s(y; p) for all y,
        and p = 0 on labels that no allowed labelling has.
        """
        case, k = self.case, self.case.n_labels
        n_samples, d = len(case.y), self.n_weights
        sizes = np.array([0 if hinge else k * len(labels) for labels in case.y])
        starts = d + n_samples + np.concatenate([[0], np.cumsum(sizes)])
        rows, lower = [], []
        for s, y in enumerate(self.labellings):
            block = np.zeros((len(y), starts[-1]))
            block[:, :d] = self.truth[s] - self.features[s]
            block[:, d + s] = 1.0
            if not hinge:
                for i, weight in enumerate(case.weights[s]):
                    at = starts[s] + i * k
                    block[:, at : at + k] = -weight * case.cost[y[:, i]]
            rows.append(block)
            lower.append(self.hinge_costs(s) if hinge else np.zeros(len(y)))
        n_cuts = sum(map(len, lower))
        sums = np.zeros((int(sizes.sum()) // k, starts[-1]))
        for i in range(len(sums)):
            sums[i, starts[0] + i * k : starts[0] + (i + 1) * k] = 1.0
        possible = np.concatenate([self.possible(s).ravel() for s in range(n_samples)])
        used = np.ones(starts[-1], bool)
        used[starts[0] :] = possible if len(sums) else True
        x = np.zeros(starts[-1])
        x[used], multipliers = quadratic_program(
            np.concatenate([np.full(d, case.alpha), np.zeros(starts[-1] - d)])[used],
            np.concatenate([np.zeros(d), case.share, np.zeros(int(sizes.sum()))])[used],
            np.vstack([*rows, sums])[:, used],
            np.concatenate([*lower, np.ones(len(sums))]),
            np.concatenate([np.full(n_cuts, np.inf), np.ones(len(sums))]),
            np.concatenate([np.full(d + n_samples, -np.inf), np.zeros(int(sizes.sum()))])[used],
        )
        theta, p = x[:d], None
        if not hinge:
            rows_of_p = np.maximum(x[starts[0] :], 0.0).reshape(-1, k)
            rows_of_p /= rows_of_p.sum(axis=1, keepdims=True)
            p = np.split(rows_of_p, np.cumsum([len(labels) for labels in case.y])[:-1])
        mixtures = []
        ends = np.cumsum([len(block) for block in rows])
        for weights in np.split(np.maximum(multipliers[:n_cuts], 0.0), ends[:-1]):
            mixtures.append(weights / weights.sum())
        return self.dual(mixtures, hinge), self.primal(theta, p), theta

    def likelihood(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient of the CRF's objective."""
        value = 0.5 * self.case.alpha * float(theta @ theta)
        gradient = self.case.alpha * theta
        for share, features, truth in zip(self.case.share, self.features, self.truth, strict=True):
            scores = features @ theta
            log_z = logsumexp(scores)
            value += share * (log_z - truth @ theta)
            gradient = gradient + share * (np.exp(scores - log_z) @ features - truth)
        return float(value), gradient

    def likelihood_optimum(self) -> tuple[float, np.ndarray]:
        result = minimize(
            self.likelihood,
            np.zeros(self.n_weights),
            jac=True,
            method="BFGS",
            options={"gtol": 1e-9},
        )
        _, gradient = self.likelihood(result.x)
        assert gradient @ gradient / (2 * self.case.alpha) < 1e-12  # strong convexity: that close
        return float(result.fun), result.x


def quadratic_program(
    diagonal: np.ndarray,
    linear: np.ndarray,
    matrix: np.ndarray,
    row_lower: np.ndarray,
    row_upper: np.ndarray,
    lower: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """(x, multipliers of the rows) of min ½ x' diag x + linear' x.

    Rows have an equality or a lower bound only. Mehrotra's predictor and corrector (1992), dense:
    SciPy has no solver of quadratic programs.
    """
    equal, bounded = row_lower == row_upper, np.flatnonzero(np.isfinite(lower))
    assert np.all(equal | np.isinf(row_upper))
    E, f = matrix[equal], row_lower[equal]
    G = np.vstack([matrix[~equal], np.eye(len(linear))[bounded]])
    h = np.concatenate([row_lower[~equal], lower[bounded]])
    x, y, s, z = np.zeros(len(linear)), np.zeros(len(f)), np.ones(len(h)), np.ones(len(h))

    def residuals() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return diagonal * x + linear - E.T @ y - G.T @ z, E @ x - f, G @ x - s - h

    def longest(at: np.ndarray, step: np.ndarray) -> float:
        return float(min(1.0, np.min(-at[step < 0] / step[step < 0], initial=np.inf)))

    for _ in range(200):
        rd, re, rg = residuals()
        mu = s @ z / len(h)
        # Directions that no constraint holds keep a little of the identity: no singular matrix.
        hessian = np.diag(diagonal + 1e-11) + G.T @ (G * (z / s)[:, None])
        zeros = np.zeros((len(f), len(f)))
        with warnings.catch_warnings():
            warnings.simplefilter("error", LinAlgWarning)
            try:
                factors = lu_factor(np.block([[hessian, -E.T], [E, zeros]]))
            except LinAlgWarning:
                break  # singular to rounding: x is as good as it gets, and callers certify it
        rc = s * z
        for corrected in (False, True):
            right = np.concatenate([-rd - G.T @ ((z * rg + rc) / s), -re])
            dx, dy = np.split(lu_solve(factors, right), [len(x)])
            ds = G @ dx + rg
            dz = -(rc + z * ds) / s
            if not corrected:
                t = min(longest(s, ds), longest(z, dz))
                centring = ((s + t * ds) @ (z + t * dz) / len(h) / mu) ** 3
                rc = s * z + ds * dz - centring * mu
        t = 0.995 * min(longest(s, ds), longest(z, dz))
        x, y, s, z = x + t * dx, y + t * dy, s + t * ds, z + t * dz
        if s @ z < 1e-9 and max(np.abs(r).max(initial=0.0) for r in residuals()) < 1e-9:
            break
    multipliers = np.empty(len(matrix))
    multipliers[equal], multipliers[~equal] = y, z[: np.sum(~equal)]
    return x, multipliers
