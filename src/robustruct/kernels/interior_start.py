"""Where the interior point starts: the part of a game that matters, and a strictly feasible point.

A labelling whose score is below the best one by more than Σ w (max L - min L) is never played, so
labels and pairs that occur in no better labelling are dropped; -inf drops the same way. What is left
is scaled so that costs span 1 and the largest weight is 1.
"""

import numpy as np

from robustruct.kernels._jit import kernel
from robustruct.kernels.interior_state import (
    ABOVE, COST, COUNT, INVERSE, PARENT, WEIGHT, P, R, S, X, Z,
)  # fmt: skip
from robustruct.kernels.max_product import max_product_up


@kernel
def reduce_game(
    lo, hi, above, unary, tables, table_of, weight, spread, best, slack,
    tree, labels, scalar, mat,
):  # fmt: skip
    """Fill the structure, the weights and, as x = 0 or 1, the pairs kept.

    ``above`` is the parent in the batch, ``spread`` is max L - min L. best and slack (N, k), out: best
    labelling of each subtree, and what label b at node i costs the best labelling. Returns the number
    of pairs kept, 0 if no labelling is finite.
    """
    k = unary.shape[1]
    max_product_up(lo, hi, above, unary, tables, table_of, best)
    heaviest = weight[lo:hi].max()
    # The cost at stake in each tree, gathered at its root and handed down.
    stake = np.zeros(hi - lo)
    for i in range(lo, hi):
        stake[i - lo] += weight[i] * spread
        if above[i] >= 0:
            stake[above[i] - lo] += stake[i - lo]
    pairs = 0
    for i in range(hi - 1, lo - 1, -1):
        j, up = i - lo, above[i] - lo
        # A weight this small moves the value by less than rounding does.
        scalar[j, WEIGHT] = weight[i] / heaviest if weight[i] > 1e-13 * heaviest else 0.0
        if above[i] >= 0:
            tree[j, PARENT] = up
            tree[j, ABOVE] = tree[up, COUNT]
            stake[j] = stake[up]
            table = tables[table_of[i]]
            pairs += keep_pairs(
                j, up, best[i], table, stake[j], slack[above[i]], slack[i], tree, labels, mat[j, X]
            )
            continue
        tree[j, PARENT] = j
        tree[j, ABOVE] = 1
        top = best[i].max()
        if not top > -np.inf:
            return 0
        # Rounding decides nothing near the border.
        stake[j] += 1e-9 * stake[j] + 1e-12 * abs(top)
        m = 0
        for b in range(k):
            slack[i, b] = top - best[i, b]
            if slack[i, b] <= stake[j]:
                labels[j, m] = b
                mat[j, X, m, 0] = 1.0
                m += 1
        tree[j, COUNT] = m
        pairs += m
    return pairs


@kernel
def keep_pairs(j, up, best, table, bound, slack_up, slack, tree, labels, x):
    """Labels of node j, and pairs with its parent's, that occur in a labelling within the bound."""
    k = best.shape[0]
    mp = tree[up, COUNT]
    m = 0
    pairs = 0
    message = np.empty(mp)
    for a in range(mp):
        label = labels[up, a]
        value = -np.inf
        for b in range(k):
            value = max(value, best[b] + table[b, label])
        message[a] = slack_up[label] + value
    for b in range(k):
        least = np.inf
        kept = 0
        for a in range(mp):
            loss = message[a] - (best[b] + table[b, labels[up, a]])
            least = min(least, loss)
            x[m, a] = 0.0
            if loss <= bound:
                x[m, a] = 1.0
                kept += 1
        slack[b] = least
        if kept > 0:
            labels[j, m] = b
            m += 1
            pairs += kept
    tree[j, COUNT] = m
    return pairs


@kernel
def start_point(lo, n, unary, tables, table_of, unit, loss, tree, labels, scalar, vec, mat, c):
    """A strictly feasible point near the middle: x spread evenly, slacks loosened messages.

    unit: what scores are divided by; loss (k, k) costs scaled to span 1; c (n, k) scratch.
    """
    k = loss.shape[0]
    for j in range(n):
        share = scalar[j, WEIGHT] / k
        for a in range(k):
            vec[j, P, a] = share
        for b in range(tree[j, COUNT]):
            c[j, b] = unary[lo + j, labels[j, b]] / unit
            for a in range(k):
                mat[j, COST, a, b] = loss[a, labels[j, b]]
                c[j, b] += share * mat[j, COST, a, b]
    for j in range(n):
        start_slacks(j, tables[table_of[lo + j]], unit, tree, labels, mat[j], c)
    for j in range(n - 1, -1, -1):
        start_marginals(j, tree, scalar, vec, mat[j])


@kernel
def start_slacks(j, table, unit, tree, labels, mat, c):
    """z of the edge above node j, and the message into c of its parent."""
    m, mp, up = tree[j, COUNT], tree[j, ABOVE], tree[j, PARENT]
    x, z, inverse = mat[X], mat[Z], mat[INVERSE]
    total = 0.0
    pairs = 0
    for a in range(mp):
        message = -np.inf
        for b in range(m):
            z[b, a] = 0.0
            if x[b, a] > 0.0:
                z[b, a] = c[j, b]
                if up != j:
                    z[b, a] += table[labels[j, b], labels[up, a]] / unit
                message = max(message, z[b, a])
        for b in range(m):
            if x[b, a] > 0.0:
                z[b, a] = message - z[b, a]
                total += z[b, a]
                pairs += 1
        if up != j:
            c[up, a] += message
    loosening = 0.1 + total / pairs
    for b in range(m):
        for a in range(mp):
            z[b, a] += loosening
            inverse[b, a] = 1.0 / z[b, a] if x[b, a] > 0.0 else 0.0
    # Only differences between the messages matter: keep them small on long chains.
    if up != j:
        top = c[up, :mp].max()
        for a in range(mp):
            c[up, a] -= top


@kernel
def start_marginals(j, tree, scalar, vec, mat):
    """x of the edge above node j, even over the labels kept under each label of the parent; s."""
    k = vec.shape[2]
    m, mp, up = tree[j, COUNT], tree[j, ABOVE], tree[j, PARENT]
    x, z, r, s = mat[X], mat[Z], vec[j, R], vec[j, S]
    for b in range(m):
        r[b] = 0.0
    product = 0.0
    pairs = 0
    for a in range(mp):
        kept = 0
        for b in range(m):
            kept += 1 if x[b, a] > 0.0 else 0
        share = (1.0 if up == j else vec[up, R, a]) / kept
        pairs += kept
        for b in range(m):
            if x[b, a] > 0.0:
                x[b, a] = share
                r[b] += share
                product += share * z[b, a]
    if scalar[j, WEIGHT] == 0.0:
        return
    least = np.inf
    for a in range(k):
        value = 0.0
        for b in range(m):
            value += mat[COST, a, b] * r[b]
        s[a] = value
        least = min(least, value)
    loosening = product / pairs * k / scalar[j, WEIGHT]
    for a in range(k):
        s[a] += loosening - least
