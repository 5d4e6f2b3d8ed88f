"""Exact inference over the cliques of a triangulated graph (bucket elimination).

Bucket i holds node i and its m later neighbours s_1 < ... < s_m. Its table is indexed
[label of i, label of s_1, ..., label of s_m], the last running fastest: k^(m+1) numbers. Its
message to its parent s_1 leaves out the label of i: k^m numbers. All later neighbours of a child
bucket are in its parent's bucket, so that messages are added to the parent's table. Only messages
are kept; tables are made when they are needed, in memory used by one bucket after the other.

``start`` (n,) says where the message of each node of a sample begins.
"""

import numpy as np

from robustruct.core.structs import BestLists
from robustruct.kernels._jit import helper, kernel
from robustruct.kernels.k_best import merge_labels, merge_sums


@helper
def message_starts(lo, hi, offsets, k, start):
    """Where the messages of nodes lo .. hi-1 begin: start (hi - lo + 1,), out; return the total."""
    total = 0
    for i in range(lo, hi):
        start[i - lo] = total
        total += k ** (offsets[i + 1] - offsets[i])
    start[hi - lo] = total
    return total


@helper
def widest(first, last, node_offsets, offsets, k):
    """(most nodes, most message numbers, largest table) of samples first .. last-1."""
    nodes, messages, table = 0, 0, 0
    for s in range(first, last):
        total = 0
        for i in range(node_offsets[s], node_offsets[s + 1]):
            size = k ** (offsets[i + 1] - offsets[i])
            total += size
            table = max(table, size * k)
        nodes = max(nodes, node_offsets[s + 1] - node_offsets[s])
        messages = max(messages, total)
    return nodes, messages, table


@helper
def strides_in(c, i, k, offsets, members, stride):
    """stride (m,), out: how far a step in each later neighbour of i goes in the message of c."""
    at = offsets[c] + 1
    step = k ** (offsets[c + 1] - offsets[c] - 1)
    for j in range(offsets[i], offsets[i + 1]):
        if at < offsets[c + 1] and members[at] == members[j]:
            step //= k
            stride[j - offsets[i]] = step
            at += 1
        else:
            stride[j - offsets[i]] = 0


@helper
def _add_message(m, k, message, stride, digit, table):
    """Add a child's message, [label of i, its other members], to the table of i."""
    size = k**m
    first = len(message) // k
    last = stride[m - 1]
    for x in range(k):
        for j in range(m):
            digit[j] = 0
        at = x * first
        for base in range(x * size, (x + 1) * size, k):
            if last == 1:
                for a in range(k):
                    table[base + a] += message[at + a]
            else:
                value = message[at]
                for a in range(k):
                    table[base + a] += value
            j = m - 2
            while j >= 0:
                digit[j] += 1
                at += stride[j]
                if digit[j] < k:
                    break
                at -= k * stride[j]
                digit[j] = 0
                j -= 1


@helper
def fill_table(i, lo, graph, unary, tables, start, messages, stride, digit, table):
    """The table of bucket i: its scores and the messages of its children."""
    parent, table_of, offsets, members = graph.parent, graph.table_of, graph.offsets, graph.members
    first_child, next_child, chord_start = graph.first_child, graph.next_child, graph.chord_start
    n_nodes, k = unary.shape
    m = offsets[i + 1] - offsets[i]
    size = k**m
    for x in range(k):
        score = unary[i, x]
        for rest in range(x * size, (x + 1) * size):
            table[rest] = score
    for chord in range(chord_start[i] - 1, chord_start[i + 1]):
        slot = i if chord < chord_start[i] else n_nodes + chord
        if parent[slot] < 0:
            continue
        place = offsets[i]
        while members[place] != parent[slot]:
            place += 1
        inner = k ** (offsets[i + 1] - 1 - place)
        outer = size // (inner * k)
        scores = tables[table_of[slot]]
        for x in range(k):
            for o in range(outer):
                base = x * size + o * k * inner
                if inner == 1:
                    for a in range(k):
                        table[base + a] += scores[x, a]
                else:
                    for a in range(k):
                        score = scores[x, a]
                        for rest in range(base + a * inner, base + (a + 1) * inner):
                            table[rest] += score
    c = first_child[i]
    while c >= 0:
        message = messages[start[c - lo] : start[c - lo + 1]]
        if len(message) == size * k:
            for at in range(size * k):
                table[at] += message[at]
        elif m == 0:
            for x in range(k):
                table[x] += message[x]
        else:
            strides_in(c, i, k, offsets, members, stride)
            _add_message(m, k, message, stride, digit, table)
        c = next_child[c]


