"""The core's bounds and repairs of games are equal to those of the kernels, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from core_cases import LABELS, game_with_chords, games

from robustruct.core import games as core
from robustruct.core.structs import Strategies
from robustruct.kernels import game_bounds as kernels


def strategies(game, seed):
    """Strategies that need repair: some mass negative, missing or NaN."""
    rng = np.random.default_rng(seed)
    n, k = game.scores.unary.shape
    drawn = [rng.normal(size=shape) for shape in ((n, k), (n, k), (n, k, k))]
    for array in drawn:
        array[rng.random(array.shape) < 0.1] = np.nan
        array[rng.random(array.shape) < 0.3] = 0.0
    return Strategies(*drawn)


@pytest.mark.parametrize("k", LABELS)
@pytest.mark.parametrize("forbidden", [0.0, 0.3])
def test_repair_and_bounds(k, forbidden):
    game = games(0, k, forbidden=forbidden)
    results = []
    for module in (core, kernels):
        played = strategies(game, k)
        lower, upper, sizes = np.zeros((3, 5))
        for first, last in ((2, 5), (0, 2)):
            module.make_feasible(first, last, game.structure, game.scores, played)
            module.game_lower(first, last, game, played.r, played.q, lower)
            module.game_upper(first, last, game, played.p, upper)
        module.sum_largest(game, sizes)
        results.append((*played, lower, upper, sizes))
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_predictors_and_chords(k):
    game = game_with_chords(k)
    n, results = len(game.weight), []
    for module in (core, kernels):
        p, augmented, lower = strategies(game, k).p, np.empty((n, k)), np.arange(2.0)
        sizes, q = np.empty(2), np.abs(np.random.default_rng(k).normal(size=(n + 3, k, k)))
        q[game.scores.tables[game.scores.table_of] == -np.inf] = 0.0
        if module is core:
            core.normalise_predictors(1, n, game.scores, p)
            core.augmented_unary(game, p, augmented)
        else:
            kernels.normalise_predictors(1, n, game.scores.unary, p)
            kernels.augmented_unary(0, n, game.scores.unary, game.cost, game.weight, p, augmented)
        module.add_chords(game, q, lower)
        module.sum_largest(game, sizes)
        results.append((p, augmented, lower, sizes))
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_array_equal(mine, theirs)
