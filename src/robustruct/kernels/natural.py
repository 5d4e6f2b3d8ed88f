"""Block-coordinate ascent on the dual of smooth training (T > 0), one sample (block) at a time.

The adversary of a sample is a Gibbs distribution, kept by its natural parameters psi and what these
amount to: node marginals r, edge marginals added up by own table, the entropy. A visit mixes the
natural parameters with the scores that the sample has now, divided by T:

    X = (θ·Φ + w L'p) / T,  p = Proj(p0 − L r / mu);        psi <- psi + γ (X − psi)

Along the change δ of the marginals the dual bends by b(δ) = rate |Φ'δ|² + Σ_i w_i |L δ_i|² / mu,
and its slope at the new point is (1 − γ) <X − psi, δ> − b(δ) / T. γ is accepted when that is small
against <X − psi, δ>: slopes can be told in float32, differences of values cannot. γ = 1 lands on
the Gibbs distribution of the scores.
"""

import numpy as np

from robustruct.core.structs import FREE, NOBODY, TRUTH
from robustruct.kernels._atomic import add_one, fetch_row, read, take_below, wait_for, write
from robustruct.kernels._jit import quick_kernel, quick_part
from robustruct.kernels.gibbs import LEAST32, marginals, true_edges
from robustruct.kernels.lanes import (
    NONE,
    ONE,
    dot,
    gather_rows,
    row_top,
    scatter_row,
    times_rows,
)
from robustruct.kernels.registers import (
    beyond,
    compact,
    eight,
    larger,
    largest,
    put,
    same,
    total,
    zeros,
)

F = np.float32
TAKEN, VISITED, OPEN = 0, 1, 2  # counters
TRIES = 20  # of γ; with 4 weak penalties do not converge, and few samples need more than two
SLACK = F(0.15)  # with 0.3 a CRF takes a pass more; with 0.1 there are many more tries
FULL, SHORTEST = F(0.98), F(1e-6)  # γ that counts as 1; the least that is tried first
EXPECTED, PLAYED, ADDED = np.intp(0), np.intp(1), np.intp(2)  # rows of scratch: L r, p, w L'p


@quick_part
def project(v, i):
    """v[i] <- the nearest point of the simplex, by Newton on the threshold from below."""
    width = v.shape[1]
    first, last = i * width, (i + 1) * width
    threshold = row_top(v, i, ONE) - F(1)
    for _ in range(30):
        mass, above = zeros(v), zeros(v)
        for y in range(first, last, 8):
            mass = mass + larger(eight(v, y) - threshold, zeros(v))
            above = above + beyond(eight(v, y), same(threshold))
        new = threshold + (total(mass) - F(1)) / total(above)
        if new <= threshold:
            break
        threshold = new
    for y in range(first, last, 8):
        put(larger(eight(v, y) - threshold, zeros(v)), v, y)


@quick_part
def new_predictor(r, at, node, costs, mask, inv_mu, rows, out, to):
    """rows[EXPECTED] = L r[at] of a node; out[to] = Proj(p0 − L r / mu) among allowed labels."""
    width = out.shape[1]
    k = len(costs.of_labels)
    times_rows(r, at * width, ONE, costs.of_labels, NONE, k, rows, EXPECTED)
    for y in range(0, width, 8):
        p = eight(costs.p0, node * width + y) - eight(rows, EXPECTED * width + y) * F(inv_mu)
        put(p + eight(mask, y), out, to * width + y)
    project(out, to)


@quick_part
def predictor_costs(node, r, at, samples, costs, mask, settings, rows):
    """rows[ADDED] = w L'p for a node; return what p gives away, w (p'L r − min L r).

    mask (width,): labels that cannot occur are not predicted.
    """
    k, width, weight = len(costs.of_labels), rows.shape[1], costs.weight[node]
    if settings.player == TRUTH:
        of_truth = samples.labels[node] * width
        for y in range(0, width, 8):
            put(eight(costs.of_predictor, of_truth + y) * weight, rows, ADDED * width + y)
        return F(0)
    new_predictor(r, at, node, costs, mask, settings.inv_mu, rows, rows, PLAYED)
    times_rows(rows, PLAYED * width, ONE, costs.of_predictor, NONE, k, rows, ADDED)
    least = same(F(-np.inf))  # times -1
    for y in range(0, width, 8):
        least = larger(eight(mask, y) - eight(rows, EXPECTED * width + y), least)
        put(eight(rows, ADDED * width + y) * weight, rows, ADDED * width + y)
    return weight * (dot(rows, PLAYED, rows, EXPECTED) + largest(least))


