"""What a visit of training looks at: the scores of one sample, its best and its worst labelling.

Arrays are named as in kernels/pairwise.py.
"""

import numpy as np

from robustruct.kernels._jit import helper, part
from robustruct.kernels.linear import row_product
from robustruct.kernels.max_product import max_product_down, max_product_up
from robustruct.kernels.predictor import expected_cost, least, predictor


@part
def local_parents(lo, n, parent, up):
    """up (n,): the parents of nodes lo .. lo+n-1, counted from lo; -1 at roots."""
    for i in range(n):
        up[i] = parent[lo + i] - lo if parent[lo + i] >= 0 else -1


@helper
def turn_costs(cost, cost_t):
    """cost_t (k, k) = cost transposed; return the largest |cost|."""
    largest = 0.0
    for a in range(len(cost)):
        for b in range(len(cost)):
            cost_t[b, a] = cost[a, b]
            largest = max(largest, abs(cost[a, b]))
    return largest


@helper
def gather_scores(
    lo, hi, parent, x_indptr, x_indices, x_data, theta_node, f_indptr, f_indices, f_data,
    theta_edge, table_of, table_row, table_turn, node_kind, unary_mask, pair_mask, slot_of_table,
    unary, tables, slot, slot_turn,
):  # fmt: skip
    """Scores of one sample under theta: unary (n, k), and its distinct tables with slot (n,)

    and slot_turn (tables,), the orientation of each; return the number of distinct tables.
    """
    k = unary.shape[1]
    used = 0
    for i in range(lo, hi):
        row_product(
            x_indptr[i], x_indptr[i + 1], x_indices, x_data, theta_node, unary_mask[node_kind[i]],
            unary[i - lo],
        )  # fmt: skip
        if parent[i] < 0:
            slot[i - lo] = 0
            continue
        t = table_of[i]
        if slot_of_table[t] < 0:
            slot_of_table[t] = used
            slot_turn[used] = table_turn[t]
            flat = tables[used].reshape(k * k)
            used += 1
            for code in range(k * k):
                flat[code] = 0.0
            for at in range(f_indptr[table_row[t]], f_indptr[table_row[t] + 1]):
                f = f_data[at]
                feature = f_indices[at]
                for code in range(k * k):
                    flat[code] += f * theta_edge[feature, code]
            table = tables[used - 1]
            if table_turn[t] == 1:
                for b in range(k):
                    for a in range(b):
                        table[b, a], table[a, b] = table[a, b], table[b, a]
            for b in range(k):
                for a in range(k):
                    table[b, a] += pair_mask[table_turn[t], b, a]
        slot[i - lo] = slot_of_table[t]
    for i in range(lo, hi):
        if parent[i] >= 0:
            slot_of_table[table_of[i]] = -1
    return used


@helper
def augment(lo, hi, cost, cost_t, weight, inv_mu, p0, r, expected, p, unary, augmented):
    """augmented = unary + w L'p; return what the predictor p gives away, Σ w (p'Lr - min L r).

    The predictor answers with labels whose unary score is not -inf.
    expected, p (k,): scratch.
    """
    k = unary.shape[1]
    given = 0.0
    for i in range(lo, hi):
        out = augmented[i - lo]
        for b in range(k):
            out[b] = unary[i - lo, b]
        if inv_mu[0] == 0.0:
            for a in range(k):
                p[a] = p0[i, a]
        else:
            expected_cost(r[i], cost_t, unary[i - lo], expected)
            predictor(p0[i], expected, inv_mu, p)
            given -= weight[i] * least(expected)
        for a in range(k):
            if p[a] > 0.0:
                share = weight[i] * p[a]
                for b in range(k):
                    out[b] += share * cost[a, b]
                if inv_mu[0] != 0.0:
                    given += share * expected[a]
    return given


@helper
def _own_score(lo, n, up, augmented, tables, slot, r, pair, mass, count):
    """What the sample's marginals score: <augmented, r> + <tables, q>."""
    k = augmented.shape[1]
    value = 0.0
    for i in range(n):
        for b in range(k):
            if r[lo + i, b] != 0.0:
                value += r[lo + i, b] * augmented[i, b]
        if up[i] >= 0:
            table = tables[slot[i]]
            for at in range(count[lo + i]):
                code = pair[lo + i, at]
                value += mass[lo + i, at] * table[code // k, code % k]
    return value


@helper
def _worst_in_support(lo, n, up, augmented, tables, slot, r, pair, count, worst, labels):
    """Lowest-scoring labelling whose nodes and edges all carry mass, into labels (n,).

    up (n,) local parents; worst (n, k), scratch.
    """
    k = augmented.shape[1]
    message = np.empty(k)
    for i in range(n):
        for b in range(k):
            worst[i, b] = augmented[i, b] if r[lo + i, b] > 0.0 else np.inf
    for i in range(n):
        if up[i] < 0:
            continue
        for a in range(k):
            message[a] = np.inf
        table = tables[slot[i]]
        for at in range(count[lo + i]):
            b = pair[lo + i, at] // k
            a = pair[lo + i, at] % k
            value = worst[i, b] + table[b, a]
            message[a] = value if value < message[a] else message[a]
        for a in range(k):
            worst[up[i], a] += message[a]
    for i in range(n - 1, -1, -1):
        choice = -1
        value = np.inf
        if up[i] < 0:
            for b in range(k):
                if worst[i, b] < value:
                    value = worst[i, b]
                    choice = b
        else:
            table = tables[slot[i]]
            for at in range(count[lo + i]):
                b = pair[lo + i, at] // k
                if (
                    pair[lo + i, at] % k == labels[up[i]]
                    and worst[i, b] + table[b, labels[up[i]]] < value
                ):
                    value = worst[i, b] + table[b, labels[up[i]]]
                    choice = b
        if choice < 0:
            return False  # marginals that rounding made inconsistent: no labelling in the support
        labels[i] = choice
    return True


@part
def look(
    lo, n, up, cost, cost_t, weight, inv_mu, p0, r, pair, mass, count, unary, tables, slot,
    augmented, best, p, scratch, y, w, enough,
):  # fmt: skip
    """Best labelling y and worst one w in the support, under the scores as they are.

    Return (gap, what the predictor gives away, whether to step from w to y). No w is looked for
    where the gap is at most ``enough``.
    """
    hi, zero = lo + n, np.intp(0)  # a plain 0 has a type of its own, and code for it
    lost = augment(lo, hi, cost, cost_t, weight, inv_mu, p0, r, scratch, p, unary, augmented)
    max_product_up(zero, n, up, augmented, tables, slot, best)
    value = max_product_down(zero, n, up, tables, slot, best, y)
    value -= _own_score(lo, n, up, augmented, tables, slot, r, pair, mass, count)
    moves = value > enough and _worst_in_support(
        lo, n, up, augmented, tables, slot, r, pair, count, best, w
    )
    return value, lost, moves
