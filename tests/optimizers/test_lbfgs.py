"""L-BFGS against its textbook form, closed-form optima and scipy."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize

from robustruct.optimizers import lbfgs
from robustruct.optimizers.lbfgs import Lbfgs, descend


def two_loops(gradient, steps, changes):
    """−H g as in Nocedal and Wright, algorithm 7.4."""
    q, taken = gradient.copy(), []
    for s, y in zip(reversed(steps), reversed(changes), strict=True):
        taken.append(s @ q / (s @ y))
        q -= taken[-1] * y
    q *= steps[-1] @ changes[-1] / (changes[-1] @ changes[-1])
    for s, y, a in zip(steps, changes, reversed(taken), strict=True):
        q += s * (a - y @ q / (s @ y))
    return -q


@pytest.mark.parametrize("n_steps", [1, 3, 4, 11])
def test_directions_are_those_of_the_two_loops(n_steps, monkeypatch):
    monkeypatch.setattr(lbfgs, "MOST", 4)
    monkeypatch.setattr(lbfgs, "FEWEST", 4)
    rng = np.random.default_rng(n_steps)
    curvature = np.diag(rng.uniform(0.5, 5.0, 9))
    memory, theta, pairs = Lbfgs(9), rng.normal(size=9), []
    for _ in range(n_steps):
        there = rng.normal(size=9)
        memory.remember(theta, there, curvature @ theta, curvature @ there)
        pairs.append((there - theta, curvature @ (there - theta)))
        theta = there
    gradient, found = rng.normal(size=9), np.empty(9)
    memory.direction(gradient, found)
    steps, changes = zip(*pairs[-4:], strict=True)
    np.testing.assert_allclose(found, two_loops(gradient, steps, changes), rtol=1e-9, atol=1e-12)


def quadratic(condition, n=40, seed=0):
    rng = np.random.default_rng(seed)
    turned, _ = np.linalg.qr(rng.normal(size=(n, n)))
    curvature = turned @ np.diag(np.geomspace(1.0, condition, n)) @ turned.T
    optimum = rng.normal(size=n)
    calls = []

    def objective(theta):
        calls.append(theta.copy())
        away = theta - optimum
        return 0.5 * away @ curvature @ away, curvature @ away

    return objective, optimum, calls


@pytest.mark.parametrize("condition", [1.0, 100.0, 1e4])
def test_a_quadratic_is_minimised(condition):
    objective, optimum, calls = quadratic(condition)
    theta, stalled = descend(
        objective, np.zeros(40), lambda: len(calls) > 2000, lambda theta: False
    )
    np.testing.assert_allclose(theta, optimum, atol=1e-6)
    assert stalled  # it goes on to the last digit, and says so


def log_loss(seed):
    rng = np.random.default_rng(seed)
    X, sign = rng.normal(size=(60, 12)) * np.geomspace(0.1, 10, 12), rng.choice([-1.0, 1.0], 60)

    def objective(theta):
        margin = sign * (X @ theta)
        value = np.logaddexp(0.0, -margin).mean() + 0.5e-3 * theta @ theta
        return value, -X.T @ (sign / (1.0 + np.exp(margin))) / 60 + 1e-3 * theta

    return objective


@pytest.mark.parametrize("seed", range(5))
def test_it_needs_about_as_many_evaluations_as_scipy(seed):
    plain, calls = log_loss(seed), []

    def objective(theta):
        calls.append(0)
        return plain(theta)

    best = minimize(plain, np.zeros(12), jac=True, method="L-BFGS-B", tol=1e-14)
    found = []

    def done():
        return bool(found) or len(calls) > 1000

    def watched(theta):
        value, gradient = objective(theta)
        if value <= best.fun * (1 + 1e-9):
            found.append(value)
        return value, gradient

    descend(watched, np.zeros(12), done, lambda theta: False)
    assert found
    assert len(calls) <= 1.5 * best.nfev


def test_every_step_goes_down_and_a_pause_is_heard():
    objective, _, calls = quadratic(1e3)
    values, pauses = [], []

    def pause(theta):
        pauses.append(objective(calls[-1])[0])
        calls.pop()
        return len(pauses) == 5

    theta, stalled = descend(objective, np.full(40, 3.0), lambda: False, pause)
    assert not stalled
    assert len(pauses) == 5
    assert all(later < earlier for earlier, later in pairwise(pauses))
    values.append(objective(theta)[0])
    assert values[-1] == pytest.approx(pauses[-1])


def test_the_start_is_left_as_it_was():
    objective, _, calls = quadratic(10.0)
    start = np.ones(40)
    descend(objective, start, lambda: len(calls) > 50, lambda theta: False)
    np.testing.assert_array_equal(start, 1.0)
