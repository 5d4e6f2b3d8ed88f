"""The game on a single node: max over r, min over p of scores·r + weight p' cost r, exactly.

Closed forms where the cost has one (see game/node_game.py for how it is recognised), otherwise the
simplex method on the k x k matrix game. Labels with score -inf are never played; at least one score
is finite. All kernels write p (k,) and r (k,) and return the value.
"""

import numpy as np

from robustruct.kernels._jit import kernel

ZERO_ONE, ABSOLUTE, SQUARED, ANY = 0, 1, 2, 3


@kernel
def node_scratch(k):
    """Memory for `node_equilibrium`: line (k,), payoff (k, k), tableau (k+1, k+1), square (k, k+2)."""
    return np.empty(k), np.empty((k, k)), np.empty((k + 1, k + 1)), np.empty((k, k + 2))


@kernel
def node_equilibrium(
    kind, place, order, unit, offset, cost, weight, scores, p, r, rows, columns, scratch
):  # fmt: skip
    """Equilibrium of one node for any kind of cost.

    cost[a, b] is ``offset[b]`` plus: unit where a != b (ZERO_ONE), |place[a] - place[b]| (ABSOLUTE),
    its square (SQUARED), or anything (ANY). order (k,) sorts ``place``. rows, columns (k,) bool, in
    and out, used by ANY only: the labels that carried the last equilibrium, tried first.
    """
    k = scores.shape[0]
    line, payoff, tableau, square = scratch
    for b in range(k):
        line[b] = scores[b] + weight * offset[b]
        p[b] = 0.0
        r[b] = 0.0
    best = np.argmax(line)
    if weight == 0.0 or (kind == ZERO_ONE and unit == 0.0):
        r[best] = 1.0
        for b in range(k):
            p[b] = 1.0 / k
        return line[best]
    if kind == ZERO_ONE:
        return _zero_one(line, weight * unit, p, r, payoff[0])
    if kind == ABSOLUTE:
        return _absolute(line, weight, place, p, r)
    if kind == SQUARED:
        return _squared(line, weight, place, order, p, r, payoff[0], rows, square)
    return _any(scores, weight, cost, p, r, rows, columns, payoff, tableau, square)


@kernel
def _zero_one(a, w, p, r, ranked):
    """V = max over m of (sum of the m largest a + w (m - 1)) / m; r is even on those m labels."""
    k = a.shape[0]
    for b in range(k):
        ranked[b] = -a[b]
    ranked.sort()
    total = 0.0
    value = -np.inf
    size = 1
    for m in range(1, k + 1):
        if ranked[m - 1] == np.inf:
            break
        total -= ranked[m - 1]
        candidate = (total + w * (m - 1)) / m
        if candidate > value:
            value = candidate
            size = m
    least = -ranked[size - 1]
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


@kernel
def _absolute(a, w, place, p, r):
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
    _around(c, place, p)
    return 0.5 * (a[left] + a[right] + w * abs(place[right] - place[left]))


@kernel
def _around(c, place, p):
    """Mass on the two places next to c with mean c (or on the last place before it)."""
    below = -1
    above = -1
    for b in range(place.shape[0]):
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


@kernel
def _squared(a, w, x, order, p, r, start, is_stop, square):
    """A predictor with mean c costs h(c) - 2 c x_b + x_b^2 at label b, h interpolating x^2 at the places.

    So the game is a minimum over c alone of w h(c) + max_b (a_b + w x_b^2 - 2 w c x_b): a walk along
    the kinks of h (the places) and of the envelope of lines until the slope turns. A pair of labels
    is enough for either player. start (k,), is_stop (k,), square (k, >= 2): scratch.
    """
    k = a.shape[0]
    hull = square[:, 0]
    # The envelope from left to right: slopes -2 w x_b increase as x_b falls.
    n_lines = 0
    for at in range(k - 1, -1, -1):
        b = order[at]
        if a[b] == -np.inf:
            continue
        entry = -np.inf
        skip = False
        while n_lines > 0:
            top = int(hull[n_lines - 1])
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
    stop = square[:, 1]
    n_stops = 0
    for at in range(k):
        if n_stops == 0 or x[order[at]] > x[int(stop[n_stops - 1])]:
            stop[n_stops] = order[at]
            n_stops += 1
    t = 0
    j = 0
    here = int(stop[0])
    while t + 1 < n_lines and start[t + 1] <= x[here]:
        t += 1
    while True:
        here = int(stop[j])
        b = int(hull[t])
        if j + 1 == n_stops or x[here] + x[int(stop[j + 1])] >= 2 * x[b]:
            p[here] = 1.0
            r[b] = 1.0
            break
        ahead = int(stop[j + 1])
        middle = 0.5 * (x[here] + x[ahead])
        found = False
        while t + 1 < n_lines and start[t + 1] <= x[ahead]:
            b = int(hull[t])
            other = int(hull[t + 1])
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