@helper
def max_up(lo, hi, graph, unary, tables, start, messages, stride, digit, table):
    """messages, out: the best score below each bucket, by the labels of its later neighbours."""
    offsets = graph.offsets
    k = unary.shape[1]
    for i in range(lo, hi):
        fill_table(i, lo, graph, unary, tables, start, messages, stride, digit, table)
        size = k ** (offsets[i + 1] - offsets[i])
        out = messages[start[i - lo] : start[i - lo] + size]
        for rest in range(size):
            out[rest] = table[rest]
        for x in range(1, k):
            row = table[x * size : (x + 1) * size]
            for rest in range(size):
                out[rest] = row[rest] if row[rest] > out[rest] else out[rest]


@helper
def place_in(c, k, offsets, members, labels):
    """Where the labels (N,) of all members but the first are in the message of c."""
    at = 0
    for j in range(offsets[c] + 1, offsets[c + 1]):
        at = at * k + labels[members[j]]
    return at


@helper
def _conditional(i, lo, graph, unary, tables, start, messages, labels, out):
    """out[x] = best score of i's part of the junction tree, given the labels of later nodes."""
    parent, table_of, offsets, members = graph.parent, graph.table_of, graph.offsets, graph.members
    first_child, next_child, chord_start = graph.first_child, graph.next_child, graph.chord_start
    n_nodes, k = unary.shape
    for x in range(k):
        out[x] = unary[i, x]
    for chord in range(chord_start[i] - 1, chord_start[i + 1]):
        slot = i if chord < chord_start[i] else n_nodes + chord
        if parent[slot] >= 0:
            a = labels[parent[slot]]
            scores = tables[table_of[slot]]
            for x in range(k):
                out[x] += scores[x, a]
    c = first_child[i]
    while c >= 0:
        at = start[c - lo] + place_in(c, k, offsets, members, labels)
        step = k ** (offsets[c + 1] - offsets[c] - 1)
        for x in range(k):
            out[x] += messages[at + x * step]
        c = next_child[c]


@kernel
def bucket_max(first, last, node_offsets, graph, unary, tables, labels, values):
    """Best labelling and its score for samples first .. last-1; labels (N,), values (S,), out."""
    offsets = graph.offsets
    k = unary.shape[1]
    nodes, most, largest = widest(first, last, node_offsets, offsets, k)
    start = np.empty(nodes + 1, np.intp)
    messages = np.empty(most)
    table = np.empty(largest)
    stride = np.empty(nodes, np.intp)
    digit = np.empty(nodes, np.intp)
    score = np.empty(k)
    for s in range(first, last):
        lo, hi = node_offsets[s], node_offsets[s + 1]
        message_starts(lo, hi, offsets, k, start)
        max_up(lo, hi, graph, unary, tables, start, messages, stride, digit, table)
        total = 0.0
        for i in range(hi - 1, lo - 1, -1):
            if offsets[i] == offsets[i + 1]:
                total += messages[start[i - lo]]
            _conditional(i, lo, graph, unary, tables, start, messages, labels, score)
            choice = 0
            for x in range(1, k):
                if score[x] > score[choice]:
                    choice = x
            labels[i] = choice
        values[s] = total


@helper
def _take_marginal(m, k, place, table, out):
    """out[x, a] += the table summed over all but the labels of i and of its member ``place``."""
    size = k**m
    inner = k ** (m - 1 - place)
    outer = size // (inner * k)
    for x in range(k):
        for o in range(outer):
            for a in range(k):
                base = x * size + (o * k + a) * inner
                total = 0.0
                for rest in range(base, base + inner):
                    total += table[rest]
                out[x, a] += total


@helper
def sum_onto(m, k, stride, digit, table, out):
    """out, zero before: the table of i summed over all but the members of a child's message."""
    size = k**m
    first = len(out) // k
    if m == 0:
        for x in range(k):
            out[x] += table[x]
        return
    last = stride[m - 1]
    for x in range(k):
        for j in range(m):
            digit[j] = 0
        at = x * first
        for base in range(x * size, (x + 1) * size, k):
            if last == 1:
                for a in range(k):
                    out[at + a] += table[base + a]
            else:
                total = 0.0
                for a in range(k):
                    total += table[base + a]
                out[at] += total
            j = m - 2
            while j >= 0:
                digit[j] += 1
                at += stride[j]
                if digit[j] < k:
                    break
                at -= k * stride[j]
                digit[j] = 0
                j -= 1


