"""Sum-product on forests: log-partition, node and edge marginals, in one sweep up and one down.

Messages are sums of products of exponentials taken relative to their largest term, with the
exponentials of unary scores and tables computed beforehand, all at once. Where such a sum falls
below TINY, terms that matter may have underflowed: the sample is then done once more with messages
as logarithms, and entries that are still too small in log space. So the result is exact at any
scale of the scores, almost always at the price of one logarithm per node.
"""

import numpy as np

from robustruct.core.structs import Messages
from robustruct.kernels._jit import helper, kernel, part

TINY = 1e-200  # lost terms are below 1e-307, hence negligible against any sum above this
FAINT = 1e-50  # a largest product above this loses no term above 1e-257


@helper
def messages_up(lo, hi, parent, scores, exp_tables, table_top, messages):
    """Messages from children to parents for nodes lo <= i < hi, into ``messages``."""
    unary, tables, table_of = scores.unary, scores.tables, scores.table_of
    inside, relative, total = messages.inside, messages.relative, messages.total
    message = messages.message
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
            relative[node, b] = np.exp(inside[node, b] - top) if top > -np.inf else 0.0
        if parent[i] < 0:
            continue
        sums = total[node]
        for a in range(k):
            sums[a] = 0.0
        exp_table = exp_tables[table_of[i]]
        for b in range(k):
            share = relative[node, b]
            if share > 0.0:
                row = exp_table[b]
                for a in range(k):
                    sums[a] += share * row[a]
        shift = top + table_top[table_of[i]]
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
def edge_marginal(r_above, node, messages, table, exp_table, out):
    """out[b, a] = r_above[a] P(child = b | parent = a), the marginal of one edge."""
    inside, relative, total = messages.inside[node], messages.relative[node], messages.total[node]
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
        here = relative[b]
        row = exp_table[b]
        to = out[b]
        for a in range(k):
            to[a] = here * row[a] * share[a]
    if exact:
        for a in range(k):
            if total[a] < 0.0 and r_above[a] > 0.0:
                _conditional(inside, table, a, r_above[a], out)


@helper
def _conditional(inside, table, a, mass, out):
    """out[:, a] = mass P(child | parent = a), in log space.

    Relative to the largest term: beside scores of 1e17 a logarithm of the sum would be lost.
    """
    top = -np.inf
    for b in range(len(inside)):
        top = max(top, inside[b] + table[b, a])
    total = 0.0
    for b in range(len(inside)):
        out[b, a] = np.exp(inside[b] + table[b, a] - top)
        total += out[b, a]
    for b in range(len(inside)):
        out[b, a] *= mass / total


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
def _spread(relative, exp_table, share, factor, r, sums):
    """r[b] = Σ_a relative[b] exp_table[b, a] share[a], and its terms times factor added to sums.

    Four sums side by side become one vector; unsigned, or numba would allow for negative indices.
    """
    k = len(relative)
    one = np.uint64(1)
    for b in range(k):
        here = relative[b]
        if here == 0.0:
            r[b] = 0.0
            continue
        c = factor * here
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
        r[b] = here * ((m0 + m1) + (m2 + m3))


@helper
def _quick_up(lo, hi, parent, table_of, exponentials, messages, scale):
    """relative and total of `messages_up`, by products alone; False if one became too small.

    scale[i]: logarithm of what relative[i] is to be multiplied by, to be sums over i's subtree.
    """
    exp_unary, exp_tables = exponentials.unary, exponentials.tables
    relative, total = messages.relative, messages.total
    k = exp_unary.shape[1]
    for i in range(lo, hi):
        for b in range(k):
            relative[i - lo, b] = exp_unary[i, b]
        scale[i - lo] = exponentials.top[i]
    for i in range(lo, hi):
        node = i - lo
        largest = 0.0
        for b in range(k):
            largest = relative[node, b] if relative[node, b] > largest else largest
        if not largest >= FAINT:
            return False
        inverse = 1.0 / largest
        for b in range(k):
            relative[node, b] *= inverse
        scale[node] += np.log(largest)
        if parent[i] < 0:
            continue
        sums = total[node]
        for a in range(k):
            sums[a] = 0.0
        exp_table = exp_tables[table_of[i]]
        for b in range(k):
            here = relative[node, b]
            row = exp_table[b]
            for a in range(k):
                sums[a] += here * row[a]
        least = sums[0]
        largest = sums[0]
        for a in range(1, k):
            least = sums[a] if sums[a] < least else least
            largest = sums[a] if sums[a] > largest else largest
        if not least >= TINY:
            return False
        inverse = 1.0 / largest
        above = relative[parent[i] - lo]
        for a in range(k):
            above[a] *= sums[a] * inverse
        scale[parent[i] - lo] += scale[node] + exponentials.table_top[table_of[i]] + np.log(largest)
    return True


@helper
def _root_marginal(relative, scale, r):
    """r of a root; return the log-partition of its tree."""
    mass = 0.0
    for b in range(len(r)):
        mass += relative[b]
    for b in range(len(r)):
        r[b] = relative[b] / mass if mass > 0.0 else 0.0
    return scale + np.log(mass) if mass > 0.0 else -np.inf


@part
def _marginals_below(i, node, above, share, scores, exponentials, messages, joint, gibbs):
    """r of node i, number ``node`` of its sample, and the marginal of the edge to ``above``.

    joint (k, k): scratch, its first row also for the portions of the labels above.
    """
    r, q, table_sums, t = gibbs.r, gibbs.q, gibbs.table_sums, scores.table_of[i]
    k = r.shape[1]
    portion = joint[0]
    if not len(q) and _shares(r[above], messages.total[node], portion):
        relative, table = messages.relative[node], exponentials.tables[t]
        _spread(relative, table, portion, share, r[i], table_sums[t])
        return
    edge_marginal(r[above], node, messages, scores.tables[t], exponentials.tables[t], joint)
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
            table_sums[t, b, a] += share * joint[b, a]


@kernel
def sum_product(first, last, structure, scores, exponentials, share, gibbs):
    """Log-partition and marginals of samples first .. last-1; share (S,) weighs table sums.

    A component whose every labelling is forbidden has marginals 0 and log-partition -inf.
    """
    offsets, parent, table_of = structure.offsets, structure.parent, scores.table_of
    k = scores.unary.shape[1]
    longest = 0
    for s in range(first, last):
        longest = max(longest, offsets[s + 1] - offsets[s])
    room = np.empty((4, longest, k))
    messages = Messages(room[0], room[1], room[2], room[3])
    joint = np.empty((k, k))
    scale = np.empty(longest)
    for s in range(first, last):
        lo, hi = offsets[s], offsets[s + 1]
        quick = _quick_up(lo, hi, parent, table_of, exponentials, messages, scale)
        if not quick:
            exp_tables, table_top = exponentials.tables, exponentials.table_top
            messages_up(lo, hi, parent, scores, exp_tables, table_top, messages)
            for i in range(hi - lo):
                scale[i] = messages.inside[i].max()
        log_z = 0.0
        for i in range(hi - 1, lo - 1, -1):
            if parent[i] < 0:
                log_z += _root_marginal(messages.relative[i - lo], scale[i - lo], gibbs.r[i])
                if len(gibbs.q):
                    for b in range(k):
                        for a in range(k):
                            gibbs.q[i, b, a] = 0.0
            else:
                _marginals_below(
                    i, i - lo, parent[i], share[s], scores, exponentials, messages, joint, gibbs
                )
        gibbs.log_partition[s] = log_z
