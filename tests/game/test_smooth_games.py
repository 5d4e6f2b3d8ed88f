"""Games with a temperature against enumeration and an independent convex solver."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from robustruct import solve_game, solve_games
from robustruct.errors import IncompatibleError, InvalidInputError
from robustruct.game import Status, smooth
from robustruct.game.smooth import nearest_in_simplex

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


# ---- many games at once


def many(names: list[str], T: float, **options) -> tuple[list, list]:
    """Games of several shapes under one cost, and their solutions."""
    cost = game("chain", 1)[3]
    drawn = [(*game(name, seed)[:3], cost, game(name, seed)[4]) for seed, name in enumerate(names)]
    drawn[1] = (*drawn[1][:4], np.zeros(1))  # nothing is at stake: over at once
    unary, edges, pairwise, _, weight = (list(parts) for parts in zip(*drawn, strict=True))
    found = solve_games(unary, edges, pairwise, cost, weight, temperature=T, **options)
    return drawn, found


@pytest.mark.parametrize("T", [0.4, 1.0])
@pytest.mark.parametrize("n_jobs", [1, -1])
def test_games_of_a_batch_are_solved_as_alone(T: float, n_jobs: int) -> None:
    drawn, found = many(["tree", "one node", "chain", "cycle", "chain"], T, n_jobs=n_jobs)
    counts = [one.n_iter for one in found]
    assert counts[1] == 0 < min(counts[0], *counts[2:])
    assert len(set(counts)) > 2
    for arguments, one in zip(drawn, found, strict=True):
        alone = solve_game(*arguments, temperature=T)
        assert abs(one.n_iter - alone.n_iter) <= 2  # rounding may differ
        assert one.status is alone.status is Status.CONVERGED
        np.testing.assert_allclose(one.predictor, alone.predictor, atol=1e-9)
        np.testing.assert_allclose(one.adversary_nodes, alone.adversary_nodes, atol=1e-9)
        np.testing.assert_allclose(one.adversary_edges, alone.adversary_edges, atol=1e-9)
        scale = np.ptp(arguments[3]) * arguments[4].sum()
        value, _ = reference(arguments, T)
        assert one.lower - 1e-8 * scale - 1e-12 <= value <= one.upper + 1e-8 * scale + 1e-12
        assert one.upper - one.lower <= 1.001e-6 * scale + 1e-12


@pytest.mark.parametrize("steps", [1, 3])
def test_games_that_run_out_of_steps_say_so(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smooth, "MOST_STEPS", steps)
    drawn, found = many(["tree", "one node", "chain"], 1.0, tol=1e-9)
    assert [one.status for one in found] == [Status.MAX_ITER, Status.CONVERGED, Status.MAX_ITER]
    assert [one.n_iter for one in found] == [steps, 0, steps]
    for arguments, one in zip(drawn, found, strict=True):
        value, _ = reference(arguments, 1.0)
        assert one.lower - 1e-8 <= value <= one.upper + 1e-8
        start = solve_game(*arguments, temperature=1.0, tol=1e6)  # no step at all
        assert one.n_iter == 0 or one.upper < start.upper


def test_the_nearest_distribution_is_nearer_than_any_other():
    """Optimal by its conditions: metric (x - row) is least, and the same, where x is above 0."""
    rng = np.random.default_rng(0)
    for case in range(300):
        k = int(rng.integers(1, 12))
        rows = 10.0 ** rng.uniform(-3, 6) * rng.normal(size=(4, k))
        if case % 3 == 0:
            rows[:] = rows[:, :1]
        allowed = rng.random((4, k)) < 0.7
        allowed[np.arange(4), rng.integers(k, size=4)] = True
        metric = 10.0 ** rng.uniform(-6, 0, size=k)
        found = nearest_in_simplex(rows, allowed, metric)
        assert (found >= 0.0).all()
        assert not found[~allowed].any()
        np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
        slope = np.where(allowed, metric * (found - rows), np.inf)
        least = slope.min(axis=1, keepdims=True)
        rounding = 1e-9 * np.abs(rows).max()
        assert (np.where(found > 0.0, slope - least, 0.0) <= rounding).all()