@quick_part
def relative(rows, at, count, inverse, masks, kind):
    """Rows of scores, less the largest that is allowed, times ``inverse``, plus masks[kind]."""
    width = rows.shape[1]
    first, shift = at * width, (kind - at) * width
    best = same(F(-np.inf))
    for y in range(first, first + count * width, 8):
        best = larger(eight(rows, y) + eight(masks, y + shift), best)
    top = largest(best)
    for y in range(first, first + count * width, 8):
        put((eight(rows, y) - top) * inverse + eight(masks, y + shift), rows, y)


@quick_part
def scores(s, samples, features, weights, rules, game, r, first, work):
    """work.goal = X but for constants; return two costs of the predictor.

    These are what it gives away, and what it pays on the truth, Σ_i w_i (L'p_i)_{y_i}. The
    marginals that it answers are r[first], r[first + 1], ...
    """
    costs, settings, _ = game
    goal, player, nodes, edges = work.goal, work.player, features.nodes, features.edges
    inverse, width = F(1.0 / settings.temperature), goal.shape[1]
    lo, n = samples.offsets[s], samples.offsets[s + 1] - samples.offsets[s]
    regret, paid = 0.0, 0.0
    for i in range(n):
        begin, end = nodes.indptr[lo + i], nodes.indptr[lo + i + 1]
        gather_rows(begin, end, nodes, ONE, NONE, weights.rows, goal, i)
        kind = rules.node_kind[lo + i]
        if settings.player != NOBODY:
            mask = rules.unary_mask[kind]
            regret += predictor_costs(lo + i, r, first + i, samples, costs, mask, settings, player)
            for y in range(0, width, 8):
                own = eight(goal, i * width + y) + eight(player, ADDED * width + y)
                put(own, goal, i * width + y)
            paid += player[ADDED, samples.labels[lo + i]]
        relative(goal, i, ONE, inverse, rules.unary_mask, kind)
    start, k = samples.table_start[s], len(rules.pair_mask)
    for t in range(samples.table_start[s + 1] - start):
        at, to = samples.row[start + t], n + t * k
        begin, end = edges.indptr[at], edges.indptr[at + 1]
        for x in range(k):
            gather_rows(begin, end, edges, k, weights.d + x, weights.rows, goal, to + x)
        relative(goal, to, k, inverse, rules.pair_mask, NONE)
    return regret, paid


@quick_part
def moved_features(s, samples, features, grams, delta, columns):
    """|Φ'δ|² of the nodes of a sample; columns (n_columns, width) is scratch."""
    lo, nodes = samples.offsets[s], features.nodes
    for y in range(0, grams.n_columns[s] * columns.shape[1], 8):
        put(zeros(columns), columns, y)
    for i in range(samples.offsets[s + 1] - lo):
        begin, end = nodes.indptr[lo + i], nodes.indptr[lo + i + 1]
        scatter_row(begin, end, grams.local, nodes.data, ONE, NONE, delta, i, columns)
    found = F(0)
    for c in range(grams.n_columns[s]):
        found += dot(columns, c, columns, c)
    return found


@quick_part
def changes(new, old, first, at, count, delta):
    """delta = new - old for rows at, at + 1, ... of a node or a table, whose masses are equal.

    Beside a mass of nearly 1 small ones are lost when they leave it: a change that a label or a
    pair gets then seems to come from nowhere. What changes do not add up to goes where the mass is.
    """
    width, shift = delta.shape[1], first * delta.shape[1]
    mass, found = zeros(delta), zeros(delta)
    for y in range(at * width, (at + count) * width, 8):
        change = eight(new, y) - eight(old, shift + y)
        put(change, delta, y)
        mass, found = mass + eight(new, y), found + change
    lost = -total(found) / total(mass)
    for y in range(at * width, (at + count) * width, 8):
        put(eight(delta, y) + eight(new, y) * lost, delta, y)


