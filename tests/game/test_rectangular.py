"""Games in which the predictor has more actions than labels, such as asking a person."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from game_cases import random_game, tol_of
from scipy.optimize import minimize

from robustruct import solve_game
from robustruct.game.solvers import SOLVERS
from robustruct.testing.oracles import full_game_value

# Closed forms solve nodes that stand alone, and trees need no relaxation.
exact = [name for name in SOLVERS if name not in ("closed_form", "relaxed")]
every_solver = pytest.mark.parametrize("solver", exact)
ASK = [0.3, 0.45, 0.2]


def with_actions(k: int, n_actions: int, seed: int) -> np.ndarray:
    """Random costs of labels, and cheaper ones of further actions."""
    rng = np.random.default_rng(seed)
    cost = rng.uniform(0.5, 3.0, size=(k, k)) * (1 - np.eye(k))
    return np.hstack([cost, rng.uniform(0.1, 0.9, size=(k, n_actions))])


@every_solver
@pytest.mark.parametrize("n_actions", [1, 2])
@pytest.mark.parametrize("barred", [False, True])
def test_bounds_enclose_the_value_of_the_game_over_labellings(solver, n_actions, barred) -> None:
    for seed in range(4):
        game = random_game(3, 3, seed=seed)
        unary, pairwise = game.unary.copy(), game.pairwise.copy()
        if barred:
            unary[0, 0] = pairwise[0, 1, 2] = -np.inf
            unary[1, 1] = -np.inf
        cost = with_actions(3, n_actions, seed)
        tol = tol_of(solver)
        found = solve_game(unary, game.edges, pairwise, cost, game.node_weight, solver, tol)
        value = full_game_value(unary, game.edges, pairwise, cost, game.node_weight)
        assert found.lower - 1e-9 <= value <= found.upper + 1e-9
        assert found.gap <= 2 * tol * game.node_weight.sum() * np.ptp(cost)
        assert found.predictor.shape == (3, 3 + n_actions)
        assert found.adversary_nodes.shape == (3, 3)
        assert found.adversary_edges.shape == (2, 3, 3)
        np.testing.assert_allclose(found.predictor.sum(axis=1), 1.0)
        np.testing.assert_allclose(found.adversary_edges.sum(axis=(1, 2)), 1.0)
        for (i, j), q in zip(game.edges, found.adversary_edges, strict=True):
            np.testing.assert_allclose(q.sum(axis=1), found.adversary_nodes[i], atol=1e-9)
            np.testing.assert_allclose(q.sum(axis=0), found.adversary_nodes[j], atol=1e-9)
        if barred:
            assert found.predictor[0, 0] == found.adversary_nodes[0, 0] == 0


def test_one_node_asks_between_chows_thresholds() -> None:
    """Two labels, mistakes cost 1: asking is worth its price only where neither label is sure."""
    for score, asked in ((0.0, True), (0.3, True), (2.0, False)):
        found = solve_game([[score, 0.0]], [], [], [[0, 1, 0.3], [1, 0, 0.3]])
        assert (found.predictor[0, 2] > 0.5) == asked
        value = min(
            max(score + p1 + 0.3 * p2, (1 - p1 - p2) + 0.3 * p2)
            for p1 in np.linspace(0, 1, 201)
            for p2 in np.linspace(0, 1 - p1, 201)
        )
        assert found.value == pytest.approx(value, abs=0.01)


@pytest.mark.parametrize("solver", ["auto", "pairwise", "linear_program", "relaxed"])
def test_graphs_with_cycles(solver: str) -> None:
    rng = np.random.default_rng(0)
    edges = [(0, 1), (1, 2), (2, 0)]
    unary, pairwise = rng.normal(size=(3, 2)), rng.normal(size=(3, 2, 2))
    cost = np.array([[0, 1, 0.3], [2, 0, 0.4]])
    tol = 1e-3 if solver in ("pairwise", "relaxed") else 1e-6
    found = solve_game(unary, edges, pairwise, cost, solver=solver, tol=tol)
    value = full_game_value(unary, edges, pairwise, cost)
    assert value <= found.upper + 1e-9
    if solver != "relaxed":
        assert found.lower - 1e-9 <= value
        assert found.gap <= 1e-3 * 3 * 2


def test_an_action_that_is_never_worth_it_changes_nothing() -> None:
    game = random_game(6, 3, seed=1)
    dear = np.hstack([game.cost, np.full((3, 1), game.cost.max() + 1.0)])
    plain = solve_game(*game)
    for temperature in (0.0, 0.5):
        plain = solve_game(*game, temperature=temperature)
        found = solve_game(*game._replace(cost=dear), temperature=temperature)
        assert found.value == pytest.approx(plain.value, abs=1e-4)
        assert found.predictor[:, 3].max() < 1e-3


def test_one_that_is_always_worth_it_is_always_taken() -> None:
    game = random_game(6, 3, seed=1)
    free = np.hstack([game.cost + 1.0, np.zeros((3, 1))])
    for temperature in (0.0, 0.5):
        found = solve_game(*game._replace(cost=free), temperature=temperature)
        assert found.predictor[:, 3].min() > 1 - 1e-6


@pytest.mark.parametrize("temperature", [0.02, 0.3, 2.0])
def test_smooth_games_have_the_value_of_a_convex_program(temperature: float) -> None:
    rng = np.random.default_rng(0)
    unary, pairwise = rng.normal(size=(2, 2)), rng.normal(size=(1, 2, 2))
    cost = np.array([[0.0, 1.0, 0.3], [2.0, 0.0, 0.4]])
    found = solve_game(unary, [(0, 1)], pairwise, cost, temperature=temperature, tol=1e-7)
    labellings = list(itertools.product(range(2), repeat=2))

    def value(flat: np.ndarray) -> float:
        p = flat.reshape(2, 3)
        scores = [
            unary[0, a] + unary[1, b] + pairwise[0, a, b] + p[0] @ cost[a] + p[1] @ cost[b]
            for a, b in labellings
        ]
        top = max(scores)
        return top + temperature * np.log(np.exp((np.array(scores) - top) / temperature).sum())

    sums = [{"type": "eq", "fun": lambda p, i=i: p[3 * i : 3 * i + 3].sum() - 1} for i in (0, 1)]
    best = minimize(
        value, np.full(6, 1 / 3), bounds=[(0, 1)] * 6, constraints=sums, options={"ftol": 1e-12}
    )
    assert found.value == pytest.approx(best.fun, abs=2e-4)
    assert found.lower <= best.fun + 1e-9


def test_a_warm_start_has_the_same_actions() -> None:
    game = random_game(5, 3, seed=2)
    rectangular = game._replace(cost=with_actions(3, 1, 0))
    first = solve_game(*rectangular)
    again = solve_game(*rectangular, warm_start=first)
    assert again.value == pytest.approx(first.value, abs=1e-5)
    with pytest.raises(ValueError, match="a game of another shape"):
        solve_game(*rectangular, warm_start=solve_game(*game))
