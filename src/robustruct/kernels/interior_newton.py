"""One Newton step of the interior point: an elimination up the tree, substitution down.

Per edge, with D = x / z, d its row sums, C = D' diag(1/d) and, per node, E = p / s:

    node     H = L'(diag E - EE'/ΣE) L                      what the predictor does about Δr
    columns  K = diag(1/d) + J,  J = H + Σ_children G       Δr = P (κ/d + t - C'Δu), 1'Δr = 0
    rows     M = diag(D'1) - D' diag(1/d) D + C P C'        M Δu = m - Δr_parent,  G = M⁻¹

Σ Δr = 0 on every node, and u and c enter only through their difference. P is therefore K⁻¹ projected
so that P1 = 0, M1 = 0 holds exactly, and M is inverted with one label grounded at 0. No difference of
large numbers is formed: diagonals are sums of positive terms.
"""

import numpy as np

from robustruct.kernels._jit import kernel
from robustruct.kernels.dense import (
    add_gram,
    add_transposed_product,
    cholesky,
    dot,
    inverse_from_cholesky,
    laplacian_cholesky,
    product,
    solve_transposed,
    solve_transposed_rows,
    solve_upper,
    swap_symmetric,
)
from robustruct.kernels.interior_state import (
    ABOVE, COST, COUNT, DP, DR, DS, DU, DX, DZ, E_SUM, HALF, INVERSE, KAPPA, PARENT, RATIO, RS, SIDE,
    STEP, UNIT, UPPER, WEIGHT, D, E, G, P, R, S, T, W, X,
)  # fmt: skip


@kernel
def factorise(n, tree, scalar, vec, mat, line, block):
    """Eliminate from the leaves up."""
    for j in range(n):
        for b in range(tree[j, COUNT]):
            for c in range(tree[j, COUNT]):
                mat[j, UPPER, b, c] = 0.0
    for j in range(n):
        m, mp, up = tree[j, COUNT], tree[j, ABOVE], tree[j, PARENT]
        if scalar[j, WEIGHT] > 0.0:
            add_node_matrix(j, m, scalar, vec, mat, line, block)
        row_sums(j, m, mp, vec, mat, line)
        for b in range(m):
            mat[j, UPPER, b, b] += 1.0 / vec[j, D, b]
            vec[j, UNIT, b] = 1.0
        upper, unit = mat[j, UPPER], vec[j, UNIT]
        cholesky(m, upper, 1e-15)
        solve_transposed(m, upper, unit)
        length = 1.0 / np.sqrt(dot(m, unit, unit))
        for b in range(m):
            unit[b] *= length
        if up != j:
            eliminate_edge(j, m, mp, vec, mat, line, block)
            for a in range(mp):
                for b in range(mp):
                    mat[up, UPPER, a, b] += mat[j, G, a, b]


@kernel
def add_node_matrix(j, m, scalar, vec, mat, line, block):
    """J += H = Σ_a E_a (L_a - mean)(L_a - mean)', the mean weighted by E."""
    k = vec.shape[2]
    for b in range(m):
        line[0, b] = 0.0
    total = 0.0
    for a in range(k):
        e = vec[j, P, a] / vec[j, S, a]
        vec[j, E, a] = e
        total += e
        for b in range(m):
            line[0, b] += e * mat[j, COST, a, b]
    scalar[j, E_SUM] = total
    for b in range(m):
        line[0, b] /= total
    for a in range(k):
        root = np.sqrt(vec[j, E, a])
        for b in range(m):
            block[0, a, b] = root * (mat[j, COST, a, b] - line[0, b])
    add_gram(k, m, 1.0, block[0], mat[j, UPPER])


