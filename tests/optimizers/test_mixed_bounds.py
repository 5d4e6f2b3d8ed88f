"""Lower bounds from mixtures of adversaries: against enumeration, and what they are for."""

from __future__ import annotations

import copy
from unittest import mock

import numpy as np
import pytest
from test_scaling import chains, uneven
from training_cases import CASES, enumerated, optimum

from robustruct import AGM, SSVM, Graph
from robustruct.objectives.build import in_memory
from robustruct.optimizers.certificates import Progress
from robustruct.optimizers.dual_ascent import CentredAscent, fit_ascent
from robustruct.optimizers.local_shards import LocalShards
from robustruct.optimizers.mixed_bounds import MOST, MixedBounds

NAMES = ["chains", "trees, asymmetric, weighted"]


def drawn(name, hinge, sharp, n=6):
    """(mixtures of labellings per sample, what they prove) of some adversaries."""
    listed, problem = enumerated(name), CASES[name].problem(hinge=hinge)
    rng = np.random.default_rng(0)
    bounds = MixedBounds(np.ones(1), problem.alpha, problem.unavoidable, listed.n_weights)
    adversaries = []
    for _ in range(n):
        one = [rng.dirichlet(np.full(len(y), sharp)) for y in listed.labellings]
        moments = listed.moments(one)
        held_down = moments @ moments / (2 * problem.alpha)
        bounds.add(listed.dual(one, hinge) + held_down, moments)
        adversaries.append(one)
    return adversaries, bounds


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("hinge", [False, True], ids=["agm", "ssvm"])
@pytest.mark.parametrize("sharp", [0.05, 1.0])
def test_a_mixture_proves_what_its_own_dual_does_at_most(name, hinge, sharp):
    listed = enumerated(name)
    adversaries, bounds = drawn(name, hinge, sharp)
    found = bounds.best()
    duals = [listed.dual(one, hinge) for one in adversaries]
    assert max(*duals, bounds.least) <= found + 1e-9
    assert found <= optimum(name, hinge)[0] + 1e-9
    shares = bounds._mixture()
    truth = [
        np.all(labellings == labels, axis=1).astype(float)
        for labellings, labels in zip(listed.labellings, CASES[name].y, strict=True)
    ]
    mixed = [
        sum(c * one[s] for c, one in zip(shares, adversaries, strict=True))
        + (1.0 - shares.sum()) * truth[s]
        for s in range(len(truth))
    ]
    assert found <= listed.dual(mixed, hinge) + 1e-9


def test_the_best_mixture_is_that_of_a_grid():
    squares, alpha, least = np.array([1.0, 1e-6, 2.0]), 0.1, 1.75
    bounds = MixedBounds(squares, alpha, least, 3)
    gains = np.array([2.0, 3.0])
    moments = np.array([[0.9, 0.004, 0.1], [0.6, -0.001, 0.3]])
    for one, other in zip(gains, moments, strict=True):
        bounds.add(one, other)
    a, b = np.meshgrid(np.linspace(0, 1, 1001), np.linspace(0, 1, 1001))
    total = a[..., None] * moments[0] + b[..., None] * moments[1]
    values = least + a * (gains[0] - least) + b * (gains[1] - least)
    values -= (total**2 / (2 * alpha * squares)).sum(-1)
    assert bounds.best() == pytest.approx(values[a + b <= 1.0].max(), abs=1e-3)
    shares = bounds._mixture()
    assert (shares > 0.03).all()  # of one alone the moment that is hardly held down costs 5
    assert shares.sum() < 1.0


@pytest.mark.parametrize("found", [[2.0, -1.0], [0.9, 0.9], [np.nan, 0.5], [np.inf, 0.25]])
def test_whatever_the_search_returns_is_made_a_mixture(found):
    bounds = MixedBounds(np.ones(1), 0.1, 0.0, 2)
    for _ in range(2):
        bounds.add(3.0, np.full(2, 0.1))
    with mock.patch("scipy.optimize.minimize", return_value=mock.Mock(x=np.array(found))):
        shares = bounds._mixture()
        value = bounds.best()
    assert (shares >= 0.0).all()
    assert 0.0 < shares.sum() <= 1.0 + 1e-15
    total = shares.sum()
    assert value == pytest.approx(3.0 * total - 2 * (0.1 * total) ** 2 / 0.2)


def test_the_last_adversaries_are_kept_and_asked_for_in_rows():
    bounds = MixedBounds(np.ones(1), 1.0, 0.0, 2)
    assert not bounds.wants_more
    for n in range(2 * MOST):
        bounds.add(float(n), np.full(2, float(n)))
        assert bounds.wants_more == (n + 1 not in (MOST, 2 * MOST))
    assert (MOST, bounds.n_added) == (8, 16)
    np.testing.assert_array_equal(bounds.gains, np.arange(MOST, 2 * MOST))
    np.testing.assert_array_equal(bounds.moments[:, 1], bounds.gains)


def squares_of(X):
    """The same samples with chords, too wide to be exact about by choice."""
    edges = [(i, i + 1) for i in range(len(X[0]) - 1)] + [(0, len(X[0]) - 1)]
    return [Graph(x, edges) for x in X]


@pytest.mark.parametrize(
    ("Model", "inference"), [(AGM, "exact"), (SSVM, "exact"), (SSVM, "relaxed")]
)
def test_a_weak_penalty_on_uneven_columns_converges(Model, inference):
    X, y = chains() if inference == "exact" else chains(30, 6, 8, 3)
    X = uneven(X) if inference == "exact" else squares_of(uneven(X))
    model = Model(alpha=1e-3, inference=inference, random_state=0, standardize=False).fit(X, y)
    assert model.duality_gap_ <= model.tol  # a warning would be an error
    assert model.n_iter_ < 900


class KeptOnce:
    """Keeps the state after one pass, or begins with it."""

    def __init__(self, progress, at=None, kept=None):
        self.progress, self.at, self.kept = progress, at, kept

    def restore(self, reached):
        if self.kept is not None:
            state, found, reached.n_passes = copy.deepcopy(self.kept)
            reached.restore(state)
            self.progress.restore(found)

    def due(self, n_passes):
        return n_passes == self.at

    def keep(self, reached):
        if self.due(reached.n_passes):
            self.kept = copy.deepcopy((reached.state(), self.progress.state(), reached.n_passes))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_that_goes_on_has_the_adversaries_of_before():
    X, y = chains(20, 5, 4, 3)
    model = SSVM(alpha=1e-3, random_state=0, max_iter=5, tol=0.999, standardize=False)
    _, problem = in_memory(model.fit(uneven(X), y), uneven(X), y)
    runs, kept = [], None
    for at in (43, None):
        progress = Progress(problem, 1e-4)
        progress.keeper = KeptOnce(progress, at, kept)
        ascent = CentredAscent(LocalShards.of(problem))
        fit_ascent(ascent, progress, 90, 0)
        kept = progress.keeper.kept
        assert ascent.mixed.n_added > 3
        found = [(one.n_iter, one.primal, one.dual, one.gap) for one in progress.history]
        runs.append((ascent.weights, found))
    assert len(kept[0]["mixed_gains"]) > 0
    np.testing.assert_array_equal(runs[0][0], runs[1][0])
    assert runs[0][1] == runs[1][1]
