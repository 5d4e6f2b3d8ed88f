"""The predictor beside its centre: p minimises p'L r + Σ_a mu_a (p_a - p0_a)² / 2.

inv_mu   (k,) 1 / mu_a; zeros hold the predictor at its centre
mask     (k,) the predictor answers with labels where it is not -inf
"""

import numpy as np

from robustruct.kernels._jit import helper, kernel


@helper
def largest(v):
    """The largest entry; four at a time, as each comparison has to wait for the one before."""
    n = len(v)
    m0 = m1 = m2 = m3 = v[0]
    for a in range(0, n - 3, 4):
        m0 = v[a] if v[a] > m0 else m0
        m1 = v[a + 1] if v[a + 1] > m1 else m1
        m2 = v[a + 2] if v[a + 2] > m2 else m2
        m3 = v[a + 3] if v[a + 3] > m3 else m3
    for a in range(n - n % 4, n):
        m0 = v[a] if v[a] > m0 else m0
    return max(max(m0, m1), max(m2, m3))


@helper
def least(v):
    """The smallest entry, as `largest` finds the largest."""
    n = len(v)
    m0 = m1 = m2 = m3 = v[0]
    for a in range(0, n - 3, 4):
        m0 = v[a] if v[a] < m0 else m0
        m1 = v[a + 1] if v[a + 1] < m1 else m1
        m2 = v[a + 2] if v[a + 2] < m2 else m2
        m3 = v[a + 3] if v[a + 3] < m3 else m3
    for a in range(n - n % 4, n):
        m0 = v[a] if v[a] < m0 else m0
    return min(min(m0, m1), min(m2, m3))


@helper
def project_simplex(v, out):
    """Euclidean projection of v onto the simplex, by Newton on the threshold from below.

    out may be v. What counts is how far entries are below the largest, which is found to the last
    digit; a threshold beside entries of 1e19 would not be, and all mass be lost.
    """
    top = largest(v)
    threshold = -1.0
    for _ in range(len(v) + 1):
        excess = -1.0
        above = 0
        for a in range(len(v)):
            if v[a] - top > threshold:
                excess += v[a] - top - threshold
                above += 1
        if excess <= 1e-15 * above:
            break
        threshold += excess / above
    for a in range(len(v)):
        out[a] = v[a] - top - threshold if v[a] - top > threshold else 0.0


@helper
def expected_cost(r, cost_t, mask, out):
    """out = L r: what each label costs on average, or infinity under the mask; cost_t is L'."""
    k = len(r)
    for a in range(k):
        out[a] = 0.0 if mask[a] > -np.inf else np.inf
    for b in range(k):
        share = r[b]
        if share != 0.0:
            for a in range(k):
                out[a] += share * cost_t[b, a]


@helper
def answer(p0, expected, inv_mu, out):
    """out = p of one node, given L r; out may be p0.

    p_a = max(0, p0_a - (L r)_a / mu_a - t / mu_a), by Newton on t from below. Where L r is
    infinite p is 0.
    """
    threshold = -np.inf
    for a in range(len(p0)):
        out[a] = p0[a] - inv_mu[a] * expected[a]
        threshold = max(threshold, (out[a] - 1.0) / inv_mu[a])
    for _ in range(len(p0) + 1):
        excess = -1.0
        slope = 0.0
        above = 0
        for a in range(len(p0)):
            left = out[a] - threshold * inv_mu[a]
            if left > 0.0:
                excess += left
                slope += inv_mu[a]
                above += 1
        if excess <= 1e-15 * above:
            break
        threshold += excess / slope
    for a in range(len(p0)):
        out[a] = max(out[a] - threshold * inv_mu[a], 0.0)


@kernel
def move_centres(lo, hi, predictor, rules, r):
    """The centres p0 of nodes lo .. hi-1 go to where the predictor is."""
    p0 = predictor.centre
    expected = np.empty(p0.shape[1])
    for i in range(lo, hi):
        expected_cost(r[i], predictor.cost_t, rules.unary_mask[rules.node_kind[i]], expected)
        answer(p0[i], expected, predictor.inv_mu, p0[i])