@kernel
def _any(scores, w, cost, p, r, rows, columns, payoff, tableau, square):
    """Rows pay columns payoff[a, b] = w cost[a, b] + scores[b], brought to the range [1, 2]."""
    k = scores.shape[0]
    secure = -np.inf
    for b in range(k):
        if scores[b] > -np.inf:
            secure = max(secure, scores[b] + w * cost[:, b].min())
    low = np.inf
    high = -np.inf
    n_columns = 0
    # What can never earn as much as another label always does is not played. It would also blow
    # up the range of the payoffs when scores dwarf the costs.
    for b in range(k):
        top = scores[b] + w * cost[:, b].max()
        keep = top >= secure
        if not keep:
            columns[b] = False
        payoff[0, b] = 1.0 if keep else 0.0
        if keep:
            n_columns += 1
            low = min(low, scores[b] + w * cost[:, b].min())
            high = max(high, top)
    kept = np.empty(n_columns, np.intp)
    n_columns = 0
    for b in range(k):
        if payoff[0, b] == 1.0:
            kept[n_columns] = b
            n_columns += 1
    size = high - low
    if not size > 0.0:
        for a in range(k):
            p[a] = 1.0 / k
        r[kept[0]] = 1.0
        return high
    for a in range(k):
        for j in range(n_columns):
            payoff[a, j] = 1.0 + (scores[kept[j]] - low + w * cost[a, kept[j]]) / size
    game = payoff[:, :n_columns]

    y = np.zeros(k)
    z = np.zeros(n_columns)
    chosen = np.zeros(n_columns, np.bool_)
    for j in range(n_columns):
        chosen[j] = columns[kept[j]]
    lower, upper = -np.inf, np.inf
    if _from_support(game, rows, chosen, square, y, z):
        lower, upper = _brackets(game, y, z)
    if not upper - lower <= 1e-13:
        _simplex(game, tableau, y, z, rows, chosen)
        lower, upper = _brackets(game, y, z)
        p[:] = y
        for j in range(n_columns):
            r[kept[j]] = z[j]
        # The tableau gathers rounding errors; the equations of the final support do not.
        if _from_support(game, rows, chosen, square, y, z):
            new_lower, new_upper = _brackets(game, y, z)
            if new_upper < upper:
                upper = new_upper
                p[:] = y
            if new_lower > lower:
                lower = new_lower
                for j in range(n_columns):
                    r[kept[j]] = z[j]
    else:
        p[:] = y
        for j in range(n_columns):
            r[kept[j]] = z[j]
    for b in range(k):
        columns[b] = False
    for j in range(n_columns):
        columns[kept[j]] = chosen[j]
    return low + size * (0.5 * (lower + upper) - 1.0)


@kernel
def _brackets(game, p, r):
    """(least payoff r secures, most payoff p concedes)."""
    lower = np.inf
    for a in range(game.shape[0]):
        value = 0.0
        for b in range(game.shape[1]):
            value += game[a, b] * r[b]
        lower = min(lower, value)
    upper = -np.inf
    for b in range(game.shape[1]):
        value = 0.0
        for a in range(game.shape[0]):
            value += game[a, b] * p[a]
        upper = max(upper, value)
    return lower, upper


@kernel
def _normalise(x):
    total = 0.0
    for i in range(x.shape[0]):
        x[i] = max(x[i], 0.0)
        total += x[i]
    if not total > 0.0:
        return False
    for i in range(x.shape[0]):
        x[i] /= total
    return True