@quick_part
def products(s, samples, features, grams, game, old, first, work):
    """(<X − parameters, δ>, b(δ)) for the change δ of the marginals, from old[first] to work.new.

    The first rows of old from ``first`` are those of the sample's nodes, then of its tables.
    """
    costs, settings, rates = game
    delta, player, width, k = work.delta, work.player, work.delta.shape[1], len(costs.of_labels)
    lo, n = samples.offsets[s], samples.offsets[s + 1] - samples.offsets[s]
    m = samples.table_start[s + 1] - samples.table_start[s]
    slopes, bend, bend_cost = zeros(delta), F(0), F(0)
    for i in range(n):
        changes(work.new, old, first, i, ONE, delta)
    for t in range(m):
        changes(work.new, old, first, n + t * k, k, delta)
    for y in range(0, (n + m * k) * width, 8):
        slopes = slopes + eight(work.way, y) * eight(delta, y)
    start = grams.node_start[s]
    multiplied = grams.node_start[s + 1] > start
    for i in range(n):
        if multiplied:  # symmetric: what is below the diagonal counts twice
            times_rows(grams.nodes, start + i * n, ONE, delta, NONE, i, player, EXPECTED)
            bend += F(2) * dot(player, EXPECTED, delta, i)
            bend += grams.nodes[start + i * n + i] * dot(delta, i, delta, i)
        if settings.player == FREE:
            times_rows(delta, i * width, ONE, costs.of_labels, NONE, k, player, EXPECTED)
            bend_cost += costs.weight[lo + i] * dot(player, EXPECTED, player, EXPECTED)
    if not multiplied:
        bend += moved_features(s, samples, features, grams, delta, work.columns)
    start = grams.table_start[s]
    for t in range(m):
        for u in range(t + 1):
            product = grams.tables[start + t * m + u]
            if product != F(0):
                both = F(0)
                for x in range(k):
                    both += dot(delta, n + t * k + x, delta, n + u * k + x)
                bend += (F(1) if u == t else F(2)) * product * both
    return total(slopes), F(rates[s]) * bend + F(settings.inv_mu) * bend_cost


@quick_part
def less_score(value, scores, i, marginals, j, count):
    """value − <scores, marginals>, of rows i, i+1, ... of the one and j, j+1, ... of the other."""
    for row in range(count):
        value -= np.float64(dot(scores, i + row, marginals, j + row))
    return value


@quick_part
def step(s, samples, trees, features, adversary, grams, game, work, change, place):
    """Move the adversary of sample s towards the scores in work.goal.

    Return its gap, log Z of the goal, and whether it moved. How θ is to follow goes to rows
    ``place``, place + 1, ... of ``change``.
    """
    _, settings, rates = game
    natural, old, k, width = adversary.natural, adversary.marginals, work.gibbs.k, change.shape[1]
    n = samples.offsets[s + 1] - samples.offsets[s]
    count = n + k * (samples.table_start[s + 1] - samples.table_start[s])
    first = samples.offsets[s] + k * samples.table_start[s]
    rate, inverse = F(rates[s]), F(1.0 / settings.temperature)
    begin, to = first * width, place * width
    for y in range(0, count * width, 8):
        put(eight(work.goal, y) - eight(natural, begin + y), work.way, y)
        put(eight(work.goal, y), work.trial, y)
    gap, log_z, log_z_goal = 0.0, 0.0, 0.0
    gamma, low, high = F(1), F(0), F(1)
    for attempt in range(TRIES + 1):
        if attempt > 0:
            for y in range(0, count * width, 8):
                put(eight(natural, begin + y) + eight(work.way, y) * gamma, work.trial, y)
        log_z = marginals(LEAST32, s, samples, trees, work.trial, work.gibbs, True, work.new)
        slope, bend = products(s, samples, features, grams, game, old, first, work)
        if attempt == 0:
            # T KL(q | Gibbs distribution of the scores)
            log_z_goal = log_z
            gap = less_score(log_z - adversary.entropy[s], work.goal, NONE, old, first, count)
            gap *= settings.temperature
            if not slope > F(1e-12) * F(n):
                return gap, log_z_goal, False
            gamma = slope / (slope + bend * inverse)
            if gamma > FULL:
                break
            if not gamma > SHORTEST:
                gamma = SHORTEST
            continue
        if attempt == TRIES:
            break
        after = (F(1) - gamma) * slope - bend * inverse
        if abs(after) <= SLACK * slope and slope > F(0):
            break
        guess = F(0.3)
        if after >= F(0):  # where no mass has moved yet as well
            low = gamma
        else:  # or not a number
            high = gamma
            if slope > F(0) and after > -slope * F(2):
                guess = min(F(0.9), slope / (slope - after))
        if attempt + 1 == TRIES:  # too far could mean downhill
            if low == F(0):
                return gap, log_z_goal, False
            gamma = low
        elif low == F(0):
            gamma *= guess
        else:
            gamma = F(0.5) * (low + high)
    for y in range(0, count * width, 8):
        put(eight(work.delta, y) * -rate, change, to + y)
        put(eight(work.trial, y), natural, begin + y)
        put(eight(work.new, y), old, begin + y)
    adversary.entropy[s] = less_score(log_z, work.trial, NONE, old, first, count)
    return gap, log_z_goal, True


