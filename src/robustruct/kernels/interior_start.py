"""Where the interior point starts: the part of a game that matters, and a strictly feasible point.

Of many labels the adversary plays few, and which ones is soon clear: an equilibrium plays only what
is best against its predictor, so against a predictor near it a label played is nearly best. The
labels and pairs of labellings that fall far behind are left out; -inf falls out the same way. What
is left is scaled so that costs span 1 and the largest weight is 1.
"""

import numpy as np

from robustruct.kernels._jit import helper
from robustruct.kernels.interior_state import (
    ABOVE,
    ANSWERS,
    COST,
    COUNT,
    DX,
    INVERSE,
    PARENT,
    V1,
    V2,
    WEIGHT,
    P,
    R,
    S,
    X,
    Z,
)
from robustruct.kernels.max_product import max_product_up

# Mass of the adversary from which on a label or a pair stays in the game.
PLAYED = 1e-3


@helper
def scale_weights(lo, n, weight, heaviest, scalar):
    """Weights in units of the heaviest; their sum."""
    total = 0.0
    for j in range(n):
        # A weight this small moves the value by less than rounding does.
        part = weight[lo + j] / heaviest
        scalar[j, WEIGHT] = part if part > 1e-13 else 0.0
        total += part
    return total


@helper
def restrict(lo, hi, above, scores, reach, known, state):
    """Keep the labels and pairs of the labellings that score within ``reach`` of the best one.

    ``above`` is the parent in the batch, known the strategies known so far, state.augmented the
    scores against a predictor, overwritten by the gains of labels. Fills the structure and, as 1
    or 0 in INVERSE, the pairs kept. Returns their number, 0 if no labelling is finite.
    """
    tables, table_of, r, gain = scores.tables, scores.table_of, known.r, state.augmented
    tree, labels, mat, best = state.tree, state.labels, state.mat, state.best
    k = gain.shape[1]
    max_product_up(lo, hi, above, gain, tables, table_of, best)
    pairs = 0
    for i in range(hi - 1, lo - 1, -1):
        j = i - lo
        if above[i] >= 0:
            tree[j, PARENT] = above[i] - lo
            tree[j, ABOVE] = tree[above[i] - lo, COUNT]
            table, q = tables[table_of[i]], known.q[i]
            pairs += keep_pairs(j, table, reach, q, best[i], gain[above[i]], gain[i], state)
            continue
        top = best[i, 0]
        for b in range(1, k):
            top = best[i, b] if best[i, b] > top else top
        if not top > -np.inf:
            return 0
        tree[j, PARENT] = j
        tree[j, ABOVE] = 1
        m = 0
        for b in range(k):
            gain[i, b] = best[i, b] - top
            if gain[i, b] >= -reach or (r[i, b] > PLAYED and gain[i, b] > -np.inf):
                labels[j, m] = b
                mat[j, INVERSE, m, 0] = 1.0
                m += 1
        tree[j, COUNT] = m
        pairs += m
    return pairs


@helper
def keep_pairs(j, table, reach, q, best, gain_above, gain, state):
    """Labels of node j, and pairs with its parent's, within reach; the gain of each label.

    The gain, never positive, is how far the best labelling with a label falls short of the best.
    """
    tree, labels, vec, mat = state.tree, state.labels, state.vec, state.mat
    k = best.shape[0]
    mp, up = tree[j, ABOVE], tree[j, PARENT]
    m = 0
    pairs = 0
    for b in range(k):
        gain[b] = -np.inf
    for a in range(mp):
        label = labels[up, a]
        message = -np.inf
        for b in range(k):
            message = max(message, best[b] + table[b, label])
        # What a label of the parent gains without this subtree.
        vec[j, V1, a] = gain_above[label] - message
        vec[j, V2, a] = message
    for b in range(k):
        partners = 0
        for a in range(mp):
            here = best[b] + table[b, labels[up, a]]
            value = vec[j, V1, a] + here
            gain[b] = max(gain[b], value)
            # The best partner of each label stays, whatever rounding says.
            kept = (
                value >= -reach or here == vec[j, V2, a] or q[b, labels[up, a]] > PLAYED
            ) and here > -np.inf
            mat[j, INVERSE, m, a] = 1.0 if kept else 0.0
            partners += kept
        if partners > 0:
            labels[j, m] = b
            m += 1
            pairs += partners
    tree[j, COUNT] = m
    return pairs


