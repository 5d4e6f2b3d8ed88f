"""Vectors as long as θ, against their formulas, derivatives and the problems they solve."""

from __future__ import annotations

import numpy as np
import pytest

from robustruct.core.vectors import (
    absolute_penalty,
    add_multiple,
    add_slope,
    centre_gap,
    dual_penalty,
    elastic_conjugate,
    follow_centre,
    least_slopes,
    moments_from_weights,
    penalty,
    weights_from_moments,
)

ALPHA, KAPPA = 0.3, 0.9

one_or_many = pytest.mark.parametrize("n_squares", [1, 2, 4])


def drawn(n_squares):
    """(θ, z, squares)."""
    rng = np.random.default_rng(n_squares)
    return rng.normal(size=4), rng.normal(size=4), rng.uniform(0.1, 3.0, n_squares)


def of_weights(squares):
    """Rows of weights, one after the other."""
    return np.repeat(squares, 4 // len(squares))


def test_a_multiple_is_added():
    to = np.array([1.0, -2.0, 3.0])
    add_multiple(to, 3.0, np.array([2.0, 0.5, -1.0]))
    np.testing.assert_array_equal(to, [7.0, -0.5, 0.0])


@one_or_many
def test_penalties_of_weights_and_moments(n_squares):
    theta, centre, squares = drawn(n_squares)
    own = ALPHA * of_weights(squares)
    assert penalty(theta, squares, ALPHA) == pytest.approx((own / 2 * theta**2).sum(), rel=1e-13)
    gradient = np.ones(4)
    add_slope(gradient, theta, squares, ALPHA)
    np.testing.assert_allclose(gradient, 1 + own * theta, rtol=1e-13)
    # The conjugate at m is the largest m'θ − penalty(θ), which is at θ = m / own.
    at = theta / own
    most = theta @ at - penalty(at, squares, ALPHA)
    assert dual_penalty(theta, squares, ALPHA) == pytest.approx(most, rel=1e-13)
    # Fenchel's gap of weights and moments where these are off by (alpha + kappa - own) (θ - z).
    moments = own * theta + (ALPHA + KAPPA - own) * (theta - centre)
    gap = penalty(theta, squares, ALPHA) + dual_penalty(moments, squares, ALPHA) - moments @ theta
    assert centre_gap(theta, centre, squares, ALPHA, KAPPA) == pytest.approx(gap, rel=1e-12)


def held_weights(moments, centre, own, kappa):
    """argmin over θ of own/2 θ² + (alpha + kappa - own)/2 (θ - z)² - m'θ, by its equation."""
    held = ALPHA + kappa - own
    return np.linalg.solve(np.diag(own + held), moments + held * centre)


@one_or_many
def test_weights_are_what_moments_and_the_centre_make_of_them(n_squares):
    moments, centre, squares = drawn(n_squares)
    own = ALPHA * of_weights(squares)
    theta = moments.copy()
    held_down = weights_from_moments(theta, centre, squares, ALPHA, KAPPA)
    np.testing.assert_allclose(theta, held_weights(moments, centre, own, KAPPA), rtol=1e-13)
    assert held_down == pytest.approx((moments**2 / own).sum() / 2, rel=1e-13)
    again = np.empty(4)
    moments_from_weights(theta, centre, squares, ALPHA, KAPPA, again)
    np.testing.assert_allclose(again, moments, rtol=1e-13)
    # The centre follows, and the penalty on the distance from it changes; moments stay.
    followed, place, new_kappa = theta.copy(), centre.copy(), 1.9
    follow_centre(followed, place, squares, ALPHA, KAPPA, new_kappa)
    np.testing.assert_array_equal(place, theta)
    np.testing.assert_allclose(followed, held_weights(moments, theta, own, new_kappa), rtol=1e-12)


@one_or_many
def test_slopes_beside_an_absolute_penalty(n_squares):
    l1 = np.array([0.5, 1.0, 2.0, 0.25, 1.0, 3.0, 1.5])
    l1 = l1[:1].copy() if n_squares == 1 else l1
    theta = np.array([1.0, -2.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    size = l1 * np.ones(7)
    gradient = np.array([-4.0, 0.75, 5.0, -7.0, size[4] / 4, -size[5] / 4, size[6]])
    assert absolute_penalty(theta, l1) == size[0] + 2.0 * size[1]
    out = np.full(7, np.nan)
    least_slopes(theta, gradient, l1, out)
    # Of all slopes of gradient'θ + l1 |θ|, those with the least absolute value.
    signs = np.where(theta == 0.0, np.linspace(-1.0, 1.0, 4001)[:, None], np.sign(theta))
    slopes = gradient + size * signs
    nearest = slopes[abs(slopes).argmin(0), np.arange(7)]
    np.testing.assert_allclose(out, nearest, atol=1e-12)
    assert (out != 0.0).tolist() == [True, True, True, True, False, False, False]


@one_or_many
def test_the_conjugate_of_both_penalties(n_squares):
    moments, _, squares = drawn(n_squares)
    l1 = np.array([0.3, 0.9, 0.2, 0.1])[: 1 if n_squares == 1 else 4].copy()
    part = 0.8
    given = squares, ALPHA, l1
    value, slope, bend = elastic_conjugate(moments, *given, part)
    # The largest part m'θ - penalties, weight by weight on a fine grid around all maxima.
    grid = np.linspace(-40.0, 40.0, 800_001)
    own, size = ALPHA * of_weights(squares), l1 * np.ones(4)
    most = sum(
        (part * m * grid - a / 2 * grid**2 - b * abs(grid)).max()
        for m, a, b in zip(moments, own, size, strict=True)
    )
    assert value == pytest.approx(most, rel=1e-6)
    assert 0 < (part * abs(moments) > size).sum() < 4
    step = 1e-5
    above = elastic_conjugate(moments, *given, part + step)
    below = elastic_conjugate(moments, *given, part - step)
    assert slope == pytest.approx((above[0] - below[0]) / (2 * step), rel=1e-6)
    assert bend == pytest.approx((above[1] - below[1]) / (2 * step), rel=1e-6)
