"""Sparse edge marginals: for the edge of each node a short list of pairs of labels with their mass.

Pairs are codes b * k + a for label b of the child and a of the parent; see `Marginals`.
"""

import numpy as np

from robustruct.kernels._jit import kernel

DUST = 1e-12  # smaller masses are removed from the support


@kernel
def repair_pairs(first, last, offsets, parent, marginals):
    """Make r and the pairs of samples first .. last-1 exactly consistent.

    Steps move masses with rounding, and dust is swept away on nodes and edges separately. Going up,
    labels and pairs that lost their counterpart are dropped; going down, each edge is rescaled to
    its parent's marginal.
    """
    r, pair, mass, count = marginals.r, marginals.pair, marginals.mass, marginals.count
    k = r.shape[1]
    total = np.empty(k)
    for i in range(offsets[first], offsets[last]):
        if parent[i] < 0:
            continue
        for a in range(k):
            total[a] = 0.0
        at = 0
        while at < count[i]:
            if r[i, pair[i, at] // k] == 0.0:
                count[i] -= 1
                pair[i, at] = pair[i, count[i]]
                mass[i, at] = mass[i, count[i]]
            else:
                total[pair[i, at] % k] += mass[i, at]
                at += 1
        for a in range(k):
            if total[a] == 0.0:
                r[parent[i], a] = 0.0
    for i in range(offsets[last] - 1, offsets[first] - 1, -1):
        for a in range(k):
            total[a] = 0.0
        if parent[i] < 0:
            whole = 0.0
            for b in range(k):
                whole += r[i, b]
            for b in range(k):
                r[i, b] /= whole
            continue
        for at in range(count[i]):
            total[pair[i, at] % k] += mass[i, at]
        for b in range(k):
            r[i, b] = 0.0
        at = 0
        while at < count[i]:
            above = r[parent[i], pair[i, at] % k]
            if above == 0.0:
                count[i] -= 1
                pair[i, at] = pair[i, count[i]]
                mass[i, at] = mass[i, count[i]]
                continue
            mass[i, at] *= above / total[pair[i, at] % k]
            r[i, pair[i, at] // k] += mass[i, at]
            at += 1


@kernel
def pair_sums(parent, table_of, share, marginals, out):
    """Add share[i] times the edge marginals of every node to its table in out (T, k, k)."""
    pair, mass, count = marginals.pair, marginals.mass, marginals.count
    k = out.shape[1]
    for i in range(len(parent)):
        if parent[i] >= 0:
            for at in range(count[i]):
                out[table_of[i], pair[i, at] // k, pair[i, at] % k] += share[i] * mass[i, at]


@kernel
def sparse_pairs(parent, q, marginals):
    """The pairs that carry mass in q (N, k, k)."""
    pair, mass, count = marginals.pair, marginals.mass, marginals.count
    k = q.shape[1]
    for i in range(len(parent)):
        count[i] = 0
        if parent[i] >= 0:
            for b in range(k):
                for a in range(k):
                    if q[i, b, a] > DUST:
                        pair[i, count[i]] = b * k + a
                        mass[i, count[i]] = q[i, b, a]
                        count[i] += 1


@kernel
def dense_pairs(parent, marginals, q):
    """The reverse: q (N, k, k), zero before."""
    pair, mass, count = marginals.pair, marginals.mass, marginals.count
    k = q.shape[1]
    for i in range(len(parent)):
        if parent[i] >= 0:
            for at in range(count[i]):
                q[i, pair[i, at] // k, pair[i, at] % k] += mass[i, at]
