"""The game on the local polytope, for graphs too wide to be solved exactly.

Node marginals r_i and edge marginals q_e need only agree on every edge; they need not belong to one
distribution over labellings. Multipliers u price the agreement:

    max over r, q   min over p, u    <ψ, (r, q)> + Σ_i w_i p_i' L r_i
                                     + Σ_e u_e · (r of its ends - margins of q_e)

is a linear program. It is solved by primal-dual hybrid gradient steps (Chambolle and Pock) with
diagonal step sizes, averages, and restarts whenever the gap has halved (Applegate et al., 2021).
For fixed p and u the maximum falls apart into nodes and edges: a bound on the relaxed and on the
exact game. For a lower bound on the relaxed game, edges are fitted to r by optimal transport.

"""

import numpy as np

from robustruct.core.structs import SampleEdges
from robustruct.kernels._jit import helper, kernel, part
from robustruct.kernels.forests import edges_of_sample
from robustruct.kernels.game_bounds import least_cost
from robustruct.kernels.predictor import largest, project_simplex
from robustruct.kernels.transport import transport

# Mass that may be missing from edge marginals for them to count as fitted: rounding leaves that.
PLACED = 1e-12


@kernel
def solve_relaxed(first, last, game, effort, point, lower, upper, scratch):
    """Relaxed games of samples first .. last-1, to a gap of effort.allowed[s].

    point, in: where to start, out: the best found, q fitted to r. lower, upper (S,): bounds on the
    relaxed game, out; lower is -inf where forbidden pairs kept edges from being fitted, and r and q
    are then those of the last step.
    """
    structure, weight, cost = game.structure, game.weight, game.cost
    best = scratch.best
    row_sum, column_sum, cost_range = _cost_sizes(cost)
    for s in range(first, last):
        lo, hi = structure.offsets[s], structure.offsets[s + 1]
        n_edges = edges_of_sample(
            s, structure.offsets, structure.chord_offsets, structure.parent, scratch.slots
        )
        sample = SampleEdges(lo, hi, scratch.slots[:n_edges])
        _degrees(sample, structure, scratch.degree)
        spread, top_score = _sizes(sample.slots, game.scores)
        size = spread + 1e-3 * largest(weight[lo:hi]) * cost_range + 1e-12
        lower[s], upper[s] = -np.inf, np.inf
        _copy(sample, point, best)
        _copy(sample, point, scratch.start)
        since, last_gap = 0, np.inf
        for t in range(effort.max_iter + 1):
            if t % effort.check_every == 0 or t == effort.max_iter:
                for averaged in range(2 if since > 0 else 1):
                    source, count = (scratch.total, since) if averaged else (point, 1)
                    _improve_bounds(
                        s, sample, game, top_score, source, count, lower, upper, scratch
                    )
                gap = upper[s] - lower[s]
                effort.n_iter[s] = t
                if gap <= effort.allowed[s]:
                    break
                if since > 0 and (gap <= 0.5 * last_gap or since >= 0.4 * t):
                    _mean(sample, scratch.total, since, point)
                    size = _balanced(size, sample, point, scratch.start)
                    _copy(sample, point, scratch.start)
                    since, last_gap = 0, gap
            if since == 0:
                _clear(sample, scratch.total)
            _adversary_step(sample, game, column_sum, size, point, scratch)
            _predictor_step(sample, game, row_sum, size, point, scratch)
            since += 1
            _add(sample, point, scratch.total)
        point.p[lo:hi] = best.p[lo:hi]
        for slot in sample.slots:
            point.u[slot] = best.u[slot]
        if lower[s] > -np.inf:
            point.r[lo:hi] = best.r[lo:hi]
            fit_edges(sample.slots, structure, game.scores, point.r, point.q)


# ---------------------------------------------------------------------------------------- bounds


@part
def _improve_bounds(s, sample, game, top_score, summed, count, lower, upper, scratch):
    """The bounds of a mean of points, given by their sum and number, where they are better."""
    lo, hi = sample.lo, sample.hi
    trial, best = scratch.trial, scratch.best
    _mean_of_nodes(sample, summed, count, trial)
    value = _upper(sample, game, trial, scratch.gain)
    if value < upper[s]:
        upper[s] = value
        best.p[lo:hi] = trial.p[lo:hi]
        for slot in sample.slots:
            best.u[slot] = trial.u[slot]
    missing = fit_edges(sample.slots, game.structure, game.scores, trial.r, trial.q)
    if missing <= PLACED:
        # Wherever the mass that rounding left over went, it could cost no more.
        value = _lower(sample, game, trial.r, trial.q) - missing * top_score
        if value > lower[s]:
            lower[s] = value
            best.r[lo:hi] = trial.r[lo:hi]


@helper
def _node_gains(sample, game, p, u, out):
    """out[i] = unary + w L'p + Σ u of the node's edges: what label b of node i is worth alone."""
    unary, cost, weight = game.scores.unary, game.cost, game.weight
    k = unary.shape[1]
    for i in range(sample.lo, sample.hi):
        for b in range(k):
            total = 0.0
            for a in range(k):
                total += p[i, a] * cost[a, b]
            out[i, b] = unary[i, b] + weight[i] * total
    for slot in sample.slots:
        i, j = game.structure.child[slot], game.structure.parent[slot]
        for b in range(k):
            out[i, b] += u[slot, 0, b]
            out[j, b] += u[slot, 1, b]