@kernel
def row_sums(j, m, mp, vec, mat, line):
    """D and d; line[0] becomes the diagonal of diag(D'1) - D' diag(1/d) D, without cancellation."""
    for a in range(mp):
        line[0, a] = 0.0
    for b in range(m):
        for a in range(mp):
            mat[j, RATIO, b, a] = mat[j, X, b, a] * mat[j, INVERSE, b, a]
        top = 0
        for a in range(mp):
            if mat[j, RATIO, b, a] > mat[j, RATIO, b, top]:
                top = a
        largest = mat[j, RATIO, b, top]
        mat[j, RATIO, b, top] = 0.0
        rest = 0.0
        for a in range(mp):
            rest += mat[j, RATIO, b, a]
        total = rest + largest
        vec[j, D, b] = total
        scale = 1.0 / total
        for a in range(mp):
            line[0, a] += mat[j, RATIO, b, a] * (total - mat[j, RATIO, b, a]) * scale
        line[0, top] += largest * rest * scale
        mat[j, RATIO, b, top] = largest


@kernel
def eliminate_edge(j, m, mp, vec, mat, line, block):
    """W = the factor's solution for C', projected, so that C P C' = W'W; and G."""
    w, square, scaled = mat[j, W], block[0], block[1]
    for a in range(mp):
        line[1, a] = 0.0
        for c in range(mp):
            square[a, c] = 0.0
    for b in range(m):
        scale = 1.0 / vec[j, D, b]
        root = np.sqrt(scale)
        for a in range(mp):
            w[b, a] = mat[j, RATIO, b, a] * scale
            scaled[b, a] = mat[j, RATIO, b, a] * root
    solve_transposed_rows(m, mp, mat[j, UPPER], w)
    add_transposed_product(m, mp, w, vec[j, UNIT], line[1])
    for b in range(m):
        share = vec[j, UNIT, b]
        for a in range(mp):
            w[b, a] -= share * line[1, a]
    add_gram(m, mp, -1.0, scaled, square)
    for a in range(mp):
        square[a, a] = line[0, a]
    add_gram(m, mp, 1.0, w, square)
    invert_grounded(mp, square, scaled, mat[j, G])


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
def predict(n, tree, scalar, vec, mat, line):
    """The direction that aims at a gap of 0; keeps only Δx∘Δz in DZ and Δp∘Δs in DS.

    Returns the inverses of the longest steps for (x, s) and (z, p), Σ xΔz + sΔp, and Σ ΔxΔz + ΔpΔs.
    """
    k = vec.shape[2]
    clear(n, tree, vec)
    for j in range(n):
        m, mp, up = tree[j, COUNT], tree[j, ABOVE], tree[j, PARENT]
        for a in range(mp):
            line[0, a] = -vec[up, R, a]
        for b in range(m):
            vec[j, KAPPA, b] = -vec[j, R, b]
            vec[j, HALF, b] = vec[j, KAPPA, b] / vec[j, D, b]
            for a in range(mp):
                line[0, a] -= vec[j, HALF, b] * mat[j, RATIO, b, a]
        if scalar[j, WEIGHT] > 0.0:
            for a in range(k):
                vec[j, RS, a] = -vec[j, P, a]
            add_node_side(j, m, scalar, vec, mat, line)
        solve_up(j, m, mp, up, vec, mat, line)
    primal, dual, slope, curve = 0.0, 0.0, 0.0, 0.0
    for j in range(n - 1, -1, -1):
        m, mp, up = tree[j, COUNT], tree[j, ABOVE], tree[j, PARENT]
        solve_down(j, m, mp, up, vec, mat, line)
        low, high = 0.0, 0.0
        for b in range(m):
            dc = (vec[j, STEP, b] - vec[j, KAPPA, b] + line[0, b]) / vec[j, D, b]
            for a in range(mp):
                change = vec[j, DU, a] - dc
                part = change * mat[j, INVERSE, b, a]
                low = part if part < low else low
                high = part if part > high else high
                weighted = mat[j, X, b, a] * change
                slope += weighted
                second = -weighted * (1.0 + part)
                curve += second
                mat[j, DZ, b, a] = second
        primal = max(primal, 1.0 + high)
        dual = max(dual, -low)
        if scalar[j, WEIGHT] > 0.0:
            node_direction(j, m, scalar, vec, mat, vec[j, STEP])
            for a in range(k):
                primal = max(primal, -vec[j, DS, a] / vec[j, S, a])
                dual = max(dual, -vec[j, DP, a] / vec[j, P, a])
                slope += vec[j, S, a] * vec[j, DP, a]
                vec[j, DS, a] *= vec[j, DP, a]
                curve += vec[j, DS, a]
    return primal, dual, slope, curve


