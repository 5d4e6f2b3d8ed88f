"""Weak duality and repair: what the bounds prove about any strategies, however bad."""

import numpy as np
import pytest
from game_cases import random_game, rounding
from hypothesis import given, settings
from hypothesis import strategies as st

from robustruct.core.games import game_upper, make_feasible
from robustruct.core.structs import Strategies
from robustruct.game.game import Play, upper_bounds
from robustruct.game.solve import _checked_game, solve_game
from robustruct.testing.oracles import all_labellings, labelling_score
from robustruct.testing.strategies import games


def random_play(game, data, seed):
    """Any p and q; q as a mixture of a few allowed labellings, p over the labels that these have.

    User order: p, r, q, the mixture, and (n, k) the labels that can occur.
    """
    rng = np.random.default_rng(seed)
    n, k = data.unary.shape
    labellings = all_labellings(n, k)
    scores = [labelling_score(data.unary, data.edges, data.pairwise, y) for y in labellings]
    allowed = labellings[np.array(scores) > -np.inf]
    possible = (allowed[:, :, None] == np.arange(k)).any(axis=0)
    p = np.where(possible, rng.dirichlet(np.full(k, 0.5), size=n) + 1e-9, 0.0)
    p /= p.sum(axis=1, keepdims=True)
    chosen = allowed[rng.integers(len(allowed), size=3)]
    share = rng.dirichlet(np.ones(3))
    r, q = np.zeros((n, k)), np.zeros((len(data.edges), k, k))
    for y, mass in zip(chosen, share, strict=True):
        r[np.arange(n), y] += mass
        for e, (i, j) in enumerate(data.edges):
            q[e, y[i], y[j]] += mass
    return p, r, q, chosen, share, possible


def as_play(game, p, r, q):
    batch = game.scores.batch
    tables = np.zeros((batch.n_slots, p.shape[1], p.shape[1]))
    tables[batch.slot_of_edge] = q
    turned = batch.flipped
    tables[turned] = tables[turned].transpose(0, 2, 1)
    n_iter, exhausted = np.zeros(batch.n_samples, np.intp), np.zeros(batch.n_samples, bool)
    p, r = batch.from_user(p).copy(), batch.from_user(r).copy()
    return Play(p, r, tables, n_iter, exhausted, "test")


@settings(max_examples=60)
@given(data=games(max_nodes=4, max_labels=3), seed=st.integers(0, 10_000))
def test_any_p_and_q_enclose_the_value(data, seed):
    game = _checked_game([data.unary], [data.edges], [data.pairwise], data.cost, [data.node_weight])
    p, r, q, chosen, share, possible = random_play(game, data, seed)
    play = as_play(game, p, r, q)
    (lower,), (upper,) = play.bounds(game)
    slack = 10 * rounding(data)
    # By definition, labelling by labelling.
    scores = [labelling_score(data.unary, data.edges, data.pairwise, y) for y in chosen]
    answers = np.where(possible, r @ data.cost, np.inf)
    by_hand = share @ scores + data.node_weight @ answers.min(axis=1)
    assert abs(lower - by_hand) <= slack
    paid = (p @ data.cost.T) * data.node_weight[:, None]
    everything = [
        labelling_score(data.unary + paid, data.edges, data.pairwise, y)
        for y in all_labellings(*data.unary.shape)
    ]
    assert abs(upper - max(everything)) <= slack
    assert lower <= upper + slack
    exact = solve_game(*data, solver="linear_program")
    assert lower <= exact.upper + slack
    assert exact.lower <= upper + slack


@settings(max_examples=60)
@given(data=games(max_nodes=4, max_labels=3), seed=st.integers(0, 10_000))
def test_repair_leaves_feasible_strategies_alone(data, seed):
    game = _checked_game([data.unary], [data.edges], [data.pairwise], data.cost, [data.node_weight])
    p, r, q, *_ = random_play(game, data, seed)
    play, same = as_play(game, p, r, q), as_play(game, p, r, q)
    play.repair(game)
    for one, other in ((play.p, same.p), (play.r, same.r), (play.q, same.q)):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-14)


