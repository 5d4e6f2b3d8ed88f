"""Additions may be reordered in the kernels that say so, and in no function that these call."""

import numpy as np
from numba.core.caching import NullCache

from robustruct.kernels._jit import helper, quick_kernel


@helper
def strict_sum(values):
    total = 0.0
    for value in values:
        total += value
    return total


@quick_kernel
def quick_sum(values):
    total = 0.0
    for value in values:
        total += value
    return total


@quick_kernel
def asks_for_a_sum(values):
    return strict_sum(values)


def instructions(kernel):
    (text,) = kernel.inspect_llvm().values()
    return text


def test_what_a_quick_kernel_calls_stays_strict():
    """Else the bits of a fit would depend on which kernel of a process is compiled first."""
    for kernel in (quick_sum, asks_for_a_sum):
        kernel._cache = NullCache()  # code from the cache cannot be read
    assert quick_sum(np.ones(3)) == asks_for_a_sum(np.ones(3)) == 3.0
    assert "fadd reassoc" in instructions(quick_sum)
    assert "fadd" in instructions(asks_for_a_sum)
    assert "reassoc" not in instructions(asks_for_a_sum)
