"""Sums of rows that are padded to a multiple of eight numbers: these fill registers.

Three registers at a time are summed up: an addition has to wait for the one before it, but not for
those of other registers. Indices are unsigned, or numba would allow for negative ones.
"""

import numpy as np

from robustruct.kernels._jit import quick_helper

ONE = np.uint64(1)


@quick_helper
def no_eight(like):
    """Eight zeros of the type of ``like``."""
    zero = like.dtype.type(0)
    return zero, zero, zero, zero, zero, zero, zero, zero


@quick_helper
def plus_eight(sums, factor, rows, i, a):
    """sums + factor * rows[i, a : a + 8]."""
    b = a + ONE
    c = b + ONE
    d = c + ONE
    e = d + ONE
    f = e + ONE
    g = f + ONE
    h = g + ONE
    return (
        sums[0] + factor * rows[i, a],
        sums[1] + factor * rows[i, b],
        sums[2] + factor * rows[i, c],
        sums[3] + factor * rows[i, d],
        sums[4] + factor * rows[i, e],
        sums[5] + factor * rows[i, f],
        sums[6] + factor * rows[i, g],
        sums[7] + factor * rows[i, h],
    )


@quick_helper
def put_eight(sums, rows, i, a):
    """rows[i, a : a + 8] = sums."""
    b = a + ONE
    c = b + ONE
    d = c + ONE
    e = d + ONE
    f = e + ONE
    g = f + ONE
    h = g + ONE
    rows[i, a], rows[i, b], rows[i, c], rows[i, d] = sums[0], sums[1], sums[2], sums[3]
    rows[i, e], rows[i, f], rows[i, g], rows[i, h] = sums[4], sums[5], sums[6], sums[7]


@quick_helper
def times_rows(factors, rows, count, out, at):
    """out[at] = Σ_x<count factors[x] rows[x]."""
    width, to, begin = out.shape[1], np.uint64(at), 0
    while begin + 24 <= width:
        a, b, c = np.uint64(begin), np.uint64(begin + 8), np.uint64(begin + 16)
        s = t = u = no_eight(out)
        for j in range(count):
            x = np.uint64(j)
            factor = factors[x]
            s = plus_eight(s, factor, rows, x, a)
            t = plus_eight(t, factor, rows, x, b)
            u = plus_eight(u, factor, rows, x, c)
        put_eight(s, out, to, a)
        put_eight(t, out, to, b)
        put_eight(u, out, to, c)
        begin += 24
    while begin < width:
        a = np.uint64(begin)
        s = no_eight(out)
        for j in range(count):
            x = np.uint64(j)
            s = plus_eight(s, factors[x], rows, x, a)
        put_eight(s, out, to, a)
        begin += 8


@quick_helper
def gather_rows(begin, end, features, rows, out, at):
    """out[at] = the sum of the ``rows`` of features begin .. end-1, times the features."""
    width, to, first = out.shape[1], np.uint64(at), 0
    while first + 24 <= width:
        a, b, c = np.uint64(first), np.uint64(first + 8), np.uint64(first + 16)
        s = t = u = no_eight(out)
        for j in range(begin, end):
            i, factor = np.uint64(features.indices[j]), out.dtype.type(features.data[j])
            s = plus_eight(s, factor, rows, i, a)
            t = plus_eight(t, factor, rows, i, b)
            u = plus_eight(u, factor, rows, i, c)
        put_eight(s, out, to, a)
        put_eight(t, out, to, b)
        put_eight(u, out, to, c)
        first += 24
    while first < width:
        a = np.uint64(first)
        s = no_eight(out)
        for j in range(begin, end):
            i = np.uint64(features.indices[j])
            s = plus_eight(s, out.dtype.type(features.data[j]), rows, i, a)
        put_eight(s, out, to, a)
        first += 8


@quick_helper
def scatter_row(begin, end, features, change, at, rows):
    """Add change[at] times the features begin .. end-1 to their ``rows``."""
    width, x = change.shape[1], np.uint64(at)
    for j in range(begin, end):
        i, factor = np.uint64(features.indices[j]), change.dtype.type(features.data[j])
        first = 0
        while first < width:
            a = np.uint64(first)
            own = plus_eight(no_eight(rows), rows.dtype.type(1), rows, i, a)
            put_eight(plus_eight(own, factor, change, x, a), rows, i, a)
            first += 8


@quick_helper
def dot(a, b):
    """Σ a b."""
    total = a.dtype.type(0)
    for y in range(len(a)):
        total += a[y] * b[y]
    return total
