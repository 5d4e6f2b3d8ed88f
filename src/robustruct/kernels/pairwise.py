"""Block-coordinate ascent on the dual of training, one sample (block) at a time.

For a sample with adversary marginals (r, q) a visit takes y, the best labelling for the adversary,
and w, its worst labelling inside the support of q, and moves mass from w to y. Where y and w agree
nothing moves, so the nodes where they differ fall into connected components, and each component
takes its own step (marginals stay consistent, as only the component's nodes and edges change). To
look for y and w (kernels/looks.py) takes most of the time and moves nothing, so several samples may
be looked at by several threads before the first of them steps (kernels/steps.py).

The predictor is kept close to a centre p0 (method of multipliers, kernels/predictor.py). With
1/mu = 0 it stays at p0; with p0 at the truth that is a structured SVM.

Arrays beyond the conventions of the package (see robustruct/kernels/__init__.py):

x_*                    CSR of the node features; theta_node (d, k)
f_*                    CSR of the edge features by row; theta_edge (d_e, k * k) [first * k + second]
table_row, table_turn  (T,) row of f behind a table, and 1 where the table is its transpose
node_kind (N,)         row of unary_mask (kinds, k), 0 or -inf, for both players
pair_mask (2, k, k)    0 or -inf, [child, parent], by table_turn
rate (S,)              weight of the sample in the objective divided by alpha
pair, mass, count      sparse edge marginals, see kernels/pairs.py
gram_*                 products of a sample's feature rows, so that a step can update its scores
"""

import numpy as np

from robustruct.kernels._atomic import add_one, read, take_below, wait_for, write
from robustruct.kernels._jit import kernel
from robustruct.kernels.looks import gather_scores, local_parents, look, turn_costs
from robustruct.kernels.steps import label_spread, take_steps, update_scores

TAKEN, LOOKED_AT, OPEN = 0, 1, 2  # counters of `pairwise_turns`


@kernel
def pairwise_turns(
    leads, counters, order, at_once, offsets, parent, features, theta_node, theta_edge, tabled,
    rules, cost, weight, rate, inv_mu, p0, r, pair, mass, count, changes, slot_of_table, y, w, tilt,
    gap, given,
):  # fmt: skip
    """Visit the samples of ``order``: ``at_once`` are looked at, then step in turn, and so on.

    Several threads may call this together, one of which ``leads``: it alone steps. Each takes the
    next sample that nobody has taken; what comes out does not depend on who did what, and the
    leader waits for nobody who has taken nothing. Other samples may have moved theta since y and w
    were found: they may be no longer the best and the worst, but each step has the best length
    under theta as it is.

    counters (3,) int64, shared: samples taken, samples looked at, samples that may be looked at;
    at first 0, 0 and the smaller of at_once and len(order). gap (S,): how far (r, q) is from the
    best answer to the predictor; given (S,): what the predictor itself gives away. Their sum is the
    sample's share of the duality gap. y, w (N,) and tilt (N,): scratch, shared. changes: of the
    node and of the edge weights, see kernels/changes.py, the leader's scratch. slot_of_table
    (tables,): scratch of one thread, -1 before and after.
    """
    x_indptr, x_indices, x_data, f_indptr, f_indices, f_data = features
    table_of, table_row, table_turn = tabled
    node_kind, unary_mask, pair_mask = rules
    k = theta_node.shape[1]
    longest = 0
    for s in order:
        longest = max(longest, offsets[s + 1] - offsets[s])
    cost_t = np.empty((k, k))
    tolerance = 1e-10 * turn_costs(cost, cost_t)
    spread = label_spread(cost, inv_mu)
    unary = np.empty((longest, k))
    augmented = np.empty((longest, k))
    best = np.empty((longest, k))
    tables = np.empty((min(longest, len(table_row)), k, k))
    slot = np.empty(longest, np.intp)
    slot_turn = np.empty(longest, np.intp)
    up = np.empty(longest, np.intp)
    p = np.empty(k)
    scratch = np.empty(k)
    component = np.empty(longest, np.intp)
    owner = np.empty(longest, np.intp)
    items = np.empty(longest, np.intp)
    start = np.empty(longest + 2, np.intp)
    done = np.empty(longest)
    stepped = 0
    while True:
        ready = read(counters, OPEN)
        at = take_below(counters, TAKEN, ready)
        if at < 0 and not leads:
            if ready == len(order):
                return
            wait_for(counters, OPEN, ready + 1)
            continue
        if at < 0:
            wait_for(counters, LOOKED_AT, ready)
            for s in order[stepped:ready]:
                lo, hi = offsets[s], offsets[s + 1]
                if y[lo] < 0:
                    continue
                local_parents(lo, hi - lo, parent, up)
                take_steps(
                    s, lo, hi - lo, up, y[lo:hi], w[lo:hi], tilt[lo:hi], component, owner, start,
                    items, x_indptr, x_indices, x_data, theta_node, f_indptr, f_indices, f_data,
                    theta_edge, table_of, table_row, table_turn, weight, rate, spread, r,
                    pair, mass, count, changes, done,
                )  # fmt: skip
            if ready == len(order):
                return
            stepped = ready
            write(counters, OPEN, min(ready + at_once, len(order)))
            continue
        s = order[at]
        lo, hi = offsets[s], offsets[s + 1]
        n = hi - lo
        local_parents(lo, n, parent, up)
        gather_scores(
            lo, hi, parent, x_indptr, x_indices, x_data, theta_node, f_indptr, f_indices, f_data,
            theta_edge, table_of, table_row, table_turn, node_kind, unary_mask, pair_mask,
            slot_of_table, unary, tables, slot, slot_turn,
        )  # fmt: skip
        gap[s], given[s], moves = look(
            lo, n, up, cost, cost_t, weight, inv_mu, p0, r, pair, mass, count, unary, tables, slot,
            augmented, best, p, scratch, y[lo:hi], w[lo:hi], tolerance * n,
        )  # fmt: skip
        if moves:
            for i in range(n):
                a, b = y[lo + i], w[lo + i]
                tilt[lo + i] = augmented[i, a] - unary[i, a] - augmented[i, b] + unary[i, b]
        else:
            y[lo] = -1  # rests
        add_one(counters, LOOKED_AT)


