"""Lower bounds of the CRF's objective, and when a descent or an ascent of it ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from training_cases import CASES, Enumerated, enumerated

from robustruct import CRF
from robustruct.objectives.likelihood import LowerBounds
from robustruct.optimizers.certificates import FEWEST, Progress
from robustruct.status import Status

NAMES = ["chains", "trees, asymmetric, weighted", "chains, forbidden"]


def without_penalty(listed: Enumerated, theta: np.ndarray) -> tuple[float, np.ndarray]:
    alpha = listed.case.alpha
    value, gradient = listed.likelihood(theta)
    return value - 0.5 * alpha * theta @ theta, gradient - alpha * theta


def bounds_of(listed: Enumerated) -> LowerBounds:
    return LowerBounds(listed.case.alpha, np.ones(1), np.zeros(1))


@pytest.mark.parametrize("name", NAMES)
def test_no_point_on_the_way_lifts_the_bound_above_the_optimum(name) -> None:
    listed = enumerated(name)
    optimum, best = listed.likelihood_optimum()
    rng, bounds = np.random.default_rng(0), bounds_of(listed)
    for n in range(60):
        theta = best + rng.normal(size=len(best)) * 2.0 ** (-n / 4)
        assert bounds.bound(*_at(listed, theta)) <= optimum + 1e-12
    found = bounds.bound(*_at(listed, best))
    assert found == pytest.approx(optimum, rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_the_mean_of_a_to_and_fro_says_more_than_its_ends(name) -> None:
    listed = Enumerated(enumerated(name).case.with_alpha(1e-3))
    optimum, best = listed.likelihood_optimum()
    away = 0.1 * np.random.default_rng(1).normal(size=len(best))
    ends = [best + away, best - away]
    alone = max(bounds_of(listed).bound(*_at(listed, theta)) for theta in ends)
    bounds = bounds_of(listed)
    together = max(bounds.bound(*_at(listed, ends[n % 2])) for n in range(20))
    assert optimum - together < 0.5 * (optimum - alone)


def test_a_bad_point_still_proves_something() -> None:
    listed = Enumerated(enumerated("chains").case.with_alpha(1e-6))
    assert bounds_of(listed).bound(*_at(listed, np.zeros(listed.n_weights))) > 0.0


@pytest.mark.parametrize("l1", [0.0, 0.5])
def test_moments_that_no_penalty_notices_and_an_entropy_below_0_by_rounding(l1) -> None:
    bounds = LowerBounds(0.1, np.ones(1), np.full(1, l1))
    gradient = np.full(3, 0.5 * l1)
    for loss in (-1e-17, 0.0, -1e-17):
        assert bounds.bound(loss, np.zeros(3), gradient) == 0.0


def _at(listed: Enumerated, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    loss, gradient = without_penalty(listed, theta)
    return loss, theta, gradient


def test_a_descent_that_hardly_falls_is_idle() -> None:
    problem = replace(CASES["chains"].problem(), cost=np.zeros((3, 3)))
    progress, theta = Progress(problem, 1e-3), np.zeros(problem.n_weights)
    for n in range(1, 45):  # halves what is left, from 8 to 1
        progress.report(n, theta, 1.0 + 7.0 * 0.5**n, 0.0)
        left = 7.0 * 0.5 ** max(n - FEWEST, 0)
        assert progress.idle() == (n > FEWEST and left < 1.01e-5), n
    assert progress.idle()
    assert not progress.idle(begun=30)  # another optimizer took over


def sentences(n: int):
    rng = np.random.default_rng(0)
    y = [rng.integers(3, size=length) for length in rng.integers(2, 6, size=n)]
    X = [[{f"w{rng.integers(2) + 2 * label}": 1.0} for label in labels.tolist()] for labels in y]
    return X, y


def test_l_bfgs_takes_over_where_float32_says_no_more() -> None:
    X, y = sentences(60)
    model = CRF(alpha=0.01, tol=1e-9, optimizer="natural_ascent", random_state=0).fit(X, y)
    assert model.status_ is Status.CONVERGED
    reference = CRF(alpha=0.01, tol=1e-9, optimizer="lbfgs").fit(X, y)
    assert model.objective_ == pytest.approx(reference.objective_, rel=2e-9)
    passes = [record.n_iter for record in model.history_]
    assert passes == sorted(passes)
    assert len(set(passes)) == len(passes)
