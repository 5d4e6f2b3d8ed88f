"""The core's messages are equal to those of the kernels, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from core_cases import forests, scores

from robustruct.core import messages as core
from robustruct.core.structs import Exponentials, Gibbs, Rows
from robustruct.inference import relative_exponentials
from robustruct.kernels import allowed, k_best, linear, max_product, sum_product

LABELS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 15, 16, 17, 23, 24, 31, 33, 50, 64]


@pytest.mark.parametrize("k", LABELS)
@pytest.mark.parametrize("forbidden", [0.0, 0.3])
def test_best_labellings(k, forbidden):
    structure = forests(0, k)
    given = scores(structure, 0, k, forbidden=forbidden)
    n, n_samples = len(given.unary), len(structure.offsets) - 1
    results = []
    for module in (core, max_product):
        best, labels, values = np.empty((n, k)), np.empty(n, np.intp), np.empty(n_samples)
        module.max_product(0, n_samples, structure, given, best, labels, values)
        again = np.empty(n_samples)
        module.labelling_scores(0, n_samples, structure, given, labels, again)
        results.append((best, labels, values, again))
    for mine, kernels in zip(*results, strict=True):
        np.testing.assert_array_equal(mine, kernels)


@pytest.mark.parametrize("k", LABELS)
@pytest.mark.parametrize(("forbidden", "scale"), [(0.0, 1.0), (0.3, 1.0), (0.2, 1e3), (0.0, 1e17)])
@pytest.mark.parametrize("edges", [False, True])
def test_marginals(k, forbidden, scale, edges):
    structure = forests(1, k)
    given = scores(structure, 1, k, forbidden=forbidden)
    given = given._replace(unary=given.unary * scale, tables=given.tables * scale)
    n, n_samples = len(given.unary), len(structure.offsets) - 1
    results = []
    for module in (core, sum_product):
        exps = Exponentials(
            np.empty((n, k)), np.empty(n), np.empty(given.tables.shape), np.empty(3)
        )
        relative_exponentials(given.unary, exps.top, exps.unary)
        flat = given.tables.reshape(3, -1)
        relative_exponentials(flat, exps.table_top, exps.tables.reshape(3, -1))
        q = np.empty((n if edges else 0, k, k))
        gibbs = Gibbs(np.empty(n_samples), np.empty((n, k)), q, np.zeros(given.tables.shape))
        share = np.linspace(0.5, 2.0, n_samples)
        module.sum_product(0, n_samples, structure, given, exps, share, gibbs)
        results.append(gibbs)
    for mine, kernels in zip(*results, strict=True):
        np.testing.assert_array_equal(mine, kernels)


@pytest.mark.parametrize("k", [1, 2, 3, 8, 13])
@pytest.mark.parametrize("size", [1, 4, 20])
def test_k_best(k, size):
    structure = forests(2, k, sizes=(6,))
    given = scores(structure, 2, k)
    results = []
    for own, graph in ((core.k_best, structure), (k_best.k_best, structure.parent)):
        labels, values = np.zeros((size, 6), np.intp), np.zeros(size)
        results.append((own(0, 6, graph, given, size, labels, values), labels, values))
    for mine, kernels in zip(*results, strict=True):
        np.testing.assert_array_equal(mine, kernels)


@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_allowed_labels(k):
    structure = forests(3, k)
    given = scores(structure, 3, k, forbidden=0.7)
    n, n_samples = len(given.unary), len(structure.offsets) - 1
    results = np.zeros((2, n, k), np.bool_)
    core.forest_allowed(0, n_samples, structure, given, results[0])
    allowed.forest_allowed(0, n_samples, structure, given, results[1])
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("m", LABELS)
def test_products_of_sparse_rows(m):
    rng = np.random.default_rng(m)
    n, d = 30, 12
    indptr = np.concatenate([[0], np.cumsum(rng.integers(0, 6, n))]).astype(np.intp)
    indices = rng.integers(-1, d, indptr[-1]).astype(np.int32)
    raw = Rows(indptr, indices, rng.normal(size=indptr[-1]).round(1))
    order = rng.permutation(n).astype(np.intp)
    clean = []
    for kernel in (False, True):
        rows = Rows(
            np.empty(n + 1, np.intp),
            np.empty(len(indices) + n, np.int32),
            np.empty(len(indices) + n),
        )
        if kernel:
            size = linear.assemble_rows(order, *raw, d + 1, d, *rows)
        else:
            size = core.assemble_rows(n, order, raw, d + 1, d, *rows)
        clean.append(Rows(rows.indptr, rows.indices[:size].copy(), rows.data[:size].copy()))
    for mine, kernels in zip(*clean, strict=True):
        np.testing.assert_array_equal(mine, kernels)
    rows = clean[0]
    weights, values = rng.normal(size=(d + 1, m)), rng.normal(size=(n, m))
    out = np.empty((2, n, m))
    core.sparse_product(0, n, rows, m, weights, out[0])
    linear.sparse_product(0, n, *rows, weights, out[1])
    np.testing.assert_array_equal(*out)
    back = np.zeros((2, d + 1, m))
    core.sparse_transposed_product(2, d, 0, rows, n, m, values, back[0])
    linear.sparse_transposed_product(2, d, 0, *rows, values, back[1])
    np.testing.assert_array_equal(*back)
    labels, weight = rng.integers(0, m, n).astype(np.intp), rng.random(n)
    sums = np.zeros((2, d + 1, m))
    core.sparse_label_sums(rows, labels, weight, m, sums[0])
    linear.sparse_label_sums(*rows, labels, weight, sums[1])
    np.testing.assert_array_equal(*sums)


@pytest.mark.parametrize("k", [1, 3, 8])
def test_sums_over_tables(k):
    structure = forests(4, k)
    given = scores(structure, 4, k)
    rng = np.random.default_rng(k)
    n = len(structure.parent)
    q, labels, weight = rng.random((n, k, k)), rng.integers(0, k, n).astype(np.intp), rng.random(n)
    out = np.zeros((4, 3, k, k))
    core.table_sums(n, structure.parent, given.table_of, k, q, out[0])
    linear.table_sums(structure.parent, given.table_of, q, out[1])
    core.table_label_sums(structure, given.table_of, labels, weight, k, out[2])
    linear.table_label_sums(
        structure.child, structure.parent, given.table_of, labels, weight, out[3]
    )
    np.testing.assert_array_equal(out[0], out[1])
    np.testing.assert_array_equal(out[2], out[3])
