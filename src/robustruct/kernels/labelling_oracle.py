"""The labelling oracle of training: the scores of a sample, its best and its worst labelling.

Everything about the sample is counted from its first node (`own_*` give the views). What the tuples
hold: core/structs.py.
"""

import numpy as np

from robustruct.core.structs import (
    Design,
    Features,
    Marginals,
    Predictor,
    Rows,
    Rules,
    Sample,
    SampleScores,
)
from robustruct.kernels._jit import helper, part
from robustruct.kernels.linear import row_product
from robustruct.kernels.max_product import max_product_down, max_product_up
from robustruct.kernels.predictor import answer, expected_cost, least, stays


@helper
def own_structure(s, structure, table_of, out):
    """Sample s on its own, put into ``out``."""
    lo, hi = structure.offsets[s], structure.offsets[s + 1]
    n = hi - lo
    for i in range(n):
        above = structure.parent[lo + i]
        out.child[i] = i
        out.parent[i] = above - lo if above >= 0 else -1
        out.table_of[i] = table_of[lo + i]
    m = n
    n_nodes = structure.offsets[-1]
    for chord in range(structure.chord_offsets[s], structure.chord_offsets[s + 1]):
        out.child[m] = structure.child[n_nodes + chord] - lo
        out.parent[m] = structure.parent[n_nodes + chord] - lo
        out.table_of[m] = table_of[n_nodes + chord]
        m += 1
    return Sample(n, m, out.child, out.parent, out.table_of)


@part
def own_design(lo, hi, design):
    """What scores nodes lo .. hi-1."""
    features, rules = design.features, design.rules
    nodes = Rows(features.nodes.indptr[lo : hi + 1], features.nodes.indices, features.nodes.data)
    kinds = Rules(rules.node_kind[lo:hi], rules.unary_mask, rules.pair_mask)
    return Design(Features(nodes, features.edges), design.tables, kinds)


@part
def own_predictor(lo, hi, predictor):
    """The predictor on nodes lo .. hi-1."""
    return Predictor(
        predictor.cost,
        predictor.cost_t,
        predictor.spread,
        predictor.tolerance,
        predictor.mu,
        predictor.inv_mu,
        predictor.weight[lo:hi],
        predictor.centre[lo:hi],
    )


@part
def own_marginals(lo, hi, adversary):
    """The adversary on nodes lo .. hi-1 and their edges."""
    return Marginals(
        adversary.r[lo:hi], adversary.pair[lo:hi], adversary.mass[lo:hi], adversary.count[lo:hi]
    )


@part
def own_scores(number, buffers):
    """The scores of one of several samples."""
    return SampleScores(
        buffers.unary[number],
        buffers.augmented[number],
        buffers.tables[number],
        buffers.place[number],
        buffers.distinct[number],
    )


@helper
def gather_scores(sample, design, weights, place_of, scores):
    """The scores of the sample under the weights. place_of (T,): scratch, -1 before and after."""
    nodes, rules = design.features.nodes, design.rules
    for i in range(sample.n):
        row_product(
            nodes.indptr[i],
            nodes.indptr[i + 1],
            nodes.indices,
            nodes.data,
            weights.node,
            rules.unary_mask[rules.node_kind[i]],
            scores.unary[i],
        )
    used = 0
    for j in range(sample.m):
        if sample.parent[j] < 0:
            scores.place[j] = 0
            continue
        t = sample.table_of[j]
        if place_of[t] < 0:
            place_of[t] = used
            scores.distinct[used] = t
            row, edges, table = design.tables.row[t], design.features.edges, scores.tables[used]
            row_product(
                edges.indptr[row],
                edges.indptr[row + 1],
                edges.indices,
                edges.data,
                weights.edge,
                rules.pair_mask,
                table.reshape(table.size),
            )
            if design.tables.transposed[t] == 1:
                for b in range(len(table)):
                    for a in range(b):
                        table[b, a], table[a, b] = table[a, b], table[b, a]
            used += 1
        scores.place[j] = place_of[t]
    for u in range(used):
        place_of[scores.distinct[u]] = -1