@kernel
def pairwise_visits(
    order, offsets, parent, features, theta_node, theta_edge, tabled, rules, cost, weight, rate,
    inv_mu, inner, p0, r, pair, mass, count, changes, node_start, table_start,
    node_gram, table_gram, gap, given,
):  # fmt: skip
    """Visit the samples of ``order`` in turn: up to ``inner`` looks with their steps for each.

    gap and given as `pairwise_turns` leaves them, when the visit began. changes: of the node and
    of the edge weights, see kernels/changes.py. Without Gram matrices (node_gram of length 0) every
    look gathers the scores anew.
    """
    x_indptr, x_indices, x_data, f_indptr, f_indices, f_data = features
    table_of, table_row, table_turn = tabled
    node_kind, unary_mask, pair_mask = rules
    k = theta_node.shape[1]
    has_gram = len(node_gram) > 0
    longest = 0
    for s in order:
        longest = max(longest, offsets[s + 1] - offsets[s])
    cost_t = np.empty((k, k))
    tolerance = 1e-10 * turn_costs(cost, cost_t)
    spread = label_spread(cost, inv_mu)
    unary = np.empty((longest, k))
    augmented = np.empty((longest, k))
    best = np.empty((longest, k))
    tables = np.empty((min(longest, len(table_row)), k, k))
    slot_of_table = np.empty(len(table_row), np.intp)
    for t in range(len(table_row)):
        slot_of_table[t] = -1
    slot = np.empty(longest, np.intp)
    slot_turn = np.empty(longest, np.intp)
    up = np.empty(longest, np.intp)
    y = np.empty(longest, np.intp)
    w = np.empty(longest, np.intp)
    tilt = np.empty(longest)
    component = np.empty(longest, np.intp)
    owner = np.empty(longest, np.intp)
    items = np.empty(longest, np.intp)
    start = np.empty(longest + 2, np.intp)
    done = np.empty(longest)
    p = np.empty(k)
    scratch = np.empty(k)
    for s in order:
        lo, hi = offsets[s], offsets[s + 1]
        n = hi - lo
        local_parents(lo, n, parent, up)
        n_tables = 0
        for m in range(inner):
            if m == 0 or not has_gram:
                n_tables = gather_scores(
                    lo, hi, parent, x_indptr, x_indices, x_data, theta_node, f_indptr, f_indices,
                    f_data, theta_edge, table_of, table_row, table_turn, node_kind, unary_mask,
                    pair_mask, slot_of_table, unary, tables, slot, slot_turn,
                )  # fmt: skip
            enough = tolerance * n if m == 0 else max(tolerance * n, 0.1 * gap[s])
            value, lost, moves = look(
                lo, n, up, cost, cost_t, weight, inv_mu, p0, r, pair, mass, count, unary, tables,
                slot, augmented, best, p, scratch, y, w, enough,
            )  # fmt: skip
            if m == 0:
                gap[s] = value
                given[s] = lost
            if not moves:
                break
            for i in range(n):
                a, b = y[i], w[i]
                tilt[i] = augmented[i, a] - unary[i, a] - augmented[i, b] + unary[i, b]
            moved = False
            found = take_steps(
                s, lo, n, up, y, w, tilt, component, owner, start, items, x_indptr, x_indices,
                x_data, theta_node, f_indptr, f_indices, f_data, theta_edge, table_of, table_row,
                table_turn, weight, rate, spread, r, pair, mass, count, changes,
                done,
            )  # fmt: skip
            for c in range(found):
                if done[c] == 0.0:
                    continue
                moved = True
                if has_gram:
                    update_scores(
                        lo, n, start[c], start[c + 1], items, up, y, w, component, owner, table_of,
                        table_turn, slot, slot_turn, node_gram, node_start[s], table_gram,
                        table_start[s], n_tables, done[c] * rate[s], unary, augmented, tables,
                    )  # fmt: skip
            if not moved:
                break
