"""Primal-dual interior point on a game and its tree: Mehrotra's steps, and bounds."""

import numpy as np

from robustruct.kernels._jit import helper, kernel, part
from robustruct.kernels.game_bounds import augmented_unary
from robustruct.kernels.interior_newton import correct, factorise, longest_steps, predict
from robustruct.kernels.interior_start import (
    answer,
    collect_costs,
    list_answers,
    loosen,
    mix_predictor,
    restrict,
    scale_weights,
    spread_marginals,
    tight_slacks,
)
from robustruct.kernels.interior_state import (
    ABOVE,
    ANSWERS,
    COUNT,
    DP,
    DS,
    DX,
    DZ,
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

# How far slacks start from 0, in units of the cost: fewest steps on random games of many sizes. A
# warm start stays closer, by its gap per node times the second number.
LOOSENING, WARMTH = 0.15, 2.0

# How far behind the best labelling a label may stay and be kept, in units of the cost: against a
# guessed predictor, and against one that is known to a gap of ROUGH per node.
GUESSED, KNOWN, ROUGH = 2.0, 0.5, 0.02

# Steps without progress after which to stop.
PATIENCE = 5


@kernel
def interior_point(first, last, game, effort, warm, start, found, state):
    """Play samples first .. last-1 until their gap is at most ``effort.allowed``.

    found, out: the best predictor and the best adversary by their bounds. If ``warm``, start holds
    strategies for a similar game. state is of this call alone.
    """
    offsets, parent = game.structure.offsets, game.structure.parent
    unary, tables, table_of = game.scores.unary, game.scores.tables, game.scores.table_of
    n_iter, exhausted = effort.n_iter, effort.exhausted
    for s in range(first, last):
        lo, hi = offsets[s], offsets[s + 1]
        heaviest = 0.0
        for i in range(lo, hi):
            heaviest = max(heaviest, game.weight[i])
        n_iter[s], exhausted[s], done = 0, False, False
        if state.spread * heaviest > 0.0:
            n_iter[s], exhausted[s], done = play_game(
                lo,
                hi,
                heaviest,
                effort.allowed[s],
                effort.max_iter,
                warm,
                game,
                start,
                found,
                state,
            )
        if not done:
            max_product_up(lo, hi, parent, unary, tables, table_of, state.best)
            max_product_down(lo, hi, parent, tables, table_of, state.best, state.star)
            play_labelling(lo, hi, parent, state.star, found)


@part
def play_game(lo, hi, heaviest, allowed, max_iter, warm, game, start, found, state):
    """Iterations spent on one game, whether they ran out, and whether strategies were found.

    In rounds: each plays the game restricted to labels that are nearly best against the predictor
    known so far, and begins near the strategies found. Both bounds are those of the whole game, so
    a label missing shows as a gap that stays; the next round then reaches further.
    """
    tree, scalar, vec, mat = state.tree, state.scalar, state.vec, state.mat
    n, unit = hi - lo, state.spread * heaviest
    list_answers(lo, n, game.scores.unary, state)
    total = scale_weights(lo, n, game.weight, heaviest, scalar)
    lower, upper = -np.inf, np.inf
    # The more nodes, the more centred the start has to be.
    middle = min(4.0, (n / 20.0) ** 0.25) * LOOSENING
    mix_predictor(lo, n, 1.0 if warm else 0.0, state, start.p)
    known = start if warm else found
    if not warm:
        clear_adversary(lo, hi, found)
        if labels_within(lo, hi, GUESSED, unit, game, found, found, state) == 0:
            return 0, False, False
        begin(lo, n, unit, middle, 0.0, game, found, state)
        answer(n, tree, scalar, vec, mat)
    # Among many nodes a label is always missed, and another round costs more than it saves.
    many = n > 200
    reach = max(GUESSED, 2.0 * total) if many else GUESSED
    loosening, share = middle, 0.0
    if warm:
        reach, loosening, share = KNOWN, 0.0, 1.0
    n_iter, rough, near, last = 0, warm, False, False
    while True:
        pairs = labels_within(lo, hi, reach, unit, game, known, found, state)
        if pairs == 0:
            break
        # A rough answer tells which few labels matter: worth it where more than a few are kept.
        few = many or rough or pairs <= (game.cost.shape[0] + 16) * n
        goal = 0.0 if few else ROUGH * n
        rough = True
        begin(lo, n, unit, max(loosening, 1e-3), share, game, known, state)
        gap = loosen(n, loosening, tree, scalar, vec, mat)
        least, idle, earlier = gap, 0, loosening == 0.0
        while True:
            # Bounds cost a tenth of a step: look when they may do, or before rounding spoils x.
            if gap * unit <= 10.0 * allowed or gap < ROUGH * n or idle > PATIENCE or earlier:
                lower, upper = bounds(lo, hi, lower, upper, game, found, state)
                # A gap far above the complementarity means that labels are missing, or that
                # rounding broke feasibility.
                if upper - lower <= allowed or upper - lower > 2.0 * gap * unit + allowed:
                    break
            if gap < goal or idle > PATIENCE or n_iter >= max_iter or earlier:
                break
            n_iter += 1
            gap = step(n, tree, scalar, vec, mat, gap, pairs)
            idle = idle + 1 if gap > 0.99 * least else 0
            if not gap >= 0.0:  # no direction, or rounding broke it
                gap = least
                idle = PATIENCE + 1
            least = min(least, gap)
        if upper - lower <= allowed or n_iter >= max_iter or last:
            break
        known = found
        mix_predictor(lo, n, 1.0, state, found.p)
        # What a missing label moves stays within some thirty nodes.
        wrong = (upper - lower) / (unit * min(n, 30))
        if goal > 0.0 or earlier:
            reach = KNOWN
        elif idle > PATIENCE and not near:
            # Labels far behind spoil the condition of a step: begin with those near the best.
            reach, near = min(reach, KNOWN + 2.0 * wrong), True
        elif reach < 2.0 * total:
            # Beyond twice the weights no predictor can make up for what a label lacks.
            reach = 2.0 * total if idle > PATIENCE and not many else 1.5 * reach
        else:
            # A start too close to the border may end early: a last one far from it.
            last = True
            if upper - lower <= 1e-5 * unit * n:
                break
        loosening = min(middle, WARMTH * wrong)
        share = 1.0 - loosening / middle
        if last:
            loosening, share = 1.0, 0.0
    solved = upper - lower <= allowed
    return n_iter, n_iter >= max_iter and not solved, upper - lower < np.inf


@helper
def labels_within(lo, hi, reach, unit, game, known, found, state):
    """Restrict the game to what is within reach of the best answer to the predictor held in P."""
    tree, scalar, augmented = state.tree, state.scalar, state.augmented
    n = hi - lo
    write_predictor(lo, n, state, found.p)
    augmented_unary(lo, hi, game.scores.unary, game.cost, game.weight, found.p, augmented)
    parent, scores = game.structure.parent, game.scores
    kept = restrict(lo, hi, parent, scores, reach * unit, known, state)
    if kept > 0:
        collect_costs(n, state)
        for j in range(n):
            kept += tree[j, ANSWERS] if scalar[j, WEIGHT] > 0.0 else 0
    return kept


@helper
def begin(lo, n, unit, loosening, share, game, start, state):
    """A feasible p and x; ``share`` of them from the earlier strategies, the rest spread."""
    if share > 0.0:
        mix_predictor(lo, n, share, state, start.p)
    tight_slacks(lo, n, game.scores, unit, state)
    tree, labels, vec, mat = state.tree, state.labels, state.vec, state.mat
    spread_marginals(lo, n, loosening, share, tree, labels, vec, mat, start.r, start.q)


@part
def bounds(lo, hi, lower, upper, game, found, state):
    """The better of the bounds known and those of the iterate, written out where it is better."""
    n = hi - lo
    value = predictor_value(lo, hi, game, state)
    if value < upper:
        upper = value
        write_predictor(lo, n, state, found.p)
    value = adversary_value(lo, n, game, state)
    if value > lower:
        lower = value
        write_adversary(lo, n, state, found)
    return lower, upper


@part
def step(n, tree, scalar, vec, mat, gap, pairs):
    """One predictor-corrector step of Mehrotra; the gap after it, or -1 without a direction."""
    factorise(n, tree, scalar, vec, mat)
    primal, dual, slope, curve = predict(n, tree, scalar, vec, mat)
    primal, dual = min(1.0, 1.0 / primal), min(1.0, 1.0 / dual)
    after = gap - primal * (gap + slope) + dual * slope + primal * dual * curve
    target = (after / gap) ** 4 * gap / pairs
    residual = correct(n, tree, scalar, vec, mat, target)
    primal, dual = longest_steps(n, tree, scalar, vec, mat)
    if not (residual < 1e-2 and primal + dual < np.inf):
        return -1.0
    return move(n, tree, scalar, vec, mat, min(1.0, 0.995 / primal), min(1.0, 0.995 / dual))


@helper
def move(n, tree, scalar, vec, mat, primal, dual):
    """Go along the direction; returns the complementarity Σ x z + Σ p s, which is the gap."""
    gap = 0.0
    for j in range(n):
        mp = tree[j, ABOVE]
        for b in range(tree[j, COUNT]):
            if primal > 0.0:
                for a in range(mp):
                    mat[j, X, b, a] += primal * mat[j, DX, b, a]
                for a in range(mp):
                    z = mat[j, Z, b, a] + dual * mat[j, DZ, b, a]
                    mat[j, Z, b, a] = z
                    mat[j, INVERSE, b, a] = 1.0 / z if mat[j, X, b, a] > 0.0 else 0.0
            total = 0.0
            for a in range(mp):
                total += mat[j, X, b, a]
                gap += mat[j, X, b, a] * mat[j, Z, b, a]
            vec[j, R, b] = total
        if scalar[j, WEIGHT] > 0.0:
            for a in range(tree[j, ANSWERS]):
                if primal > 0.0:
                    vec[j, S, a] += primal * vec[j, DS, a]
                    vec[j, P, a] += dual * vec[j, DP, a]
                gap += vec[j, P, a] * vec[j, S, a]
    return gap


@helper
def clear_adversary(lo, hi, found):
    """No mass anywhere on nodes lo .. hi-1."""
    for i in range(lo, hi):
        for b in range(found.r.shape[1]):
            found.r[i, b] = 0.0
            for a in range(found.r.shape[1]):
                found.q[i, b, a] = 0.0


@helper
def play_labelling(lo, hi, parent, labels, found):
    """Without costs the adversary plays the best labelling, and any predictor will do."""
    p, r, q = found.p, found.r, found.q
    clear_adversary(lo, hi, found)
    for i in range(lo, hi):
        for a in range(p.shape[1]):
            p[i, a] = 1.0 / p.shape[1]
        r[i, labels[i]] = 1.0
        if parent[i] >= 0:
            q[i, labels[i], labels[parent[i]]] = 1.0


@helper
def predictor_value(lo, hi, game, state):
    """Upper bound by the predictor of the iterate."""
    augmented, best = state.augmented, state.best
    parent, cost, weight = game.structure.parent, game.cost, game.weight
    unary, tables, table_of = game.scores.unary, game.scores.tables, game.scores.table_of
    tree, answers, scalar, vec = state.tree, state.answers, state.scalar, state.vec
    k = cost.shape[0]
    for i in range(lo, hi):
        share, n_answers = vec[i - lo, P], tree[i - lo, ANSWERS]
        total = 0.0
        for a in range(n_answers):
            total += share[a]
        for b in range(k):
            augmented[i, b] = 0.0
        if weight[i] > 0.0:
            for a in range(n_answers):
                part = share[a] / total if scalar[i - lo, WEIGHT] > 0.0 else 1.0 / n_answers
                part *= weight[i]
                for b in range(k):
                    augmented[i, b] += part * cost[answers[i - lo, a], b]
        for b in range(k):
            augmented[i, b] += unary[i, b]
    max_product_up(lo, hi, parent, augmented, tables, table_of, best)
    value = 0.0
    for i in range(lo, hi):
        if parent[i] < 0:
            top = best[i, 0]
            for b in range(1, k):
                top = best[i, b] if best[i, b] > top else top
            value += top
    return value


@helper
def write_predictor(lo, n, state, p):
    """p of the current point, normalised; even where the node has no weight."""
    tree, answers, scalar, vec = state.tree, state.answers, state.scalar, state.vec
    for j in range(n):
        k = tree[j, ANSWERS]
        total = 0.0
        for a in range(k):
            total += vec[j, P, a]
        for a in range(p.shape[1]):
            p[lo + j, a] = 0.0
        for a in range(k):
            share = vec[j, P, a] / total if scalar[j, WEIGHT] > 0.0 else 1.0 / k
            p[lo + j, answers[j, a]] = share


@helper
def adversary_value(lo, n, game, state):
    """Lower bound by the adversary of the iterate, made consistent from the roots down.

    Leaves the consistent node marginals in R, and in factor[j, a] what column a of x is scaled by.
    """
    cost, weight = game.cost, game.weight
    unary, tables, table_of = game.scores.unary, game.scores.tables, game.scores.table_of
    tree, labels, answers = state.tree, state.labels, state.answers
    vec, mat, factor = state.vec, state.mat, state.factor
    total = 0.0
    for j in range(n - 1, -1, -1):
        m, mp, up = tree[j, COUNT], tree[j, ABOVE], tree[j, PARENT]
        x, r = mat[j, X], vec[j, R]
        for a in range(mp):
            factor[j, a] = 0.0
        for b in range(m):
            for a in range(mp):
                factor[j, a] += x[b, a]
        for a in range(mp):
            above = 1.0 if up == j else vec[up, R, a]
            factor[j, a] = above / factor[j, a] if factor[j, a] > 0.0 else 0.0
        table = tables[table_of[lo + j]]
        for b in range(m):
            label = labels[j, b]
            mass = 0.0
            for a in range(mp):
                share = x[b, a] * factor[j, a]
                mass += share
                if up != j and share > 0.0:
                    total += share * table[label, labels[up, a]]
            r[b] = mass
            total += mass * unary[lo + j, label]
        if weight[lo + j] > 0.0:
            least = np.inf
            for a in range(tree[j, ANSWERS]):
                value = 0.0
                for b in range(m):
                    value += cost[answers[j, a], labels[j, b]] * r[b]
                least = min(least, value)
            total += weight[lo + j] * least
    return total


@helper
def write_adversary(lo, n, state, found):
    """r and q of the current point, over all labels again, columns rescaled by ``factor``."""
    tree, labels, vec, mat = state.tree, state.labels, state.vec, state.mat
    r, q, factor = found.r, found.q, state.factor
    clear_adversary(lo, lo + n, found)
    for j in range(n):
        up = tree[j, PARENT]
        for b in range(tree[j, COUNT]):
            label = labels[j, b]
            r[lo + j, label] = vec[j, R, b]
            if up != j:
                for a in range(tree[j, ABOVE]):
                    q[lo + j, label, labels[up, a]] = mat[j, X, b, a] * factor[j, a]
