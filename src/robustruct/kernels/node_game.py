"""The game on a single node: max over r, min over p of scores·r + weight p' cost r, exactly.

Closed forms where the cost has one (see game/single_node.py for how it is recognised), else the
simplex method on the k x k matrix game. Labels with score -inf are never played; at least one score
is finite. The predictor answers with labels whose ``mask`` (k,) is not -inf; at least all labels
that have a score are among them. All kernels write p (k,) and r (k,) and return the value.
"""

import numpy as np

from robustruct.core.structs import NodeScratch, Support
from robustruct.kernels._jit import helper, kernel

ZERO_ONE, ABSOLUTE, SQUARED, ANY = 0, 1, 2, 3


@helper
def node_scratch(k):
    """Memory for `node_equilibrium`."""
    labels = np.empty((4, k), np.intp)
    for b in range(k):
        labels[3, b] = b
    square = np.empty((k, k + 1))
    return NodeScratch(np.empty((3, k)), np.empty((k, k)), np.empty((k + 1, k + 1)), square, labels)


@helper
def node_equilibrium(form, weight, scores, mask, p, r, support, scratch):
    """Equilibrium of one node for any kind of cost.

    cost[a, b] is ``offset[b]`` plus: unit where a != b (ZERO_ONE), |place[a] - place[b]|
    (ABSOLUTE), its square (SQUARED), or anything (ANY). support, in and out, is used by ANY only.
    """
    kind, place, unit, offset = form.kind, form.place, form.unit, form.offset
    k = scores.shape[0]
    line, spare, labels = scratch.lines[0], scratch.lines[1], scratch.labels
    best = 0
    for b in range(k):
        line[b] = scores[b] + weight * offset[b]
        if line[b] > line[best]:
            best = b
        p[b] = 0.0
        r[b] = 0.0
    if weight == 0.0 or (kind == ZERO_ONE and unit == 0.0):
        r[best] = 1.0
        _spread(mask, p)
        return line[best]
    if kind == ZERO_ONE:
        return _zero_one(line, weight * unit, p, r, spare)
    if kind == ABSOLUTE:
        return _absolute(line, weight, place, mask, p, r)
    if kind == SQUARED:
        return _squared(line, weight, place, form.order, mask, p, r, spare, labels[0], labels[1])
    return _any(scores, weight, form.cost, mask, p, r, support, scratch)


@helper
def _spread(mask, p):
    """p even over the labels that the predictor may answer with."""
    n = 0
    for a in range(len(p)):
        n += mask[a] > -np.inf
    for a in range(len(p)):
        p[a] = 1.0 / n if mask[a] > -np.inf else 0.0


@helper
def _zero_one(a, w, p, r, ranked):
    """V = max over m of (sum of the m largest a + w (m - 1)) / m; r is even on those m labels."""
    k = a.shape[0]
    for b in range(k):
        ranked[b] = a[b]
    _sort_descending(ranked)
    total = 0.0
    value = -np.inf
    size = 1
    for m in range(1, k + 1):
        if ranked[m - 1] == -np.inf:
            break
        total += ranked[m - 1]
        candidate = (total + w * (m - 1)) / m
        if candidate > value:
            value = candidate
            size = m
    least = ranked[size - 1]
    left = size
    for b in range(k):
        if a[b] > least:
            r[b] = 1.0 / size
            left -= 1
    mass = 0.0
    for b in range(k):
        if a[b] == least and left > 0:
            r[b] = 1.0 / size
            left -= 1
        # The label is worth the value, and no more, once it is predicted this often.
        p[b] = max(0.0, 1.0 + (a[b] - value) / w)
        mass += p[b]
    for b in range(k):
        p[b] /= mass
    return value


@helper
def _sort_descending(x):
    """Heap sort: in place, O(k log k), and quick to compile."""
    n = x.shape[0]
    start = n // 2
    end = n
    while end > 1:
        if start > 0:
            start -= 1
        else:
            end -= 1
            x[0], x[end] = x[end], x[0]
        root = start
        while 2 * root + 1 < end:
            child = 2 * root + 1
            if child + 1 < end and x[child + 1] < x[child]:
                child += 1
            if x[root] <= x[child]:
                break
            x[root], x[child] = x[child], x[root]
            root = child


