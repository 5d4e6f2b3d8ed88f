"""The game on the local polytope, for graphs too wide to be solved exactly.

Node marginals r_i and edge marginals q_e need only agree on every edge; they need not belong to one
distribution over labellings. Multipliers u price the agreement:

    max over r, q   min over p, u    <ψ, (r, q)> + Σ_i w_i p_i' L r_i
                                     + Σ_e u_e · (r of its ends - margins of q_e)

is a linear program. It is solved by primal-dual hybrid gradient steps (Chambolle and Pock) with
diagonal step sizes, averages, and restarts whenever the gap has halved (Applegate et al., 2021).
For fixed p and u the maximum falls apart into nodes and edges: a bound on the relaxed and on the
exact game. For a lower bound on the relaxed game, edges are fitted to r by optimal transport.

u (slots, 2, k): multipliers of the child's and of the parent's margin of each edge.
"""

import numpy as np

from robustruct.kernels._jit import helper, kernel
from robustruct.kernels.forests import edges_of_sample, find_root
from robustruct.kernels.predictor import project_simplex
from robustruct.kernels.transport import transport

# Mass that may be missing from edge marginals for them to count as fitted: rounding leaves that.
PLACED = 1e-12


@helper
def _node_gains(lo, hi, slots, child, parent, unary, cost, weight, p, u, out):
    """out[i] = unary + w L'p + Σ u of the node's edges: what label b of node i is worth alone."""
    k = unary.shape[1]
    for i in range(lo, hi):
        for b in range(k):
            total = 0.0
            for a in range(k):
                total += p[i, a] * cost[a, b]
            out[i, b] = unary[i, b] + weight[i] * total
    for slot in slots:
        i, j = child[slot], parent[slot]
        for b in range(k):
            out[i, b] += u[slot, 0, b]
            out[j, b] += u[slot, 1, b]


@helper
def relaxed_upper(lo, hi, slots, child, parent, unary, tables, table_of, cost, weight, p, u, gain):
    """What no adversary, relaxed or not, can exceed against p; gain (N, k) is scratch."""
    k = unary.shape[1]
    _node_gains(lo, hi, slots, child, parent, unary, cost, weight, p, u, gain)
    total = 0.0
    for i in range(lo, hi):
        total += gain[i].max()
    for slot in slots:
        table = tables[table_of[slot]]
        best = -np.inf
        for b in range(k):
            for a in range(k):
                value = table[b, a] - u[slot, 0, b] - u[slot, 1, a]
                best = value if value > best else best
        total += best
    return total


@kernel
def fit_edges(slots, child, parent, tables, table_of, r, q):
    """Edge marginals that agree with r and score best, into q; return the mass left unplaced."""
    missing = 0.0
    for slot in slots:
        missing += transport(tables[table_of[slot]], r[child[slot]], r[parent[slot]], q[slot])
    return missing


@kernel
def adjust_edges(slots, child, parent, tables, table_of, r, q):
    """Change edge marginals q as little as need be to agree with r; return the mass left unplaced.

    Rows and columns that are too heavy are scaled down, and what is then missing is put back where
    it scores best.
    """
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
            total = pair[:, a].sum()
            for b in range(k):
                pair[b, a] *= second[a] / total if total > second[a] else 1.0
            need[a] = max(second[a] - pair[:, a].sum(), 0.0)
        for b in range(k):
            left[b] = max(first[b] - pair[b].sum(), 0.0)
        missing += transport(tables[table_of[slot]], left, need, plan)
        for b in range(k):
            for a in range(k):
                pair[b, a] += plan[b, a]
    return missing


@helper
def relaxed_lower(lo, hi, slots, unary, tables, table_of, cost, weight, r, q):
    """What (r, q) secures in the relaxed game; see `game_lower`."""
    k = unary.shape[1]
    total = 0.0
    for i in range(lo, hi):
        least = np.inf
        for a in range(k):
            if unary[i, a] == -np.inf:
                continue
            value = 0.0
            for b in range(k):
                value += cost[a, b] * r[i, b]
            least = value if value < least else least
        if weight[i] != 0.0:
            total += weight[i] * least
        for b in range(k):
            if r[i, b] != 0.0:
                total += r[i, b] * unary[i, b]
    for slot in slots:
        table = tables[table_of[slot]]
        for b in range(k):
            for a in range(k):
                if q[slot, b, a] != 0.0:
                    total += q[slot, b, a] * table[b, a]
    return total


