"""Primal, dual, likelihood and their derivatives, against enumeration and finite differences."""

from __future__ import annotations

from dataclasses import astuple, replace

import numpy as np
import pytest
import scipy.sparse
from training_cases import CASES, enumerated, with_constant

from robustruct import parallel
from robustruct.errors import InternalError
from robustruct.objectives.adversarial import Outline, absolute_sums
from robustruct.optimizers.certificates import Progress
from robustruct.optimizers.dual_ascent import CentredAscent
from robustruct.optimizers.lbfgs import lower_bounds, penalised
from robustruct.optimizers.local_shards import LocalShards

every_case = pytest.mark.parametrize("name", list(CASES))


def drawn(name, seed):
    """Weights, a predictor per sample and a mixture of labellings per sample."""
    rng = np.random.default_rng(seed)
    case, listed = CASES[name], enumerated(name)
    theta = rng.normal(size=listed.n_weights) * rng.choice([0.01, 0.3, 3.0])
    sharp = rng.choice([0.1, 1.0])
    p = [rng.dirichlet(np.full(case.n_labels, sharp), len(labels)) for labels in case.y]
    mixtures = [rng.dirichlet(np.full(len(y), sharp)) for y in listed.labellings]
    return theta, p, mixtures


@every_case
@pytest.mark.parametrize("hinge", [False, True], ids=["agm", "ssvm"])
def test_primal_and_dual_are_those_of_the_definition_and_in_order(name, hinge):
    listed, problem = enumerated(name), CASES[name].problem(hinge=hinge)
    batch = problem.design.batch
    for seed in range(10):
        theta, p, mixtures = drawn(name, seed)
        flat = problem.truth if hinge else batch.from_user(np.concatenate(p))
        primal = problem.primal(theta, np.ascontiguousarray(flat))
        r = [listed.marginals(s, mixture) for s, mixture in enumerate(mixtures)]
        moments = listed.moments(mixtures)
        dual = problem.dual(moments / problem.alpha, batch.from_user(np.concatenate(r)))
        assert primal == pytest.approx(listed.primal(theta, None if hinge else p), rel=1e-11)
        assert dual == pytest.approx(listed.dual(mixtures, hinge), rel=1e-11)
        assert dual <= primal


def likelihood_of(name):
    """Value and gradient as functions of the weights, which the optimizer divides by scales."""
    shards = LocalShards.of(CASES[name].problem())
    scales = shards.tuning.scales

    def likelihood(theta):
        value, gradient, _ = penalised(shards, scales.divided(theta), lower_bounds(shards))
        return value, scales.divided(gradient)

    return likelihood


@every_case
def test_likelihood_is_that_of_enumeration(name):
    likelihood = likelihood_of(name)
    for seed in range(3):
        theta = drawn(name, seed)[0]
        value, gradient = likelihood(theta)
        reference, reference_gradient = enumerated(name).likelihood(theta)
        assert value == pytest.approx(reference, rel=1e-11)
        np.testing.assert_allclose(gradient, reference_gradient, atol=1e-10)


@every_case
def test_the_gradient_of_the_likelihood_is_that_of_finite_differences(name):
    likelihood = likelihood_of(name)
    theta = drawn(name, 0)[0]
    gradient = likelihood(theta)[1]
    step = 1e-5
    for j in range(len(theta)):
        shift = np.zeros_like(theta)
        shift[j] = step
        slope = (likelihood(theta + shift)[0] - likelihood(theta - shift)[0]) / (2 * step)
        assert gradient[j] == pytest.approx(slope, abs=1e-7)


@every_case
def test_any_weights_bound_the_likelihood_from_below(name):
    best, _ = enumerated(name).likelihood_optimum()
    likelihood = likelihood_of(name)
    for seed in range(5):
        value, gradient = likelihood(drawn(name, seed)[0])
        assert value - gradient @ gradient / (2 * CASES[name].alpha) <= best + 1e-9


@pytest.mark.parametrize("name", [name for name in CASES if "forbidden" not in name])
def test_untrained_is_the_primal_of_zero_weights_and_an_indifferent_predictor(name):
    case, listed = CASES[name], enumerated(name)
    zero = np.zeros(listed.n_weights)
    possible = [listed.possible(s) for s in range(len(case.y))]
    p = [each / each.sum(axis=1, keepdims=True) for each in possible]
    assert case.problem().untrained == pytest.approx(listed.primal(zero, p))
    assert case.problem(hinge=True).untrained == pytest.approx(listed.primal(zero, None))


def test_progress_keeps_the_best_bounds_and_their_weights():
    problem = CASES["chains"].problem()
    progress = Progress(problem, 0.1)
    first, second = np.ones(problem.n_weights), np.zeros(problem.n_weights)
    assert progress.gap == np.inf
    assert not progress.report(1, first, 1.0, 0.2)
    assert not progress.report(2, second, 2.0, 0.5)
    assert (progress.primal, progress.dual, progress.gap) == (1.0, 0.5, 0.5)
    assert progress.theta is not first
    np.testing.assert_array_equal(progress.theta, first)
    assert progress.report(3, second, 0.9, 0.85)
    assert [record.gap for record in progress.history] == [0.8, 0.5, pytest.approx(0.05 / 0.9)]
    assert progress.n_iter == 3
    assert progress.converged


