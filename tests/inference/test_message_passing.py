"""Message passing against enumeration of all labellings."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

from robustruct.graphs import Batch
from robustruct.inference import bayes_decision, best_labelling, k_best, marginals, score_of
from robustruct.scores import Scores
from robustruct.testing.oracles import all_labellings, labelling_score
from robustruct.testing.strategies import forests, graphs


@st.composite
def scored_graphs(draw):
    n, edges = draw(st.one_of(forests(max_nodes=7), graphs(max_nodes=6)))
    k = draw(st.integers(1, 3))
    scale = draw(st.sampled_from([1e-8, 1.0, 30.0, 1e6]))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    unary, pairwise = rng.normal(size=(n, k)), rng.normal(size=(len(edges), k, k))
    if draw(st.booleans()):  # ties
        unary, pairwise = unary.round(), pairwise.round()
    forbid = draw(st.sampled_from([0.0, 0.3]))
    unary[rng.random(unary.shape) < forbid] = -np.inf
    pairwise[rng.random(pairwise.shape) < forbid] = -np.inf
    return n, edges, unary * scale, pairwise * scale


def enumerated(n, edges, unary, pairwise):
    labellings = np.array(list(itertools.product(range(unary.shape[1]), repeat=n)))
    scores = unary[np.arange(n), labellings].sum(axis=1)
    for e, (i, j) in enumerate(edges):
        scores = scores + pairwise[e, labellings[:, i], labellings[:, j]]
    return labellings, scores


def rounding(problem):
    """What float64 may lose in adding up a labelling's score."""
    return 1e-14 * sum(np.abs(part[np.isfinite(part)]).sum() for part in problem[2:])


def batched(problems):
    batch = Batch.build([(n, edges) for n, edges, _, _ in problems])
    unary = np.concatenate([u for _, _, u, _ in problems])
    pairwise = np.concatenate([b for _, _, _, b in problems])
    return Scores.from_user(batch, unary, pairwise)


@given(scored_graphs())
def test_best_labelling_agrees_with_enumeration(problem):
    labellings, all_scores = enumerated(*problem)
    scores = batched([problem])
    labels, value = best_labelling(scores)
    assert value[0] == pytest.approx(all_scores.max(), rel=1e-12, abs=rounding(problem))
    if np.isfinite(value[0]):
        found = scores.batch.to_user(labels)
        row = np.flatnonzero((labellings == found).all(axis=1))[0]
        assert all_scores[row] == pytest.approx(value[0], rel=1e-12, abs=rounding(problem))
        again = score_of(scores, labels)[0]
        assert again == pytest.approx(value[0], rel=1e-12, abs=rounding(problem))


@given(scored_graphs())
def test_marginals_agree_with_enumeration(problem):
    n, edges, unary, _ = problem
    k = unary.shape[1]
    labellings, all_scores = enumerated(*problem)
    scores = batched([problem])
    found = marginals(scores, edges=True)
    top = all_scores.max()
    if top == -np.inf:
        assert found.log_partition[0] == -np.inf
        rows = found.nodes.sum(axis=1)
        assert ((rows == 0) | np.isclose(rows, 1)).all()
        assert (rows == 0).any(), "the component that is ruled out has no marginals"
        return
    size = np.abs(all_scores[np.isfinite(all_scores)]).max() + sum(
        np.abs(part[np.isfinite(part)]).sum() for part in problem[2:]
    )
    log_z = logsumexp(all_scores)
    # Sums of exponentials near 1 are known to 1e-16, so that a log-partition near 0 is too.
    assert found.log_partition[0] == pytest.approx(log_z, rel=1e-12, abs=1e-15 * n + 1e-14 * size)
    # Scores of 1e6 are themselves only known to 1e-10, and probabilities no better.
    atol = 1e-9 * max(1.0, size / 1e4)
    weight = np.exp(all_scores - logsumexp(all_scores))
    nodes = np.array([[weight[labellings[:, i] == a].sum() for a in range(k)] for i in range(n)])
    np.testing.assert_allclose(scores.batch.to_user(found.nodes), nodes, rtol=0, atol=atol)
    pairs = scores.batch.edges_to_user(found.edges)
    for e, (i, j) in enumerate(edges):
        for a, b in itertools.product(range(k), repeat=2):
            mass = weight[(labellings[:, i] == a) & (labellings[:, j] == b)].sum()
            assert pairs[e, a, b] == pytest.approx(mass, abs=atol)
    assert found.table_sums.sum() == pytest.approx(len(edges), rel=1e-9), "mass 1 on every edge"


