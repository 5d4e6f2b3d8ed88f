"""Where the interior point starts: the part of a game that matters, and a strictly feasible point.

A labelling that the adversary plays is at least as good for it as the best labelling y*, and stays
so when it goes back to y* on a connected set of nodes where the two differ. So a label or a pair is
never played if even a bonus of w (max L - min L) on every node that leaves y* does not make up for
the scores lost on any connected set around it. Such labels and pairs are dropped; -inf drops the
same way. What is left is scaled so that costs span 1 and the largest weight is 1.
"""

import numpy as np

from robustruct.kernels._jit import kernel
from robustruct.kernels.interior_state import (
    ABOVE,
    COST,
    COUNT,
    DX,
    INVERSE,
    PARENT,
    WEIGHT,
    P,
    R,
    S,
    X,
    Z,
)
from robustruct.kernels.max_product import max_product_down, max_product_up


@kernel
def reduce_game(
    lo, hi, above, unary, tables, table_of, weight, spread, best, gain, star,
    tree, labels, scalar, mat,
):  # fmt: skip
    """Fill the structure, the weights and, as 1 or 0 in INVERSE, the pairs kept.

    ``above`` is the parent in the batch, ``spread`` is max L - min L. best and gain (N, k) and star
    (N,) intp are scratch: star is y*, and best and gain what a label gains at most over y* within
    its subtree and in all. Returns the number of pairs kept, 0 if no labelling is finite.
    """
    k = unary.shape[1]
    max_product_up(lo, hi, above, unary, tables, table_of, best)
    top = max_product_down(lo, hi, above, tables, table_of, best, star)
    if not top > -np.inf:
        return 0
    heaviest = weight[lo:hi].max()
    # Rounding decides nothing near the border.
    margin = -(1e-9 * spread * heaviest + 1e-13 * abs(top))
    for i in range(lo, hi):
        for b in range(k):
            best[i, b] = unary[i, b] - unary[i, star[i]] + weight[i] * spread
        best[i, star[i]] = 0.0
    message = np.empty(k)
    for i in range(lo, hi):
        if above[i] >= 0:
            gains_above(star[i], star[above[i]], tables[table_of[i]], best[i], message)
            for a in range(k):
                if a != star[above[i]]:
                    best[above[i], a] += message[a]
    pairs = 0
    for i in range(hi - 1, lo - 1, -1):
        j, up = i - lo, above[i] - lo
        # A weight this small moves the value by less than rounding does.
        scalar[j, WEIGHT] = weight[i] / heaviest if weight[i] > 1e-13 * heaviest else 0.0
        if above[i] >= 0:
            table = tables[table_of[i]]
            gains_above(star[i], star[above[i]], table, best[i], message)
            # What a label of the parent gains without this subtree.
            for a in range(k):
                rest = gain[above[i], a] - message[a]
                message[a] = rest if message[a] > -np.inf else -np.inf
            message[star[above[i]]] = 0.0
            tree[j, PARENT] = up
            tree[j, ABOVE] = tree[up, COUNT]
            pairs += keep_pairs(
                j, up, star[i], star[above[i]], table, best[i], message, margin, gain[i], tree,
                labels, mat[j, INVERSE],
            )  # fmt: skip
            continue
        tree[j, PARENT] = j
        tree[j, ABOVE] = 1
        m = 0
        for b in range(k):
            gain[i, b] = best[i, b]
            if gain[i, b] >= margin:
                labels[j, m] = b
                mat[j, INVERSE, m, 0] = 1.0
                m += 1
        tree[j, COUNT] = m
        pairs += m
    return pairs


@kernel
def gains_above(star, star_up, table, below, message):
    """message[a] = the most a subtree gains over y* if the parent of its root has label a."""
    k = below.shape[0]
    for a in range(k):
        message[a] = -np.inf
    for b in range(k):
        base = below[b] - table[star, star_up]
        for a in range(k):
            value = base + table[b, a]
            message[a] = value if value > message[a] else message[a]


@kernel
def keep_pairs(j, up, star, star_up, table, below, rest, margin, gain, tree, labels, kept):
    """Labels of node j, and pairs with its parent's, that may be played; gain of each label."""
    k = below.shape[0]
    m = 0
    pairs = 0
    for b in range(k):
        most = -np.inf
        partners = 0
        for a in range(tree[up, COUNT]):
            label = labels[up, a]
            value = rest[label] + (below[b] + (table[b, label] - table[star, star_up]))
            most = max(most, value)
            kept[m, a] = 0.0
            if value >= margin or (b == star and label == star_up):
                kept[m, a] = 1.0
                partners += 1
        gain[b] = 0.0 if b == star else most
        if partners > 0:
            labels[j, m] = b
            m += 1
            pairs += partners
    tree[j, COUNT] = m
    return pairs


@kernel
def collect_costs(n, loss, tree, labels, mat):
    """The columns of the scaled costs that belong to the labels kept."""
    for j in range(n):
        for a in range(loss.shape[0]):
            for b in range(tree[j, COUNT]):
                mat[j, COST, a, b] = loss[a, labels[j, b]]


@kernel
def answer(n, tree, scalar, vec, mat):
    """p inverse to the loosened slacks against the adversary's r."""
    k = vec.shape[2]
    for j in range(n):
        if scalar[j, WEIGHT] > 0.0:
            node_slacks(j, tree, vec, mat)
            total = 0.0
            for a in range(k):
                vec[j, P, a] = 1.0 / (vec[j, S, a] + 0.1)
                total += vec[j, P, a]
            for a in range(k):
                vec[j, P, a] *= scalar[j, WEIGHT] / total


