"""Relaxed games, against a linear program over the local polytope and against exact games."""

import numpy as np
import pytest
from game_cases import cost_range, rounding
from hypothesis import given, settings

from robustruct.datasets.synthetic import grid_edges
from robustruct.game.game import Game
from robustruct.game.relaxed import Relaxed, relaxed_labelling
from robustruct.game.solve import solve_game
from robustruct.graphs import Batch
from robustruct.inference import best_labelling, score_of
from robustruct.scores import Scores
from robustruct.testing.oracles import full_game_value, local_polytope_value
from robustruct.testing.strategies import GameData, games


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


def descended(game, tol, max_iter=20_000):
    """(lower, upper, r, q) of the relaxation's own steps, which `solve_game` spares a forest."""
    scores = Scores.from_user(
        Batch.build([(len(game.unary), game.edges)]), game.unary, game.pairwise
    )
    batch = scores.batch
    inside = Game(scores, np.ascontiguousarray(game.cost.T), batch.from_user(game.node_weight))
    play, _ = Relaxed(max_iter=max_iter).descend(inside, inside.allowed_gap(tol), None, 1)
    (lower,), (upper,) = play.relaxed_bounds
    return lower, upper, batch.to_user(play.r), batch.edges_to_user(play.q)


def test_on_trees_it_is_the_exact_game():
    game = random_grid(1, 6, 3, 0)
    lower, upper, _, _ = descended(game, 1e-4)
    value = local_polytope_value(*game)
    assert lower - 1e-7 <= value <= upper + 1e-7
    assert upper - lower <= 1e-4 * cost_range(game)
    assert solve_game(*game, solver="relaxed").value == pytest.approx(value, abs=1e-5)


@settings(max_examples=40)
@given(
    games(
        max_nodes=4, max_labels=3, min_exponent=-1, max_exponent=1, max_weight_exponent=1,
        forbid=False,
    )
)  # fmt: skip
def test_its_steps_solve_forests_exactly(game):
    """The local polytope of a forest is the marginal polytope: the value is that of labellings."""
    lower, upper, r, q = descended(game, 1e-2)
    value = full_game_value(*game)
    slack = rounding(game) + 1e-9 * (1 + abs(value))
    assert lower - slack <= value <= upper + slack
    assert upper - lower <= 1e-2 * cost_range(game) + rounding(game)
    np.testing.assert_allclose(r.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(q.sum(axis=2), r[game.edges[:, 0]], atol=1e-12)
    np.testing.assert_allclose(q.sum(axis=1), r[game.edges[:, 1]], atol=1e-12)


@pytest.mark.parametrize("constant", [0.0, 3.0, -2.0])
@pytest.mark.parametrize("scale", [1.0, 1e7, 1e12])
@pytest.mark.parametrize("sign", [1, -1])
def test_without_stakes_scores_of_any_size_are_those_of_the_best_labelling(constant, scale, sign):
    unary = sign * scale * np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0]])
    edges = np.array([(0, 1), (1, 2), (2, 0)])
    game = GameData(
        unary, edges, np.zeros((3, 2, 2)), np.full((2, 2), constant), np.array([1.0, 2.0, 3.0])
    )
    found = solve_game(*game, solver="relaxed")
    value = unary.max(axis=1).sum() + 6.0 * constant
    assert found.lower == pytest.approx(value, rel=1e-12)
    assert found.upper == pytest.approx(value, rel=1e-12)
    assert found.value == pytest.approx(full_game_value(*game), rel=1e-9)
    np.testing.assert_allclose(found.adversary_nodes.sum(axis=1), 1)


def test_what_forbidden_pairs_leave_unsolved_is_still_made_of_distributions():
    """The middle node cannot agree with both others: the lower bound is -inf, and says so."""
    forbidden = np.full((2, 2, 2), -np.inf)
    forbidden[0, 0, 0] = forbidden[1, 1, 1] = 0.0
    edges = np.array([(0, 1), (1, 2)])
    game = GameData(np.zeros((3, 2)), edges, forbidden, 1 - np.eye(2), np.ones(3))
    for _ in range(3):  # memory that was never written differs from call to call
        junk = np.full((50, 50), np.nan)
        del junk
        lower, upper, r, q = descended(game, 1e-2, max_iter=100)
        assert lower == -np.inf
        assert upper < np.inf
        np.testing.assert_allclose(r.sum(axis=1), 1)
        np.testing.assert_allclose(q.sum(axis=(1, 2)), 1)


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
