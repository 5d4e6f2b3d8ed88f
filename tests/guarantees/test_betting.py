"""Bounds on means hold as often as they say, whatever the values, and are narrow enough to use."""

import itertools
import time

import numpy as np
import pytest

from robustruct.guarantees.betting import _stakes, mean_bounds


def rare_and_dear(rng: np.random.Generator, n: int) -> np.ndarray:
    """One value in a hundred is 1: what a t interval of few of them cannot see."""
    return (rng.random(n) < 0.01).astype(float)


def often_small(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.beta(0.3, 3.0, size=n)


def mixed(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.where(rng.random(n) < 0.02, rng.random(n), 0.01 * rng.random(n))


TRUE = {rare_and_dear: 0.01, often_small: 0.3 / 3.3, mixed: 0.02 * 0.5 + 0.98 * 0.005}


@pytest.mark.parametrize("draw", TRUE, ids=lambda draw: draw.__name__)
@pytest.mark.parametrize("n", [50, 300])
def test_bounds_are_violated_no_more_often_than_they_say(draw, n: int) -> None:
    rng = np.random.default_rng(7)
    bounds = np.array([mean_bounds(draw(rng, n), confidence=0.95) for _ in range(300)])
    assert (bounds[:, 0] > TRUE[draw]).mean() <= 0.05
    assert (bounds[:, 1] < TRUE[draw]).mean() <= 0.05


def test_fortunes_are_fair_bets_whatever_the_order() -> None:
    """The mean fortune over all draws is 1 if the mean is right: a martingale, by enumeration."""
    support, n = np.array([0.0, 0.4, 1.0]), 5
    chance = np.array([0.7, 0.2, 0.1])
    mean, expected = float(support @ chance), 0.0
    for drawn in itertools.product(range(3), repeat=n):
        values = support[list(drawn)]
        stakes = np.minimum(_stakes(values, np.ones(n), 3.0), 0.75 / (1 - mean))
        expected += float(np.prod(chance[list(drawn)]) * np.prod(1 - stakes * (values - mean)))
    assert expected == pytest.approx(1.0, abs=1e-12)


def test_the_fortune_grows_with_the_mean_bet_against() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        sizes = rng.random(30)
        values = sizes * rng.random(30)
        stakes = _stakes(values, sizes, 3.0)
        means = np.linspace(0.001, 0.999, 200)
        logs = [
            np.log1p(-np.minimum(stakes, 0.75 / (1 - m)) * (values - m * sizes)).cumsum()
            for m in means
        ]
        assert (np.diff(logs, axis=0) >= -1e-12).all()


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
def test_ratios_of_sums_are_bounded_as_often_as_they_say(confidence: float) -> None:
    rng = np.random.default_rng(3)
    low = high = 0
    # Longer ones cost more per unit, so the mean of ratios is another number.
    true = np.mean([0.1 * x**2 for x in np.linspace(0, 1, 100_001)]) / 0.5
    for _ in range(500):
        sizes = rng.random(150)
        values = sizes * (rng.random(150) < 0.1 * sizes)
        lower, upper = mean_bounds(values, sizes, confidence=confidence)
        low, high = low + (lower > true), high + (upper < true)
    assert max(low, high) / 500 <= 1 - confidence


def test_bounds_close_in_on_the_mean() -> None:
    rng = np.random.default_rng(1)
    upper = [mean_bounds(often_small(rng, 1000), confidence=0.95)[1] for _ in range(30)]
    assert np.median(upper) / TRUE[often_small] <= 1.15
    lower, upper = mean_bounds(often_small(rng, 100_000), confidence=0.95)
    assert upper - lower < 0.004


def test_few_or_extreme_values_prove_little_and_nothing_breaks() -> None:
    for values in ([0.0], [1.0], [0.5], [0.0] * 5, [1.0] * 5):
        lower, upper = mean_bounds(np.array(values), confidence=0.95)
        assert 0 <= lower <= np.mean(values) <= upper <= 1
    assert mean_bounds(np.zeros(5), confidence=0.95)[1] > 0.4
    assert 0.002 < mean_bounds(np.zeros(1000), confidence=0.95)[1] < 0.01


def test_a_thousand_values_take_milliseconds() -> None:
    values = np.random.default_rng(0).random(1000)
    mean_bounds(values, confidence=0.95)
    started = time.process_time()
    for _ in range(20):
        mean_bounds(values, confidence=0.95)
    assert (time.process_time() - started) / 20 < 0.05
