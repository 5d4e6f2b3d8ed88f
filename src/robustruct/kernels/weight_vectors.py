"""Vectors as long as θ, which are too large for temporaries."""

from robustruct.kernels._jit import kernel


@kernel
def squared_distance(theta, centre):
    """|θ − z|²."""
    total = 0.0
    for j in range(len(theta)):
        total += (theta[j] - centre[j]) ** 2
    return total


@kernel
def add_multiple(to, factor, vector):
    """to += factor * vector."""
    for j in range(len(to)):
        to[j] += factor * vector[j]


@kernel
def weights_from_moments(theta, centre, alpha, kappa):
    """θ <- (θ + kappa z) / (alpha + kappa); return |θ|² before."""
    total = 0.0
    scale = 1.0 / (alpha + kappa)
    for j in range(len(theta)):
        total += theta[j] ** 2
        theta[j] = scale * (theta[j] + kappa * centre[j])
    return total


@kernel
def follow_centre(theta, centre, alpha, kappa, new_kappa):
    """z <- θ, and θ <- (G + new_kappa z) / (alpha + new_kappa), G = (alpha + kappa) θ − kappa z."""
    scale = 1.0 / (alpha + new_kappa)
    ahead, behind = (alpha + kappa + new_kappa) * scale, kappa * scale
    for j in range(len(theta)):
        old = theta[j]
        theta[j] = ahead * old - behind * centre[j]
        centre[j] = old