@helper
def _upper(sample, game, trial, gain):
    """What no adversary, relaxed or not, can exceed against p; gain (N, k) is scratch."""
    tables, table_of, u = game.scores.tables, game.scores.table_of, trial.u
    k = tables.shape[1]
    _node_gains(sample, game, trial.p, u, gain)
    total = 0.0
    for i in range(sample.lo, sample.hi):
        total += largest(gain[i])
    for slot in sample.slots:
        table = tables[table_of[slot]]
        best = -np.inf
        for b in range(k):
            for a in range(k):
                value = table[b, a] - u[slot, 0, b] - u[slot, 1, a]
                best = value if value > best else best
        total += best
    return total


@helper
def _lower(sample, game, r, q):
    """What (r, q) secures in the relaxed game; see `game_lower`."""
    unary, tables, table_of = game.scores.unary, game.scores.tables, game.scores.table_of
    cost, weight = game.cost, game.weight
    k = unary.shape[1]
    total = 0.0
    for i in range(sample.lo, sample.hi):
        if weight[i] != 0.0:
            total += weight[i] * least_cost(i, cost, unary, r)
        for b in range(k):
            if r[i, b] != 0.0:
                total += r[i, b] * unary[i, b]
    for slot in sample.slots:
        table = tables[table_of[slot]]
        for b in range(k):
            for a in range(k):
                if q[slot, b, a] != 0.0:
                    total += q[slot, b, a] * table[b, a]
    return total


@kernel
def fit_edges(slots, structure, scores, r, q):
    """Edge marginals that agree with r and score best, into q; return the mass left unplaced."""
    child, parent, tables = structure.child, structure.parent, scores.tables
    table_of = scores.table_of
    missing = 0.0
    for slot in slots:
        missing += transport(tables[table_of[slot]], r[child[slot]], r[parent[slot]], q[slot])
    return missing


@helper
def _column_sum(pair, a):
    """The sum of a column."""
    total = 0.0
    for b in range(len(pair)):
        total += pair[b, a]
    return total


@kernel
def adjust_edges(slots, structure, scores, r, q):
    """Change edge marginals q as little as need be to agree with r; return the mass left unplaced.

    Rows and columns that are too heavy are scaled down, and what is then missing is put back where
    it scores best.
    """
    child, parent, tables = structure.child, structure.parent, scores.tables
    k = r.shape[1]
    left, need, plan = np.empty(k), np.empty(k), np.empty((k, k))
    missing = 0.0
    for slot in slots:
        first, second, pair = r[child[slot]], r[parent[slot]], q[slot]
        for b in range(k):
            total = pair[b].sum()
            for a in range(k):
                pair[b, a] *= first[b] / total if total > first[b] else 1.0
        for a in range(k):
            total = _column_sum(pair, a)
            for b in range(k):
                pair[b, a] *= second[a] / total if total > second[a] else 1.0
            need[a] = max(second[a] - _column_sum(pair, a), 0.0)
        for b in range(k):
            left[b] = max(first[b] - pair[b].sum(), 0.0)
        missing += transport(tables[scores.table_of[slot]], left, need, plan)
        for b in range(k):
            for a in range(k):
                pair[b, a] += plan[b, a]
    return missing


# ----------------------------------------------------------------------------------------- steps


@helper
def _degrees(sample, structure, degree):
    for i in range(sample.lo, sample.hi):
        degree[i] = 0
    for slot in sample.slots:
        degree[structure.child[slot]] += 1
        degree[structure.parent[slot]] += 1


@helper
def _cost_sizes(cost):
    """(Largest sum of a row, and of a column, of costs above the least; their range)."""
    k = len(cost)
    low, high = np.inf, -np.inf
    for a in range(k):
        for b in range(k):
            low, high = min(low, cost[a, b]), max(high, cost[a, b])
    row_sum = column_sum = 0.0
    for a in range(k):
        row = column = 0.0
        for b in range(k):
            row += cost[a, b] - low
            column += cost[b, a] - low
        row_sum, column_sum = max(row_sum, row), max(column_sum, column)
    return row_sum, column_sum, high - low


@helper
def _sizes(slots, scores):
    """(mean range of the pairwise scores: the size that multipliers will have, largest score)."""
    total = 0.0
    top = 0.0
    for slot in slots:
        low, high = np.inf, -np.inf
        table = scores.tables[scores.table_of[slot]]
        for b in range(table.shape[0]):
            for a in range(table.shape[1]):
                if table[b, a] > -np.inf:
                    low = min(low, table[b, a])
                    high = max(high, table[b, a])
                if top < abs(table[b, a]) < np.inf:
                    top = abs(table[b, a])
        if high > low:
            total += high - low
    return total / max(len(slots), 1), top


