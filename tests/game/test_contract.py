"""What every solver in the registry promises, whatever it does inside."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from game_cases import (
    assert_honest,
    cost_range,
    possible_labels,
    random_game,
    rounding,
    solved,
    tol_of,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from robustruct import solve_game, solve_games
from robustruct.game import Status
from robustruct.game.solvers import SOLVERS
from robustruct.testing.oracles import full_game_value, local_polytope_value, map_value
from robustruct.testing.strategies import GameData, games

# Games on which every solver must reach its tolerance: sizes within a few orders of magnitude.
fair = {"min_exponent": -2, "max_exponent": 1, "max_weight_exponent": 1}
few = settings(max_examples=20)

# Closed forms solve nodes that stand alone; test_games_without_edges.py has them.
every_solver = pytest.mark.parametrize("solver", [n for n in SOLVERS if n != "closed_form"])


# ---- the value


@every_solver
@few
@given(game=games(max_nodes=4, max_labels=3, **fair))
def test_bounds_enclose_the_game_over_all_labellings(solver, game):
    """Theorem 1: playing marginals is as good as playing labellings."""
    solution = solved(game, solver)
    assert_honest(solution, game, tol_of(solver))
    assert solution.status is Status.CONVERGED
    value = full_game_value(*game)
    slack = rounding(game) + 1e-9 * (1 + abs(value))
    assert solution.lower - slack <= value <= solution.upper + slack


@cache
def local_value(n, k, shape):
    """By a linear program that shares nothing with the solver of that name."""
    return local_polytope_value(*random_game(n, k, seed=n, shape=shape))


@every_solver
@pytest.mark.parametrize("shape", ["tree", "chain", "star"])
@pytest.mark.parametrize(("n", "k"), [(12, 3), (25, 5)])
def test_value_is_that_of_a_linear_program(solver, shape, n, k):
    game = random_game(n, k, seed=n, shape=shape)
    solution, value = solved(game, solver), local_value(n, k, shape)
    assert solution.status is Status.CONVERGED
    assert_honest(solution, game, tol_of(solver))
    assert solution.lower - 1e-8 <= value <= solution.upper + 1e-8


@every_solver
@pytest.mark.parametrize("loss", ["hamming", "absolute", "squared", "asymmetric"])
def test_usual_losses(solver, loss):
    place = np.arange(5.0)
    cost = {
        "hamming": 1 - np.eye(5),
        "absolute": np.abs(place[:, None] - place),
        "squared": (place[:, None] - place) ** 2,
        "asymmetric": np.where(place[:, None] < place, 3.0, 1.0) * (1 - np.eye(5)),
    }[loss]
    game = random_game(10, 5, seed=1, cost=cost)
    solution, value = solved(game, solver), local_polytope_value(*game)
    assert solution.status is Status.CONVERGED
    assert_honest(solution, game, tol_of(solver))
    assert solution.lower - 1e-8 <= value <= solution.upper + 1e-8


# ---- how the value changes with the game


def close(one, other, expected_other, game):
    """``other.value`` is what ``one`` predicts, as far as the two gaps can tell."""
    known = (one.gap + other.gap) / 2 + 10 * rounding(game)
    assert abs(other.value - expected_other) <= known


@every_solver
@few
@given(game=games(max_labels=3, **fair), shift=st.sampled_from([-3.0, 0.5, 40.0]), data=st.data())
def test_shifting_the_scores_of_a_node_shifts_the_value(solver, game, shift, data):
    node = data.draw(st.integers(0, len(game.unary) - 1))
    unary = game.unary.copy()
    unary[node] += shift
    moved = game._replace(unary=unary)
    one, other = solved(game, solver), solved(moved, solver)
    close(one, other, one.value + shift, moved)


@every_solver
@few
@given(game=games(max_labels=3, **fair), data=st.data())
def test_renaming_nodes_and_labels_changes_nothing(solver, game, data):
    n, k = game.unary.shape
    node = np.array(data.draw(st.permutations(range(n))), dtype=np.intp)
    label = np.array(data.draw(st.permutations(range(k))), dtype=np.intp)
    where = np.argsort(node)
    renamed = GameData(
        game.unary[node][:, label],
        where[game.edges][:, ::-1],
        game.pairwise[:, label][:, :, label].transpose(0, 2, 1),
        game.cost[np.ix_(label, label)],
        game.node_weight[node],
    )
    one, other = solved(game, solver), solved(renamed, solver)
    assert_honest(other, renamed, tol_of(solver))
    close(one, other, one.value, game)


@every_solver
@few
@given(game=games(max_labels=3, **fair), factor=st.sampled_from([1e-3, 0.25, 1e3]))
def test_scaling_scores_and_weights_scales_the_value(solver, game, factor):
    scaled = game._replace(
        unary=game.unary * factor,
        pairwise=game.pairwise * factor,
        node_weight=game.node_weight * factor,
    )
    one, other = solved(game, solver), solved(scaled, solver)
    known = (factor * one.gap + other.gap) / 2 + 10 * rounding(scaled)
    assert abs(other.value - factor * one.value) <= known


@every_solver
@few
@given(game=games(max_nodes=4, max_labels=3, **fair))
def test_without_weights_the_value_is_that_of_the_best_labelling(solver, game):
    game = game._replace(node_weight=np.zeros(len(game.unary)))
    solution = solved(game, solver)
    best = map_value(game.unary, game.edges, game.pairwise)
    assert solution.status is Status.CONVERGED
    assert solution.value == pytest.approx(best, rel=1e-12, abs=rounding(game))


@every_solver
@few
@given(one=games(max_nodes=3, max_labels=3, **fair), data=st.data())
def test_a_forest_is_the_sum_of_its_trees(solver, one, data):
    k = one.unary.shape[1]
    other = data.draw(games(max_nodes=3, min_labels=k, max_labels=k, **fair))
    n = len(one.unary)
    both = GameData(
        np.concatenate([one.unary, other.unary]),
        np.concatenate([one.edges, other.edges + n]),
        np.concatenate([one.pairwise, other.pairwise]),
        one.cost,
        np.concatenate([one.node_weight, other.node_weight]),
    )
    other = other._replace(cost=one.cost)
    first, second, joint = (solved(g, solver) for g in (one, other, both))
    known = (first.gap + second.gap + joint.gap) / 2 + 10 * rounding(both)
    assert abs(joint.value - first.value - second.value) <= known


@every_solver
def test_one_label(solver):
    game = GameData(
        np.array([[2.0], [3.0]]),
        np.array([[1, 0]]),
        np.full((1, 1, 1), 5.0),
        np.array([[7.0]]),
        np.array([1.0, 2.0]),
    )
    solution = solved(game, solver)
    assert solution.value == pytest.approx(10 + 21)
    assert solution.status is Status.CONVERGED
    assert (solution.predictor == 1).all()


@every_solver
def test_one_node(solver):
    solution = solve_game([[0, 0]], [], [], [[0, 3], [1, 0]], solver=solver, tol=tol_of(solver))
    assert solution.status is Status.CONVERGED
    assert solution.value == pytest.approx(0.75, abs=3 * tol_of(solver))
    assert solution.adversary_edges.shape == (0, 2, 2)


@every_solver
def test_many_games_in_one_call_are_the_games_one_by_one(solver):
    batch = [random_game(n, 3, seed=n, cost=1 - np.eye(3)) for n in (1, 2, 7, 12, 3)]
    tol = tol_of(solver)
    unary, edges, pairwise, _, weight = zip(*batch, strict=True)
    together = solve_games(unary, edges, pairwise, batch[0].cost, weight, solver, tol, n_jobs=2)
    for game, solution in zip(batch, together, strict=True):
        alone = solved(game, solver)
        assert_honest(solution, game, tol)
        assert solution.status is Status.CONVERGED
        assert abs(solution.value - alone.value) <= (solution.gap + alone.gap) / 2 + 1e-12


@every_solver
def test_a_warm_start_from_a_neighbour_is_taken(solver):
    game = random_game(15, 4, seed=5)
    before = solved(game, solver)
    moved = game._replace(unary=game.unary + 0.01 * random_game(15, 4, seed=6).unary)
    warm = solve_game(*moved, solver=solver, tol=tol_of(solver), warm_start=before)
    assert_honest(warm, moved, tol_of(solver))
    assert warm.status is Status.CONVERGED
    value = local_polytope_value(*moved)
    assert warm.lower - 1e-8 <= value <= warm.upper + 1e-8


# ---- extremes: certified, or an honest reason why not


@every_solver
@settings(max_examples=40)
@given(game=games(max_nodes=6, max_labels=4))
def test_extreme_games_end_with_an_honest_answer(solver, game):
    """Scores from 1e-8 to 1e6, weights from 1e-6 to 1e6, ties, forbidden labels, odd costs."""
    solution = solved(game, solver)
    assert_honest(solution, game, tol_of(solver))
    if solver in ("linear_program", "interior_point", "auto"):
        assert solution.status is Status.CONVERGED
    reference = solved(game, "linear_program")
    slack = 10 * rounding(game)
    assert solution.lower <= reference.upper + slack
    assert reference.lower <= solution.upper + slack


def _cost(kind, k=4):
    rng = np.random.default_rng(3)
    matrix = rng.random((k, k))
    if kind == "zeros":
        return np.zeros((k, k))
    if kind == "constant":
        return np.full((k, k), -2.0)
    if kind == "equal columns":
        matrix[:, 1:] = matrix[:, :1]
    if kind == "dominated column":
        matrix[:, 2] = matrix.max() + 1
    if kind == "dominating column":
        matrix[:, 1] = matrix.min() - 1
    if kind == "negative":
        matrix -= 5
    if kind == "huge":
        matrix *= 1e6
    if kind == "tiny":
        matrix *= 1e-6
    return matrix


@every_solver
@pytest.mark.parametrize(
    "kind",
    [
        "zeros",
        "constant",
        "equal columns",
        "dominated column",
        "dominating column",
        "negative",
        "huge",
        "tiny",
    ],
)
@pytest.mark.parametrize("scale", [0.0, 1e-8, 1.0, 1e6])
def test_odd_costs_at_any_size_of_scores(solver, kind, scale):
    game = random_game(8, 4, seed=2, cost=_cost(kind), scale=scale)
    solution = solved(game, solver)
    assert_honest(solution, game, tol_of(solver))
    reference = solved(game, "linear_program")
    assert solution.lower <= reference.upper + rounding(game)
    assert reference.lower <= solution.upper + rounding(game)
    if solver in ("linear_program", "interior_point", "auto"):
        assert solution.status is Status.CONVERGED


@every_solver
@pytest.mark.parametrize(
    ("n", "k", "shape"),
    [(1, 60, "chain"), (6, 60, "tree"), (300, 3, "chain"), (300, 3, "star"), (5000, 3, "chain")],
)
def test_sizes(solver, n, k, shape):
    if solver == "linear_program" and n * k > 400:
        pytest.skip("the reference is too slow here; see benchmarks/")
    game = random_game(n, k, seed=4, shape=shape)
    solution = solved(game, solver)
    assert_honest(solution, game, tol_of(solver))
    if solver in ("interior_point", "auto"):
        assert solution.status is Status.CONVERGED


@every_solver
@pytest.mark.parametrize("factor", [1e-90, 1e90])
def test_sizes_of_numbers_at_the_ends_of_what_is_accepted(solver, factor):
    game = random_game(4, 3, seed=3)
    value = full_game_value(*game)
    far = game._replace(
        unary=game.unary * factor, pairwise=game.pairwise * factor, cost=game.cost * factor
    )
    solution = solved(far, solver)
    assert solution.lower <= (value + 1e-8) * factor
    assert solution.upper >= (value - 1e-8) * factor
    assert_honest(solution, far, tol_of(solver))
    if solver in ("linear_program", "interior_point", "auto"):
        assert solution.status is Status.CONVERGED


@every_solver
def test_uneven_weights(solver):
    weight = 10.0 ** np.linspace(-6, 6, 12)
    game = random_game(12, 3, seed=8, weight=weight)
    solution = solved(game, solver)
    assert_honest(solution, game, tol_of(solver))
    assert solution.status is Status.CONVERGED
    assert cost_range(game) > 0


@every_solver
@few
@given(game=games(min_nodes=2, max_labels=3, min_labels=2))
def test_forbidden_labels_and_pairs_are_never_played(solver, game):
    assume((game.unary == -np.inf).any() or (game.pairwise == -np.inf).any())
    solution = solved(game, solver)
    assert (solution.adversary_nodes[game.unary == -np.inf] == 0).all()
    assert (solution.adversary_edges[game.pairwise == -np.inf] == 0).all()
    assert (solution.predictor[~possible_labels(game)] == 0).all()
