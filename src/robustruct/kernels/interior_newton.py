"""One Newton step of the interior point: an elimination up the tree, substitution down.

Per edge, with D = x / z, d its row sums, C = D' diag(1/d) and, per node, E = p / s:

    node     H = L'(diag E - EE'/ΣE) L                      what the predictor does about Δr
    columns  K = diag(1/d) + J,  J = H + Σ_children G       Δr = P (κ/d + t - C'Δu), 1'Δr = 0
    rows     M = diag(D'1) - D' diag(1/d) D + C P C'        M Δu = m - Δr_parent,  G = M⁻¹

Σ Δr = 0 on every node, and u and c enter only through their difference. P is therefore K⁻¹ projected
so that P1 = 0, M1 = 0 holds exactly, and M is inverted with one label grounded at 0. No difference of
large numbers is formed: diagonals are sums of positive terms.
"""

from typing import NamedTuple

import numpy as np

from robustruct.kernels._jit import kernel
from robustruct.kernels.dense import (
    add_gram,
    cholesky,
    dot,
    inverse_from_cholesky,
    laplacian_cholesky,
    solve_transposed,
    solve_transposed_rows,
    solve_upper,
)
from robustruct.kernels.interior_start import parent_count


class Newton(NamedTuple):
    """Factors of the system and the direction, by the names of the module's docstring."""

    ratio: np.ndarray
    """(n, k, k) D"""
    d: np.ndarray
    """(n, k)"""
    upper: np.ndarray
    """(n, k, k) Cholesky factor of K; J while it is gathered"""
    unit: np.ndarray
    """(n, k) the direction 1 in the coordinates of the factor, of length 1"""
    w: np.ndarray
    """(n, k, k) the factor's solution for C', projected: C P C' = w'w"""
    g_matrix: np.ndarray
    """(n, k, k) G"""
    e: np.ndarray
    """(n, k) E"""
    e_sum: np.ndarray
    """(n,)"""
    kappa: np.ndarray
    """(n, k) row sums of ρ / z"""
    rs: np.ndarray
    """(n, k) ρ_s / s"""
    t: np.ndarray
    """(n, k)"""
    half: np.ndarray
    """(n, k) right-hand side of a node after the first triangular solve"""
    g: np.ndarray
    """(n, k)"""
    dx: np.ndarray
    """(n, k, k) ρ / z, then Δx"""
    dz: np.ndarray
    """(n, k, k) Δz"""
    step: np.ndarray
    """(n, k) what the last sweep down added to Δr"""
    dr: np.ndarray
    dp: np.ndarray
    ds: np.ndarray
    square: np.ndarray
    """(k, k) scratch"""
    other: np.ndarray
    """(k, k) scratch"""
    lanes: np.ndarray
    """(8, k) scratch"""


@kernel
def new_newton(n, k):
    return Newton(
        np.empty((n, k, k)),
        np.empty((n, k)),
        np.empty((n, k, k)),
        np.empty((n, k)),
        np.empty((n, k, k)),
        np.empty((n, k, k)),
        np.empty((n, k)),
        np.empty(n),
        np.empty((n, k)),
        np.empty((n, k)),
        np.empty((n, k)),
        np.empty((n, k)),
        np.empty((n, k)),
        np.empty((n, k, k)),
        np.empty((n, k, k)),
        np.empty((n, k)),
        np.empty((n, k)),
        np.empty((n, k)),
        np.empty((n, k)),
        np.empty((k, k)),
        np.empty((k, k)),
        np.empty((8, k)),
    )


@kernel
def factorise(n, point, loss, newton):
    """Eliminate from the leaves up."""
    for j in range(n):
        m = point.count[j]
        upper = newton.upper[j]
        for b in range(m):
            for c in range(b, m):
                upper[b, c] = 0.0
    for j in range(n):
        m = point.count[j]
        mp = parent_count(point, j)
        if point.weight[j] > 0.0:
            add_node_matrix(j, m, point, loss, newton)
        lap = newton.lanes[0]
        row_sums(j, m, mp, point, newton, lap)
        upper = newton.upper[j]
        for b in range(m):
            upper[b, b] += 1.0 / newton.d[j, b]
        cholesky(m, upper, 1e-15)
        unit = newton.unit[j]
        for b in range(m):
            unit[b] = 1.0
        solve_transposed(m, upper, unit)
        length = 1.0 / np.sqrt(dot(m, unit, unit))
        for b in range(m):
            unit[b] *= length
        if point.parent[j] != j:
            eliminate_edge(j, m, mp, newton, lap)
            above = newton.upper[point.parent[j]]
            g_matrix = newton.g_matrix[j]
            for a in range(mp):
                for b in range(a, mp):
                    above[a, b] += g_matrix[a, b]


