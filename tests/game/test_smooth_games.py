"""Games with a temperature against enumeration and an independent convex solver."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from robustruct import solve_game
from robustruct.errors import IncompatibleError, InvalidInputError

EDGES = {
    "one node": (1, []),
    "chain": (3, [(0, 1), (1, 2)]),
    "tree": (4, [(1, 0), (1, 2), (3, 1)]),
    "cycle": (4, [(0, 1), (1, 2), (2, 3), (3, 0)]),
}


def game(name: str, seed: int, scale: float = 1.0) -> tuple:
    rng = np.random.default_rng(seed)
    n, edges = EDGES[name]
    k = 3
    cost = rng.uniform(0.2, 3.0, (k, k))
    np.fill_diagonal(cost, 0.0)
    unary, pairwise = rng.normal(size=(n, k)), rng.normal(size=(len(edges), k, k))
    if len(edges):
        pairwise[0, 1, 2] = -np.inf
    return scale * unary, edges, scale * pairwise, cost, rng.uniform(0.5, 2.0, n)


def listed(unary, edges, pairwise, cost, weight):
    """(labellings, their scores)."""
    labellings = np.array(list(product(range(unary.shape[1]), repeat=len(unary))))
    scores = unary[np.arange(len(unary)), labellings].sum(axis=1)
    for e, (i, j) in enumerate(edges):
        scores = scores + pairwise[e, labellings[:, i], labellings[:, j]]
    allowed = np.isfinite(scores)
    return labellings[allowed], scores[allowed]


def reference(arguments: tuple, T: float) -> tuple[float, np.ndarray]:
    """(V_T, p) by SLSQP over p, all labellings listed."""
    unary, _, _, cost, weight = arguments
    labellings, scores = listed(*arguments)
    n, k = unary.shape
    hits = labellings[:, :, None] == np.arange(k)

    def value(x):
        p = x.reshape(n, k)
        tilt = (weight[:, None] * (p @ cost.T))[np.arange(n), labellings].sum(axis=1)
        z = (scores + tilt) / T
        q = np.exp(z - logsumexp(z))
        r = (q[:, None, None] * hits).sum(axis=0)
        return T * logsumexp(z), (weight[:, None] * (r @ cost)).ravel()

    sums = np.kron(np.eye(n), np.ones(k))
    possible = hits.any(axis=0)  # no other label is predicted
    start = possible / possible.sum(axis=1, keepdims=True)
    found = minimize(
        value, start.ravel(), jac=True, method="SLSQP",
        bounds=[(0, float(one)) for one in possible.ravel()],
        constraints={"type": "eq", "fun": lambda x: sums @ x - 1, "jac": lambda x: sums},
        options={"ftol": 1e-13, "maxiter": 1000},
    )  # fmt: skip
    return found.fun, found.x.reshape(n, k)


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("T", [0.1, 1.0, 10.0])
def test_value(name: str, T: float) -> None:
    arguments = game(name, 1)
    value, p = reference(arguments, T)
    found = solve_game(*arguments, temperature=T, tol=1e-7)
    scale = np.ptp(arguments[3]) * arguments[4].sum()
    assert found.lower <= value + 1e-7 * scale
    assert found.upper >= value - 1e-7 * scale
    assert found.gap <= 2e-7 * scale
    assert np.allclose(found.predictor.sum(axis=1), 1.0)
    # the adversary is unique: marginals of the Gibbs distribution at the reference's p
    labellings, scores = listed(*arguments)
    n, k = arguments[0].shape
    tilt = (arguments[4][:, None] * (p @ arguments[3].T))[np.arange(n), labellings].sum(axis=1)
    q = np.exp((scores + tilt) / T - logsumexp((scores + tilt) / T))
    r = (q[:, None, None] * (labellings[:, :, None] == np.arange(k))).sum(axis=0)
    assert np.allclose(found.adversary_nodes, r, atol=3e-3)


@pytest.mark.parametrize("name", ["chain", "tree", "cycle"])
@pytest.mark.parametrize("T", [0.01, 1.0])
def test_labels_that_cannot_occur_are_not_predicted(name: str, T: float) -> None:
    """Label 1, the best answer to 0 and 2, cannot occur at the second node of the first edge."""
    unary, edges, pairwise, _, weight = game(name, 4)
    pairwise[0, :, 1] = -np.inf
    cost = np.subtract.outer(np.arange(3.0), np.arange(3.0)) ** 2
    arguments = unary, edges, pairwise, cost, weight
    value, _ = reference(arguments, T)
    found = solve_game(*arguments, temperature=T, tol=1e-7)
    assert found.predictor[edges[0][1], 1] == 0.0
    assert found.gap <= 1e-6 * 4 * weight.sum()
    assert found.lower - 1e-6 <= value <= found.upper + 1e-6


@pytest.mark.parametrize("name", EDGES)
def test_tiny_temperatures_are_the_game_itself(name: str) -> None:
    arguments = game(name, 2)
    exact = solve_game(*arguments)
    found = solve_game(*arguments, temperature=1e-6)
    most = len(arguments[0]) * np.log(3)
    assert found.upper >= exact.lower - 1e-9
    assert found.lower <= exact.upper + 1e-6 * most + 1e-9
    assert found.gap <= 1e-4


def test_huge_temperatures_answer_the_uniform_distribution() -> None:
    cost = np.array([[0.0, 3.0, 1.0], [1.0, 0.0, 0.5], [2.0, 0.3, 0.1]])
    found = solve_game([[0.3, -0.2, 0.1]], [], [], cost, temperature=1e6)
    assert np.allclose(found.adversary_nodes, 1 / 3, atol=1e-4)
    assert found.predictor[0, cost.mean(axis=0).argmin()] > 0.999


def test_nothing_overflows() -> None:
    arguments = game("tree", 3, scale=1e6)
    with np.errstate(over="raise", invalid="raise"):
        found = solve_game(*arguments, temperature=1e-6)
    assert np.isfinite([found.lower, found.upper]).all()
    assert found.lower <= found.upper


@pytest.mark.parametrize("T", [-1.0, np.nan, np.inf, "hot", True])
def test_bad_temperatures(T) -> None:
    with pytest.raises(InvalidInputError, match="temperature"):
        solve_game([[0.0, 1.0]], [], [], [[0, 1], [1, 0]], temperature=T)


def test_solvers_of_temperature_0_are_refused() -> None:
    with pytest.raises(IncompatibleError, match="solver='pairwise'"):
        solve_game([[0.0, 1.0]], [], [], [[0, 1], [1, 0]], solver="pairwise", temperature=1.0)
