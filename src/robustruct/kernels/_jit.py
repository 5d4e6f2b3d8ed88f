"""The only place that names numba flags."""

from numba import njit

# No fastmath: scores may be -inf. Kernels release the GIL, so that threads share a batch.
kernel = njit(cache=True, nogil=True, error_model="numpy")
