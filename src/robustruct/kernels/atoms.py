"""Block-coordinate ascent as in kernels/pairwise.py, for samples with cycles.

Node and edge marginals alone do not say which labellings make them up once there are cycles, so the
adversary of a sample is kept as a list of labellings, its atoms, with their masses. A step takes y,
the best labelling for the adversary, and w, its worst atom, and moves mass from w to y; as on
trees, each connected component of the nodes where they differ takes its own step. Component C then
has y instead of w in a share step_C of the atom's mass; the shares are nested (a labelling that
has y on a component has it on all with larger steps), so that c components make c new atoms.

atom (slots, N) intp    labels of the atoms: sample s uses columns offsets[s] .. offsets[s+1]-1
mass (S, slots)         their masses; count (S,) how many a sample has

Everything else is named as in kernels/pairwise.py and kernels/buckets.py.
"""

import numpy as np

from robustruct.kernels._jit import helper, kernel
from robustruct.kernels.buckets import JunctionTrees, bucket_max
from robustruct.kernels.changes import add_features, apply_features, free_lines
from robustruct.kernels.forests import edges_of_sample, find_root
from robustruct.kernels.linear import row_product
from robustruct.kernels.looks import augment, turn_costs
from robustruct.kernels.pairs import DUST
from robustruct.kernels.steps import label_spread


@helper
def _gather(
    lo, hi, n_edges, slots, features, theta_node, theta_edge, layout, masks, place_of_table,
    unary, tables, place,
):  # fmt: skip
    """Scores of one sample under theta: rows of unary (N, k), tables, place (slots,) in them."""
    x_indptr, x_indices, x_data, f_indptr, f_indices, f_data = features
    table_of, table_row, table_turn = layout
    node_kind, unary_mask, pair_mask = masks
    k = unary.shape[1]
    for i in range(lo, hi):
        row_product(
            x_indptr[i], x_indptr[i + 1], x_indices, x_data, theta_node, unary_mask[node_kind[i]],
            unary[i],
        )  # fmt: skip
    used = 0
    for e in range(n_edges):
        t = table_of[slots[e]]
        if place_of_table[t] < 0:
            place_of_table[t] = used
            table = tables[used]
            turn = table_turn[t]
            for b in range(k):
                for a in range(k):
                    table[b, a] = pair_mask[turn, b, a]
            for at in range(f_indptr[table_row[t]], f_indptr[table_row[t] + 1]):
                row = theta_edge[f_indices[at]]
                for b in range(k):
                    for a in range(k):
                        code = b * k + a if turn == 0 else a * k + b
                        table[b, a] += f_data[at] * row[code]
            used += 1
        place[slots[e]] = place_of_table[t]
    for e in range(n_edges):
        place_of_table[table_of[slots[e]]] = -1


@helper
def _score(lo, hi, n_edges, slots, child, parent, unary, tables, place, labels):
    total = 0.0
    for i in range(lo, hi):
        total += unary[i, labels[i]]
    for e in range(n_edges):
        slot = slots[e]
        total += tables[place[slot], labels[child[slot]], labels[parent[slot]]]
    return total


@helper
def _components(lo, hi, n_edges, slots, child, parent, y, w, group):
    """group (N,): for nodes with y != w a name of their component, -1 elsewhere."""
    for i in range(lo, hi):
        group[i] = i if y[i] != w[i] else -1
    for e in range(n_edges):
        i, j = child[slots[e]], parent[slots[e]]
        if group[i] >= 0 and group[j] >= 0:
            group[find_root(group, i)] = find_root(group, j)
    for i in range(lo, hi):
        if group[i] >= 0:
            group[i] = find_root(group, i)


@helper
def _lay_out(
    lo, hi, n_edges, slots, child, parent, y, w, group, name, features, theta_node, theta_edge,
    layout, changes,
):  # fmt: skip
    """Φ(y) - Φ(w) of a component into changes; return (<theta, change>, |change|², lines)."""
    x_indptr, x_indices, x_data, f_indptr, f_indices, f_data = features
    table_of, table_row, table_turn = layout
    k = theta_node.shape[1]
    gain = 0.0
    norm = 0.0
    used_node = 0
    used_edge = 0
    for i in range(lo, hi):
        if group[i] == name:
            used_node, gain, norm = add_features(
                x_indptr[i], x_indptr[i + 1], x_indices, x_data, y[i], w[i], theta_node,
                changes[0], used_node, gain, norm,
            )  # fmt: skip
    for e in range(n_edges):
        slot = slots[e]
        i, j = child[slot], parent[slot]
        if group[i] != name and group[j] != name:
            continue
        t = table_of[slot]
        if table_turn[t] == 1:
            i, j = j, i
        row = table_row[t]
        used_edge, gain, norm = add_features(
            f_indptr[row], f_indptr[row + 1], f_indices, f_data, y[i] * k + y[j],
            w[i] * k + w[j], theta_edge, changes[1], used_edge, gain, norm,
        )  # fmt: skip
    return gain, norm, used_node, used_edge


