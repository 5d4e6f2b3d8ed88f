"""Sum-product on forests: log-partition, node and edge marginals, in one sweep up and one down.

Messages are sums of products of exponentials taken relative to their largest term, with the
exponentials of unary scores and tables computed beforehand, all at once. Where such a sum falls
below TINY, terms that matter may have underflowed: the sample is then done once more with messages
as logarithms, and entries that are still too small in log space. So the result is exact at any
scale of the scores, almost always at the price of one logarithm per node.
"""

import numpy as np

from robustruct.kernels._jit import helper, kernel

TINY = 1e-200  # lost terms are below 1e-307, hence negligible against any sum above this
FAINT = 1e-50  # a largest product above this loses no term above 1e-257


@helper
def messages_up(
    lo, hi, parent, unary, tables, table_of, exp_tables, table_max, inside, weight, total, message
):
    """Messages from children to parents for nodes lo <= i < hi. All outputs are (hi - lo, k).

    inside[i, b]   log-sum over labellings of i's subtree with label b at i
    weight[i, b]   exp(inside[i, b] - max of the row)
    total[i, a]    Σ_b weight[i, b] exp_table[b, a], or -1 where it was too small to trust
    message[i, a]  log Σ_b exp(inside[i, b] + table[b, a])
    """
    k = unary.shape[1]
    for i in range(lo, hi):
        for b in range(k):
            inside[i - lo, b] = unary[i, b]
    for i in range(lo, hi):
        node = i - lo
        top = inside[node, 0]
        for b in range(1, k):
            top = inside[node, b] if inside[node, b] > top else top
        for b in range(k):
            weight[node, b] = np.exp(inside[node, b] - top) if top > -np.inf else 0.0
        if parent[i] < 0:
            continue
        sums = total[node]
        for a in range(k):
            sums[a] = 0.0
        exp_table = exp_tables[table_of[i]]
        for b in range(k):
            w = weight[node, b]
            if w > 0.0:
                row = exp_table[b]
                for a in range(k):
                    sums[a] += w * row[a]
        shift = top + table_max[table_of[i]]
        table = tables[table_of[i]]
        above = inside[parent[i] - lo]
        for a in range(k):
            if sums[a] >= TINY:
                message[node, a] = shift + np.log(sums[a])
            else:
                sums[a] = -1.0
                message[node, a] = _log_sum(inside[node], table, a)
            above[a] += message[node, a]


@helper
def _log_sum(inside, table, a):
    top = -np.inf
    for b in range(inside.shape[0]):
        value = inside[b] + table[b, a]
        top = value if value > top else top
    if top == -np.inf:
        return top
    total = 0.0
    for b in range(inside.shape[0]):
        total += np.exp(inside[b] + table[b, a] - top)
    return top + np.log(total)


@helper
def edge_marginal(r_above, inside, weight, total, message, table, exp_table, out):
    """out[b, a] = r_above[a] P(child = b | parent = a), the marginal of one edge."""
    k = r_above.shape[0]
    share = np.empty(k)
    exact = False
    for a in range(k):
        if total[a] > 0.0:
            share[a] = r_above[a] / total[a]
        else:
            share[a] = 0.0
            exact = exact or r_above[a] > 0.0
    for b in range(k):
        w = weight[b]
        row = exp_table[b]
        to = out[b]
        for a in range(k):
            to[a] = w * row[a] * share[a]
    if exact:
        for a in range(k):
            if total[a] < 0.0 and r_above[a] > 0.0:
                for b in range(k):
                    out[b, a] = r_above[a] * np.exp(inside[b] + table[b, a] - message[a])


@helper
def _shares(r_above, total, share):
    """share[a] = r_above[a] / total[a]; False if a total that matters was too small to trust."""
    trusted = True
    for a in range(len(share)):
        if total[a] > 0.0:
            share[a] = r_above[a] / total[a]
        else:
            share[a] = 0.0
            trusted = trusted and r_above[a] <= 0.0
    return trusted


@helper
def _spread(weight, exp_table, share, factor, r, sums):
    """r[b] = Σ_a weight[b] exp_table[b, a] share[a], and its terms times factor added to sums.

    Four sums side by side become one vector; unsigned, or numba would allow for negative indices.
    """
    k = len(weight)
    one = np.uint64(1)
    for b in range(k):
        w = weight[b]
        if w == 0.0:
            r[b] = 0.0
            continue
        c = factor * w
        row = exp_table[b]
        to = sums[b]
        for a in range(k):
            to[a] += c * row[a] * share[a]
        m0 = m1 = m2 = m3 = 0.0
        for start in range(0, k - 3, 4):
            a0 = np.uint64(start)
            a1 = a0 + one
            a2 = a1 + one
            a3 = a2 + one
            m0, m1, m2, m3 = (
                m0 + row[a0] * share[a0],
                m1 + row[a1] * share[a1],
                m2 + row[a2] * share[a2],
                m3 + row[a3] * share[a3],
            )
        for a in range(k - k % 4, k):
            m0 += row[a] * share[a]
        r[b] = w * ((m0 + m1) + (m2 + m3))


