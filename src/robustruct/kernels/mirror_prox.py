"""Saddle-point mirror-prox on games: entropic steps, the adversary's by sum-product.

The predictor moves by exponentiated gradients on each node. The adversary is the distribution over
labellings with scores θ, and its gradient step adds to θ; all it ever adds to the pairwise part is
a multiple of the game's own tables, so θ is a unary part and one number.
"""

import numpy as np

from robustruct.core.structs import Messages, ProxPoint, ScaledTables, ScoreArrays, Strategies
from robustruct.kernels._jit import helper, kernel
from robustruct.kernels.game_bounds import augmented_unary, game_lower
from robustruct.kernels.max_product import max_product_up
from robustruct.kernels.sum_product import edge_marginal, messages_up


@kernel
def mirror_prox(first, last, game, effort, start_p, found):
    """Play samples first .. last-1 until the averaged strategies' gap is at most what is allowed.

    start_p (N, k) the predictor to start from; found, out.
    """
    structure, unary, table_of = game.structure, game.scores.unary, game.scores.table_of
    offsets, k = structure.offsets, game.cost.shape[0]
    largest = 0
    for s in range(first, last):
        largest = max(largest, offsets[s + 1] - offsets[s])
    # Tables are scaled sample by sample.
    number = np.full(len(game.scores.tables), -1)
    pairs = np.empty((4, largest, k, k))
    scaled = ScaledTables(
        np.zeros_like(table_of), np.empty(largest, np.intp), pairs[0], pairs[1], np.empty(largest)
    )
    rows = np.empty((9, len(unary), k))
    point = ProxPoint(
        rows[0], rows[1], rows[2], rows[3], rows[4], rows[5], rows[6], rows[7], rows[8]
    )
    room = np.empty((6, largest, k))
    messages = Messages(room[0], room[1], room[2], room[3])
    sums = Strategies(room[4], room[5], pairs[2])
    value = np.empty(len(offsets) - 1)
    for s in range(first, last):
        lo, hi = offsets[s], offsets[s + 1]
        n_tables = number_tables(lo, hi, structure.parent, table_of, number, scaled)
        begin(lo, hi, unary, start_p, point)
        effort.n_iter[s], effort.exhausted[s] = play_game(
            s, game, effort, n_tables, scaled, point, messages, pairs[3], sums, value, found
        )


@helper
def begin(lo, hi, unary, start_p, point):
    """θ = 0 and p as given but nowhere 0; θ = log p = -inf where a label is forbidden."""
    theta, log_p, p = point.theta, point.log_p, point.p_now
    k = unary.shape[1]
    for i in range(lo, hi):
        total = 0.0
        for a in range(k):
            p[i, a] = max(start_p[i, a], 0.0) + 1e-3 if unary[i, a] > -np.inf else 0.0
            total += p[i, a]
        for a in range(k):
            p[i, a] /= total
            log_p[i, a] = np.log(p[i, a]) if p[i, a] > 0.0 else -np.inf
            theta[i, a] = 0.0 if unary[i, a] > -np.inf else -np.inf


