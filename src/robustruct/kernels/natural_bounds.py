"""What the natural parameters of all samples, and any weights, prove: sums in float64.

Marginals are recomputed from the natural parameters, whatever rounding the visits have left.
"""

import numpy as np

from robustruct.kernels._jit import quick_kernel
from robustruct.kernels.gibbs import LEAST64, enter, gibbs_scratch, marginals
from robustruct.kernels.linear import row_product
from robustruct.kernels.smooth_structs import FREE, NOBODY


@quick_kernel
def natural_marginals(first, last, samples, trees, rows, share, adversary, longest, r, row_sums):
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
    n_nodes = samples.offsets[-1]
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
                    row_sums[rows[start + t], x, y] -= share[s] * sums[t, x, y]
                for y in range(width):
                    adversary.sums[start + t, x, y] = sums[t, x, y]
        adversary.entropy[s] = max(entropy, 0.0)
        for at in range(hi - lo + samples.chord_offsets[s + 1] - samples.chord_offsets[s]):
            slot = lo + at
            if slot >= hi:
                slot = n_nodes + samples.chord_offsets[s] + at - (hi - lo)
            if samples.parent[slot] < 0:
                continue
            x, y = samples.labels[samples.child[slot]], samples.labels[samples.parent[slot]]
            if samples.turned[slot] == 1:
                x, y = y, x
            row_sums[rows[start + samples.table[slot]], x, y] += share[s]


@quick_kernel
def natural_regrets(
    first, last, samples, trees, features, weights, rules, costs, settings, longest, regrets
):
    """regrets[s] = T log Z((θ·Φ + w L'p) / T) − θ·Φ(truth) of samples first .. last-1, p = p0."""
    k, width = weights.nodes.shape[1], rules.nodes.shape[1]
    n, m = longest
    scores, r = np.zeros((n, width)), np.zeros((n, width))
    tables, sums = np.zeros((m, k, width)), np.zeros((m, k, width))
    scratch = gibbs_scratch(scores, n, m, k)
    base, row, flat = np.zeros(k), np.empty(k), np.empty(k * k)
    inverse = 1.0 / settings.temperature
    n_nodes = samples.offsets[-1]
    for s in range(first, last):
        lo, hi = samples.offsets[s], samples.offsets[s + 1]
        start, end = samples.table_start[s], samples.table_start[s + 1]
        enter(s, samples, scratch[0])
        truth = 0.0
        for i in range(lo, hi):
            row_product(
                features.x_indptr[i], features.x_indptr[i + 1], features.x_indices,
                features.x_data, weights.nodes, base, row,
            )  # fmt: skip
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
            mask = rules.nodes[rules.kind[i]]
            for y in range(k):
                scores[i - lo, y] = row[y] * inverse + mask[y]
            for y in range(k, width):
                scores[i - lo, y] = mask[y]
        for t in range(end - start):
            at = features.row[start + t]
            for code in range(k * k):
                flat[code] = 0.0
            for j in range(features.f_indptr[at], features.f_indptr[at + 1]):
                value, edge = features.f_data[j], weights.edges[features.f_indices[j]]
                for code in range(k * k):
                    flat[code] += value * edge[code]
            for x in range(k):
                for y in range(k):
                    tables[t, x, y] = flat[x * k + y] * inverse + rules.pairs[x, y]
                for y in range(k, width):
                    tables[t, x, y] = rules.pairs[x, y]
        for at in range(hi - lo + samples.chord_offsets[s + 1] - samples.chord_offsets[s]):
            slot = lo + at
            if slot >= hi:
                slot = n_nodes + samples.chord_offsets[s] + at - (hi - lo)
            if samples.parent[slot] < 0:
                continue
            x, y = samples.labels[samples.child[slot]], samples.labels[samples.parent[slot]]
            if samples.turned[slot] == 1:
                x, y = y, x
            truth += settings.temperature * tables[samples.table[slot], x, y]
        log_z = marginals(LEAST64, s, samples, trees, scores, tables, scratch, r, sums)
        regrets[s] = settings.temperature * log_z - truth
