"""The predictor beside its centre: p = Proj(p0 - L r / mu)."""

import numpy as np

from robustruct.kernels._jit import kernel


@kernel
def project_simplex(v, out):
    """Euclidean projection of v onto the simplex, by Newton on the threshold from below."""
    top = v[0]
    for a in range(1, len(v)):
        top = v[a] if v[a] > top else top
    threshold = top - 1.0
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


@kernel
def predictor(p0, r, cost_t, inv_mu, scratch, out):
    """out = Proj(p0 - L r / mu) for one node; cost_t is L transposed."""
    k = len(p0)
    for a in range(k):
        scratch[a] = p0[a]
    for b in range(k):
        share = r[b] * inv_mu
        if share != 0.0:
            for a in range(k):
                scratch[a] -= share * cost_t[b, a]
    project_simplex(scratch, out)


@kernel
def move_centres(lo, hi, p0, r, cost_t, inv_mu):
    """p0 <- Proj(p0 - L r / mu) for nodes lo .. hi-1."""
    scratch = np.empty(p0.shape[1])
    for i in range(lo, hi):
        predictor(p0[i], r[i], cost_t, inv_mu, scratch, p0[i])
