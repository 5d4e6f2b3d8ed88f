"""Scores agree with a plain sum over features, and the adjoint is their transpose."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from robustruct.core.messages import labelling_scores
from robustruct.features import (
    FeatureSpace,
    adjoint,
    labelling_features,
    n_weights,
    scores,
    split_weights,
    sum_over_tables,
)
from robustruct.graphs import Graph

FORMS = ("dense", "sparse", "dicts")


def in_form(rows: np.ndarray, form: str):
    """The same numbers as an array, a sparse matrix, or dicts that name the columns."""
    if form == "dense":
        return rows
    if form == "sparse":
        return sp.csr_matrix(rows)
    return [{f"f{j}": value for j, value in enumerate(row)} for row in rows.tolist()]


def random_forest(rng: np.random.Generator, n_nodes: int) -> np.ndarray:
    """Edges in random order and orientation; now and then a node starts a new tree."""
    names = rng.permutation(n_nodes)
    edges = [(names[i], names[rng.integers(i)]) for i in range(1, n_nodes) if rng.random() < 0.9]
    edges = [edge if rng.random() < 0.5 else edge[::-1] for edge in edges]
    return rng.permutation(np.array(edges, np.intp).reshape(-1, 2))


@st.composite
def problems(draw):
    """Node rows, edges, edge rows (or None) per sample, and labels; numbers repeat on purpose."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    sizes = draw(st.lists(st.integers(1, 7), min_size=1, max_size=5))
    n_columns, n_edge_columns = draw(st.integers(1, 4)), draw(st.integers(0, 3))
    chains = draw(st.booleans())
    samples = []
    for n in sizes:
        edges = None if chains else random_forest(rng, n)
        m = n - 1 if chains else len(edges)
        nodes = rng.normal(size=(n, n_columns)) * (rng.random((n, n_columns)) < 0.7)
        edge_rows = (
            None if chains or not n_edge_columns else rng.integers(0, 2, (m, n_edge_columns))
        )
        samples.append((nodes, edges, edge_rows))
    return rng, samples, draw(st.integers(2, 4)), draw(st.booleans())


def as_samples(samples, form):
    return [
        in_form(nodes, form)
        if edges is None
        else Graph(
            in_form(nodes, form), edges, None if rows is None else in_form(rows.astype(float), form)
        )
        for nodes, edges, rows in samples
    ]


def plain_score(sample, y, node_weights, edge_weights, bias):
    """θ·Φ(y) of one sample by loops; the constants are the last rows of the weights."""
    nodes, edges, rows = sample
    if edges is None:
        edges = [(i, i + 1) for i in range(len(nodes) - 1)]
    total = 0.0
    for i, row in enumerate(nodes):
        full = [*row, 1.0] if bias else row
        total += sum(value * node_weights[j][y[i]] for j, value in enumerate(full))
    for e, (first, second) in enumerate(edges):
        full = [1.0] if rows is None else [*rows[e], 1.0]
        total += sum(value * edge_weights[j][y[first]][y[second]] for j, value in enumerate(full))
    return total


@pytest.mark.parametrize("form", FORMS)
@given(problem=problems())
def test_scores_agree_with_a_plain_sum_over_features(form, problem):
    rng, samples, k, bias = problem
    space, design = FeatureSpace.fit(as_samples(samples, form), bias=bias)
    theta = rng.normal(size=n_weights(space, k))
    psi = scores(design, theta, k)
    batch = design.batch
    labels = rng.integers(k, size=batch.n_nodes)  # in the user's order
    values = np.empty(batch.n_samples)
    given = batch.from_user(labels)
    labelling_scores(0, batch.n_samples, batch.structure, psi.arrays, given, values)
    per_sample = np.split(labels, batch.node_offsets[1:-1])
    # Columns of dicts appear in the order of the keys, which is that of the arrays.
    weights = split_weights(space, theta, k)
    plain = [
        plain_score(sample, y, *weights, bias)
        for sample, y in zip(samples, per_sample, strict=True)
    ]
    np.testing.assert_allclose(values, plain, atol=1e-10)
    weight = rng.normal(size=len(samples))
    total = theta @ labelling_features(design, batch.from_user(labels), k, sample_weight=weight)
    assert total == pytest.approx(np.dot(weight, plain), abs=1e-9)
    total = theta @ labelling_features(design, batch.from_user(labels), k)
    assert total == pytest.approx(sum(plain), abs=1e-9)


@pytest.mark.parametrize("form", FORMS)
@given(problem=problems())
def test_adjoint_is_the_transpose_of_scores(form, problem):
    rng, samples, k, bias = problem
    _, design = FeatureSpace.fit(as_samples(samples, form), bias=bias)
    theta = rng.normal(size=n_weights(design, k))
    psi = scores(design, theta, k)
    r, q = rng.normal(size=psi.unary.shape), rng.normal(size=psi.tables.shape)
    inner = (psi.unary * r).sum() + (psi.tables * q).sum()
    assert inner == pytest.approx(theta @ adjoint(design, r, q), abs=1e-9)