@kernel
def add_node_matrix(j, m, point, loss, newton):
    """J += H = Σ_a E_a (L_a - mean)(L_a - mean)', the mean weighted by E."""
    k = loss.shape[0]
    labels = point.labels[j]
    e = newton.e[j]
    mean = newton.lanes[0]
    rows = newton.square
    for b in range(m):
        mean[b] = 0.0
    total = 0.0
    for a in range(k):
        e[a] = point.p[j, a] / point.s[j, a]
        total += e[a]
        for b in range(m):
            mean[b] += e[a] * loss[a, labels[b]]
    newton.e_sum[j] = total
    for b in range(m):
        mean[b] /= total
    for a in range(k):
        root = np.sqrt(e[a])
        for b in range(m):
            rows[a, b] = root * (loss[a, labels[b]] - mean[b])
    add_gram(k, m, 1.0, rows, newton.upper[j])


@kernel
def row_sums(j, m, mp, point, newton, lap):
    """D and d; lap[a] becomes the diagonal of diag(D'1) - D' diag(1/d) D, without cancellation."""
    for a in range(mp):
        lap[a] = 0.0
    for b in range(m):
        x, inverse, ratio = point.x[j, b], point.inverse[j, b], newton.ratio[j, b]
        top = 0
        for a in range(mp):
            ratio[a] = x[a] * inverse[a]
            if ratio[a] > ratio[top]:
                top = a
        rest = 0.0
        for a in range(mp):
            if a != top:
                rest += ratio[a]
        d = rest + ratio[top]
        newton.d[j, b] = d
        scale = 1.0 / d
        for a in range(mp):
            lap[a] += ratio[a] * (d - ratio[a]) * scale
        lap[top] += ratio[top] * (rest - (d - ratio[top])) * scale


@kernel
def eliminate_edge(j, m, mp, newton, lap):
    """w and G of the edge above node j."""
    w, ratio, square = newton.w[j], newton.ratio[j], newton.square
    along = newton.lanes[1]
    for b in range(m):
        scale = 1.0 / newton.d[j, b]
        for a in range(mp):
            w[b, a] = ratio[b, a] * scale
    solve_transposed_rows(m, mp, newton.upper[j], w)
    unit = newton.unit[j]
    for a in range(mp):
        along[a] = 0.0
    for b in range(m):
        for a in range(mp):
            along[a] += unit[b] * w[b, a]
    for b in range(m):
        for a in range(mp):
            w[b, a] -= unit[b] * along[a]
    for a in range(mp):
        for c in range(a, mp):
            square[a, c] = 0.0
    scaled = newton.other
    for b in range(m):
        scale = np.sqrt(1.0 / newton.d[j, b])
        for a in range(mp):
            scaled[b, a] = ratio[b, a] * scale
    add_gram(m, mp, -1.0, scaled, square)
    for a in range(mp):
        square[a, a] = lap[a]
    add_gram(m, mp, 1.0, w, square)
    invert_grounded(mp, square, newton.other, newton.g_matrix[j])


@kernel
def invert_grounded(n, square, other, out):
    """out = inverse of the matrix without the row and column of its largest diagonal, 0 there."""
    ground = 0
    for a in range(1, n):
        if square[a, a] > square[ground, ground]:
            ground = a
    last = n - 1
    swap_symmetric(n, ground, last, square)
    laplacian_cholesky(n, square)
    inverse_from_cholesky(last, square, other, out)
    for a in range(n):
        out[a, last] = 0.0
        out[last, a] = 0.0
    if ground != last:
        for a in range(n):
            out[a, ground], out[a, last] = out[a, last], out[a, ground]
        for a in range(n):
            out[ground, a], out[last, a] = out[last, a], out[ground, a]


