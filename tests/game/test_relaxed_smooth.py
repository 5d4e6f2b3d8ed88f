"""Relaxed games with an entropy, against enumeration, a convex solver and exact games."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.optimize import minimize

from robustruct import solve_game
from robustruct.datasets.synthetic import grid_edges
from robustruct.errors import IncompatibleError
from robustruct.game.game import Game
from robustruct.game.relaxed_smooth import first_point, improve, play_relaxed_smooth
from robustruct.game.smooth import play_smooth
from robustruct.graphs import Batch
from robustruct.inference import marginals
from robustruct.scores import Scores
from robustruct.testing.strategies import graphs


def random_scores(n, edges, k, seed, coupling=1.0):
    rng = np.random.default_rng(seed)
    edges = np.asarray(edges, np.intp).reshape(-1, 2)
    pairwise = coupling * rng.normal(size=(len(edges), k, k))
    return Scores.from_user(Batch.build([(n, edges)]), rng.normal(size=(n, k)), pairwise)


def without_costs(scores):
    return Game(scores, np.zeros((scores.n_labels,) * 2), np.ones(scores.batch.n_nodes))


def solved(game, temperature=1.0, gap=1e-8):
    """(lower, upper, point) of games of a batch, by sweeps alone, also on forests."""
    point = first_point(game)
    allowed = np.full(game.scores.batch.n_samples, gap)
    lower, upper, _ = improve(game, temperature, allowed, point, 1, 20_000)
    return lower, upper, point


SMALL = {
    "grid": (9, grid_edges(3, 3)),
    "complete": (5, [[i, j] for i in range(5) for j in range(i)]),
    "wheel": (6, [[0, i] for i in range(1, 6)] + [[i, i % 5 + 1] for i in range(1, 6)]),
    "two parts": (7, [[0, 1], [1, 2], [2, 0], [3, 4], [5, 6]]),
}


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("coupling", [0.5, 3.0])
def test_log_partition_is_bounded_from_above(name, coupling):
    scores = random_scores(*SMALL[name], 2, 0, coupling)
    (exact,) = marginals(scores).log_partition
    (lower,), (upper,), _ = solved(without_costs(scores), gap=1e-7)
    assert upper - lower <= 1e-7
    assert exact <= upper + 1e-9
    assert upper - exact < 1.5  # in nats: a bound that says something
    # A few steps give bounds too.
    point = first_point(without_costs(scores))
    (low,), (high,), _ = improve(without_costs(scores), 1.0, np.zeros(1), point, 1, 3)
    assert low <= upper + 1e-9
    assert high >= lower - 1e-9


@settings(max_examples=30)
@given(graphs(max_nodes=7))
def test_on_forests_it_is_the_exact_distribution(graph):
    """Also where other samples of the batch have cycles."""
    n, edges = graph
    rng = np.random.default_rng(n)
    tree = np.array([[rng.integers(0, i), i] for i in range(1, n)], np.intp).reshape(-1, 2)
    batch = Batch.build([(n, edges), (n, tree), (3, np.array([[0, 1], [1, 2], [2, 0]]))])
    k = 3
    scores = Scores.from_user(
        batch, rng.normal(size=(batch.n_nodes, k)), rng.normal(size=(batch.n_edges, k, k))
    )
    exact = marginals(scores, edges=True)
    _, upper, point = solved(without_costs(scores), gap=1e-9)
    assert upper[1] == pytest.approx(exact.log_partition[1], abs=1e-9)
    assert (upper >= exact.log_partition - 1e-9).all()
    nodes = slice(n, 2 * n)
    np.testing.assert_allclose(point.r[nodes], exact.nodes[nodes], atol=1e-9)
    slots = batch.slots_of(np.array([1]))
    inner = slots[batch.parent[slots] >= 0]
    np.testing.assert_allclose(point.q[inner], exact.edges[inner], atol=1e-9)


def forest_shares(batch):
    """(slots,) the share of spanning forests that each edge is in, by the rule of spanning.c."""
    forests = batch.spanning_forests
    position = np.empty(batch.n_nodes, int)
    position[forests.order] = np.arange(batch.n_nodes)
    count = int(forests.rows[1] // batch.n_nodes)
    later = {}
    for slot in np.flatnonzero(batch.parent >= 0):
        ends = batch.child[slot], batch.parent[slot]
        first = min(ends, key=lambda i: position[i])
        later.setdefault(first, []).append(slot)
    shares = np.zeros(batch.n_slots)
    for slots in later.values():
        slots.sort(key=lambda slot: slot)
        uses = [len(range(t, count, len(slots))) for t in range(len(slots))]
        shares[slots] = np.array(uses) / count
    return shares


@pytest.mark.parametrize("name", SMALL)
def test_forests_cover_all_edges_and_have_no_cycles(name):
    """Every subset of nodes has fewer edges in it, by shares, than nodes: so H is concave."""
    n, edges = SMALL[name]
    batch = Batch.build([(n, np.asarray(edges, np.intp))])
    shares = forest_shares(batch)
    inner = batch.parent >= 0
    assert (shares[inner] > 0).all()
    for chosen in product([False, True], repeat=n):
        within = np.array(chosen)
        if within.any():
            inside = inner & within[batch.child] & within[batch.parent]
            assert shares[inside].sum() <= within.sum() - 1 + 1e-12
    forests = batch.spanning_forests
    assert sorted(forests.order) == list(range(n))


def entropies(x):
    return -(x * np.log(np.maximum(x, 1e-300))).reshape(len(x), -1).sum(axis=1)


def relaxed_value(scores, shares, temperature):
    """max <ψ, q> + T H(q) over the local polytope, by a generic solver (two labels).

    With two labels P(label 1) of each node and P(both 1) of each edge say all.
    """
    batch, n = scores.batch, scores.batch.n_nodes
    slots = np.flatnonzero(batch.parent >= 0)
    child, parent, rho = batch.child[slots], batch.parent[slots], shares[slots]
    pairs = scores.tables[scores.table_of[slots]]

    def minus_value(x):
        """With its gradient."""
        one, other, both = x[child], x[parent], x[n:]
        r = np.stack([1 - x[:n], x[:n]], axis=1)
        q = np.array([[1 - one - other + both, other - both], [one - both, both]])
        q = q.transpose(2, 0, 1)
        by_r = scores.unary - temperature * counted[:, None] * (np.log(r) + 1)
        by_q = pairs - temperature * rho[:, None, None] * (np.log(q) + 1)
        held = counted @ entropies(r) + rho @ entropies(q)
        gradient = np.concatenate([by_r[:, 1] - by_r[:, 0], by_q[:, 0, 0] + by_q[:, 1, 1]])
        gradient[n:] -= by_q[:, 0, 1] + by_q[:, 1, 0]
        np.add.at(gradient, child, by_q[:, 1, 0] - by_q[:, 0, 0])
        np.add.at(gradient, parent, by_q[:, 0, 1] - by_q[:, 0, 0])
        value = (scores.unary * r).sum() + (pairs * q).sum() + temperature * held
        return -value, -gradient

    counted = np.ones(n)  # how often the entropy of each node is counted, that of edges rho times
    np.subtract.at(counted, child, rho)
    np.subtract.at(counted, parent, rho)
    m, unit = len(slots), np.eye(n + len(slots))
    inside = np.concatenate(
        [unit[child] - unit[n:], unit[parent] - unit[n:], unit[n:] - unit[child] - unit[parent]]
    )
    least = np.repeat([1e-9, 1e-9, 1e-9 - 1.0], m)
    found = minimize(
        minus_value, np.concatenate([np.full(n, 0.5), np.full(m, 0.25)]), jac=True,
        method="SLSQP",
        bounds=[(1e-9, 1 - 1e-9)] * (n + m), options={"ftol": 1e-12, "maxiter": 500},
        constraints={"type": "ineq", "fun": lambda x: inside @ x - least, "jac": lambda _: inside},
    )  # fmt: skip
    assert found.success
    return -found.fun


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_value_is_that_of_a_generic_solver(temperature):
    scores = random_scores(9, grid_edges(3, 3), 2, 3)
    value = relaxed_value(scores, forest_shares(scores.batch), temperature)
    (lower,), (upper,), _ = solved(without_costs(scores), temperature)
    assert lower == pytest.approx(value, abs=1e-5)
    assert upper >= value - 1e-9


@pytest.mark.parametrize("temperature", [2.0, 0.3])
def test_games_on_trees_are_the_exact_ones(temperature):
    rng = np.random.default_rng(2)
    n, k = 8, 4
    tree = [[rng.integers(0, i), i] for i in range(1, n)]
    game = Game(random_scores(n, tree, k, 1), rng.random((k, k)), rng.random(n) + 0.5)
    (lower,), (upper,), point = solved(game, temperature, gap=1e-6)
    exact, (low,), (high,) = play_smooth(game, temperature, 1e-8)
    assert upper - lower <= 1e-6
    assert lower - 1e-9 <= high
    assert low <= upper + 1e-9
    np.testing.assert_allclose(point.r, exact.r, atol=1e-3)
    np.testing.assert_allclose(point.p, exact.p, atol=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_games_are_worth_at_least_the_exact_ones(seed):
    rng = np.random.default_rng(seed)
    scores = random_scores(9, grid_edges(3, 3), 3, seed)
    game = Game(scores, rng.random((3, 3)), rng.random(9) + 0.5)
    play, lower, upper = play_relaxed_smooth(game, 0.7, 1e-4)
    _, exact, _ = play_smooth(game, 0.7, 1e-7)
    assert (upper >= exact - 1e-7).all()
    assert (upper - lower <= game.allowed_gap(1e-4)).all()
    assert not play.exhausted.any()
    # Both strategies are what the bounds say: p on simplices, q with the margins r.
    np.testing.assert_allclose(play.p.sum(axis=1), 1.0)
    batch = scores.batch
    inner = np.flatnonzero(batch.parent >= 0)
    np.testing.assert_allclose(play.q[inner].sum(axis=2), play.r[batch.child[inner]], atol=1e-12)
    np.testing.assert_allclose(play.q[inner].sum(axis=1), play.r[batch.parent[inner]], atol=1e-12)


def test_forbidden_labels_and_pairs_get_no_mass():
    rng = np.random.default_rng(0)
    unary, pairwise = rng.normal(size=(9, 3)), rng.normal(size=(12, 3, 3))
    unary[0, 1] = -np.inf
    pairwise[:, 0, 2] = -np.inf
    pairwise[3, 1] = -np.inf
    cost = 1.0 - np.eye(3)
    given = unary, grid_edges(3, 3), pairwise, cost
    found = solve_game(*given, solver="relaxed", temperature=1.0, tol=1e-3)
    exact = solve_game(*given, temperature=1.0, tol=1e-5)
    assert found.relaxed
    assert found.lower <= found.upper
    assert found.upper >= exact.lower - 1e-9
    assert found.adversary_nodes[0, 1] == found.predictor[0, 1] == 0
    assert (found.adversary_edges[:, 0, 2] == 0).all()
    assert (found.adversary_edges[3, 1] == 0).all()


def test_low_temperatures_lead_to_the_relaxed_game_without_entropy():
    rng = np.random.default_rng(4)
    given = rng.normal(size=(9, 3)), grid_edges(3, 3), rng.normal(size=(12, 3, 3)), 1.0 - np.eye(3)
    cold = solve_game(*given, solver="relaxed", temperature=0.02, tol=1e-2)
    zero = solve_game(*given, solver="relaxed", tol=1e-3)
    most = 0.02 * 9 * np.log(3)  # T times the largest entropy
    assert zero.lower - 1e-6 <= cold.upper
    assert cold.lower <= zero.upper + most


def test_a_solver_of_temperature_zero_is_refused():
    with pytest.raises(IncompatibleError, match="'relaxed' on graphs with cycles"):
        solve_game([[0.0, 0.0]], [], [], 1 - np.eye(2), solver="pairwise", temperature=1.0)


def test_actions_beside_labels_are_played_where_they_are_cheap():
    """A game with actions is that whose dear actions are never played, or that with more."""
    rng = np.random.default_rng(1)
    given = rng.normal(size=(9, 3)), grid_edges(3, 3), rng.normal(size=(12, 3, 3))
    cost = 1.0 - np.eye(3)

    def value(column, **options):
        costs = np.hstack([cost, np.full((3, 1), column)])
        return solve_game(*given, costs, temperature=1.0, **options)

    plain = solve_game(*given, cost, temperature=1.0, solver="relaxed", tol=1e-5)
    dear = value(5.0, solver="relaxed", tol=1e-5)
    assert dear.upper == pytest.approx(plain.upper, abs=1e-3)
    cheap, exact = value(0.2, solver="relaxed", tol=1e-5), value(0.2, tol=1e-5)
    assert cheap.upper < plain.lower
    assert cheap.upper >= exact.lower
    assert cheap.predictor.shape == (9, 4)
    assert cheap.predictor[:, 3].max() > 0.1


def test_threads_change_nothing():
    rng = np.random.default_rng(0)
    batch = Batch.build([(16, grid_edges(4, 4))] * 6)
    unary, pairwise = rng.normal(size=(96, 3)), rng.normal(size=(batch.n_edges, 3, 3))
    game = Game(Scores.from_user(batch, unary, pairwise), 1.0 - np.eye(3), np.ones(96))
    one, two = (play_relaxed_smooth(game, 1.0, 1e-3, n_jobs)[0] for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.r, two.r)
    np.testing.assert_array_equal(one.p, two.p)
