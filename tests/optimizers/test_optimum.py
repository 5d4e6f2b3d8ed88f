"""The optimum of every objective, against quadratic programs and plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
from training_cases import (
    ASYMMETRIC,
    CASES,
    Enumerated,
    enumerated,
    fitted,
    optimum,
    random_case,
)

from robustruct import AGM, CRF, SSVM
from robustruct.optimizers.certificates import Progress
from robustruct.optimizers.lbfgs import fit_likelihood
from robustruct.optimizers.local_shards import LocalShards

every_case = pytest.mark.parametrize("name", list(CASES))
agm_and_svm = pytest.mark.parametrize("hinge", [False, True], ids=["agm", "ssvm"])


@every_case
@agm_and_svm
def test_pairwise_ascent_finds_the_optimum(name, hinge):
    lower, upper, best = optimum(name, hinge)
    progress, _ = fitted(CASES[name].problem(hinge=hinge))
    assert progress.converged
    assert progress.primal == pytest.approx(upper, rel=2e-6)
    assert progress.dual == pytest.approx(lower, rel=2e-6)
    # strong convexity: weights are as close as the objective says
    distance = np.sum((progress.theta - best) ** 2)
    assert distance <= 2 * (4e-6 * upper) / CASES[name].alpha


@every_case
@agm_and_svm
def test_every_certificate_brackets_the_optimum(name, hinge):
    lower, upper, _ = optimum(name, hinge)
    progress, _ = fitted(CASES[name].problem(hinge=hinge), tol=1e-4, check_every=1)
    assert [record.n_iter for record in progress.history[:4]] == [1, 2, 3, 4]
    for record in progress.history:
        assert record.dual <= upper * (1 + 1e-12)
        assert record.primal >= lower * (1 - 1e-12)


@every_case
def test_the_reported_primal_bounds_the_objective_of_the_weights(name):
    progress, _ = fitted(CASES[name].problem(), tol=1e-3)
    objective = enumerated(name).objective(progress.theta)
    assert progress.dual - 1e-9 <= objective <= progress.primal + 1e-9


@every_case
def test_the_reported_primal_of_a_support_vector_machine_is_its_objective(name):
    progress, _ = fitted(CASES[name].problem(hinge=True), tol=1e-2)
    assert progress.primal == pytest.approx(
        enumerated(name).primal(progress.theta, None), rel=1e-12
    )


@every_case
def test_likelihood_has_the_optimum_of_the_reference(name):
    reference, best = enumerated(name).likelihood_optimum()
    problem = CASES[name].problem()
    progress = Progress(problem, 1e-9)
    fit_likelihood(LocalShards.of(problem), progress, 1000)
    assert progress.converged
    assert progress.primal == pytest.approx(reference, rel=1e-8)
    np.testing.assert_allclose(progress.theta, best, atol=1e-3)
    for record in progress.history:
        assert record.dual <= reference + 1e-9
        assert record.primal >= reference - 1e-9


@pytest.mark.parametrize("alpha", [10.0, 1.0, 0.1, 0.01])
def test_the_optimum_is_found_for_strong_and_weak_penalties(alpha):
    case = random_case(11, sizes=(3, 3, 2, 3, 1, 3), alpha=alpha)
    lower, upper, _ = Enumerated(case).optimum()
    assert upper - lower <= 1e-7 * upper
    progress, _ = fitted(case.problem())
    assert progress.converged
    assert progress.primal == pytest.approx(upper, rel=2e-6)


@pytest.mark.parametrize("name", ["chains, asymmetric", "trees, asymmetric, weighted"])
def test_estimators_read_costs_as_true_then_predicted(name):
    case = CASES[name]
    assert case.cost is ASYMMETRIC
    options = {"loss": ASYMMETRIC, "alpha": case.alpha, "tol": 1e-5, "standardize": False}
    options["random_state"] = 0
    for model, hinge in ((AGM(**options), False), (SSVM(**options), True)):
        model.fit(case.graphs, case.y, case.sample_weight, case.node_weight or None)
        assert model.objective_ == pytest.approx(optimum(name, hinge)[1], rel=2e-5)
    model = CRF(**options).fit(case.graphs, case.y, case.sample_weight)
    assert model.objective_ == pytest.approx(enumerated(name).likelihood_optimum()[0], rel=2e-5)
