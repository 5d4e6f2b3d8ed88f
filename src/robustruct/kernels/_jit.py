"""The only place that names numba flags."""

from numba import njit

# No fastmath: scores may be -inf. Kernels release the GIL, so that threads share a batch.
kernel = njit(cache=True, nogil=True, error_model="numpy")

# A part of one kernel, in a function for the reader's sake: numba compiles every function anew for
# each level of its callers, which for deep trees of calls takes minutes.
part = njit(inline="always", nogil=True, error_model="numpy")
