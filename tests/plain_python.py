"""Kernels as the Python that they are written in: a plugin of pytest, for coverage and debuggers.

Run: NUMBA_DISABLE_JIT=1 PYTHONPATH=tests coverage run --branch -m pytest -p plain_python tests/game

What kernels take from `registers` and `_atomic` are instructions of a processor; here they are
numpy, and counters belong to one thread. A kernel takes a hundred times as long: tests that take
too long are cut off by pytest-timeout.
"""

import os
import sys
import types

import numpy as np

COUNTERS = types.ModuleType("robustruct.kernels._atomic")
REGISTERS = types.ModuleType("robustruct.kernels.registers")


def _of(module):
    def add(function):
        setattr(module, function.__name__, function)
        return function

    return add


@_of(COUNTERS)
def read(counters, i):
    return counters[i]


@_of(COUNTERS)
def write(counters, i, value):
    counters[i] = value


@_of(COUNTERS)
def add_one(counters, i):
    counters[i] += 1
    return counters[i] - 1


@_of(COUNTERS)
def take_below(counters, i, limit):
    return add_one(counters, i) if counters[i] < limit else -1


@_of(COUNTERS)
def wait_for(counters, i, value):
    assert counters[i] >= value, "nobody else counts"


@_of(COUNTERS)
def fetch_row(rows, i):
    assert 0 <= i < len(rows)


@_of(REGISTERS)
def compact():
    pass


@_of(REGISTERS)
def eight(array, place):
    flat = array.reshape(-1)
    assert 0 <= place <= flat.size - 8
    return flat[place : place + 8].copy()


@_of(REGISTERS)
def put(value, array, place):
    flat = array.reshape(-1)
    assert value.dtype == array.dtype
    assert np.shares_memory(flat, array)
    assert 0 <= place <= flat.size - 8
    flat[place : place + 8] = value


@_of(REGISTERS)
def number(array, place):
    assert 0 <= place < array.size
    return array.reshape(-1)[place]


@_of(REGISTERS)
def zeros(array):
    return np.zeros(8, array.dtype)


@_of(REGISTERS)
def same(value):
    return np.full(8, value)


@_of(REGISTERS)
def larger(a, b):
    return np.where(a > b, a, b)


@_of(REGISTERS)
def beyond(a, b):
    return (a > b).astype(a.dtype)


@_of(REGISTERS)
def ratios(a, b):
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)


@_of(REGISTERS)
def total(a):
    return a.sum(dtype=a.dtype)


@_of(REGISTERS)
def largest(a):
    return a.max()


@_of(REGISTERS)
def single(a):
    return a.astype(np.float32)


@_of(REGISTERS)
def double(a):
    return a.astype(np.float64)


@_of(REGISTERS)
def exponentials(a):
    return np.exp(a)


if os.environ.get("NUMBA_DISABLE_JIT") == "1":  # else whoever looks for doctests loads it too
    np.seterr(all="ignore")  # as compiled code does
    for _module in (COUNTERS, REGISTERS):
        sys.modules[_module.__name__] = _module