@helper
def _degrees(lo, hi, slots, child, parent, degree):
    for i in range(lo, hi):
        degree[i] = 0
    for slot in slots:
        degree[child[slot]] += 1
        degree[parent[slot]] += 1


@helper
def _spread(slots, tables, table_of):
    """Mean range of the pairwise scores: the size that multipliers will have."""
    total = 0.0
    for slot in slots:
        low, high = np.inf, -np.inf
        table = tables[table_of[slot]]
        for b in range(table.shape[0]):
            for a in range(table.shape[1]):
                if table[b, a] > -np.inf:
                    low = min(low, table[b, a])
                    high = max(high, table[b, a])
        if high > low:
            total += high - low
    return total / max(len(slots), 1)


@helper
def _largest(slots, tables, table_of):
    """The largest size of a pairwise score."""
    largest = 0.0
    for slot in slots:
        table = tables[table_of[slot]]
        for b in range(table.shape[0]):
            for a in range(table.shape[1]):
                if largest < abs(table[b, a]) < np.inf:
                    largest = abs(table[b, a])
    return largest


@helper
def _step(
    lo, hi, slots, child, parent, unary, tables, table_of, cost, weight, row_sum, column_sum,
    degree, size, p, u, r, q, gain, new_r, new_q, flat, shift,
):  # fmt: skip
    """One step of the adversary against (p, u), then of (p, u) against where it is heading.

    size: how large multipliers are beside masses; it balances the two sides. new_r and new_q hold
    2 new - old on return.
    """
    k = unary.shape[1]
    _node_gains(lo, hi, slots, child, parent, unary, cost, weight, p, u, gain)
    for i in range(lo, hi):
        step = 1.0 / (size * degree[i] + weight[i] * column_sum + 1e-300)
        for b in range(k):
            shift[b] = r[i, b] + step * gain[i, b]
        project_simplex(shift, new_r[i])
        for b in range(k):
            moved = new_r[i, b]
            new_r[i, b] = 2.0 * moved - r[i, b]
            r[i, b] = moved
    step = 0.5 / size
    for slot in slots:
        table = tables[table_of[slot]]
        mass = q[slot].reshape(k * k)
        for b in range(k):
            for a in range(k):
                score = table[b, a] - u[slot, 0, b] - u[slot, 1, a]
                flat[b * k + a] = mass[b * k + a] + step * score
        ahead = new_q[slot].reshape(k * k)
        project_simplex(flat, ahead)
        for code in range(k * k):
            moved = ahead[code]
            ahead[code] = 2.0 * moved - mass[code]
            mass[code] = moved
    step = size / (1.0 + k)
    for slot in slots:
        i, j = child[slot], parent[slot]
        for b in range(k):
            first, second = new_r[i, b], new_r[j, b]
            for a in range(k):
                first -= new_q[slot, b, a]
                second -= new_q[slot, a, b]
            u[slot, 0, b] -= step * first
            u[slot, 1, b] -= step * second
    if row_sum > 0.0:
        for i in range(lo, hi):
            for a in range(k):
                loss = 0.0
                for b in range(k):
                    loss += cost[a, b] * new_r[i, b]
                shift[a] = p[i, a] - loss / row_sum if unary[i, a] > -np.inf else -np.inf
            project_simplex(shift, p[i])


