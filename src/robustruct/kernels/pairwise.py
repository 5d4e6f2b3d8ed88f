"""Block-coordinate ascent on the dual of training, one sample (block) at a time.

For a sample with adversary marginals (r, q) a visit takes y, the best labelling for the adversary,
and w, its worst labelling inside the support of q, and moves mass from w to y. Where y and w agree
nothing moves, so the nodes where they differ fall into connected components, and each component
takes its own step (marginals stay consistent, as only the component's nodes and edges change). To
look for y and w takes most of the time and moves nothing, so several samples may be looked at by
several threads before the first of them steps. The predictor is kept close to a centre p0 (method
of multipliers): p = Proj(p0 - L r / mu). With
1/mu = 0 the predictor stays at p0; with p0 at the truth that is a structured SVM.

Arrays beyond the conventions of the package (see robustruct/kernels/__init__.py):

x_*                    CSR of the node features; theta_node (d, k)
f_*                    CSR of the edge features by row; theta_edge (d_e, k * k) [first * k + second]
table_row, table_turn  (T,) row of f behind a table, and 1 where the table is its transpose
node_kind (N,)         row of unary_mask (kinds, k), 0 or -inf; kind 0 masks nothing
pair_mask (2, k, k)    0 or -inf, [child, parent], by table_turn
rate (S,)              weight of the sample in the objective divided by alpha
pair, mass, count      sparse edge marginals, see kernels/pairs.py
gram_*                 products of a sample's feature rows, so that a step can update its scores
"""

import numpy as np

from robustruct.kernels._jit import kernel
from robustruct.kernels.changes import add_features, apply_features, free_lines
from robustruct.kernels.max_product import max_product_down, max_product_up
from robustruct.kernels.pairs import DUST
from robustruct.kernels.predictor import predictor


