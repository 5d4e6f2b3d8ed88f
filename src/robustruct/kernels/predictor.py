"""The predictor beside its centre: p = Proj(p0 - L r / mu)."""

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

    out may be v.
    """
    threshold = largest(v) - 1.0
    for _ in range(len(v) + 1):
        excess = -1.0
        above = 0
        for a in range(len(v)):
            if v[a] > threshold:
                excess += v[a] - threshold
                above += 1
        if excess <= 1e-15 * above:
            break
        threshold += excess / above
    for a in range(len(v)):
        out[a] = v[a] - threshold if v[a] > threshold else 0.0


@helper
def expected_cost(r, cost_t, out):
    """out = L r: what each label costs on average; cost_t is L transposed."""
    k = len(r)
    for a in range(k):
        out[a] = 0.0
    for b in range(k):
        share = r[b]
        if share != 0.0:
            for a in range(k):
                out[a] += share * cost_t[b, a]


@helper
def answer(p0, expected, inv_mu, out):
    """out = Proj(p0 - L r / mu) for one node, given L r; out may be p0."""
    for a in range(len(p0)):
        out[a] = p0[a] - inv_mu * expected[a]
    project_simplex(out, out)


@kernel
def move_centres(lo, hi, predictor, r):
    """p0 <- Proj(p0 - L r / mu) for nodes lo .. hi-1."""
    p0 = predictor.centre
    expected = np.empty(p0.shape[1])
    for i in range(lo, hi):
        expected_cost(r[i], predictor.cost_t, expected)
        answer(p0[i], expected, predictor.inv_mu, p0[i])