@kernel
def solve_relaxed(
    first, last, offsets, chord_offsets, child, parent, unary, tables, table_of, cost, weight,
    allowed, max_iter, check_every, p, r, q, u, lower, upper, n_iter,
):  # fmt: skip
    """Relaxed games of samples first .. last-1, to a gap of allowed[s].

    p, r (N, k), q (slots, k, k) and u (slots, 2, k), in: where to start, out: the best found, q
    fitted to r. lower, upper (S,): bounds on the relaxed game, out; lower is -inf where forbidden
    pairs kept edges from being fitted, and r and q are then those of the last step.
    """
    n, k = unary.shape
    row_sum = np.abs(cost - cost.min()).sum(axis=1).max()
    column_sum = np.abs(cost - cost.min()).sum(axis=0).max()
    gain = np.empty((n, k))
    new_r, mean_r, sum_r = np.empty((n, k)), np.empty((n, k)), np.empty((n, k))
    best_r, best_p, mean_p, sum_p = (
        np.empty((n, k)), np.empty((n, k)), np.empty((n, k)), np.empty((n, k)),
    )  # fmt: skip
    new_q, sum_q, fitted = np.empty_like(q), np.empty_like(q), np.zeros_like(q)
    sum_u, mean_u, best_u = np.empty_like(u), np.empty_like(u), np.empty_like(u)
    start_r, start_q, start_u = np.empty((n, k)), np.empty_like(q), np.empty_like(u)
    degree = np.zeros(n, np.intp)
    every = np.empty(len(parent), np.intp)
    flat = np.empty(k * k)
    shift = np.empty(k)
    for s in range(first, last):
        lo, hi = offsets[s], offsets[s + 1]
        slots = every[: edges_of_sample(s, offsets, chord_offsets, parent, every)]
        _degrees(lo, hi, slots, child, parent, degree)
        size = _spread(slots, tables, table_of) + 1e-3 * weight[lo:hi].max() * np.ptp(cost) + 1e-12
        largest = _largest(slots, tables, table_of)
        lower[s], upper[s] = -np.inf, np.inf
        best_p[lo:hi] = p[lo:hi]
        for slot in slots:
            best_u[slot] = u[slot]
        n_iter[s] = 0
        since, last_gap = 0, np.inf
        start_r[lo:hi] = r[lo:hi]
        for slot in slots:
            start_q[slot] = q[slot]
            start_u[slot] = u[slot]
        for t in range(max_iter + 1):
            if t % check_every == 0 or t == max_iter:
                for candidate in range(2):
                    if candidate == 1 and since == 0:
                        continue
                    for i in range(lo, hi):
                        for b in range(k):
                            mean_r[i, b] = r[i, b] if candidate == 0 else sum_r[i, b] / since
                            mean_p[i, b] = p[i, b] if candidate == 0 else sum_p[i, b] / since
                    for slot in slots:
                        for b in range(k):
                            for x in range(2):
                                mean_u[slot, x, b] = (
                                    u[slot, x, b] if candidate == 0 else sum_u[slot, x, b] / since
                                )
                    value = relaxed_upper(
                        lo, hi, slots, child, parent, unary, tables, table_of, cost, weight,
                        mean_p, mean_u, gain,
                    )  # fmt: skip
                    if value < upper[s]:
                        upper[s] = value
                        best_p[lo:hi] = mean_p[lo:hi]
                        for slot in slots:
                            best_u[slot] = mean_u[slot]
                    missing = fit_edges(slots, child, parent, tables, table_of, mean_r, fitted)
                    value = -np.inf
                    if missing <= PLACED:
                        # Wherever the mass that rounding left over went, it could cost no more.
                        value = (
                            relaxed_lower(
                                lo, hi, slots, unary, tables, table_of, cost, weight, mean_r, fitted
                            )
                            - missing * largest
                        )
                    if value > lower[s]:
                        lower[s] = value
                        best_r[lo:hi] = mean_r[lo:hi]
                gap = upper[s] - lower[s]
                n_iter[s] = t
                if gap <= allowed[s]:
                    break
                if since > 0 and (gap <= 0.5 * last_gap or since >= 0.4 * t):
                    # Restart from the averages; balance the sides by how far each has moved.
                    far_dual, far_primal = 0.0, 0.0
                    for i in range(lo, hi):
                        for b in range(k):
                            r[i, b] = sum_r[i, b] / since
                            p[i, b] = sum_p[i, b] / since
                            far_primal += (r[i, b] - start_r[i, b]) ** 2
                    for slot in slots:
                        for b in range(k):
                            for a in range(k):
                                q[slot, b, a] = sum_q[slot, b, a] / since
                                far_primal += (q[slot, b, a] - start_q[slot, b, a]) ** 2
                            for x in range(2):
                                u[slot, x, b] = sum_u[slot, x, b] / since
                                far_dual += (u[slot, x, b] - start_u[slot, x, b]) ** 2
                    if far_primal > 1e-20 and far_dual > 1e-20:
                        size = np.sqrt(size * np.sqrt(far_dual / far_primal))
                    start_r[lo:hi] = r[lo:hi]
                    for slot in slots:
                        start_q[slot] = q[slot]
                        start_u[slot] = u[slot]
                    since, last_gap = 0, gap
            if since == 0:
                for i in range(lo, hi):
                    sum_r[i] = 0.0
                    sum_p[i] = 0.0
                for slot in slots:
                    sum_q[slot] = 0.0
                    sum_u[slot] = 0.0
            _step(
                lo, hi, slots, child, parent, unary, tables, table_of, cost, weight, row_sum,
                column_sum, degree, size, p, u, r, q, gain, new_r, new_q, flat, shift,
            )  # fmt: skip
            since += 1
            for i in range(lo, hi):
                for b in range(k):
                    sum_r[i, b] += r[i, b]
                    sum_p[i, b] += p[i, b]
            for slot in slots:
                for b in range(k):
                    for a in range(k):
                        sum_q[slot, b, a] += q[slot, b, a]
                    for x in range(2):
                        sum_u[slot, x, b] += u[slot, x, b]
        p[lo:hi] = best_p[lo:hi]
        for slot in slots:
            u[slot] = best_u[slot]
        if lower[s] > -np.inf:
            r[lo:hi] = best_r[lo:hi]
            fit_edges(slots, child, parent, tables, table_of, r, q)


