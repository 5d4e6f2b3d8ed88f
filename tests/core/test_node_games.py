"""Single nodes and dual decomposition in the core are equal to the kernels, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from core_cases import LABELS, games

from robustruct.core import decomposition as core
from robustruct.core.node_games import node_equilibria
from robustruct.core.structs import Prices, StepRule
from robustruct.game.single_node import CostForm
from robustruct.kernels import dual_decomposition as kernels
from robustruct.kernels.node_game import node_equilibria as kernel


def cost_of(kind, k, rng):
    place = rng.permutation(np.sort(rng.normal(size=k)))
    return {
        "zero-one": 1 - np.eye(k),
        "absolute": np.abs(place[:, None] - place),
        "squared": (place[:, None] - place) ** 2,
        "any": rng.random((k, k)),
        "whole": rng.integers(0, 3, (k, k)).astype(float),
    }[kind] + (kind != "whole") * rng.normal(size=k)


@pytest.mark.parametrize("k", LABELS)
@pytest.mark.parametrize("kind", ["zero-one", "absolute", "squared", "any", "whole"])
def test_equilibria_of_nodes(k, kind):
    rng = np.random.default_rng(k)
    form = CostForm.of(cost_of(kind, k, rng)).arrays
    n = 40
    scores = rng.normal(size=(n, k)) * 10.0 ** rng.integers(-3, 3, (n, 1))
    scores[::3] = scores[::3].round()
    scores[:, 1:][rng.random((n, k - 1)) < 0.2] = -np.inf
    weight = rng.choice([0.0, 1e-3, 1.0, 30.0], n)
    results = np.zeros((2, n, 2 * k + 1))
    for result, own in zip(results, (False, True), strict=True):
        p, r, value = np.empty((n, k)), np.empty((n, k)), np.empty(n)
        if own:
            node_equilibria(0, 30, form, weight, scores, p, r, value)
            node_equilibria(30, n, form, weight, scores, p, r, value)
        else:
            for part in (slice(0, 30), slice(30, n)):
                kernel(form, weight[part], scores[part], p[part], r[part], value[part])
        result[:] = np.column_stack([p, r, value])
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("k", LABELS)
@pytest.mark.parametrize("kind", ["zero-one", "squared", "any"])
@pytest.mark.parametrize("polyak", [False, True])
def test_decomposition(k, kind, polyak):
    rng = np.random.default_rng(k)
    game = games(3, k)._replace(cost=cost_of(kind, k, rng))
    n, n_samples = len(game.weight), len(game.structure.offsets) - 1
    form, augmented = CostForm.of(game.cost).arrays, game.scores.unary + rng.random((n, k))
    active = np.array([True, False, True, True, True])
    results = []
    for module in (core, kernels):
        prices = Prices(
            np.zeros((n, k)),
            np.zeros((n, k), np.bool_),
            np.zeros(n),
            *np.zeros((4, n, k)),
            np.zeros(n_samples),
            np.zeros((n, k)),
            np.full(n_samples, np.inf),
        )
        given = game.structure, game.scores
        module.start_messages(0, n_samples, *given, augmented, np.full(n_samples, -3.0), prices)
        module.message_sizes(0, n_samples, game.structure, game.weight, prices.size)
        rule = StepRule(25, polyak, np.ones(n_samples), np.full(n_samples, 3.0), np.zeros(5))
        for _ in range(2):
            module.descend(0, n_samples, game, form, active, rule, prices)
        mass = np.where(prices.mass > 0, prices.mass, 1.0)
        r = prices.r_sum / np.repeat(mass, np.diff(game.structure.offsets))[:, None]
        q = np.zeros((2, n, k, k))
        module.recover_edges(0, n_samples, *given, active, True, 0.0, r, q[0])
        module.recover_edges(0, n_samples, *given, active, False, 50.0, r, q[1])
        results.append((*prices, q))
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_array_equal(mine, theirs)
