"""Marginals of one sample's Gibbs distribution by sum-product in the linear domain.

Scores enter as exponentials relative to the largest of each row; messages are scaled by their
largest entry. float32 and float64 take the same code. Where sums come close to underflow, the
sample is done once more with messages as logarithms; samples with cycles go over their cliques.
"""

import numpy as np

from robustruct.kernels._jit import helper, quick_helper, quick_part
from robustruct.kernels.gibbs_cliques import clique_marginals
from robustruct.kernels.lanes import times_rows
from robustruct.kernels.structs import OwnTree, PaddedExponentials, PaddedMessages

LEAST32, LEAST64 = np.float32(1e-24), 1e-200  # sums below may have lost terms that matter
NEAR = 1e-3  # to 1: sums of marginals
F, INT, D, LONG = np.float32, np.int32, np.float64, np.int64


@quick_part
def exp32(x):
    """exp of x <= 0 in float32, relative error about 2e-7; 0 below -86."""
    low = x < F(-86.0)
    x = F(-86.0) if low else x
    n = np.floor(x * F(1.4426950408889634) + F(0.5))
    f = x - n * F(0.693359375) + n * F(2.12194440e-4)
    p = F(1.9875691500e-4)
    p = p * f + F(1.3981999507e-3)
    p = p * f + F(8.3334519073e-3)
    p = p * f + F(4.1665795894e-2)
    p = p * f + F(1.6666665459e-1)
    p = p * f + F(5.0000001201e-1)
    p = p * f * f + f + F(1.0)
    value = p * INT((INT(n) + INT(127)) << INT(23)).view(F)
    return F(0.0) if low else value


@quick_part
def exp64(x):
    """exp of x <= 0 in float64, relative error up to 3e-14 far from 0; 0 below -700.

    Unlike a call of the library's function it becomes vectors, four times as fast.
    """
    low = x < -700.0
    x = -700.0 if low else x
    n = np.floor(x * 1.4426950408889634 + 0.5)
    f = (x - n * 0.693145751953125) - n * 1.42860682030941723212e-6
    square = f * f
    p = 1.26177193074810590878e-4
    p = p * square + 3.02994407707441961300e-2
    p = f * (p * square + 9.99999999999999999910e-1)
    q = 3.00198505138664455042e-6
    q = q * square + 2.52448340349684104192e-3
    q = q * square + 2.27265548208155028766e-1
    q = q * square + 2.0
    value = (1.0 + 2.0 * (p / (q - p))) * LONG((LONG(INT(n)) + LONG(1023)) << LONG(52)).view(D)
    return 0.0 if low else value


@quick_part
def exponentials(scores, top, out):
    """out = exp(scores - top), for one row."""
    if out.itemsize == 4:
        for y in range(len(scores)):
            out[y] = exp32(F(scores[y] - top))
    else:
        for y in range(len(scores)):
            out[y] = exp64(D(scores[y] - top))


@quick_part
def row_exponentials(scores, out):
    """out = exp(scores - largest), for one row; return the largest."""
    top = scores[0]
    for y in range(1, len(scores)):
        top = scores[y] if scores[y] > top else top
    exponentials(scores, top, out)
    return top


@quick_part
def table_exponentials(scores, out, transposed):
    """out = exp(scores - largest) for a table (k, width), and its transpose; return the largest."""
    k = len(scores)
    top = scores[0, 0]
    for x in range(k):
        row = scores[x]
        for y in range(len(row)):
            top = row[y] if row[y] > top else top
    for x in range(k):
        exponentials(scores[x], top, out[x])
    for x in range(k):
        for y in range(k):
            transposed[y, x] = out[x, y]
    return top


@quick_helper
def add_up_edges(n, m, local, inside, share, sums):
    """sums[t] = Σ over the edges of table t of (first node's factor) x (second node's factor)."""
    k, width = sums.shape[1], sums.shape[2]
    plain = m == 1
    for i in range(n):
        plain = plain and local.transposed[i] == 0
    if plain:  # all edges of a row of sums at once, in registers
        for x in range(k):
            times_rows(inside[:n, x], share, n, sums[0], x)
        return
    for t in range(m):
        for x in range(k):
            for y in range(width):
                sums[t, x, y] = sums.dtype.type(0)
    for i in range(n):
        if local.up[i] < 0:
            continue
        first, second = inside[i], share[i]
        if local.transposed[i] == 1:
            first, second = share[i], inside[i]
        for x in range(k):
            v, to = first[x], sums[local.table[i], x]
            for y in range(width):
                to[y] += v * second[y]


