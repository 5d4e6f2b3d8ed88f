"""One Newton step of the interior point: an elimination up the tree, substitution down.

Per edge, with D = x / z, d its row sums, C = D' diag(1/d) and, per node, E = p / s:

    node     H = L'(diag E - EE'/ΣE) L                      what the predictor does about Δr
    columns  K = diag(1/d) + J,  J = H + Σ_children G       Δr = P (κ/d + t - C'Δu), 1'Δr = 0
    rows     M = diag(D'1) - D' diag(1/d) D + C P C'        M Δu = m - Δr_parent,  G = M⁻¹

Σ Δr = 0 on every node, and u and c enter only through their difference. P is therefore K⁻¹
projected so that P1 = 0, M1 = 0 holds exactly, and M is inverted with one label grounded at 0. No
difference of large numbers is formed: diagonals are sums of positive terms.
"""

import numpy as np

from robustruct.kernels._jit import helper
from robustruct.kernels.dense import (
    NO,
    YES,
    add_gram,
    add_transposed_product,
    cholesky,
    gram_difference,
    inverse_from_cholesky,
    product,
    solve_transposed,
    solve_transposed_rows,
    solve_upper,
    swap_symmetric,
)
from robustruct.kernels.interior_state import (
    ABOVE,
    ANSWERS,
    COST,
    COUNT,
    DP,
    DR,
    DS,
    DU,
    DX,
    DZ,
    E_SUM,
    HALF,
    INVERSE,
    KAPPA,
    M1,
    M2,
    PARENT,
    RATIO,
    RS,
    SIDE,
    STEP,
    UNIT,
    UPPER,
    V1,
    V2,
    WEIGHT,
    D,
    E,
    G,
    P,
    R,
    S,
    T,
    W,
    X,
)

# Mass of a label below which it need not be met to a relative precision. Labels far behind the best
# have masses of 1e-10 and less, which no Newton system in floating point meets; what they are off
# by is made up for when the bounds are taken.
NEGLIGIBLE = 1e-6


@helper
def factorise(n, tree, scalar, vec, mat):
    """Eliminate from the leaves up."""
    for j in range(n):
        for b in range(tree[j, COUNT]):
            for c in range(tree[j, COUNT]):
                mat[j, UPPER, b, c] = 0.0
    for j in range(n):
        m, mp, up = tree[j, COUNT], tree[j, ABOVE], tree[j, PARENT]
        if scalar[j, WEIGHT] > 0.0:
            add_node_matrix(j, tree[j, ANSWERS], m, scalar, vec, mat)
        row_sums(j, m, mp, vec, mat)
        for b in range(m):
            mat[j, UPPER, b, b] += 1.0 / vec[j, D, b]
            vec[j, UNIT, b] = 1.0
        cholesky(m, 1e-15, NO, mat, j, UPPER)
        solve_transposed(m, mat, j, UPPER, vec, j, UNIT)
        length = 0.0
        for b in range(m):
            length += vec[j, UNIT, b] * vec[j, UNIT, b]
        length = 1.0 / np.sqrt(length)
        for b in range(m):
            vec[j, UNIT, b] *= length
        if up != j:
            eliminate_edge(j, m, mp, vec, mat)
            for a in range(mp):
                for b in range(mp):
                    mat[up, UPPER, a, b] += mat[j, G, a, b]


@helper
def add_node_matrix(j, k, m, scalar, vec, mat):
    """J += H = Σ_a E_a (L_a - mean)(L_a - mean)' over k answers, the mean weighted by E."""
    spare = mat.shape[0] - 1
    for b in range(m):
        vec[j, V1, b] = 0.0
    total = 0.0
    for a in range(k):
        e = vec[j, P, a] / vec[j, S, a]
        vec[j, E, a] = e
        total += e
        for b in range(m):
            vec[j, V1, b] += e * mat[j, COST, a, b]
    scalar[j, E_SUM] = total
    for b in range(m):
        vec[j, V1, b] /= total
    for a in range(k):
        root = np.sqrt(vec[j, E, a])
        for b in range(m):
            mat[spare, M1, a, b] = root * (mat[j, COST, a, b] - vec[j, V1, b])
    add_gram(k, m, mat, spare, M1, j, UPPER)