@part
def _adversary_step(sample, game, column_sum, size, point, scratch):
    """One step of the adversary against (p, u).

    size: how large multipliers are beside masses; it balances the two sides. scratch.ahead, out:
    r and q where the adversary is heading, 2 new - old.
    """
    tables, table_of = game.scores.tables, game.scores.table_of
    r, u = point.r, point.u
    gain, flat, line, ahead = scratch.gain, scratch.flat, scratch.line, scratch.ahead
    k = r.shape[1]
    _node_gains(sample, game, point.p, u, gain)
    for i in range(sample.lo, sample.hi):
        step = 1.0 / (size * scratch.degree[i] + game.weight[i] * column_sum + 1e-300)
        for b in range(k):
            line[b] = r[i, b] + step * gain[i, b]
        _project_ahead(line, r[i], ahead.r[i])
    step = 0.5 / size
    for slot in sample.slots:
        table = tables[table_of[slot]]
        mass = point.q[slot].reshape(k * k)
        for b in range(k):
            for a in range(k):
                score = table[b, a] - u[slot, 0, b] - u[slot, 1, a]
                flat[b * k + a] = mass[b * k + a] + step * score
        _project_ahead(flat, mass, ahead.q[slot].reshape(k * k))


@helper
def _project_ahead(wanted, mass, ahead):
    """mass becomes the distribution next to ``wanted``; ahead, out: 2 new - old."""
    project_simplex(wanted, ahead)
    for b in range(len(mass)):
        moved = ahead[b]
        ahead[b] = 2.0 * moved - mass[b]
        mass[b] = moved


@part
def _predictor_step(sample, game, row_sum, size, point, scratch):
    """One step of (p, u) against where the adversary is heading."""
    unary, cost = game.scores.unary, game.cost
    p, u, r, q, line = point.p, point.u, scratch.ahead.r, scratch.ahead.q, scratch.line
    k = unary.shape[1]
    step = size / (1.0 + k)
    for slot in sample.slots:
        i, j = game.structure.child[slot], game.structure.parent[slot]
        for b in range(k):
            first, second = r[i, b], r[j, b]
            for a in range(k):
                first -= q[slot, b, a]
                second -= q[slot, a, b]
            u[slot, 0, b] -= step * first
            u[slot, 1, b] -= step * second
    if row_sum > 0.0:
        for i in range(sample.lo, sample.hi):
            for a in range(k):
                loss = 0.0
                for b in range(k):
                    loss += cost[a, b] * r[i, b]
                line[a] = p[i, a] - loss / row_sum if unary[i, a] > -np.inf else -np.inf
            project_simplex(line, p[i])


@helper
def _balanced(size, sample, point, start):
    """The next size, by how far each side has moved since ``start``."""
    k = point.r.shape[1]
    far_dual, far_primal = 0.0, 0.0
    for i in range(sample.lo, sample.hi):
        for b in range(k):
            far_primal += (point.r[i, b] - start.r[i, b]) ** 2
    for slot in sample.slots:
        for b in range(k):
            for a in range(k):
                far_primal += (point.q[slot, b, a] - start.q[slot, b, a]) ** 2
            for x in range(2):
                far_dual += (point.u[slot, x, b] - start.u[slot, x, b]) ** 2
    if far_primal > 1e-20 and far_dual > 1e-20:
        size = np.sqrt(size * np.sqrt(far_dual / far_primal))
    return size


# ---------------------------------------------------------------------- points, of a single sample


@helper
def _copy(sample, point, out):
    for i in range(sample.lo, sample.hi):
        out.p[i] = point.p[i]
        out.r[i] = point.r[i]
    for slot in sample.slots:
        out.q[slot] = point.q[slot]
        out.u[slot] = point.u[slot]


@helper
def _clear(sample, out):
    for i in range(sample.lo, sample.hi):
        out.p[i] = 0.0
        out.r[i] = 0.0
    for slot in sample.slots:
        out.q[slot] = 0.0
        out.u[slot] = 0.0


@helper
def _add(sample, point, out):
    k = point.r.shape[1]
    for i in range(sample.lo, sample.hi):
        for b in range(k):
            out.r[i, b] += point.r[i, b]
            out.p[i, b] += point.p[i, b]
    for slot in sample.slots:
        for b in range(k):
            for a in range(k):
                out.q[slot, b, a] += point.q[slot, b, a]
            for x in range(2):
                out.u[slot, x, b] += point.u[slot, x, b]


@helper
def _mean_of_nodes(sample, total, count, out):
    """p, r and u of total / count."""
    k = out.r.shape[1]
    for i in range(sample.lo, sample.hi):
        for b in range(k):
            out.r[i, b] = total.r[i, b] / count
            out.p[i, b] = total.p[i, b] / count
    for slot in sample.slots:
        for b in range(k):
            for x in range(2):
                out.u[slot, x, b] = total.u[slot, x, b] / count


@helper
def _mean(sample, total, count, out):
    """All of total / count."""
    k = out.r.shape[1]
    _mean_of_nodes(sample, total, count, out)
    for slot in sample.slots:
        for b in range(k):
            for a in range(k):
                out.q[slot, b, a] = total.q[slot, b, a] / count
