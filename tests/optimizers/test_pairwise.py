"""The state of pairwise ascent: feasible, consistent with itself, the same every time."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from training_cases import CASES, Case, blocks_of, fitted, random_case

from corpora import load_wnut17, name_attributes
from robustruct import AGM
from robustruct.datasets import make_chains
from robustruct.graphs import Graph
from robustruct.losses import CostMatrix
from robustruct.objectives.build import in_memory
from robustruct.optimizers import dual_variables as dual_blocks
from robustruct.optimizers.certificates import Progress
from robustruct.optimizers.dual_ascent import CentredAscent, fit_ascent
from robustruct.optimizers.dual_variables import DualVariables
from robustruct.optimizers.local_shards import LocalShards
from robustruct.optimizers.shards import PassSpec
from robustruct.optimizers.tuning import DENSE, SPARSE, Density

every_case = pytest.mark.parametrize("name", list(CASES))


def after_passes(problem, n_passes, seed=0):
    ascent = CentredAscent(LocalShards.of(problem))
    for _ in range(n_passes):
        ascent.run_pass(seed)
        ascent.n_passes += 1
        ascent.move_centres()
    return ascent


# ---- feasible


@every_case
@pytest.mark.parametrize("hinge", [False, True], ids=["agm", "ssvm"])
def test_marginals_are_consistent_even_without_repair(name, hinge):
    problem = CASES[name].problem(hinge=hinge)
    dual = blocks_of(after_passes(problem, 30))
    r, q, batch = dual.q.r, dual.q.dense_edges(), problem.design.batch
    edges = np.flatnonzero(batch.parent >= 0)
    assert r.min() >= 0
    assert q.min() >= 0
    np.testing.assert_allclose(r.sum(axis=1), 1.0, atol=1e-9)
    np.testing.assert_allclose(q[edges].sum(axis=2), r[batch.child[edges]], atol=1e-9)
    np.testing.assert_allclose(q[edges].sum(axis=1), r[batch.parent[edges]], atol=1e-9)


@every_case
@pytest.mark.parametrize("hinge", [False, True], ids=["agm", "ssvm"])
def test_moments_followed_step_by_step_are_those_of_the_marginals(name, hinge):
    ascent = after_passes(CASES[name].problem(hinge=hinge), 30)
    followed = ascent.moments()
    recomputed = np.empty_like(ascent.theta)
    ascent.shards.moments(recomputed)
    np.testing.assert_allclose(followed, recomputed, atol=1e-9)
    for change in blocks_of(ascent)._changes:  # scratch is left clean
        assert (change.line_of == -1).all()
        assert not change.values.any()


@pytest.mark.parametrize("name", [name for name in CASES if "forbidden" in name])
def test_the_adversary_never_plays_what_is_forbidden(name):
    case = CASES[name]
    problem = case.problem()
    _, ascent = fitted(problem, tol=1e-4)
    batch = problem.design.batch
    tables = batch.edges_to_user(blocks_of(ascent).q.dense_edges())
    for a, b in case.forbidden:
        assert tables[:, a, b].max() == 0.0
    assert np.isfinite(ascent.theta).all()


# ---- consistent with itself


def answer(p0, expected, inv_mu):
    """The predictor that minimises p'Lr + Σ mu_a (p_a - p0_a)² / 2, by bisection."""
    low, high = np.full((2, len(p0), 1), [[[-1e3]], [[1e3]]])
    for _ in range(200):
        middle = 0.5 * (low + high)
        p = np.maximum(p0 - (expected + middle) * inv_mu, 0.0)
        above = p.sum(axis=1, keepdims=True) > 1.0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return p


