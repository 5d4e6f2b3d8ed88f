"""Which labels some allowed labelling has: a labelling is allowed if none of its scores is -inf."""

import numpy as np

from robustruct.kernels._jit import kernel
from robustruct.kernels.buckets import (
    fill_table,
    max_up,
    message_starts,
    strides_in,
    sum_onto,
    widest,
)


@kernel
def forest_allowed(first, last, structure, scores, allowed):
    """allowed (N, k) bool, out: the labels of samples first .. last-1 that can occur.

    Up the tree a label needs a partner below each of its edges, then down one above.
    """
    offsets, parent = structure.offsets, structure.parent
    unary, tables, table_of = scores.unary, scores.tables, scores.table_of
    k = unary.shape[1]
    for s in range(first, last):
        lo, hi = offsets[s], offsets[s + 1]
        for i in range(lo, hi):
            for b in range(k):
                allowed[i, b] = unary[i, b] > -np.inf
        for i in range(lo, hi):
            above = parent[i]
            if above >= 0:
                table = tables[table_of[i]]
                for a in range(k):
                    partner = False
                    for b in range(k):
                        partner |= allowed[i, b] and table[b, a] > -np.inf
                    allowed[above, a] &= partner
        for i in range(hi - 1, lo - 1, -1):
            above = parent[i]
            if above >= 0:
                table = tables[table_of[i]]
                for b in range(k):
                    partner = False
                    for a in range(k):
                        partner |= allowed[above, a] and table[b, a] > -np.inf
                    allowed[i, b] &= partner


@kernel
def bucket_allowed(first, last, node_offsets, graph, unary, tables, allowed):
    """The same over the cliques of samples with cycles; see kernels/buckets.py."""
    offsets, members = graph.offsets, graph.members
    first_child, next_child = graph.first_child, graph.next_child
    k = unary.shape[1]
    nodes, most, largest = widest(first, last, node_offsets, offsets, k)
    start = np.empty(nodes + 1, np.intp)
    messages = np.empty(most)
    down = np.empty(most)  # above 0 where the labels of a bucket's later neighbours can occur
    table = np.empty(largest)
    stride = np.empty(nodes, np.intp)
    digit = np.empty(nodes, np.intp)
    for s in range(first, last):
        lo, hi = node_offsets[s], node_offsets[s + 1]
        total = message_starts(lo, hi, offsets, k, start)
        max_up(lo, hi, graph, unary, tables, start, messages, stride, digit, table)
        for at in range(total):
            down[at] = 0.0
        for i in range(hi - 1, lo - 1, -1):
            m = offsets[i + 1] - offsets[i]
            size = k**m
            if m == 0:
                down[start[i - lo]] = 1.0
            fill_table(i, lo, graph, unary, tables, start, messages, stride, digit, table)
            for x in range(k):
                allowed[i, x] = False
                for rest in range(size):
                    at = x * size + rest
                    occurs = table[at] > -np.inf and down[start[i - lo] + rest] > 0.0
                    table[at] = 1.0 if occurs else 0.0
                    allowed[i, x] |= occurs
            c = first_child[i]
            while c >= 0:
                strides_in(c, i, k, offsets, members, stride)
                out = down[start[c - lo] : start[c - lo + 1]]
                sum_onto(m, k, stride, digit, table[: size * k], out)
                c = next_child[c]
