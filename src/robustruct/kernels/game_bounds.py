"""What any pair of strategies proves about a game, and how strategies are made feasible."""

import numpy as np

from robustruct.kernels._jit import helper, kernel
from robustruct.kernels.max_product import max_product_up


@kernel
def augmented_unary(lo, hi, unary, cost, weight, p, out):
    """out[i, b] = unary[i, b] + weight[i] Σ_a p[i, a] cost[a, b]: what the adversary sees."""
    k = unary.shape[1]
    for i in range(lo, hi):
        for b in range(k):
            out[i, b] = 0.0
        for a in range(k):
            share = weight[i] * p[i, a]
            if share != 0.0:
                for b in range(k):
                    out[i, b] += share * cost[a, b]
        for b in range(k):
            out[i, b] += unary[i, b]


@kernel
def sum_largest(game, out):
    """out[s] = sum over nodes and edges of the largest finite score and weighted cost."""
    offsets, chord_offsets = game.structure.offsets, game.structure.chord_offsets
    parent, weight = game.structure.parent, game.weight
    unary, tables, table_of = game.scores.unary, game.scores.tables, game.scores.table_of
    k = unary.shape[1]
    dearest = 0.0
    for a in range(k):
        for b in range(k):
            dearest = max(dearest, abs(game.cost[a, b]))
    of_table = np.zeros(len(tables))
    for t in range(len(tables)):
        for b in range(k):
            for a in range(k):
                size = abs(tables[t, b, a])
                if of_table[t] < size < np.inf:
                    of_table[t] = size
    for s in range(len(offsets) - 1):
        out[s] = 0.0
        for i in range(offsets[s], offsets[s + 1]):
            largest = 0.0
            for b in range(k):
                if largest < abs(unary[i, b]) < np.inf:
                    largest = abs(unary[i, b])
            out[s] += largest + weight[i] * dearest
            if parent[i] >= 0:
                out[s] += of_table[table_of[i]]
        for c in range(chord_offsets[s], chord_offsets[s + 1]):
            out[s] += of_table[table_of[len(unary) + c]]


@kernel
def game_upper(first, last, game, p, upper):
    """upper[s] = max over labellings of the augmented score: p can be held to no more than this."""
    offsets, parent = game.structure.offsets, game.structure.parent
    cost, weight = game.cost, game.weight
    unary, tables, table_of = game.scores.unary, game.scores.tables, game.scores.table_of
    k = unary.shape[1]
    zero = np.intp(0)  # a plain 0 has a type of its own, and code for it
    longest = 0
    for s in range(first, last):
        longest = max(longest, offsets[s + 1] - offsets[s])
    up = np.empty(longest, np.intp)
    augmented = np.empty((longest, k))
    best = np.empty((longest, k))
    for s in range(first, last):
        lo, hi = offsets[s], offsets[s + 1]
        n = hi - lo
        for i in range(n):
            up[i] = parent[lo + i] - lo if parent[lo + i] >= 0 else -1
        augmented_unary(zero, n, unary[lo:hi], cost, weight[lo:hi], p[lo:hi], augmented)
        max_product_up(zero, n, up, augmented, tables, table_of[lo:hi], best)
        total = 0.0
        for i in range(n):
            if up[i] < 0:
                value = best[i, 0]
                for b in range(1, k):
                    value = best[i, b] if best[i, b] > value else value
                total += value
        upper[s] = total


@kernel
def game_lower(first, last, game, r, q, lower):
    """lower[s] = <ψ, q> + Σ_i weight[i] min_a (cost r_i)_a: q secures at least this.

    The predictor answers with labels whose own score is not -inf.
    r (N, k) and q (slots, k, k) [child, parent] must be consistent; mass 0 times score -inf is 0.
    Chords are left to `add_chords`.
    """
    offsets, parent = game.structure.offsets, game.structure.parent
    cost, weight = game.cost, game.weight
    unary, tables, table_of = game.scores.unary, game.scores.tables, game.scores.table_of
    k = unary.shape[1]
    for s in range(first, last):
        total = 0.0
        for i in range(offsets[s], offsets[s + 1]):
            for b in range(k):
                if r[i, b] != 0.0:
                    total += r[i, b] * unary[i, b]
            if parent[i] >= 0:
                table = tables[table_of[i]]
                for b in range(k):
                    for a in range(k):
                        if q[i, b, a] != 0.0:
                            total += q[i, b, a] * table[b, a]
            if weight[i] != 0.0:
                total += weight[i] * least_cost(i, cost, unary, r)
        lower[s] = total


