"""Where the interior point starts: the part of a game that matters, and a strictly feasible point.

A labelling whose score is below the best one by more than Σ w (max L - min L) is never played, so
labels and pairs that occur in no better labelling are dropped; -inf drops the same way. What is left
is scaled so that costs span 1 and the largest weight is 1.
"""

from typing import NamedTuple

import numpy as np

from robustruct.kernels._jit import kernel
from robustruct.kernels.max_product import max_product_up


class Point(NamedTuple):
    """The iterate for one game, nodes counted from 0; room for the largest game of the range.

    A root is held as the edge to a parent with a single label, so that no step treats it apart.
    Entries of dropped pairs have x = inverse = 0; they stay at 0 in every formula.
    """

    parent: np.ndarray
    """(n,) intp; the node itself marks a root"""
    count: np.ndarray
    """(n,) intp labels kept at each node"""
    labels: np.ndarray
    """(n, k) intp, the labels kept"""
    weight: np.ndarray
    """(n,) scaled weight; 0 where the node's cost is dropped"""
    x: np.ndarray
    """(n, k, k) the adversary's edge marginals [label, label of the parent], > 0"""
    z: np.ndarray
    """(n, k, k) their slacks u(a) - B(b, a) - c(b), > 0"""
    inverse: np.ndarray
    """(n, k, k) 1 / z"""
    r: np.ndarray
    """(n, k) row sums of x"""
    p: np.ndarray
    """(n, k) the predictor, summing to the weight, > 0"""
    s: np.ndarray
    """(n, k) its slacks (L r)(a) - v, > 0"""


@kernel
def new_point(n, k):
    return Point(
        np.empty(n, np.intp),
        np.empty(n, np.intp),
        np.empty((n, k), np.intp),
        np.empty(n),
        np.empty((n, k, k)),
        np.empty((n, k, k)),
        np.empty((n, k, k)),
        np.empty((n, k)),
        np.empty((n, k)),
        np.empty((n, k)),
    )


@kernel
def parent_count(point, j):
    """Labels kept at the parent of node j; 1 above a root."""
    above = point.parent[j]
    return 1 if above == j else point.count[above]


@kernel
def reduce_game(lo, hi, parent, unary, tables, table_of, weight, spread, best, slack, point):
    """Fill structure, weights and, as x = 0 or 1, the pairs kept. False if no labelling is finite.

    ``spread`` is max L - min L. best and slack (N, k) are scratch: slack[i, b] ends as what label b
    at node i costs the best labelling.
    """
    k = unary.shape[1]
    max_product_up(lo, hi, parent, unary, tables, table_of, best)
    largest = 0.0
    for i in range(lo, hi):
        largest = max(largest, weight[i])
    # The cost at stake in each tree, gathered at its root; rounding decides nothing near the border.
    stake = np.zeros(hi - lo)
    for i in range(lo, hi):
        j = i - lo
        stake[j] += weight[i] * spread
        if parent[i] >= 0:
            stake[parent[i] - lo] += stake[j]
    for i in range(hi - 1, lo - 1, -1):
        j = i - lo
        above = parent[i]
        # A weight this small moves the value by less than rounding does.
        point.weight[j] = weight[i] / largest if weight[i] > 1e-13 * largest else 0.0
        if above < 0:
            point.parent[j] = j
            top = best[i].max()
            if not top > -np.inf:
                return False
            bound = stake[j] * (1.0 + 1e-9) + 1e-12 * abs(top)
            stake[j] = bound
            n = 0
            for b in range(k):
                slack[i, b] = top - best[i, b]
                if slack[i, b] <= bound:
                    point.labels[j, n] = b
                    point.x[j, n, 0] = 1.0
                    n += 1
            point.count[j] = n
            continue
        point.parent[j] = above - lo
        stake[j] = stake[above - lo]
        keep_pairs(i, j, above, lo, best, tables[table_of[i]], stake[j], slack, point)
    return True


