"""What must hold inside the pairwise ascent, whatever it converges to."""

import numpy as np
import pytest
from training_cases import CASES

from robustruct.training import pairwise
from robustruct.training.fit import Progress
from robustruct.training.pairwise import PairwiseAscent, fit_pairwise

every_case = pytest.mark.parametrize("name", list(CASES))
both = pytest.mark.parametrize("hinge", [False, True], ids=["AGM", "SSVM"])


def after_passes(problem, n_passes=20, seed=0):
    ascent, rng = PairwiseAscent(problem), np.random.default_rng(seed)
    for _ in range(n_passes):
        ascent.visit(rng.permutation(problem.design.batch.n_samples))
        ascent.move_centres()
    return ascent


@every_case
@both
def test_marginals_stay_consistent_and_moments_stay_true(name, hinge):
    ascent = after_passes(CASES[name].problem(hinge=hinge))
    tracked = ascent.moments()
    batch, r, q = ascent.problem.design.batch, ascent.q.r.copy(), ascent.q.dense_edges()
    child = np.flatnonzero(batch.parent >= 0)
    assert (r >= 0).all()
    assert (q >= 0).all()
    np.testing.assert_allclose(r.sum(axis=1), 1, atol=1e-9)
    np.testing.assert_allclose(q[child].sum(axis=2), r[child], atol=1e-9)
    np.testing.assert_allclose(q[child].sum(axis=1), r[batch.parent[child]], atol=1e-9)
    np.testing.assert_allclose(tracked, ascent.recomputed_moments(), atol=1e-9)
    np.testing.assert_allclose(ascent.q.r, r, atol=1e-9, err_msg="repair hardly moves them")


@every_case
def test_the_gap_is_the_sum_of_its_two_parts(name):
    """primal(θ, p) − dual(q) = Σ share (gap + given) + kappa²/(2 alpha) |θ − z|², before a visit."""
    problem = CASES[name].problem()
    ascent = after_passes(problem)
    theta, r = ascent.theta.copy(), ascent.q.r.copy()
    dual = problem.dual(ascent.moments() / problem.alpha, r)
    parts = np.zeros(2)
    p = np.empty_like(ascent.p0)
    for i in range(len(p)):
        centre = ascent.p0[i] - ascent.inv_mu * problem.cost @ r[i]
        p[i] = _projected(centre)
    parts[1] = ascent.gap_parts()[1]
    # A visit to one sample says what that sample's share of the gap was when the visit began.
    for s in range(problem.design.batch.n_samples):
        fresh = after_passes(problem)
        fresh.visit(np.array([s]))
        parts[0] += problem.share[s] * (fresh.gap[s] + fresh.given[s])
    assert problem.primal(theta, p) - dual == pytest.approx(parts.sum(), rel=1e-7, abs=1e-10)


def _projected(v):
    ordered = np.sort(v)[::-1]
    thresholds = (np.cumsum(ordered) - 1) / np.arange(1, len(v) + 1)
    return np.maximum(v - thresholds[np.flatnonzero(ordered > thresholds)[-1]], 0)


@every_case
@both
def test_scores_updated_by_gram_matrices_are_the_scores_gathered_anew(name, hinge, monkeypatch):
    problem = CASES[name].problem(hinge=hinge)
    with_gram = after_passes(problem, 5)
    assert len(with_gram.node_gram) > 0
    monkeypatch.setattr(pairwise, "GRAM_LIMIT", 0)
    without = after_passes(problem, 5)
    assert len(without.node_gram) == 0
    np.testing.assert_allclose(without.theta, with_gram.theta, rtol=1e-7, atol=1e-9)


def test_equal_seeds_give_equal_weights_to_the_bit():
    problem = CASES["trees"].problem()
    fits = []
    for _ in range(2):
        progress = Progress(problem, 1e-2)
        fit_pairwise(problem, progress, 500, np.random.default_rng(3))
        fits.append(progress.theta)
    np.testing.assert_array_equal(*fits)


@both
def test_threads_certify_the_same_tolerance(hinge):
    case = CASES["chains, asymmetric"]
    objectives = []
    for n_jobs in (1, 2):
        problem = case.problem(hinge=hinge, n_jobs=n_jobs)
        progress = Progress(problem, 1e-2)
        fit_pairwise(problem, progress, 2000, np.random.default_rng(0))
        assert progress.converged
        objectives.append(progress.primal)
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-2)


def test_symmetric_problems_have_symmetric_answers():
    """Swapping the two labels everywhere negates what distinguishes them."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(6, 2))
    from training_cases import Case

    from robustruct.graphs import Graph

    graphs = [Graph.chain(rows[:3]), Graph.chain(-rows[:3])]
    y = np.array([0, 1, 0])
    case = Case(graphs, [y, 1 - y], 1.0 - np.eye(2), alpha=0.5)
    problem = case.problem()
    progress = Progress(problem, 1e-4)
    fit_pairwise(problem, progress, 3000, np.random.default_rng(0))
    scores = problem.scores(progress.theta).unary
    np.testing.assert_allclose(scores[:3], scores[3:][:, ::-1], atol=0.02)


def test_full_lists_of_pairs_grow():
    case = CASES["trees, asymmetric, weighted"]
    problem = case.problem()
    ascent = PairwiseAscent(problem)
    ascent.q.pair, ascent.q.mass = ascent.q.pair[:, :1].copy(), ascent.q.mass[:, :1].copy()
    progress = Progress(problem, 1e-2)
    fit_pairwise(problem, progress, 2000, np.random.default_rng(0), ascent)
    assert ascent.q.pair.shape[1] > 1
    assert progress.converged