@helper
def _log_sum_up(lo, hi, graph, unary, tables, start, messages, stride, digit, table, top):
    offsets = graph.offsets
    k = unary.shape[1]
    for i in range(lo, hi):
        fill_table(i, lo, graph, unary, tables, start, messages, stride, digit, table)
        size = k ** (offsets[i + 1] - offsets[i])
        out = messages[start[i - lo] : start[i - lo] + size]
        for rest in range(size):
            top[rest] = table[rest]
            out[rest] = 0.0
        for x in range(1, k):
            row = table[x * size : (x + 1) * size]
            for rest in range(size):
                top[rest] = row[rest] if row[rest] > top[rest] else top[rest]
        for x in range(k):
            row = table[x * size : (x + 1) * size]
            for rest in range(size):
                if row[rest] > -np.inf:
                    out[rest] += np.exp(row[rest] - top[rest])
        for rest in range(size):
            out[rest] = top[rest] + np.log(out[rest]) if out[rest] > 0.0 else -np.inf


@helper
def _conditionals(k, size, table, above, top, total):
    """Scores of a bucket become masses: above[rest] P(label | rest).

    Relative to the largest term: beside scores of 1e17 a logarithm of the sum would be lost.
    """
    for rest in range(size):
        top[rest] = -np.inf
        total[rest] = 0.0
    for x in range(k):
        for rest in range(size):
            top[rest] = max(top[rest], table[x * size + rest])
    for x in range(k):
        for rest in range(size):
            score = table[x * size + rest]
            mass = np.exp(score - top[rest]) if score > -np.inf and above[rest] > 0.0 else 0.0
            table[x * size + rest] = mass
            total[rest] += mass
    for x in range(k):
        for rest in range(size):
            if total[rest] > 0.0:
                table[x * size + rest] *= above[rest] / total[rest]


