"""Marginals of one sample's Gibbs distribution by sum-product in the linear domain.

Scores enter as exponentials relative to the largest of each row; messages are scaled by their
largest entry. float32 and float64 take the same code. Where sums come close to underflow, the
sample is done once more with messages as logarithms; samples with cycles go over their cliques.

Scores and marginals of a sample are rows of one matrix: those of its n nodes, then k of each of its
own tables, in which marginals of edges are added up.
"""

import numpy as np

from robustruct.kernels._jit import helper, quick_helper, quick_part
from robustruct.kernels.gibbs_cliques import clique_marginals
from robustruct.kernels.lanes import NONE, ONE, row_sum, row_top, times_rows
from robustruct.kernels.registers import eight, exponentials, put, ratios, same, zeros

LEAST32, LEAST64 = np.float32(1e-24), 1e-200  # sums below may have lost terms that matter
NEAR = 1e-3  # to 1: sums of marginals


@quick_part
def extent(s, samples, work):
    """(first node, nodes, own tables, labels) of sample s."""
    lo, start = samples.offsets[s], samples.table_start[s]
    return lo, samples.offsets[s + 1] - lo, samples.table_start[s + 1] - start, work.k


@quick_part
def rows_exponentials(scores, at, count, out):
    """out = exp(scores - the largest) for rows at .. at+count-1; return the largest."""
    width = scores.shape[1]
    top = row_top(scores, at, count)
    for y in range(at * width, (at + count) * width, 8):
        put(exponentials(eight(scores, y) - top), out, y)
    return top


@quick_part
def enter_exponentials(s, samples, scores, work):
    """Those of the scores of sample s, and the transposed ones of tables; return what was off."""
    lo, n, m, k = extent(s, samples, work)
    log_z = 0.0
    for i in range(n):
        log_z += rows_exponentials(scores, i, ONE, work.exps)
    for t in range(m):
        first = n + t * k
        work.message[t, 0] = rows_exponentials(scores, first, k, work.exps)  # free until `upward`
        for x in range(k):
            for y in range(k):
                work.transposed[t * k + y, x] = work.exps[first + x, y]
    for i in range(lo, lo + n):
        if samples.parent[i] >= 0:
            log_z += work.message[samples.table[i], 0]
    return log_z


@quick_part
def upward(s, samples, work, least):
    """Messages from the leaves to the roots; return log Z of the exponentials.

    Those of nodes become what each node and all below it amount to. NaN where a sum, or two
    of neighbours multiplied, fell below ``least``: what one has lost beside its largest term may be
    all that the other allows for.
    """
    lo, n, _, k = extent(s, samples, work)
    exps, message, width = work.exps, work.message, work.exps.shape[1]
    log_z, scales, one = 0.0, 1.0, exps.dtype.type(1)
    for i in range(n):
        work.share[i, 1] = one
    for i in range(n):
        if scales < 1e-100 or scales > 1e100:  # logarithms of many scales at once
            log_z += np.log(scales)
            scales = 1.0
        if samples.parent[lo + i] < 0:
            scale = row_sum(exps, i)
        else:
            first, flipped = samples.table[lo + i] * k, samples.transposed[lo + i] == 1
            tables, first = (work.transposed, first) if flipped else (exps, n + first)
            times_rows(exps, i * width, ONE, tables, first, k, message, i)
            scale = row_top(message, i, ONE)
            inverse, up = one / scale, samples.parent[lo + i] - lo
            for y in range(0, width, 8):
                got = eight(message, i * width + y) * inverse
                put(got, message, i * width + y)
                put(eight(exps, up * width + y) * got, exps, up * width + y)
            work.share[i, 0] = (
                inverse  # by which the message was scaled; next, the children's least
            )
            work.share[up, 1] = min(work.share[up, 1], scale)
        if not scale * work.share[i, 1] >= least:
            return np.nan
        scales *= np.float64(scale)
    return log_z + np.log(scales)


@quick_part
def downward(s, samples, work, out):
    """After `upward`: the marginals; return whether they add up."""
    lo, n, m, k = extent(s, samples, work)
    exps, message, share, width = work.exps, work.message, work.share, work.exps.shape[1]
    for i in range(n - 1, -1, -1):
        if samples.parent[lo + i] < 0:
            factor = exps.dtype.type(1) / row_sum(exps, i)
            for y in range(i * width, (i + 1) * width, 8):
                put(eight(exps, y) * factor, out, y)
                put(zeros(exps), share, y)
            continue
        scale, up = same(share[i, 0]), samples.parent[lo + i] - lo
        for y in range(0, width, 8):
            above = scale * eight(out, up * width + y)
            put(ratios(above, eight(message, i * width + y)), share, i * width + y)
        first, flipped = samples.table[lo + i] * k, samples.transposed[lo + i] == 1
        tables, first = (exps, n + first) if flipped else (work.transposed, first)
        times_rows(share, i * width, ONE, tables, first, k, out, i)
        for y in range(i * width, (i + 1) * width, 8):
            put(eight(out, y) * eight(exps, y), out, y)
        if not abs(row_sum(out, i) - exps.dtype.type(1)) < NEAR:  # an overflow, or terms lost
            return False
    add_up_edges(s, samples, work, out)
    for y in range(n * width, (n + m * k) * width, 8):
        put(eight(out, y) * eight(exps, y), out, y)
    return True


