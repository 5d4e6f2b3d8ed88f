"""Dual decomposition: one message per edge prices the agreement of a node with its parent.

With A_i[b, a] = tables_i[b, a] + unary_i[b] - u_i[a] + Σ_children u_c[b], a_i = max over a of A_i,

    g(u) = Σ_i  max over r_i   min over p_i    a_i·r_i + weight_i p_i' cost r_i

is convex, bounds the game from above, and its least value is that of the game (Theorem 2).
"""

import numpy as np

from robustruct.core.structs import Support
from robustruct.kernels._jit import helper, kernel
from robustruct.kernels.max_product import max_product_up
from robustruct.kernels.node_game import ANY, node_equilibrium, node_scratch
from robustruct.kernels.transport import sinkhorn, transport


@kernel
def start_messages(first, last, structure, scores, augmented, worst, prices):
    """u := max-product messages of the augmented scores, so that g(u) <= the bound of that p.

    prices.alive, out: labels of some labelling whose regret is at least worst[s] <= 0. No other
    label is ever played, as even the largest cost would not make up for it.
    """
    offsets, parent = structure.offsets, structure.parent
    unary, tables, table_of = scores.unary, scores.tables, scores.table_of
    alive, u = prices.alive, prices.u
    k = unary.shape[1]
    best = np.empty_like(unary)
    regret = np.empty_like(unary)
    for s in range(first, last):
        lo, hi = offsets[s], offsets[s + 1]
        max_product_up(lo, hi, parent, unary, tables, table_of, best)
        for i in range(hi - 1, lo - 1, -1):
            above = parent[i]
            if above < 0:
                top = -np.inf
                for b in range(k):
                    top = max(top, best[i, b])
                for b in range(k):
                    regret[i, b] = best[i, b] - top
            else:
                table = tables[table_of[i]]
                for b in range(k):
                    regret[i, b] = -np.inf
                for a in range(k):
                    if not alive[above, a]:
                        continue
                    message = -np.inf
                    for b in range(k):
                        message = max(message, best[i, b] + table[b, a])
                    for b in range(k):
                        value = regret[above, a] + (best[i, b] + table[b, a] - message)
                        regret[i, b] = max(regret[i, b], value)
            for b in range(k):
                alive[i, b] = regret[i, b] >= worst[s]
        max_product_up(lo, hi, parent, augmented, tables, table_of, best)
        for i in range(lo, hi):
            above = parent[i]
            for a in range(k):
                u[i, a] = 0.0
                if above >= 0 and alive[above, a]:
                    message = -np.inf
                    for b in range(k):
                        message = max(message, best[i, b] + tables[table_of[i], b, a])
                    u[i, a] = message


@kernel
def message_sizes(first, last, structure, weight, size):
    """size (N,), out: how far a message may sensibly move, from the weights of the nodes nearby."""
    offsets, parent = structure.offsets, structure.parent
    for s in range(first, last):
        lo, hi = offsets[s], offsets[s + 1]
        for i in range(lo, hi):
            size[i] = weight[i]
        for i in range(lo, hi):
            if parent[i] >= 0:
                size[parent[i]] = max(size[parent[i]], 0.5 * size[i])
        for i in range(hi - 1, lo - 1, -1):
            if parent[i] >= 0:
                size[i] = max(size[i], 0.5 * size[parent[i]])


