"""Block-coordinate ascent on the dual of smooth training (T > 0), one sample (block) at a time.

The adversary of a sample is a Gibbs distribution, kept by its natural parameters (psi, tables), and
what these amount to: node marginals r, edge marginals added up by own table, the entropy. A visit
mixes the natural parameters with the scores that the sample has now, divided by T:

    X = (θ·Φ + w L'p) / T,  p = Proj(p0 − L r / mu);        psi <- psi + γ (X − psi)

Along the change δ of the marginals the dual bends by b(δ) = rate |Φ'δ|² + Σ_i w_i |L δ_i|² / mu,
and its slope at the new point is (1 − γ) <X − psi, δ> − b(δ) / T. γ is accepted when that is small
against <X − psi, δ>: slopes can be told in float32, differences of values cannot. γ = 1 lands on
the Gibbs distribution of the scores.
"""

import numpy as np

from robustruct.kernels._atomic import add_one, read, take_below, wait_for, write
from robustruct.kernels._borrowed import borrowed
from robustruct.kernels._jit import quick_helper, quick_kernel, quick_part
from robustruct.kernels.gibbs import (
    LEAST32,
    dot,
    enter,
    gibbs_scratch,
    marginals,
    times_rows,
    true_edges,
)
from robustruct.kernels.linear import row_product
from robustruct.kernels.structs import FREE, NOBODY, TRUTH

F = np.float32
TAKEN, VISITED, OPEN = 0, 1, 2  # counters
TRIES = 8  # of γ; with 4 weak penalties do not converge
SLACK = F(0.3)  # 0.1 takes a fifth longer: few passes fewer, many more tries
FULL = F(0.98)


@quick_helper
def project(v, k):
    """v[:k] <- the nearest point of the simplex, by Newton on the threshold from below."""
    threshold = v[0]
    for y in range(1, k):
        threshold = v[y] if v[y] > threshold else threshold
    threshold -= F(1)
    for _ in range(30):
        total, above = F(0), F(0)
        for y in range(k):
            if v[y] > threshold:
                total += v[y] - threshold
                above += F(1)
        new = threshold + (total - F(1)) / above
        if new <= threshold:
            break
        threshold = new
    for y in range(k):
        v[y] = v[y] - threshold if v[y] > threshold else F(0)
    for y in range(k, len(v)):
        v[y] = F(0)


@quick_part
def predictor_costs(i, r, samples, costs, mask, settings, expected, p, out):
    """out = w_i L'p_i for node i; return what p gives away, w_i (p'L r − min L r).

    mask (width,): labels that cannot occur are not predicted.
    """
    k = len(costs.of_labels)
    weight = costs.weight[i]
    if settings.player == TRUTH:
        row = costs.of_predictor[samples.labels[i]]
        for y in range(len(out)):
            out[y] = weight * row[y]
        return F(0)
    times_rows(r, costs.of_labels, k, expected)
    for y in range(k):
        p[y] = costs.p0[i, y] - F(settings.inv_mu) * expected[y] + mask[y]
    project(p, k)
    times_rows(p, costs.of_predictor, k, out)
    least, mean = F(np.inf), F(0)
    for y in range(k):
        least = expected[y] if expected[y] < least and mask[y] == F(0) else least
        mean += p[y] * expected[y]
    for y in range(len(out)):
        out[y] *= weight
    return weight * (mean - least)


@quick_part
def node_scores(s, samples, features, weights, rules, costs, settings, r, work, out):
    """out (n, width) = X but for a constant per node; return two costs of the predictor.

    These are what it gives away, and what it pays on the truth, Σ_i w_i (L'p_i)_{y_i}.

    r (n, width) are the marginals it answers. work: (k,) float64 and three rows of float32.
    """
    k = weights.node.shape[1]
    base, row, expected, p, added = work
    inverse, nodes = 1.0 / settings.temperature, features.nodes
    lo = samples.offsets[s]
    regret, paid = 0.0, 0.0
    for i in range(samples.offsets[s + 1] - lo):
        mask = rules.unary_mask[rules.node_kind[lo + i]]
        begin, end = nodes.indptr[lo + i], nodes.indptr[lo + i + 1]
        row_product(begin, end, nodes.indices, nodes.data, weights.node, base, row)
        if settings.player != NOBODY:
            regret += predictor_costs(
                lo + i, r[i], samples, costs, mask, settings, expected, p, added
            )
            for y in range(k):
                row[y] += added[y]
            paid += added[samples.labels[lo + i]]
        top = -np.inf
        for y in range(k):
            top = row[y] if row[y] > top and mask[y] == F(0) else top
        for y in range(k):
            out[i, y] = F((row[y] - top) * inverse) + mask[y]
        for y in range(k, out.shape[1]):
            out[i, y] = mask[y]
    return regret, paid