@helper
def row_sums(j, m, mp, vec, mat):
    """D and d; V1 becomes the diagonal of diag(D'1) - D' diag(1/d) D, without cancellation."""
    for a in range(mp):
        vec[j, V1, a] = 0.0
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
            vec[j, V1, a] += mat[j, RATIO, b, a] * (total - mat[j, RATIO, b, a]) * scale
        vec[j, V1, top] += largest * rest * scale
        mat[j, RATIO, b, top] = largest


@helper
def eliminate_edge(j, m, mp, vec, mat):
    """W = the factor's solution for C', projected, so that C P C' = W'W; and G."""
    spare = mat.shape[0] - 1
    for a in range(mp):
        vec[j, V2, a] = 0.0
    for b in range(m):
        scale = 1.0 / vec[j, D, b]
        root = np.sqrt(scale)
        for a in range(mp):
            mat[j, W, b, a] = mat[j, RATIO, b, a] * scale
            mat[spare, M2, b, a] = mat[j, RATIO, b, a] * root
    solve_transposed_rows(m, mp, NO, mat, j, UPPER, j, W)
    add_transposed_product(m, mp, mat, j, W, vec, j, UNIT, j, V2)
    for b in range(m):
        share = vec[j, UNIT, b]
        for a in range(mp):
            mat[j, W, b, a] -= share * vec[j, V2, a]
        for a in range(mp):
            vec[j, V1, a] += mat[j, W, b, a] * mat[j, W, b, a]
    gram_difference(m, mp, mat, j, W, spare, M2, spare, M1)
    for a in range(mp):
        mat[spare, M1, a, a] = vec[j, V1, a]
    invert_grounded(j, mp, mat)


@helper
def invert_grounded(j, n, mat):
    """G = inverse of M (in M1) without the row and column of its largest diagonal, 0 there."""
    spare = mat.shape[0] - 1
    ground = 0
    for a in range(1, n):
        if mat[spare, M1, a, a] > mat[spare, M1, ground, ground]:
            ground = a
    last = n - 1
    swap_symmetric(n, ground, last, mat, spare, M1)
    cholesky(n, 0.0, YES, mat, spare, M1)
    inverse_from_cholesky(last, mat, spare, M1, M2, j, G)
    for a in range(n):
        mat[j, G, a, last] = 0.0
        mat[j, G, last, a] = 0.0
    if ground != last:
        for a in range(n):
            mat[j, G, a, last] = mat[j, G, a, ground]
            mat[j, G, a, ground] = 0.0
        for a in range(n):
            mat[j, G, last, a] = mat[j, G, ground, a]
            mat[j, G, ground, a] = 0.0


@helper
def predict(n, tree, scalar, vec, mat):
    """The direction that aims at a gap of 0; keeps only Δx∘Δz in DZ and Δp∘Δs in DS.

    Returns the inverses of the longest steps for (x, s) and (z, p), Σ xΔz + sΔp, and Σ ΔxΔz + ΔpΔs.
    """
    clear(n, tree, vec)
    for j in range(n):
        m, mp, up = tree[j, COUNT], tree[j, ABOVE], tree[j, PARENT]
        for a in range(mp):
            vec[j, V1, a] = -vec[up, R, a]
        for b in range(m):
            vec[j, KAPPA, b] = -vec[j, R, b]
            vec[j, HALF, b] = vec[j, KAPPA, b] / vec[j, D, b]
            for a in range(mp):
                vec[j, V1, a] -= vec[j, HALF, b] * mat[j, RATIO, b, a]
        if scalar[j, WEIGHT] > 0.0:
            for a in range(tree[j, ANSWERS]):
                vec[j, RS, a] = -vec[j, P, a]
            add_node_side(j, tree[j, ANSWERS], m, scalar, vec, mat)
        solve_up(j, m, mp, up, vec, mat)
    primal, dual, slope, curve = 0.0, 0.0, 0.0, 0.0
    for j in range(n - 1, -1, -1):
        m, mp, up = tree[j, COUNT], tree[j, ABOVE], tree[j, PARENT]
        solve_down(j, m, mp, up, vec, mat)
        low, high = 0.0, 0.0
        for b in range(m):
            dc = (vec[j, STEP, b] - vec[j, KAPPA, b] + vec[j, V1, b]) / vec[j, D, b]
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
            node_direction(j, tree[j, ANSWERS], m, scalar, vec, mat, STEP)
            for a in range(tree[j, ANSWERS]):
                primal = max(primal, -vec[j, DS, a] / vec[j, S, a])
                dual = max(dual, -vec[j, DP, a] / vec[j, P, a])
                slope += vec[j, S, a] * vec[j, DP, a]
                vec[j, DS, a] *= vec[j, DP, a]
                curve += vec[j, DS, a]
    return primal, dual, slope, curve