@helper
def _apply(
    lo, hi, n_edges, slots, child, parent, y, w, group, name, features, theta_node, theta_edge,
    layout, changes, step,
):  # fmt: skip
    """theta -= step * change, and change <- 0."""
    x_indptr, x_indices, _, f_indptr, f_indices, _ = features
    table_of, table_row, table_turn = layout
    k = theta_node.shape[1]
    for i in range(lo, hi):
        if group[i] == name:
            apply_features(
                x_indptr[i], x_indptr[i + 1], x_indices, y[i], w[i], step, theta_node, changes[0]
            )
    for e in range(n_edges):
        slot = slots[e]
        i, j = child[slot], parent[slot]
        if group[i] != name and group[j] != name:
            continue
        t = table_of[slot]
        if table_turn[t] == 1:
            i, j = j, i
        row = table_row[t]
        apply_features(
            f_indptr[row], f_indptr[row + 1], f_indices, y[i] * k + y[j], w[i] * k + w[j], step,
            theta_edge, changes[1],
        )  # fmt: skip


@helper
def _add_atom(lo, hi, labels, amount, atom, mass, count):
    """Give mass to a labelling, which may be among the atoms already."""
    for at in range(count):
        same = True
        for i in range(lo, hi):
            if atom[at, i] != labels[i]:
                same = False
                break
        if same:
            mass[at] += amount
            return count
    for i in range(lo, hi):
        atom[count, i] = labels[i]
    mass[count] = amount
    return count + 1


@helper
def _split_atom(lo, hi, worst, n_groups, names, steps, group, y, w, atom, mass, count):
    """Move nested shares of the atom ``worst`` from w to y; return the new number of atoms.

    names and steps (n_groups,): the components and how much mass each moves.
    """
    order = np.argsort(-steps[:n_groups])
    whole = mass[worst]
    mass[worst] = whole - steps[order[0]] if n_groups else whole
    labels = w.copy()
    for rank in range(n_groups):
        name = names[order[rank]]
        for i in range(lo, hi):
            if group[i] == name:
                labels[i] = y[i]
        amount = steps[order[rank]]
        if rank + 1 < n_groups:
            amount -= steps[order[rank + 1]]
        if amount > 0.0:
            count = _add_atom(lo, hi, labels, amount, atom, mass, count)
    at = 0
    while at < count:
        if mass[at] <= DUST:
            count -= 1
            mass[at] = mass[count]
            for i in range(lo, hi):
                atom[at, i] = atom[count, i]
        else:
            at += 1
    return count


@kernel
def node_marginals(first, last, offsets, atom, mass, count, r):
    """Masses scaled to sum to 1, and node marginals of samples first .. last-1: r (N, k), out."""
    for s in range(first, last):
        total = 0.0
        for at in range(count[s]):
            total += mass[s, at]
        for at in range(count[s]):
            mass[s, at] /= total
        for i in range(offsets[s], offsets[s + 1]):
            r[i, :] = 0.0
            for at in range(count[s]):
                r[i, atom[at, i]] += mass[s, at]


@kernel
def edge_marginals(offsets, chord_offsets, child, parent, atom, mass, count, q):
    """Edge marginals q (slots, k, k) of all samples, zero before."""
    slots = np.empty(len(parent), np.intp)
    for s in range(len(offsets) - 1):
        for e in range(edges_of_sample(s, offsets, chord_offsets, parent, slots)):
            slot = slots[e]
            for at in range(count[s]):
                q[slot, atom[at, child[slot]], atom[at, parent[slot]]] += mass[s, at]


@kernel
def atom_table_sums(offsets, chord_offsets, child, parent, table_of, share, atom, mass, count, out):
    """Add share[i] times the edge marginals of every node's edges to their tables in out."""
    slots = np.empty(len(parent), np.intp)
    for s in range(len(offsets) - 1):
        for e in range(edges_of_sample(s, offsets, chord_offsets, parent, slots)):
            slot = slots[e]
            table = out[table_of[slot]]
            for at in range(count[s]):
                labels = atom[at]
                table[labels[child[slot]], labels[parent[slot]]] += share[child[slot]] * mass[s, at]


