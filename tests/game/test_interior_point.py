"""The interior point against HiGHS, and on games made to break it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from game_cases import assert_honest, random_game
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from robustruct.game.game import Game, Play
from robustruct.game.interior_point import InteriorPoint
from robustruct.game.solve import solve_batch, solve_game
from robustruct.graphs import Batch
from robustruct.scores import Scores
from robustruct.status import Status
from robustruct.testing.oracles import local_polytope_value
from robustruct.testing.strategies import GameData, games


def as_game(data: GameData) -> Game:
    batch = Batch.build([(len(data.unary), np.asarray(data.edges, np.intp))])
    scores = Scores.from_user(batch, data.unary, data.pairwise)
    weight = np.ascontiguousarray(batch.from_user(data.node_weight))
    return Game(scores, np.ascontiguousarray(data.cost.T, dtype=float), weight)


def relative_gap(game: Game, play: Play) -> float:
    lower, upper = play.bounds(game, 1)
    return float(((upper - lower) / np.maximum(game.scale(), 1e-300))[0])


def value_by_highs(data: GameData) -> float:
    """The adversary's linear program over the local polytope, written from the definition."""
    n, k = data.unary.shape
    m = len(data.edges)

    # Variables: r (n, k), q (m, k, k), v (n).
    def r(i, a):
        return i * k + a

    def q(e, a, b):
        return n * k + (e * k + a) * k + b

    size = n * k + m * k * k + n
    equal, right = [], []
    for i in range(n):
        row = np.zeros(size)
        row[[r(i, a) for a in range(k)]] = 1
        equal.append(row)
        right.append(1.0)
    for e, (i, j) in enumerate(data.edges):
        for a in range(k):
            for node, pairs in (
                (i, [q(e, a, b) for b in range(k)]),
                (j, [q(e, b, a) for b in range(k)]),
            ):
                row = np.zeros(size)
                row[pairs] = 1
                row[r(node, a)] = -1
                equal.append(row)
                right.append(0.0)
    above = []
    for i in range(n):
        for a in range(k):
            row = np.zeros(size)
            row[size - n + i] = 1
            row[[r(i, b) for b in range(k)]] = -data.cost[:, a]
            above.append(row)
    gain = np.concatenate([data.unary.ravel(), data.pairwise.ravel(), data.node_weight])
    limits = [(0, 1)] * (size - n) + [(None, None)] * n
    outcome = linprog(-gain, np.array(above), np.zeros(len(above)), np.array(equal), right, limits)
    return -outcome.fun


@pytest.mark.parametrize("shape", ["chain", "tree", "star"])
@pytest.mark.parametrize(("n", "k"), [(1, 4), (2, 2), (9, 3), (6, 7)])
def test_value_is_that_of_the_linear_program(n, k, shape):
    data = random_game(n, k, seed=n + k, shape=shape)
    game = as_game(data)
    lower, upper = solve_batch(game, InteriorPoint(), 1e-7).bounds(game)
    value = value_by_highs(data)
    assert lower[0] - 1e-7 <= value <= upper[0] + 1e-7
    assert upper[0] - lower[0] <= game.allowed_gap(1e-7)[0]


@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1.0, 1e2, 1e6])
@pytest.mark.parametrize(
    "cost",
    [
        1 - np.eye(4),
        np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0))),
        np.tile([[1.0], [0.0], [2.0], [3.0]], 4),
        np.array([[0, 1, 5, 4], [1, 0, 5, 3], [2, 1, 5, 2], [3, 2, 5, 1.0]]),
        -np.arange(16.0).reshape(4, 4),
        1e9 * (1 - np.eye(4)),
        1e-9 * np.arange(16.0).reshape(4, 4),
    ],
    ids=["hamming", "absolute", "equal columns", "dominated column", "negative", "huge", "tiny"],
)
def test_certifies_1e_6_at_any_scale(cost, scale):
    game = as_game(random_game(20, 4, cost=cost, scale=scale * np.ptp(cost)))
    play = solve_batch(game, InteriorPoint(), 1e-6)
    lower, upper = play.bounds(game)
    assert upper[0] - lower[0] <= game.allowed_gap(1e-6)[0]


@pytest.mark.parametrize(("n", "k"), [(18, 3), (20, 9), (8, 26), (24, 22)])
def test_reaches_far_below_its_promise(n, k):
    """Asked for the impossible, it stops by itself with bounds close to what rounding allows."""
    for seed in range(5):
        game = as_game(random_game(n, k, seed))
        play = solve_batch(game, InteriorPoint(), 1e-15)
        assert not play.exhausted.any()
        assert relative_gap(game, play) <= 3e-7


