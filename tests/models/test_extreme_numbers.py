"""Temperatures, costs and weights near the ends of floating point: trained, or refused at the door.

And what equal problems must have in common, however they are written down.
"""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning

from robustruct import AGM, CRF, SSVM, Graph, solve_game
from robustruct.errors import InvalidInputError

ROWS = np.array([[1.0, 2.0], [2.0, 1.0], [0.0, 1.0], [3.0, 3.0]])
LABELS = [0, 1, 0, 1]
HAMMING = 1.0 - np.eye(2)
EXTREMES = [5e-324, 1e-320, 1e-300, 1e-200, 1e-100, 1e-50, 1e-20, 1e-6, 1e20, 1e50, 1e100]


def refused_or_certified(model: Any, **weights: Any) -> bool:
    """Whether a fit is trained; then its bounds are numbers in order, else the error is ours."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(ROWS, LABELS, **weights)
    except InvalidInputError as error:
        assert "must be" in str(error)  # noqa: PT017 (it says what is accepted)
        return False
    for record in model.history_:
        assert -np.inf < record.dual <= record.primal < np.inf
    assert np.isfinite(model.duality_gap_)
    return True


@pytest.mark.parametrize("kind", [AGM, SSVM])
@pytest.mark.parametrize("size", [*EXTREMES, 1e300])
def test_temperatures(kind: type[Any], size: float) -> None:
    assert refused_or_certified(kind(temperature=size)) == (1e-100 <= size <= 1e100)


@pytest.mark.parametrize("kind", [AGM, SSVM])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("size", EXTREMES)
def test_costs(kind: type[Any], temperature: float, size: float) -> None:
    least, most = (1e-20, 1e20) if temperature else (1e-100, 1e100)
    model = kind(size * HAMMING, temperature=temperature)
    assert refused_or_certified(model) == (least <= size <= most)


@pytest.mark.parametrize("model", [AGM(), AGM(temperature=1.0), SSVM(), CRF()], ids=str)
@pytest.mark.parametrize("size", EXTREMES)
def test_weights_of_samples(model: Any, size: float) -> None:
    every = refused_or_certified(model, sample_weight=np.full(4, size))
    assert every == (4 * size >= 1e-100)
    assert refused_or_certified(model, sample_weight=[1.0, 1.0, 1.0, min(size, 1.0)])


@pytest.mark.parametrize("score", [0.0, 1e-300, 1.0, 10.0, 1e99])
@pytest.mark.parametrize("temperature", [5e-324, 1e-308, 1e-300, 1e-100, 1e-20, 1e-3, 1.0, 1e99])
def test_games_are_refused_or_bracketed(score: float, temperature: float) -> None:
    unary, pairwise = score * np.array([[1.0, 0.3], [0.2, 1.0]]), score * HAMMING[None]
    try:
        found = solve_game(unary, [(0, 1)], pairwise, HAMMING, temperature=temperature)
    except InvalidInputError as error:
        assert max(score, 1.0) > 1e100 * temperature
        assert "temperature=0" in str(error)  # noqa: PT017
        return
    scores = {
        y: unary[0, y[0]] + unary[1, y[1]] + pairwise[0][y] for y in product(range(2), repeat=2)
    }
    # With p even on both nodes every labelling costs 1: an upper bound on the value.
    even = temperature * float(logsumexp(np.array(list(scores.values())) / temperature)) + 1.0
    assert np.isfinite([found.lower, found.upper]).all()
    assert found.lower <= found.upper * (1 + 1e-9)
    assert found.lower <= even * (1 + 1e-9)
    assert found.upper >= max(scores.values()) * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "model", [AGM, SSVM, CRF, lambda cost: AGM(cost, temperature=1.0),
              lambda cost: SSVM(cost, temperature=1.0)],
    ids=["AGM", "SSVM", "CRF", "AGM, T = 1", "SSVM, T = 1"],
)  # fmt: skip
def test_nothing_to_learn_leaves_no_gap(model: Any, seed: int) -> None:
    """Types of nodes that leave one label each: bounds differ by rounding, and so by nothing."""
    rng = np.random.default_rng(seed)
    graphs = [
        Graph(rng.normal(size=(3, 2)), [(0, 1), (1, 2)], node_types=["a", "b", "c"])
        for _ in range(5)
    ]
    cost = rng.uniform(0.5, 2.0, (3, 3))
    np.fill_diagonal(cost, rng.uniform(0.0, 0.4, 3))
    found = model(cost)
    found.fit(graphs, [np.array(["p", "q", "r"])] * 5, sample_weight=rng.uniform(0.1, 2.0, 5))
    assert 0.0 <= found.duality_gap_ <= 1e-6
    assert found.n_iter_ <= 5


@pytest.mark.parametrize("kind", [AGM, SSVM])
@pytest.mark.parametrize("temperature", [0.0, 0.3, 1.0])
def test_a_sample_that_weighs_two_is_the_sample_twice(kind: type[Any], temperature: float) -> None:
    rng = np.random.default_rng(0)
    sizes = [1, 2, 4, 3]
    X = [Graph(rng.normal(size=(n, 2)), [(i, i + 1) for i in range(n - 1)]) for n in sizes]
    y = [rng.integers(2, size=n) for n in sizes]
    node_weight = [rng.uniform(0.1, 3.0, n) for n in sizes]
    twice = [0, 1, 1, 2, 3, 3, 3]
    options = {"temperature": temperature, "tol": 1e-4, "random_state": 0}
    weighted = kind(**options).fit(X, y, [1.0, 2.0, 1.0, 3.0], node_weight)
    repeated = kind(**options).fit(
        [X[s] for s in twice], [y[s] for s in twice], None, [node_weight[s] for s in twice]
    )
    assert weighted.absolute_temperature_ == pytest.approx(repeated.absolute_temperature_)
    assert weighted.alpha_ == pytest.approx(repeated.alpha_)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=2e-4)