@helper
def least_cost(i, cost, unary, r):
    """min_a (cost r_i)_a, over the labels a that node i may have."""
    k = unary.shape[1]
    least = np.inf
    for a in range(k):
        if unary[i, a] == -np.inf:
            continue
        value = 0.0
        for b in range(k):
            value += cost[a, b] * r[i, b]
        least = value if value < least else least
    return least


@kernel
def add_chords(game, q, lower):
    """Add what chords score under q to lower (S,)."""
    chord_offsets, n_nodes = game.structure.chord_offsets, len(game.scores.unary)
    tables, table_of = game.scores.tables, game.scores.table_of
    k = tables.shape[1]
    for s in range(len(lower)):
        for slot in range(n_nodes + chord_offsets[s], n_nodes + chord_offsets[s + 1]):
            table = tables[table_of[slot]]
            for b in range(k):
                for a in range(k):
                    if q[slot, b, a] != 0.0:
                        lower[s] += q[slot, b, a] * table[b, a]


@helper
def normalise_predictor(unary, p):
    """p (k,) on the simplex over the labels whose score is not -inf; even where it has no mass."""
    total, labels = 0.0, 0
    for b in range(len(p)):
        if not p[b] > 0.0 or unary[b] == -np.inf:  # the first also catches NaN
            p[b] = 0.0
        total += p[b]
        labels += unary[b] > -np.inf
    for b in range(len(p)):
        if total > 0.0:
            p[b] /= total
        else:
            p[b] = 1.0 / labels if unary[b] > -np.inf else 0.0


@kernel
def normalise_predictors(lo, hi, unary, p):
    """`normalise_predictor` for nodes lo .. hi-1."""
    for i in range(lo, hi):
        normalise_predictor(unary[i], p[i])


@kernel
def make_feasible(first, last, structure, scores, played):
    """Repair p, r and q in place: p and r on the simplex, q consistent with r on every edge.

    p is clipped and normalised, with no mass where a label's own score is -inf. The adversary is
    rebuilt from the roots down, keeping each child's distribution given its parent's label; a label
    of the parent whose column of q is empty takes the child's best labelling of its subtree
    instead, so no forbidden pair is ever used.
    """
    offsets, parent = structure.offsets, structure.parent
    unary, tables, table_of = scores.unary, scores.tables, scores.table_of
    p, r, q = played.p, played.r, played.q
    k = unary.shape[1]
    best = np.empty_like(unary)
    for s in range(first, last):
        lo, hi = offsets[s], offsets[s + 1]
        max_product_up(lo, hi, parent, unary, tables, table_of, best)
        for i in range(hi - 1, lo - 1, -1):
            normalise_predictor(unary[i], p[i])
            above = parent[i]
            if above < 0:
                total = 0.0
                for b in range(k):
                    if not r[i, b] > 0.0 or best[i, b] == -np.inf:
                        r[i, b] = 0.0
                    total += r[i, b]
                if total > 0.0:
                    for b in range(k):
                        r[i, b] /= total
                else:
                    choice = 0
                    for b in range(1, k):
                        choice = b if best[i, b] > best[i, choice] else choice
                    r[i, choice] = 1.0
                for b in range(k):
                    for a in range(k):
                        q[i, b, a] = 0.0
                continue
            table = tables[table_of[i]]
            for a in range(k):
                total = 0.0
                for b in range(k):
                    allowed = best[i, b] + table[b, a] > -np.inf
                    if not q[i, b, a] > 0.0 or not allowed:
                        q[i, b, a] = 0.0
                    total += q[i, b, a]
                mass = r[above, a]
                if mass == 0.0:
                    for b in range(k):
                        q[i, b, a] = 0.0
                elif total > 0.0:
                    for b in range(k):
                        q[i, b, a] *= mass / total
                else:
                    choice = 0
                    value = -np.inf
                    for b in range(k):
                        candidate = best[i, b] + table[b, a]
                        if candidate > value:
                            value = candidate
                            choice = b
                    q[i, choice, a] = mass
            for b in range(k):
                total = 0.0
                for a in range(k):
                    total += q[i, b, a]
                r[i, b] = total
