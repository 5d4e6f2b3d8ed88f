"""Training with relaxed games: its certificates, and what it has to do with the exact problem."""

from itertools import product

import numpy as np
import pytest
from training_cases import (
    ASYMMETRIC,
    CASES,
    optimum,
    quadratic_program,
    random_case,
    sample_features,
    with_constant,
)

from robustruct import AGM, CRF, SSVM, Graph
from robustruct.datasets import make_grids
from robustruct.errors import IncompatibleError
from robustruct.inference import score_of
from robustruct.optimizers.certificates import Progress
from robustruct.optimizers.dual_ascent import fit_ascent
from robustruct.optimizers.relaxed_ascent import ForestCopies, RelaxedAscent
from robustruct.testing.oracles import local_polytope_value

GRIDS = make_grids(n_samples=8, shape=(3, 3), n_labels=2, noise=1.5, seed=1)


def relaxed_fit(problem, tol):
    progress = Progress(problem, tol)
    ascent = RelaxedAscent(problem)
    fit_ascent(ascent, progress, 5000, 0)
    return progress, ascent


@pytest.mark.parametrize("hinge", [False, True], ids=["agm", "ssvm"])
def test_on_trees_the_optimum_is_the_exact_one(hinge):
    name = "trees, asymmetric, weighted"
    lower, upper, _ = optimum(name, hinge)
    case = random_case(
        5, sizes=(4, 4, 3, 2), tree=True, cost=ASYMMETRIC, weighted=True, alpha=0.05
    )  # the case of that name
    progress, _ = relaxed_fit(case.problem(hinge=hinge), 1e-4)
    assert progress.converged
    assert progress.dual <= upper
    assert progress.primal >= lower
    assert progress.primal == pytest.approx(upper, rel=2e-4)


@pytest.mark.parametrize("hinge", [False, True], ids=["agm", "ssvm"])
def test_the_relaxed_objective_is_at_least_the_exact_one(hinge):
    lower, _, _ = optimum("cycles", hinge)
    case = random_case(12, sizes=(4, 5, 4), n_labels=2, cycle=True, alpha=0.1)
    progress, ascent = relaxed_fit(case.problem(hinge=hinge), 1e-2)
    assert progress.converged
    for record in progress.history:
        assert record.primal >= lower * (1 - 1e-9)
        assert record.dual <= progress.primal
    recomputed = np.empty_like(ascent.theta)
    ascent.shards.moments(recomputed)
    np.testing.assert_allclose(ascent.moments(), recomputed, atol=1e-8)


def relaxed_reference(case, hinge):
    """(optimum, θ) of the problem relaxed to the local polytope, by a quadratic program.

    Variables θ, p, and per sample the dual of the linear program of its relaxed game: ν of every
    node, μ of every edge, and prices u of agreement for both ends of an edge:

        ν_i >= ψ_i(b) + w_i (p_i'L)_b + Σ_e u_e,i(b),   μ_e >= ψ_e(a, b) − u_e,1(a) − u_e,2(b)
    """
    k = case.n_labels
    rows = [with_constant(graph) for graph in case.graphs]
    n_node, n_edge = rows[0][0].shape[1] * k, rows[0][1].shape[1] * k * k
    d = n_node + n_edge
    sizes = [len(y) for y in case.y], [graph.n_edges for graph in case.graphs]
    n, m = sum(sizes[0]), sum(sizes[1])
    nu, mu = d + np.arange(n), d + n + np.arange(m)
    u = d + n + m + np.arange(m * 2 * k).reshape(m, 2, k)
    p = d + n + m + 2 * m * k + np.arange(0 if hinge else n * k).reshape(-1, k)
    n_columns = d + n + m + 2 * m * k + p.size
    matrix, lower, linear = [], [], np.zeros(n_columns)
    at = at_edge = 0
    for s, (graph, y) in enumerate(zip(case.graphs, case.y, strict=True)):
        linear[:d] -= case.share[s] * sample_features(graph, y, k)
        linear[nu[at : at + len(y)]] = case.share[s]
        linear[mu[at_edge : at_edge + graph.n_edges]] = case.share[s]
        for i, b in product(range(len(y)), range(k)):
            row = np.zeros(n_columns)
            row[nu[at + i]] = 1.0
            row[b:n_node:k] = -rows[s][0][i]
            for e, ends in enumerate(graph.edges):
                for side in np.flatnonzero(ends == i):
                    row[u[at_edge + e, side, b]] = -1.0
            weight = case.weights[s][i]
            if not hinge:
                row[p[at + i]] = -weight * case.cost[b]
            matrix.append(row)
            lower.append(weight * case.cost[y[i], b] if hinge else 0.0)
        for e, a, b in product(range(graph.n_edges), range(k), range(k)):
            if (a, b) in case.forbidden:
                continue
            row = np.zeros(n_columns)
            row[mu[at_edge + e]] = row[u[at_edge + e, 0, a]] = row[u[at_edge + e, 1, b]] = 1.0
            row[n_node + a * k + b : d : k * k] = -rows[s][1][e]
            matrix.append(row)
            lower.append(0.0)
        at, at_edge = at + len(y), at_edge + graph.n_edges
    sums = np.zeros((len(p), n_columns))
    for i, columns in enumerate(p):
        sums[i, columns] = 1.0
    x, _ = quadratic_program(
        np.append(np.full(d, case.alpha), np.zeros(n_columns - d)),
        linear,
        np.vstack([*matrix, sums]),
        np.append(lower, np.ones(len(p))),
        np.append(np.full(len(lower), np.inf), np.ones(len(p))),
        np.append(np.full(n_columns - p.size, -np.inf), np.zeros(p.size)),
    )
    return 0.5 * case.alpha * float(x[:d] @ x[:d]) + float(linear @ x), x[:d]


