"""The game on a junction tree as a linear program, and clique marginals made consistent.

Tables and messages are laid out as in kernels/buckets.py; ``place`` (n+1,) says where the table of
each bucket of a sample begins among all its columns.
"""

import numpy as np

from robustruct.kernels._jit import helper, kernel
from robustruct.kernels.buckets import fill_table, message_starts, strides_in, sum_onto


@helper
def table_places(lo, hi, offsets, k, place):
    """Where the tables of nodes lo .. hi-1 begin: place (hi - lo + 1,), out; return the total."""
    total = 0
    for i in range(lo, hi):
        place[i - lo] = total
        total += k ** (offsets[i + 1] - offsets[i] + 1)
    place[hi - lo] = total
    return total


@helper
def _spots(c, i, k, offsets, members, stride, digit, out):
    """out[entry of i's table] = the place in c's message that it agrees with."""
    m = offsets[i + 1] - offsets[i]
    first = k ** (offsets[c + 1] - offsets[c] - 1)
    strides_in(c, i, k, offsets, members, stride)
    size = k**m
    for x in range(k):
        for j in range(m):
            digit[j] = 0
        at = x * first
        for entry in range(x * size, (x + 1) * size):
            out[entry] = at
            j = m - 1
            while j >= 0:
                digit[j] += 1
                at += stride[j]
                if digit[j] < k:
                    break
                at -= k * stride[j]
                digit[j] = 0
                j -= 1


@kernel
def clique_regrets(lo, hi, graph, unary, tables, start, place, regret, total):
    """Scores of one sample rewritten so that the best labelling scores 0, bucket by bucket.

    regret, out: what an entry of a bucket's table loses against the best label of the bucket's
    node; a labelling's score is the best score plus the sum of its regrets. total, out: what the
    best labelling through an entry loses in all. Both -inf where forbidden.
    """
    offsets, members, first_child = graph.offsets, graph.members, graph.first_child
    next_child = graph.next_child
    k = unary.shape[1]
    n = hi - lo
    message_starts(lo, hi, offsets, k, start)
    table_places(lo, hi, offsets, k, place)
    messages = np.empty(start[n])
    stride = np.empty(n, np.intp)
    digit = np.empty(n, np.intp)
    largest = 0
    for i in range(n):
        table = regret[place[i] : place[i + 1]]
        largest = max(largest, len(table))
        fill_table(lo + i, lo, graph, unary, tables, start, messages, stride, digit, table)
        size = len(table) // k
        out = messages[start[i] : start[i + 1]]
        for rest in range(size):
            best = table[rest]
            for x in range(1, k):
                best = max(best, table[x * size + rest])
            out[rest] = best
            for x in range(k):
                at = x * size + rest
                table[at] = table[at] - best if best > -np.inf else -np.inf
    best_of = np.zeros(start[n])  # what the best labelling through a message entry loses
    spot = np.empty(largest, np.intp)
    for i in range(n - 1, -1, -1):
        size = (place[i + 1] - place[i]) // k
        for entry in range(size * k):
            loss = best_of[start[i] + entry % size]
            total[place[i] + entry] = loss + regret[place[i] + entry]
        c = first_child[lo + i]
        while c >= 0:
            _spots(c, lo + i, k, offsets, members, stride, digit, spot)
            out = best_of[start[c - lo] : start[c - lo + 1]]
            for at in range(len(out)):
                out[at] = -np.inf
            for entry in range(size * k):
                value = total[place[i] + entry]
                out[spot[entry]] = value if value > out[spot[entry]] else out[spot[entry]]
            c = next_child[c]


@kernel
def clique_rows(lo, hi, graph, k, start, place, rows, columns, values):
    """Margins of the cliques as sparse rows; return how many entries were written.

    Columns: the tables (place[n]), then r (n k). Rows: r_i(x) against the table of i (n k); then
    for every entry of a message, the bucket's table against its parent's; a bucket without parent
    has one entry, its total. rows, columns, values with room for all, out.
    """
    offsets, members, first_child = graph.offsets, graph.members, graph.first_child
    next_child = graph.next_child
    n = hi - lo
    stride = np.empty(n, np.intp)
    digit = np.empty(n, np.intp)
    largest = 0
    for i in range(n):
        largest = max(largest, place[i + 1] - place[i])
    spot = np.empty(largest, np.intp)
    at = 0
    for i in range(n):
        size = (place[i + 1] - place[i]) // k
        for x in range(k):
            rows[at], columns[at], values[at] = i * k + x, place[n] + i * k + x, -1.0
            at += 1
            for rest in range(size):
                rows[at], columns[at], values[at] = i * k + x, place[i] + x * size + rest, 1.0
                at += 1
        for x in range(k):
            for rest in range(size):
                rows[at] = n * k + start[i] + rest
                columns[at] = place[i] + x * size + rest
                values[at] = 1.0
                at += 1
        c = first_child[lo + i]
        while c >= 0:
            _spots(c, lo + i, k, offsets, members, stride, digit, spot)
            for entry in range(size * k):
                rows[at] = n * k + start[c - lo] + spot[entry]
                columns[at] = place[i] + entry
                values[at] = -1.0
                at += 1
            c = next_child[c]
    return at


@kernel
def consistent_marginals(lo, hi, graph, k, start, place, regret, tables, r, q):
    """Make clique tables exactly consistent, in place, and read node and edge marginals off them.

    From the roots down, each bucket keeps its node's distribution given the later neighbours;
    where that is empty the node takes its best label, so no forbidden entry is ever used. Then
    (r, q) are marginals of a distribution over labellings. r (N, k) and q (slots, k, k), out.
    """
    parent, offsets, members, first_child = (
        graph.parent,
        graph.offsets,
        graph.members,
        graph.first_child,
    )
    next_child, chord_start = graph.next_child, graph.chord_start
    n = hi - lo
    n_nodes = r.shape[0]
    stride = np.empty(n, np.intp)
    digit = np.empty(n, np.intp)
    wanted = np.zeros(start[n])
    for i in range(n - 1, -1, -1):
        node = lo + i
        m = offsets[node + 1] - offsets[node]
        size = k**m
        table = tables[place[i] : place[i + 1]]
        loss = regret[place[i] : place[i + 1]]
        if m == 0:
            wanted[start[i]] = 1.0
        for rest in range(size):
            mass = 0.0
            for x in range(k):
                at = x * size + rest
                if not table[at] > 0.0 or loss[at] == -np.inf:
                    table[at] = 0.0
                mass += table[at]
            goal = wanted[start[i] + rest]
            choice = 0
            for x in range(k):
                at = x * size + rest
                table[at] *= goal / mass if mass > 0.0 else 0.0
                if loss[at] > loss[choice * size + rest]:
                    choice = x
            if mass == 0.0:
                table[choice * size + rest] = goal
        for x in range(k):
            r[node, x] = table[x * size : (x + 1) * size].sum()
        for chord in range(chord_start[node] - 1, chord_start[node + 1]):
            slot = node if chord < chord_start[node] else n_nodes + chord
            q[slot, :, :] = 0.0
            if parent[slot] < 0:
                continue
            step = 1
            j = offsets[node + 1] - 1
            while members[j] != parent[slot]:
                step *= k
                j -= 1
            for entry in range(size * k):
                q[slot, entry // size, (entry // step) % k] += table[entry]
        c = first_child[node]
        while c >= 0:
            strides_in(c, node, k, offsets, members, stride)
            sum_onto(m, k, stride, digit, table, wanted[start[c - lo] : start[c - lo + 1]])
            c = next_child[c]
