"""Rows in compressed form do what SciPy's do, which need not be loaded for it."""

import numpy as np
import pytest
import scipy.sparse as sp

from robustruct.features.matrix import distinct_rows, sparse_rows, take_rows


@pytest.fixture(params=range(5))
def dense(request: pytest.FixtureRequest) -> np.ndarray:
    draw = np.random.default_rng(request.param)
    shape = draw.integers(1, 12, 2)
    return draw.integers(-2, 3, shape) * (draw.random(shape) < 0.4) / 4.0


def test_rows_of_an_array(dense: np.ndarray) -> None:
    rows, expected = sparse_rows(dense), sp.csr_array(dense)
    np.testing.assert_array_equal(rows.indptr, expected.indptr)
    np.testing.assert_array_equal(rows.indices, expected.indices)
    np.testing.assert_array_equal(rows.data, expected.data)
    assert rows.shape == dense.shape
    assert (rows.indptr.dtype, rows.indices.dtype) == (np.intp, np.int32)


def test_some_rows_in_any_order(dense: np.ndarray) -> None:
    order = np.random.default_rng(0).integers(len(dense), size=9)
    taken = take_rows(sparse_rows(dense), order)
    np.testing.assert_array_equal(taken.to_scipy().toarray(), dense[order])


def test_products_of_entries_in_the_same_place(dense: np.ndarray) -> None:
    other = np.roll(dense, 1, axis=1)
    expected = sp.csr_array(dense).multiply(sp.csr_array(other)).sum()
    assert sparse_rows(dense).inner(sparse_rows(other)) == pytest.approx(expected)


def test_equal_rows_are_kept_once_whatever_the_order_of_their_columns(dense: np.ndarray) -> None:
    repeated = dense[np.random.default_rng(0).integers(len(dense), size=20)]
    rows = sparse_rows(repeated)
    for first, last in zip(rows.indptr[:-1:2], rows.indptr[1::2], strict=False):
        for values in (rows.indices, rows.data):
            values[first:last] = values[first:last][::-1].copy()
    kept, row_of = distinct_rows(rows)
    np.testing.assert_array_equal(kept.to_scipy().toarray()[row_of], repeated)
    assert kept.shape[0] == len(np.unique(repeated, axis=0))