@kernel
def correct(n, tree, scalar, vec, mat, target, line):
    """Direction for the complementarity ``target``, with the second-order terms held in DZ and DS.

    Refined until Σ_b x(b, a) = r_parent(a) will hold; returns how far it will not, relative to r.
    """
    clear(n, tree, vec)
    for j in range(n):
        corrector_side(j, tree, scalar, vec, mat, target, line)
    worst = 0.0
    for j in range(n - 1, -1, -1):
        worst = max(worst, edge_direction(j, tree, vec, mat, line, False))
    for _ in range(3):
        if worst < 1e-10:
            break
        last = worst
        clear(n, tree, vec)
        for j in range(n):
            for a in range(tree[j, ABOVE]):
                line[0, a] = -vec[j, SIDE, a]
            for b in range(tree[j, COUNT]):
                vec[j, HALF, b] = 0.0
            solve_up(j, tree[j, COUNT], tree[j, ABOVE], tree[j, PARENT], vec, mat, line)
        worst = 0.0
        for j in range(n - 1, -1, -1):
            worst = max(worst, edge_direction(j, tree, vec, mat, line, True))
        if worst > 0.5 * last:
            break
    for j in range(n):
        if scalar[j, WEIGHT] > 0.0:
            node_direction(j, tree[j, COUNT], scalar, vec, mat, vec[j, DR])
    return worst


@kernel
def longest_steps(n, tree, scalar, vec, mat):
    """Inverses of the longest steps for (x, s) and for (z, p) that leave them non-negative."""
    k = vec.shape[2]
    primal, dual = 0.0, 0.0
    for j in range(n):
        for b in range(tree[j, COUNT]):
            for a in range(tree[j, ABOVE]):
                part = -mat[j, DZ, b, a] * mat[j, INVERSE, b, a]
                dual = part if part > dual else dual
                part = -mat[j, DX, b, a] / mat[j, X, b, a]  # NaN for dropped pairs: does not count
                primal = part if part > primal else primal
        if scalar[j, WEIGHT] > 0.0:
            for a in range(k):
                primal = max(primal, -vec[j, DS, a] / vec[j, S, a])
                dual = max(dual, -vec[j, DP, a] / vec[j, P, a])
    return primal, dual


@kernel
def clear(n, tree, vec):
    for j in range(n):
        for b in range(tree[j, COUNT]):
            vec[j, T, b] = 0.0


@kernel
def corrector_side(j, tree, scalar, vec, mat, target, line):
    """ρ / z into DX and the right-hand side of node j and its edge."""
    m, mp, up = tree[j, COUNT], tree[j, ABOVE], tree[j, PARENT]
    # line[0] gathers ρ̄ - Cκ less the residual of Σ_b x(b, a) = r_parent(a).
    for a in range(mp):
        line[0, a] = -vec[up, R, a]
    for b in range(m):
        for a in range(mp):
            mat[j, DX, b, a] = (target - mat[j, DZ, b, a]) * mat[j, INVERSE, b, a] - mat[j, X, b, a]
        total = 0.0
        for a in range(mp):
            total += mat[j, DX, b, a]
        vec[j, KAPPA, b] = total
        share = total / vec[j, D, b]
        vec[j, HALF, b] = share
        for a in range(mp):
            line[0, a] += mat[j, DX, b, a] - share * mat[j, RATIO, b, a] + mat[j, X, b, a]
    if scalar[j, WEIGHT] > 0.0:
        for a in range(vec.shape[2]):
            vec[j, RS, a] = (target - vec[j, DS, a]) / vec[j, S, a] - vec[j, P, a]
        add_node_side(j, m, scalar, vec, mat, line)
    solve_up(j, m, mp, up, vec, mat, line)


