"""Mirror-prox: valid bounds always, small gaps at loose tolerances."""

from __future__ import annotations

import numpy as np
import pytest
from game_cases import random_game
from hypothesis import given, settings
from test_interior_point import as_game, relative_gap

from robustruct.game.interior_point import InteriorPoint
from robustruct.game.mirror_prox import MirrorProx
from robustruct.game.solve import solve_batch
from robustruct.testing.strategies import games


@pytest.mark.parametrize("shape", ["chain", "tree", "star"])
@pytest.mark.parametrize(("n", "k"), [(1, 4), (9, 3), (12, 8)])
def test_encloses_the_exact_value(n, k, shape):
    game = as_game(random_game(n, k, seed=n + k, shape=shape))
    play = solve_batch(game, MirrorProx(), 5e-3)
    lower, upper = play.bounds(game)
    assert relative_gap(game, play) <= 5e-3
    assert not play.exhausted.any()
    exact_lower, exact_upper = solve_batch(game, InteriorPoint(), 1e-8).bounds(game)
    assert lower[0] <= exact_upper[0] + 1e-9
    assert exact_lower[0] <= upper[0] + 1e-9


def test_gap_falls_as_one_over_the_iterations():
    game = as_game(random_game(15, 4))
    gaps = [
        relative_gap(game, solve_batch(game, MirrorProx(max_iter=m), 0.0)) for m in (50, 200, 800)
    ]
    assert gaps[1] <= gaps[0] / 2
    assert gaps[2] <= gaps[1] / 2


@settings(max_examples=50)
@given(game=games(max_nodes=5, max_labels=3))
def test_never_nan_on_hostile_games(game):
    problem = as_game(game)
    play = MirrorProx(max_iter=200).play(problem, 1e-2)
    for array in (play.p, play.r, play.q):
        assert np.isfinite(array).all()
    play.repair(problem)
    lower, upper = play.bounds(problem)
    assert np.isfinite(lower).all()
    assert (lower <= upper + 10 * problem.rounding()).all()


def test_tables_shared_between_samples_and_edges():
    """One table for all edges, as in a chain model: the same as one table per edge."""
    game = as_game(random_game(10, 3, shape="chain"))
    scores = game.scores
    scores.tables[:] = scores.tables[0]
    apart = MirrorProx().play(game, 1e-2)
    scores.table_of[:] = 0
    shared = MirrorProx().play(game, 1e-2)
    np.testing.assert_allclose(apart.p, shared.p, atol=1e-12)