@kernel
def swap_symmetric(n, i, j, a):
    """Exchange rows and columns i < j of a symmetric matrix held in its upper triangle."""
    if i == j:
        return
    for b in range(i):
        a[b, i], a[b, j] = a[b, j], a[b, i]
    for b in range(i + 1, j):
        a[i, b], a[b, j] = a[b, j], a[i, b]
    for b in range(j + 1, n):
        a[i, b], a[j, b] = a[j, b], a[i, b]
    a[i, i], a[j, j] = a[j, j], a[i, i]


@kernel
def solve_newton(n, point, loss, newton, target, plain):
    """Direction for the complementarity targets ρ = target - product - (last Δ∘Δ, held in dz, ds).

    With ``plain`` the last term is left out. Refined until Σ_b x(b, a) = r_parent(a) will hold;
    returns how far it will not, relative to r.
    """
    for j in range(n):
        for b in range(point.count[j]):
            newton.t[j, b] = 0.0
    for j in range(n):
        right_hand_side(j, point, loss, newton, target, plain)
    worst = 0.0
    for j in range(n - 1, -1, -1):
        worst = max(worst, edge_direction(j, point, newton, False))
    for _ in range(3):
        if worst < 1e-10:
            break
        last = worst
        for j in range(n):
            for b in range(point.count[j]):
                newton.t[j, b] = 0.0
        for j in range(n):
            residual_side(j, point, newton)
        worst = 0.0
        for j in range(n - 1, -1, -1):
            worst = max(worst, edge_direction(j, point, newton, True))
        if worst > 0.5 * last:
            break
    for j in range(n):
        if point.weight[j] > 0.0:
            node_direction(j, point, loss, newton)
    return worst


@kernel
def longest_steps(n, point, newton):
    """Largest steps for (x, s) and for (z, p) that leave them non-negative, as inverses."""
    k = point.p.shape[1]
    primal = 0.0
    dual = 0.0
    px, pz = newton.lanes[0], newton.lanes[1]
    for j in range(n):
        mp = parent_count(point, j)
        for a in range(mp):
            px[a] = 0.0
            pz[a] = 0.0
        for b in range(point.count[j]):
            x, inverse, dx, dz = point.x[j, b], point.inverse[j, b], newton.dx[j, b], newton.dz[j, b]
            for a in range(mp):
                shrink = -dz[a] * inverse[a]
                pz[a] = shrink if shrink > pz[a] else pz[a]
                shrink = -dx[a] / x[a]  # NaN for dropped pairs, which do not count
                px[a] = shrink if shrink > px[a] else px[a]
        for a in range(mp):
            primal = max(primal, px[a])
            dual = max(dual, pz[a])
        if point.weight[j] > 0.0:
            for a in range(k):
                primal = max(primal, -newton.ds[j, a] / point.s[j, a])
                dual = max(dual, -newton.dp[j, a] / point.p[j, a])
    return primal, dual


@kernel
def right_hand_side(j, point, loss, newton, target, plain):
    """ρ / z, t, the half-solved right-hand side of node j and g of its edge."""
    k = loss.shape[0]
    m = point.count[j]
    mp = parent_count(point, j)
    up = point.parent[j]
    x, inverse, dx, dz = point.x[j], point.inverse[j], newton.dx[j], newton.dz[j]
    columns = newton.lanes[0]
    for a in range(mp):
        columns[a] = 0.0 if up == j else -point.r[up, a]
    kappa, d, half = newton.kappa[j], newton.d[j], newton.half[j]
    for b in range(m):
        if plain:
            for a in range(mp):
                dx[b, a] = -x[b, a]
        else:
            for a in range(mp):
                dx[b, a] = (target - dz[b, a]) * inverse[b, a] - x[b, a]
        total = 0.0
        for a in range(mp):
            total += dx[b, a]
        kappa[b] = total
        # columns gathers ρ̄ - Cκ and the residual of Σ_b x(b, a) = r_parent(a).
        share = total / d[b]
        half[b] = share
        ratio = newton.ratio[j, b]
        for a in range(mp):
            columns[a] += dx[b, a] - share * ratio[a] + x[b, a]
    if point.weight[j] > 0.0:
        rs, e, gain = newton.rs[j], newton.e[j], newton.lanes[1]
        total = 0.0
        for a in range(k):
            if plain:
                rs[a] = -point.p[j, a]
            else:
                rs[a] = (target - newton.ds[j, a]) / point.s[j, a] - point.p[j, a]
            total += rs[a]
        total /= newton.e_sum[j]
        for b in range(m):
            gain[b] = newton.t[j, b]
        for a in range(k):
            value = rs[a] - e[a] * total
            for b in range(m):
                gain[b] += value * loss[a, point.labels[j, b]]
        for b in range(m):
            half[b] += gain[b]
    else:
        for b in range(m):
            half[b] += newton.t[j, b]
    solve_up(j, m, mp, point, newton, columns)


