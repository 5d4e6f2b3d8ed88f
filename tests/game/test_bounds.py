"""Weak duality and repair: what the bounds prove about any strategies, however bad."""

import numpy as np
from game_cases import rounding
from hypothesis import given, settings
from hypothesis import strategies as st

from robustruct.game.game import Play
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
    tables = np.zeros((*p.shape, p.shape[1]))
    tables[batch.slot_of_edge] = q
    turned = batch.flipped
    tables[turned] = tables[turned].transpose(0, 2, 1)
    n_iter = np.zeros(1, np.intp)
    p, r = batch.from_user(p).copy(), batch.from_user(r).copy()
    return Play(p, r, tables, n_iter, np.zeros(1, bool), "test")


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
    answers = np.where(possible, r @ data.cost.T, np.inf)
    by_hand = share @ scores + data.node_weight @ answers.min(axis=1)
    assert abs(lower - by_hand) <= slack
    paid = (p @ data.cost) * data.node_weight[:, None]
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
