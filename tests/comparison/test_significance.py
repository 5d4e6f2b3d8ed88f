"""Intervals and tests against scipy, enumeration and what they promise."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from robustruct.comparison.significance import (
    holm,
    interval,
    resampled_means,
    sign_flip_p_value,
)


def test_resampled_means_have_the_mean_and_spread_that_theory_says() -> None:
    rng = np.random.default_rng(0)
    costs = rng.exponential(size=(200, 2))
    drawn = resampled_means(costs, np.ones(200), rng, 4000)
    np.testing.assert_allclose(drawn.mean(axis=0), costs.mean(axis=0), atol=0.01)
    np.testing.assert_allclose(drawn.std(axis=0), costs.std(axis=0) / np.sqrt(200), rtol=0.05)


def test_methods_are_resampled_together_and_weights_divide() -> None:
    rng = np.random.default_rng(1)
    one = rng.exponential(size=50)
    weight = rng.uniform(1, 3, size=50)
    drawn = resampled_means(np.column_stack([one, one + 2 * weight]), weight, rng, 100)
    np.testing.assert_allclose(drawn[:, 1] - drawn[:, 0], 2.0)


def test_the_interval_agrees_with_scipy_for_many_samples() -> None:
    rng = np.random.default_rng(2)
    values = rng.exponential(size=300)
    ours = interval(resampled_means(values[:, None], np.ones(300), rng, 20000)[:, 0], 300)
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=20000, method="percentile", rng=3
    ).confidence_interval
    np.testing.assert_allclose(ours, theirs, rtol=0.015)


def test_small_samples_get_intervals_that_cover() -> None:
    """Of 95 % intervals from ten samples, a plain percentile interval misses twice as often."""
    rng = np.random.default_rng(4)
    hits = []
    for _ in range(600):
        values = rng.normal(size=(10, 1))
        low, high = interval(resampled_means(values, np.ones(10), rng, 500)[:, 0], 10)
        hits.append(low <= 0 <= high)
    assert 0.925 <= np.mean(hits) <= 0.985


def test_sign_flips_agree_with_enumeration_and_with_scipy() -> None:
    rng = np.random.default_rng(5)
    difference = rng.normal(0.5, size=10)
    flipped = [abs(np.dot(signs, difference)) for signs in product([-1, 1], repeat=10)]
    exact = np.mean(np.array(flipped) >= abs(difference.sum()) - 1e-12)
    ours = sign_flip_p_value(difference, rng)
    assert ours == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 9999) + 1e-4)
    theirs = stats.permutation_test(
        (difference, np.zeros(10)),
        lambda a, b: np.sum(a - b),
        permutation_type="samples",
        n_resamples=np.inf,
        vectorized=False,
    )
    assert exact == pytest.approx(theirs.pvalue)


def test_equal_methods_are_rarely_called_different() -> None:
    rng = np.random.default_rng(6)
    p = [sign_flip_p_value(rng.standard_t(3, size=8), rng, 199) for _ in range(400)]
    assert np.mean(np.array(p) < 0.05) <= 0.08


def test_samples_without_difference_do_not_matter() -> None:
    assert sign_flip_p_value(np.zeros(5), np.random.default_rng(0)) == 1.0
    some = np.array([1.0, 2.0, 0.5, 1.5])
    with_zeros = np.concatenate([some, np.zeros(100)])
    a, b = (sign_flip_p_value(d, np.random.default_rng(7)) for d in (some, with_zeros))
    assert a == b == pytest.approx(2 / 16, abs=0.02)


def test_holm_raises_p_values_step_by_step() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
    assert holm([]) == []
