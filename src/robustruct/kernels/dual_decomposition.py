"""Dual decomposition: one message per edge prices the agreement of a node with its parent.

With A_i[b, a] = tables_i[b, a] + unary_i[b] - u_i[a] + Σ_children u_c[b] and a_i = max over a of A_i,

    g(u) = Σ_i  max over r_i   min over p_i    a_i·r_i + weight_i p_i' cost r_i

is convex, bounds the game from above, and its least value is that of the game (Theorem 2).
"""

import numpy as np

from robustruct.kernels._jit import kernel
from robustruct.kernels.max_product import max_product_up
from robustruct.kernels.node_game import node_equilibrium, node_scratch
from robustruct.kernels.transport import sinkhorn, transport


@kernel
def start_messages(first, last, offsets, parent, unary, augmented, tables, table_of, worst, alive, u):
    """u := max-product messages of the augmented scores, so that g(u) <= the bound of that p.

    alive (N, k) bool, out: labels in a labelling whose plain score is within -worst[s] of the best.
    No other label is ever played, and none beside -inf would be if the messages were optimal.
    """
    k = unary.shape[1]
    best = np.empty_like(unary)
    regret = np.empty_like(unary)
    for s in range(first, last):
        lo, hi = offsets[s], offsets[s + 1]
        max_product_up(lo, hi, parent, unary, tables, table_of, best)
        for i in range(hi - 1, lo - 1, -1):
            above = parent[i]
            if above < 0:
                top = best[i].max()
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
def descend(
    first, last, offsets, parent, unary, tables, table_of, form, weight, metric, alive, active,
    n_steps, step, target, u, direction, p, r, r_sum, p_sum, mass, p_best, g_best, g_now,
):  # fmt: skip
    """``n_steps`` deflected subgradient steps on u for the active samples.

    metric (N,): size of a natural change of each message. step (S,): factor of Polyak's step towards
    target (S,). r_sum, p_sum (N, k) and mass (S,) gather averages weighted by the step lengths;
    p_best the predictor at the least g seen, g_best (S,).
    """
    kind, place, order, unit, offset, cost = form
    k = unary.shape[1]
    scratch = node_scratch(k)
    rows = np.zeros((unary.shape[0] if kind == 3 else 1, k), np.bool_)
    columns = np.zeros((rows.shape[0], k), np.bool_)
    total = np.empty_like(unary)
    arg = np.empty((unary.shape[0], k), np.intp)
    line = np.empty(k)
    slope = np.empty(k)
    for s in range(first, last):
        if not active[s]:
            continue
        lo, hi = offsets[s], offsets[s + 1]
        for _ in range(n_steps):
            for i in range(lo, hi):
                for b in range(k):
                    total[i, b] = unary[i, b]
            g = 0.0
            for i in range(lo, hi):
                above = parent[i]
                if above >= 0:
                    for a in range(k):
                        total[above, a] += u[i, a]
            for i in range(lo, hi):
                above = parent[i]
                for b in range(k):
                    if not alive[i, b]:
                        line[b] = -np.inf
                        continue
                    line[b] = total[i, b]
                    if above >= 0:
                        table = tables[table_of[i]]
                        best = -np.inf
                        choice = 0
                        for a in range(k):
                            if alive[above, a] and table[b, a] - u[i, a] > best:
                                best = table[b, a] - u[i, a]
                                choice = a
                        line[b] += best
                        arg[i, b] = choice
                at = i if kind == 3 else 0
                g += node_equilibrium(
                    kind, place, order, unit, offset, cost, weight[i], line, p[i], r[i],
                    rows[at], columns[at], scratch,
                )  # fmt: skip
            g_now[s] = g
            if g < g_best[s]:
                g_best[s] = g
                for i in range(lo, hi):
                    for b in range(k):
                        p_best[i, b] = p[i, b]
            # slope_i = r_parent - what i expects of its parent; the direction is bent so that it
            # never turns against the last one, which would zigzag across a kink.
            along = 0.0
            old = 0.0
            for i in range(lo, hi):
                above = parent[i]
                if above >= 0:
                    h = metric[i] * metric[i]
                    for a in range(k):
                        slope[a] = r[above, a]
                    for b in range(k):
                        if r[i, b] > 0.0:
                            slope[arg[i, b]] -= r[i, b]
                    for a in range(k):
                        along += h * slope[a] * direction[i, a]
                        old += h * direction[i, a] * direction[i, a]
            bend = 0.0
            norm = 0.0
            for i in range(lo, hi):
                above = parent[i]
                if above >= 0:
                    h = metric[i] * metric[i]
                    for a in range(k):
                        direction[i, a] = bend * direction[i, a] + r[above, a]
                    for b in range(k):
                        if r[i, b] > 0.0:
                            direction[i, arg[i, b]] -= r[i, b]
                    for a in range(k):
                        norm += h * direction[i, a] * direction[i, a]
            length = 0.0
            if norm > 0.0:
                length = step[s] * max(g - target[s], 0.0) / norm
            share = length if length > 0.0 else 1e-300
            mass[s] += share
            for i in range(lo, hi):
                h = length * metric[i] * metric[i]
                for a in range(k):
                    u[i, a] -= h * direction[i, a]
                    r_sum[i, a] += share * r[i, a]
                    p_sum[i, a] += share * p[i, a]
            if norm == 0.0:
                # All nodes agree: r is optimal and nothing else needs averaging.
                mass[s] = 1.0
                for i in range(lo, hi):
                    for a in range(k):
                        r_sum[i, a] = r[i, a]
                        p_sum[i, a] = p[i, a]
                break


@kernel
def recover_edges(first, last, offsets, parent, tables, table_of, active, exact, sharpness, r, q):
    """q (N, k, k), out: on each edge the best joint distribution with the margins r."""
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
