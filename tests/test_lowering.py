"""Kernels are written to LLVM in few instructions: they must do what Python does all the same."""

import sys
from typing import NamedTuple

import numpy as np
import pytest
from numba.core.errors import NumbaError
from numba.core.runtime import _nrt_python, rtsys

from robustruct.kernels._jit import helper, kernel, part


class Pair(NamedTuple):
    values: np.ndarray
    numbers: np.ndarray


class Nested(NamedTuple):
    pair: Pair
    size: int
    table: np.ndarray


def python(function):
    """The function, and all that it calls, without a compiler."""
    plain = function.py_func
    names = {name: getattr(value, "py_func", value) for name, value in plain.__globals__.items()}
    return type(plain)(plain.__code__, names)


def same(function, *arguments):
    """What a kernel returns, and leaves in its arguments, compared with plain Python."""

    def copied(value):
        if isinstance(value, tuple):
            return type(value)(*map(copied, value))
        return value.copy() if isinstance(value, np.ndarray) else value

    def flat(value):
        return [x for v in value for x in flat(v)] if isinstance(value, tuple) else [value]

    one, other = [copied(a) for a in arguments], arguments
    found, expected = function(*one), python(function)(*other)
    np.testing.assert_array_equal(found, expected)
    for a, b in zip(flat(tuple(one)), flat(tuple(other)), strict=True):
        np.testing.assert_array_equal(a, b)


@kernel
def steps_of(start, stop, seen):
    n = 0
    for i in range(start, stop):
        seen[n] = i
        n += 1
    for i in range(stop, start, -1):
        seen[n] = i
        n += 1
    for i in range(start, stop, 3):
        seen[n] = i
        n += 1
    for i in range(stop, start, -2):
        seen[n] = i
        n += 1
    for i in range(stop):
        seen[n] = i
        n += 1
    return n


@pytest.mark.parametrize(("start", "stop"), [(0, 7), (7, 0), (-3, 4), (5, 5), (2, 3), (-9, -2)])
def test_ranges_go_up_and_down(start, stop):
    same(steps_of, start, stop, np.zeros(100, np.intp))


@kernel
def step_given(start, stop, step, seen):
    n = 0
    for i in range(start, stop, step):
        seen[n] = i
        n += 1
    return n


@pytest.mark.parametrize(("start", "stop", "step"), [(0, 7, 2), (7, 0, -3), (0, 7, -1), (3, 9, 9)])
def test_a_step_that_is_not_known_beforehand(start, stop, step):
    same(step_given, start, stop, step, np.zeros(100, np.intp))


@kernel
def unsigned(values):
    total = 0.0
    for i in range(np.uint64(1), np.uint64(len(values))):
        total += values[i] * values[i - np.uint64(1)]
    return total


def test_unsigned_indices():
    same(unsigned, np.arange(6.0))
    same(unsigned, np.zeros(0))


@kernel
def from_the_end(table, out):
    rows, columns = table.shape
    for i in range(-rows, rows):
        for j in range(-columns, columns):
            out[i] += table[i, j] + table[i][j] + table[-1, -1]
    row = table[-2]
    row[-1] = 5.0
    return row[0] + len(row) + row.shape[0] + row.size


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int32, np.int64])
def test_negative_indices_count_from_the_end(kind):
    same(from_the_end, np.arange(12).reshape(3, 4).astype(kind), np.zeros(3))


@kernel
def flags(marks, codes, table):
    """Values change their type on the way into an array, and out of it."""
    n = 0
    for i in range(len(marks)):
        marks[i] = not marks[i]
        codes[i] = codes[i] * 2 + marks[i]
        table[i, 0] = codes[i]
        n += marks[i]
    return n


def test_values_of_other_types():
    same(flags, np.array([True, False, True]), np.array([1, 2, 3], np.int32), np.zeros((3, 2)))


@kernel
def strided(table):
    total = 0.0
    for i in range(table.shape[0]):
        for j in range(table.shape[1]):
            total += table[i, j] * (i + 2 * j)
    return total


def test_arrays_with_gaps():
    table = np.arange(24.0).reshape(4, 6)
    for view in (table, table.T, table[:, ::2], table[::-1]):
        same(strided, view)


@helper
def own_rows(lo, hi, nested):
    pair = Pair(nested.pair.values[lo:hi], nested.pair.numbers)
    return Nested(pair, hi - lo, nested.table[lo])


@part
def first_of(pair):
    return pair.values


@helper
def sum_of(nested):
    total = 0.0
    for i in range(nested.size):
        for j in range(nested.table.shape[0]):
            total += nested.pair.values[i, j] * nested.table[j] * nested.pair.numbers[i]
    return total


@kernel
def through_tuples(nested):
    total = 0.0
    for lo in range(nested.size - 1):
        own = own_rows(lo, nested.size, nested)
        total = 2.0 * total + sum_of(own)
        first = first_of(own.pair)
        first[0, 0] += 1.0
    return total


def test_views_come_back_from_helpers():
    pair = Pair(np.arange(8.0).reshape(4, 2), np.array([3, 1, 2, 5]))
    nested = Nested(pair, 4, np.arange(2.0, 10.0).reshape(4, 2))
    before = [sys.getrefcount(array) for array in (*pair, nested.table)]
    same(through_tuples, nested)
    assert [sys.getrefcount(array) for array in (*pair, nested.table)] == before


@helper
def made_here(n):
    return Pair(np.full(n, 2.0), np.arange(n))


@kernel
def uses_what_is_made(n, out):
    """Arrays that a helper makes live as long as they are used, and no longer."""
    total = 0.0
    pair = made_here(n)
    for i in range(n):
        values = pair.values
        if i % 2:
            pair = made_here(n)
            values[i] += i
            values = pair.values
        scratch = np.empty(n)
        scratch[i] = values[i] * pair.numbers[i]
        total += scratch[i] + values[i]
    for i in range(n):
        out[i] = pair.numbers[i]
    return total


def test_what_is_made_is_freed():
    _nrt_python.memsys_enable_stats()
    out = np.zeros(9, np.intp)
    same(uses_what_is_made, 9, out)
    before = rtsys.get_allocation_stats()
    uses_what_is_made(9, out)
    after = rtsys.get_allocation_stats()
    assert after.alloc - before.alloc == after.free - before.free > 0


@kernel
def lends_its_own(n):
    return first_of(made_here(n))[0]


def test_a_view_of_what_may_be_freed_is_refused():
    with pytest.raises(NumbaError, match="may not be lent"):
        lends_its_own(3)


@kernel
def returns_a_row(table, i):
    return table[i]


def test_python_owns_what_a_kernel_returns():
    table = np.arange(6.0).reshape(3, 2)
    row = returns_a_row(table, 1)
    del table
    assert row.tolist() == [2.0, 3.0]


def test_helpers_are_not_copied_to_where_they_are_called():
    """They would inherit that from a part that calls them, and code would grow many times over."""
    name = next(iter(first_of.overloads.values())).library
    assert "alwaysinline" in name.get_llvm_str()
    for function in (sum_of, own_rows):
        code = next(iter(function.overloads.values())).library.get_llvm_str()
        assert "alwaysinline" not in code