@helper
def correct(n, tree, scalar, vec, mat, target):
    """Direction for the complementarity ``target``, with the second-order terms held in DZ and DS.

    Refined until Σ_b x(b, a) = r_parent(a) will hold; returns how far it will not, relative to r.
    """
    clear(n, tree, vec)
    for j in range(n):
        corrector_side(j, tree, scalar, vec, mat, target)
    worst = 0.0
    for j in range(n - 1, -1, -1):
        worst = max(worst, edge_direction(j, tree, vec, mat, NO))
    for _ in range(3):
        if worst < 1e-10:
            break
        last = worst
        clear(n, tree, vec)
        for j in range(n):
            for a in range(tree[j, ABOVE]):
                vec[j, V1, a] = -vec[j, SIDE, a]
            for b in range(tree[j, COUNT]):
                vec[j, HALF, b] = 0.0
            solve_up(j, tree[j, COUNT], tree[j, ABOVE], tree[j, PARENT], vec, mat)
        worst = 0.0
        for j in range(n - 1, -1, -1):
            worst = max(worst, edge_direction(j, tree, vec, mat, YES))
        if worst > 0.5 * last:
            break
    for j in range(n):
        if scalar[j, WEIGHT] > 0.0:
            node_direction(j, tree[j, ANSWERS], tree[j, COUNT], scalar, vec, mat, DR)
    return worst


@helper
def longest_steps(n, tree, scalar, vec, mat):
    """Inverses of the longest steps for (x, s) and for (z, p) that leave them non-negative."""
    primal, dual = 0.0, 0.0
    for j in range(n):
        for b in range(tree[j, COUNT]):
            for a in range(tree[j, ABOVE]):
                part = -mat[j, DZ, b, a] * mat[j, INVERSE, b, a]
                dual = part if part > dual else dual
                part = -mat[j, DX, b, a] / mat[j, X, b, a]  # NaN for dropped pairs: does not count
                primal = part if part > primal else primal
        if scalar[j, WEIGHT] > 0.0:
            for a in range(tree[j, ANSWERS]):
                primal = max(primal, -vec[j, DS, a] / vec[j, S, a])
                dual = max(dual, -vec[j, DP, a] / vec[j, P, a])
    return primal, dual


@helper
def clear(n, tree, vec):
    """The sums of the children's messages start at zero."""
    for j in range(n):
        for b in range(tree[j, COUNT]):
            vec[j, T, b] = 0.0


@helper
def corrector_side(j, tree, scalar, vec, mat, target):
    """ρ / z into DX and the right-hand side of node j and its edge."""
    m, mp, up = tree[j, COUNT], tree[j, ABOVE], tree[j, PARENT]
    # V1 gathers ρ̄ - Cκ less the residual of Σ_b x(b, a) = r_parent(a).
    for a in range(mp):
        vec[j, V1, a] = -vec[up, R, a]
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
            vec[j, V1, a] += mat[j, DX, b, a] - share * mat[j, RATIO, b, a] + mat[j, X, b, a]
    if scalar[j, WEIGHT] > 0.0:
        for a in range(tree[j, ANSWERS]):
            vec[j, RS, a] = (target - vec[j, DS, a]) / vec[j, S, a] - vec[j, P, a]
        add_node_side(j, tree[j, ANSWERS], m, scalar, vec, mat)
    solve_up(j, m, mp, up, vec, mat)


@helper
def add_node_side(j, k, m, scalar, vec, mat):
    """Add L'q to the right-hand side of node j with k answers, q = ρ_s/s - E Σ(ρ_s/s) / ΣE."""
    total = 0.0
    for a in range(k):
        total += vec[j, RS, a]
    total /= scalar[j, E_SUM]
    for a in range(k):
        vec[j, V2, a] = vec[j, RS, a] - vec[j, E, a] * total
    add_transposed_product(k, m, mat, j, COST, vec, j, V2, j, HALF)