@quick_helper
def up_and_down(n, m, local, exps, work, least, r, sums):
    """Marginals r (n, width) and sums (m, k, width) by own table; return log Z of the exponentials.

    Those of nodes become what each node and all below it amount to. NaN where a sum fell below
    ``least``, or marginals do not add up.
    """
    k = exps.tables.shape[1]
    width = exps.nodes.shape[1]
    inside, message, share = exps.nodes, work.message, work.share
    zero, one = r.dtype.type(0), r.dtype.type(1)
    log_z, scales = 0.0, 1.0
    for i in range(n):
        a = inside[i]
        if scales < 1e-100 or scales > 1e100:  # logarithms of many scales at once
            log_z += np.log(scales)
            scales = 1.0
        if local.up[i] < 0:
            total = zero
            for y in range(width):
                total += a[y]
            if not total >= least:
                return np.nan
            scales *= np.float64(total)
            total = one / total
            for y in range(width):
                r[i, y] = a[y] * total
            continue
        t = local.table[i]
        out = message[i]
        if local.transposed[i] == 0:
            times_rows(a, exps.tables[t], k, message, i)
        else:
            times_rows(a, exps.transposed[t], k, message, i)
        top = zero
        for y in range(width):
            top = out[y] if out[y] > top else top
        if not top >= least:
            return np.nan
        scales *= np.float64(top)
        top = one / top
        above = inside[local.up[i]]
        for y in range(width):
            out[y] *= top
            above[y] *= out[y]
        share[i, 0] = top  # by which the message was scaled
    for i in range(n - 1, -1, -1):
        if local.up[i] < 0:
            for y in range(width):
                share[i, y] = zero
            continue
        t = local.table[i]
        a, part, above, got, out = inside[i], share[i], r[local.up[i]], message[i], r[i]
        scale = part[0]
        for y in range(width):
            part[y] = scale * above[y] / got[y] if got[y] > zero else zero
        if local.transposed[i] == 0:
            times_rows(part, exps.transposed[t], k, r, i)
        else:
            times_rows(part, exps.tables[t], k, r, i)
        total = zero
        for y in range(width):
            out[y] *= a[y]
            total += out[y]
        if not abs(total - one) < NEAR:  # an overflow, or terms that were lost
            return np.nan
    add_up_edges(n, m, local, inside, share, sums)
    for t in range(m):
        for x in range(k):
            for y in range(width):
                sums[t, x, y] *= exps.tables[t, x, y]
    return log_z + np.log(scales)


@helper
def log_space_marginals(n, m, local, scores, tables, r, sums):
    """As `up_and_down`, at any scale of the scores, and slower."""
    k, width = tables.shape[1], r.shape[1]
    inside, message = np.empty((n, k)), np.empty((n, k))
    term = np.empty(k)
    for i in range(n):
        for y in range(k):
            inside[i, y] = scores[i, y]
    log_z = 0.0
    for i in range(n):
        up, t, transposed = local.up[i], local.table[i], local.transposed[i]
        if up < 0:
            log_z += _log_sum(inside[i])
            continue
        for a in range(k):
            for b in range(k):
                term[b] = inside[i, b] + (tables[t, a, b] if transposed == 1 else tables[t, b, a])
            message[i, a] = _log_sum(term)
            inside[up, a] += message[i, a]
    for t in range(m):
        for x in range(k):
            for y in range(width):
                sums[t, x, y] = 0.0
    for i in range(n - 1, -1, -1):
        up, t, transposed = local.up[i], local.table[i], local.transposed[i]
        for b in range(width):
            r[i, b] = 0.0
        if up < 0:
            size = _log_sum(inside[i])
            for b in range(k):
                r[i, b] = np.exp(inside[i, b] - size)
            continue
        for a in range(k):
            if r[up, a] <= 0.0:
                continue
            for b in range(k):
                x, y = (a, b) if transposed == 1 else (b, a)
                mass = r[up, a] * np.exp(inside[i, b] + tables[t, x, y] - message[i, a])
                r[i, b] += mass
                sums[t, x, y] += mass
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
def marginals(least, s, samples, trees, scores, tables, scratch, r, sums):
    """r (n, width) and sums (m, k, width) of sample s under its scores; return log Z.

    trees: `JunctionTrees`, or None where there are only forests, which leaves out much code that
    would have to be compiled. least: LEAST32 or LEAST64, by the type of all arrays. scratch:
    `gibbs_scratch`, after `enter`.
    """
    if trees is not None and samples.chord_offsets[s + 1] > samples.chord_offsets[s]:
        return clique_marginals(s, samples, trees, scores, tables, r, sums)
    local, exps, messages = scratch
    n = samples.offsets[s + 1] - samples.offsets[s]
    m = samples.table_start[s + 1] - samples.table_start[s]
    log_z = 0.0
    for i in range(n):
        log_z += row_exponentials(scores[i], exps.nodes[i])
    top = messages.message[:, 0]  # free until the sweep
    for t in range(m):
        top[t] = table_exponentials(tables[t], exps.tables[t], exps.transposed[t])
    for i in range(n):
        if local.up[i] >= 0:
            log_z += top[local.table[i]]
    log_z += up_and_down(n, m, local, exps, messages, least, r, sums)
    if log_z == log_z:
        return log_z
    return log_space_marginals(n, m, local, scores, tables, r, sums)


@quick_helper
def gibbs_scratch(like, n, m, k):
    """Scratch for samples of up to n nodes and m tables, in the type of ``like`` (rows, width)."""
    width = like.shape[1]
    size = max(n, m)
    local = OwnTree(np.empty(n, np.intp), np.empty(n, np.intp), np.empty(n, np.intp))
    exps = PaddedExponentials(
        np.zeros((n, width), like.dtype),
        np.zeros((m, k, width), like.dtype),
        np.zeros((m, k, width), like.dtype),
    )
    messages = PaddedMessages(
        np.zeros((size, width), like.dtype),
        np.zeros((n, width), like.dtype),
    )
    return local, exps, messages


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
def true_edges(s, samples, tables):
    """What the edges of the truth score, with the own tables (m, k, width) of sample s."""
    total = 0.0
    for at in range(n_slots(s, samples)):
        t, x, y = true_pair(s, at, samples)
        if t >= 0:
            total += tables[t, x, y]
    return total


@quick_part
def enter(s, samples, local):
    """The tree of sample s, with nodes counted from its first."""
    lo = samples.offsets[s]
    for i in range(samples.offsets[s + 1] - lo):
        up = samples.parent[lo + i]
        local.up[i] = up - lo if up >= 0 else -1
        local.table[i] = samples.table[lo + i]
        local.transposed[i] = samples.transposed[lo + i]