@helper
def _grow_forest(lo, hi, begin, place, incident, child, parent, group, order, up):
    """Nodes that induce a forest, taken in turn from ``begin`` on; return how many.

    order (n,), out: the nodes, parents before children; up (n,), out: the slot towards the parent
    in the forest, or -1. group (N,) is scratch; -1 for nodes left out.
    """
    n = hi - lo
    for i in range(lo, hi):
        group[i] = -1
    for turn in range(n):
        i = lo + (begin + turn) % n
        fits = True
        for at in range(place[i], place[i + 1]):
            j = child[incident[at]] + parent[incident[at]] - i
            if group[j] >= 0:
                root = find_root(group, j)
                for before in range(place[i], at):
                    other = child[incident[before]] + parent[incident[before]] - i
                    if group[other] >= 0 and find_root(group, other) == root:
                        fits = False
        if fits:
            group[i] = i
            for at in range(place[i], place[i + 1]):
                j = child[incident[at]] + parent[incident[at]] - i
                if group[j] >= 0:
                    group[find_root(group, j)] = i
    found = 0
    done = 0
    seen = np.zeros(n, np.bool_)
    for start in range(lo, hi):
        if group[start] < 0 or seen[start - lo]:
            continue
        order[found] = start
        up[found] = -1
        seen[start - lo] = True
        found += 1
        while done < found:
            i = order[done]
            done += 1
            for at in range(place[i], place[i + 1]):
                j = child[incident[at]] + parent[incident[at]] - i
                if group[j] >= 0 and not seen[j - lo]:
                    seen[j - lo] = True
                    order[found] = j
                    up[found] = incident[at]
                    found += 1
    return found


@helper
def _best_on_forest(
    n_inside, order, up, place, incident, child, parent, unary, tables, table_of, group, value,
    labels,
):  # fmt: skip
    """Relabel a forest as well as the labels of all other nodes allow; value (N, k) is scratch."""
    k = unary.shape[1]
    for x in range(n_inside):
        i = order[x]
        for b in range(k):
            value[i, b] = unary[i, b]
        for at in range(place[i], place[i + 1]):
            slot = incident[at]
            j = child[slot] + parent[slot] - i
            if group[j] < 0:
                for b in range(k):
                    first, second = (b, labels[j]) if child[slot] == i else (labels[j], b)
                    value[i, b] += tables[table_of[slot], first, second]
    for x in range(n_inside - 1, -1, -1):
        slot = up[x]
        if slot < 0:
            continue
        i = order[x]
        j = child[slot] + parent[slot] - i
        table = tables[table_of[slot]]
        for a in range(k):
            best = -np.inf
            for b in range(k):
                score = value[i, b] + (table[b, a] if child[slot] == i else table[a, b])
                best = score if score > best else best
            value[j, a] += best
    for x in range(n_inside):
        i = order[x]
        slot = up[x]
        best = -np.inf
        choice = 0
        for b in range(k):
            score = value[i, b]
            if slot >= 0:
                j = child[slot] + parent[slot] - i
                table = tables[table_of[slot]]
                score += table[b, labels[j]] if child[slot] == i else table[labels[j], b]
            if score > best:
                best = score
                choice = b
        labels[i] = choice


