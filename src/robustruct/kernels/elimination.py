"""Elimination orders: in which order to remove the nodes of a graph so that cliques stay small.

Removing a node joins its remaining neighbours to each other. The largest number of neighbours met
on the way is the width of the order; the least width of any order is the graph's treewidth.
"""

import numpy as np

from robustruct.kernels._jit import helper, kernel


@helper
def adjacency(n_nodes, edges):
    """Neighbours of all nodes one after the other: (start (n+1,), neighbours (2m,))."""
    start = np.zeros(n_nodes + 1, np.intp)
    for e in range(edges.shape[0]):
        start[edges[e, 0] + 1] += 1
        start[edges[e, 1] + 1] += 1
    for i in range(n_nodes):
        start[i + 1] += start[i]
    fill = start[:-1].copy()
    neighbours = np.empty(2 * edges.shape[0], np.intp)
    for e in range(edges.shape[0]):
        i, j = edges[e, 0], edges[e, 1]
        neighbours[fill[i]] = j
        fill[i] += 1
        neighbours[fill[j]] = i
        fill[j] += 1
    return start, neighbours


@helper
def _missing(node, begin, size, pool, mark, stamp):
    """How many pairs of the node's neighbours are not joined yet."""
    degree = size[node]
    for at in range(begin[node], begin[node] + degree):
        mark[pool[at]] = stamp
    joined = 0
    for at in range(begin[node], begin[node] + degree):
        other = pool[at]
        for slot in range(begin[other], begin[other] + size[other]):
            if mark[pool[slot]] == stamp:
                joined += 1
    return degree * (degree - 1) // 2 - joined // 2


@helper
def _touched(nodes, around, begin, size, pool, mark, stamp, out):
    """The nodes and, if ``around``, their neighbours, each once, into ``out``; return how many."""
    count = 0
    for i in nodes:
        if mark[i] != stamp:
            mark[i] = stamp
            out[count] = i
            count += 1
        if around:
            for at in range(begin[i], begin[i] + size[i]):
                if mark[pool[at]] != stamp:
                    mark[pool[at]] = stamp
                    out[count] = pool[at]
                    count += 1
    return count


