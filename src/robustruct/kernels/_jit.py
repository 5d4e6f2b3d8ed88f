"""The only place that names numba flags."""

import os

from numba import config, njit

from robustruct.kernels._compiling import Fragment, Inlined, KeptCode, Whole

# Registers side by side (max_product.py) become vectors by this pass of LLVM, which numba leaves
# out by default: max-product is then three times as fast. Whoever has set it keeps the choice.
if "NUMBA_SLP_VECTORIZE" not in os.environ:
    config.SLP_VECTORIZE = 1

# No fastmath: scores may be -inf. It is said, as a function that does not say so inherits fastmath
# from the kernel that happens to be compiled first: the same fit could then end with other bits.
# Kernels release the GIL, so that threads share a batch.
_STRICT = {"nogil": True, "error_model": "numpy", "fastmath": False}


def _kept(decorator):
    """The decorator of functions whose compiled code is kept on disk."""

    def decorate(function):
        compiled = decorator(function)
        compiled._cache = KeptCode(function)
        return compiled

    return decorate


kernel = _kept(njit(no_cfunc_wrapper=True, pipeline_class=Whole, **_STRICT))

# Called by kernels only, whose code on disk holds it: neither a way in from Python, of which every
# array takes its share of the time to compile, nor code of its own on disk is made.
helper = njit(no_cfunc_wrapper=True, no_cpython_wrapper=True, pipeline_class=Fragment, **_STRICT)

# A part of one kernel, in a function for the reader's sake: it leaves no call behind.
part = njit(
    no_cfunc_wrapper=True,
    no_cpython_wrapper=True,
    pipeline_class=Inlined,
    forceinline=True,
    **_STRICT,
)

# Vectors of float32, and sums over all weights: additions may be reordered, by the compiler and so
# always in the same way. Still no NaN and no infinity is assumed away.
_REORDERED = {"contract", "reassoc", "nsz", "arcp"}
quick_kernel = _kept(
    njit(
        nogil=True,
        error_model="numpy",
        no_cfunc_wrapper=True,
        pipeline_class=Whole,
        fastmath=_REORDERED,
    )
)
quick_helper = njit(
    nogil=True,
    error_model="numpy",
    no_cfunc_wrapper=True,
    no_cpython_wrapper=True,
    pipeline_class=Fragment,
    fastmath=_REORDERED,
)
quick_part = njit(
    nogil=True,
    error_model="numpy",
    no_cfunc_wrapper=True,
    no_cpython_wrapper=True,
    pipeline_class=Inlined,
    forceinline=True,
    fastmath=_REORDERED,
)
