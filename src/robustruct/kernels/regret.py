"""How much worse than the best labelling: scores rewritten as losses against max-product."""

import numpy as np

from robustruct.kernels._jit import kernel
from robustruct.kernels.max_product import max_product_up


@kernel
def regrets(first, last, offsets, parent, unary, tables, table_of, node, edge, top):
    """Rewrite each score(y) as top[s] + Σ_roots node[root, y] + Σ_i edge[i, y_i, y_parent(i)].

    All terms are <= 0. node (N, k), out: the best labelling with label b at i, minus the best one;
    edge (N, k, k), out, [child, parent]: zero at roots; -inf where a pair is forbidden. The sum
    above uses ``node`` of the roots only. top (S,), out: the score of the best labelling.
    """
    k = unary.shape[1]
    best = np.empty_like(unary)
    for s in range(first, last):
        lo, hi = offsets[s], offsets[s + 1]
        max_product_up(lo, hi, parent, unary, tables, table_of, best)
        top[s] = 0.0
        for i in range(hi - 1, lo - 1, -1):
            above = parent[i]
            if above < 0:
                value = -np.inf
                for b in range(k):
                    value = max(value, best[i, b])
                top[s] += value
                for b in range(k):
                    node[i, b] = best[i, b] - value
                    for a in range(k):
                        edge[i, b, a] = 0.0
                continue
            table = tables[table_of[i]]
            for b in range(k):
                node[i, b] = -np.inf
            for a in range(k):
                message = -np.inf
                for b in range(k):
                    edge[i, b, a] = best[i, b] + table[b, a]
                    message = max(message, edge[i, b, a])
                for b in range(k):
                    if message == -np.inf:
                        edge[i, b, a] = -np.inf
                    else:
                        edge[i, b, a] -= message
                        node[i, b] = max(node[i, b], node[above, a] + edge[i, b, a])
