"""Saddle-point mirror-prox on games: entropic steps, the adversary's by sum-product.

The predictor moves by exponentiated gradients on each node. The adversary is the distribution over
labellings with scores θ, and its gradient step adds to θ; all it ever adds to the pairwise part is a
multiple of the game's own tables, so θ is a unary part and one number.
"""

import numpy as np

from robustruct.kernels._jit import kernel
from robustruct.kernels.game_bounds import augmented_unary, game_lower
from robustruct.kernels.max_product import max_product_up
from robustruct.kernels.sum_product import edge_marginal, messages_up


@kernel
def mirror_prox(
    first, last, offsets, parent, unary, tables, table_of, cost, weight,
    allowed, max_iter, check_every, start_p, p, r, q, n_iter, exhausted,
):  # fmt: skip
    """Play samples first .. last-1 until the average strategies have a gap of at most ``allowed`` (S,).

    start_p (N, k) the predictor to start from; p, r (N, k) and q (N, k, k), out.
    """
    k = cost.shape[0]
    largest = 0
    for s in range(first, last):
        largest = max(largest, offsets[s + 1] - offsets[s])
    # Tables are scaled sample by sample: local_of numbers the tables of a sample from 0.
    local_of, number = np.zeros_like(table_of), np.full(len(tables), -1)
    used = np.empty(largest, np.intp)
    scaled, exp_scaled = np.empty((largest, k, k)), np.empty((largest, k, k))
    top = np.empty(largest)
    work = np.empty((4, largest, k))
    theta, trial, log_p = np.empty_like(unary), np.empty_like(unary), np.empty_like(unary)
    p_now, p_mid, p_new = np.empty_like(unary), np.empty_like(unary), np.empty_like(unary)
    r_now, r_mid, r_new = np.empty_like(unary), np.empty_like(unary), np.empty_like(unary)
    q_mid, q_sum = np.empty((largest, k, k)), np.empty((largest, k, k))
    p_sum, r_sum = np.empty((largest, k)), np.empty((largest, k))
    spread = cost.max() - cost.min()
    value = np.empty(len(offsets) - 1)
    for s in range(first, last):
        lo, hi = offsets[s], offsets[s + 1]
        n_tables = number_tables(lo, hi, parent, table_of, number, local_of, used)
        for i in range(lo, hi):
            total = 0.0
            for a in range(k):
                p_now[i, a] = max(start_p[i, a], 0.0) + 1e-3
                total += p_now[i, a]
            for a in range(k):
                p_now[i, a] /= total
                log_p[i, a] = np.log(p_now[i, a])
                theta[i, a] = 0.0 if unary[i, a] > -np.inf else -np.inf
        p_sum[: hi - lo], r_sum[: hi - lo], q_sum[: hi - lo] = 0.0, 0.0, 0.0
        multiple, mass = 0.0, 0.0
        unit = spread * weight[lo:hi].max()
        step = 1.0 / unit if unit > 0.0 else 1.0
        scale_tables(n_tables, used, tables, multiple, scaled, exp_scaled, top)
        log_now, _ = marginals(
            lo, hi, parent, theta, scaled, local_of, exp_scaled, top, work, r_now, q_mid, unary, tables, table_of
        )  # fmt: skip
        n_iter[s] = 0
        exhausted[s] = True
        next_check = check_every
        while n_iter[s] < max_iter:
            n_iter[s] += 1
            # Half a step: the predictor against r, the adversary against p.
            step_predictor(lo, hi, step, cost, weight, log_p, r_now, p_mid)
            step_adversary(lo, hi, step, unary, cost, weight, theta, p_now, trial)
            scale_tables(n_tables, used, tables, multiple + step, scaled, exp_scaled, top)
            log_mid, score = marginals(
                lo, hi, parent, trial, scaled, local_of, exp_scaled, top, work, r_mid, q_mid, unary, tables, table_of
            )  # fmt: skip
            moved = log_now - log_mid + step * (score + payoff(lo, hi, cost, weight, p_now, r_mid))
            moved += divergence(lo, hi, p_mid, p_now)
            # The whole step, from the same point, against the strategies half-way.
            step_predictor(lo, hi, step, cost, weight, log_p, r_mid, p_new)
            step_adversary(lo, hi, step, unary, cost, weight, theta, p_mid, trial)
            log_new, _ = marginals(
                lo, hi, parent, trial, scaled, local_of, exp_scaled, top, work, r_new, q_sum[:0], unary, tables, table_of
            )  # fmt: skip
            turned = payoff(lo, hi, cost, weight, p_mid, r_new) - payoff(
                lo, hi, cost, weight, p_now, r_new
            )
            moved += log_mid - log_new + step * turned + divergence(lo, hi, p_new, p_mid)
            if (
                step * twist(lo, hi, cost, weight, p_now, p_mid, p_new, r_now, r_mid, r_new)
                > moved + 1e-12
            ):
                step *= 0.5
                continue
            accept(
                lo,
                hi,
                step,
                p_mid,
                r_mid,
                q_mid,
                p_new,
                r_new,
                trial,
                p_sum,
                r_sum,
                q_sum,
                p_now,
                r_now,
                theta,
                log_p,
            )
            multiple += step
            mass += step
            log_now = log_new
            step *= 1.2
            if n_iter[s] >= next_check or n_iter[s] >= max_iter:
                next_check = n_iter[s] + max(check_every, n_iter[s] // 10)
                average(lo, hi, mass, p_sum, r_sum, q_sum, p, r, q)
                augmented_unary(lo, hi, unary, cost, weight, p, p_mid)
                max_product_up(lo, hi, parent, p_mid, tables, table_of, r_mid)
                upper = 0.0
                for i in range(lo, hi):
                    if parent[i] < 0:
                        upper += r_mid[i].max()
                game_lower(
                    s, s + 1, offsets, parent, unary, tables, table_of, cost, weight, r, q, value
                )
                if upper - value[s] <= allowed[s]:
                    exhausted[s] = False
                    break
        if mass == 0.0:
            p[lo:hi], r[lo:hi], q[lo:hi] = p_now[lo:hi], r_now[lo:hi], 0.0
        elif exhausted[s]:
            average(lo, hi, mass, p_sum, r_sum, q_sum, p, r, q)


@kernel
def number_tables(lo, hi, parent, table_of, number, local_of, used):
    """Number the tables of one sample from 0 in local_of; used lists them. Returns how many."""
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


@kernel
def scale_tables(n, used, tables, multiple, scaled, exp_scaled, top):
    """multiple times each table, -inf kept; their exponentials relative to their largest entries."""
    k = tables.shape[1]
    for m in range(n):
        t = used[m]
        largest = -np.inf
        for b in range(k):
            for a in range(k):
                score = tables[t, b, a]
                scaled[m, b, a] = multiple * score if score > -np.inf else -np.inf
                largest = max(largest, scaled[m, b, a])
        top[m] = largest if largest > -np.inf else 0.0
        for b in range(k):
            for a in range(k):
                exp_scaled[m, b, a] = np.exp(scaled[m, b, a] - top[m])


@kernel
def marginals(
    lo, hi, parent, theta, scaled, local_of, exp_scaled, top, work, r, q, unary, tables, table_of
):
    """Node marginals r of the scores θ, edge marginals q (n, k, k) unless of length 0.

    Returns the log-partition and, with q, the expected score <ψ, q>.
    """
    k = theta.shape[1]
    inside, share, total, message = work[0], work[1], work[2], work[3]
    messages_up(
        lo, hi, parent, theta, scaled, local_of, exp_scaled, top, inside, share, total, message
    )
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
        else:
            m = local_of[i]
            out = q[node] if len(q) else joint
            edge_marginal(
                r[parent[i]], inside[node], share[node], total[node], message[node], scaled[m], exp_scaled[m], out
            )  # fmt: skip
            for b in range(k):
                mass = 0.0
                for a in range(k):
                    mass += out[b, a]
                    if len(q) and out[b, a] > 0.0:
                        score += out[b, a] * tables[table_of[i], b, a]
                r[i, b] = mass
        for b in range(k):
            if r[i, b] > 0.0:
                score += r[i, b] * unary[i, b]
    return log_z, score


@kernel
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


@kernel
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


@kernel
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


@kernel
def divergence(lo, hi, p, other):
    """Σ_i KL(p_i, other_i)."""
    total = 0.0
    for i in range(lo, hi):
        for a in range(p.shape[1]):
            if p[i, a] > 0.0 and other[i, a] > 0.0:
                total += p[i, a] * np.log(p[i, a] / other[i, a])
    return total


@kernel
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
            total += weight[i] * (
                (p_mid[i, a] - p_new[i, a]) * first - (p_mid[i, a] - p_now[i, a]) * second
            )
    return total


@kernel
def accept(
    lo, hi, step, p_mid, r_mid, q_mid, p_new, r_new, trial,
    p_sum, r_sum, q_sum, p_now, r_now, theta, log_p,
):  # fmt: skip
    """Add the strategies half-way to the sums and move to the new point."""
    k = p_mid.shape[1]
    for i in range(lo, hi):
        for a in range(k):
            p_sum[i - lo, a] += step * p_mid[i, a]
            r_sum[i - lo, a] += step * r_mid[i, a]
            p_now[i, a] = p_new[i, a]
            r_now[i, a] = r_new[i, a]
            theta[i, a] = trial[i, a]
            log_p[i, a] = np.log(max(p_new[i, a], 1e-300))
            for b in range(k):
                q_sum[i - lo, a, b] += step * q_mid[i - lo, a, b]


@kernel
def average(lo, hi, mass, p_sum, r_sum, q_sum, p, r, q):
    k = p.shape[1]
    for i in range(lo, hi):
        for a in range(k):
            p[i, a] = p_sum[i - lo, a] / mass
            r[i, a] = r_sum[i - lo, a] / mass
            for b in range(k):
                q[i, a, b] = q_sum[i - lo, a, b] / mass
