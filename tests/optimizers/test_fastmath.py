"""Additions may be reordered in the kernels that say so, and in no function that these call."""

import numpy as np

from robustruct.kernels._jit import helper, quick_kernel


@helper
def strict_sum(values):
    total = 0.0
    for value in values:
        total += value
    return total


@quick_kernel
def quick_sum(values):
    total = strict_sum(values)
    for value in values:
        total += value
    return total


def test_what_a_quick_kernel_calls_stays_strict():
    """Else the bits of a fit would depend on which kernel of a process is compiled first."""
    assert quick_sum(np.ones(3)) == 6.0
    (strict,) = strict_sum.inspect_llvm().values()
    assert "fadd" in strict
    assert "reassoc" not in strict
