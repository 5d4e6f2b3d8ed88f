"""Primal-dual interior point on a game, with the structure of its tree: Mehrotra's steps and bounds."""

import numpy as np

from robustruct.kernels._jit import kernel
from robustruct.kernels.interior_newton import factorise, longest_steps, new_newton, solve_newton
from robustruct.kernels.interior_start import new_point, parent_count, reduce_game, start_point
from robustruct.kernels.max_product import max_product_down, max_product_up


@kernel
def interior_point(
    first, last, offsets, parent, unary, tables, table_of, cost, weight,
    allowed, max_iter, p, r, q, n_iter, exhausted,
):  # fmt: skip
    """Play samples first .. last-1 until their gap is at most ``allowed`` (S,).

    p, r (N, k) and q (N, k, k), out: the best predictor and the best adversary seen, by their bounds.
    n_iter (S,) intp and exhausted (S,) bool, out.
    """
    k = cost.shape[0]
    largest = 0
    for s in range(first, last):
        largest = max(largest, offsets[s + 1] - offsets[s])
    point, newton = new_point(largest, k), new_newton(largest, k)
    best, other = np.empty_like(unary), np.empty_like(unary)
    scratch = np.empty((largest, k))
    spread = cost.max() - cost.min()
    loss = (cost - cost.min()) / spread if spread > 0.0 else np.zeros_like(cost)
    for s in range(first, last):
        lo, hi = offsets[s], offsets[s + 1]
        n = hi - lo
        n_iter[s] = 0
        exhausted[s] = False
        finite = reduce_game(
            lo, hi, parent, unary, tables, table_of, weight, spread, best, other, point
        )
        unit = spread * weight[lo:hi].max()
        if unit == 0.0 or not finite:
            play_best_labelling(lo, hi, parent, tables, table_of, best, p, r, q)
            continue
        start_point(lo, n, unary, tables, table_of, unit, loss, scratch, point)
        lower, upper = -np.inf, np.inf
        pairs = count_pairs(n, point, k)
        gap = complementarity(n, point)
        least = gap
        idle = 0
        while True:
            if gap * unit <= 10.0 * allowed[s] or gap < 1e-4 * n or idle > 2:
                value = predictor_value(
                    lo, hi, parent, unary, tables, table_of, cost, weight, point, other, best
                )
                if value < upper:
                    upper = value
                    write_predictor(lo, n, point, p)
                value = adversary_value(lo, n, unary, tables, table_of, cost, weight, point, scratch)
                if value > lower:
                    lower = value
                    write_adversary(lo, n, point, scratch, r, q)
                # A gap far above the complementarity means that rounding broke feasibility.
                if upper - lower <= allowed[s] or upper - lower > 2.0 * gap * unit + allowed[s]:
                    break
            if idle > 2:
                break
            if n_iter[s] >= max_iter:
                exhausted[s] = True
                break
            n_iter[s] += 1
            if not step(n, point, loss, newton, gap, pairs):
                idle = 3
                continue
            gap = complementarity(n, point)
            idle = 0 if gap < 0.9 * least else idle + 1
            least = min(least, gap)
        if not (lower > -np.inf and upper < np.inf):
            play_best_labelling(lo, hi, parent, tables, table_of, best, p, r, q)


@kernel
def step(n, point, loss, newton, gap, pairs):
    """One predictor-corrector step of Mehrotra; False if rounding spoiled the direction."""
    factorise(n, point, loss, newton)
    residual = solve_newton(n, point, loss, newton, 0.0, True)
    primal, dual = longest_steps(n, point, newton)
    after = gap_after(n, point, newton, min(1.0, 1.0 / primal), min(1.0, 1.0 / dual))
    target = (after / gap) ** 3 * gap / pairs
    keep_products(n, point, newton)
    residual = max(residual, solve_newton(n, point, loss, newton, target, False))
    primal, dual = longest_steps(n, point, newton)
    if not residual < 1e-2 or not primal + dual < np.inf:
        return False
    move(n, point, newton, min(1.0, 0.995 / primal), min(1.0, 0.995 / dual))
    return True


@kernel
def play_best_labelling(lo, hi, parent, tables, table_of, best, p, r, q):
    """Without costs the adversary plays the best labelling, and any predictor will do."""
    labels = np.empty(hi, np.intp)
    max_product_down(lo, hi, parent, tables, table_of, best, labels)
    p[lo:hi] = 1.0 / p.shape[1]
    r[lo:hi] = 0.0
    q[lo:hi] = 0.0
    for i in range(lo, hi):
        r[i, labels[i]] = 1.0
        if parent[i] >= 0:
            q[i, labels[i], labels[parent[i]]] = 1.0


@kernel
def count_pairs(n, point, k):
    total = 0
    for j in range(n):
        for b in range(point.count[j]):
            for a in range(parent_count(point, j)):
                if point.x[j, b, a] > 0.0:
                    total += 1
        if point.weight[j] > 0.0:
            total += k
    return total


