"""Games by hand and at random, and what must hold of any answer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from robustruct.core.node_games import node_equilibria
from robustruct.game.node_games import cost_form
from robustruct.game.solve import GameSolution, solve_game
from robustruct.status import Status
from robustruct.testing import oracles
from robustruct.testing.strategies import GameData

# The gap each solver is asked for, relative to the range of the cost. First-order methods are slow
# on hard cases; a solver that is not listed here is held to the default of solve_game.
TOL = {
    "linear_program": 1e-7,
    "interior_point": 1e-6,
    "auto": 1e-6,
    "pairwise": 1e-3,
    "dual_decomposition": 1e-2,
}


def tol_of(solver: str) -> float:
    return TOL.get(solver, 1e-6)


def solved(game: GameData, solver: str) -> GameSolution:
    return solve_game(*game, solver=solver, tol=tol_of(solver))


class NodeGame(NamedTuple):
    """Equilibrium of a game on one node."""

    value: float
    predictor: np.ndarray
    adversary: np.ndarray


def node_game(scores: np.ndarray, cost: np.ndarray, weight: float = 1.0) -> NodeGame:
    """The game on one node as dual decomposition solves it; ``cost`` is [true, predicted]."""
    scores, k = np.asarray(scores, float)[None], len(cost)
    p, r, value = np.empty((1, k)), np.empty((1, k)), np.empty(1)
    form = cost_form(np.asarray(cost).T)
    node_equilibria(0, 1, form, np.array([float(weight)]), scores, p, r, value)
    return NodeGame(float(value[0]), p[0], r[0])


def cost_range(game: GameData) -> float:
    """What a gap is measured against."""
    return float(game.node_weight.sum() * np.ptp(game.cost))


def rounding(game: GameData) -> float:
    """What float64 may lose in adding up a game."""
    parts = [game.unary, game.pairwise, np.outer(game.node_weight, np.abs(game.cost).max())]
    return 1e-13 * sum(np.abs(part[np.isfinite(part)]).sum() for part in parts)


def random_game(
    n: int,
    k: int,
    seed: int = 0,
    *,
    shape: str = "tree",
    cost: np.ndarray | None = None,
    scale: float = 1.0,
    weight: np.ndarray | None = None,
) -> GameData:
    rng = np.random.default_rng(seed)
    child = np.arange(1, n)
    parent = {
        "tree": rng.integers(0, np.maximum(child, 1)) if n > 1 else child,
        "chain": child - 1,
        "star": np.zeros(n - 1, int),
    }[shape]
    edges = np.stack([parent, child], axis=1)
    turn = rng.random(n - 1) < 0.5
    edges[turn] = edges[turn, ::-1]
    return GameData(
        scale * rng.normal(size=(n, k)),
        edges,
        scale * rng.normal(size=(n - 1, k, k)),
        rng.random((k, k)) if cost is None else cost,
        np.ones(n) if weight is None else weight,
    )


def assert_feasible(solution: GameSolution, game: GameData) -> None:
    p, r, q = solution.predictor, solution.adversary_nodes, solution.adversary_edges
    assert p.shape == r.shape == game.unary.shape
    assert q.shape == game.pairwise.shape
    for array in (p, r, q):
        assert np.isfinite(array).all()
        assert (array >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=0, atol=1e-9)
    np.testing.assert_allclose(r.sum(axis=1), 1, rtol=0, atol=1e-9)
    np.testing.assert_allclose(q.sum(axis=2), r[game.edges[:, 0]], rtol=0, atol=1e-8)
    np.testing.assert_allclose(q.sum(axis=1), r[game.edges[:, 1]], rtol=0, atol=1e-8)
    assert (r[game.unary == -np.inf] == 0).all()
    assert (q[game.pairwise == -np.inf] == 0).all()


def assert_honest(solution: GameSolution, game: GameData, tol: float) -> None:
    """Feasible, finite, bounds in order, and the status says what the gap says."""
    assert_feasible(solution, game)
    assert np.isfinite([solution.value, solution.lower, solution.upper]).all()
    slack = rounding(game)
    assert solution.lower <= solution.upper + slack
    assert solution.gap == solution.upper - solution.lower
    if solution.status is Status.CONVERGED:
        assert solution.gap <= tol * cost_range(game) + slack
    else:
        assert solution.gap > tol * cost_range(game)
    # The bounds are those of the strategies returned, by their definition.
    p, r, q = solution.predictor, solution.adversary_nodes, solution.adversary_edges
    earned = masked_dot(r, game.unary) + masked_dot(q, game.pairwise)
    possible = possible_labels(game)
    assert (p[~possible] == 0).all()
    answers = np.where(possible, r @ game.cost, np.inf)
    lower = earned + float(game.node_weight @ answers.min(axis=1))
    assert abs(lower - solution.lower) <= slack
    expected = float(game.node_weight @ np.einsum("ia,ba,ib->i", p, game.cost, r)) + earned
    assert solution.lower - slack <= expected <= solution.upper + slack


def possible_labels(game: GameData) -> np.ndarray:
    """(n, k) bool, the labels that some labelling without a score of -inf has."""
    if np.isfinite(game.unary).all() and np.isfinite(game.pairwise).all():
        return np.ones(game.unary.shape, bool)
    return oracles.possible_labels(*game[:3])


def masked_dot(mass: np.ndarray, score: np.ndarray) -> float:
    """<mass, score> with 0 · (-inf) = 0."""
    played = mass > 0
    return float((mass[played] * score[played]).sum())
