"""The K best labellings of a forest: max-product with sorted lists in place of numbers."""

import numpy as np

from robustruct.kernels._jit import helper, kernel


@helper
def merge_labels(lists, table, a, use_table, out, out_label, out_rank, pointer):
    """Top of all lists[b] + table[b, a], in descending order, into ``out``."""
    k, size = lists.shape
    for b in range(k):
        pointer[b] = 0
    for rank in range(size):
        best = -np.inf
        choice = -1
        for b in range(k):
            if pointer[b] < size:
                value = lists[b, pointer[b]]
                if use_table:
                    value += table[b, a]
                if value > best:
                    best = value
                    choice = b
        out[rank] = best
        if choice >= 0:
            out_label[rank] = choice
            out_rank[rank] = pointer[choice]
            pointer[choice] += 1


@helper
def merge_sums(left, right, out, out_left, out_right, pointer):
    """Top of all left[x] + right[y], in descending order, into ``out`` (which may not alias)."""
    size = left.shape[0]
    for x in range(size):
        pointer[x] = 0
    for rank in range(size):
        best = -np.inf
        choice = -1
        for x in range(size):
            if pointer[x] < size:
                value = left[x] + right[pointer[x]]
                if value > best:
                    best = value
                    choice = x
            if pointer[x] == 0:
                break  # later entries of the left list cannot do better before this one is used
        out[rank] = best
        if choice >= 0:
            out_left[rank] = choice
            out_right[rank] = pointer[choice]
            pointer[choice] += 1


@kernel
def k_best(lo, hi, parent, scores, size, labels, values):
    """The ``size`` best labellings of nodes lo .. hi-1, best first; return how many are possible.

    labels (size, hi - lo) intp and values (size,), out. Labellings of score -inf do not count.
    """
    unary, tables, table_of = scores.unary, scores.tables, scores.table_of
    n, k = hi - lo, unary.shape[1]
    lists = np.full((n, k, size), -np.inf)
    for i in range(n):
        for b in range(k):
            lists[i, b, 0] = unary[lo + i, b]
    message = np.empty(size)
    message_label = np.zeros((n, k, size), np.intp)
    message_rank = np.zeros((n, k, size), np.intp)
    sum_left = np.zeros((n, k, size), np.intp)
    sum_right = np.zeros((n, k, size), np.intp)
    merged = np.empty(size)
    pointer = np.empty(max(k, size), np.intp)
    total = np.full(size, -np.inf)
    total[0] = 0.0
    for i in range(n):
        above = parent[lo + i]
        if above < 0:
            label, rank = message_label[i, 0], message_rank[i, 0]
            merge_labels(lists[i], tables[0], 0, False, message, label, rank, pointer)
            merge_sums(total, message, merged, sum_left[i, 0], sum_right[i, 0], pointer)
            total[:] = merged
            continue
        table = tables[table_of[lo + i]]
        for a in range(k):
            label, rank = message_label[i, a], message_rank[i, a]
            merge_labels(lists[i], table, a, True, message, label, rank, pointer)
            target = lists[above - lo, a]
            merge_sums(target, message, merged, sum_left[i, a], sum_right[i, a], pointer)
            target[:] = merged
    found = 0
    while found < size and total[found] > -np.inf:
        found += 1
    label = np.empty(n, np.intp)
    rank = np.empty(n, np.intp)
    for choice in range(found):
        rest = choice
        for i in range(n - 1, -1, -1):
            above = parent[lo + i]
            if above < 0:
                place = sum_right[i, 0, rest]
                rest = sum_left[i, 0, rest]
                a = 0
            else:
                a = label[above - lo]
                place = sum_right[i, a, rank[above - lo]]
                rank[above - lo] = sum_left[i, a, rank[above - lo]]
            label[i] = message_label[i, a, place]
            rank[i] = message_rank[i, a, place]
            labels[choice, i] = label[i]
        values[choice] = total[choice]
    return found