@quick_part
def table_scores(s, samples, features, weights, rules, temperature, row, out):
    """out (m, k, width): the scores of the own tables divided by T, but for constants."""
    k = weights.node.shape[1]
    inverse = 1.0 / temperature
    start = samples.table_start[s]
    for t in range(samples.table_start[s + 1] - start):
        at = samples.row[start + t]
        for code in range(k * k):
            row[code] = 0.0
        for j in range(features.edges.indptr[at], features.edges.indptr[at + 1]):
            value, edge = features.edges.data[j], weights.edge[features.edges.indices[j]]
            for code in range(k * k):
                row[code] += value * edge[code]
        top = -np.inf
        for x in range(k):
            for y in range(k):
                allowed = rules.pair_mask[x, y] == F(0)
                top = row[x * k + y] if allowed and row[x * k + y] > top else top
        for x in range(k):
            mask, to = rules.pair_mask[x], out[t, x]
            for y in range(k):
                to[y] = F((row[x * k + y] - top) * inverse) + mask[y]
            for y in range(k, len(to)):
                to[y] = mask[y]


@quick_helper
def moved_features(lo, n, n_columns, features, local, delta, columns):
    """|Φ'δ|² of the nodes of a sample; columns (n_columns, width) is scratch."""
    total = F(0)
    for c in range(n_columns):
        for y in range(delta.shape[1]):
            columns[c, y] = F(0)
    for i in range(n):
        change = delta[i]
        for j in range(features.nodes.indptr[lo + i], features.nodes.indptr[lo + i + 1]):
            value, to = F(features.nodes.data[j]), columns[local[j]]
            for y in range(len(change)):
                to[y] += value * change[y]
    for c in range(n_columns):
        total += dot(columns[c], columns[c])
    return total


@quick_part
def products(s, samples, features, grams, costs, settings, rate, state, goal, new, work):
    """(<goal − parameters, δ>, b(δ)) for the change δ of the marginals from state to new.

    state: (r, sums) of the sample; goal: (X − psi, X_E − tables); new: (r, sums). work: (δ of the
    nodes, δ of the tables, a row, rows for the columns that the sample uses).
    """
    r, sums = state
    d, d_tables = goal
    new_r, new_sums = new
    delta, delta_tables, row, columns = work
    lo = samples.offsets[s]
    n = samples.offsets[s + 1] - lo
    m = samples.table_start[s + 1] - samples.table_start[s]
    k = sums.shape[1]
    slope, bend, bend_cost = F(0), F(0), F(0)
    for i in range(n):
        to, a, b, c = delta[i], new_r[i], r[i], d[i]
        for y in range(len(to)):
            to[y] = a[y] - b[y]
            slope += c[y] * to[y]
    gram = grams.nodes[grams.node_start[s] : grams.node_start[s + 1]]
    for i in range(n):
        if len(gram):  # symmetric: what is below the diagonal counts twice
            times_rows(gram[i * n : (i + 1) * n], delta, i, row)
            bend += F(2) * dot(row, delta[i]) + gram[i * n + i] * dot(delta[i], delta[i])
        if settings.player == FREE:
            times_rows(delta[i], costs.of_labels, k, row)
            bend_cost += costs.weight[lo + i] * dot(row, row)
    if len(gram) == 0:
        bend += moved_features(lo, n, grams.n_columns[s], features, grams.local, delta, columns)
    for t in range(m):
        for x in range(k):
            to, a, b, c = delta_tables[t, x], new_sums[t, x], sums[t, x], d_tables[t, x]
            for y in range(len(to)):
                to[y] = a[y] - b[y]
                slope += c[y] * to[y]
    gram = grams.tables[grams.table_start[s] : grams.table_start[s + 1]]
    for t in range(m):
        for u in range(t + 1):
            if gram[t * m + u] != F(0):
                both = F(0)
                for x in range(k):
                    both += dot(delta_tables[t, x], delta_tables[u, x])
                bend += (F(1) if u == t else F(2)) * gram[t * m + u] * both
    return slope, F(rate) * bend + F(settings.inv_mu) * bend_cost


@quick_part
def aim(goal, parameters, d, trial):
    """d = goal − parameters, and trial = goal: all of the way."""
    for i in range(len(parameters[0])):
        for y in range(parameters[0].shape[1]):
            trial[0][i, y] = goal[0][i, y]
            d[0][i, y] = goal[0][i, y] - parameters[0][i, y]
    for t in range(len(parameters[1])):
        for x in range(parameters[1].shape[1]):
            for y in range(parameters[1].shape[2]):
                trial[1][t, x, y] = goal[1][t, x, y]
                d[1][t, x, y] = goal[1][t, x, y] - parameters[1][t, x, y]


