"""Max-product on forests: the best labelling in one sweep up and one sweep down."""

import numpy as np

from robustruct.kernels._jit import helper, kernel


@helper
def best_below(below, table, message):
    """message[a] = max over b of below[b] + table[b, a], for eight labels or more.

    The parent's label runs innermost, so the loop is contiguous and needs no arg-max;
    max_product_down recovers it. Eight maxima at a time stay in registers; the last eight overlap
    those before.
    """
    k = len(below)
    one = np.uint64(1)  # unsigned, or numba would allow for negative indices
    for start in range(0, k, 8):
        a0 = np.uint64(min(start, k - 8))
        a1 = a0 + one
        a2 = a1 + one
        a3 = a2 + one
        a4 = a3 + one
        a5 = a4 + one
        a6 = a5 + one
        a7 = a6 + one
        m0 = m1 = m2 = m3 = m4 = m5 = m6 = m7 = -np.inf
        for b in range(k):
            score = below[b]
            v0, v1, v2, v3 = table[b, a0], table[b, a1], table[b, a2], table[b, a3]
            v4, v5, v6, v7 = table[b, a4], table[b, a5], table[b, a6], table[b, a7]
            v0, v1, v2, v3 = score + v0, score + v1, score + v2, score + v3
            v4, v5, v6, v7 = score + v4, score + v5, score + v6, score + v7
            m0 = v0 if v0 > m0 else m0
            m1 = v1 if v1 > m1 else m1
            m2 = v2 if v2 > m2 else m2
            m3 = v3 if v3 > m3 else m3
            m4 = v4 if v4 > m4 else m4
            m5 = v5 if v5 > m5 else m5
            m6 = v6 if v6 > m6 else m6
            m7 = v7 if v7 > m7 else m7
        message[a0], message[a1], message[a2], message[a3] = m0, m1, m2, m3
        message[a4], message[a5], message[a6], message[a7] = m4, m5, m6, m7


@kernel
def max_product_up(lo, hi, parent, unary, tables, table_of, best):
    """Fill best[i, b], lo <= i < hi: score of the best labelling of i's subtree with label b at i.

    best (N, k), out.
    """
    k = np.uint64(unary.shape[1])
    zero, one = np.uint64(0), np.uint64(1)
    for i in range(lo, hi):
        for b in range(k):
            best[i, b] = unary[i, b]
    if k >= 8:
        message = np.empty(k)
        for i in range(lo, hi):
            above = parent[i]
            if above < 0:
                continue
            best_below(best[i], tables[table_of[i]], message)
            for a in range(k):
                best[above, a] += message[a]
        return
    for i in range(lo, hi):  # few labels: the rows are too short to be worth an array each
        if parent[i] < 0:
            continue
        child, above, t = np.uint64(i), np.uint64(parent[i]), np.uint64(table_of[i])
        for a in range(k):
            value = best[child, zero] + tables[t, zero, a]
            for b in range(one, k):
                candidate = best[child, b] + tables[t, b, a]
                value = candidate if candidate > value else value
            best[above, a] += value


@helper
def max_product_down(lo, hi, parent, tables, table_of, best, labels):
    """Read the best labelling off ``best`` into labels (N,) intp; return its score."""
    k = np.uint64(best.shape[1])
    zero, one = np.uint64(0), np.uint64(1)
    total = 0.0
    for at in range(hi - 1, lo - 1, -1):
        i = np.uint64(at)
        label = zero
        if parent[i] < 0:
            value = best[i, zero]
            for b in range(one, k):
                if best[i, b] > value:
                    value = best[i, b]
                    label = b
            total += value
        else:
            t, a = np.uint64(table_of[i]), np.uint64(labels[np.uint64(parent[i])])
            value = best[i, zero] + tables[t, zero, a]
            for b in range(one, k):
                candidate = best[i, b] + tables[t, b, a]
                if candidate > value:
                    value = candidate
                    label = b
        labels[i] = np.intp(label)
    return total


@kernel
def max_product(first, last, structure, scores, best, labels, values):
    """Best labelling and its score for samples first .. last-1. values (S,), out."""
    parent, tables, table_of = structure.parent, scores.tables, scores.table_of
    for s in range(first, last):
        lo, hi = structure.offsets[s], structure.offsets[s + 1]
        max_product_up(lo, hi, parent, scores.unary, tables, table_of, best)
        values[s] = max_product_down(lo, hi, parent, tables, table_of, best, labels)


@kernel
def labelling_scores(first, last, structure, scores, labels, values):
    """Score of the given labels, sample by sample, chords included. values (S,), out."""
    child, parent = structure.child, structure.parent
    unary, tables, table_of = scores.unary, scores.tables, scores.table_of
    chords = structure.chord_offsets
    n_nodes = unary.shape[0]
    for s in range(first, last):
        total = 0.0
        for i in range(structure.offsets[s], structure.offsets[s + 1]):
            total += unary[i, labels[i]]
            if parent[i] >= 0:
                total += tables[table_of[i], labels[i], labels[parent[i]]]
        for slot in range(n_nodes + chords[s], n_nodes + chords[s + 1]):
            total += tables[table_of[slot], labels[child[slot]], labels[parent[slot]]]
        values[s] = total