@kernel
def add_node_side(j, m, scalar, vec, mat, line):
    """Add L'q to the right-hand side of node j, q = ρ_s/s - E Σ(ρ_s/s) / ΣE."""
    k = vec.shape[2]
    total = 0.0
    for a in range(k):
        total += vec[j, RS, a]
    total /= scalar[j, E_SUM]
    for a in range(k):
        line[1, a] = vec[j, RS, a] - vec[j, E, a] * total
    add_transposed_product(k, m, mat[j, COST], line[1], vec[j, HALF])


@kernel
def solve_up(j, m, mp, up, vec, mat, line):
    """Half-solve node j, send g of its edge to the parent. line[0]: ρ̄ - Cκ less the residual."""
    half, unit, columns = vec[j, HALF], vec[j, UNIT], line[0]
    for b in range(m):
        half[b] += vec[j, T, b]
    solve_transposed(m, mat[j, UPPER], half)
    along = dot(m, unit, half)
    for b in range(m):
        half[b] -= along * unit[b]
    if up == j:
        return
    add_transposed_product(m, mp, mat[j, W], half, columns)
    product(mp, mp, mat[j, G], columns, vec[j, SIDE])
    for a in range(mp):
        vec[up, T, a] += vec[j, SIDE, a]


@kernel
def solve_down(j, m, mp, up, vec, mat, line):
    """Δu of the edge above node j into DU, Δr of the node into STEP, D Δu into line[0]."""
    du, dr, work = vec[j, DU], vec[j, STEP], line[0]
    if up == j:
        du[0] = 0.0
        for b in range(m):
            dr[b] = vec[j, HALF, b]
            work[b] = 0.0
        solve_upper(m, mat[j, UPPER], dr)
        return
    product(mp, mp, mat[j, G], vec[up, STEP], du)
    for a in range(mp):
        du[a] = vec[j, SIDE, a] - du[a]
    product(m, mp, mat[j, W], du, dr)
    for b in range(m):
        dr[b] = vec[j, HALF, b] - dr[b]
    solve_upper(m, mat[j, UPPER], dr)
    product(m, mp, mat[j, RATIO], du, work)


@kernel
def edge_direction(j, tree, vec, mat, line, again):
    """Δr of node j, Δx and Δz of the edge above it, or with ``again`` what to add to them.

    SIDE becomes the residual of Σ_b (x + Δx)(b, a) = (r + Δr)_parent(a); returns its largest entry,
    relative to r.
    """
    m, mp, up = tree[j, COUNT], tree[j, ABOVE], tree[j, PARENT]
    solve_down(j, m, mp, up, vec, mat, line)
    for a in range(mp):
        line[1, a] = 0.0
    for b in range(m):
        dr = vec[j, STEP, b]
        if again:
            dc = (dr + line[0, b]) / vec[j, D, b]
            vec[j, DR, b] += dr
        else:
            dc = (dr - vec[j, KAPPA, b] + line[0, b]) / vec[j, D, b]
            vec[j, DR, b] = dr
            for a in range(mp):
                mat[j, DZ, b, a] = 0.0
        for a in range(mp):
            mat[j, DZ, b, a] += vec[j, DU, a] - dc
        for a in range(mp):
            mat[j, DX, b, a] -= mat[j, RATIO, b, a] * (vec[j, DU, a] - dc)
        for a in range(mp):
            line[1, a] += mat[j, X, b, a] + mat[j, DX, b, a]
    worst = 0.0
    if up != j:
        for a in range(mp):
            residual = vec[up, R, a] + vec[up, DR, a] - line[1, a]
            vec[j, SIDE, a] = residual
            worst = max(worst, abs(residual) / vec[up, R, a])
    return worst


@kernel
def node_direction(j, m, scalar, vec, mat, dr):
    """Δs and Δp of node j."""
    k = vec.shape[2]
    product(k, m, mat[j, COST], dr, vec[j, DS])
    shift = 0.0
    for a in range(k):
        shift += vec[j, E, a] * vec[j, DS, a] - vec[j, RS, a]
    shift /= scalar[j, E_SUM]
    for a in range(k):
        vec[j, DS, a] -= shift
        vec[j, DP, a] = vec[j, RS, a] - vec[j, E, a] * vec[j, DS, a]
