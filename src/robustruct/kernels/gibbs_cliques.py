"""Marginals of one sample's Gibbs distribution on a graph with cycles, over its junction tree."""

import numpy as np

from robustruct.core.structs import Gibbs, JunctionTrees
from robustruct.kernels._jit import helper, part
from robustruct.kernels.buckets import bucket_sum


@part
def _local_trees(s, samples, trees):
    """The junction tree of sample s, with nodes counted from its first.

    Own tables count twice: as they are, and transposed for edges listed (parent, child).
    """
    lo, hi = samples.offsets[s], samples.offsets[s + 1]
    n = hi - lo
    first, last = samples.chord_offsets[s], samples.chord_offsets[s + 1]
    n_nodes = samples.offsets[-1]
    m = samples.table_start[s + 1] - samples.table_start[s]
    size = n + last - first
    parent = np.empty(size, np.intp)
    table_of = np.empty(size, np.intp)
    for at in range(size):
        slot = lo + at if at < n else n_nodes + first + at - n
        parent[at] = samples.parent[slot] - lo if samples.parent[slot] >= 0 else -1
        table_of[at] = samples.table[slot] + m * samples.transposed[slot]
    offsets = np.empty(n + 1, np.intp)
    chord_start = np.empty(n + 1, np.intp)
    for i in range(n + 1):
        offsets[i] = trees.offsets[lo + i] - trees.offsets[lo]
        chord_start[i] = trees.chord_start[lo + i] - trees.chord_start[lo]
    members = np.empty(offsets[n], np.intp)
    for j in range(offsets[n]):
        members[j] = trees.members[trees.offsets[lo] + j] - lo
    first_child = np.empty(n, np.intp)
    next_child = np.empty(n, np.intp)
    for i in range(n):
        child, after = trees.first_child[lo + i], trees.next_child[lo + i]
        first_child[i] = child - lo if child >= 0 else -1
        next_child[i] = after - lo if after >= 0 else -1
    return JunctionTrees(parent, table_of, offsets, members, first_child, next_child, chord_start)


@helper
def clique_marginals(s, samples, trees, scores, out, k):
    """Into ``out`` the marginals of sample s under its scores; return log Z.

    Both are rows of float32 or float64: of the nodes, then of the own tables.
    """
    n = samples.offsets[s + 1] - samples.offsets[s]
    m = samples.table_start[s + 1] - samples.table_start[s]
    local = _local_trees(s, samples, trees)
    unary = np.empty((n, k))
    both = np.empty((2 * max(m, 1), k, k))
    marginal = np.empty((n, k))
    added = np.zeros((2 * max(m, 1), k, k))
    for i in range(n):
        for y in range(k):
            unary[i, y] = scores[i, y]
    for t in range(m):
        for x in range(k):
            for y in range(k):
                both[t, x, y] = scores[n + t * k + x, y]
                both[m + t, y, x] = scores[n + t * k + x, y]
    offsets = np.empty(2, np.intp)
    offsets[0], offsets[1] = 0, n
    log_z = np.empty(1)
    gibbs = Gibbs(log_z, marginal, np.empty((0, k, k)), added)
    bucket_sum(0, 1, offsets, local, unary, both, np.ones(1), gibbs)
    for i in range(n):
        for y in range(k):
            out[i, y] = marginal[i, y]
        for y in range(k, out.shape[1]):
            out[i, y] = 0.0
    for t in range(m):
        for x in range(k):
            to = n + t * k + x
            for y in range(k):
                out[to, y] = added[t, x, y] + added[m + t, y, x]
            for y in range(k, out.shape[1]):
                out[to, y] = 0.0
    return log_z[0]
