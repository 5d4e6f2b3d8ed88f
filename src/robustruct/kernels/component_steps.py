"""Steps of one sample from its worst labelling to its best one, component by component.

Where the two labellings agree nothing moves, so the nodes where they differ fall into connected
components, and each takes a step of its own: marginals stay consistent, as only the component's
nodes and edges change. What the tuples hold: core/structs.py.
"""

import numpy as np

from robustruct.kernels._jit import helper, part
from robustruct.kernels.edge_pairs import DUST
from robustruct.kernels.weight_changes import add_features, apply_features, free_lines


@helper
def find_components(sample, move, components):
    """Fill ``components``, all but the steps; return their number."""
    of_node, of_edge = components.of_node, components.of_edge
    start, items, parent = components.start, components.items, sample.parent
    number = np.intp(0)
    for i in range(sample.n - 1, -1, -1):  # parents come before their children
        of_node[i] = -1
        if move.best[i] != move.worst[i]:
            above = parent[i]
            if above >= 0 and of_node[above] >= 0:
                of_node[i] = of_node[above]
            else:
                of_node[i] = number
                number += 1
    for j in range(sample.n, sample.m):  # chords may join two of them
        of_node[j] = -1
        one, other = of_node[sample.child[j]], of_node[parent[j]]
        if one >= 0 and other >= 0 and one != other:
            number -= 1
            keep, free = min(one, other), max(one, other)
            for i in range(sample.n):
                if of_node[i] == free:
                    of_node[i] = keep
                elif of_node[i] == number:  # the last one takes the number that is free now
                    of_node[i] = free
    for c in range(number + 1):
        start[c] = 0
    for j in range(sample.m):
        of_edge[j] = -1
        if parent[j] >= 0:
            c = of_node[sample.child[j]]
            of_edge[j] = c if c >= 0 else of_node[parent[j]]
        c = of_node[j] if of_node[j] >= 0 else of_edge[j]
        if c >= 0:
            start[c + 1] += 1
    for c in range(number):
        start[c + 1] += start[c]
    for j in range(sample.m):
        c = of_node[j] if of_node[j] >= 0 else of_edge[j]
        if c >= 0:
            items[start[c]] = j
            start[c] += 1
    for c in range(number, 0, -1):
        start[c] = start[c - 1]
    start[0] = 0
    return number


# ------------------------------------------------------------------------- the mass that may move


@helper
def _find(pair, count, code):
    for at in range(count):
        if pair[at] == code:
            return at
    return -1


@helper
def movable_mass(c, sample, move, components, adversary):
    """Most mass that component c can move; 0 if a list of pairs is full."""
    best, worst, parent = move.best, move.worst, sample.parent
    pair, count = adversary.pair, adversary.count
    k = adversary.r.shape[1]
    most = np.inf
    for at in range(components.start[c], components.start[c + 1]):
        i = components.items[at]
        if components.of_node[i] >= 0:
            most = min(most, adversary.r[i, worst[i]])
        if components.of_edge[i] >= 0:
            old = _find(pair[i], count[i], worst[i] * k + worst[parent[i]])
            if old < 0:
                return 0.0
            most = min(most, adversary.mass[i, old])
            new = _find(pair[i], count[i], best[i] * k + best[parent[i]])
            if new < 0 and count[i] == pair.shape[1]:
                return 0.0
    return most


@helper
def move_mass(c, step, sample, move, components, adversary):
    """Move ``step`` of mass from worst to best on the nodes and edges of component c."""
    best, worst, parent = move.best, move.worst, sample.parent
    r, pair, mass, count = adversary.r, adversary.pair, adversary.mass, adversary.count
    k = r.shape[1]
    for at in range(components.start[c], components.start[c + 1]):
        i = components.items[at]
        if components.of_node[i] >= 0:
            left = r[i, worst[i]] - step
            r[i, worst[i]] = left if left > DUST else 0.0
            r[i, best[i]] += step
        if components.of_edge[i] >= 0:
            old = _find(pair[i], count[i], worst[i] * k + worst[parent[i]])
            mass[i, old] -= step
            if mass[i, old] <= DUST:
                count[i] -= 1
                pair[i, old] = pair[i, count[i]]
                mass[i, old] = mass[i, count[i]]
            code = best[i] * k + best[parent[i]]
            new = _find(pair[i], count[i], code)
            if new < 0:
                new = count[i]
                pair[i, new] = code
                mass[i, new] = 0.0
                count[i] += 1
            mass[i, new] += step


# ------------------------------------------------------------------------- what it does to weights


@part
def _pair_codes(j, sample, move, tables, k):
    """Columns of the edge weights for the pairs that gain and lose mass in slot j."""
    child, parent = sample.child[j], sample.parent[j]
    if tables.transposed[sample.table_of[j]] == 1:
        child, parent = parent, child
    to = move.best[child] * k + move.best[parent]
    return to, move.worst[child] * k + move.worst[parent]


