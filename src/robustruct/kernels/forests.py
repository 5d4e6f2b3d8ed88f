"""Forests: rooting one, so that children come before parents; splitting a graph into several."""

import numpy as np

from robustruct.kernels._jit import helper, kernel


@kernel
def root_forest(n_nodes, edges, order, parent, edge_of, flipped):
    """Root every component at its last node; return False if the graph has a cycle.

    edges (m, 2) intp. Out, in the new order: order (n,) the node at each position; parent (n,)
    position of the parent or -1; edge_of (n,) the edge to the parent or -1; flipped (n,) bool,
    True where that edge was listed as (parent, child). A path 0-1-...-n keeps its order.
    """
    n_edges = edges.shape[0]
    start = np.zeros(n_nodes + 1, np.intp)
    for e in range(n_edges):
        start[edges[e, 0] + 1] += 1
        start[edges[e, 1] + 1] += 1
    for i in range(n_nodes):
        start[i + 1] += start[i]
    fill = start[:-1].copy()
    incident = np.empty(2 * n_edges, np.intp)
    for e in range(n_edges):
        for side in range(2):
            incident[fill[edges[e, side]]] = e
            fill[edges[e, side]] += 1
    position = np.full(n_nodes, -1, np.intp)
    # Breadth first from the last node, filled from the back: parents end up behind their children.
    head = n_nodes - 1
    tail = n_nodes - 1
    for root in range(n_nodes - 1, -1, -1):
        if position[root] >= 0:
            continue
        position[root] = tail
        order[tail] = root
        parent[tail] = -1
        edge_of[tail] = -1
        flipped[tail] = False
        tail -= 1
        while head > tail:
            node = order[head]
            # Largest edge first, so that a node's children keep the order they were listed in.
            for slot in range(start[node + 1] - 1, start[node] - 1, -1):
                e = incident[slot]
                if e == edge_of[head]:
                    continue
                other = edges[e, 1] if edges[e, 0] == node else edges[e, 0]
                if position[other] >= 0:
                    return False
                position[other] = tail
                order[tail] = other
                parent[tail] = head
                edge_of[tail] = e
                flipped[tail] = edges[e, 0] == node
                tail -= 1
            head -= 1
    return True


@helper
def find_root(group, i):
    """The name of i's set, in a forest of names that is flattened on the way."""
    while group[i] != i:
        group[i] = group[group[i]]
        i = group[i]
    return i


@kernel
def peel_forests(n_nodes, edges, forest):
    """Split edges (m, 2) into forests, each as large as what is left allows; return their number.

    forest (m,) intp, out: which one each edge belongs to.
    """
    group = np.empty(n_nodes, np.intp)
    left = edges.shape[0]
    for e in range(left):
        forest[e] = -1
    found = 0
    while left > 0:
        for i in range(n_nodes):
            group[i] = i
        for e in range(edges.shape[0]):
            if forest[e] >= 0:
                continue
            i, j = find_root(group, edges[e, 0]), find_root(group, edges[e, 1])
            if i != j:
                group[i] = j
                forest[e] = found
                left -= 1
        found += 1
    return found


@helper
def edges_of_sample(s, offsets, chord_offsets, parent, slots):
    """Slots of sample s that hold an edge, into ``slots``; return their number."""
    found = 0
    for i in range(offsets[s], offsets[s + 1]):
        if parent[i] >= 0:
            slots[found] = i
            found += 1
    n_nodes = offsets[-1]
    for slot in range(n_nodes + chord_offsets[s], n_nodes + chord_offsets[s + 1]):
        slots[found] = slot
        found += 1
    return found