@kernel
def _from_support(game, rows, columns, square, p, r):
    """Strategies on the given labels that make the other player's labels equally good."""
    n = 0
    for a in range(rows.shape[0]):
        n += rows[a]
    m = 0
    for b in range(columns.shape[0]):
        m += columns[b]
    if n == 0 or n != m or n > game.shape[1]:
        return False
    row = np.flatnonzero(rows)
    column = np.flatnonzero(columns)
    for x, transposed in ((r, False), (p, True)):
        for i in range(n):
            for j in range(n):
                square[i, j] = game[row[j], column[i]] if transposed else game[row[i], column[j]]
            square[i, n] = 1.0
        if not _solve(square, n):
            return False
        for i in range(x.shape[0]):
            x[i] = 0.0
        for i in range(n):
            x[row[i] if transposed else column[i]] = square[i, n]
        if not _normalise(x):
            return False
    return True


@kernel
def _solve(square, n):
    """Gauss with partial pivoting on square[:n, :n] x = square[:n, n], in place."""
    for j in range(n):
        pivot = j
        for i in range(j + 1, n):
            if abs(square[i, j]) > abs(square[pivot, j]):
                pivot = i
        if abs(square[pivot, j]) < 1e-14:
            return False
        if pivot != j:
            for c in range(j, n + 1):
                square[j, c], square[pivot, c] = square[pivot, c], square[j, c]
        for i in range(j + 1, n):
            factor = square[i, j] / square[j, j]
            if factor != 0.0:
                for c in range(j + 1, n + 1):
                    square[i, c] -= factor * square[j, c]
    for j in range(n - 1, -1, -1):
        value = square[j, n]
        for c in range(j + 1, n):
            value -= square[j, c] * square[c, n]
        square[j, n] = value / square[j, j]
    return True


@kernel
def _simplex(game, tableau, p, r, rows, columns):
    """Matrix game with payoffs >= 1: max Σ y s.t. game' y <= 1, y >= 0; then p = y V, V = 1 / Σ y.

    Condensed tableau: a row per basic and a column per nonbasic variable; variables 0..m-1 are y,
    m.. the slacks of the adversary's labels. Out: p, r and the labels that carry them.
    """
    m, n = game.shape
    basic = np.arange(m, m + n)
    free = np.arange(m)
    for b in range(n):
        for a in range(m):
            tableau[b, a] = game[a, b]
        tableau[b, m] = 1.0
    for a in range(m):
        tableau[n, a] = -1.0
    tableau[n, m] = 0.0
    stalled = 0
    for _ in range(1000 + 100 * (m + n)):
        bland = stalled > m + n  # it cannot cycle, and it is slow: only when nothing moves
        enter = -1
        for a in range(m):
            if tableau[n, a] < -1e-12 and (
                enter < 0
                or (free[a] < free[enter] if bland else tableau[n, a] < tableau[n, enter])
            ):
                enter = a
        if enter < 0:
            break
        leave = -1
        least = np.inf
        for b in range(n):
            if tableau[b, enter] > 1e-11:
                ratio = tableau[b, m] / tableau[b, enter]
                if ratio < least or (ratio == least and basic[b] < basic[leave]):
                    least = ratio
                    leave = b
        if leave < 0:
            break
        before = tableau[n, m]
        _pivot(tableau, n + 1, m + 1, leave, enter)
        basic[leave], free[enter] = free[enter], basic[leave]
        stalled = 0 if tableau[n, m] > before else stalled + 1
    for a in range(m):
        p[a] = 0.0
        rows[a] = False
    for b in range(n):
        r[b] = 0.0
        columns[b] = False
    for b in range(n):
        if basic[b] < m:
            p[basic[b]] = tableau[b, m]
            rows[basic[b]] = True
    for a in range(m):
        if free[a] >= m:
            r[free[a] - m] = tableau[n, a]
            columns[free[a] - m] = True
    _normalise(p)
    _normalise(r)


@kernel
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
def node_equilibria(kind, place, order, unit, offset, cost, weight, scores, p, r, value):
    """`node_equilibrium` for each row of scores (n, k); weight (n,); p, r (n, k), value (n,), out."""
    k = scores.shape[1]
    scratch = node_scratch(k)
    rows = np.zeros(k, np.bool_)
    columns = np.zeros(k, np.bool_)
    for i in range(scores.shape[0]):
        value[i] = node_equilibrium(
            kind, place, order, unit, offset, cost, weight[i], scores[i], p[i], r[i],
            rows, columns, scratch,
        )  # fmt: skip
