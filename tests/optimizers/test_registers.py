"""Registers of eight numbers, and sums of padded rows, against numpy."""

import numpy as np
import pytest

from robustruct.core.structs import Rows
from robustruct.kernels._jit import quick_kernel
from robustruct.kernels.lanes import (
    dot,
    gather_rows,
    row_sum,
    row_top,
    scatter_row,
    times_rows,
)
from robustruct.kernels.registers import (
    beyond,
    double,
    eight,
    exponentials,
    larger,
    largest,
    put,
    ratios,
    same,
    single,
    total,
    zeros,
)

TYPES = [np.float32, np.float64]


@quick_kernel
def all_exponentials(x, out):
    for i in range(0, len(x), 8):
        put(exponentials(eight(x, i)), out, i)


@pytest.mark.parametrize("dtype", TYPES)
def test_exponentials(dtype):
    least, near = (-86.0, 3e-7) if dtype is np.float32 else (-700.0, 1e-13)
    x = -np.concatenate([np.linspace(0, -least, 4000), np.geomspace(1e-12, 1, 96)]).astype(dtype)
    out = np.empty_like(x)
    all_exponentials(x, out)
    np.testing.assert_allclose(out, np.exp(x.astype(np.float64)), rtol=near)
    edge = np.array([0.0, -0.0, 1.01 * least, -1e30, -np.inf, np.nan, -1.0, -2.0], dtype)
    out = np.empty_like(edge)
    all_exponentials(edge, out)
    assert out[:5].tolist() == [1.0, 1.0, 0.0, 0.0, 0.0]
    assert np.isnan(out[5])


@quick_kernel
def all_operations(a, b, out):
    x, y = eight(a, 0), eight(b, 0)
    put(x + y, out, 0)
    put(x - y, out, 8)
    put(x * y * same(b[0, 0]), out, 16)
    put(larger(x, y), out, 24)
    put(beyond(x, y), out, 32)
    put(ratios(x, y), out, 40)
    put(zeros(a) + b[0, 1], out, 48)
    return total(x), largest(x)


@pytest.mark.parametrize("dtype", TYPES)
def test_operations(dtype):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 1, 8)).astype(dtype)
    b[0, 3] = 0.0
    out = np.empty((7, 8), dtype)
    sums = all_operations(a, b, out)
    x, y = a[0], b[0]
    shares = np.divide(x, y, out=np.zeros_like(x), where=y > 0)
    expected = [x + y, x - y, x * y * y[0], np.maximum(x, y), x > y, shares, np.full(8, y[1])]
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    np.testing.assert_allclose(sums, [x.sum(), x.max()], rtol=1e-5)


@quick_kernel
def there_and_back(a, out):
    put(single(double(eight(a, 0))), out, 0)


def test_conversion():
    a, out = np.arange(8, dtype=np.float32) / 3, np.zeros(8, np.float32)
    there_and_back(a, out)
    np.testing.assert_array_equal(out, a)


@quick_kernel
def all_sums(factors, step, rows, count, out):
    times_rows(factors, step, step, rows, 1, count, out, 1)
    return dot(rows, 0, rows, 2), row_sum(rows, 1), row_top(rows, 1, 3)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("width", [8, 16, 24, 32, 48])
@pytest.mark.parametrize("count", [0, 1, 6, 7])
def test_sums_of_rows(dtype, width, count):
    rng = np.random.default_rng(width + count)
    rows, factors = rng.normal(size=(9, width)).astype(dtype), rng.normal(size=30).astype(dtype)
    out = np.full((3, width), 7, dtype)
    found = all_sums(factors, 3, rows, count, out)
    expected = factors[3 : 3 * (count + 1) : 3] @ rows[1 : 1 + count]
    np.testing.assert_allclose(out[1], expected, rtol=1e-4, atol=1e-5)
    assert (out[[0, 2]] == 7).all()
    np.testing.assert_allclose(
        found, [rows[0] @ rows[2], rows[1].sum(), rows[1:4].max()], rtol=1e-4
    )


@quick_kernel
def gather_and_scatter(begin, end, features, rows, out):
    gather_rows(begin, end, features, 2, 1, rows, out, 1)
    scatter_row(begin, end, features.indices, features.data, 2, 1, out, 0, rows)


@pytest.mark.parametrize("width", [8, 16, 24, 40])
def test_rows_of_features(width):
    rng = np.random.default_rng(width)
    rows, out = rng.normal(size=(9, width)).astype(np.float32), np.ones((2, width), np.float32)
    features = Rows(np.array([0, 4]), np.array([3, 0, 2, 1], np.int32), rng.normal(size=4))
    before, own = rows.copy(), 2 * features.indices[1:4] + 1
    gather_and_scatter(1, 4, features, rows, out)
    np.testing.assert_allclose(out[1], features.data[1:4] @ before[own], rtol=1e-4, atol=1e-5)
    before[own] += features.data[1:4, None]
    np.testing.assert_allclose(rows, before, rtol=1e-5, atol=1e-6)