@every_case
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("hinge", [False, True], ids=["agm", "ssvm"])
def test_sums_in_stretches_are_those_of_the_whole(name, hinge, n_jobs, monkeypatch):
    problem = CASES[name].problem(hinge=hinge, n_jobs=n_jobs)
    theta, p, _ = drawn(name, 5)
    p = np.ascontiguousarray(problem.design.batch.from_user(np.concatenate(p)))
    ascent = CentredAscent(LocalShards.of(problem))
    ascent.run_pass(0)
    dual, found = ascent.shards.first.dual, {}
    for size in (2**18, 7):  # numbers in a stretch: all of the batch, and a node or two
        monkeypatch.setattr(parallel, "CACHE_FRIENDLY", size)
        moments = np.empty(problem.n_weights)
        dual.moments(moments)
        found[size] = problem.regret(theta, p), problem.gain(dual.q.r), moments
    for whole, pieces in zip(*found.values(), strict=True):
        np.testing.assert_allclose(pieces, whole, rtol=1e-11, atol=1e-13)


def test_a_gap_is_not_measured_against_an_objective_that_vanishes():
    problem = CASES["chains"].problem()
    progress = Progress(problem, 0.1)
    progress.report(1, np.zeros(problem.n_weights), 1e-9, 0.0)
    assert progress.gap == pytest.approx(1e-9 / (0.01 * problem.untrained))


def test_a_dual_above_the_primal_is_a_defect():
    problem = CASES["chains"].problem()
    theta = np.zeros(problem.n_weights)
    progress = Progress(problem, 0.1)
    progress.report(1, theta, 1.0, 0.5)
    progress.report(2, theta, 1.0, 1.0 + 1e-15)  # rounding
    assert progress.dual <= progress.primal
    assert progress.gap >= 0.0
    with pytest.raises(InternalError, match="bounds of the objective contradict each other"):
        progress.report(3, theta, 1.0, 1.001)
    for primal, dual in ((1.0, np.nan), (np.nan, 0.0), (-np.inf, 0.0)):
        with pytest.raises(InternalError):
            Progress(problem, 0.1).report(1, theta, primal, dual)


@every_case
@pytest.mark.parametrize("hinge", [False, True], ids=["agm", "ssvm"])
def test_scores_are_within_what_rounding_is_measured_by(name, hinge):
    problem = CASES[name].problem(hinge=hinge)
    theta, _, _ = drawn(name, 2)
    scores = problem.scores(theta)
    unary = np.where(np.isfinite(scores.unary), np.abs(scores.unary), 0.0).max(axis=1)
    tables = np.where(np.isfinite(scores.tables), np.abs(scores.tables), 0.0).max(axis=(1, 2))
    inner = problem.design.batch.parent >= 0
    edges = tables[scores.table_of[inner]]
    child = problem.design.batch.child[inner]
    total = problem.node_share @ unary + problem.node_share[child] @ edges
    assert total <= problem.score_size * np.abs(theta).max() * (1 + 1e-12)
    assert problem.gain(problem.truth) <= problem.cost_size
    assert problem.untrained <= problem.cost_size * (1 + 1e-12)


def test_who_watches_may_stop_training():
    problem = CASES["chains"].problem()
    progress = Progress(problem, 1e-9, watch=lambda record, theta: record.n_iter == 2)
    theta = np.zeros(problem.n_weights)
    assert not progress.report(1, theta, 2.0, 0.0)
    assert progress.report(2, theta, 2.0, 0.0)
    assert progress.stopped
    assert not progress.converged


@every_case
@pytest.mark.parametrize("hinge", [False, True], ids=["agm", "ssvm"])
def test_sizes_and_constants_are_those_of_the_definition(name, hinge):
    case = CASES[name]
    problem = replace(case.problem(hinge=hinge), offset=-2.5)
    weight = [share * w for share, w in zip(case.share, case.weights, strict=True)]
    total = np.concatenate(weight).sum()
    assert problem.cost_size == pytest.approx(total * case.cost.max(), rel=1e-13)
    assert problem.taken_off == pytest.approx(-2.5 * total, rel=1e-13)
    least = case.cost.diagonal() if hinge else case.cost.min(axis=1)
    unavoidable = np.concatenate(weight) @ least[np.concatenate(case.y)]
    assert problem.unavoidable == pytest.approx(unavoidable, rel=1e-13)
    sizes = [sum(np.abs(rows).sum() for rows in with_constant(graph)) for graph in case.graphs]
    assert problem.score_size == pytest.approx(case.share @ sizes, rel=1e-13)


def test_costs_that_are_all_equal_leave_the_log_loss():
    case = CASES["chains, absolute, weighted"]
    problem = replace(case.problem(), cost=np.full((3, 3), 0.5))
    shares = np.repeat(case.share, [len(labels) for labels in case.y])
    expected = shares @ (0.5 * np.concatenate(case.weights) + np.log(3))
    assert problem.untrained == pytest.approx(expected, rel=1e-13)


