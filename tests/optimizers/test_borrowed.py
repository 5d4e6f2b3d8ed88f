"""Arrays whose references are not counted are the arrays themselves, and outlive the kernel."""

import sys
from typing import NamedTuple

import numpy as np

from robustruct.kernels._borrowed import borrowed
from robustruct.kernels._jit import helper, kernel


class Inner(NamedTuple):
    rows: np.ndarray
    factor: float


class Outer(NamedTuple):
    inner: Inner
    out: np.ndarray


@helper
def scaled_sum(row, factor):
    total = 0.0
    for x in row:
        total += factor * x
    return total


@kernel
def sums(outer, number):
    outer, number = borrowed((outer, number))
    for i in range(len(outer.out)):
        outer.out[i] += number * scaled_sum(outer.inner.rows[i], outer.inner.factor)


def test_borrowed_arrays_are_those_of_the_caller():
    rows, out = np.arange(6.0).reshape(3, 2), np.ones(3)
    outer = Outer(Inner(rows, 2.0), out)
    before = sys.getrefcount(rows), sys.getrefcount(out)
    for _ in range(3):
        sums(outer, 1)
    assert (sys.getrefcount(rows), sys.getrefcount(out)) == before
    np.testing.assert_array_equal(out, [1 + 3 * 2, 1 + 3 * 10, 1 + 3 * 18])