@helper
def _push(heap, count, number):
    """Add a number to a heap of ``count``."""
    at = count
    while at > 0 and heap[(at - 1) // 2] > number:
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = number


@helper
def _pop(heap, count):
    """Take the smallest number off a heap of ``count``."""
    top, number, at = heap[0], heap[count - 1], 0
    while 2 * at + 1 < count - 1:
        below = 2 * at + 1
        if below + 1 < count - 1 and heap[below + 1] < heap[below]:
            below += 1
        if heap[below] >= number:
            break
        heap[at] = heap[below]
        at = below
    heap[at] = number
    return top


@kernel
def greedy_order(n_nodes, edges, by_fill, limit, order):
    """Remove the node that adds fewest edges (by_fill), or has fewest neighbours; return the width.

    Ties go to the smallest node. Where every node left has more than ``limit`` neighbours, the
    search ends: the rest of order (n,), out, keeps its own order, and the result is limit + 1.
    """
    start, pool = adjacency(n_nodes, edges)
    begin = start[:-1].copy()
    size = np.empty(n_nodes, np.intp)
    for i in range(n_nodes):
        size[i] = start[i + 1] - start[i]
    room = size.copy()
    used = len(pool)
    alive = np.ones(n_nodes, np.bool_)
    mark = np.zeros(n_nodes, np.int64)
    stamp = 0
    key = np.empty(n_nodes, np.int64)
    heap, n_waiting = np.empty(4 * n_nodes, np.int64), 0
    for i in range(n_nodes):
        stamp += 1
        key[i] = _missing(i, begin, size, pool, mark, stamp) if by_fill else size[i]
        _push(heap, n_waiting, key[i] * n_nodes + i)
        n_waiting += 1
    touched, neighbours = np.empty(n_nodes, np.intp), np.empty(n_nodes + used, np.intp)
    width = 0
    for position in range(n_nodes):
        node = -1
        while node < 0:
            top = _pop(heap, n_waiting)
            n_waiting -= 1
            candidate = top % n_nodes
            if alive[candidate] and key[candidate] == top // n_nodes:
                node = candidate
        degree = size[node]
        if degree > limit:
            for i in range(n_nodes):
                if alive[i]:
                    order[position] = i
                    position += 1
            return limit + 1
        width = max(width, degree)
        order[position] = node
        alive[node] = False
        for x in range(degree):
            neighbours[x] = pool[begin[node] + x]
        filled = False
        for x in range(degree):
            i = neighbours[x]
            stamp += 1
            for at in range(begin[i], begin[i] + size[i]):
                mark[pool[at]] = stamp
            wanted = size[i] + degree
            if room[i] < wanted:
                if used + 2 * wanted > len(pool):
                    larger = np.empty(2 * len(pool) + 2 * wanted, np.intp)
                    larger[:used] = pool[:used]
                    pool = larger
                for at in range(size[i]):
                    pool[used + at] = pool[begin[i] + at]
                begin[i] = used
                room[i] = 2 * wanted
                used += room[i]
            for at in range(begin[i], begin[i] + size[i]):
                if pool[at] == node:
                    size[i] -= 1
                    pool[at] = pool[begin[i] + size[i]]
                    break
            for y in range(degree):
                j = neighbours[y]
                if j != i and mark[j] != stamp:
                    pool[begin[i] + size[i]] = j
                    size[i] += 1
                    filled = True
        stamp += 1
        around = by_fill and filled
        n_touched = _touched(neighbours[:degree], around, begin, size, pool, mark, stamp, touched)
        for x in range(n_touched):
            i = touched[x]
            stamp += 1
            new = _missing(i, begin, size, pool, mark, stamp) if by_fill else size[i]
            if new != key[i]:
                key[i] = new
                if n_waiting == len(heap):
                    larger = np.empty(2 * n_waiting, np.int64)
                    larger[:n_waiting] = heap
                    heap = larger
                _push(heap, n_waiting, new * n_nodes + i)
                n_waiting += 1
    return width


@kernel
def best_order(n_nodes, edges, order):
    """An order of least width by dynamic programming over all subsets; return the treewidth.

    Takes 2^n numbers, so n <= 20 or so. order (n,), out.
    """
    near = np.zeros(n_nodes, np.int64)
    for e in range(edges.shape[0]):
        near[edges[e, 0]] |= 1 << edges[e, 1]
        near[edges[e, 1]] |= 1 << edges[e, 0]
    width = np.empty(1 << n_nodes, np.int8)
    choice = np.empty(1 << n_nodes, np.int8)
    width[0] = 0
    for gone in range(1, 1 << n_nodes):
        width[gone] = 127
        for last in range(n_nodes):
            if not gone >> last & 1:
                continue
            before = gone & ~(1 << last)
            if width[before] >= width[gone]:
                continue
            # Neighbours of ``last`` when all of ``before`` are gone: reached through them.
            inside = np.int64(1) << last
            border = near[last]
            while border & before & ~inside:
                new = border & before & ~inside
                inside |= new
                for i in range(n_nodes):
                    if new >> i & 1:
                        border |= near[i]
            border &= ~gone
            degree = 0
            while border:
                border &= border - 1
                degree += 1
            wide = max(width[before], degree)
            if wide < width[gone]:
                width[gone] = wide
                choice[gone] = last
    gone = (1 << n_nodes) - 1
    for position in range(n_nodes - 1, -1, -1):
        order[position] = choice[gone]
        gone &= ~(1 << choice[gone])
    return width[(1 << n_nodes) - 1]


@kernel
def contraction_bound(n_nodes, edges):
    """A lower bound on the treewidth: the largest least degree met while contracting edges.

    The node of least degree is merged into its neighbour of least degree until one is left.
    """
    near = np.zeros((n_nodes, n_nodes), np.bool_)
    degree = np.zeros(n_nodes, np.intp)
    for e in range(edges.shape[0]):
        i, j = edges[e, 0], edges[e, 1]
        near[i, j] = True
        near[j, i] = True
        degree[i] += 1
        degree[j] += 1
    alive = np.ones(n_nodes, np.bool_)
    bound = 0
    for _ in range(n_nodes):
        node = -1
        for i in range(n_nodes):
            if alive[i] and (node < 0 or degree[i] < degree[node]):
                node = i
        bound = max(bound, degree[node])
        alive[node] = False
        into = -1
        for i in range(n_nodes):
            if near[node, i]:
                near[i, node] = False
                degree[i] -= 1
                if into < 0 or degree[i] < degree[into]:
                    into = i
        for i in range(n_nodes):
            if near[node, i] and i != into and not near[into, i]:
                near[into, i] = True
                near[i, into] = True
                degree[into] += 1
                degree[i] += 1
    return bound


@helper
def _sort(numbers):
    """In ascending order, by insertion: there are few."""
    for i in range(1, len(numbers)):
        number, at = numbers[i], i
        while at > 0 and numbers[at - 1] > number:
            numbers[at] = numbers[at - 1]
            at -= 1
        numbers[at] = number


@kernel
def later_neighbours(n_nodes, child, parent, sizes, members, first_child, next_child):
    """List the later neighbours of each node once filled in; return how many there are.

    child and parent (slots,) name the ends of every edge, child first; -1 where there is none.
    sizes (n+1,), members, first_child and next_child (n,), out: as `Buckets` has them. -1 where
    members is too short.
    """
    start, mark = np.zeros(n_nodes + 1, np.intp), np.full(n_nodes, -1, np.intp)
    for e in range(len(parent)):
        if parent[e] >= 0:
            start[child[e] + 1] += 1
    for i in range(n_nodes):
        start[i + 1] += start[i]
        first_child[i] = -1
        next_child[i] = -1
    fill = start[:-1].copy()
    above = np.empty(start[-1], np.intp)
    for e in range(len(parent)):
        if parent[e] >= 0:
            above[fill[child[e]]] = parent[e]
            fill[child[e]] += 1
    n_members = 0
    sizes[0] = 0
    for i in range(n_nodes):
        begin = n_members
        mark[i] = i
        c, at, end = -1, start[i], start[i + 1]  # neighbours in the graph, then those of children
        while True:
            for j in range(at, end):
                other = above[j] if c < 0 else members[j]
                if mark[other] != i:
                    if n_members == len(members):
                        return -1
                    mark[other] = i
                    members[n_members] = other
                    n_members += 1
            c = first_child[i] if c < 0 else next_child[c]
            if c < 0:
                break
            at, end = sizes[c], sizes[c + 1]
        sizes[i + 1] = n_members
        if n_members > begin:
            _sort(members[begin:n_members])
            next_child[i] = first_child[members[begin]]
            first_child[members[begin]] = i
    return n_members