def test_features_in_absolute_value_of_dense_and_sparse_rows():
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((2**16 + 3, 2)) < 0.5, rng.normal(size=(2**16 + 3, 2)), 0.0)
    expected = np.abs(dense).sum(axis=1)
    np.testing.assert_allclose(absolute_sums(dense), expected, rtol=1e-12)
    sparse = scipy.sparse.csr_array(dense)
    np.testing.assert_allclose(absolute_sums(sparse), expected, rtol=0, atol=1e-9)


def test_what_rounding_can_do_to_a_certificate():
    outline = Outline(0.1, 5, 2, 7, 3.0, 11.0, 13.0, 1.0, 0.0)
    theta = np.array([0.5, -2.0, 0.0, 1.0, 0.25])
    # 7 nodes and 5 weights are 12 terms; the sizes are 11 + 2 * 13 * 2 and the bounds themselves.
    expected = 2.0**-51 * (12 + 10) * (63.0 + 4.0 + 3.0)
    assert outline.rounding(theta, 4.0, -3.0) == pytest.approx(expected, rel=1e-14, abs=0)
    without = 2.0**-51 * (12 + 10) * 63.0
    assert outline.rounding(theta, np.inf, -np.inf) == pytest.approx(without, rel=1e-14, abs=0)
    bare = 2.0**-51 * (12 + 10) * 11.0
    assert outline.rounding(np.empty(0), np.inf, -np.inf) == pytest.approx(bare, rel=1e-14, abs=0)


def test_outlines_add_up():
    one = Outline(0.1, 5, 2, 7, 3.0, 11.0, 13.0, 1.0, 0.5, 0.2, 3, 4, False)
    other = Outline(0.1, 5, 3, 9, 4.0, 16.0, 32.0, 2.0, 0.25, 0.2, 3, 6, False)
    assert Outline.of_all([one]) == one
    both = (0.1, 5, 5, 16, 7.0, 27.0, 45.0, 3.0, 0.75, 0.2, 3, 10, False)
    assert astuple(Outline.of_all([one, other])) == both


def test_records_have_what_was_taken_off_and_gaps_leave_out_what_nobody_avoids():
    problem = replace(CASES["chains, asymmetric"].problem(), offset=8.0)
    outline = replace(problem.outline, unavoidable=1.0, untrained=401.0)
    progress = Progress(outline, 0.1)
    theta = np.ones(problem.n_weights)
    progress.report(1, theta, 7.0, 4.0)
    assert (progress.primal, progress.dual) == (7.0, 4.0)
    assert progress.gap == 3.0 / 6.0
    record = progress.history[0]
    taken_off = 8.0 * np.mean([len(labels) for labels in CASES["chains, asymmetric"].y])
    assert record.n_iter == 1
    assert record.primal == pytest.approx(7.0 + taken_off, rel=1e-14)
    assert record.dual == pytest.approx(4.0 + taken_off, rel=1e-14)
    assert record.gap == 0.5
    # From here on 1 % of what knowing nothing costs, beyond what nobody avoids, is more.
    progress.report(2, theta, 4.5, 4.0)
    assert progress.gap == 0.5 / 4.0
    assert progress.gap_at(6.0) == 2.0 / 5.0
    assert progress.gap_at(np.inf) == np.inf
    nothing = Progress(replace(outline, unavoidable=0.0, untrained=0.0), 0.1)
    nothing.report(1, theta, 0.0, 0.0)
    assert nothing.gap == 0.0


def test_weights_are_copied_unless_they_may_be_kept():
    problem = CASES["chains"].problem()
    theta, earlier = np.ones(problem.n_weights), np.full(problem.n_weights, 5.0)
    progress = Progress(problem, 1e-9)
    progress.theta = earlier
    progress.report(1, theta, 2.0, 0.0)
    assert progress.theta is not theta
    assert (earlier == 5.0).all()
    progress.report(2, 2 * theta, 2.0, 0.0)  # no better: the weights that came first stay
    np.testing.assert_array_equal(progress.theta, theta)
    kept = 3 * theta
    progress.report(3, kept, 1.5, 0.0, may_keep=True)
    assert progress.theta is kept


@pytest.mark.parametrize("hinge", [False, True], ids=["agm", "ssvm"])
def test_what_nobody_avoids_where_right_answers_are_not_the_cheapest(hinge):
    cost = np.array([[0.5, 1.0, 0.125], [3.0, 2.0, 0.75], [0.25, 0.5, 4.0]])
    case = replace(CASES["trees, asymmetric, weighted"], cost=cost)
    least = np.array([0.5, 2.0, 4.0] if hinge else [0.125, 0.75, 0.25])
    expected = sum(
        share * (weight @ least[labels])
        for share, weight, labels in zip(case.share, case.weights, case.y, strict=True)
    )
    problem = case.problem(hinge=hinge)
    assert problem.unavoidable == pytest.approx(expected, rel=1e-13)
    assert problem.gain(problem.truth) == pytest.approx(expected, rel=1e-13)
