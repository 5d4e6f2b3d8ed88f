"""What the natural parameters of all samples, and any weights, prove: sums in float64.

Marginals are recomputed from the natural parameters, whatever rounding the visits have left.
"""

import numpy as np

from robustruct.kernels._jit import quick_kernel
from robustruct.kernels.gibbs import (
    LEAST64,
    enter,
    gibbs_scratch,
    marginals,
    n_slots,
    true_edges,
    true_pair,
)
from robustruct.kernels.linear import row_product
from robustruct.kernels.structs import FREE, NOBODY


@quick_kernel
def natural_marginals(first, last, samples, trees, share, adversary, longest, r, row_sums):
    """Marginals of the adversaries of samples first .. last-1, recomputed.

    r (N, k) float64, out. row_sums (rows of edge features, k, k): share_s times (truth − edge
    marginals) is added. adversary: its marginals and entropies are set to what was found. longest:
    (most nodes, most tables) of a sample.
    """
    k, width = adversary.tables.shape[1], adversary.psi.shape[1]
    n, m = longest
    scores, node_marginals = np.zeros((n, width)), np.zeros((n, width))
    tables, sums = np.zeros((m, k, width)), np.zeros((m, k, width))
    scratch = gibbs_scratch(scores, n, m, k)
    for s in range(first, last):
        lo, hi = samples.offsets[s], samples.offsets[s + 1]
        start, end = samples.table_start[s], samples.table_start[s + 1]
        enter(s, samples, scratch[0])
        for i in range(hi - lo):
            for y in range(width):
                scores[i, y] = adversary.psi[lo + i, y]
        for t in range(end - start):
            for x in range(k):
                for y in range(width):
                    tables[t, x, y] = adversary.tables[start + t, x, y]
        entropy = marginals(
            LEAST64, s, samples, trees, scores, tables, scratch, node_marginals, sums
        )
        for i in range(hi - lo):
            for y in range(k):
                r[lo + i, y] = node_marginals[i, y]
                entropy -= node_marginals[i, y] * scores[i, y]
            for y in range(width):
                adversary.r[lo + i, y] = node_marginals[i, y]
        for t in range(end - start):
            for x in range(k):
                for y in range(k):
                    entropy -= sums[t, x, y] * tables[t, x, y]
                    row_sums[samples.row[start + t], x, y] -= share[s] * sums[t, x, y]
                for y in range(width):
                    adversary.sums[start + t, x, y] = sums[t, x, y]
        adversary.entropy[s] = max(entropy, 0.0)
        for at in range(n_slots(s, samples)):
            t, x, y = true_pair(s, at, samples)
            if t >= 0:
                row_sums[samples.row[start + t], x, y] += share[s]


@quick_kernel
def natural_regrets(
    first, last, samples, trees, features, weights, rules, costs, settings, longest, regrets
):
    """regrets[s] = T log Z((θ·Φ + w L'p) / T) − θ·Φ(truth) of samples first .. last-1, p = p0."""
    k, width = weights.node.shape[1], rules.unary_mask.shape[1]
    n, m = longest
    scores, r = np.zeros((n, width)), np.zeros((n, width))
    tables, sums = np.zeros((m, k, width)), np.zeros((m, k, width))
    scratch = gibbs_scratch(scores, n, m, k)
    base, row, flat = np.zeros(k), np.empty(k), np.empty(k * k)
    inverse, nodes = 1.0 / settings.temperature, features.nodes
    for s in range(first, last):
        lo, hi = samples.offsets[s], samples.offsets[s + 1]
        first_table, n_tables = samples.table_start[s], samples.table_start[s + 1]
        n_tables -= first_table
        enter(s, samples, scratch[0])
        truth = 0.0
        for i in range(lo, hi):
            begin, end = nodes.indptr[i], nodes.indptr[i + 1]
            row_product(begin, end, nodes.indices, nodes.data, weights.node, base, row)
            truth += row[samples.labels[i]]
            if settings.player == FREE:
                total = 0.0
                for a in range(k):
                    total += costs.p0[i, a]
                for a in range(k):
                    p = costs.weight[i] * (np.float64(costs.p0[i, a]) / total)
                    if p > 0.0:
                        for y in range(k):
                            row[y] += p * costs.of_predictor[a, y]
            elif settings.player != NOBODY:
                for y in range(k):
                    row[y] += costs.weight[i] * costs.of_predictor[samples.labels[i], y]
            mask = rules.unary_mask[rules.node_kind[i]]
            for y in range(k):
                scores[i - lo, y] = row[y] * inverse + mask[y]
            for y in range(k, width):
                scores[i - lo, y] = mask[y]
        for t in range(n_tables):
            at = samples.row[first_table + t]
            for code in range(k * k):
                flat[code] = 0.0
            for j in range(features.edges.indptr[at], features.edges.indptr[at + 1]):
                value, edge = features.edges.data[j], weights.edge[features.edges.indices[j]]
                for code in range(k * k):
                    flat[code] += value * edge[code]
            for x in range(k):
                for y in range(k):
                    tables[t, x, y] = flat[x * k + y] * inverse + rules.pair_mask[x, y]
                for y in range(k, width):
                    tables[t, x, y] = rules.pair_mask[x, y]
        truth += settings.temperature * true_edges(s, samples, tables)
        log_z = marginals(LEAST64, s, samples, trees, scores, tables, scratch, r, sums)
        regrets[s] = settings.temperature * log_z - truth