@settings(max_examples=60)
@given(data=games(max_nodes=5, max_labels=3), seed=st.integers(0, 10_000))
def test_repair_makes_anything_feasible(data, seed):
    game = _checked_game([data.unary], [data.edges], [data.pairwise], data.cost, [data.node_weight])
    n, k = data.unary.shape
    rng = np.random.default_rng(seed)
    junk = [rng.normal(size=shape) for shape in ((n, k), (n, k), (n, k, k))]
    for array in junk:
        array[rng.random(array.shape) < 0.2] = np.nan
        array[rng.random(array.shape) < 0.2] = 0.0
    play = Play(*junk, np.zeros(1, np.intp), np.zeros(1, bool), "junk")
    play.repair(game)
    parent = game.scores.batch.parent
    inner = parent >= 0
    for array in (play.p, play.r, play.q):
        assert (array >= 0).all()
    np.testing.assert_allclose(play.p.sum(1), 1, atol=1e-12)
    np.testing.assert_allclose(play.r.sum(1), 1, atol=1e-12)
    np.testing.assert_allclose(play.q.sum(2)[inner], play.r[inner], atol=1e-12)
    np.testing.assert_allclose(play.q.sum(1)[inner], play.r[parent[inner]], atol=1e-12)
    assert np.isfinite(play.bounds(game)).all()


UNEVEN = np.array([[-0.5, 3.0, 1.0], [1.0, 0.25, -4.0], [2.0, 0.5, 0.0]]) / 16  # range 7 / 16


def several_games(cycles):
    """Forests of several sizes in one batch, some pairs and labels forbidden; or with cycles."""
    rng = np.random.default_rng(3)
    drawn = [
        random_game(n, 3, seed, cost=UNEVEN, scale=0.5, weight=rng.uniform(0.2, 2.0, n))
        for seed, n in enumerate((3, 1, 5, 2, 4))
    ]
    drawn[2].node_weight[:2] = 0.5, 0.0
    drawn[2].unary[4, 0] = drawn[2].pairwise[0, 1, 2] = drawn[4].pairwise[2, 0, 0] = -np.inf
    drawn[3] = drawn[3]._replace(edges=np.empty((0, 2), int), pairwise=np.empty((0, 3, 3)))
    if not cycles:
        return drawn
    more = [(0, 1, [(0, 2), (2, 1), (1, 0)]), (4, 4, [(0, 1), (2, 1), (2, 3), (3, 0), (0, 2)])]
    for at, seed, edges in more:
        tables = np.random.default_rng(seed).normal(size=(len(edges), 3, 3))
        tables[1, 2, 0] = -np.inf
        drawn[at] = drawn[at]._replace(edges=np.array(edges), pairwise=tables)
    return drawn


def batch_of(several):
    unary, edges, pairwise, _, weight = (list(parts) for parts in zip(*several, strict=True))
    return _checked_game(unary, edges, pairwise, UNEVEN, weight)


def largest(table):
    return np.abs(table[np.isfinite(table)]).max()


forests_and_cycles = pytest.mark.parametrize("cycles", [False, True], ids=["forests", "cycles"])


@forests_and_cycles
def test_what_gaps_and_rounding_are_measured_by(cycles):
    several = several_games(cycles)
    game = batch_of(several)
    total_weight = np.array([one.node_weight.sum() for one in several])
    np.testing.assert_allclose(game.scale(), 0.4375 * total_weight, rtol=1e-14)
    scores = [sum(map(largest, [*one.unary, *one.pairwise])) for one in several]
    sizes = np.array(scores) + 0.25 * total_weight
    np.testing.assert_allclose(game.sizes(), sizes, rtol=1e-14)
    np.testing.assert_allclose(game.rounding(), 1e-14 * sizes, rtol=1e-14)
    np.testing.assert_allclose(
        game.allowed_gap(0.25), 0.109375 * total_weight + 1e-14 * sizes, rtol=1e-14
    )
    # Per node 3 scores and 3 costs, per edge 9 scores; 10 more for what is done to the sums.
    terms = np.array([6 * len(one.unary) + 9 * len(one.edges) for one in several])
    most = 2.0**-51 * (terms + 10) * sizes
    np.testing.assert_allclose(game.most_rounding(), most, rtol=1e-14)


@forests_and_cycles
def test_bounds_of_many_games_are_those_of_each(cycles):
    several = several_games(cycles)
    game = batch_of(several)
    plays = [random_play(game, one, seed) for seed, one in enumerate(several)]
    p, r, q = (np.concatenate([play[i] for play in plays]) for i in range(3))
    lower, upper = as_play(game, p, r, q).bounds(game, n_jobs=1)
    for s, (one, (p, r, _, chosen, share, possible)) in enumerate(zip(several, plays, strict=True)):
        scored = [labelling_score(one.unary, one.edges, one.pairwise, y) for y in chosen]
        answers = np.where(possible, r @ UNEVEN, np.inf).min(axis=1)
        assert lower[s] == pytest.approx(share @ scored + one.node_weight @ answers, rel=1e-12)
        augmented = one.unary + one.node_weight[:, None] * (p @ UNEVEN.T)
        everything = [
            labelling_score(augmented, one.edges, one.pairwise, y)
            for y in all_labellings(*one.unary.shape)
        ]
        assert upper[s] == pytest.approx(max(everything), rel=1e-12)