@quick_part
def go(gamma, parameters, d, trial):
    """trial = parameters + γ d."""
    for i in range(len(parameters[0])):
        for y in range(parameters[0].shape[1]):
            trial[0][i, y] = parameters[0][i, y] + gamma * d[0][i, y]
    for t in range(len(parameters[1])):
        for x in range(parameters[1].shape[1]):
            for y in range(parameters[1].shape[2]):
                trial[1][t, x, y] = parameters[1][t, x, y] + gamma * d[1][t, x, y]


@quick_part
def less_score(value, scores, state):
    """value − <scores, marginals>, for marginals ``state``: (r, sums) of a sample."""
    for i in range(len(state[0])):
        value -= np.float64(dot(scores[0][i], state[0][i]))
    for t in range(len(state[1])):
        for x in range(state[1].shape[1]):
            value -= np.float64(dot(scores[1][t, x], state[1][t, x]))
    return value


@quick_part
def true_score(s, samples, goal):
    """What the truth scores."""
    lo = samples.offsets[s]
    total = true_edges(s, samples, goal[1])
    for i in range(samples.offsets[s + 1] - lo):
        total += goal[0][i, samples.labels[lo + i]]
    return total


@quick_part
def arrive(rate, trial, new, parameters, state, change):
    """The sample takes the parameters ``trial`` with marginals ``new``; change: how θ follows."""
    for i in range(len(state[0])):
        for y in range(state[0].shape[1]):
            change[0][i, y] = F(rate) * (state[0][i, y] - new[0][i, y])
            parameters[0][i, y] = trial[0][i, y]
            state[0][i, y] = new[0][i, y]
    for t in range(len(state[1])):
        for x in range(state[1].shape[1]):
            for y in range(state[1].shape[2]):
                change[1][t, x, y] = F(rate) * (state[1][t, x, y] - new[1][t, x, y])
                parameters[1][t, x, y] = trial[1][t, x, y]
                state[1][t, x, y] = new[1][t, x, y]


@quick_part
def step(s, samples, trees, adversary, linear, game, goal, points, scratch, work, change):
    """Move the adversary of sample s towards the scores ``goal``.

    Return its gap, log Z of the goal, and whether it moved.

    Pairs are of nodes and own tables. points: (X − psi, a trial, its marginals), scratch. change:
    how θ is to follow, out.
    """
    features, grams = linear
    costs, settings, rates = game
    d, trial, new = points
    lo, hi = samples.offsets[s], samples.offsets[s + 1]
    first, last = samples.table_start[s], samples.table_start[s + 1]
    parameters = adversary.psi[lo:hi], adversary.tables[first:last]
    old = adversary.r[lo:hi], adversary.sums[first:last]
    rate, inverse = rates[s], F(1.0 / settings.temperature)
    aim(goal, parameters, d, trial)
    gap, log_z, log_z_goal = 0.0, 0.0, 0.0
    gamma, low, high = F(1), F(0), F(1)
    for attempt in range(TRIES + 1):
        if attempt > 0:
            go(gamma, parameters, d, trial)
        log_z = marginals(LEAST32, s, samples, trees, trial[0], trial[1], scratch, new[0], new[1])
        slope, bend = products(
            s, samples, features, grams, costs, settings, rate, old, d, new, work
        )
        if attempt == 0:
            # T KL(q | Gibbs distribution of the scores)
            log_z_goal = log_z
            gap = settings.temperature * less_score(log_z - adversary.entropy[s], goal, old)
            if not slope > F(1e-12) * F(hi - lo):
                return gap, log_z_goal, False
            guess = slope / (slope + bend * inverse)
            if guess > FULL:
                break
            gamma = guess
            continue
        after = (F(1) - gamma) * slope - bend * inverse
        if not np.isfinite(after):
            if attempt == TRIES:
                return gap, log_z_goal, False
            high = gamma
            slope, after = F(1), F(-1)
        elif after < -SLACK * slope:
            high = gamma
        elif after > SLACK * slope and gamma < F(1):
            low = gamma
        else:
            break
        if attempt == TRIES:
            break
        if low == F(0):
            guess = gamma * slope / (slope - after)
            gamma = max(gamma * F(0.3), min(gamma * F(0.9), guess))
        else:
            gamma = F(0.5) * (low + high)
    arrive(rate, trial, new, parameters, old, change)
    adversary.entropy[s] = less_score(log_z, trial, old)
    return gap, log_z_goal, True


