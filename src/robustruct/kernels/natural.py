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

from robustruct.kernels._atomic import add_one, fetch_row, read, take_below, wait_for, write
from robustruct.kernels._borrowed import borrowed
from robustruct.kernels._jit import quick_helper, quick_kernel, quick_part
from robustruct.kernels.gibbs import LEAST32, enter, gibbs_scratch, marginals, true_edges
from robustruct.kernels.lanes import dot, gather_rows, scatter_row, times_rows
from robustruct.kernels.structs import FREE, NOBODY, TRUTH

F = np.float32
TAKEN, VISITED, OPEN = 0, 1, 2  # counters
TRIES = 8  # of γ; with 4 weak penalties do not converge
SLACK = F(0.3)  # 0.1 takes a fifth longer: few passes fewer, many more tries
FULL = F(0.98)
EXPECTED, PLAYED, ADDED = 0, 1, 2  # rows of scratch: L r, p, w L'p


@quick_helper
def project(v):
    """v <- the nearest point of the simplex, by Newton on the threshold from below."""
    threshold = v[0]
    for y in range(1, len(v)):
        threshold = v[y] if v[y] > threshold else threshold
    threshold -= F(1)
    for _ in range(30):
        total, above = F(0), F(0)
        for y in range(len(v)):
            total += v[y] - threshold if v[y] > threshold else F(0)
            above += F(1) if v[y] > threshold else F(0)
        new = threshold + (total - F(1)) / above
        if new <= threshold:
            break
        threshold = new
    for y in range(len(v)):
        v[y] = v[y] - threshold if v[y] > threshold else F(0)


@quick_part
def predictor_costs(i, r, samples, costs, mask, settings, rows):
    """rows[ADDED] = w_i L'p_i for node i; return what p gives away, w_i (p'L r − min L r).

    mask (width,): labels that cannot occur are not predicted.
    """
    k = len(costs.of_labels)
    weight = costs.weight[i]
    expected, p, added = rows[EXPECTED], rows[PLAYED], rows[ADDED]
    if settings.player == TRUTH:
        row = costs.of_predictor[samples.labels[i]]
        for y in range(len(added)):
            added[y] = weight * row[y]
        return F(0)
    times_rows(r, costs.of_labels, k, rows, EXPECTED)
    for y in range(len(p)):
        p[y] = costs.p0[i, y] - F(settings.inv_mu) * expected[y] + mask[y]
    project(p)
    times_rows(p, costs.of_predictor, k, rows, ADDED)
    least, mean = F(np.inf), F(0)
    for y in range(len(p)):
        least = expected[y] if expected[y] < least and mask[y] == F(0) else least
        mean += p[y] * expected[y]
        added[y] *= weight
    return weight * (mean - least)


@quick_part
def node_scores(s, samples, features, weights, rules, costs, settings, r, rows, out):
    """out (n, width) = X but for a constant per node; return two costs of the predictor.

    These are what it gives away, and what it pays on the truth, Σ_i w_i (L'p_i)_{y_i}.

    r (n, width) are the marginals it answers. rows (3, width): scratch.
    """
    inverse, nodes = F(1.0 / settings.temperature), features.nodes
    lo = samples.offsets[s]
    regret, paid = 0.0, 0.0
    added = rows[ADDED]
    for i in range(samples.offsets[s + 1] - lo):
        mask, row = rules.unary_mask[rules.node_kind[lo + i]], out[i]
        gather_rows(nodes.indptr[lo + i], nodes.indptr[lo + i + 1], nodes, weights.node, out, i)
        if settings.player != NOBODY:
            regret += predictor_costs(lo + i, r[i], samples, costs, mask, settings, rows)
            for y in range(len(row)):
                row[y] += added[y]
            paid += added[samples.labels[lo + i]]
        top = F(-np.inf)
        for y in range(len(row)):
            top = row[y] if row[y] > top and mask[y] == F(0) else top
        for y in range(len(row)):
            row[y] = (row[y] - top) * inverse + mask[y]
    return regret, paid