@kernel
def bucket_sum(first, last, node_offsets, graph, unary, tables, share, gibbs):
    """Log-partition and marginals of samples first .. last-1; see `sum_product`."""
    log_partition, r, q, table_sums = gibbs.log_partition, gibbs.r, gibbs.q, gibbs.table_sums
    parent, table_of, offsets, members = graph.parent, graph.table_of, graph.offsets, graph.members
    first_child, next_child, chord_start = graph.first_child, graph.next_child, graph.chord_start
    n_nodes, k = unary.shape
    nodes, most, largest = widest(first, last, node_offsets, offsets, k)
    start = np.empty(nodes + 1, np.intp)
    messages = np.empty(most)
    down = np.empty(most)
    table = np.empty(largest)
    top = np.empty(largest // k + 1)
    stride = np.empty(nodes, np.intp)
    digit = np.empty(nodes, np.intp)
    joint = np.empty((k, k))
    for s in range(first, last):
        lo, hi = node_offsets[s], node_offsets[s + 1]
        total = message_starts(lo, hi, offsets, k, start)
        _log_sum_up(lo, hi, graph, unary, tables, start, messages, stride, digit, table, top)
        for at in range(total):
            down[at] = 0.0
        log_partition[s] = 0.0
        for i in range(hi - 1, lo - 1, -1):
            m = offsets[i + 1] - offsets[i]
            size = k**m
            if m == 0:
                log_partition[s] += messages[start[i - lo]]
                down[start[i - lo]] = 1.0
            fill_table(i, lo, graph, unary, tables, start, messages, stride, digit, table)
            # The message of i itself has served; its room takes the totals.
            total_of = messages[start[i - lo] : start[i - lo] + size]
            above = down[start[i - lo] : start[i - lo] + size]
            _conditionals(k, size, table, above, top, total_of)
            for x in range(k):
                r[i, x] = table[x * size : (x + 1) * size].sum()
            for chord in range(chord_start[i] - 1, chord_start[i + 1]):
                slot = i if chord < chord_start[i] else n_nodes + chord
                for x in range(k):
                    for a in range(k):
                        joint[x, a] = 0.0
                if parent[slot] >= 0:
                    place = 0
                    while members[offsets[i] + place] != parent[slot]:
                        place += 1
                    _take_marginal(m, k, place, table, joint)
                    t = table_of[slot]
                    for x in range(k):
                        for a in range(k):
                            table_sums[t, x, a] += share[s] * joint[x, a]
                if len(q):
                    for x in range(k):
                        for a in range(k):
                            q[slot, x, a] = joint[x, a]
            c = first_child[i]
            while c >= 0:
                strides_in(c, i, k, offsets, members, stride)
                sum_onto(m, k, stride, digit, table, down[start[c - lo] : start[c - lo + 1]])
                c = next_child[c]


@helper
def _fill_lists(i, lo, graph, unary, tables, start, messages, labels, best):
    """best.lists[x]: the best scores of i's part of the junction tree with label x at i,

    given the labels of later nodes; then their merger into best.sums.
    """
    parent, table_of, offsets, members = graph.parent, graph.table_of, graph.offsets, graph.members
    first_child, next_child, chord_start = graph.first_child, graph.next_child, graph.chord_start
    lists, sums = best.lists, best.sums
    n_nodes, k = unary.shape
    for x in range(k):
        score = unary[i, x]
        for chord in range(chord_start[i] - 1, chord_start[i + 1]):
            slot = i if chord < chord_start[i] else n_nodes + chord
            if parent[slot] >= 0:
                score += tables[table_of[slot], x, labels[parent[slot]]]
        lists[x, :] = -np.inf
        lists[x, 0] = score
        c = first_child[i]
        number = 0
        while c >= 0:
            at = start[c - lo] + place_in(c, k, offsets, members, labels)
            at += x * k ** (offsets[c + 1] - offsets[c] - 1)
            left, right = best.left[number, x], best.right[number, x]
            merge_sums(lists[x], messages[at], sums, left, right, best.pointer)
            lists[x, :] = sums
            c = next_child[c]
            number += 1
    merge_labels(lists, tables[0], 0, False, sums, best.label, best.rank, best.pointer)


@helper
def _room_for_lists(lo, hi, graph, k, size):
    """Scratch for nodes lo .. hi-1, with room for the children of every bucket."""
    offsets = graph.offsets
    most_children = 1
    n_children = np.zeros(hi - lo, np.intp)
    for i in range(lo, hi):
        if offsets[i] < offsets[i + 1]:
            above = graph.members[offsets[i]] - lo
            n_children[above] += 1
            most_children = max(most_children, n_children[above])
    made_of = np.zeros((2, most_children, k, size), np.intp)
    where = np.zeros((2, size), np.intp)
    pointer = np.empty(max(k, size), np.intp)
    return BestLists(
        np.empty((k, size)), np.empty(size), made_of[0], made_of[1], where[0], where[1], pointer
    )


@kernel
def bucket_k_best(lo, hi, graph, unary, tables, size, labels, values):
    """The ``size`` best labellings of nodes lo .. hi-1, best first; return how many are possible.

    labels (size, hi - lo) intp and values (size,), out. Messages are lists of the best scores;
    which labels made them is worked out again on the way back.
    """
    offsets, members = graph.offsets, graph.members
    n, k = hi - lo, unary.shape[1]
    start = np.empty(n + 1, np.intp)
    messages = np.full((message_starts(lo, hi, offsets, k, start), size), -np.inf)
    best = _room_for_lists(lo, hi, graph, k, size)
    current = np.zeros(unary.shape[0], np.intp)
    for i in range(lo, hi):
        m = offsets[i + 1] - offsets[i]
        for rest in range(k**m):
            code = rest
            for j in range(offsets[i + 1] - 1, offsets[i] - 1, -1):
                current[members[j]] = code % k
                code //= k
            _fill_lists(i, lo, graph, unary, tables, start, messages, current, best)
            messages[start[i - lo] + rest] = best.sums
    # Components are independent: their lists are added up, root by root.
    n_roots = 0
    roots = np.empty(n, np.intp)
    for i in range(lo, hi):
        if offsets[i] == offsets[i + 1]:
            roots[n_roots] = i
            n_roots += 1
    total = np.full(size, -np.inf)
    total[0] = 0.0
    root_left = np.zeros((n_roots, size), np.intp)
    root_right = np.zeros((n_roots, size), np.intp)
    for number in range(n_roots):
        message = messages[start[roots[number] - lo]]
        left, right = root_left[number], root_right[number]
        merge_sums(total, message, best.sums, left, right, best.pointer)
        total[:] = best.sums
    wanted = np.empty(n, np.intp)
    possible = 0
    while possible < size and total[possible] > -np.inf:
        values[possible] = total[possible]
        rest = possible
        for number in range(n_roots - 1, -1, -1):
            wanted[roots[number] - lo] = root_right[number, rest]
            rest = root_left[number, rest]
        for i in range(hi - 1, lo - 1, -1):
            _fill_lists(i, lo, graph, unary, tables, start, messages, current, best)
            current[i] = best.label[wanted[i - lo]]
            labels[possible, i - lo] = current[i]
            _want_of_children(i, lo, graph, current[i], best, wanted)
        possible += 1
    return possible


@helper
def _want_of_children(i, lo, graph, x, best, wanted):
    """Which entry of each child's message made the entry that is wanted of i, with label x.

    The lists were added up child by child: this is undone from the last child to the first.
    """
    number = 0
    c = graph.first_child[i]
    while c >= 0:
        number += 1
        c = graph.next_child[c]
    place = best.rank[wanted[i - lo]]
    for last in range(number - 1, -1, -1):
        c = graph.first_child[i]
        for _ in range(last):
            c = graph.next_child[c]
        wanted[c - lo] = best.right[last, x, place]
        place = best.left[last, x, place]