@helper
def _absolute(a, w, place, mask, p, r):
    """V = max over pairs (i, j) of (a_i + a_j + w |x_j - x_i|) / 2: two separate maxima."""
    k = a.shape[0]
    left = 0
    right = 0
    for b in range(1, k):
        if a[b] - w * place[b] > a[left] - w * place[left]:
            left = b
        if a[b] + w * place[b] > a[right] + w * place[right]:
            right = b
    r[left] += 0.5
    r[right] += 0.5
    # Predicting the point c on average makes both labels worth the value, and no label more.
    c = 0.5 * (place[left] + place[right] + (a[right] - a[left]) / w)
    _around(c, place, mask, p)
    return 0.5 * (a[left] + a[right] + w * abs(place[right] - place[left]))


@helper
def _around(c, place, mask, p):
    """Mass on the two places next to c with mean c (or on the last place before it)."""
    below = -1
    above = -1
    for b in range(place.shape[0]):
        if mask[b] == -np.inf:
            continue
        if place[b] <= c and (below < 0 or place[b] > place[below]):
            below = b
        if place[b] >= c and (above < 0 or place[b] < place[above]):
            above = b
    if below < 0:
        p[above] = 1.0
    elif above < 0 or place[above] == place[below]:
        p[below] = 1.0
    else:
        share = (c - place[below]) / (place[above] - place[below])
        p[above] = share
        p[below] = 1.0 - share


@helper
def _squared(a, w, x, order, mask, p, r, start, hull, stop):
    """A predictor with mean c costs h(c) - 2 c x_b + x_b^2 at label b; h joins the points (x, x^2).

    So the game is a minimum over c alone of w h(c) + max_b (a_b + w x_b^2 - 2 w c x_b): a walk
    along the kinks of h (the places) and of the envelope of lines until the slope turns. A pair of
    labels is enough for either player. start, hull, stop (k,): scratch.
    """
    k = a.shape[0]
    # The envelope from left to right: slopes -2 w x_b increase as x_b falls.
    n_lines = 0
    for at in range(k - 1, -1, -1):
        b = order[at]
        if a[b] == -np.inf:
            continue
        entry = -np.inf
        skip = False
        while n_lines > 0:
            top = hull[n_lines - 1]
            if x[top] == x[b]:
                if a[b] <= a[top]:
                    skip = True
                    break
                n_lines -= 1
                continue
            entry = 0.5 * (x[top] + x[b] + (a[b] - a[top]) / (w * (x[b] - x[top])))
            if entry > start[n_lines - 1]:
                break
            n_lines -= 1
        if skip:
            continue
        start[n_lines] = entry if n_lines > 0 else -np.inf
        hull[n_lines] = b
        n_lines += 1
    n_stops = 0
    for at in range(k):
        if mask[order[at]] == -np.inf:
            continue
        if n_stops == 0 or x[order[at]] > x[stop[n_stops - 1]]:
            stop[n_stops] = order[at]
            n_stops += 1
    t = 0
    j = 0
    here = stop[0]
    while t + 1 < n_lines and start[t + 1] <= x[here]:
        t += 1
    while True:
        here = stop[j]
        b = hull[t]
        if j + 1 == n_stops or x[here] + x[stop[j + 1]] >= 2 * x[b]:
            p[here] = 1.0
            r[b] = 1.0
            break
        ahead = stop[j + 1]
        middle = 0.5 * (x[here] + x[ahead])
        found = False
        while t + 1 < n_lines and start[t + 1] <= x[ahead]:
            b = hull[t]
            other = hull[t + 1]
            if middle >= x[other]:
                r[b] = (middle - x[other]) / (x[b] - x[other])
                r[other] = 1.0 - r[b]
                p[ahead] = min(1.0, max(0.0, (start[t + 1] - x[here]) / (x[ahead] - x[here])))
                p[here] = 1.0 - p[ahead]
                found = True
                break
            t += 1
        if found:
            break
        j += 1
    value = 0.0
    for b in range(k):
        if r[b] > 0.0:
            loss = 0.0
            for c in range(k):
                loss += p[c] * (x[c] - x[b]) ** 2
            value += r[b] * (a[b] + w * loss)
    return value