@kernel
def descend(first, last, game, form, active, rule, prices):
    """Subgradient steps on u for the active samples, by ``rule``."""
    n_nodes, k = game.scores.unary.shape
    offsets, longest = game.structure.offsets, rule.longest
    p, r, p_sum, r_sum, mass = prices.p, prices.r, prices.p_sum, prices.r_sum, prices.mass
    scratch = node_scratch(k)
    # Supports of the last equilibrium, node by node; only a simplex would use them.
    n_kept = n_nodes if form.kind == ANY else 1
    support = Support(np.zeros((n_kept, k), np.bool_), np.zeros((n_kept, k), np.bool_))
    total = np.empty((n_nodes, k))
    slope = np.empty((n_nodes, k))
    guess = np.empty((n_nodes, k), np.intp)
    for s in range(first, last):
        if not active[s]:
            continue
        lo, hi = offsets[s], offsets[s + 1]
        for _ in range(rule.n_steps):
            g = _play_nodes(lo, hi, game, form, prices, total, guess, support, scratch)
            if g < prices.g_best[s]:
                prices.g_best[s] = g
                for i in range(lo, hi):
                    for b in range(k):
                        prices.p_best[i, b] = p[i, b]
            norm, noise = _slopes(lo, hi, game.structure.parent, prices, guess, slope)
            length = 0.0
            if norm > noise:
                wanted = 1.0 / np.sqrt(norm)
                if rule.polyak:
                    wanted = max(g - rule.target[s], 0.0) / norm
                length = min(rule.step[s] * wanted, longest[s] / np.sqrt(norm))
            if length == 0.0:
                # All nodes agree, or the target is reached: this r needs no averaging.
                mass[s] = 1.0
                for i in range(lo, hi):
                    for a in range(k):
                        p_sum[i, a] = p[i, a]
                        r_sum[i, a] = r[i, a]
                break
            mass[s] += length
            for i in range(lo, hi):
                for a in range(k):
                    p_sum[i, a] += length * p[i, a]
                    r_sum[i, a] += length * r[i, a]
                if game.structure.parent[i] >= 0:
                    for a in range(k):
                        prices.u[i, a] -= length * prices.size[i] * slope[i, a]


@helper
def _play_nodes(lo, hi, game, form, prices, total, guess, support, scratch):
    """Solve the game of every node under the prices; return g.

    guess[i, b], out: the label that node i takes its parent to play where it plays b itself.
    total (N, k): scratch.
    """
    parent, tables, table_of = game.structure.parent, game.scores.tables, game.scores.table_of
    u, alive = prices.u, prices.alive
    k = total.shape[1]
    line = np.empty(k)
    for i in range(lo, hi):
        for b in range(k):
            total[i, b] = game.scores.unary[i, b]
    for i in range(lo, hi):
        if parent[i] >= 0:
            for a in range(k):
                total[parent[i], a] += u[i, a]
    g = 0.0
    for i in range(lo, hi):
        above = parent[i]
        for b in range(k):
            line[b] = total[i, b] if alive[i, b] else -np.inf
            if above >= 0 and alive[i, b]:
                row = tables[table_of[i], b]
                best = -np.inf
                choice = 0
                for a in range(k):
                    if alive[above, a] and row[a] - u[i, a] > best:
                        best = row[a] - u[i, a]
                        choice = a
                line[b] += best
                guess[i, b] = choice
        at = i if form.kind == ANY else 0
        carried = Support(support.rows[at], support.columns[at])
        mask = game.scores.unary[i]
        g += node_equilibrium(
            form, game.weight[i], line, mask, prices.p[i], prices.r[i], carried, scratch
        )
    return g


@helper
def _slopes(lo, hi, parent, prices, guess, slope):
    """slope (N, k), out: what the parent plays minus what its child takes it to play.

    Return its square in the metric of the steps, and how much of that may be rounding.
    """
    r, size = prices.r, prices.size
    k = r.shape[1]
    norm = 0.0
    noise = 0.0
    for i in range(lo, hi):
        above = parent[i]
        if above >= 0:
            noise += 1e-26 * size[i]
            for a in range(k):
                slope[i, a] = r[above, a]
            for b in range(k):
                if r[i, b] > 0.0:
                    slope[i, guess[i, b]] -= r[i, b]
            for a in range(k):
                norm += size[i] * slope[i, a] ** 2
    return norm, noise


@kernel
def recover_edges(first, last, structure, scores, active, exact, sharpness, r, q):
    """q (N, k, k), out: on each edge the best joint distribution with the margins r."""
    offsets, parent, tables, table_of = (
        structure.offsets,
        structure.parent,
        scores.tables,
        scores.table_of,
    )
    k = r.shape[1]
    plan = np.empty((k, k))
    for s in range(first, last):
        if not active[s]:
            continue
        for i in range(offsets[s], offsets[s + 1]):
            above = parent[i]
            if above < 0:
                continue
            if exact:
                transport(tables[table_of[i]], r[i], r[above], plan)
            else:
                sinkhorn(tables[table_of[i]], r[i], r[above], sharpness, 20, plan)
            for b in range(k):
                for a in range(k):
                    q[i, b, a] = plan[b, a]