def relaxed_objective(case, theta):
    """The AGM's relaxed objective at θ, game by game."""
    k, total = case.n_labels, 0.5 * case.alpha * float(theta @ theta)
    for graph, y, weight, share in zip(case.graphs, case.y, case.weights, case.share, strict=True):
        rows, edge_rows = with_constant(graph)
        cut = rows.shape[1] * k
        pairwise = np.tensordot(edge_rows, theta[cut:].reshape(-1, k, k), 1)
        for pair in case.forbidden:
            pairwise[:, pair[0], pair[1]] = -np.inf
        unary = rows @ theta[:cut].reshape(-1, k)
        value = local_polytope_value(unary, graph.edges, pairwise, case.cost, weight)
        total += share * (value - theta @ sample_features(graph, y, k))
    return total


@pytest.mark.parametrize("hinge", [False, True], ids=["agm", "ssvm"])
@pytest.mark.parametrize("name", ["cycles", "cycles, asymmetric, weighted", "cycles, forbidden"])
def test_the_optimum_is_that_of_the_local_polytope(name, hinge):
    case = CASES[name]
    best, theta = relaxed_reference(case, hinge)
    if not hinge:  # the quadratic program is right about its own optimum
        assert relaxed_objective(case, theta) == pytest.approx(best, rel=1e-6)
    progress, _ = relaxed_fit(case.problem(hinge=hinge), 1e-3)
    assert progress.converged
    slack = 1e-6 * best
    for record in progress.history:
        assert record.dual <= best + slack
        assert record.primal >= best - slack
    if not hinge:
        assert relaxed_objective(case, progress.theta) <= progress.primal + slack
    # Strongly convex: |θ − θ*|² alpha / 2 <= what the primal is above the optimum.
    assert 0.5 * case.alpha * np.sum((progress.theta - theta) ** 2) <= 2e-3 * best


def test_copies_hold_every_edge_once_and_every_node_in_each():
    problem = random_case(12, sizes=(5, 4, 2), n_labels=2, cycle=True).problem()
    copies = ForestCopies(problem, problem.alpha)
    batch, inside = problem.design.batch, copies.problem()
    assert sorted(copies.edge_of.tolist()) == list(range(batch.n_edges))
    assert inside.design.batch.n_chords == 0
    np.testing.assert_array_equal(np.bincount(copies.node_of), copies.n_copies)
    theta = np.random.default_rng(0).normal(size=problem.n_weights)
    padded = np.zeros(inside.n_weights)
    cut = problem.design.n_node_features * problem.n_labels
    padded[:cut] = theta[:cut]
    padded[inside.n_weights - len(theta) + cut :] = theta[cut:]
    # Without multipliers the copies' scores of the truth add up to the truth's score.
    whole = score_of(problem.scores(theta), problem.labels)
    parts = score_of(inside.scores(padded), inside.labels)
    np.testing.assert_allclose(np.bincount(copies.sample_of, parts), whole)


@pytest.mark.parametrize("Model", [AGM, SSVM])
def test_models_relax_when_asked_or_when_they_must(Model, monkeypatch):
    options = {"alpha": 0.05, "tol": 0.02, "random_state": 0}
    exact = Model(**options).fit(GRIDS.X, GRIDS.y)
    relaxed = Model(inference="relaxed", **options).fit(GRIDS.X, GRIDS.y)
    assert (exact.inference_, relaxed.inference_) == ("exact", "relaxed")
    assert relaxed.duality_gap_ <= 0.02
    assert relaxed.objective_ >= exact.objective_ * (1 - exact.duality_gap_)
    agreement = np.concatenate(relaxed.predict(GRIDS.X)) == np.concatenate(exact.predict(GRIDS.X))
    assert agreement.mean() > 0.9
    p = relaxed.predict_proba(GRIDS.X[:2])
    np.testing.assert_allclose(np.concatenate(p).sum(axis=1), 1.0)
    assert relaxed.predict_risk(GRIDS.X[:2]).shape == (2, 2)
    monkeypatch.setattr("robustruct.graphs.elimination.TABLE_LIMIT", 20)
    assert Model(**options).fit(GRIDS.X, GRIDS.y).inference_ == "relaxed"
    with pytest.raises(IncompatibleError, match="inference='relaxed'"):
        Model(inference="exact", **options).fit(GRIDS.X, GRIDS.y)


def test_what_cannot_be_relaxed_says_so():
    with pytest.raises(IncompatibleError, match="natural ascent needs exact inference"):
        CRF(inference="relaxed", optimizer="natural_ascent").fit(GRIDS.X, GRIDS.y)
    with pytest.raises(IncompatibleError, match="optimizer='auto'"):
        AGM(inference="relaxed", optimizer="subgradient").fit(GRIDS.X, GRIDS.y)
    squares = [Graph(x.node_features, [(0, 1), (0, 2), (3, 1), (3, 2)]) for x in GRIDS.X]
    tags = [["B-x", "E-x", "E-x", "B-x", *["O"] * 5]] + [["O"] * 9] * 7
    with pytest.raises(IncompatibleError, match="list transitions: constraints="):
        AGM(inference="relaxed", constraints="BIOES").fit(squares, tags)