@helper
def _any(scores, w, cost, mask, p, r, support, scratch):
    """Rows pay columns payoff[a, j] = w cost[a, b] + scores[b], b = kept[j], brought to [1, 2].

    Rows that the predictor may not play pay 3: no equilibrium plays what is dearer than all else.
    """
    lines, payoff, tableau, square, labels = scratch
    rows, columns = support
    k = scores.shape[0]
    y, z, kept = lines[1], lines[2], labels[0]
    n, low, high = _contenders(scores, w, cost, mask, y, z, kept)
    size = high - low
    if not size > 0.0:
        _spread(mask, p)
        r[kept[0] if n > 0 else 0] = 1.0
        return high
    for a in range(k):
        for j in range(n):
            payoff[a, j] = 3.0
            if mask[a] > -np.inf:
                payoff[a, j] = 1.0 + (scores[kept[j]] - low + w * cost[a, kept[j]]) / size
    lower, upper = -np.inf, np.inf
    if _from_support(payoff, n, kept, rows, columns, square, labels, y, z):
        lower, upper = _brackets(payoff, n, y, z)
        _take(y, p)
        _place(z, kept, n, r)
    if not upper - lower <= 1e-13:
        _simplex(payoff, n, kept, tableau, labels, y, z, rows, columns)
        lower, upper = _brackets(payoff, n, y, z)
        _take(y, p)
        _place(z, kept, n, r)
        # The tableau gathers rounding errors; the equations of the final support do not.
        if _from_support(payoff, n, kept, rows, columns, square, labels, y, z):
            new_lower, new_upper = _brackets(payoff, n, y, z)
            if new_upper < upper:
                upper = new_upper
                _take(y, p)
            if new_lower > lower:
                lower = new_lower
                _place(z, kept, n, r)
    return low + size * (0.5 * (lower + upper) - 1.0)


@helper
def _contenders(scores, w, cost, mask, least, most, kept):
    """List the columns worth playing in ``kept``; return how many, and the range of their payoffs.

    What can never earn as much as another label always does is not played. It would also blow up
    the range of the payoffs when scores dwarf the costs. least, most (k,): scratch.
    """
    k = scores.shape[0]
    secure = -np.inf
    for b in range(k):
        least[b] = np.inf
        most[b] = -np.inf
        for a in range(k):
            if mask[a] > -np.inf:
                least[b] = min(least[b], scores[b] + w * cost[a, b])
                most[b] = max(most[b], scores[b] + w * cost[a, b])
        secure = max(secure, least[b])
    n = 0
    low = np.inf
    high = -np.inf
    for b in range(k):
        if most[b] >= secure:
            low = min(low, least[b])
            high = max(high, most[b])
            kept[n] = b
            n += 1
    return n, low, high


@helper
def _take(x, out):
    for i in range(x.shape[0]):
        out[i] = x[i]


@helper
def _place(x, kept, n, out):
    for b in range(out.shape[0]):
        out[b] = 0.0
    for j in range(n):
        out[kept[j]] = x[j]


@helper
def _brackets(payoff, n, p, r):
    """(least payoff that r secures, most payoff that p concedes)."""
    k = payoff.shape[0]
    lower = np.inf
    for a in range(k):
        value = 0.0
        for j in range(n):
            value += payoff[a, j] * r[j]
        lower = min(lower, value)
    upper = -np.inf
    for j in range(n):
        value = 0.0
        for a in range(k):
            value += payoff[a, j] * p[a]
        upper = max(upper, value)
    return lower, upper


@helper
def _normalise(x, n):
    total = 0.0
    for i in range(n):
        x[i] = max(x[i], 0.0)
        total += x[i]
    if not total > 0.0:
        return False
    for i in range(n):
        x[i] /= total
    return True


@helper
def _marked(flags, label, n, out):
    """The positions j < n with flags[label[j]], in ``out``; return how many."""
    count = 0
    for j in range(n):
        if flags[label[j]]:
            out[count] = j
            count += 1
    return count


@helper
def _from_support(payoff, n, kept, rows, columns, square, labels, p, r):
    """Strategies on the given labels that make the other player's labels equally good."""
    k = payoff.shape[0]
    row, column = labels[1], labels[2]
    m = _marked(rows, labels[3], k, row)
    found = _marked(columns, kept, n, column)
    if m == 0 or m != found:
        return False
    for i in range(m):
        for j in range(m):
            square[i, j] = payoff[row[i], column[j]]
    if not _solve(square, m, column, r, n):
        return False
    for i in range(m):
        for j in range(m):
            square[i, j] = payoff[row[j], column[i]]
    return _solve(square, m, row, p, k)


