"""Trained objectives against generic convex solvers over enumerated labellings."""

import numpy as np
import pytest
from training_cases import CASES, Enumerated, random_case

from robustruct.training.fit import Progress
from robustruct.training.likelihood import Likelihood, fit_likelihood
from robustruct.training.pairwise import fit_pairwise
from robustruct.training.subgradient import fit_subgradient

every_case = pytest.mark.parametrize("name", list(CASES))


def trained(problem, tol, max_iter=3000, seed=0):
    progress = Progress(problem, tol)
    ascent = fit_pairwise(problem, progress, max_iter, np.random.default_rng(seed))
    return progress, ascent


@every_case
@pytest.mark.parametrize("hinge", [False, True], ids=["AGM", "SSVM"])
def test_pairwise_reaches_the_optimum_of_the_quadratic_program(name, hinge):
    case = CASES[name]
    lower, upper, _ = Enumerated(case).optimum(hinge=hinge)
    assert upper - lower <= 1e-5 * upper, "the oracle knows its own answer"
    progress, _ = trained(case.problem(hinge=hinge), tol=3e-3)
    assert progress.converged
    scale = progress.scale(upper)
    assert progress.primal >= lower - 1e-9 * scale
    assert progress.primal - upper <= 3e-3 * scale + 1e-9
    for record in progress.history:  # every certificate brackets the optimum, not only the last
        assert record.dual <= upper + 1e-9 * scale
        assert record.primal >= lower - 1e-9 * scale


@every_case
def test_likelihood_reaches_the_optimum_of_enumeration(name):
    case = CASES[name]
    optimum, theta = Enumerated(case).likelihood_optimum()
    progress = Progress(case.problem(), 1e-8)
    fit_likelihood(case.problem(), progress, 2000)
    assert progress.primal == pytest.approx(optimum, rel=1e-7)
    assert progress.dual <= optimum + 1e-9
    np.testing.assert_allclose(progress.theta, theta, atol=1e-3)


@every_case
def test_likelihood_and_its_gradient_agree_with_enumeration(name):
    case = CASES[name]
    theta = np.random.default_rng(0).normal(size=case.problem().n_weights)
    value, gradient = Likelihood(case.problem())(theta)
    exact, exact_gradient = Enumerated(case).likelihood(theta)
    assert value == pytest.approx(exact, rel=1e-12)
    np.testing.assert_allclose(gradient, exact_gradient, rtol=1e-9, atol=1e-12)


@every_case
@pytest.mark.parametrize("hinge", [False, True], ids=["AGM", "SSVM"])
def test_primal_and_dual_agree_with_their_definitions_at_any_point(name, hinge):
    case = CASES[name]
    problem, oracle = case.problem(hinge=hinge), Enumerated(case)
    rng = np.random.default_rng(1)
    theta = rng.normal(size=problem.n_weights)
    p = [rng.dirichlet(np.ones(case.n_labels), size=len(y)) for y in case.y]
    batch = problem.design.batch
    flat = problem.truth if hinge else batch.from_user(np.concatenate(p))
    expected = oracle.primal(theta, None if hinge else p)
    assert problem.primal(theta, np.ascontiguousarray(flat)) == pytest.approx(expected, rel=1e-12)
    mixtures = [rng.dirichlet(np.ones(len(y))) for y in oracle.labellings]
    moments, r = np.zeros(problem.n_weights), []
    for s, mixture in enumerate(mixtures):
        moments += case.share[s] * (oracle.truth[s] - mixture @ oracle.features[s])
        indicator = oracle.labellings[s][:, :, None] == np.arange(case.n_labels)
        r.append((mixture[:, None, None] * indicator).sum(axis=0))
    dual = problem.dual(moments / case.alpha, batch.from_user(np.concatenate(r)))
    assert dual == pytest.approx(oracle.dual(mixtures, hinge), rel=1e-9, abs=1e-12)
    assert dual <= expected + 1e-12, "weak duality"


def test_one_node_with_zero_one_cost_is_the_known_surrogate():
    """V(ψ) − ψ_y = max over label sets S of (Σ_S (f_j − f_y) + |S| − 1) / |S|."""
    case = CASES["four labels, one node"]
    problem = case.problem()
    progress, _ = trained(problem, tol=1e-3)
    theta = progress.theta
    scores = problem.scores(theta).unary
    total = 0.0
    for i, label in enumerate(problem.labels):
        margins = np.sort(scores[i] - scores[i, label])[::-1]
        sizes = np.arange(1, len(margins) + 1)
        total += problem.share[i] * ((np.cumsum(margins) + sizes - 1) / sizes).max()
    exact = 0.5 * case.alpha * float(theta @ theta) + total
    assert progress.primal >= exact - 1e-12
    assert progress.primal == pytest.approx(exact, rel=2e-3)


@pytest.mark.parametrize("rule", ["adagrad", "sgd"])
def test_the_subgradient_method_of_the_paper_brackets_the_same_optimum(rule):
    case = CASES["chains"]
    lower, upper, _ = Enumerated(case).optimum()
    problem, progress = case.problem(), None
    progress = Progress(problem, 5e-2)
    fit_subgradient(problem, progress, 300, np.random.default_rng(0), rule=rule, batch_size=2)
    assert progress.history[-1].primal < progress.history[0].primal
    assert progress.dual <= upper + 1e-9
    assert progress.primal >= lower - 1e-9
    assert progress.gap <= 0.1


def test_forbidden_transitions_hold_in_training():
    case = random_case(9, sizes=(3, 3, 4, 2), forbidden=((0, 2), (2, 1)))
    for y in case.y:  # labels that keep the rules
        for i in range(1, len(y)):
            if (y[i - 1], y[i]) in case.forbidden:
                y[i] = y[i - 1]
    lower, upper, _ = Enumerated(case).optimum()
    progress, ascent = trained(case.problem(), tol=3e-3)
    assert lower - 1e-9 <= progress.primal <= upper * (1 + 3e-3) + 1e-9
    assert progress.dual <= upper + 1e-9
    played = case.problem().design.batch.edges_to_user(ascent.q.dense_edges())
    for a, b in case.forbidden:
        assert (played[:, a, b] == 0).all()