@helper
def _quick_up(
    lo, hi, parent, exp_unary, top, table_of, exp_tables, table_max, weight, total, scale
):  # fmt: skip
    """weight and total as in `messages_up`, by products alone; False if something became too small.

    scale[i]: logarithm of what weight[i] is to be multiplied by, to be sums over i's subtree.
    """
    k = exp_unary.shape[1]
    for i in range(lo, hi):
        for b in range(k):
            weight[i - lo, b] = exp_unary[i, b]
        scale[i - lo] = top[i]
    for i in range(lo, hi):
        node = i - lo
        largest = 0.0
        for b in range(k):
            largest = weight[node, b] if weight[node, b] > largest else largest
        if not largest >= FAINT:
            return False
        inverse = 1.0 / largest
        for b in range(k):
            weight[node, b] *= inverse
        scale[node] += np.log(largest)
        if parent[i] < 0:
            continue
        sums = total[node]
        for a in range(k):
            sums[a] = 0.0
        exp_table = exp_tables[table_of[i]]
        for b in range(k):
            w = weight[node, b]
            row = exp_table[b]
            for a in range(k):
                sums[a] += w * row[a]
        least = sums[0]
        largest = sums[0]
        for a in range(1, k):
            least = sums[a] if sums[a] < least else least
            largest = sums[a] if sums[a] > largest else largest
        if not least >= TINY:
            return False
        inverse = 1.0 / largest
        above = weight[parent[i] - lo]
        for a in range(k):
            above[a] *= sums[a] * inverse
        scale[parent[i] - lo] += scale[node] + table_max[table_of[i]] + np.log(largest)
    return True


@kernel
def sum_product(
    first, last, offsets, parent, unary, exp_unary, top, tables, table_of, exp_tables, table_max,
    log_partition, r, q, share, table_sums,
):  # fmt: skip
    """Log-partition (S,) and marginals of samples first .. last-1.

    exp_unary (N, k) and top (N,): unary scores are top + log exp_unary, whose largest is 1.

    r (N, k) node marginals. q (N, k, k) edge marginals [child, parent], zero at roots, or of length
    0 when not wanted. table_sums (T, k, k): the edge marginals added up by table, each sample's
    times share[s].
    A component whose every labelling is forbidden has marginals 0 and log-partition -inf.
    """
    k = unary.shape[1]
    longest = 0
    for s in range(first, last):
        longest = max(longest, offsets[s + 1] - offsets[s])
    inside = np.empty((longest, k))
    weight = np.empty((longest, k))
    total = np.empty((longest, k))
    message = np.empty((longest, k))
    joint = np.empty((k, k))
    portion = np.empty(k)
    scale = np.empty(longest)
    for s in range(first, last):
        lo, hi = offsets[s], offsets[s + 1]
        quick = _quick_up(
            lo, hi, parent, exp_unary, top, table_of, exp_tables, table_max, weight, total, scale
        )
        if not quick:
            messages_up(
                lo, hi, parent, unary, tables, table_of, exp_tables, table_max,
                inside, weight, total, message,
            )  # fmt: skip
        log_z = 0.0
        for i in range(hi - 1, lo - 1, -1):
            node = i - lo
            if parent[i] < 0:
                mass = 0.0
                for b in range(k):
                    mass += weight[node, b]
                size = scale[node] if quick else inside[node].max()
                log_z += size + np.log(mass) if mass > 0.0 else -np.inf
                for b in range(k):
                    r[i, b] = weight[node, b] / mass if mass > 0.0 else 0.0
                    if len(q):
                        for a in range(k):
                            q[i, b, a] = 0.0
                continue
            t = table_of[i]
            if not len(q) and _shares(r[parent[i]], total[node], portion):
                _spread(weight[node], exp_tables[t], portion, share[s], r[i], table_sums[t])
                continue
            edge_marginal(
                r[parent[i]], inside[node], weight[node], total[node], message[node],
                tables[t], exp_tables[t], joint,
            )  # fmt: skip
            for b in range(k):
                mass = 0.0
                for a in range(k):
                    mass += joint[b, a]
                r[i, b] = mass
            if len(q):
                for b in range(k):
                    for a in range(k):
                        q[i, b, a] = joint[b, a]
            for b in range(k):
                for a in range(k):
                    table_sums[t, b, a] += share[s] * joint[b, a]
        log_partition[s] = log_z