@given(problem=problems())
def test_dense_sparse_and_dict_input_give_equal_scores(problem):
    rng, samples, k, bias = problem
    designs = [FeatureSpace.fit(as_samples(samples, form), bias=bias)[1] for form in FORMS]
    theta = rng.normal(size=n_weights(designs[0], k))
    dense, *others = [scores(design, theta, k) for design in designs]
    inner = dense.batch.parent >= 0
    for other in others:
        np.testing.assert_allclose(other.unary, dense.unary, atol=1e-12)
        np.testing.assert_allclose(
            other.tables[other.table_of[inner]], dense.tables[dense.table_of[inner]], atol=1e-12
        )


@given(problem=problems())
def test_table_sums_skip_roots_and_keep_inner_products(problem):
    rng, samples, k, _ = problem
    _, design = FeatureSpace.fit(as_samples(samples, "dense"))
    psi = scores(design, rng.normal(size=n_weights(design, k)), k)
    q = rng.normal(size=(design.batch.n_nodes, k, k))
    inner = design.batch.parent >= 0
    expected = (psi.tables[psi.table_of] * q)[inner].sum()
    assert (psi.tables * sum_over_tables(design, q)).sum() == pytest.approx(expected, abs=1e-9)


@given(problem=problems())
def test_features_of_a_labelling_are_the_adjoint_of_its_indicators(problem):
    rng, samples, k, bias = problem
    for form in FORMS:
        _, design = FeatureSpace.fit(as_samples(samples, form), bias=bias)
        batch = design.batch
        labels = rng.integers(k, size=batch.n_nodes)
        r = np.eye(k)[labels]
        q = np.zeros((batch.n_nodes, k, k))
        for i, above in enumerate(batch.parent):
            if above >= 0:
                q[i, labels[i], labels[above]] = 1.0
        np.testing.assert_allclose(
            labelling_features(design, labels, k),
            adjoint(design, r, sum_over_tables(design, q)),
            atol=1e-10,
        )


def test_chains_with_plain_transitions_share_one_table():
    _, design = FeatureSpace.fit([np.ones((n, 2)) for n in (3, 1, 4)])
    assert (design.n_tables, design.edges.shape) == (1, (1, 1))


def test_both_orientations_cost_two_tables():
    _, design = FeatureSpace.fit([Graph(np.ones((4, 1)), [(0, 1), (2, 1), (2, 3)])])
    assert design.n_tables == 2
    assert design.edges.shape == (1, 1)


@pytest.mark.parametrize("form", FORMS)
def test_edges_with_equal_features_share_a_table(form):
    rows = np.array([[1.0, 0.0], [0.0, 1.0]] * 5)
    _, design = FeatureSpace.fit([Graph.chain(np.ones((11, 1)), in_form(rows, form))])
    assert (design.n_tables, design.edges.shape) == (2, (2, 3))


def test_samples_without_edges_still_have_a_table():
    space, design = FeatureSpace.fit(np.ones((5, 3)))
    psi = scores(design, np.zeros(n_weights(space, 2)), 2)
    assert psi.tables.shape == (1, 2, 2)
    trained, _ = FeatureSpace.fit([Graph.chain(np.ones((3, 2)), np.ones((2, 4)))])
    lonely = trained.encode([np.ones((1, 2))])
    assert lonely.edges.shape == (1, 5)


@pytest.mark.parametrize("n_jobs", [None, 1, 2, -1])
def test_threads_do_not_change_a_bit(n_jobs):
    rng = np.random.default_rng(0)
    rows = sp.random(5000, 300, 0.05, rng=rng, format="csr")
    _, design = FeatureSpace.fit([rows[i : i + 50] for i in range(0, 5000, 50)])
    theta = rng.normal(size=n_weights(design, 5))
    one, many = scores(design, theta, 5, n_jobs=1), scores(design, theta, 5, n_jobs=n_jobs)
    np.testing.assert_array_equal(one.unary, many.unary)
    q = rng.normal(size=one.tables.shape)
    np.testing.assert_array_equal(
        adjoint(design, one.unary, q, n_jobs=1), adjoint(design, one.unary, q, n_jobs=n_jobs)
    )


def test_weights_are_views_and_read_only_weights_are_accepted():
    space, design = FeatureSpace.fit([[["a"], ["b"]]])
    theta = np.zeros(n_weights(space, 3))
    node, edge = split_weights(space, theta, 3)
    node[0, 1], edge[0, 2, 0] = 5.0, 7.0
    theta.flags.writeable = False
    psi = scores(design, theta, 3)
    assert (psi.unary[0, 1], psi.tables[0, 2, 0]) == (5.0, 7.0)
    theta_32 = theta.astype(np.float32)
    np.testing.assert_array_equal(scores(design, theta_32, 3).unary, psi.unary)