@quick_part
def add_up_edges(s, samples, work, out):
    """Rows of table t: Σ over its edges of (first node's factor) x (second node's factor)."""
    lo, n, m, k = extent(s, samples, work)
    exps, share, width = work.exps, work.share, out.shape[1]
    plain = m == 1
    for i in range(lo, lo + n):
        plain = plain and samples.transposed[i] == 0
    if plain:  # all edges of a row of sums at once, in registers
        for x in range(k):
            times_rows(exps, x, width, share, NONE, n, out, n + x)
        return
    for y in range(n * width, (n + m * k) * width, 8):
        put(zeros(out), out, y)
    for i in range(n):
        if samples.parent[lo + i] < 0:
            continue
        at = n + samples.table[lo + i] * k
        first, second = (exps, share) if samples.transposed[lo + i] == 0 else (share, exps)
        for x in range(k):
            factor, to = same(first[i, x]), (at + x) * width
            for y in range(0, width, 8):
                added = eight(out, to + y) + factor * eight(second, i * width + y)
                put(added, out, to + y)


@helper
def log_space_marginals(s, samples, work, scores, out):
    """The marginals at any scale of the scores, and slower; return log Z."""
    lo, n, m, k = extent(s, samples, work)
    inside, message = np.empty((n, k)), np.empty((n, k))
    term = np.empty(k)
    for i in range(n):
        for y in range(k):
            inside[i, y] = scores[i, y]
    log_z = 0.0
    for i in range(n):
        up, first = samples.parent[lo + i] - lo, n + samples.table[lo + i] * k
        transposed = samples.transposed[lo + i] == 1
        if up < 0:
            log_z += _log_sum(inside[i])
            continue
        for a in range(k):
            for b in range(k):
                x, y = (a, b) if transposed else (b, a)
                term[b] = inside[i, b] + scores[first + x, y]
            message[i, a] = _log_sum(term)
            inside[up, a] += message[i, a]
    for i in range(n + m * k):
        for y in range(out.shape[1]):
            out[i, y] = 0.0
    for i in range(n - 1, -1, -1):
        up, first = samples.parent[lo + i] - lo, n + samples.table[lo + i] * k
        transposed = samples.transposed[lo + i] == 1
        if up < 0:
            size = _log_sum(inside[i])
            for b in range(k):
                out[i, b] = np.exp(inside[i, b] - size)
            continue
        for a in range(k):
            if out[up, a] <= 0.0:
                continue
            for b in range(k):
                x, y = (a, b) if transposed else (b, a)
                mass = out[up, a] * np.exp(inside[i, b] + scores[first + x, y] - message[i, a])
                out[i, b] += mass
                out[first + x, y] += mass
    return log_z


@helper
def _log_sum(values):
    top = values[0]
    for b in range(1, len(values)):
        top = values[b] if values[b] > top else top
    total = 0.0
    for b in range(len(values)):
        total += np.exp(values[b] - top)
    return top + np.log(total)


@quick_part
def marginals(least, s, samples, trees, scores, work, wanted, out):
    """Into ``out`` the marginals of sample s under its scores, where ``wanted``; return log Z.

    trees: `JunctionTrees`, or None where there are only forests, which leaves out much code that
    would have to be compiled. least: LEAST32 or LEAST64, by the type of all arrays.
    """
    if trees is not None and samples.chord_offsets[s + 1] > samples.chord_offsets[s]:
        return clique_marginals(s, samples, trees, scores, out, work.k)
    log_z = enter_exponentials(s, samples, scores, work)
    log_z += upward(s, samples, work, least)
    if log_z == log_z and (not wanted or downward(s, samples, work, out)):
        return log_z
    return log_space_marginals(s, samples, work, scores, out)


@quick_helper
def n_slots(s, samples):
    """How many slots sample s has."""
    n_chords = samples.chord_offsets[s + 1] - samples.chord_offsets[s]
    return samples.offsets[s + 1] - samples.offsets[s] + n_chords


@quick_helper
def true_pair(s, at, samples):
    """(Own table, label of the first node, of the second) of the truth in a slot of sample s.

    The table is -1 where the slot holds no edge.
    """
    lo, hi = samples.offsets[s], samples.offsets[s + 1]
    slot = lo + at
    if slot >= hi:
        slot = samples.offsets[-1] + samples.chord_offsets[s] + at - (hi - lo)
    if samples.parent[slot] < 0:
        return np.intp(-1), np.intp(0), np.intp(0)
    x, y = samples.labels[samples.child[slot]], samples.labels[samples.parent[slot]]
    if samples.transposed[slot] == 1:
        x, y = y, x
    return samples.table[slot], x, y


@quick_helper
def true_edges(s, samples, scores, k):
    """What the edges of the truth of sample s score."""
    n = samples.offsets[s + 1] - samples.offsets[s]
    total = 0.0
    for at in range(n_slots(s, samples)):
        t, x, y = true_pair(s, at, samples)
        if t >= 0:
            total += scores[n + t * k + x, y]
    return total