@helper
def play_game(s, game, effort, n_tables, scaled, point, messages, q_mid, sums, value, found):
    """Iterations spent on one game, and whether they ran out."""
    lo, hi = game.structure.offsets[s], game.structure.offsets[s + 1]
    scores, cost, weight = game.scores, game.cost, game.weight
    theta, trial, log_p = point.theta, point.trial, point.log_p
    p_now, p_mid, p_new = point.p_now, point.p_mid, point.p_new
    r_now, r_mid, r_new = point.r_now, point.r_mid, point.r_new
    max_iter, check_every = effort.max_iter, effort.check_every
    sums.p[: hi - lo], sums.r[: hi - lo], sums.q[: hi - lo] = 0.0, 0.0, 0.0
    spread = (cost.max() - cost.min()) * weight[lo:hi].max()
    step = 1.0 / spread if spread > 0.0 else 1.0
    mass, log_now = 0.0, 0.0
    n_iter = 0
    next_check = check_every
    while n_iter < max_iter:
        # First the marginals of the start; then, in turn, half a step and the whole step from the
        # same point against the strategies half-way.
        for part in range(0 if mass == 0.0 else 1, 3):
            if part == 1:
                step_predictor(lo, hi, step, cost, weight, log_p, r_now, p_mid)
                step_adversary(lo, hi, step, scores.unary, cost, weight, theta, p_now, trial)
            elif part == 2:
                step_predictor(lo, hi, step, cost, weight, log_p, r_mid, p_new)
                step_adversary(lo, hi, step, scores.unary, cost, weight, theta, p_mid, trial)
            if part < 2:
                multiple = mass if part == 0 else mass + step
                scale_tables(n_tables, scores.tables, multiple, scaled)
            log_z, score = marginals(
                lo,
                hi,
                game.structure.parent,
                theta if part == 0 else trial,
                scaled,
                messages,
                r_now if part == 0 else r_mid if part == 1 else r_new,
                q_mid,
                part == 1,
                scores,
            )
            if part == 0:
                log_now = log_z
            elif part == 1:
                log_mid = log_z
                moved = log_now - log_mid + divergence(lo, hi, p_mid, p_now)
                moved += step * (score + payoff(lo, hi, cost, weight, p_now, r_mid))
            else:
                log_new = log_z
        n_iter += 1
        turned = payoff(lo, hi, cost, weight, p_mid, r_new)
        turned -= payoff(lo, hi, cost, weight, p_now, r_new)
        moved += log_mid - log_new + step * turned + divergence(lo, hi, p_new, p_mid)
        twisted = twist(lo, hi, cost, weight, p_now, p_mid, p_new, r_now, r_mid, r_new)
        if step * twisted > moved + 1e-12:
            step *= 0.5
            continue
        accept(lo, hi, step, point, q_mid, sums)
        log_now = log_new
        mass += step
        step *= 1.2
        if n_iter >= next_check or n_iter >= max_iter:
            next_check = n_iter + max(check_every, n_iter // 10)
            average(lo, hi, mass, sums, found)
            if (
                _upper(lo, hi, game, found.p, p_mid, r_mid) - _lower(s, game, found, value)
                <= (effort.allowed[s])
            ):
                return n_iter, False
    average(lo, hi, mass, sums, found)
    return n_iter, True


@helper
def _upper(lo, hi, game, p, augmented, best):
    """What p can be held to. augmented, best (N, k): scratch."""
    scores, parent = game.scores, game.structure.parent
    augmented_unary(lo, hi, scores.unary, game.cost, game.weight, p, augmented)
    max_product_up(lo, hi, parent, augmented, scores.tables, scores.table_of, best)
    upper = 0.0
    for i in range(lo, hi):
        if parent[i] < 0:
            upper += best[i].max()
    return upper


@helper
def _lower(s, game, found, value):
    """What the adversary secures. value (S,): scratch."""
    game_lower(s, s + 1, game, found.r, found.q, value)
    return value[s]


@helper
def number_tables(lo, hi, parent, table_of, number, scaled):
    """Number the tables of one sample from 0; return how many. number (T,): scratch, -1."""
    local_of, used = scaled.local_of, scaled.used
    n = 0
    for i in range(lo, hi):
        if parent[i] >= 0:
            t = table_of[i]
            if number[t] < 0:
                number[t] = n
                used[n] = t
                n += 1
            local_of[i] = number[t]
    for m in range(n):
        number[used[m]] = -1
    return n


@helper
def scale_tables(n, tables, multiple, scaled):
    """multiple times each table, -inf kept; their exponentials relative to the largest entry."""
    k = tables.shape[1]
    for m in range(n):
        table = scaled.tables[m]
        largest = -np.inf
        for b in range(k):
            for a in range(k):
                score = tables[scaled.used[m], b, a]
                table[b, a] = multiple * score if score > -np.inf else -np.inf
                largest = max(largest, table[b, a])
        scaled.top[m] = largest if largest > -np.inf else 0.0
        for b in range(k):
            for a in range(k):
                scaled.exp[m, b, a] = np.exp(table[b, a] - scaled.top[m])


@helper
def marginals(lo, hi, parent, theta, scaled, messages, r, q, keep, scores):
    """Node marginals r (N, k) of the scores θ and, if ``keep``, edge marginals q (n, k, k).

    Returns the log-partition and, if ``keep``, the expected score <ψ, q>.
    """
    k = theta.shape[1]
    inside, share = messages.inside, messages.relative
    unary, tables, table_of = scores.unary, scores.tables, scores.table_of
    psi = ScoreArrays(theta, scaled.tables, scaled.local_of)
    messages_up(lo, hi, parent, psi, scaled.exp, scaled.top, messages)
    joint = np.empty((k, k))
    log_z, score = 0.0, 0.0
    for i in range(hi - 1, lo - 1, -1):
        node = i - lo
        if parent[i] < 0:
            mass = 0.0
            for b in range(k):
                mass += share[node, b]
            log_z += inside[node].max() + np.log(mass)
            for b in range(k):
                r[i, b] = share[node, b] / mass
                for a in range(k):
                    q[node, b, a] = 0.0
        else:
            m = scaled.local_of[i]
            edge_marginal(r[parent[i]], node, messages, scaled.tables[m], scaled.exp[m], joint)
            for b in range(k):
                mass = 0.0
                for a in range(k):
                    mass += joint[b, a]
                r[i, b] = mass
            if keep:
                for b in range(k):
                    for a in range(k):
                        q[node, b, a] = joint[b, a]
                        if joint[b, a] > 0.0:
                            score += joint[b, a] * tables[table_of[i], b, a]
        for b in range(k):
            if r[i, b] > 0.0:
                score += r[i, b] * unary[i, b]
    return log_z, score


@helper
def step_predictor(lo, hi, step, cost, weight, log_p, r, out):
    """out = p exp(-step w L r), normalised."""
    k = cost.shape[0]
    for i in range(lo, hi):
        top = -np.inf
        for a in range(k):
            value = 0.0
            for b in range(k):
                value += cost[a, b] * r[i, b]
            out[i, a] = log_p[i, a] - step * weight[i] * value
            top = max(top, out[i, a])
        total = 0.0
        for a in range(k):
            out[i, a] = np.exp(out[i, a] - top)
            total += out[i, a]
        for a in range(k):
            out[i, a] /= total


@helper
def step_adversary(lo, hi, step, unary, cost, weight, theta, p, out):
    """out = θ + step (ψ + w L'p), the unary part."""
    k = cost.shape[0]
    for i in range(lo, hi):
        for b in range(k):
            out[i, b] = unary[i, b]
        for a in range(k):
            share = weight[i] * p[i, a]
            for b in range(k):
                out[i, b] += share * cost[a, b]
        for b in range(k):
            out[i, b] = theta[i, b] + step * out[i, b]


@helper
def payoff(lo, hi, cost, weight, p, r):
    """Σ w p'L r."""
    k = cost.shape[0]
    total = 0.0
    for i in range(lo, hi):
        for a in range(k):
            value = 0.0
            for b in range(k):
                value += cost[a, b] * r[i, b]
            total += weight[i] * p[i, a] * value
    return total


@helper
def divergence(lo, hi, p, other):
    """Σ_i KL(p_i, other_i)."""
    total = 0.0
    for i in range(lo, hi):
        for a in range(p.shape[1]):
            if p[i, a] > 0.0 and other[i, a] > 0.0:
                total += p[i, a] * np.log(p[i, a] / other[i, a])
    return total


@helper
def twist(lo, hi, cost, weight, p_now, p_mid, p_new, r_now, r_mid, r_new):
    """How far the field turned: <F(mid) - F(now), mid - new>."""
    k = cost.shape[0]
    total = 0.0
    for i in range(lo, hi):
        for a in range(k):
            first, second = 0.0, 0.0
            for b in range(k):
                first += cost[a, b] * (r_mid[i, b] - r_now[i, b])
                second += cost[a, b] * (r_mid[i, b] - r_new[i, b])
            change = (p_mid[i, a] - p_new[i, a]) * first - (p_mid[i, a] - p_now[i, a]) * second
            total += weight[i] * change
    return total


@helper
def accept(lo, hi, step, point, q_mid, sums):
    """Add the strategies half-way to the sums and move to the new point."""
    p_now, p_mid, p_new = point.p_now, point.p_mid, point.p_new
    r_now, r_mid, r_new = point.r_now, point.r_mid, point.r_new
    theta, trial, log_p = point.theta, point.trial, point.log_p
    p_sum, r_sum, q_sum = sums
    k = p_mid.shape[1]
    for i in range(lo, hi):
        for a in range(k):
            p_sum[i - lo, a] += step * p_mid[i, a]
            r_sum[i - lo, a] += step * r_mid[i, a]
            p_now[i, a] = p_new[i, a]
            r_now[i, a] = r_new[i, a]
            theta[i, a] = trial[i, a]
            if log_p[i, a] > -np.inf:
                log_p[i, a] = np.log(max(p_new[i, a], 1e-300))
            for b in range(k):
                q_sum[i - lo, a, b] += step * q_mid[i - lo, a, b]


@helper
def average(lo, hi, mass, sums, found):
    """The strategies half-way, averaged by step; those of the start if no step was accepted."""
    p, r, q = found
    p_sum, r_sum, q_sum = sums
    k = p.shape[1]
    scale = 1.0 / mass if mass > 0.0 else 0.0
    for i in range(lo, hi):
        for a in range(k):
            p[i, a] = p_sum[i - lo, a] * scale
            r[i, a] = r_sum[i - lo, a] * scale
            for b in range(k):
                q[i, a, b] = q_sum[i - lo, a, b] * scale
