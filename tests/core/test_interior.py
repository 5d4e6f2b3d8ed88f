"""The core's interior point takes the steps of the kernel, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from core_cases import LABELS, games

from robustruct.core.interior import interior_point
from robustruct.core.structs import Effort, InteriorState, Strategies
from robustruct.kernels.interior_point import interior_point as kernel


def empty_strategies(n, k):
    return Strategies(np.zeros((n, k)), np.zeros((n, k)), np.zeros((n, k, k)))


def old_state(game, loss, spread):
    n, k = game.scores.unary.shape
    return InteriorState(
        np.empty((n, 4), np.intp),
        *np.empty((2, n, k), np.intp),
        np.empty((n, 2)),
        np.empty((n, 18, k)),
        np.empty((n + 1, 10, k, k)),
        loss,
        spread,
        *np.empty((3, n, k)),
        np.empty(n, np.intp),
    )


def play(game, tol, kernels, start=None, max_iter=100):
    """(n_iter, exhausted, p, r, q) of the core, or of the kernels."""
    n, k = game.scores.unary.shape
    n_samples = len(game.structure.offsets) - 1
    spread = float(np.ptp(game.cost))
    loss = (game.cost - game.cost.min()) / spread if spread > 0 else np.zeros_like(game.cost)
    found, warm = empty_strategies(n, k), start is not None
    allowed = tol * np.add.reduceat(game.weight, game.structure.offsets[:-1]) * spread + 1e-12
    effort = Effort(
        allowed, max_iter, 1, np.zeros(n_samples, np.intp), np.zeros(n_samples, np.bool_)
    )
    known = start if warm else found
    if kernels:
        state = old_state(game, loss, spread)
        kernel(0, n_samples, game, effort, warm, known, found, state)
    else:
        interior_point(0, n_samples, game, loss, spread, effort, warm, known, found)
    return effort.n_iter, effort.exhausted, *found


def assert_the_same(game, tol, **options):
    mine, theirs = (play(game, tol, kernels, **options) for kernels in (False, True))
    for ours, old in zip(mine, theirs, strict=True):
        np.testing.assert_array_equal(ours, old)
    return mine


@pytest.mark.parametrize("k", LABELS)
@pytest.mark.parametrize("forbidden", [0.0, 0.3])
@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_cold_and_warm_games(k, forbidden, scale):
    game = games(7, k, forbidden=forbidden, scale=scale)
    n_iter, _, *found = assert_the_same(game, 1e-6)
    assert k == 1 or n_iter.max() > 0
    moved = game._replace(weight=game.weight * 1.1)
    assert_the_same(moved, 1e-7, start=Strategies(*found))


@pytest.mark.parametrize("k", [2, 3, 5, 22])
def test_no_cost_few_steps_and_many_nodes(k):
    game = games(8, k)
    free = game._replace(cost=np.full((k, k), 2.0))
    assert_the_same(free, 1e-6)
    assert_the_same(game._replace(weight=np.zeros_like(game.weight)), 1e-6)
    _, exhausted, *_ = assert_the_same(game, 0.0, max_iter=3)
    assert exhausted.any()
    assert_the_same(games(9, k, sizes=(230, 1), forbidden=0.0), 1e-4)