@quick_part
def apply_change(s, place, samples, features, weights, changes):
    """θ follows the change of sample s."""
    k = weights.node.shape[1]
    lo = samples.offsets[s]
    for i in range(samples.offsets[s + 1] - lo):
        change = changes.nodes[place, i]
        for j in range(features.nodes.indptr[lo + i], features.nodes.indptr[lo + i + 1]):
            value, row = features.nodes.data[j], weights.node[features.nodes.indices[j]]
            for y in range(k):
                row[y] += value * change[y]
    start = samples.table_start[s]
    for t in range(samples.table_start[s + 1] - start):
        at = samples.row[start + t]
        for j in range(features.edges.indptr[at], features.edges.indptr[at + 1]):
            value, row = features.edges.data[j], weights.edge[features.edges.indices[j]]
            for x in range(k):
                change = changes.tables[place, t, x]
                for y in range(k):
                    row[x * k + y] += value * change[y]


@quick_kernel
def natural_visits(
    leads, counters, order, samples, trees, features, weights, rules, game, adversary, grams, found
):
    """Visit the samples of ``order``: some under the same θ, then θ moves, and so on.

    Several threads may call this together, one of which ``leads``: it alone moves θ, by the changes
    of the samples in their order, so what comes out does not depend on who visited whom.

    counters (3,) int64, shared: samples taken, visited, and open for visits; at first 0, 0 and the
    number of the first samples. game: (costs, settings, rate (S,)). found: (changes, stats), out.
    """
    order, samples, features = borrowed((order, samples, features))
    weights, rules, game = borrowed((weights, rules, game))
    adversary, grams, found = borrowed((adversary, grams, found))
    costs, settings, _ = game
    changes, stats = found
    at_once = len(changes.moved)
    done = 0
    k, width = weights.node.shape[1], adversary.r.shape[1]
    n, m = changes.nodes.shape[1], changes.tables.shape[1]
    scratch = gibbs_scratch(adversary.r, n, m, k)
    rows = (np.zeros(k), np.empty(k), np.zeros(width, F), np.zeros(width, F), np.zeros(width, F))
    flat = np.empty(k * k)
    goal = np.zeros((n, width), F), np.zeros((m, k, width), F)
    d = np.zeros((n, width), F), np.zeros((m, k, width), F)
    trial = np.zeros((n, width), F), np.zeros((m, k, width), F)
    new = np.zeros((n, width), F), np.zeros((m, k, width), F)
    columns = 0
    for s in order:
        columns = max(columns, grams.n_columns[s])
    work = (
        np.zeros((n, width), F),
        np.zeros((m, k, width), F),
        np.zeros(width, F),
        np.zeros((columns, width), F),
    )
    while True:
        ready = read(counters, OPEN)
        at = take_below(counters, TAKEN, ready)
        if at < 0 and not leads:
            if ready == len(order):
                return
            wait_for(counters, OPEN, ready + 1)
            continue
        if at < 0:
            wait_for(counters, VISITED, ready)
            for j in range(done, ready):
                if changes.moved[j - done]:
                    apply_change(order[j], j - done, samples, features, weights, changes)
            if ready == len(order):
                return
            done = ready
            write(counters, OPEN, min(ready + at_once, len(order)))
            continue
        s = order[at]
        place = at % at_once
        lo, hi = samples.offsets[s], samples.offsets[s + 1]
        enter(s, samples, scratch[0])
        r = adversary.r[lo:hi]
        stats.predictor_regret[s], paid = node_scores(
            s, samples, features, weights, rules, costs, settings, r, rows, goal[0]
        )
        table_scores(s, samples, features, weights, rules, settings.temperature, flat, goal[1])
        linear, points = (features, grams), (d, trial, new)
        change = changes.nodes[place], changes.tables[place]
        stats.gap[s], log_z, changes.moved[place] = step(
            s, samples, trees, adversary, linear, game, goal, points, scratch, work, change
        )
        stats.regret[s] = settings.temperature * (log_z - true_score(s, samples, goal)) + paid
        add_one(counters, VISITED)


@quick_kernel
def move_predictors(lo, hi, costs, rules, inv_mu, r):
    """p0 <- Proj(p0 − L r / mu) for nodes lo .. hi-1."""
    k = len(costs.of_labels)
    expected = np.zeros(r.shape[1], F)
    for i in range(lo, hi):
        mask = rules.unary_mask[rules.node_kind[i]]
        times_rows(r[i], costs.of_labels, k, expected)
        for y in range(k):
            costs.p0[i, y] += mask[y] - F(inv_mu) * expected[y]
        project(costs.p0[i], k)