@given(scored_graphs(), st.integers(1, 12))
def test_k_best_agrees_with_enumeration(problem, size):
    _, all_scores = enumerated(*problem)
    scores = batched([problem])
    labels, values = k_best(scores, size)[0]
    order = np.sort(all_scores[np.isfinite(all_scores)])[::-1][:size]
    np.testing.assert_allclose(values, order, rtol=1e-12, atol=rounding(problem))
    assert len({tuple(y) for y in labels}) == len(labels), "labellings are distinct"
    for y, value in zip(labels, values, strict=True):
        found = score_of(scores, np.ascontiguousarray(y))[0]
        assert found == pytest.approx(value, rel=1e-12, abs=rounding(problem))


@given(scored_graphs(), st.integers(0, 10**6))
def test_bayes_decision_has_least_expected_cost(problem, seed):
    n, _, unary, _ = problem
    k = unary.shape[1]
    labellings, all_scores = enumerated(*problem)
    finite = all_scores[np.isfinite(all_scores)]
    if not len(finite) or np.abs(finite).max() > 1e4:
        return
    cost = np.random.default_rng(seed).normal(size=(k, k))
    scores = batched([problem])
    decision = scores.batch.to_user(bayes_decision(marginals(scores).nodes, cost))
    weight = np.exp(all_scores - logsumexp(all_scores))
    for i in range(n):
        risk = [(weight * cost[labellings[:, i], a]).sum() for a in range(k)]
        assert risk[decision[i]] <= min(risk) + 1e-9


@given(st.lists(scored_graphs(), min_size=2, max_size=5))
def test_a_batch_gives_the_answers_of_its_samples(problems):
    k = max(u.shape[1] for _, _, u, _ in problems)
    problems = [p for p in problems if p[2].shape[1] == k]
    together = batched(problems)
    labels, values = best_labelling(together, n_jobs=2)
    log_partition = marginals(together, n_jobs=2).log_partition
    for s, problem in enumerate(problems):
        alone = batched([problem])
        lo, hi = together.batch.node_offsets[s : s + 2]
        np.testing.assert_array_equal(labels[lo:hi], best_labelling(alone)[0])
        assert values[s] == best_labelling(alone)[1][0]
        assert log_partition[s] == marginals(alone).log_partition[0]


def test_threads_share_a_large_batch():
    rng = np.random.default_rng(0)
    batch = Batch.build([(50, None)] * 200)
    unary, tables = rng.normal(size=(10_000, 4)), rng.normal(size=(1, 4, 4))
    scores = Scores(batch, unary, tables, np.zeros(10_000, np.intp))
    one, two = marginals(scores, n_jobs=1), marginals(scores, n_jobs=2)
    np.testing.assert_array_equal(one.nodes, two.nodes)
    np.testing.assert_allclose(one.table_sums, two.table_sums, rtol=1e-12)
    labels = [best_labelling(scores, n_jobs=n_jobs)[0] for n_jobs in (1, 2)]
    np.testing.assert_array_equal(*labels)


def test_a_path_of_100_000_nodes_needs_no_recursion():
    rng = np.random.default_rng(0)
    n = 100_000
    path = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    shuffled = rng.permutation(n)
    as_chain, as_tree = Batch.build([(n, None)]), Batch.build([(n, shuffled[path])])
    unary, table = rng.normal(size=(n, 3)), rng.normal(size=(3, 3))
    chain = Scores.from_user(as_chain, unary, np.broadcast_to(table, (n - 1, 3, 3)))
    user_unary = np.empty_like(unary)
    user_unary[shuffled] = unary
    tree = Scores.from_user(as_tree, user_unary, np.broadcast_to(table, (n - 1, 3, 3)))
    labels, value = best_labelling(chain)
    tree_labels, tree_value = best_labelling(tree)
    assert value[0] == pytest.approx(tree_value[0])
    np.testing.assert_array_equal(as_tree.to_user(tree_labels)[shuffled], labels)
    log_z = [marginals(scores).log_partition[0] for scores in (chain, tree)]
    assert log_z[0] == pytest.approx(log_z[1], rel=1e-12)


@pytest.mark.parametrize("edges", [[(0, 1), (1, 2), (2, 3)], [(0, 1), (1, 2), (2, 0), (2, 3)]])
@pytest.mark.parametrize("size", [1e6, 1e12, 1e18, 1e60])
def test_marginals_are_distributions_at_any_size_of_scores(edges, size):
    rng = np.random.default_rng(4)
    unary = size * rng.integers(-1, 2, size=(4, 3))  # many ties, which huge sums must not lose
    pairwise = size * rng.integers(-1, 2, size=(len(edges), 3, 3))
    scores = Scores.from_user(Batch.build([(4, np.array(edges))]), unary, pairwise)
    y = all_labellings(4, 3)
    plain = unary / size, edges, pairwise / size
    value = np.array([labelling_score(*plain, labels) for labels in y])
    best = y[value == value.max()]
    r = scores.batch.to_user(marginals(scores).nodes)
    np.testing.assert_allclose(r.sum(axis=1), 1.0, atol=1e-12)
    for node, row in enumerate(r):  # how ties share is below the rounding of such sums
        assert not row[np.setdiff1d(range(3), best[:, node])].any()