@kernel
def _gather(
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
        for b in range(k):
            unary[i - lo, b] = unary_mask[node_kind[i], b]
        for at in range(x_indptr[i], x_indptr[i + 1]):
            x = x_data[at]
            feature = x_indices[at]
            for b in range(k):
                unary[i - lo, b] += x * theta_node[feature, b]
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


@kernel
def _update_scores(
    lo, n, begin, end, items, up, y, w, component, owner, table_of, table_turn, slot, slot_turn,
    node_gram, node_at, table_gram, table_at, n_tables, step, unary, augmented, tables,
):  # fmt: skip
    """What theta -= step * change does to the scores of the sample itself."""
    for at in range(begin, end):
        i = items[at]
        if component[i] >= 0:
            for j in range(n):
                shift = step * node_gram[node_at + i * n + j]
                if shift != 0.0:
                    unary[j, y[i]] -= shift
                    unary[j, w[i]] += shift
                    augmented[j, y[i]] -= shift
                    augmented[j, w[i]] += shift
        if owner[i] >= 0:
            turn = table_turn[table_of[lo + i]]
            y1, y2, w1, w2 = y[i], y[up[i]], w[i], w[up[i]]
            for t in range(n_tables):
                shift = step * table_gram[table_at + slot[i] * n_tables + t]
                if slot_turn[t] == turn:
                    tables[t, y1, y2] -= shift
                    tables[t, w1, w2] += shift
                else:
                    tables[t, y2, y1] -= shift
                    tables[t, w2, w1] += shift


@kernel
def _augment(lo, hi, cost, cost_t, weight, inv_mu, p0, r, scratch, p, unary, augmented):
    """augmented = unary + w L'p; return what the predictor p gives away, Σ w (p'Lr - min L r)."""
    k = unary.shape[1]
    given = 0.0
    for i in range(lo, hi):
        out = augmented[i - lo]
        for b in range(k):
            out[b] = 0.0
        if inv_mu == 0.0:
            for a in range(k):
                p[a] = p0[i, a]
        else:
            predictor(p0[i], r[i], cost_t, inv_mu, scratch, p)
        for a in range(k):
            if p[a] > 0.0:
                share = weight[i] * p[a]
                for b in range(k):
                    out[b] += share * cost[a, b]
        if inv_mu != 0.0:
            expected = 0.0
            for b in range(k):
                expected += out[b] * r[i, b]
                scratch[b] = 0.0
            for b in range(k):
                if r[i, b] != 0.0:
                    for a in range(k):
                        scratch[a] += r[i, b] * cost_t[b, a]
            given += expected - weight[i] * scratch.min()
        for b in range(k):
            out[b] += unary[i - lo, b]
    return given


@kernel
def _worst_in_support(n, up, augmented, tables, slot, r, pair, mass, count, worst, labels):
    """Lowest-scoring labelling whose nodes and edges all carry mass, into labels (n,).

    up (n,) local parents; pair, mass and count are the rows of the sample.
    """
    k = augmented.shape[1]
    message = np.empty(k)
    for i in range(n):
        for b in range(k):
            worst[i, b] = augmented[i, b] if r[i, b] > 0.0 else np.inf
    for i in range(n):
        if up[i] < 0:
            continue
        for a in range(k):
            message[a] = np.inf
        table = tables[slot[i]]
        for at in range(count[i]):
            b = pair[i, at] // k
            a = pair[i, at] % k
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
            for at in range(count[i]):
                b = pair[i, at] // k
                if (
                    pair[i, at] % k == labels[up[i]]
                    and worst[i, b] + table[b, labels[up[i]]] < value
                ):
                    value = worst[i, b] + table[b, labels[up[i]]]
                    choice = b
        if choice < 0:
            return False  # marginals that rounding made inconsistent: no labelling in the support
        labels[i] = choice
    return True


@kernel
def _components(n, up, y, w, component, owner, start, items):
    """Group nodes with y != w into components; return their number.

    component (n,): the node's component or -1. owner (n,): the component that changes the node's
    edge to its parent, or -1. items lists, component by component (start), every node that is in
    the component or whose edge is.
    """
    found = 0
    for i in range(n - 1, -1, -1):
        component[i] = -1
        owner[i] = -1
        above = up[i]
        if y[i] != w[i]:
            if above >= 0 and component[above] >= 0:
                component[i] = component[above]
            else:
                component[i] = found
                found += 1
        if above >= 0:
            owner[i] = component[i] if component[i] >= 0 else component[above]
    for c in range(found + 1):
        start[c] = 0
    for i in range(n):
        c = component[i] if component[i] >= 0 else owner[i]
        if c >= 0:
            start[c + 1] += 1
    for c in range(found):
        start[c + 1] += start[c]
    for i in range(n):
        c = component[i] if component[i] >= 0 else owner[i]
        if c >= 0:
            items[start[c]] = i
            start[c] += 1
    for c in range(found, 0, -1):
        start[c] = start[c - 1]
    start[0] = 0
    return found


@kernel
def _find(pair, count, code):
    for at in range(count):
        if pair[at] == code:
            return at
    return -1


@kernel
def _mass_to_move(lo, begin, end, items, up, y, w, component, owner, r, pair, mass, count):
    """Most mass the component can move; 0 if a list of pairs is full."""
    k = r.shape[1]
    most = np.inf
    for at in range(begin, end):
        i = items[at]
        if component[i] >= 0:
            most = min(most, r[lo + i, w[i]])
        if owner[i] >= 0:
            node = lo + i
            old = _find(pair[node], count[node], w[i] * k + w[up[i]])
            if old < 0:
                return 0.0
            most = min(most, mass[node, old])
            new = _find(pair[node], count[node], y[i] * k + y[up[i]])
            if new < 0 and count[node] == pair.shape[1]:
                return 0.0
    return most


@kernel
def _codes(y_child, y_parent, w_child, w_parent, turn, k):
    """Columns of theta_edge for the pairs that gain and lose mass."""
    if turn == 0:
        return y_child * k + y_parent, w_child * k + w_parent
    return y_parent * k + y_child, w_parent * k + w_child


@kernel
def _lay_out(
    lo, begin, end, items, up, y, w, component, owner, x_indptr, x_indices, x_data, theta_node,
    f_indptr, f_indices, f_data, theta_edge, table_of, table_row, table_turn, changes,
):  # fmt: skip
    """Φ(y) - Φ(w) of a component into changes; return (<theta, change>, |change|², lines)."""
    k = theta_node.shape[1]
    gain = 0.0
    norm = 0.0
    used_node = 0
    used_edge = 0
    for at in range(begin, end):
        i = items[at]
        node = lo + i
        if component[i] >= 0:
            used_node, gain, norm = add_features(
                x_indptr[node], x_indptr[node + 1], x_indices, x_data, y[i], w[i], theta_node,
                changes[0], used_node, gain, norm,
            )  # fmt: skip
        if owner[i] >= 0:
            t = table_of[node]
            row = table_row[t]
            a, b = _codes(y[i], y[up[i]], w[i], w[up[i]], table_turn[t], k)
            used_edge, gain, norm = add_features(
                f_indptr[row], f_indptr[row + 1], f_indices, f_data, a, b, theta_edge,
                changes[1], used_edge, gain, norm,
            )  # fmt: skip
    return gain, norm, used_node, used_edge


@kernel
def _apply(
    lo, begin, end, items, up, y, w, component, owner, x_indptr, x_indices, theta_node,
    f_indptr, f_indices, theta_edge, table_of, table_row, table_turn, changes, step,
):  # fmt: skip
    """theta -= step * change, and change <- 0."""
    k = theta_node.shape[1]
    for at in range(begin, end):
        i = items[at]
        node = lo + i
        if component[i] >= 0:
            apply_features(
                x_indptr[node], x_indptr[node + 1], x_indices, y[i], w[i], step, theta_node,
                changes[0],
            )  # fmt: skip
        if owner[i] >= 0:
            t = table_of[node]
            row = table_row[t]
            a, b = _codes(y[i], y[up[i]], w[i], w[up[i]], table_turn[t], k)
            apply_features(
                f_indptr[row], f_indptr[row + 1], f_indices, a, b, step, theta_edge, changes[1]
            )


@kernel
def _move_mass(lo, begin, end, items, up, y, w, component, owner, step, r, pair, mass, count):
    """Move ``step`` of mass from w to y on the nodes and edges of a component."""
    k = r.shape[1]
    for at in range(begin, end):
        i = items[at]
        node = lo + i
        if component[i] >= 0:
            left = r[node, w[i]] - step
            r[node, w[i]] = left if left > DUST else 0.0
            r[node, y[i]] += step
        if owner[i] >= 0:
            old = _find(pair[node], count[node], w[i] * k + w[up[i]])
            mass[node, old] -= step
            if mass[node, old] <= DUST:
                count[node] -= 1
                pair[node, old] = pair[node, count[node]]
                mass[node, old] = mass[node, count[node]]
            code = y[i] * k + y[up[i]]
            new = _find(pair[node], count[node], code)
            if new < 0:
                new = count[node]
                pair[node, new] = code
                mass[node, new] = 0.0
                count[node] += 1
            mass[node, new] += step


@kernel
def label_spread(cost):
    """(k, k) |L(:, y) - L(:, w)|²: how the predictor's answer bends the dual along y - w."""
    k = len(cost)
    spread = np.zeros((k, k))
    for y in range(k):
        for w in range(k):
            for a in range(k):
                spread[y, w] += (cost[a, y] - cost[a, w]) ** 2
    return spread


@kernel
def _links(lo, n, parent, up):
    for i in range(n):
        up[i] = parent[lo + i] - lo if parent[lo + i] >= 0 else -1


@kernel
def _own_score(n, up, augmented, tables, slot, r, pair, mass, count):
    """What the sample's marginals score: <augmented, r> + <tables, q>."""
    k = augmented.shape[1]
    value = 0.0
    for i in range(n):
        for b in range(k):
            if r[i, b] != 0.0:
                value += r[i, b] * augmented[i, b]
        if up[i] >= 0:
            table = tables[slot[i]]
            for at in range(count[i]):
                code = pair[i, at]
                value += mass[i, at] * table[code // k, code % k]
    return value


@kernel
def _steps(
    s, lo, n, up, y, w, tilt, component, owner, start, items, x_indptr, x_indices, x_data,
    theta_node, f_indptr, f_indices, f_data, theta_edge, table_of, table_row, table_turn, weight,
    rate, inv_mu, spread, r, pair, mass, count, changes, done,
):  # fmt: skip
    """A step of the best length for each component of y != w; return their number.

    tilt (n,): what the predictor adds to the score of y over that of w. done (components,), out:
    the length of each step, the mass that it moved.
    """
    found = _components(n, up, y, w, component, owner, start, items)
    for c in range(found):
        begin, end = start[c], start[c + 1]
        done[c] = 0.0
        most = _mass_to_move(
            lo, begin, end, items, up, y, w, component, owner, r, pair, mass, count
        )
        if most <= 0.0:
            continue
        gain, norm, used_node, used_edge = _lay_out(
            lo, begin, end, items, up, y, w, component, owner, x_indptr, x_indices, x_data,
            theta_node, f_indptr, f_indices, f_data, theta_edge, table_of, table_row, table_turn,
            changes,
        )  # fmt: skip
        curvature = rate[s] * norm
        for at in range(begin, end):
            i = items[at]
            if component[i] >= 0:
                gain += tilt[i]
                curvature += weight[lo + i] * spread[y[i], w[i]] * inv_mu
        step = 0.0
        if gain > 0.0:
            step = most if gain >= most * curvature else gain / curvature
        _apply(
            lo, begin, end, items, up, y, w, component, owner, x_indptr, x_indices, theta_node,
            f_indptr, f_indices, theta_edge, table_of, table_row, table_turn, changes,
            step * rate[s],
        )  # fmt: skip
        free_lines(used_node, changes[0])
        free_lines(used_edge, changes[1])
        if step > 0.0:
            _move_mass(
                lo, begin, end, items, up, y, w, component, owner, step, r, pair, mass, count
            )
            done[c] = step
    return found


@kernel
def _look(
    lo, n, up, cost, cost_t, weight, inv_mu, p0, r, pair, mass, count, unary, tables, slot,
    augmented, best, p, scratch, y, w, enough,
):  # fmt: skip
    """Best labelling y and worst one w in the support, under the scores as they are.

    Return (gap, what the predictor gives away, whether to step from w to y). No w is looked for
    where the gap is at most ``enough``.
    """
    hi = lo + n
    lost = _augment(lo, hi, cost, cost_t, weight, inv_mu, p0, r, scratch, p, unary, augmented)
    max_product_up(0, n, up, augmented, tables, slot, best)
    own = r[lo:hi], pair[lo:hi], mass[lo:hi], count[lo:hi]
    value = max_product_down(0, n, up, tables, slot, best, y)
    value -= _own_score(n, up, augmented, tables, slot, *own)
    if value <= enough:
        return value, lost, False
    return value, lost, _worst_in_support(n, up, augmented, tables, slot, *own, best, w)


@kernel
def pairwise_looks(
    order, offsets, parent, features, theta_node, theta_edge, tabled, rules, cost, weight, inv_mu,
    p0, r, pair, mass, count, slot_of_table, y, w, tilt, gap, given,
):  # fmt: skip
    """Look at the samples of ``order``, none of which moves: several threads may look at once.

    gap (S,): how far (r, q) is from the best answer to the predictor; given (S,): what the
    predictor itself gives away. Their sum is the sample's share of the duality gap. y, w (N,) and
    tilt (N,): for `pairwise_steps`; y is -1 at the first node of a sample that should rest.
    slot_of_table (tables,): scratch of one thread, -1 before and after.
    """
    x_indptr, x_indices, x_data, f_indptr, f_indices, f_data = features
    table_of, table_row, table_turn = tabled
    node_kind, unary_mask, pair_mask = rules
    k = theta_node.shape[1]
    longest = 0
    for s in order:
        longest = max(longest, offsets[s + 1] - offsets[s])
    cost_t = cost.T.copy()
    tolerance = 1e-10 * np.abs(cost).max()
    unary = np.empty((longest, k))
    augmented = np.empty((longest, k))
    best = np.empty((longest, k))
    tables = np.empty((min(longest, len(table_row)), k, k))
    slot = np.empty(longest, np.intp)
    slot_turn = np.empty(longest, np.intp)
    up = np.empty(longest, np.intp)
    p = np.empty(k)
    scratch = np.empty(k)
    for s in order:
        lo, hi = offsets[s], offsets[s + 1]
        n = hi - lo
        _links(lo, n, parent, up)
        _gather(
            lo, hi, parent, x_indptr, x_indices, x_data, theta_node, f_indptr, f_indices, f_data,
            theta_edge, table_of, table_row, table_turn, node_kind, unary_mask, pair_mask,
            slot_of_table, unary, tables, slot, slot_turn,
        )  # fmt: skip
        gap[s], given[s], moves = _look(
            lo, n, up, cost, cost_t, weight, inv_mu, p0, r, pair, mass, count, unary, tables, slot,
            augmented, best, p, scratch, y[lo:hi], w[lo:hi], tolerance * n,
        )  # fmt: skip
        if not moves:
            y[lo] = -1
            continue
        for i in range(n):
            a, b = y[lo + i], w[lo + i]
            tilt[lo + i] = augmented[i, a] - unary[i, a] - augmented[i, b] + unary[i, b]


@kernel
def pairwise_steps(
    order, offsets, parent, features, theta_node, theta_edge, tabled, weight, rate, inv_mu, spread,
    r, pair, mass, count, changes, y, w, tilt,
):  # fmt: skip
    """Step from w to y in the samples of ``order``, in turn, moving theta, r and the pairs.

    Other samples may have moved theta since y and w were found: they may be no longer the best and
    the worst, but each step has the best length under theta as it is now.
    """
    x_indptr, x_indices, x_data, f_indptr, f_indices, f_data = features
    table_of, table_row, table_turn = tabled
    longest = 0
    for s in order:
        longest = max(longest, offsets[s + 1] - offsets[s])
    up = np.empty(longest, np.intp)
    component = np.empty(longest, np.intp)
    owner = np.empty(longest, np.intp)
    items = np.empty(longest, np.intp)
    start = np.empty(longest + 2, np.intp)
    done = np.empty(longest)
    for s in order:
        lo, hi = offsets[s], offsets[s + 1]
        n = hi - lo
        if y[lo] < 0:
            continue
        _links(lo, n, parent, up)
        _steps(
            s, lo, n, up, y[lo:hi], w[lo:hi], tilt[lo:hi], component, owner, start, items,
            x_indptr, x_indices, x_data, theta_node, f_indptr, f_indices, f_data, theta_edge,
            table_of, table_row, table_turn, weight, rate, inv_mu, spread, r, pair, mass, count,
            changes, done,
        )  # fmt: skip


@kernel
def pairwise_visits(
    order, offsets, parent, features, theta_node, theta_edge, tabled, rules, cost, weight, rate,
    inv_mu, inner, p0, r, pair, mass, count, changes, node_start, table_start,
    node_gram, table_gram, gap, given,
):  # fmt: skip
    """Visit the samples of ``order`` in turn: up to ``inner`` looks with their steps for each.

    gap and given as `pairwise_looks` leaves them, when the visit began. changes: of the node and
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
    cost_t = cost.T.copy()
    spread = label_spread(cost)
    tolerance = 1e-10 * np.abs(cost).max()
    unary = np.empty((longest, k))
    augmented = np.empty((longest, k))
    best = np.empty((longest, k))
    tables = np.empty((min(longest, len(table_row)), k, k))
    slot_of_table = np.full(len(table_row), -1, np.intp)
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
        _links(lo, n, parent, up)
        n_tables = 0
        for m in range(inner):
            if m == 0 or not has_gram:
                n_tables = _gather(
                    lo, hi, parent, x_indptr, x_indices, x_data, theta_node, f_indptr, f_indices,
                    f_data, theta_edge, table_of, table_row, table_turn, node_kind, unary_mask,
                    pair_mask, slot_of_table, unary, tables, slot, slot_turn,
                )  # fmt: skip
            enough = tolerance * n if m == 0 else max(tolerance * n, 0.1 * gap[s])
            value, lost, moves = _look(
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
            found = _steps(
                s, lo, n, up, y, w, tilt, component, owner, start, items, x_indptr, x_indices,
                x_data, theta_node, f_indptr, f_indices, f_data, theta_edge, table_of, table_row,
                table_turn, weight, rate, inv_mu, spread, r, pair, mass, count, changes,
                done,
            )  # fmt: skip
            for c in range(found):
                if done[c] == 0.0:
                    continue
                moved = True
                if has_gram:
                    _update_scores(
                        lo, n, start[c], start[c + 1], items, up, y, w, component, owner, table_of,
                        table_turn, slot, slot_turn, node_gram, node_start[s], table_gram,
                        table_start[s], n_tables, done[c] * rate[s], unary, augmented, tables,
                    )  # fmt: skip
            if not moved:
                break
