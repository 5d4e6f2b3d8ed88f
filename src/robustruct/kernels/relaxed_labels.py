"""Labellings from the multipliers of a relaxed game; see kernels/relaxation.py."""

import numpy as np

from robustruct.core.structs import EdgesAtNodes, InnerForest, SampleEdges
from robustruct.kernels._jit import helper, kernel
from robustruct.kernels.forests import edges_of_sample, find_root


@kernel
def round_labels(first, last, structure, scores, u, labels, values):
    """Labellings from multipliers, node by node, then improved node by node and by forests.

    A node takes the label that is best given the labels of its neighbours decided before and the
    multipliers towards the others, from the first node to the last or the other way round, what is
    better. Then forests inside the graph are relabelled exactly, all else being fixed, until this
    gains no more. u (slots, 2, k). labels (N,), values (S,): their scores, out.
    """
    offsets = structure.offsets
    n, k = scores.unary.shape
    value = np.empty((n, k))
    trial = np.empty(n, np.intp)
    slots = np.empty(len(structure.parent), np.intp)
    at_nodes = EdgesAtNodes(np.empty(n + 1, np.intp), np.empty(2 * len(slots), np.intp))
    forest = InnerForest(np.empty(n, np.intp), np.empty(n, np.intp), np.empty(n, np.intp))
    for s in range(first, last):
        lo, hi = offsets[s], offsets[s + 1]
        n_edges = edges_of_sample(s, offsets, structure.chord_offsets, structure.parent, slots)
        sample = SampleEdges(lo, hi, slots[:n_edges])
        _sort_edges(sample, structure, at_nodes)
        values[s] = -np.inf
        for backwards in range(2):
            _decide_nodes(sample, backwards, structure, scores, at_nodes, u, trial)
            total = _total(sample, structure, scores, trial)
            if backwards == 0 or total > values[s]:
                values[s] = total
                labels[lo:hi] = trial[lo:hi]
        idle = 0
        for number in range(50):
            begin = number * 31 % (hi - lo)
            n_inside = _grow_forest(lo, hi, begin, structure, at_nodes, forest)
            _best_on_forest(n_inside, forest, structure, scores, at_nodes, value, labels)
            total = _total(sample, structure, scores, labels)
            idle = 0 if total > values[s] + 1e-12 * abs(total) else idle + 1
            values[s] = max(values[s], total)
            if idle == 8:
                break


@helper
def _sort_edges(sample, structure, at_nodes):
    """The edges of each node, one node after the other, into ``at_nodes``."""
    lo, hi, start = sample.lo, sample.hi, at_nodes.start
    child, parent = structure.child, structure.parent
    for i in range(lo, hi + 1):
        start[i] = 0
    for slot in sample.slots:
        start[child[slot] + 1] += 1
        start[parent[slot] + 1] += 1
    for i in range(lo, hi):
        start[i + 1] += start[i]
    fill = start[lo:hi].copy()
    for slot in sample.slots:
        for end in range(2):
            i = child[slot] if end == 0 else parent[slot]
            at_nodes.slots[fill[i - lo]] = slot
            fill[i - lo] += 1


@helper
def _decide_nodes(sample, backwards, structure, scores, at_nodes, u, trial):
    """Node by node the best label beside those of neighbours, until none changes; into ``trial``.

    Multipliers stand for neighbours that have no label yet.
    """
    child, parent = structure.child, structure.parent
    lo, hi, start = sample.lo, sample.hi, at_nodes.start
    k = scores.unary.shape[1]
    score = np.empty(k)
    trial[lo:hi] = -1
    for _ in range(100):
        changed = False
        for x in range(hi - lo):
            i = lo + x if backwards == 0 else hi - 1 - x
            for b in range(k):
                score[b] = scores.unary[i, b]
            for at in range(start[i], start[i + 1]):
                slot = at_nodes.slots[at]
                table = scores.tables[scores.table_of[slot]]
                side = 0 if child[slot] == i else 1
                other = trial[parent[slot] if side == 0 else child[slot]]
                for b in range(k):
                    if other < 0:
                        score[b] += u[slot, side, b]
                    else:
                        score[b] += table[b, other] if side == 0 else table[other, b]
            choice = 0
            for b in range(1, k):
                if score[b] > score[choice]:
                    choice = b
            if trial[i] < 0 or score[choice] > score[trial[i]]:
                changed = changed or trial[i] != choice
                trial[i] = choice
        if not changed:
            break