def test_behaves_the_same_at_every_scale():
    """Scores, costs and weights enter by their ratios: powers of two change no digit."""
    data = random_game(12, 4, seed=3)
    once = InteriorPoint().play(as_game(data), 1e-6)
    scaled = data._replace(
        unary=data.unary * 2**20, pairwise=data.pairwise * 2**20, cost=data.cost * 2**14
    )._replace(node_weight=data.node_weight * 2**6)
    twice = InteriorPoint().play(as_game(scaled), 1e-6)
    assert once.n_iter == twice.n_iter
    np.testing.assert_allclose(once.p, twice.p, atol=1e-9)
    np.testing.assert_allclose(once.q, twice.q, atol=1e-9)


def test_a_single_feasible_labelling():
    n, k = 6, 3
    data = random_game(n, k, seed=5)
    labels = np.arange(n) % k
    unary = np.where(np.arange(k) == labels[:, None], data.unary, -np.inf)
    game = as_game(data._replace(unary=unary))
    play = solve_batch(game, InteriorPoint(), 1e-6)
    np.testing.assert_array_equal(game.scores.batch.to_user(play.r).argmax(1), labels)
    assert relative_gap(game, play) <= 1e-6


def test_forbidden_pairs_that_leave_labels_unreachable():
    """A label may be finite and yet occur in no finite labelling."""
    pairwise = np.zeros((2, 3, 3))
    pairwise[0, :, 2] = -np.inf  # node 1 never has label 2 ...
    pairwise[1, :2, 0] = -np.inf  # ... so node 2 has label 0 only where node 1 has 2
    unary = np.zeros((3, 3))
    unary[2, 0] = 5.0
    data = GameData(unary, np.array([[0, 1], [1, 2]]), pairwise, 1 - np.eye(3), np.ones(3))
    game = as_game(data)
    play = solve_batch(game, InteriorPoint(), 1e-6)
    r = game.scores.batch.to_user(play.r)
    assert r[2, 0] == r[1, 2] == 0
    assert relative_gap(game, play) <= 1e-6


def test_zero_weights_drop_the_node_and_zero_costs_leave_the_best_labelling():
    data = random_game(10, 4, seed=2)
    weight = np.where(np.arange(10) < 5, 0.0, 1.0)
    game = as_game(data._replace(node_weight=weight))
    assert relative_gap(game, solve_batch(game, InteriorPoint(), 1e-6)) <= 1e-6
    for change in ({"cost": np.full((4, 4), 7.0)}, {"node_weight": np.zeros(10)}):
        game = as_game(data._replace(**change))
        lower, upper = solve_batch(game, InteriorPoint(), 1e-6).bounds(game)
        assert upper[0] - lower[0] <= game.rounding()[0]


@pytest.mark.parametrize("shape", ["chain", "tree"])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 100.0])
def test_long_games(shape, scale):
    game = as_game(random_game(2000, 3, scale=scale, shape=shape))
    assert relative_gap(game, solve_batch(game, InteriorPoint(), 1e-6)) <= 1e-6


@settings(max_examples=150)
@given(game=games(max_nodes=6, max_labels=4), tol=st.sampled_from([1e-2, 1e-6]))
def test_never_nan_on_hostile_games(game, tol):
    problem = as_game(game)
    play = InteriorPoint().play(problem, tol)
    for array in (play.p, play.r, play.q):
        assert np.isfinite(array).all()
    play.repair(problem)
    lower, upper = play.bounds(problem)
    assert upper[0] - lower[0] <= problem.allowed_gap(tol)[0] + 10 * problem.rounding()[0]


def moved(game: Game, amount: float, seed: int = 0) -> Game:
    rng = np.random.default_rng(seed)
    s = game.scores
    scores = dataclasses.replace(
        s,
        unary=s.unary + amount * rng.normal(size=s.unary.shape),
        tables=s.tables + amount * rng.normal(size=s.tables.shape),
    )
    return dataclasses.replace(game, scores=scores)


@pytest.mark.parametrize(("n", "k"), [(18, 3), (20, 9), (12, 20)])
def test_warm_start_takes_a_fraction_of_the_steps(n, k):
    cold = warm = 0
    for seed in range(6):
        game = as_game(random_game(n, k, seed))
        before = solve_batch(game, InteriorPoint(), 1e-6)
        after = moved(game, 1e-3)
        cold += InteriorPoint().play(after, 1e-6).n_iter[0]
        play = solve_batch(after, InteriorPoint(), 1e-6, before)
        warm += play.n_iter[0]
        assert relative_gap(after, play) <= 1e-6
    assert warm <= 0.5 * cold