@every_case
@pytest.mark.parametrize("hinge", [False, True], ids=["agm", "ssvm"])
@pytest.mark.parametrize("n_passes", [0, 1, 7])
def test_the_gap_falls_into_the_parts_that_visits_report(name, hinge, n_passes):
    problem = CASES[name].problem(hinge=hinge)
    ascent = after_passes(problem, n_passes)
    dual, gap = blocks_of(ascent), 0.0
    for s, share in enumerate(problem.share):
        looked = copy.copy(dual)  # a visit reports before it moves; it moves copies
        looked.q, theta = copy.deepcopy(dual.q), ascent.theta.copy()
        spec = PassSpec(n_passes + 1, 0, ascent.alpha + ascent.kappa, ascent.inner)
        looked.visit(np.array([s]), theta, spec)
        gap += share * (looked.gap[s] + looked.predictor_regret[s])
    outer = ascent.gap_parts()[1]
    row_of, masks = problem.label_masks
    expected = np.where(masks[row_of] > -np.inf, dual.q.r @ problem.cost.T, np.inf)
    p = dual.p0 if hinge else answer(dual.p0, expected, dual.inv_mu)
    primal = problem.primal(ascent.weights, np.ascontiguousarray(p))
    moments = ascent.scales.divided(ascent.moments())
    bound = problem.dual(moments / problem.alpha, dual.q.r)
    assert primal - bound == pytest.approx(gap + outer, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", ["chains", "trees, asymmetric, weighted"])
def test_sparse_features_are_trained_like_dense_ones(name):
    case = CASES[name]
    names = [f"f{j}" for j in range(case.graphs[0].node_features.shape[1])]
    edge_names = [f"e{j}" for j in range(case.graphs[0].edge_features.shape[1])]
    sparse = [
        Graph(
            [dict(zip(names, row, strict=True)) for row in graph.node_features.tolist()],
            graph.edges,
            [dict(zip(edge_names, row, strict=True)) for row in graph.edge_features.tolist()],
        )
        for graph in case.graphs
    ]
    options = {"loss": case.cost, "alpha": case.alpha, "tol": 1e-5, "random_state": 0}
    one = AGM(standardize=False, **options).fit(case.graphs, case.y)
    other = AGM(**options).fit(sparse, case.y)
    assert one.objective_ == pytest.approx(other.objective_, rel=2e-5)


def test_a_centre_given_is_a_warm_start():
    problem = CASES["trees"].problem()
    cold, _ = fitted(problem, tol=1e-3, check_every=1)
    progress = Progress(problem, 1e-3, check_every=1)
    warm = CentredAscent(LocalShards.of(problem), centre=cold.theta)
    fit_ascent(warm, progress, 3000, 0)
    assert progress.converged
    assert progress.history[0].primal < cold.history[0].primal


def test_lists_of_pairs_grow_when_they_are_full():
    case = random_case(20, sizes=(4,) * 6, n_labels=5, n_edge_features=0, alpha=5.0)
    problem = case.problem()
    ascent = CentredAscent(LocalShards.of(problem))
    q = blocks_of(ascent).q
    q.pair, q.mass = q.pair[:, :1].copy(), q.mass[:, :1].copy()
    progress = Progress(problem, 1e-3)
    fit_ascent(ascent, progress, 3000, 0)
    assert progress.converged
    assert q.count.max() > 8


def test_equal_costs_leave_nothing_to_learn():
    case = random_case(21, cost=np.full((3, 3), 2.0))
    progress, _ = fitted(case.problem())
    assert progress.converged
    assert np.abs(progress.theta).max() < 1e-3


# ---- the same every time


def test_equal_seeds_give_equal_weights():
    problem = CASES["trees"].problem()
    one, other = fitted(problem, seed=3)[0], fitted(problem, seed=3)[0]
    np.testing.assert_array_equal(one.theta, other.theta)
    assert [record.primal for record in one.history] == [record.primal for record in other.history]


@pytest.mark.parametrize("features", ["dense", "wide", "sparse"])
def test_threads_do_not_change_a_bit(features, monkeypatch):
    monkeypatch.setattr(dual_blocks, "THREAD_PAYS", 1)  # here it does not, but it must work
    data = make_chains(n_samples=300, n_nodes=(10, 18), noise=2.0)  # enough nodes for two threads
    rng = np.random.default_rng(0)
    if features == "wide":  # BLAS would take several threads by itself
        turn = rng.normal(size=(5, 200))
        data.X[:] = [x @ turn for x in data.X]
    if features == "sparse":  # few of many in a sample: the regime in which threads look at once
        words = [rng.integers(9000, size=(len(x), 5)) for x in data.X]
        data.X[:] = [[[f"w{j}" for j in row] for row in of_sample] for of_sample in words]
    models = [
        AGM(alpha=0.1, tol=1e-2, random_state=0, n_jobs=n_jobs).fit(data.X, data.y)
        for n_jobs in (1, 2, 5)
    ]
    for model in models:
        assert model.duality_gap_ <= 1e-2
        np.testing.assert_array_equal(model.coef_, models[0].coef_)


def test_threads_do_not_change_a_bit_when_visits_become_longer(monkeypatch):
    monkeypatch.setattr(dual_blocks, "THREAD_PAYS", 1)
    case, found = random_case(22, sizes=(3, 4, 2) * 100), []
    for n_jobs in (1, 5):
        problem = case.problem(n_jobs=n_jobs)
        dual, theta = DualVariables(problem, SPARSE), np.zeros(problem.n_weights)
        for steps in (1, 4, 16, 1):
            dual.visit(np.arange(300), theta, PassSpec(1, 0, 1.0, steps))
            dual.move_predictors(1.0)
        found.append(theta)
        # The weights are those of the marginals, however many steps a visit took.
        moments = np.empty_like(theta)
        dual.moments(moments)
        np.testing.assert_allclose(theta, moments, atol=1e-9)
    np.testing.assert_array_equal(found[0], found[1])


# ---- symmetric


def symmetric_fit(graphs, y, cost, alpha=0.1):
    """(node weights (d, k), edge weights (d_e, k, k), how far they may be from the optimum)."""
    case = Case(graphs, y, cost, alpha=alpha)
    problem = case.problem()
    progress, _ = fitted(problem, tol=1e-7)
    assert progress.converged
    reach = np.sqrt(2 * (progress.primal - progress.dual) / alpha)
    k = len(cost)
    cut = problem.design.n_node_features * k
    return progress.theta[:cut].reshape(-1, k), progress.theta[cut:].reshape(-1, k, k), reach


def test_data_without_preference_for_a_label_leave_nothing_to_learn():
    base = random_case(30, sizes=(3, 4, 2))
    y = [(labels + shift) % 3 for shift in range(3) for labels in base.y]
    case = Case(base.graphs * 3, y, 1.0 - np.eye(3), alpha=0.1)
    progress, ascent = fitted(case.problem())
    assert progress.primal == pytest.approx(case.problem().untrained, rel=2e-6)
    assert np.abs(progress.theta).max() <= np.sqrt(2 * 2e-6 * progress.primal / case.alpha)
    np.testing.assert_allclose(blocks_of(ascent).p0, 1 / 3, atol=0.01)


def test_data_that_read_the_same_backwards_give_symmetric_transitions():
    base = random_case(31, sizes=(3, 4, 2, 3), n_edge_features=0)
    graphs = [*base.graphs, *(Graph(g.node_features[::-1], g.edges) for g in base.graphs)]
    y = [*base.y, *(labels[::-1] for labels in base.y)]
    _, edges, reach = symmetric_fit(graphs, y, base.cost)
    np.testing.assert_allclose(edges, edges.transpose(0, 2, 1), atol=2 * reach)
    assert np.abs(edges).max() > 10 * reach


def test_turning_an_ordinal_scale_round_turns_the_weights_round():
    base = random_case(32, sizes=(3, 4, 2, 3))
    cost = np.abs(np.subtract.outer(np.arange(3.0), np.arange(3.0)))
    nodes, edges, reach = symmetric_fit(base.graphs, base.y, cost)
    turned, turned_edges, turned_reach = symmetric_fit(
        base.graphs, [2 - labels for labels in base.y], cost
    )
    both = reach + turned_reach
    np.testing.assert_allclose(turned, nodes[:, ::-1], atol=both)
    np.testing.assert_allclose(turned_edges, edges[:, ::-1, ::-1], atol=both)


def attribute_chains(overlap: int) -> tuple[list, list]:
    """Chains whose neighbours have ``overlap`` of ten attributes in common, no bias counted."""
    rng = np.random.default_rng(0)
    X = [
        [[f"{s}:{i * (10 - overlap) + j}" for j in range(10)] for i in range(4)] for s in range(30)
    ]
    return X, [rng.integers(0, 3, 4) for _ in X]


@pytest.mark.parametrize("overlap", [0, 2, 7, 10])
def test_neighbours_with_much_in_common_take_several_steps_a_visit(overlap):
    _, problem = in_memory(AGM(), *attribute_chains(overlap))
    density, with_bias = Density.of(problem), (overlap + 1) / 11
    assert density.common / density.sizes == pytest.approx(with_bias)
    assert density.regime() is (DENSE if with_bias > 0.5 else SPARSE)


def test_densities_of_shards_add_up():
    X, y = attribute_chains(7)
    problem = in_memory(AGM(), X, y)[1]
    whole = Density.of(problem)
    space = AGM().fit(X, y)._space
    total = Density.of_all([Density.of(problem.part(0, 10)), Density.of(problem.part(10, 30))])
    np.testing.assert_allclose(total.columns.squares, whole.columns.squares)
    np.testing.assert_array_equal(total.columns.entries, whole.columns.entries)
    assert total.tuning().pull == pytest.approx(whole.tuning().pull)
    assert (total.n_samples, total.entries) == (whole.n_samples, whole.entries)
    assert total.common == pytest.approx(whole.common)
    assert total.sizes == pytest.approx(whole.sizes)
    assert whole.n_features == space.n_node_features


# ---- costs of very different size


@pytest.mark.data
@pytest.mark.parametrize("alpha", [None, 1e-4])
def test_mistakes_of_1000_to_1_converge(alpha, data_home):
    """Predictors in units of the dearest mistake were at a gap of 9.5 % after 1000 passes."""
    names = load_wnut17("train", data_home=data_home).subset(slice(60))
    labels = np.unique(np.concatenate(names.y))
    cost = 1 - np.eye(len(labels))
    cost[:, labels == "O"] *= 1000.0
    model = AGM(CostMatrix(cost, labels), alpha=alpha, max_iter=400, random_state=0)
    model.fit([name_attributes(words) for words in names.X], list(names.y))
    assert model.duality_gap_ <= model.tol
