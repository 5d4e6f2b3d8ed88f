"""The predictor beside its centre: p minimises p'L r + Σ_a mu_a (p_a - p0_a)² / 2.

mu       (k,), and inv_mu (k,) 1 / mu_a; zeros of inv_mu hold the predictor at its centre
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
def largest_difference(v, w):
    """The largest entry of v - w, as `largest` finds that of v."""
    n = len(v)
    m0 = m1 = m2 = m3 = v[0] - w[0]
    for a in range(0, n - 3, 4):
        d0, d1, d2, d3 = v[a] - w[a], v[a + 1] - w[a + 1], v[a + 2] - w[a + 2], v[a + 3] - w[a + 3]
        m0 = d0 if d0 > m0 else m0
        m1 = d1 if d1 > m1 else m1
        m2 = d2 if d2 > m2 else m2
        m3 = d3 if d3 > m3 else m3
    for a in range(n - n % 4, n):
        d0 = v[a] - w[a]
        m0 = d0 if d0 > m0 else m0
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
def answer(p0, expected, mu, inv_mu, out):
    """out = p of one node, given L r; out may be p0.

    p_a = max(0, mu_a p0_a - (L r)_a - t) / mu_a, by Newton on t from below. Where L r is infinite
    p is 0. Where one label is left its p is 1 to the last bit, which `stays` looks for.
    """
    for a in range(len(p0)):
        out[a] = mu[a] * p0[a] - expected[a]
    threshold = largest_difference(out, mu)
    above = 0
    for _ in range(len(p0) + 1):
        excess = -1.0
        slope = 0.0
        above = 0
        for a in range(len(p0)):
            if out[a] > threshold:
                excess += inv_mu[a] * (out[a] - threshold)
                slope += inv_mu[a]
                above += 1
        if excess <= 1e-15 * above:
            break
        threshold += excess / slope
    for a in range(len(p0)):
        share = 1.0 if above == 1 else inv_mu[a] * (out[a] - threshold)
        out[a] = share if out[a] > threshold else 0.0


@helper
def stays(p0, expected, lowest):
    """The label that the predictor plays at its centre and goes on to play, -1 if it will move.

    A label with p0 = 1 and the ``lowest`` cost: `answer` is p0. So it is on most nodes soon.
    """
    for a in range(len(p0)):
        if p0[a] == 1.0:
            return a if expected[a] == lowest else -1
    return -1


@kernel
def move_centres(lo, hi, predictor, rules, r):
    """The centres p0 of nodes lo .. hi-1 go to where the predictor is."""
    p0 = predictor.centre
    expected = np.empty(p0.shape[1])
    for i in range(lo, hi):
        expected_cost(r[i], predictor.cost_t, rules.unary_mask[rules.node_kind[i]], expected)
        if stays(p0[i], expected, least(expected)) < 0:
            answer(p0[i], expected, predictor.mu, predictor.inv_mu, p0[i])
