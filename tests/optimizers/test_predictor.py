"""The predictor beside its centre, against its definition."""

import numpy as np
import pytest
from scipy.optimize import minimize

from robustruct.kernels._jit import kernel
from robustruct.kernels.predictor import answer, least, stays


@kernel
def both(p0, expected, mu, out):
    """The answer, and the label that is played all the same."""
    answer(p0, expected, mu, 1.0 / mu, out)
    return stays(p0, expected, least(expected))


def random_case(seed):
    """(p0, L r, mu): centres at corners and inside, costs with ties, labels that are masked."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 7))
    p0 = rng.dirichlet(np.full(k, 0.3))
    if seed % 2:
        p0 = np.eye(k)[rng.integers(k)]
    expected = rng.integers(0, 4, k) / 2.0
    if seed % 3 == 0:
        expected[rng.permutation(k)[: k // 2]] = np.inf
        p0 = np.where(np.isinf(expected), 0.0, p0)
        p0 = p0 / p0.sum() if p0.sum() else np.isfinite(expected) / np.isfinite(expected).sum()
    return p0, expected, rng.uniform(0.1, 3.0, k)


@pytest.mark.parametrize("seed", range(60))
def test_the_predictor_is_the_minimiser(seed):
    p0, expected, mu = random_case(seed)
    out = np.empty_like(p0)
    both(p0, expected, mu, out)
    free = np.isfinite(expected)

    def value(p):
        return expected[free] @ p + 0.5 * mu[free] @ (p - p0[free]) ** 2

    found = minimize(
        value,
        np.full(free.sum(), 1 / free.sum()),
        jac=lambda p: expected[free] + mu[free] * (p - p0[free]),
        bounds=[(0, 1)] * int(free.sum()),
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert not out[~free].any()
    assert out.sum() == pytest.approx(1.0, abs=1e-12)
    assert value(out[free]) <= found.fun + 1e-9


def test_a_predictor_that_stays_is_its_own_answer():
    kinds = set()
    for seed in range(300):
        p0, expected, mu = random_case(seed)
        out = np.empty_like(p0)
        label = both(p0, expected, mu, out)
        assert (label >= 0) == (p0.max() == 1.0 and np.array_equal(out, p0))
        kinds.add((label >= 0, bool(p0.max() == 1.0), bool(out.max() == 1.0)))
    assert {(True, True, True), (False, True, True), (False, True, False)} <= kinds
