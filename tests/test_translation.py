"""Kernels are translated to LLVM's code: they must do what Python does all the same."""

import os
import subprocess
import sys
import tracemalloc
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

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
    pair = Pair(np.full(n, 2.0), np.zeros(n, np.intp))
    for i in range(n):
        pair.numbers[i] = i
    return pair


@kernel
def uses_what_is_made(n, out):
    """Arrays that a helper makes live for as long as they are used."""
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
    return total + first_of(made_here(n))[0]


def test_what_is_made_is_freed():
    same(uses_what_is_made, 9, np.zeros(9, np.intp))
    out = np.zeros(1000, np.intp)
    uses_what_is_made(1000, out)
    tracemalloc.start()
    try:
        uses_what_is_made(1000, out)
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most > 16 * 1000 * 500
    assert held < 8000


@kernel
def makes_too_much(n):
    return made_here(n).values[0] if n > 5 else np.float64(n)


def test_memory_that_is_not_there_is_an_error():
    assert makes_too_much(3) == 3.0
    with pytest.raises(MemoryError):
        makes_too_much(1 << 58)


@kernel
def returns_a_row(table, i):
    return table[i]


def test_python_owns_what_a_kernel_returns():
    """Which is left to numba."""
    table = np.arange(6.0).reshape(3, 2)
    row = returns_a_row(table, 1)
    del table
    assert row.tolist() == [2.0, 3.0]


@kernel
def sums(a):
    return a.sum(), a.max(), a.min(), len(a.copy())


@kernel
def calls_a_kernel(a):
    """With an array of indices, which we do not translate."""
    return sums(a[np.array([0, 2, 1])])


def test_kernels_that_numba_compiles_call_those_that_we_do():
    a = np.array([1.5, -2.0, 4.0])
    assert sums(a) == (3.5, 4.0, -2.0, 3)
    assert calls_a_kernel(a) == (3.5, 4.0, -2.0, 3)
    assert np.isnan(sums(np.array([1.0, np.nan, 2.0]))).tolist() == [True, True, True, False]


@kernel
def arithmetic(a, b, out):
    out[0] = a + b
    out[1] = a - b
    out[2] = a * b
    out[3] = a / b
    out[4] = a < b
    out[5] = a == b
    out[6] = max(a, b)
    out[7] = min(a, b)
    out[8] = abs(a)
    out[9] = -b
    out[10] = a**3
    return a if a > b else b


by_numba = njit(error_model="numpy")(arithmetic.py_func)

# Whole numbers, fractions, both, and those that are narrow.
PAIRS = [(-3, 7), (2.25, -1e300), (7, 0.1), (0.1, 7), (np.float32(0.1), np.float32(3.3))]
PAIRS += [(np.float32(0.1), 0.1), (5, np.float32(0.1)), (True, np.float32(0.1)), (True, 2)]
PAIRS += [(np.int32(5), np.int32(-4)), (np.float32(0.1), np.int32(3))]


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_numbers_are_those_of_numba(a, b):
    ours, numbas = np.zeros(11), np.zeros(11)
    found = arithmetic(a, b, ours)
    try:
        expected = by_numba(a, b, numbas)
    except TypingError:
        assert isinstance(a, bool), "only older versions have no max of these"
        pytest.skip("this version of numba has no max of a truth value")
    np.testing.assert_array_equal(found, expected)
    assert type(found) is type(expected)
    np.testing.assert_array_equal(ours, numbas)


@kernel
def whole_numbers(a, b, out):
    out[0], out[1] = a // b, a % b
    out[2], out[3], out[4] = a & b, a | b, a ^ b
    out[5], out[6] = a << 3, a >> 1
    out[7] = ~a
    out[8] = 3 ** abs(b)
    out[9] = -5 < a <= b < 6


@pytest.mark.parametrize("a", range(-7, 8, 2))
@pytest.mark.parametrize("b", [-3, -2, 1, 4])
def test_whole_numbers(a, b):
    same(whole_numbers, a, b, np.zeros(10, np.intp))


@kernel
def divides(a, b, out):
    out[0], out[1], out[2] = a // b, a % b, 1.0 / b


def test_division_by_nothing():
    """As numba has it with the error model of numpy."""
    out = np.ones(3)
    divides(5, 0, out)
    assert out.tolist() == [0.0, 0.0, np.inf]


@kernel
def slices(a, lo, hi):
    return len(a[lo:hi]), a[lo:hi].sum(), len(a[lo:]), len(a[:hi]), len(a[1, lo:])


@pytest.mark.parametrize("lo", [-9, -3, 0, 2, 9])
@pytest.mark.parametrize("hi", [-9, -1, 0, 3, 9])
def test_slices_end_where_arrays_do(lo, hi):
    same(slices, np.arange(20.0).reshape(4, 5), lo, hi)


@kernel
def late_kinds(n, flag):
    """A variable that becomes a fraction, one that outlives its block, and one that is a tuple."""
    total, found = 0, (1, 2.0)
    for i in range(n):
        if i % 2:
            last = i
        if flag and i > 2:
            total += 0.5
            found = (i, i * 2.0)
    return total, last, i, found[0] + found[1], (1 if flag else 2.5)


@pytest.mark.parametrize("flag", [True, False])
def test_kinds_that_show_late(flag):
    same(late_kinds, 6, flag)


@kernel
def writes(a, b):
    a[0] = b[0]


def test_arrays_that_may_only_be_read():
    a, b = np.zeros(2), np.ones(2)
    b.flags.writeable = False
    writes(a, b)
    assert a.tolist() == [1.0, 0.0]
    with pytest.raises(TypingError):
        writes(b, a)


# Everything that the library compiles, in a process of its own.
ALL = """
from numba.core.compiler import CompilerBase
from robustruct.cli.warm_up import STEPS, _step

def refuse(self, *arguments):
    raise AssertionError("numba compiles")
CompilerBase.__init__ = refuse
for name in STEPS:
    _step(name)
"""


@pytest.mark.slow
def test_all_kernels_are_translated(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", ALL], check=True, env=environment)