@helper
def _grow_forest(lo, hi, begin, structure, at_nodes, forest):
    """Nodes that induce a forest, taken one by one from ``begin`` on; return how many."""
    child, parent, group = structure.child, structure.parent, forest.group
    place, incident = at_nodes.start, at_nodes.slots
    n = hi - lo
    for i in range(lo, hi):
        group[i] = -1
    for x in range(n):
        i = lo + (begin + x) % n
        fits = True
        for at in range(place[i], place[i + 1]):
            j = child[incident[at]] + parent[incident[at]] - i
            if group[j] >= 0:
                root = find_root(group, j)
                for before in range(place[i], at):
                    other = child[incident[before]] + parent[incident[before]] - i
                    if group[other] >= 0 and find_root(group, other) == root:
                        fits = False
        if fits:
            group[i] = i
            for at in range(place[i], place[i + 1]):
                j = child[incident[at]] + parent[incident[at]] - i
                if group[j] >= 0:
                    group[find_root(group, j)] = i
    return _order_forest(lo, hi, structure, at_nodes, forest)


@helper
def _order_forest(lo, hi, structure, at_nodes, forest):
    """The nodes of a forest, parents before children; return how many."""
    child, parent, group = structure.child, structure.parent, forest.group
    place, incident, order, up = at_nodes.start, at_nodes.slots, forest.order, forest.up
    number = 0
    done = 0
    seen = np.zeros(hi - lo, np.bool_)
    for start in range(lo, hi):
        if group[start] < 0 or seen[start - lo]:
            continue
        order[number] = start
        up[number] = -1
        seen[start - lo] = True
        number += 1
        while done < number:
            i = order[done]
            done += 1
            for at in range(place[i], place[i + 1]):
                j = child[incident[at]] + parent[incident[at]] - i
                if group[j] >= 0 and not seen[j - lo]:
                    seen[j - lo] = True
                    order[number] = j
                    up[number] = incident[at]
                    number += 1
    return number


@helper
def _best_on_forest(n_inside, forest, structure, scores, at_nodes, value, labels):
    """Relabel a forest as well as the labels of all other nodes allow; value (N, k) is scratch."""
    child, parent, order, up = structure.child, structure.parent, forest.order, forest.up
    unary, tables, table_of = scores.unary, scores.tables, scores.table_of
    k = unary.shape[1]
    for x in range(n_inside):
        i = order[x]
        for b in range(k):
            value[i, b] = unary[i, b]
        for at in range(at_nodes.start[i], at_nodes.start[i + 1]):
            slot = at_nodes.slots[at]
            j = child[slot] + parent[slot] - i
            if forest.group[j] < 0:
                for b in range(k):
                    first, second = (b, labels[j]) if child[slot] == i else (labels[j], b)
                    value[i, b] += tables[table_of[slot], first, second]
    for x in range(n_inside - 1, -1, -1):
        slot = up[x]
        if slot < 0:
            continue
        i = order[x]
        j = child[slot] + parent[slot] - i
        table = tables[table_of[slot]]
        for a in range(k):
            best = -np.inf
            for b in range(k):
                score = value[i, b] + (table[b, a] if child[slot] == i else table[a, b])
                best = score if score > best else best
            value[j, a] += best
    for x in range(n_inside):
        i = order[x]
        slot = up[x]
        best = -np.inf
        choice = 0
        for b in range(k):
            score = value[i, b]
            if slot >= 0:
                j = child[slot] + parent[slot] - i
                table = tables[table_of[slot]]
                score += table[b, labels[j]] if child[slot] == i else table[labels[j], b]
            if score > best:
                best = score
                choice = b
        labels[i] = choice


@helper
def _total(sample, structure, scores, labels):
    """The score of a labelling."""
    total = 0.0
    for i in range(sample.lo, sample.hi):
        total += scores.unary[i, labels[i]]
    for slot in sample.slots:
        first, second = labels[structure.child[slot]], labels[structure.parent[slot]]
        total += scores.tables[scores.table_of[slot], first, second]
    return total
