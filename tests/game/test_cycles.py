"""Games on graphs with cycles: the full game by linear programming, trees, other node names."""

import itertools

import numpy as np
import pytest
from game_cases import cost_range, rounding
from hypothesis import given, settings

from robustruct.game.solve import solve_game, solve_games
from robustruct.testing.oracles import full_game_value
from robustruct.testing.strategies import GameData, games

SHAPES = {
    "cycle": [(0, 1), (2, 1), (2, 3), (3, 0)],
    "ladder": [(0, 1), (2, 3), (4, 5), (0, 2), (2, 4), (1, 3), (5, 3)],
    "complete": list(itertools.combinations(range(5), 2)),
    "cycle and tree": [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5)],
}


def random_game(edges, k, seed):
    rng = np.random.default_rng(seed)
    n = max(map(max, edges)) + 1
    cost = rng.random((k, k)) * (1 - np.eye(k))
    return GameData(
        rng.normal(size=(n, k)),
        np.array(edges),
        rng.normal(size=(len(edges), k, k)),
        cost,
        rng.random(n) + 0.5,
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("solver", "tol"), [("auto", 1e-6), ("pairwise", 1e-3)])
def test_equal_to_the_full_game(shape, solver, tol):
    game = random_game(SHAPES[shape], 2, seed=len(shape))
    value = full_game_value(*game)
    found = solve_game(*game, solver=solver, tol=tol)
    assert found.status.name == "CONVERGED"
    assert found.lower - 1e-9 <= value <= found.upper + 1e-9
    assert found.gap <= tol * cost_range(game) + 1e-9


@settings(max_examples=40)
@given(games(max_nodes=5, max_labels=2, max_width=3, max_exponent=3, max_weight_exponent=2))
def test_bounds_bracket_the_full_game(game):
    value = full_game_value(*game)
    slack = 1e-7 * cost_range(game) + rounding(game)
    for solver, tol in (("linear_program", 1e-6), ("pairwise", 1e-2)):
        found = solve_game(*game, solver=solver, tol=tol)
        assert found.lower <= value + slack
        assert found.upper >= value - slack
        if solver == "linear_program":
            assert found.gap <= tol * cost_range(game) + rounding(game)


def test_node_and_edge_marginals_agree():
    game = random_game(SHAPES["complete"], 3, seed=0)
    for solver in ("linear_program", "pairwise"):
        found = solve_game(*game, solver=solver, tol=1e-3)
        for e, (i, j) in enumerate(game.edges):
            pair = found.adversary_edges[e]
            np.testing.assert_allclose(pair.sum(axis=1), found.adversary_nodes[i], atol=1e-12)
            np.testing.assert_allclose(pair.sum(axis=0), found.adversary_nodes[j], atol=1e-12)


def test_names_of_nodes_and_directions_of_edges_do_not_matter():
    game = random_game(SHAPES["ladder"], 3, seed=1)
    rng = np.random.default_rng(0)
    names = rng.permutation(len(game.unary))
    renamed = names[game.edges][:, ::-1]
    unary, weight = np.empty_like(game.unary), np.empty_like(game.node_weight)
    unary[names], weight[names] = game.unary, game.node_weight
    other = GameData(unary, renamed, game.pairwise.transpose(0, 2, 1), game.cost, weight)
    assert solve_game(*game).value == pytest.approx(solve_game(*other).value, abs=1e-6)


def test_an_edge_without_scores_closes_no_cycle():
    """A game on a tree keeps its value when an edge of zeros makes it cyclic."""
    tree = random_game([(0, 1), (1, 2), (1, 3), (3, 4)], 3, seed=2)
    chord = np.concatenate([tree.edges, [(0, 4), (2, 4)]])
    scores = np.concatenate([tree.pairwise, np.zeros((2, 3, 3))])
    cyclic = solve_game(tree.unary, chord, scores, tree.cost, tree.node_weight)
    on_tree = solve_game(*tree, solver="interior_point")
    assert cyclic.value == pytest.approx(on_tree.value, abs=1e-5)


def test_trees_and_cycles_in_one_batch():
    some = [random_game(edges, 2, seed) for seed, edges in enumerate([*SHAPES.values(), [(0, 1)]])]
    together = solve_games(
        [g.unary for g in some],
        [g.edges for g in some],
        [g.pairwise for g in some],
        some[0].cost,
        [g.node_weight for g in some],
    )
    for game, found in zip(some, together, strict=True):
        alone = solve_game(game.unary, game.edges, game.pairwise, some[0].cost, game.node_weight)
        assert found.value == pytest.approx(alone.value, abs=1e-5)