def test_warm_start_that_still_holds_costs_no_step():
    game = as_game(random_game(15, 5))
    before = solve_batch(game, InteriorPoint(), 1e-6)
    assert InteriorPoint().play(game, 1e-6, before).n_iter[0] == 0


@pytest.mark.parametrize("spoil", [np.nan, np.inf, -1.0, 0.0])
def test_a_useless_warm_start_does_no_harm(spoil):
    game = as_game(random_game(15, 5))
    start = solve_batch(game, InteriorPoint(), 1e-6)
    start.p[:], start.r[:], start.q[:] = spoil, spoil, spoil
    assert relative_gap(game, solve_batch(game, InteriorPoint(), 1e-6, start)) <= 1e-6


def test_a_batch_is_its_games_on_any_number_of_threads():
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 40, 200)
    batch = Batch.build([(int(n), None) for n in sizes])
    unary = rng.normal(size=(batch.n_nodes, 3))
    scores = Scores.from_user(batch, unary, rng.normal(size=(batch.n_edges, 3, 3)))
    game = Game(scores, 1 - np.eye(3), np.ones(batch.n_nodes))
    one, two = (InteriorPoint().play(game, 1e-6, n_jobs=n_jobs) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.p, two.p)
    np.testing.assert_array_equal(one.q, two.q)
    one.repair(game)
    lower, upper = one.bounds(game)
    assert (upper - lower <= game.allowed_gap(1e-6)).all()


def test_a_warm_start_may_play_what_is_now_forbidden():
    data = random_game(6, 4, seed=1)
    before = InteriorPoint().play(as_game(data), 1e-6)
    game = as_game(data)
    root = int(np.flatnonzero(game.scores.batch.parent < 0)[0])
    game.scores.unary[root, before.r[root].argmax()] = -np.inf
    play = solve_batch(game, InteriorPoint(), 1e-6, before)
    assert play.r[root, before.r[root].argmax()] == 0
    assert relative_gap(game, play) <= 1e-6


def test_says_when_iterations_ran_out():
    game = as_game(random_game(20, 5))
    play = solve_batch(game, InteriorPoint(max_iter=2), 1e-6)
    assert play.exhausted.all()
    assert (play.n_iter == 2).all()


def long_chain(seed, k, cost, rows, tables, uneven):
    """400 nodes whose rows of scores, and tables, are up to 1e4 times as large as the costs."""
    rng = np.random.default_rng(seed)
    n = 400
    edges = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    scale = {
        "any": 10.0 ** rng.uniform(-4, 4, size=(n, 1)),
        "half": np.where(rng.random((n, 1)) < 0.5, 1e4, 1.0),
        "few": np.where(rng.random((n, 1)) < 0.02, 1e4, 1.0),
        "all": np.full((n, 1), 1e4),
    }[rows]
    pairwise = {
        "plain": rng.normal(size=(n - 1, k, k)),
        "any": rng.normal(size=(n - 1, k, k)) * 10.0 ** rng.uniform(0, 4, size=(n - 1, 1, 1)),
        "equal labels": np.tile(1e4 * np.eye(k), (n - 1, 1, 1)),
    }[tables]
    weight = 10.0 ** rng.uniform(-2, 2, size=n) if uneven else np.ones(n)
    matrix = {
        "hamming": 1 - np.eye(k),
        "squared": np.subtract.outer(np.arange(k), np.arange(k)) ** 2.0,
        "random": rng.random((k, k)),
    }[cost]
    return GameData(rng.normal(size=(n, k)) * scale, edges, pairwise, matrix, weight)


@pytest.mark.parametrize("rows", ["any", "half", "few", "all"])
@pytest.mark.parametrize("tables", ["plain", "any", "equal labels"])
@pytest.mark.parametrize(
    ("k", "cost", "uneven"),
    [(3, "hamming", False), (5, "random", False), (5, "random", True), (5, "squared", False)],
)
def test_rows_far_larger_than_costs_do_not_stall_long_chains(rows, tables, k, cost, uneven):
    """Labels far behind the best have masses that no Newton step meets to a relative precision."""
    game = long_chain(0, k, cost, rows, tables, uneven)
    solution = solve_game(*game)
    assert solution.status is Status.CONVERGED
    assert_honest(solution, game, 1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_long_chains_agree_with_a_linear_program(seed):
    game = long_chain(seed, 3, "hamming", "half", "plain", False)
    # Without what each node scores at best, so that absolute tolerances mean something.
    shifted = game._replace(unary=game.unary - game.unary.max(axis=1, keepdims=True))
    solution, value = solve_game(*shifted), local_polytope_value(*shifted)
    assert solution.lower - 1e-5 <= value <= solution.upper + 1e-5
