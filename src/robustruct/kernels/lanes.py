"""Sums of rows that are padded to a multiple of eight numbers; see `registers`.

Three or six registers at a time are summed up: an addition has to wait for the one before it, but
not for those of other registers. Numbers of rows are given as NONE and ONE rather than 0 and 1, for
each of which numba would compile all of it once more.
"""

import numpy as np

from robustruct.kernels._jit import quick_part
from robustruct.kernels.registers import eight, larger, largest, number, put, same, total, zeros

NONE, ONE = np.intp(0), np.intp(1)


@quick_part
def times_rows(factors, first, step, rows, begin, count, out, at):
    """out[at] = Σ_x<count factors[first + x step] rows[begin + x]."""
    width = out.shape[1]
    a = 0
    while a + 24 <= width:
        s = t = u = v = w = z = zeros(out)
        place, of = begin * width + a, first
        for _ in range(count // 2):
            factor = same(number(factors, of))
            s = s + factor * eight(rows, place)
            t = t + factor * eight(rows, place + 8)
            u = u + factor * eight(rows, place + 16)
            factor = same(number(factors, of + step))
            v = v + factor * eight(rows, place + width)
            w = w + factor * eight(rows, place + width + 8)
            z = z + factor * eight(rows, place + width + 16)
            place += 2 * width
            of += 2 * step
        if count % 2 == 1:
            factor = same(number(factors, of))
            s = s + factor * eight(rows, place)
            t = t + factor * eight(rows, place + 8)
            u = u + factor * eight(rows, place + 16)
        put(s + v, out, at * width + a)
        put(t + w, out, at * width + a + 8)
        put(u + z, out, at * width + a + 16)
        a += 24
    while a < width:
        s = zeros(out)
        place, of = begin * width + a, first
        for _ in range(count):
            s = s + same(number(factors, of)) * eight(rows, place)
            place += width
            of += step
        put(s, out, at * width + a)
        a += 8


@quick_part
def gather_rows(begin, end, features, stride, shift, rows, out, at):
    """out[at] = Σ of features begin .. end-1 times their rows, [column * stride + shift]."""
    width = out.shape[1]
    a = 0
    while a + 24 <= width:
        s = t = u = zeros(out)
        for j in range(begin, end):
            place = (number(features.indices, j) * stride + shift) * width + a
            factor = same(out.dtype.type(number(features.data, j)))
            s = s + factor * eight(rows, place)
            t = t + factor * eight(rows, place + 8)
            u = u + factor * eight(rows, place + 16)
        put(s, out, at * width + a)
        put(t, out, at * width + a + 8)
        put(u, out, at * width + a + 16)
        a += 24
    while a < width:
        s = zeros(out)
        for j in range(begin, end):
            place = (number(features.indices, j) * stride + shift) * width + a
            s = s + same(out.dtype.type(number(features.data, j))) * eight(rows, place)
        put(s, out, at * width + a)
        a += 8


@quick_part
def scatter_row(begin, end, indices, data, stride, shift, change, at, rows):
    """Add change[at] times the numbers begin .. end-1 of data to rows[index * stride + shift]."""
    width = change.shape[1]
    for j in range(begin, end):
        factor = same(change.dtype.type(number(data, j)))
        place = (number(indices, j) * stride + shift) * width
        for a in range(0, width, 8):
            moved = eight(rows, place + a) + factor * eight(change, at * width + a)
            put(moved, rows, place + a)


@quick_part
def dot(a, i, b, j):
    """Σ a[i] b[j]."""
    width = a.shape[1]
    found = zeros(a)
    for y in range(0, width, 8):
        found = found + eight(a, i * width + y) * eight(b, j * width + y)
    return total(found)


@quick_part
def row_sum(rows, i):
    """Σ rows[i]."""
    width = rows.shape[1]
    found = zeros(rows)
    for y in range(0, width, 8):
        found = found + eight(rows, i * width + y)
    return total(found)


@quick_part
def row_top(rows, i, count):
    """The largest number of rows[i : i + count]."""
    width = rows.shape[1]
    found = eight(rows, i * width)
    for y in range(i * width + 8, (i + count) * width, 8):
        found = larger(eight(rows, y), found)
    return largest(found)