@helper
def _solve(square, m, at, x, n):
    """x[at] with square x[at] = const and Σ x = 1, zero elsewhere: Gauss with partial pivoting."""
    for j in range(m):
        square[j, m] = 1.0
    for j in range(m):
        pivot = j
        for i in range(j + 1, m):
            if abs(square[i, j]) > abs(square[pivot, j]):
                pivot = i
        if abs(square[pivot, j]) < 1e-14:
            return False
        if pivot != j:
            for c in range(j, m + 1):
                square[j, c], square[pivot, c] = square[pivot, c], square[j, c]
        for i in range(j + 1, m):
            factor = square[i, j] / square[j, j]
            if factor != 0.0:
                for c in range(j + 1, m + 1):
                    square[i, c] -= factor * square[j, c]
    for i in range(n):
        x[i] = 0.0
    for j in range(m - 1, -1, -1):
        value = square[j, m]
        for c in range(j + 1, m):
            value -= square[j, c] * square[c, m]
        square[j, m] = value / square[j, j]
        x[at[j]] = square[j, m]
    return _normalise(x, n)


@helper
def _simplex(payoff, n, kept, tableau, labels, p, r, rows, columns):
    """Matrix game with payoffs >= 1: max Σ y s.t. payoff' y <= 1, y >= 0; p = y V, V = 1 / Σ y.

    Condensed tableau: a row per basic and a column per nonbasic variable; variables 0..k-1 are y,
    k.. the slacks of the adversary's labels. Out: p, r and the labels that carry them.
    """
    k = payoff.shape[0]
    basic, free = labels[1], labels[2]
    for j in range(n):
        basic[j] = k + j
        for a in range(k):
            tableau[j, a] = payoff[a, j]
        tableau[j, k] = 1.0
    for a in range(k):
        free[a] = a
        tableau[n, a] = -1.0
    tableau[n, k] = 0.0
    stalled = 0
    for _ in range(1000 + 100 * (k + n)):
        # Bland's rule cannot cycle, but it is slow: only when nothing moves.
        enter = _entering(tableau, n, k, free, stalled > k + n)
        if enter < 0:
            break
        leave = _leaving(tableau, n, k, basic, enter)
        if leave < 0:
            break
        before = tableau[n, k]
        _pivot(tableau, n + 1, k + 1, leave, enter)
        basic[leave], free[enter] = free[enter], basic[leave]
        stalled = 0 if tableau[n, k] > before else stalled + 1
    for a in range(k):
        p[a] = 0.0
        rows[a] = False
        columns[a] = False
    for j in range(n):
        r[j] = 0.0
    for j in range(n):
        if basic[j] < k:
            p[basic[j]] = tableau[j, k]
            rows[basic[j]] = True
    for a in range(k):
        if free[a] >= k:
            r[free[a] - k] = tableau[n, a]
            columns[kept[free[a] - k]] = True
    _normalise(p, k)
    _normalise(r, n)


@helper
def _entering(tableau, n, k, free, bland):
    enter = -1
    for a in range(k):
        if tableau[n, a] < -1e-12 and (
            enter < 0 or (free[a] < free[enter] if bland else tableau[n, a] < tableau[n, enter])
        ):
            enter = a
    return enter


@helper
def _leaving(tableau, n, k, basic, enter):
    leave = -1
    least = np.inf
    for j in range(n):
        if tableau[j, enter] > 1e-11:
            ratio = tableau[j, k] / tableau[j, enter]
            if ratio < least or (ratio == least and basic[j] < basic[leave]):
                least = ratio
                leave = j
    return leave


@helper
def _pivot(tableau, n_rows, n_columns, leave, enter):
    inverse = 1.0 / tableau[leave, enter]
    for j in range(n_columns):
        if j != enter:
            tableau[leave, j] *= inverse
    for i in range(n_rows):
        if i != leave:
            factor = tableau[i, enter]
            if factor != 0.0:
                for j in range(n_columns):
                    if j != enter:
                        tableau[i, j] -= factor * tableau[leave, j]
            tableau[i, enter] = -factor * inverse
    tableau[leave, enter] = inverse


@kernel
def node_equilibria(form, weight, scores, p, r, value):
    """`node_equilibrium` row by row; the scores are the masks as well.

    scores (n, k), weight (n,); out: p, r (n, k), value (n,).
    """
    k = scores.shape[1]
    scratch = node_scratch(k)
    support = Support(np.zeros(k, np.bool_), np.zeros(k, np.bool_))
    for i in range(scores.shape[0]):
        value[i] = node_equilibrium(
            form, weight[i], scores[i], scores[i], p[i], r[i], support, scratch
        )
