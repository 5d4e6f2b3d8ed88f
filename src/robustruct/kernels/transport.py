"""Joint distributions with given margins: the best one (exactly), or a smoothed one (Sinkhorn)."""

import numpy as np

from robustruct.kernels._jit import helper, kernel

_TINY = 1e-15  # mass that rounding leaves behind


@kernel
def transport(gain, supply, demand, plan):
    """Fill plan (k, m) with margins supply (k,) and demand (m,), Σ gain·plan as large as possible.

    Shortest augmenting paths with potentials, O((k + m)^2) each. Pairs with gain -inf are not used;
    return the mass that could not be placed because of them (0 when every pair is allowed).
    """
    k, m = gain.shape
    left = supply.copy()
    need = demand.copy()
    potential = np.zeros(k + m)
    distance = np.empty(k + m)
    previous = np.empty(k + m, np.intp)
    done = np.empty(k + m, np.bool_)
    for b in range(k):
        for a in range(m):
            plan[b, a] = 0.0
    for a in range(m):
        best = -np.inf
        for b in range(k):
            best = max(best, gain[b, a])
        if best > -np.inf:
            potential[k + a] = -best
    # Each path empties a row, fills a column or cancels a pair; the limit is for safety only.
    for _ in range(100 * (k + m)):
        target = _shortest_path(gain, left, need, plan, potential, distance, previous, done)
        if target < 0:
            break
        for x in range(k + m):
            potential[x] += min(distance[x], distance[target])
        _send_along(target, left, need, plan, previous)
    missing = 0.0
    for b in range(k):
        if left[b] > _TINY:
            missing += left[b]
    return missing


@helper
def _shortest_path(gain, left, need, plan, potential, distance, previous, done):
    """Dijkstra from the rows with supply left to a column with need; return it, or -1.

    Rows are nodes 0 .. k-1, columns k .. k+m-1. distance and previous (k+m,), out; done: scratch.
    """
    k, m = gain.shape
    for b in range(k):
        distance[b] = 0.0 if left[b] > _TINY else np.inf
        previous[b] = -1
    for a in range(m):
        distance[k + a] = np.inf
    for x in range(k + m):
        done[x] = False
    while True:
        node = -1
        for x in range(k + m):
            if not done[x] and distance[x] < np.inf and (node < 0 or distance[x] < distance[node]):
                node = x
        if node < 0:
            return -1
        done[node] = True
        if node >= k:
            if need[node - k] > _TINY:
                return node
            for b in range(k):
                if plan[b, node - k] > 0.0 and distance[node] < distance[b]:
                    distance[b] = distance[node]
                    previous[b] = node
        else:
            for a in range(m):
                if gain[node, a] > -np.inf and not done[k + a]:
                    edge = potential[node] - potential[k + a] - gain[node, a]
                    reached = distance[node] + max(edge, 0.0)
                    if reached < distance[k + a]:
                        distance[k + a] = reached
                        previous[k + a] = node


@helper
def _send_along(target, left, need, plan, previous):
    """Move as much mass as the path to the column ``target`` allows."""
    k = len(left)
    amount = need[target - k]
    x = target
    while previous[x] >= 0:
        if x < k:
            amount = min(amount, plan[x, previous[x] - k])
        x = previous[x]
    amount = min(amount, left[x])
    left[x] -= amount
    need[target - k] -= amount
    x = target
    while previous[x] >= 0:
        y = previous[x]
        if x >= k:
            plan[y, x - k] += amount
        else:
            plan[x, y - k] -= amount
            if plan[x, y - k] < _TINY:
                plan[x, y - k] = 0.0
        x = y


@kernel
def sinkhorn(gain, supply, demand, sharpness, n_steps, plan):
    """Entropic transport, then rounded to the exact margins (Altschuler, Weed and Rigollet, 2017).

    The temperature falls to the spread of the finite gains divided by ``sharpness``, ``n_steps``
    scalings at each level. Pairs with gain -inf get no mass, so margins may stay short there.
    """
    k, m = gain.shape
    low = np.inf
    high = -np.inf
    for b in range(k):
        for a in range(m):
            if gain[b, a] > -np.inf:
                low = min(low, gain[b, a])
                high = max(high, gain[b, a])
    row, column, gains = np.zeros(k), np.zeros(m), np.empty(k)
    heat = high - low
    coldest = heat / sharpness
    while heat > 0.0:
        for _ in range(n_steps):
            for b in range(k):
                row[b] = _fit(gain[b], column, heat, supply[b])
            for a in range(m):
                for b in range(k):
                    gains[b] = gain[b, a]
                column[a] = _fit(gains, row, heat, demand[a])
        if heat <= coldest:
            break
        heat = max(0.25 * heat, coldest)
    for b in range(k):
        for a in range(m):
            total = gain[b, a] + row[b] + column[a]
            if heat > 0.0:
                plan[b, a] = np.exp(total / heat) if total > -np.inf else 0.0
            else:
                plan[b, a] = supply[b] * demand[a] if gain[b, a] > -np.inf else 0.0
    for b in range(k):
        total = 0.0
        for a in range(m):
            total += plan[b, a]
        if total > supply[b]:
            for a in range(m):
                plan[b, a] *= supply[b] / total
    for a in range(m):
        column[a] = 0.0
        for b in range(k):
            column[a] += plan[b, a]
        if column[a] > demand[a]:
            for b in range(k):
                plan[b, a] *= demand[a] / column[a]
        column[a] = max(demand[a] - column[a], 0.0)
    missing = 0.0
    for b in range(k):
        row[b] = supply[b]
        for a in range(m):
            row[b] -= plan[b, a]
        row[b] = max(row[b], 0.0)
        missing += row[b]
    if missing > 0.0:
        for b in range(k):
            for a in range(m):
                if gain[b, a] > -np.inf:
                    plan[b, a] += row[b] * column[a] / missing


@helper
def _fit(gain, other, heat, mass):
    """The potential at which Σ exp((gain + other + potential) / heat) = mass."""
    if mass <= 0.0:
        return -np.inf
    top = -np.inf
    for x in range(gain.shape[0]):
        top = max(top, gain[x] + other[x])
    if top == -np.inf:
        return -np.inf
    total = 0.0
    for x in range(gain.shape[0]):
        total += np.exp((gain[x] + other[x] - top) / heat)
    return heat * np.log(mass / total) - top
