"""The only place that names numba flags."""

import os
from functools import cache

import numba
from numba import config, njit
from numba.core.compiler import Compiler

from robustruct.kernels._compiling import KeptCode

FIRST_UNTRIED = (0, 69)  # version of numba; those before are tried down to the oldest declared

if tuple(map(int, numba.__version__.split(".")[:2])) < FIRST_UNTRIED:
    from robustruct.kernels._frugal import Whole
else:  # much slower to compile, and the same answers
    Whole = Compiler

# Registers side by side (max_product.py) become vectors by this pass of LLVM, which numba leaves
# out by default: max-product is then three times as fast. Whoever has set it keeps the choice.
if "NUMBA_SLP_VECTORIZE" not in os.environ:
    config.SLP_VECTORIZE = 1

# A function inherits what it does not say from whoever has it compiled first. With fastmath the
# same fit could then end with other bits, and a helper that a part calls would be copied to every
# place that it is called from. No fastmath: scores may be -inf. Kernels release the GIL, so that
# threads share a batch.
_ALL = {"nogil": True, "error_model": "numpy", "forceinline": False, "no_cfunc_wrapper": True}
_STRICT = {**_ALL, "fastmath": False}

# Vectors of float32, and sums over all weights: additions may be reordered, by the compiler and so
# always in the same way. Still no NaN and no infinity is assumed away.
_REORDERED = {**_ALL, "fastmath": {"contract", "reassoc", "nsz", "arcp"}}


def _kernel(flags):
    """The decorator of functions that Python calls, whose compiled code is kept on disk."""

    def decorate(function):
        compiled = njit(pipeline_class=Whole, **flags)(function)
        compiled._cache = KeptCode(function)
        if Whole is not Compiler:
            _compile_twice(compiled, flags)
        return compiled

    return decorate


def _compile_twice(compiled, flags):
    """Where numba compiles what calls a kernel, it needs code that is called in its own way."""

    @cache
    def twin():
        return njit(**flags)(compiled.py_func)

    compiled.get_call_template = lambda args, kws: twin().get_call_template(args, kws)
    compiled.get_overload = lambda signature: twin().get_overload(signature)


def _helper(flags):
    return njit(no_cpython_wrapper=True, **flags)


def _part(flags):
    return njit(no_cpython_wrapper=True, **{**flags, "forceinline": True})


kernel, quick_kernel = _kernel(_STRICT), _kernel(_REORDERED)

# Called by kernels only, whose code on disk holds it: neither a way in from Python, of which every
# array takes its share of the time to compile, nor code of its own on disk is made.
helper, quick_helper = _helper(_STRICT), _helper(_REORDERED)

# A part of one kernel, in a function for the reader's sake: it leaves no call behind.
part, quick_part = _part(_STRICT), _part(_REORDERED)