@quick_part
def apply_change(s, samples, features, weights, k, change, place):
    """θ follows the change of sample s, which is in rows ``place``, place + 1, ..."""
    nodes, edges = features.nodes, features.edges
    lo, n = samples.offsets[s], samples.offsets[s + 1] - samples.offsets[s]
    for i in range(n):
        begin, end = nodes.indptr[lo + i], nodes.indptr[lo + i + 1]
        scatter_row(
            begin, end, nodes.indices, nodes.data, ONE, NONE, change, place + i, weights.rows
        )
    start = samples.table_start[s]
    for t in range(samples.table_start[s + 1] - start):
        at, own = samples.row[start + t], place + n + t * k
        begin, end = edges.indptr[at], edges.indptr[at + 1]
        for x in range(k):
            shift = weights.d + x
            scatter_row(
                begin, end, edges.indices, edges.data, k, shift, change, own + x, weights.rows
            )


@quick_kernel
def natural_visits(
    leads, counters, order, samples, trees, features, weights, rules, game, adversary, grams, found
):
    """Visit the samples of ``order``: some under the same θ, then θ moves, and so on.

    Several threads may call this together, one of which ``leads``: it alone moves θ, by the changes
    of the samples in their order, so what comes out does not depend on who visited whom.

    counters (3,) int64, shared: samples taken, visited, and open for visits; at first 0, 0 and the
    number of the first samples. game: (costs, settings, rate (S,)). found: (changes, stats, scratch
    of the thread), out.
    """
    compact()
    _, settings, _ = game
    changes, stats, work = found
    at_once, k, nodes = len(changes.moved), work.gibbs.k, features.nodes
    most = len(changes.rows) // at_once
    done = 0
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
                    place = (j - done) * most
                    apply_change(order[j], samples, features, weights, k, changes.rows, place)
            if ready == len(order):
                return
            done = ready
            write(counters, OPEN, min(ready + at_once, len(order)))
            continue
        s = order[at]
        if at + 1 < len(order):  # the next sample's weights are on their way meanwhile
            lo, hi = samples.offsets[order[at + 1]], samples.offsets[order[at + 1] + 1]
            for j in range(nodes.indptr[lo], nodes.indptr[hi]):
                fetch_row(weights.rows, nodes.indices[j])
        first = samples.offsets[s] + k * samples.table_start[s]
        stats.predictor_regret[s], paid = scores(
            s, samples, features, weights, rules, game, adversary.marginals, first, work
        )
        place = at % at_once
        stats.gap[s], log_z, changes.moved[place] = step(
            s,
            samples,
            trees,
            features,
            adversary,
            grams,
            game,
            work,
            changes.rows,
            place * most,
        )
        truth = true_edges(s, samples, work.goal, k)
        for i in range(samples.offsets[s + 1] - samples.offsets[s]):
            truth += work.goal[i, samples.labels[samples.offsets[s] + i]]
        stats.regret[s] = settings.temperature * (log_z - truth) + paid
        add_one(counters, VISITED)


@quick_kernel
def move_predictors(first, last, samples, costs, rules, inv_mu, marginals):
    """p0 <- Proj(p0 − L r / mu) for the nodes of samples first .. last-1."""
    compact()
    k = len(costs.of_labels)
    rows = np.zeros((1, marginals.shape[1]), F)
    for s in range(first, last):
        shift = k * samples.table_start[s]
        for i in range(samples.offsets[s], samples.offsets[s + 1]):
            mask = rules.unary_mask[rules.node_kind[i]]
            new_predictor(marginals, i + shift, i, costs, mask, inv_mu, rows, costs.p0, i)


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