@kernel
def mix_predictor(lo, n, share, scalar, vec, p):
    """p mixes the even predictor with ``share`` of the one given; rows without one stay even."""
    k = vec.shape[2]
    for j in range(n):
        total = 0.0
        for a in range(k):
            total += max(p[lo + j, a], 0.0)
        mix = share if 0.0 < total < np.inf else 0.0
        for a in range(k):
            part = (1.0 - mix) / k
            if mix > 0.0:
                part += mix * max(p[lo + j, a], 0.0) / total
            vec[j, P, a] = scalar[j, WEIGHT] * part


@kernel
def tight_slacks(lo, n, unary, tables, table_of, unit, tree, labels, vec, mat, c):
    """z of max-product against the predictor: 0 for the best label under each of the parent."""
    k = vec.shape[2]
    for j in range(n):
        for b in range(tree[j, COUNT]):
            c[j, b] = unary[lo + j, labels[j, b]] / unit
        for a in range(k):
            for b in range(tree[j, COUNT]):
                c[j, b] += vec[j, P, a] * mat[j, COST, a, b]
    for j in range(n):
        m, mp, up = tree[j, COUNT], tree[j, ABOVE], tree[j, PARENT]
        table = tables[table_of[lo + j]]
        top = -np.inf
        for a in range(mp):
            message = -np.inf
            for b in range(m):
                if mat[j, INVERSE, b, a] > 0.0:
                    mat[j, Z, b, a] = c[j, b]
                    if up != j:
                        mat[j, Z, b, a] += table[labels[j, b], labels[up, a]] / unit
                    message = max(message, mat[j, Z, b, a])
            for b in range(m):
                if mat[j, INVERSE, b, a] > 0.0:
                    mat[j, Z, b, a] = message - mat[j, Z, b, a]
            if up != j:
                c[up, a] += message
                top = max(top, c[up, a])
        # Only differences between messages matter: keep them small on long chains.
        if up != j:
            for a in range(mp):
                c[up, a] -= top


@kernel
def spread_marginals(lo, n, loosening, share, tree, labels, vec, mat, r, q):
    """x and r: under each label of the parent, mass inverse to the loosened slack.

    ``share`` of the mass follows the earlier adversary r (N, k), q (N, k, k) instead.
    """
    for j in range(n - 1, -1, -1):
        m, mp, up = tree[j, COUNT], tree[j, ABOVE], tree[j, PARENT]
        for b in range(m):
            vec[j, R, b] = 0.0
        for a in range(mp):
            total, earlier = 0.0, 0.0
            for b in range(m):
                mat[j, X, b, a] = 0.0
                mat[j, DX, b, a] = 0.0
                if mat[j, INVERSE, b, a] > 0.0:
                    mat[j, X, b, a] = 1.0 / (mat[j, Z, b, a] + loosening)
                    total += mat[j, X, b, a]
                    if share > 0.0:
                        mass = (
                            r[lo + j, labels[j, b]]
                            if up == j
                            else q[lo + j, labels[j, b], labels[up, a]]
                        )
                        if mass > 0.0:
                            mat[j, DX, b, a] = mass
                            earlier += mass
            above = 1.0 if up == j else vec[up, R, a]
            kept = share if 0.0 < earlier < np.inf else 0.0
            fresh = above * (1.0 - kept) / total
            kept *= above / earlier if kept > 0.0 else 0.0
            for b in range(m):
                mat[j, X, b, a] = fresh * mat[j, X, b, a] + kept * mat[j, DX, b, a]
                vec[j, R, b] += mat[j, X, b, a]


@kernel
def node_slacks(j, tree, vec, mat):
    """s of node j, 0 for the predictor's best answer."""
    k = vec.shape[2]
    least = np.inf
    for a in range(k):
        vec[j, S, a] = 0.0
        for b in range(tree[j, COUNT]):
            vec[j, S, a] += mat[j, COST, a, b] * vec[j, R, b]
        least = min(least, vec[j, S, a])
    for a in range(k):
        vec[j, S, a] -= least


@kernel
def loosen(n, loosening, tree, scalar, vec, mat):
    """Move z and s off 0, s so that the products p s are about as large as the products x z.

    Returns the gap, Σ x z + Σ p s. A loosening of 0 leaves z and s as they are.
    """
    k = vec.shape[2]
    total = 0.0
    pairs = 0
    for j in range(n):
        for b in range(tree[j, COUNT]):
            for a in range(tree[j, ABOVE]):
                if mat[j, INVERSE, b, a] > 0.0:
                    if loosening > 0.0:
                        mat[j, Z, b, a] += loosening
                        mat[j, INVERSE, b, a] = 1.0 / mat[j, Z, b, a]
                    total += mat[j, X, b, a] * mat[j, Z, b, a]
                    pairs += 1
                else:
                    mat[j, Z, b, a] = 1.0
    product = total / pairs if loosening > 0.0 else 0.0
    for j in range(n):
        if scalar[j, WEIGHT] > 0.0:
            node_slacks(j, tree, vec, mat)
            for a in range(k):
                vec[j, S, a] += product * k / scalar[j, WEIGHT]
                total += vec[j, P, a] * vec[j, S, a]
    return total
