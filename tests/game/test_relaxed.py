"""Relaxed games, against a linear program over the local polytope and against exact games."""

import numpy as np
import pytest
from game_cases import cost_range, rounding
from hypothesis import given, settings
from scipy.optimize import linprog

from robustruct.datasets.synthetic import grid_edges
from robustruct.game.game import Game
from robustruct.game.relaxed import Relaxed, relaxed_labelling
from robustruct.game.solve import solve_game
from robustruct.graphs import Batch
from robustruct.inference import best_labelling, score_of
from robustruct.scores import Scores
from robustruct.testing.oracles import full_game_value
from robustruct.testing.strategies import GameData, games


def local_polytope_value(unary, edges, pairwise, cost, node_weight):
    """max Σ w_i v_i + <ψ, (r, q)> with q's margins equal to r, constraint by constraint."""
    n, k = unary.shape
    m = len(edges)
    n_columns = n * k + m * k * k + n
    r = lambda i, b: i * k + b  # noqa: E731
    q = lambda e, a, b: n * k + (e * k + a) * k + b  # noqa: E731
    v = lambda i: n * k + m * k * k + i  # noqa: E731
    equal, target, least = [], [], []
    for i in range(n):
        row = np.zeros(n_columns)
        row[[r(i, b) for b in range(k)]] = 1
        equal.append(row)
        target.append(1.0)
        for a in range(k):
            row = np.zeros(n_columns)
            row[v(i)] = 1
            row[[r(i, b) for b in range(k)]] = -cost[a]
            least.append(row)
    for e, (i, j) in enumerate(edges):
        for a in range(k):
            for node, entries in (
                (i, [q(e, a, b) for b in range(k)]),
                (j, [q(e, b, a) for b in range(k)]),
            ):
                row = np.zeros(n_columns)
                row[entries] = 1
                row[r(node, a)] = -1
                equal.append(row)
                target.append(0.0)
    gain = np.concatenate([unary.ravel(), pairwise.ravel(), node_weight])
    bounds = [(0, 0 if g == -np.inf else None) for g in gain[: n * k + m * k * k]] + [
        (None, None)
    ] * n
    gain[np.isneginf(gain)] = 0
    found = linprog(-gain, np.array(least), np.zeros(n * k), np.array(equal), target, bounds)
    assert found.status == 0
    return -found.fun


def random_grid(height, width, k, seed, coupling=1.0):
    rng = np.random.default_rng(seed)
    n, edges = height * width, grid_edges(height, width)
    cost = rng.random((k, k)) * (1 - np.eye(k))
    pairwise = coupling * rng.normal(size=(len(edges), k, k))
    return GameData(rng.normal(size=(n, k)), edges, pairwise, cost, rng.random(n) + 0.5)


@pytest.mark.parametrize("seed", range(3))
def test_value_is_that_of_the_local_polytope(seed):
    game = random_grid(3, 3, 3, seed)
    value = local_polytope_value(*game)
    found = solve_game(*game, solver="relaxed", tol=1e-4)
    assert found.relaxed
    assert found.status.name == "CONVERGED"
    assert found.lower - 1e-7 <= value <= found.upper + 1e-7
    assert found.gap <= 1e-4 * cost_range(game)
    exact = solve_game(*game)
    assert not exact.relaxed
    assert value >= exact.value - 1e-6


@settings(max_examples=25)
@given(
    games(
        min_nodes=2,
        max_nodes=4,
        max_labels=2,
        max_width=3,
        min_exponent=-1,
        max_exponent=1,
        max_weight_exponent=1,
    )
)
def test_bounds_hold_for_any_graph(game):
    found = solve_game(*game, solver="relaxed", tol=1e-2)
    slack = 1e-6 * cost_range(game) + rounding(game) + 1e-7
    assert found.upper >= full_game_value(*game) - slack
    value = local_polytope_value(*game)
    assert found.lower <= value + slack
    assert found.upper >= value - slack


def test_on_trees_it_is_the_exact_game():
    game = random_grid(1, 6, 3, 0)
    scores = Scores.from_user(Batch.build([(6, game.edges)]), game.unary, game.pairwise)
    inside = Game(scores, game.cost, scores.batch.from_user(game.node_weight))
    play, _ = Relaxed().descend(inside, inside.allowed_gap(1e-4), None, 1)
    lower, upper = play.relaxed_bounds
    exact = solve_game(*game, solver="interior_point")
    assert lower[0] - 1e-6 <= exact.value <= upper[0] + 1e-6
    assert upper[0] - lower[0] <= 1e-4 * cost_range(game)
    assert solve_game(*game, solver="relaxed").value == pytest.approx(exact.value, abs=1e-5)


def test_marginals_agree_on_every_edge():
    game = random_grid(3, 4, 3, 1)
    found = solve_game(*game, solver="relaxed", tol=1e-2)
    np.testing.assert_allclose(found.adversary_nodes.sum(axis=1), 1, atol=1e-9)
    for e, (i, j) in enumerate(game.edges):
        pair = found.adversary_edges[e]
        assert pair.min() >= 0
        np.testing.assert_allclose(pair.sum(axis=1), found.adversary_nodes[i], atol=1e-9)
        np.testing.assert_allclose(pair.sum(axis=0), found.adversary_nodes[j], atol=1e-9)


def test_labellings_come_within_two_percent_on_narrow_grids():
    some = [random_grid(4, 12, 4, seed, coupling=0.5) for seed in range(8)]
    batch = Batch.build([(48, game.edges) for game in some])
    scores = Scores.from_user(
        batch, np.concatenate([g.unary for g in some]), np.concatenate([g.pairwise for g in some])
    )
    labels, values, upper = relaxed_labelling(scores)
    exact = best_labelling(scores)[1]
    np.testing.assert_allclose(score_of(scores, labels), values)
    assert (values <= exact + 1e-9).all()
    assert (exact <= upper + 1e-9).all()
    assert (values >= 0.98 * exact).all()