@kernel
def residual_side(j, point, newton):
    """The right-hand side that is left: what g holds of the equation of the columns."""
    m = point.count[j]
    mp = parent_count(point, j)
    columns = newton.lanes[0]
    for a in range(mp):
        columns[a] = -newton.g[j, a]
    for b in range(m):
        newton.half[j, b] = newton.t[j, b]
    solve_up(j, m, mp, point, newton, columns)


@kernel
def solve_up(j, m, mp, point, newton, columns):
    """Half-solve node j and send g of its edge to the parent. columns: ρ̄ - Cκ less the residual."""
    half, unit = newton.half[j], newton.unit[j]
    solve_transposed(m, newton.upper[j], half)
    along = dot(m, unit, half)
    for b in range(m):
        half[b] -= along * unit[b]
    up = point.parent[j]
    if up == j:
        return
    w = newton.w[j]
    for b in range(m):
        for a in range(mp):
            columns[a] += half[b] * w[b, a]
    g, t = newton.g[j], newton.t[up]
    for a in range(mp):
        g[a] = dot(mp, newton.g_matrix[j, a], columns)
        t[a] += g[a]


@kernel
def edge_direction(j, point, newton, correct):
    """Δr of node j, Δx and Δz of the edge above it, or with ``correct`` what to add to them.

    g becomes the residual of Σ_b (x + Δx)(b, a) = (r + Δr)_parent(a); returns its largest entry,
    relative to r.
    """
    m = point.count[j]
    mp = parent_count(point, j)
    up = point.parent[j]
    du, columns, dr = newton.lanes[0], newton.lanes[1], newton.lanes[2]
    for a in range(mp):
        columns[a] = 0.0
        du[a] = 0.0
    for b in range(m):
        dr[b] = newton.half[j, b]
    if up != j:
        above = newton.step[up]
        for a in range(mp):
            du[a] = newton.g[j, a] - dot(mp, newton.g_matrix[j, a], above)
        for b in range(m):
            dr[b] -= dot(mp, newton.w[j, b], du)
    solve_upper(m, newton.upper[j], dr)
    for b in range(m):
        x, ratio, dx, dz = point.x[j, b], newton.ratio[j, b], newton.dx[j, b], newton.dz[j, b]
        newton.step[j, b] = dr[b]
        if correct:
            dc = (dr[b] + dot(mp, ratio, du)) / newton.d[j, b]
            for a in range(mp):
                change = du[a] - dc
                dz[a] += change
                dx[a] -= ratio[a] * change
                columns[a] += x[a] + dx[a]
            newton.dr[j, b] += dr[b]
        else:
            dc = (dr[b] - newton.kappa[j, b] + dot(mp, ratio, du)) / newton.d[j, b]
            for a in range(mp):
                change = du[a] - dc
                dz[a] = change
                dx[a] -= ratio[a] * change
                columns[a] += x[a] + dx[a]
            newton.dr[j, b] = dr[b]
    worst = 0.0
    if up != j:
        for a in range(mp):
            mass = point.r[up, a]
            newton.g[j, a] = mass + newton.dr[up, a] - columns[a]
            worst = max(worst, abs(newton.g[j, a]) / mass)
    return worst


@kernel
def node_direction(j, point, loss, newton):
    """Δs and Δp of node j."""
    k = loss.shape[0]
    m = point.count[j]
    ds, e = newton.ds[j], newton.e[j]
    shift = 0.0
    for a in range(k):
        value = 0.0
        for b in range(m):
            value += loss[a, point.labels[j, b]] * newton.dr[j, b]
        ds[a] = value
        shift += e[a] * value - newton.rs[j, a]
    shift /= newton.e_sum[j]
    for a in range(k):
        ds[a] -= shift
        newton.dp[j, a] = newton.rs[j, a] - e[a] * ds[a]