@kernel
def keep_pairs(i, j, above, lo, best, table, bound, slack, point):
    """Labels of node i, and pairs with its parent's, that occur in a labelling within the bound."""
    k = best.shape[1]
    up = above - lo
    mp = point.count[up]
    message = np.empty(mp)
    for a in range(mp):
        label = point.labels[up, a]
        value = -np.inf
        for b in range(k):
            value = max(value, best[i, b] + table[b, label])
        message[a] = slack[above, label] + value
    n = 0
    for b in range(k):
        least = np.inf
        for a in range(mp):
            loss = message[a] - (best[i, b] + table[b, point.labels[up, a]])
            point.x[j, n, a] = 1.0 if loss <= bound else 0.0
            least = min(least, loss)
        slack[i, b] = least
        if least <= bound:
            point.labels[j, n] = b
            n += 1
    point.count[j] = n


@kernel
def start_point(lo, n, unary, tables, table_of, unit, loss, c, point):
    """A strictly feasible point near the middle: x spread evenly, slacks loosened messages.

    unit: what scores are divided by; loss (k, k) costs scaled to span 1; c (n, k) scratch.
    """
    k = loss.shape[0]
    for j in range(n):
        for a in range(k):
            point.p[j, a] = point.weight[j] / k
        for b in range(point.count[j]):
            c[j, b] = unary[lo + j, point.labels[j, b]] / unit
            for a in range(k):
                c[j, b] += point.p[j, a] * loss[a, point.labels[j, b]]
    for j in range(n):
        start_slacks(lo, j, tables, table_of, unit, c, point)
    for j in range(n - 1, -1, -1):
        start_marginals(j, loss, point)


@kernel
def start_slacks(lo, j, tables, table_of, unit, c, point):
    """z of the edge above node j, and the loosened message into c of its parent."""
    m = point.count[j]
    mp = parent_count(point, j)
    up = point.parent[j]
    table = tables[table_of[lo + j]]
    x, z = point.x[j], point.z[j]
    total = 0.0
    pairs = 0
    for a in range(mp):
        message = -np.inf
        for b in range(m):
            z[b, a] = 0.0
            if x[b, a] > 0.0:
                value = c[j, b]
                if up != j:
                    value += table[point.labels[j, b], point.labels[up, a]] / unit
                z[b, a] = value
                message = max(message, value)
        for b in range(m):
            if x[b, a] > 0.0:
                z[b, a] = message - z[b, a]
                total += z[b, a]
                pairs += 1
        if up != j:
            c[up, a] += message
    loosening = 0.1 + total / pairs
    for b in range(m):
        for a in range(mp):
            z[b, a] += loosening
            point.inverse[j, b, a] = 1.0 / z[b, a] if x[b, a] > 0.0 else 0.0
    # Only differences between the messages matter: keep them small on long chains.
    if up != j:
        top = -np.inf
        for a in range(mp):
            top = max(top, c[up, a])
        for a in range(mp):
            c[up, a] -= top


@kernel
def start_marginals(j, loss, point):
    """x of the edge above node j, even over the labels kept under each label of the parent; s."""
    k = loss.shape[0]
    m = point.count[j]
    mp = parent_count(point, j)
    up = point.parent[j]
    x = point.x[j]
    for b in range(m):
        point.r[j, b] = 0.0
    average = 0.0
    pairs = 0
    for a in range(mp):
        kept = 0
        for b in range(m):
            if x[b, a] > 0.0:
                kept += 1
        for b in range(m):
            if x[b, a] > 0.0:
                x[b, a] = (1.0 if up == j else point.r[up, a]) / kept
                point.r[j, b] += x[b, a]
                average += x[b, a] * point.z[j, b, a]
                pairs += 1
    if point.weight[j] == 0.0:
        return
    least = np.inf
    for a in range(k):
        value = 0.0
        for b in range(m):
            value += loss[a, point.labels[j, b]] * point.r[j, b]
        point.s[j, a] = value
        least = min(least, value)
    loosening = average / pairs * k / point.weight[j]
    for a in range(k):
        point.s[j, a] += loosening - least