@helper
def solve_up(j, m, mp, up, vec, mat):
    """Half-solve node j, send g of its edge to the parent. V1: ρ̄ - Cκ less the residual."""
    for b in range(m):
        vec[j, HALF, b] += vec[j, T, b]
    solve_transposed(m, mat, j, UPPER, vec, j, HALF)
    along = 0.0
    for b in range(m):
        along += vec[j, UNIT, b] * vec[j, HALF, b]
    for b in range(m):
        vec[j, HALF, b] -= along * vec[j, UNIT, b]
    if up == j:
        return
    add_transposed_product(m, mp, mat, j, W, vec, j, HALF, j, V1)
    product(mp, mp, mat, j, G, vec, j, V1, j, SIDE)
    for a in range(mp):
        vec[up, T, a] += vec[j, SIDE, a]


@helper
def solve_down(j, m, mp, up, vec, mat):
    """Δu of the edge above node j into DU, Δr of the node into STEP, D Δu into V1."""
    if up == j:
        vec[j, DU, 0] = 0.0
        for b in range(m):
            vec[j, STEP, b] = vec[j, HALF, b]
            vec[j, V1, b] = 0.0
    else:
        product(mp, mp, mat, j, G, vec, up, STEP, j, DU)
        for a in range(mp):
            vec[j, DU, a] = vec[j, SIDE, a] - vec[j, DU, a]
        product(m, mp, mat, j, W, vec, j, DU, j, STEP)
        for b in range(m):
            vec[j, STEP, b] = vec[j, HALF, b] - vec[j, STEP, b]
        product(m, mp, mat, j, RATIO, vec, j, DU, j, V1)
    solve_upper(m, mat, j, UPPER, vec, j, STEP)


@helper
def edge_direction(j, tree, vec, mat, again):
    """Δr of node j, Δx and Δz of the edge above it, or with ``again`` what to add to them.

    SIDE becomes the residual of Σ_b (x + Δx)(b, a) = (r + Δr)_parent(a); returns its largest entry,
    relative to r, or to NEGLIGIBLE where r is smaller.
    """
    m, mp, up = tree[j, COUNT], tree[j, ABOVE], tree[j, PARENT]
    solve_down(j, m, mp, up, vec, mat)
    for a in range(mp):
        vec[j, V2, a] = 0.0
    for b in range(m):
        dr = vec[j, STEP, b]
        if again:
            dc = (dr + vec[j, V1, b]) / vec[j, D, b]
            vec[j, DR, b] += dr
        else:
            dc = (dr - vec[j, KAPPA, b] + vec[j, V1, b]) / vec[j, D, b]
            vec[j, DR, b] = dr
            for a in range(mp):
                mat[j, DZ, b, a] = 0.0
        for a in range(mp):
            mat[j, DZ, b, a] += vec[j, DU, a] - dc
        for a in range(mp):
            mat[j, DX, b, a] -= mat[j, RATIO, b, a] * (vec[j, DU, a] - dc)
        for a in range(mp):
            vec[j, V2, a] += mat[j, X, b, a] + mat[j, DX, b, a]
    worst = 0.0
    if up != j:
        for a in range(mp):
            residual = vec[up, R, a] + vec[up, DR, a] - vec[j, V2, a]
            vec[j, SIDE, a] = residual
            worst = max(worst, abs(residual) / max(vec[up, R, a], NEGLIGIBLE))
    return worst


@helper
def node_direction(j, k, m, scalar, vec, mat, dr):
    """Δs and Δp of node j with k answers, Δr in the slot ``dr``."""
    product(k, m, mat, j, COST, vec, j, dr, j, DS)
    shift = 0.0
    for a in range(k):
        shift += vec[j, E, a] * vec[j, DS, a] - vec[j, RS, a]
    shift /= scalar[j, E_SUM]
    for a in range(k):
        vec[j, DS, a] -= shift
        vec[j, DP, a] = vec[j, RS, a] - vec[j, E, a] * vec[j, DS, a]