@helper
def augment(n, predictor, r, unary, augmented):
    """augmented = unary + w L'p; return the predictor's regret, Σ w (p'Lr - min L r).

    The predictor answers with labels whose unary score is not -inf.
    """
    k = unary.shape[1]
    cost, held = predictor.cost, predictor.inv_mu[0] == 0.0
    p = np.empty(k)
    expected = np.empty(k)
    regret = 0.0
    for i in range(n):
        out = augmented[i]
        weight = predictor.weight[i]
        for b in range(k):
            out[b] = unary[i, b]
        if held:
            for a in range(k):
                p[a] = predictor.centre[i, a]
        else:
            expected_cost(r[i], predictor.cost_t, unary[i], expected)
            lowest = least(expected)
            label = stays(predictor.centre[i], expected, lowest)
            if label >= 0:
                for b in range(k):
                    out[b] += weight * cost[label, b]
                continue
            answer(predictor.centre[i], expected, predictor.mu, predictor.inv_mu, p)
            regret -= weight * lowest
        for a in range(k):
            if p[a] > 0.0:
                share = weight * p[a]
                for b in range(k):
                    out[b] += share * cost[a, b]
                if not held:
                    regret += share * expected[a]
    return regret


@helper
def _own_score(sample, adversary, scores):
    """What the sample's marginals score: <augmented, r> + <tables, q>."""
    k = scores.augmented.shape[1]
    value = 0.0
    for i in range(sample.n):
        for b in range(k):
            if adversary.r[i, b] != 0.0:
                value += adversary.r[i, b] * scores.augmented[i, b]
        if sample.parent[i] >= 0:
            table = scores.tables[scores.place[i]]
            for at in range(adversary.count[i]):
                code = adversary.pair[i, at]
                value += adversary.mass[i, at] * table[code // k, code % k]
    return value


@helper
def _worst_in_support(sample, adversary, scores, lowest, labels):
    """Lowest-scoring labelling whose nodes and edges all carry mass, into labels (n,).

    lowest (n, k): scratch. False if there is none: marginals that rounding made inconsistent.
    """
    pair, count, parent = adversary.pair, adversary.count, sample.parent
    k = lowest.shape[1]
    message = np.empty(k)
    for i in range(sample.n):
        for b in range(k):
            lowest[i, b] = scores.augmented[i, b] if adversary.r[i, b] > 0.0 else np.inf
    for i in range(sample.n):
        if parent[i] < 0:
            continue
        for a in range(k):
            message[a] = np.inf
        table = scores.tables[scores.place[i]]
        for at in range(count[i]):
            b = pair[i, at] // k
            a = pair[i, at] % k
            value = lowest[i, b] + table[b, a]
            message[a] = value if value < message[a] else message[a]
        for a in range(k):
            lowest[parent[i], a] += message[a]
    for i in range(sample.n - 1, -1, -1):
        choice = -1
        value = np.inf
        if parent[i] < 0:
            for b in range(k):
                if lowest[i, b] < value:
                    value = lowest[i, b]
                    choice = b
        else:
            above = labels[parent[i]]
            table = scores.tables[scores.place[i]]
            for at in range(count[i]):
                b = pair[i, at] // k
                if pair[i, at] % k == above and lowest[i, b] + table[b, above] < value:
                    value = lowest[i, b] + table[b, above]
                    choice = b
        if choice < 0:
            return False
        labels[i] = choice
    return True


@part
def find_move(sample, predictor, adversary, scores, messages, enough, move):
    """The best labelling and the worst one in the support, under the scores as they are.

    Return (gap, the predictor's regret, whether mass should move). No worst labelling is looked
    for where the gap is at most ``enough``. messages (n, k): scratch.
    """
    n, zero = sample.n, np.intp(0)  # a plain 0 has a type of its own, and code for it
    regret = augment(n, predictor, adversary.r, scores.unary, scores.augmented)
    max_product_up(zero, n, sample.parent, scores.augmented, scores.tables, scores.place, messages)
    gap = max_product_down(zero, n, sample.parent, scores.tables, scores.place, messages, move.best)
    gap -= _own_score(sample, adversary, scores)
    moves = gap > enough and _worst_in_support(sample, adversary, scores, messages, move.worst)
    if moves:
        cost_margins(n, scores, move)
    return gap, regret, moves


@part
def cost_margins(n, scores, move):
    """What costs add to the score of the best labelling over that of the worst, node by node."""
    unary, augmented = scores.unary, scores.augmented
    for i in range(n):
        a, b = move.best[i], move.worst[i]
        move.cost_margin[i] = augmented[i, a] - unary[i, a] - augmented[i, b] + unary[i, b]
