"""The elastic net against enumerated likelihoods, minimised over both parts of every weight."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.optimize import minimize
from training_cases import CASES, Enumerated, enumerated

import robustruct
from robustruct import CRF, Graph
from robustruct.errors import IncompatibleError, InvalidInputError
from robustruct.optimizers.certificates import Progress
from robustruct.optimizers.lbfgs import fit_likelihood
from robustruct.optimizers.local_shards import LocalShards
from robustruct.status import Status

NAMES = ["chains, absolute, weighted", "trees", "chains, forbidden", "cycles"]


@cache
def optimum(name: str, alpha: float, l1: float) -> tuple[float, np.ndarray]:
    """(least value, weights): θ is a difference of two vectors that are not negative."""
    case = Enumerated(enumerated(name).case.with_alpha(alpha))

    def objective(parts):
        positive, negative = np.split(parts, 2)
        value, gradient = case.likelihood(positive - negative)
        return value + l1 * parts.sum(), np.concatenate([gradient + l1, l1 - gradient])

    found = minimize(
        objective,
        np.zeros(2 * case.n_weights),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * (2 * case.n_weights),
        options={"gtol": 1e-10, "ftol": 1e-15, "maxiter": 5000, "maxfun": 10000},
    )
    return float(found.fun), np.subtract(*np.split(found.x, 2))


def trained(name: str, alpha: float, l1: float, tol: float, start: np.ndarray | None = None):
    case = CASES[name].with_alpha(alpha)
    problem = replace(case.problem(), cost=np.zeros_like(case.cost), temperature=1.0, l1=l1)
    progress = Progress(problem, tol)
    fit_likelihood(LocalShards.of(problem), progress, 2000, start)
    return progress


@pytest.mark.parametrize("l1", [0.003, 0.05])
@pytest.mark.parametrize("alpha", [0.1, 1e-3])
@pytest.mark.parametrize("name", NAMES)
def test_the_optimum_is_that_of_another_solver(name, alpha, l1) -> None:
    value, weights = optimum(name, alpha, l1)
    progress = trained(name, alpha, l1, 1e-6)
    assert progress.converged
    assert progress.primal == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(progress.theta, weights, atol=0.01)
    clearly_zero = np.abs(weights) < 1e-9
    assert l1 < 0.05 or clearly_zero.any()
    assert (np.abs(progress.theta[clearly_zero]) < 0.01).all()


@pytest.mark.parametrize("alpha", [0.1, 1e-3, 1e-30])
@pytest.mark.parametrize("name", NAMES)
def test_bounds_hold_on_the_way(name, alpha) -> None:
    value, _ = optimum(name, alpha, 0.02)
    progress = trained(name, alpha, 0.02, 1e-4)
    assert progress.converged  # also where alpha is as good as nothing
    for record in progress.history:
        assert record.dual <= value * (1 + 1e-9)
        assert record.primal >= value * (1 - 1e-9)


def test_weights_are_exactly_zero_or_not() -> None:
    progress = trained("chains", 0.01, 0.05, 1e-6)
    assert 0 < np.count_nonzero(progress.theta) < 0.8 * len(progress.theta)
    nothing = trained("chains", 0.01, 10.0, 1e-6)
    assert not nothing.theta.any()
    assert nothing.converged
    assert len(nothing.history) == 1


def test_columns_of_very_different_sizes() -> None:
    """Weights are sought divided by their scales, the penalty is about the weights themselves."""
    case = CASES["chains"]
    size = np.array([1e3, 1.0])
    graphs = [
        Graph(graph.node_features * size, graph.edges, graph.edge_features) for graph in case.graphs
    ]
    scaled = replace(case, graphs=graphs, alpha=1e-2)
    problem = replace(scaled.problem(), cost=np.zeros_like(case.cost), temperature=1.0, l1=1e-2)
    shards = LocalShards.of(problem)
    assert not shards.tuning.scales.trivial
    progress = Progress(problem, 1e-4)
    fit_likelihood(shards, progress, 5000)
    exact, gradient = Enumerated(scaled).likelihood(progress.theta)
    assert progress.converged
    assert progress.primal == pytest.approx(exact + 1e-2 * np.abs(progress.theta).sum())
    # Optimal: slopes are within l1 at 0, and l1 against the weight elsewhere.
    moving = progress.theta != 0.0
    beyond = np.abs(gradient + 1e-2 * np.sign(progress.theta))[moving]
    assert beyond.max() < 0.02
    assert np.abs(gradient[~moving]).max() < 1e-2 + 0.02


def test_a_warm_start_is_done_at_once() -> None:
    first = trained("trees", 0.1, 0.02, 1e-6)
    again = trained("trees", 0.1, 0.02, 1e-6, first.theta)
    assert len(again.history) == 1


@pytest.mark.parametrize("l1", [0.0, 0.02])
def test_the_start_is_left_as_it_was(l1) -> None:
    start = np.ones(enumerated("trees").n_weights)
    assert len(trained("trees", 0.1, l1, 1e-6, start).history) > 1
    np.testing.assert_array_equal(start, 1.0)


@pytest.fixture(scope="module")
def chains():
    rng = np.random.default_rng(0)
    y = [rng.integers(3, size=n) for n in rng.integers(2, 6, size=40)]
    return [np.hstack([np.eye(3)[t], rng.normal(size=(len(t), 6))]) for t in y], y


def test_the_model_is_sparse_and_can_be_kept(chains, tmp_path) -> None:
    X, y = chains
    dense, sparse = CRF(alpha=0.01).fit(X, y), CRF(alpha=0.01, l1=0.02).fit(X, y)
    assert np.count_nonzero(sparse.coef_) < 0.5 * np.count_nonzero(dense.coef_)
    assert sparse.status_ is Status.CONVERGED
    noise = sparse.node_weights_[3:9]
    assert np.mean(noise == 0.0) > 0.7
    sparse.save(tmp_path / "model")
    loaded = robustruct.load(tmp_path / "model")
    assert loaded.l1 == 0.02
    np.testing.assert_array_equal(loaded.coef_, sparse.coef_)


def test_other_optimizers_say_that_they_cannot(chains) -> None:
    with pytest.raises(IncompatibleError, match="use optimizer='auto' with l1"):
        CRF(l1=0.1, optimizer="natural_ascent").fit(*chains)


@pytest.mark.parametrize("l1", [-0.1, np.inf, "0.1", True])
def test_a_strength_that_makes_no_sense_is_refused(chains, l1) -> None:
    with pytest.raises(InvalidInputError, match="must be a number >= 0"):
        CRF(l1=l1).fit(*chains)