@helper
def list_answers(lo, n, unary, state):
    """What the predictor may answer: labels that can occur, and therefore have a score."""
    tree, answers = state.tree, state.answers
    for j in range(n):
        m = 0
        for a in range(unary.shape[1]):
            if unary[lo + j, a] > -np.inf:
                answers[j, m] = a
                m += 1
        tree[j, ANSWERS] = m


@helper
def collect_costs(n, state):
    """The scaled costs of the answers against the labels kept."""
    tree, labels, answers, mat = state.tree, state.labels, state.answers, state.mat
    for j in range(n):
        for a in range(tree[j, ANSWERS]):
            for b in range(tree[j, COUNT]):
                mat[j, COST, a, b] = state.loss[answers[j, a], labels[j, b]]


@helper
def answer(n, tree, scalar, vec, mat):
    """p inverse to the loosened slacks against the adversary's r."""
    for j in range(n):
        if scalar[j, WEIGHT] > 0.0:
            k = tree[j, ANSWERS]
            node_slacks(j, tree, vec, mat)
            total = 0.0
            for a in range(k):
                vec[j, P, a] = 1.0 / (vec[j, S, a] + 0.1)
                total += vec[j, P, a]
            for a in range(k):
                vec[j, P, a] *= scalar[j, WEIGHT] / total


@helper
def mix_predictor(lo, n, share, state, p):
    """p mixes the even predictor with ``share`` of the one given; rows without one stay even."""
    tree, answers, scalar, vec = state.tree, state.answers, state.scalar, state.vec
    for j in range(n):
        k = tree[j, ANSWERS]
        total = 0.0
        for a in range(k):
            total += max(p[lo + j, answers[j, a]], 0.0)
        mix = share if 0.0 < total < np.inf else 0.0
        for a in range(k):
            part = (1.0 - mix) / k
            if mix > 0.0:
                part += mix * max(p[lo + j, answers[j, a]], 0.0) / total
            vec[j, P, a] = scalar[j, WEIGHT] * part


@helper
def tight_slacks(lo, n, scores, unit, state):
    """z of max-product against the predictor: 0 for the best label under each of the parent."""
    c = state.factor
    unary, tables, table_of = scores.unary, scores.tables, scores.table_of
    tree, labels, vec, mat = state.tree, state.labels, state.vec, state.mat
    for j in range(n):
        for b in range(tree[j, COUNT]):
            c[j, b] = unary[lo + j, labels[j, b]] / unit
        for a in range(tree[j, ANSWERS]):
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


@helper
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


@helper
def node_slacks(j, tree, vec, mat):
    """s of node j, 0 for the predictor's best answer."""
    k = tree[j, ANSWERS]
    least = np.inf
    for a in range(k):
        vec[j, S, a] = 0.0
        for b in range(tree[j, COUNT]):
            vec[j, S, a] += mat[j, COST, a, b] * vec[j, R, b]
        least = min(least, vec[j, S, a])
    for a in range(k):
        vec[j, S, a] -= least


@helper
def loosen(n, loosening, tree, scalar, vec, mat):
    """Move z and s off 0, s so that the products p s are about as large as the products x z.

    Returns the gap, Σ x z + Σ p s. A loosening of 0 leaves z and s as they are.
    """
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
            k = tree[j, ANSWERS]
            node_slacks(j, tree, vec, mat)
            for a in range(k):
                vec[j, S, a] += product * k / scalar[j, WEIGHT]
                total += vec[j, P, a] * vec[j, S, a]
    return total