@part
def lay_out(c, sample, move, components, features, tables, weights, changes):
    """Φ(best) - Φ(worst) of component c into changes.

    Return (<θ, change>, |change|², lines in use of the node and of the edge weights).
    """
    k = weights.node.shape[1]
    gain = 0.0
    norm = 0.0
    used_node = used_edge = np.intp(0)  # a plain 0 has a type of its own, and code for it
    for at in range(components.start[c], components.start[c + 1]):
        j = components.items[at]
        if components.of_node[j] >= 0:
            used_node, gain, norm = add_features(
                j,
                features.nodes,
                move.best[j],
                move.worst[j],
                weights.node,
                changes.node,
                used_node,
                gain,
                norm,
            )
        if components.of_edge[j] >= 0:
            row = tables.row[sample.table_of[j]]
            to, out_of = _pair_codes(j, sample, move, tables, k)
            used_edge, gain, norm = add_features(
                row, features.edges, to, out_of, weights.edge, changes.edge, used_edge, gain, norm
            )
    return gain, norm, used_node, used_edge


@part
def apply_change(c, sample, move, components, features, tables, weights, changes, step):
    """θ -= step * change, and change <- 0."""
    k = weights.node.shape[1]
    for at in range(components.start[c], components.start[c + 1]):
        j = components.items[at]
        if components.of_node[j] >= 0:
            best, worst = move.best[j], move.worst[j]
            apply_features(j, features.nodes, best, worst, step, weights.node, changes.node)
        if components.of_edge[j] >= 0:
            row = tables.row[sample.table_of[j]]
            to, out_of = _pair_codes(j, sample, move, tables, k)
            apply_features(row, features.edges, to, out_of, step, weights.edge, changes.edge)


@part
def best_length(c, most, gain, curvature, move, components, predictor):
    """How much of ``most`` component c should move, where θ alone gives gain and curvature."""
    for at in range(components.start[c], components.start[c + 1]):
        i = components.items[at]
        if components.of_node[i] >= 0:
            gain += move.cost_margin[i]
            curvature += predictor.weight[i] * predictor.spread[move.best[i], move.worst[i]]
    if gain <= 0.0:
        return 0.0
    return most if gain >= most * curvature else gain / curvature


@part
def step_weights(c, most, rate, sample, move, components, predictor, design, weights, changes):
    """Move the weights by the best step of component c; return the mass that has to move."""
    features, tables = design.features, design.tables
    gain, norm, used_node, used_edge = lay_out(
        c, sample, move, components, features, tables, weights, changes
    )
    step = best_length(c, most, gain, rate * norm, move, components, predictor)
    apply_change(c, sample, move, components, features, tables, weights, changes, step * rate)
    free_lines(used_node, changes.node)
    free_lines(used_edge, changes.edge)
    return step


@helper
def take_steps(sample, move, components, rate, predictor, adversary, design, weights, changes):
    """A step of the best length under the weights as they are, for each component.

    Return whether there was one; the steps are in ``components``.
    """
    moved = False
    components.number[0] = find_components(sample, move, components)
    for c in range(components.number[0]):
        components.step[c] = 0.0
        most = movable_mass(c, sample, move, components, adversary)
        if most <= 0.0:
            continue
        step = step_weights(
            c, most, rate, sample, move, components, predictor, design, weights, changes
        )
        if step > 0.0:
            move_mass(c, step, sample, move, components, adversary)
            components.step[c] = step
            moved = True
    return moved


@helper
def update_scores(rate, sample, move, components, transposed, products, scores):
    """What the steps of all components, θ -= rate * step * change, did to the scores of the sample.

    products: of the rows of the sample; those of its t distinct tables are t².
    """
    unary, tables, n = scores.unary, scores.tables, sample.n
    n_tables = np.intp(np.sqrt(len(products.tables)) + 0.5)
    for at in range(components.start[components.number[0]]):
        j = components.items[at]
        c = components.of_node[j] if components.of_node[j] >= 0 else components.of_edge[j]
        step = components.step[c] * rate
        if step == 0.0:
            continue
        if components.of_node[j] >= 0:
            best, worst = move.best[j], move.worst[j]
            for i in range(n):
                shift = step * products.nodes[j * n + i]
                unary[i, best] -= shift
                unary[i, worst] += shift
        if components.of_edge[j] >= 0:
            above, place = sample.parent[j], scores.place[j]
            for t in range(n_tables):
                shift = step * products.tables[place * n_tables + t]
                b1, b2, w1, w2 = move.best[j], move.best[above], move.worst[j], move.worst[above]
                if transposed[scores.distinct[t]] != transposed[sample.table_of[j]]:
                    b1, b2, w1, w2 = b2, b1, w2, w1
                tables[t, b1, b2] -= shift
                tables[t, w1, w2] += shift