@helper
def _total(lo, hi, slots, child, parent, unary, tables, table_of, labels):
    total = 0.0
    for i in range(lo, hi):
        total += unary[i, labels[i]]
    for slot in slots:
        total += tables[table_of[slot], labels[child[slot]], labels[parent[slot]]]
    return total


@kernel
def round_labels(
    first, last, offsets, chord_offsets, child, parent, unary, tables, table_of, u, labels, values
):
    """Labellings from multipliers, node by node, then improved node by node and by forests.

    A node takes the label that is best given the labels of its neighbours decided before and the
    multipliers towards the others, from the first node to the last or the other way round, what is
    better. Then forests inside the graph are relabelled exactly, all else being fixed, until this
    gains no more. labels (N,), values (S,): their scores, out.
    """
    n, k = unary.shape
    score = np.empty(k)
    value = np.empty((n, k))
    trial, group, order, up = (
        np.empty(n, np.intp), np.empty(n, np.intp), np.empty(n, np.intp), np.empty(n, np.intp),
    )  # fmt: skip
    every = np.empty(len(parent), np.intp)
    place = np.empty(n + 1, np.intp)
    for s in range(first, last):
        lo, hi = offsets[s], offsets[s + 1]
        slots = every[: edges_of_sample(s, offsets, chord_offsets, parent, every)]
        # The edges of each node, one node after the other.
        for i in range(lo, hi + 1):
            place[i] = 0
        for slot in slots:
            place[child[slot] + 1] += 1
            place[parent[slot] + 1] += 1
        for i in range(lo, hi):
            place[i + 1] += place[i]
        fill = place[lo:hi].copy()
        incident = np.empty(2 * len(slots), np.intp)
        for slot in slots:
            for i in (child[slot], parent[slot]):
                incident[fill[i - lo]] = slot
                fill[i - lo] += 1
        values[s] = -np.inf
        for direction in range(2):
            trial[lo:hi] = -1
            for _ in range(100):
                changed = False
                for turn in range(hi - lo):
                    i = lo + turn if direction == 0 else hi - 1 - turn
                    for b in range(k):
                        score[b] = unary[i, b]
                    for at in range(place[i], place[i + 1]):
                        slot = incident[at]
                        table = tables[table_of[slot]]
                        side = 0 if child[slot] == i else 1
                        other = trial[parent[slot] if side == 0 else child[slot]]
                        for b in range(k):
                            if other < 0:
                                score[b] += u[slot, side, b]
                            else:
                                score[b] += table[b, other] if side == 0 else table[other, b]
                    choice = np.argmax(score)
                    if trial[i] < 0 or score[choice] > score[trial[i]]:
                        changed = changed or trial[i] != choice
                        trial[i] = choice
                if not changed:
                    break
            total = _total(lo, hi, slots, child, parent, unary, tables, table_of, trial)
            if direction == 0 or total > values[s]:
                values[s] = total
                labels[lo:hi] = trial[lo:hi]
        idle = 0
        for turn in range(50):
            begin = turn * 31 % (hi - lo)
            inside = _grow_forest(lo, hi, begin, place, incident, child, parent, group, order, up)
            _best_on_forest(
                inside, order, up, place, incident, child, parent, unary, tables, table_of, group,
                value, labels,
            )  # fmt: skip
            total = _total(lo, hi, slots, child, parent, unary, tables, table_of, labels)
            idle = 0 if total > values[s] + 1e-12 * abs(total) else idle + 1
            values[s] = max(values[s], total)
            if idle == 8:
                break
