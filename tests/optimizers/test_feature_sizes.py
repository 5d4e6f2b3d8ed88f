"""Features of any size under a temperature: training must leave the weights of 0 that it starts at.

Sparse features are taken as they are, so these tests are about the optimizer alone.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from robustruct import AGM, SSVM

members = pytest.mark.parametrize(
    ("kind", "temperature"), [(AGM, 1.0), (AGM, 0.3), (SSVM, 1.0), (SSVM, 0.3)]
)


def softmax_margin(rows: np.ndarray, y: np.ndarray, T: float, alpha: float) -> float:
    """The optimum of the SSVM's smooth objective on rows, by L-BFGS along principal axes.

    In their coordinates the Hessian is near the identity, whatever the columns are like.
    """
    n, k = len(y), len(np.unique(y))
    left, sizes, _ = np.linalg.svd(np.hstack([rows, np.ones((n, 1))]), full_matrices=False)
    cost, at = (1.0 - np.eye(k))[y], np.arange(n)
    axes, penalty = left * np.sqrt(n), alpha * n / sizes[:, None] ** 2

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        u = x.reshape(-1, k)
        scores = axes @ u
        margins = (scores + cost - scores[at, y][:, None]) / T
        log_z = logsumexp(margins, axis=1)
        excess = np.exp(margins - log_z[:, None])
        excess[at, y] -= 1.0
        value = T * float(log_z.mean()) + 0.5 * float(np.sum(penalty * u**2))
        return value, (axes.T @ excess / n + penalty * u).ravel()

    options = {"maxiter": 100_000, "maxfun": 100_000, "ftol": 1e-15, "gtol": 1e-10}
    found = minimize(
        objective, np.zeros(len(sizes) * k), jac=True, method="L-BFGS-B", options=options
    )
    return float(found.fun)


def fitted(kind: type[Any], rows: np.ndarray, y: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return kind(random_state=0, **options).fit(sp.csr_array(rows), y)


@members
@pytest.mark.parametrize("alpha", [1.0, 0.01, 0.003, 1e-4, 1e-6])
@pytest.mark.parametrize("size", [1.0, 30.0])
def test_adversaries_leave_the_truth(
    kind: type[Any], temperature: float, alpha: float, size: float
) -> None:
    """They start at a mass of 1 on it, beside which float32 loses what other labels get."""
    rows = size * np.array([[1.0], [-1.0]])
    model = fitted(kind, rows, [0, 1], temperature=temperature, alpha=alpha, max_iter=300)
    assert model.duality_gap_ <= model.tol
    assert list(model.predict(sp.csr_array(rows))) == [0, 1]


@members
@pytest.mark.parametrize("factor", [1.0, 10.0, 100.0])
def test_flowers_measured_in_any_unit(kind: type[Any], temperature: float, factor: float) -> None:
    rows, y = load_iris(return_X_y=True)
    model = fitted(kind, factor * rows, y, temperature=temperature, max_iter=500)
    assert model.duality_gap_ <= model.tol
    assert np.mean(model.predict(sp.csr_array(factor * rows)) == y) > 0.94


@pytest.mark.parametrize("factor", [1.0, 10.0, 100.0, 1000.0])
def test_the_optimum_is_that_of_another_solver(factor: float) -> None:
    rows, y = load_iris(return_X_y=True)
    rows = factor * rows
    model = fitted(SSVM, rows, y, temperature=1.0, max_iter=300)
    optimum = softmax_margin(rows, y, model.absolute_temperature_, model.alpha_)
    assert model.objective_ == pytest.approx(optimum, rel=1e-2)
    best = max(record.dual for record in model.history_)
    assert best <= optimum * (1 + 1e-6)
    assert model.duality_gap_ < 0.5


@members
def test_columns_far_from_zero_are_slow_and_not_stuck(kind: type[Any], temperature: float) -> None:
    """Columns that differ by a thousandth of their size take long; bounds must go on rising."""
    rows, y = load_iris(return_X_y=True)
    options = {"temperature": temperature, "tol": 1e-3}
    few, many = (fitted(kind, rows + 1000.0, y, max_iter=n, **options) for n in (100, 1000))
    assert many.duality_gap_ < min(few.duality_gap_, 0.99)