@quick_part
def table_scores(s, samples, features, weights, rules, temperature, out):
    """out (m, k, width): the scores of the own tables divided by T, but for constants."""
    inverse, edges = F(1.0 / temperature), features.edges
    start, k = samples.table_start[s], len(rules.pair_mask)
    flat = out.reshape((len(out), k * out.shape[2]))
    for t in range(samples.table_start[s + 1] - start):
        at, table = samples.row[start + t], out[t]
        gather_rows(edges.indptr[at], edges.indptr[at + 1], edges, weights.edge, flat, t)
        top = F(-np.inf)
        for x in range(k):
            row, mask = table[x], rules.pair_mask[x]
            for y in range(len(row)):
                top = row[y] if row[y] > top and mask[y] == F(0) else top
        for x in range(k):
            row, mask = table[x], rules.pair_mask[x]
            for y in range(len(row)):
                row[y] = (row[y] - top) * inverse + mask[y]


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
    nodes, δ of the tables, rows of scratch, rows for the columns that the sample uses).
    """
    r, sums = state
    d, d_tables = goal
    new_r, new_sums = new
    delta, delta_tables, rows, columns = work
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
            times_rows(gram[i * n : (i + 1) * n], delta, i, rows, EXPECTED)
            bend += F(2) * dot(rows[EXPECTED], delta[i])
            bend += gram[i * n + i] * dot(delta[i], delta[i])
        if settings.player == FREE:
            times_rows(delta[i], costs.of_labels, k, rows, EXPECTED)
            bend_cost += costs.weight[lo + i] * dot(rows[EXPECTED], rows[EXPECTED])
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
    nodes, edges = features.nodes, features.edges
    lo = samples.offsets[s]
    for i in range(samples.offsets[s + 1] - lo):
        begin, end = nodes.indptr[lo + i], nodes.indptr[lo + i + 1]
        scatter_row(begin, end, nodes, changes.nodes[place], i, weights.node)
    start, own = samples.table_start[s], changes.tables[place]
    flat = own.reshape((len(own), own.shape[1] * own.shape[2]))
    for t in range(samples.table_start[s + 1] - start):
        at = samples.row[start + t]
        scatter_row(edges.indptr[at], edges.indptr[at + 1], edges, flat, t, weights.edge)


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
    k, width = adversary.tables.shape[1], adversary.r.shape[1]
    n, m = changes.nodes.shape[1], changes.tables.shape[1]
    scratch = gibbs_scratch(adversary.r, n, m, k)
    rows = np.zeros((3, width), F)
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
        rows,
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
        if at + 1 < len(order):  # the next sample's weights are on their way meanwhile
            lo, hi = samples.offsets[order[at + 1]], samples.offsets[order[at + 1] + 1]
            for j in range(features.nodes.indptr[lo], features.nodes.indptr[hi]):
                fetch_row(weights.node, features.nodes.indices[j])
        lo, hi = samples.offsets[s], samples.offsets[s + 1]
        enter(s, samples, scratch[0])
        r = adversary.r[lo:hi]
        stats.predictor_regret[s], paid = node_scores(
            s, samples, features, weights, rules, costs, settings, r, rows, goal[0]
        )
        table_scores(s, samples, features, weights, rules, settings.temperature, goal[1])
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
    rows = np.zeros((1, r.shape[1]), F)
    for i in range(lo, hi):
        mask, p = rules.unary_mask[rules.node_kind[i]], costs.p0[i]
        times_rows(r[i], costs.of_labels, k, rows, EXPECTED)
        for y in range(len(p)):
            p[y] += mask[y] - F(inv_mu) * rows[EXPECTED, y]
        project(p)


@quick_kernel
def to_single(theta, single, rows):
    """From rows of θ (rows, k) to padded rows (rows, width) in float32."""
    for i in rows:
        for y in range(theta.shape[1]):
            single[i, y] = theta[i, y]


@quick_kernel
def from_single(theta, single, rows):
    """And back."""
    for i in rows:
        for y in range(theta.shape[1]):
            theta[i, y] = single[i, y]