def test_games_in_the_middle_of_a_batch_do_not_need_those_before():
    game = batch_of(several_games(False))
    p = np.full(game.scores.unary.shape, 1.0 / 3.0)
    upper = np.full(5, np.nan)
    for first, last in ((3, 5), (2, 3), (0, 2)):
        game_upper(first, last, game.arrays, p, upper)
    np.testing.assert_array_equal(upper, upper_bounds(game, p, n_jobs=1))
    rng = np.random.default_rng(0)
    played = Strategies(*(rng.normal(size=shape) for shape in ((15, 3), (15, 3), (15, 3, 3))))
    before = [array.copy() for array in played]
    make_feasible(2, 3, game.arrays.structure, game.arrays.scores, played)
    others = np.r_[:4, 9:15]
    for array, old in zip(played, before, strict=True):
        np.testing.assert_array_equal(array[others], old[others])
        assert (array[4:9] >= 0).all()


@forests_and_cycles
def test_repair_is_what_it_says(cycles):
    """p keeps what is mass; q keeps the child's distribution given its parent's label."""
    several = several_games(cycles)
    game = batch_of(several)
    batch, unary = game.scores.batch, game.scores.unary
    rng = np.random.default_rng(8)
    p, r = rng.normal(size=unary.shape), rng.normal(size=unary.shape)
    q = rng.normal(size=(batch.n_slots, 3, 3))
    p[0], r[0], p[1, 0] = -1.0, np.nan, np.nan
    p[unary == -np.inf] = r[unary == -np.inf] = 1.0
    play = Play(p.copy(), r.copy(), q.copy(), np.zeros(5, np.intp), np.zeros(5, bool), "junk")
    play.repair(game, n_jobs=1)
    given = np.where((p > 0) & (unary > -np.inf), p, 0.0)
    empty = given.sum(axis=1) == 0
    given[empty] = unary[empty] > -np.inf
    np.testing.assert_allclose(play.p, given / given.sum(axis=1, keepdims=True), rtol=1e-14)
    assert empty.sum() >= 1
    if cycles:  # there r and q are the solver's to make feasible
        return
    best = unary.copy()  # of the labelling below a node, whose children come before it
    tables = game.scores.tables[game.scores.table_of[: batch.n_nodes]]
    for i in range(batch.n_nodes):
        if batch.parent[i] >= 0:
            best[batch.parent[i]] += (best[i][:, None] + tables[i]).max(axis=0)
    for i in reversed(range(batch.n_nodes)):
        above = batch.parent[i]
        if above < 0:
            mass = np.where((r[i] > 0) & (best[i] > -np.inf), r[i], 0.0)
            mass = mass if mass.any() else np.eye(3)[np.argmax(best[i])]
            np.testing.assert_allclose(play.r[i], mass / mass.sum(), rtol=1e-14)
            assert (play.q[i] == 0).all()
            continue
        reach = best[i][:, None] + tables[i]
        given = np.where((q[i] > 0) & (reach > -np.inf), q[i], 0.0)
        for a in range(3):
            column = given[:, a] if given[:, a].any() else np.eye(3)[np.argmax(reach[:, a])]
            expected = play.r[above, a] * column / column.sum()
            np.testing.assert_allclose(play.q[i, :, a], expected, rtol=1e-13)
        np.testing.assert_allclose(play.r[i], play.q[i].sum(axis=1), rtol=1e-14)


def test_an_adversary_without_mass_plays_the_first_of_the_best_labellings():
    edges = [np.array([(0, 1), (1, 2)])]
    game = _checked_game([np.zeros((3, 3))], edges, [np.zeros((2, 3, 3))], UNEVEN, [np.ones(3)])
    play = as_play(game, np.zeros((3, 3)), np.zeros((3, 3)), np.zeros((2, 3, 3)))
    play.repair(game)
    np.testing.assert_array_equal(play.r, np.eye(3)[[0, 0, 0]])
    np.testing.assert_array_equal(play.p, np.full((3, 3), 1.0 / 3.0))


@pytest.mark.parametrize("best", [(0, 1, 2), (1, 2, 0), (2, 0, 1), (1, 1, 1)])
def test_an_adversary_without_mass_plays_the_best_labelling(best):
    edges, unary = [np.array([(0, 1), (1, 2)])], np.eye(3)[list(best)]
    game = _checked_game([unary], edges, [np.zeros((2, 3, 3))], UNEVEN, [np.ones(3)])
    play = as_play(game, np.zeros((3, 3)), np.zeros((3, 3)), np.zeros((2, 3, 3)))
    play.repair(game)
    np.testing.assert_array_equal(game.scores.batch.to_user(play.r), unary)
