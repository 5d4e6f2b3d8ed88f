"""Where the interior point starts: the part of a game that matters, and a strictly feasible point.

A labelling whose score is below the best one by more than Σ w (max L - min L) is never played, so
labels and pairs that occur in no better labelling are dropped; -inf drops the same way. What is left
is scaled so that costs span 1 and the largest weight is 1.
"""

import numpy as np

from robustruct.kernels._jit import kernel
from robustruct.kernels.interior_state import (
    ABOVE, COST, COUNT, DX, INVERSE, PARENT, WEIGHT, P, R, S, X, Z,
)  # fmt: skip
from robustruct.kernels.max_product import max_product_up


@kernel
def reduce_game(
    lo, hi, above, unary, tables, table_of, weight, spread, best, slack,
    tree, labels, scalar, mat,
):  # fmt: skip
    """Fill the structure, the weights and, as 1 or 0 in INVERSE, the pairs kept.

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
                j, up, best[i], table, stake[j], slack[above[i]], slack[i], tree, labels, mat[j, INVERSE]
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
                mat[j, INVERSE, m, 0] = 1.0
                m += 1
        tree[j, COUNT] = m
        pairs += m
    return pairs


@kernel
def keep_pairs(j, up, best, table, bound, slack_up, slack, tree, labels, kept):
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
        partners = 0
        for a in range(mp):
            loss = message[a] - (best[b] + table[b, labels[up, a]])
            least = min(least, loss)
            kept[m, a] = 0.0
            if loss <= bound:
                kept[m, a] = 1.0
                partners += 1
        slack[b] = least
        if partners > 0:
            labels[j, m] = b
            m += 1
            pairs += partners
    tree[j, COUNT] = m
    return pairs


@kernel
def even_predictor(n, loss, tree, labels, scalar, vec, mat):
    """p = w / k; and gather the costs of the labels kept."""
    k = loss.shape[0]
    for j in range(n):
        for a in range(k):
            vec[j, P, a] = scalar[j, WEIGHT] / k
            for b in range(tree[j, COUNT]):
                mat[j, COST, a, b] = loss[a, labels[j, b]]


@kernel
def answering_predictor(n, tree, scalar, vec, mat):
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
def earlier_predictor(lo, n, share, scalar, vec, p):
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
    """z of max-product against the predictor, 0 for the best label under each label of the parent."""
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
    """Move z and s off 0, s so that the products p s are about as large as the products x z."""
    k = vec.shape[2]
    total = 0.0
    pairs = 0
    for j in range(n):
        for b in range(tree[j, COUNT]):
            for a in range(tree[j, ABOVE]):
                if mat[j, INVERSE, b, a] > 0.0:
                    mat[j, Z, b, a] += loosening
                    mat[j, INVERSE, b, a] = 1.0 / mat[j, Z, b, a]
                    total += mat[j, X, b, a] * mat[j, Z, b, a]
                    pairs += 1
                else:
                    mat[j, Z, b, a] = 1.0
    for j in range(n):
        if scalar[j, WEIGHT] > 0.0:
            node_slacks(j, tree, vec, mat)
            for a in range(k):
                vec[j, S, a] += total / pairs * k / scalar[j, WEIGHT]
