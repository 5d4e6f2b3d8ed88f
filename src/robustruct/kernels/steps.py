"""Steps of one sample from its worst labelling w to its best one y, component by component.

Arrays are named as in kernels/pairwise.py.
"""

import numpy as np

from robustruct.kernels._jit import helper, part
from robustruct.kernels.changes import add_features, apply_features, free_lines
from robustruct.kernels.pairs import DUST


@helper
def label_spread(cost, inv_mu):
    """(k, k) Σ_a (L(a, y) - L(a, w) - mean)² / mu_a, the mean with weights 1 / mu_a.

    How the predictor's answer bends the dual along y - w; it ignores what all labels cost more.
    """
    k = len(cost)
    total = 0.0
    for a in range(k):
        total += inv_mu[a]
    spread = np.empty((k, k))
    for y in range(k):
        for w in range(k):
            spread[y, w] = 0.0
            if total == 0.0:
                continue
            mean = 0.0
            for a in range(k):
                mean += inv_mu[a] * (cost[a, y] - cost[a, w])
            mean /= total
            for a in range(k):
                spread[y, w] += inv_mu[a] * (cost[a, y] - cost[a, w] - mean) ** 2
    return spread


@helper
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


@helper
def _find(pair, count, code):
    for at in range(count):
        if pair[at] == code:
            return at
    return -1


@helper
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


@part
def _codes(y_child, y_parent, w_child, w_parent, turn, k):
    """Columns of theta_edge for the pairs that gain and lose mass."""
    if turn == 0:
        return y_child * k + y_parent, w_child * k + w_parent
    return y_parent * k + y_child, w_parent * k + w_child


@helper
def _lay_out(
    lo, begin, end, items, up, y, w, component, owner, x_indptr, x_indices, x_data, theta_node,
    f_indptr, f_indices, f_data, theta_edge, table_of, table_row, table_turn, changes,
):  # fmt: skip
    """Φ(y) - Φ(w) of a component into changes; return (<theta, change>, |change|², lines)."""
    k = theta_node.shape[1]
    gain = 0.0
    norm = 0.0
    used_node = used_edge = np.intp(0)  # a plain 0 has a type of its own, and code for it
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


@helper
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


@helper
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


@helper
def update_scores(
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


@helper
def take_steps(
    s, lo, n, up, y, w, tilt, component, owner, start, items, x_indptr, x_indices, x_data,
    theta_node, f_indptr, f_indices, f_data, theta_edge, table_of, table_row, table_turn, weight,
    rate, spread, r, pair, mass, count, changes, done,
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
                curvature += weight[lo + i] * spread[y[i], w[i]]
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