@kernel
def complementarity(n, point):
    """The gap of the iterate: Σ x z + Σ p s."""
    k = point.p.shape[1]
    total = 0.0
    for j in range(n):
        for b in range(point.count[j]):
            for a in range(parent_count(point, j)):
                total += point.x[j, b, a] * point.z[j, b, a]
        if point.weight[j] > 0.0:
            for a in range(k):
                total += point.p[j, a] * point.s[j, a]
    return total


@kernel
def gap_after(n, point, newton, primal, dual):
    k = point.p.shape[1]
    total = 0.0
    for j in range(n):
        for b in range(point.count[j]):
            for a in range(parent_count(point, j)):
                x = point.x[j, b, a] + primal * newton.dx[j, b, a]
                total += x * (point.z[j, b, a] + dual * newton.dz[j, b, a])
        if point.weight[j] > 0.0:
            for a in range(k):
                s = point.s[j, a] + primal * newton.ds[j, a]
                total += s * (point.p[j, a] + dual * newton.dp[j, a])
    return total


@kernel
def keep_products(n, point, newton):
    """Δx∘Δz into dz and Δp∘Δs into ds, for the corrector."""
    k = point.p.shape[1]
    for j in range(n):
        for b in range(point.count[j]):
            for a in range(parent_count(point, j)):
                newton.dz[j, b, a] *= newton.dx[j, b, a]
        if point.weight[j] > 0.0:
            for a in range(k):
                newton.ds[j, a] *= newton.dp[j, a]


@kernel
def move(n, point, newton, primal, dual):
    k = point.p.shape[1]
    for j in range(n):
        mp = parent_count(point, j)
        for b in range(point.count[j]):
            x, z, inverse = point.x[j, b], point.z[j, b], point.inverse[j, b]
            dx, dz = newton.dx[j, b], newton.dz[j, b]
            total = 0.0
            for a in range(mp):
                x[a] += primal * dx[a]
                z[a] += dual * dz[a]
                inverse[a] = 1.0 / z[a] if x[a] > 0.0 else 0.0
                total += x[a]
            point.r[j, b] = total
        if point.weight[j] > 0.0:
            for a in range(k):
                point.s[j, a] += primal * newton.ds[j, a]
                point.p[j, a] += dual * newton.dp[j, a]


@kernel
def predictor_value(lo, hi, parent, unary, tables, table_of, cost, weight, point, augmented, best):
    """Upper bound by the predictor of the iterate."""
    k = cost.shape[0]
    for i in range(lo, hi):
        total = 0.0
        for a in range(k):
            total += point.p[i - lo, a]
        for b in range(k):
            augmented[i, b] = 0.0
        if point.weight[i - lo] > 0.0:
            for a in range(k):
                share = weight[i] * (point.p[i - lo, a] / total)
                for b in range(k):
                    augmented[i, b] += share * cost[a, b]
        for b in range(k):
            augmented[i, b] += unary[i, b]
    max_product_up(lo, hi, parent, augmented, tables, table_of, best)
    value = 0.0
    for i in range(lo, hi):
        if parent[i] < 0:
            value += best[i].max()
    return value


@kernel
def write_predictor(lo, n, point, p):
    k = point.p.shape[1]
    for j in range(n):
        total = 0.0
        for a in range(k):
            total += point.p[j, a]
        for a in range(k):
            p[lo + j, a] = point.p[j, a] / total if point.weight[j] > 0.0 else 1.0 / k


@kernel
def adversary_value(lo, n, unary, tables, table_of, cost, weight, point, scale):
    """Lower bound by the adversary of the iterate, made consistent from the roots down.

    Leaves the consistent node marginals in point.r and in scale[j, a] the factor of column a of x.
    """
    k = cost.shape[0]
    total = 0.0
    for j in range(n - 1, -1, -1):
        m = point.count[j]
        mp = parent_count(point, j)
        up = point.parent[j]
        for a in range(mp):
            mass = 0.0
            for b in range(m):
                mass += point.x[j, b, a]
            scale[j, a] = (1.0 if up == j else point.r[up, a]) / mass
        table = tables[table_of[lo + j]]
        for b in range(m):
            label = point.labels[j, b]
            mass = 0.0
            for a in range(mp):
                share = point.x[j, b, a] * scale[j, a]
                mass += share
                if up != j and share > 0.0:
                    total += share * table[label, point.labels[up, a]]
            point.r[j, b] = mass
            total += mass * unary[lo + j, label]
        if weight[lo + j] > 0.0:
            least = np.inf
            for a in range(k):
                value = 0.0
                for b in range(m):
                    value += cost[a, point.labels[j, b]] * point.r[j, b]
                least = min(least, value)
            total += weight[lo + j] * least
    return total


@kernel
def write_adversary(lo, n, point, scale, r, q):
    k = r.shape[1]
    for j in range(n):
        up = point.parent[j]
        for b in range(k):
            r[lo + j, b] = 0.0
            for a in range(k):
                q[lo + j, b, a] = 0.0
        for b in range(point.count[j]):
            label = point.labels[j, b]
            r[lo + j, label] = point.r[j, b]
            if up != j:
                for a in range(point.count[up]):
                    q[lo + j, label, point.labels[up, a]] = point.x[j, b, a] * scale[j, a]