@kernel
def atom_visits(
    order, offsets, chord_offsets, child, parent, buckets, features, theta_node, theta_edge, layout,
    masks, cost, weight, rate, inv_mu, inner, p0, r, atom, mass, count, changes, gap, given,
):  # fmt: skip
    """Visit the samples of ``order`` in turn; arguments and outputs as in `pairwise_visits`.

    Samples whose list could overflow are left alone; the caller makes the lists longer.
    """
    k = theta_node.shape[1]
    n_slots = len(parent)
    cost_t = np.empty_like(cost)
    tolerance = 1e-10 * turn_costs(cost, cost_t)
    spread = label_spread(cost, inv_mu)
    unary = np.empty((offsets[-1], k))
    augmented = np.empty((offsets[-1], k))
    expected = np.empty(k)
    p = np.empty(k)
    slots = np.empty(n_slots, np.intp)
    most_edges = 1
    for s in order:
        edges = edges_of_sample(s, offsets, chord_offsets, parent, slots)
        most_edges = max(most_edges, edges)
    tables = np.empty((min(most_edges, len(layout[1])), k, k))
    place_of_table = np.full(len(layout[1]), -1, np.intp)
    place = np.zeros(n_slots, np.intp)
    best = np.zeros(offsets[-1], np.intp)
    group = np.empty(offsets[-1], np.intp)
    names = np.empty(offsets[-1], np.intp)
    steps = np.empty(offsets[-1])
    values = np.empty(len(offsets) - 1)
    scores = np.empty(mass.shape[1])
    graph = JunctionTrees(parent, place, buckets[0], buckets[1], buckets[2], buckets[3], buckets[4])
    for s in order:
        lo, hi = offsets[s], offsets[s + 1]
        n_edges = edges_of_sample(s, offsets, chord_offsets, parent, slots)
        first_gap = 0.0
        for m in range(inner):
            _gather(
                lo, hi, n_edges, slots, features, theta_node, theta_edge, layout, masks,
                place_of_table, unary, tables, place,
            )  # fmt: skip
            lost = augment(
                lo, hi, cost, cost_t, weight, inv_mu, p0, r, expected, p, unary[lo:hi],
                augmented[lo:hi],
            )  # fmt: skip
            bucket_max(s, s + 1, offsets, graph, augmented, tables, best, values)
            value = values[s]
            worst = 0
            for at in range(count[s]):
                scores[at] = _score(
                    lo, hi, n_edges, slots, child, parent, augmented, tables, place, atom[at]
                )
                value -= mass[s, at] * scores[at]
                if scores[at] < scores[worst]:
                    worst = at
            if m == 0:
                first_gap = value
                gap[s] = value
                given[s] = lost
            if value <= tolerance * (hi - lo) or (m > 0 and value < 0.1 * first_gap):
                break
            old = atom[worst].copy()
            _components(lo, hi, n_edges, slots, child, parent, best, old, group)
            room = len(scores) - count[s]
            n_groups = 0
            moved = False
            for name in range(lo, hi):
                if group[name] != name or n_groups >= room:
                    continue
                gain, norm, used_node, used_edge = _lay_out(
                    lo, hi, n_edges, slots, child, parent, best, old, group, name, features,
                    theta_node, theta_edge, layout, changes,
                )  # fmt: skip
                curvature = rate[s] * norm
                for i in range(lo, hi):
                    if group[i] == name:
                        a, b = best[i], old[i]
                        gain += augmented[i, a] - unary[i, a] - augmented[i, b] + unary[i, b]
                        curvature += weight[i] * spread[a, b]
                most = mass[s, worst]
                step = 0.0
                if gain > 0.0:
                    step = most if gain >= most * curvature else gain / curvature
                _apply(
                    lo, hi, n_edges, slots, child, parent, best, old, group, name, features,
                    theta_node, theta_edge, layout, changes, step * rate[s],
                )  # fmt: skip
                free_lines(used_node, changes[0])
                free_lines(used_edge, changes[1])
                if step > 0.0:
                    for i in range(lo, hi):
                        if group[i] == name:
                            left = r[i, old[i]] - step
                            r[i, old[i]] = left if left > DUST else 0.0
                            r[i, best[i]] += step
                    names[n_groups] = name
                    steps[n_groups] = step
                    n_groups += 1
                    moved = True
            if not moved:
                break
            count[s] = _split_atom(
                lo, hi, worst, n_groups, names, steps, group, best, old, atom, mass[s], count[s]
            )
