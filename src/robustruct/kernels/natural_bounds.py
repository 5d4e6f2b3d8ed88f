"""What the natural parameters of all samples, and any weights, prove: sums in float64.

Marginals are recomputed from the natural parameters, whatever rounding the visits have left.
"""

import numpy as np

from robustruct.core.structs import FREE, NOBODY
from robustruct.kernels._jit import quick_kernel, quick_part
from robustruct.kernels.gibbs import LEAST64, marginals, n_slots, true_edges, true_pair
from robustruct.kernels.lanes import NONE, ONE, dot, times_rows
from robustruct.kernels.registers import compact, double, eight, number, put, single, zeros


@quick_part
def gather_plain(begin, end, features, stride, shift, theta, out, at):
    """As `gather_rows`, from rows of θ that are not padded; the last eight overlap the others."""
    k, width = theta.shape[1], out.shape[1]
    put(zeros(out), out, (at + 1) * width - 8)
    if k < 8:
        for j in range(begin, end):
            row, value = features.indices[j] * stride + shift, features.data[j]
            for y in range(k):
                out[at, y] += value * theta[row, y]
        return
    for start in range(0, k, 8):
        a = min(start, k - 8)
        found = zeros(out)
        for j in range(begin, end):
            place = (number(features.indices, j) * stride + shift) * k + a
            found = found + eight(theta, place) * number(features.data, j)
        put(found, out, at * width + a)


@quick_part
def divide(rows, at, count, inverse, masks, kind):
    """Rows of scores times ``inverse``, plus masks[kind]."""
    width = rows.shape[1]
    for y in range(0, count * width, 8):
        score = eight(rows, at * width + y) * inverse
        put(score + double(eight(masks, kind * width + y)), rows, at * width + y)


@quick_part
def add_costs(i, node, samples, costs, player, scores, work):
    """scores[i] += w L'p for a node, with p = p0 or the truth."""
    k, width = len(costs.of_labels), scores.shape[1]
    p, added = work.share, work.message  # free until the sweep
    if player == FREE:
        mass = 0.0
        for a in range(k):
            mass += costs.p0[node, a]
        for a in range(k):
            p[0, a] = np.float64(costs.p0[node, a]) / mass
        times_rows(p, NONE, ONE, costs.of_predictor, NONE, k, added, NONE)
    else:
        for y in range(0, width, 8):
            put(eight(costs.of_predictor, samples.labels[node] * width + y), added, y)
    for y in range(0, width, 8):
        more = eight(added, y) * costs.weight[node]
        put(eight(scores, i * width + y) + more, scores, i * width + y)


@quick_part
def weight_scores(s, samples, linear, rules, game, scores, work):
    """scores = (θ·Φ + w L'p) / T of sample s; return what nodes add to θ·Φ(truth)."""
    features, theta, d = linear
    costs, settings, _ = game
    nodes, edges, k, inverse = features.nodes, features.edges, work.k, 1.0 / settings.temperature
    lo, n = samples.offsets[s], samples.offsets[s + 1] - samples.offsets[s]
    truth = 0.0
    for i in range(n):
        begin, end = nodes.indptr[lo + i], nodes.indptr[lo + i + 1]
        gather_plain(begin, end, nodes, ONE, NONE, theta, scores, i)
        truth += scores[i, samples.labels[lo + i]]
        if settings.player != NOBODY:
            add_costs(i, lo + i, samples, costs, settings.player, scores, work)
        divide(scores, i, ONE, inverse, rules.unary_mask, rules.node_kind[lo + i])
    start = samples.table_start[s]
    for t in range(samples.table_start[s + 1] - start):
        at, to = samples.row[start + t], n + t * k
        begin, end = edges.indptr[at], edges.indptr[at + 1]
        for x in range(k):
            gather_plain(begin, end, edges, k, d + x, theta, scores, to + x)
        divide(scores, to, k, inverse, rules.pair_mask, NONE)
    return truth


@quick_part
def natural_scores(s, samples, adversary, scores, k):
    """scores = the natural parameters of sample s."""
    first, count = own_rows(s, samples, k)
    width = scores.shape[1]
    for y in range(0, count * width, 8):
        put(double(eight(adversary.natural, first * width + y)), scores, y)


@quick_part
def own_rows(s, samples, k):
    """(The first, how many) rows are those of sample s."""
    lo, start = samples.offsets[s], samples.table_start[s]
    return lo + k * start, samples.offsets[s + 1] - lo + k * (samples.table_start[s + 1] - start)


@quick_part
def keep(s, samples, share, adversary, log_z, scores, found, k, sums):
    """Take over the marginals ``found``: see `natural_bounds`."""
    r, row_sums, _ = sums
    first, count = own_rows(s, samples, k)
    lo, n, width = samples.offsets[s], samples.offsets[s + 1] - samples.offsets[s], scores.shape[1]
    for i in range(count):
        log_z -= dot(found, i, scores, i)
    adversary.entropy[s] = max(log_z, 0.0)
    for y in range(0, count * width, 8):
        put(single(eight(found, y)), adversary.marginals, first * width + y)
    for i in range(n):
        for y in range(k):
            r[lo + i, y] = found[i, y]
    start = samples.table_start[s]
    for t in range(samples.table_start[s + 1] - start):
        for x in range(k):
            for y in range(k):
                row_sums[samples.row[start + t], x, y] -= share[s] * found[n + t * k + x, y]
    for at in range(n_slots(s, samples)):
        t, x, y = true_pair(s, at, samples)
        if t >= 0:
            row_sums[samples.row[start + t], x, y] += share[s]


@quick_kernel
def natural_bounds(
    of_weights, first, last, samples, trees, rules, linear, game, adversary, work, out
):
    """What the weights, or the adversaries, of samples first .. last-1 amount to.

    One kernel for both, as marginals are most of what has to be compiled.

    of_weights: regrets[s] = T log Z((θ·Φ + w L'p) / T) − θ·Φ(truth), with p = p0. game: (costs,
        settings, share). linear: (features, θ (rows, k), how many rows are of features of nodes).
    else: marginals are recomputed, into r (N, k), and share_s times (truth − edge marginals) is
        added to row_sums (rows of edge features, k, k); the adversary's own marginals and entropies
        are set to what was found.

    work: (`GibbsScratch`, rows for scores, rows for marginals), float64. out: (r, row_sums,
    regrets).
    """
    compact()
    scratch, scores, found = work
    _, settings, share = game
    k = scratch.k
    for s in range(first, last):
        truth = 0.0
        if of_weights:
            truth = weight_scores(s, samples, linear, rules, game, scores, scratch)
        else:
            natural_scores(s, samples, adversary, scores, k)
        log_z = marginals(LEAST64, s, samples, trees, scores, scratch, not of_weights, found)
        if of_weights:
            truth += settings.temperature * true_edges(s, samples, scores, k)
            out[2][s] = settings.temperature * log_z - truth
        else:
            keep(s, samples, share, adversary, log_z, scores, found, k, out)
