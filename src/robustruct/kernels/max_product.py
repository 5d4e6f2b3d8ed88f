"""Max-product on forests: the best labelling in one sweep up and one sweep down."""

import numpy as np

from robustruct.kernels._jit import kernel


@kernel
def max_product_up(lo, hi, parent, unary, tables, table_of, best):
    """Fill best[i, b], lo <= i < hi: score of the best labelling of i's subtree with label b at i.

    best (N, k), out. The maximum is taken over the child's label with the parent's label running
    innermost, so the loop is contiguous and needs no arg-max; max_product_down recovers it.
    """
    k = unary.shape[1]
    message = np.empty(k)
    for i in range(lo, hi):
        for b in range(k):
            best[i, b] = unary[i, b]
    for i in range(lo, hi):
        above = parent[i]
        if above < 0:
            continue
        table = tables[table_of[i]]
        below = best[i]
        score = below[0]
        row = table[0]
        for a in range(k):
            message[a] = score + row[a]
        for b in range(1, k):
            score = below[b]
            row = table[b]
            for a in range(k):
                value = score + row[a]
                message[a] = value if value > message[a] else message[a]
        out = best[above]
        for a in range(k):
            out[a] += message[a]


@kernel
def max_product_down(lo, hi, parent, tables, table_of, best, labels):
    """Read the best labelling off ``best`` into labels (N,) intp; return its score."""
    k = best.shape[1]
    total = 0.0
    for i in range(hi - 1, lo - 1, -1):
        above = parent[i]
        label = 0
        if above < 0:
            value = best[i, 0]
            for b in range(1, k):
                if best[i, b] > value:
                    value = best[i, b]
                    label = b
            total += value
        else:
            table = tables[table_of[i]]
            a = labels[above]
            value = best[i, 0] + table[0, a]
            for b in range(1, k):
                candidate = best[i, b] + table[b, a]
                if candidate > value:
                    value = candidate
                    label = b
        labels[i] = label
    return total


@kernel
def max_product(first, last, offsets, parent, unary, tables, table_of, best, labels, values):
    """Best labelling and its score for samples first .. last-1. values (S,), out."""
    for s in range(first, last):
        lo, hi = offsets[s], offsets[s + 1]
        max_product_up(lo, hi, parent, unary, tables, table_of, best)
        values[s] = max_product_down(lo, hi, parent, tables, table_of, best, labels)


@kernel
def labelling_scores(
    first, last, offsets, chord_offsets, child, parent, unary, tables, table_of, labels, values
):
    """Score of the given labels, sample by sample, chords included. values (S,), out."""
    n_nodes = unary.shape[0]
    for s in range(first, last):
        total = 0.0
        for i in range(offsets[s], offsets[s + 1]):
            total += unary[i, labels[i]]
            if parent[i] >= 0:
                total += tables[table_of[i], labels[i], labels[parent[i]]]
        for slot in range(n_nodes + chord_offsets[s], n_nodes + chord_offsets[s + 1]):
            total += tables[table_of[slot], labels[child[slot]], labels[parent[slot]]]
        values[s] = total
