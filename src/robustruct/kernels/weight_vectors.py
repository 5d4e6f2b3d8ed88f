"""Vectors as long as θ, which are too large for temporaries.

The penalty on weight j is alpha s_j, that on its distance from the centre z is what is missing to
alpha + kappa, which all weights have in common.

squares (weights,) s, or (1,) where it is the same for all; see optimizers/scaling.py
"""

from robustruct.kernels._jit import kernel


@kernel
def add_multiple(to, factor, vector):
    """to += factor * vector."""
    for j in range(len(to)):
        to[j] += factor * vector[j]


@kernel
def penalty(theta, squares, alpha):
    """Σ alpha s / 2 θ²."""
    stride = 0 if len(squares) == 1 else 1
    total = 0.0
    for j in range(len(theta)):
        total += squares[j * stride] * theta[j] ** 2
    return 0.5 * alpha * total


@kernel
def add_slope(gradient, theta, squares, alpha):
    """gradient += that of `penalty`."""
    stride = 0 if len(squares) == 1 else 1
    for j in range(len(theta)):
        gradient[j] += alpha * squares[j * stride] * theta[j]


@kernel
def dual_penalty(moments, squares, alpha):
    """Σ moments² / (2 alpha s): the conjugate of `penalty`."""
    stride = 0 if len(squares) == 1 else 1
    total = 0.0
    for j in range(len(moments)):
        total += moments[j] ** 2 / (alpha * squares[j * stride])
    return 0.5 * total


@kernel
def centre_gap(theta, centre, squares, alpha, kappa):
    """The centre's part of the gap: Σ (alpha + kappa - alpha s)² (θ - z)² / (2 alpha s)."""
    stride = 0 if len(squares) == 1 else 1
    total = 0.0
    for j in range(len(theta)):
        own = alpha * squares[j * stride]
        total += ((alpha - own + kappa) * (theta[j] - centre[j])) ** 2 / own
    return 0.5 * total


@kernel
def weights_from_moments(theta, centre, squares, alpha, kappa):
    """From moments in θ to weights; return the `dual_penalty` of the moments.

    θ <- (θ + (alpha + kappa - alpha s) z) / (alpha + kappa)
    """
    stride = 0 if len(squares) == 1 else 1
    total = 0.0
    scale = 1.0 / (alpha + kappa)
    for j in range(len(theta)):
        own = alpha * squares[j * stride]
        total += theta[j] ** 2 / own
        theta[j] = scale * (theta[j] + (alpha - own + kappa) * centre[j])
    return 0.5 * total


@kernel
def follow_centre(theta, centre, squares, alpha, kappa, new_kappa):
    """z <- θ, and θ <- what the moments behind θ and z make of the new centre and kappa."""
    stride = 0 if len(squares) == 1 else 1
    scale = 1.0 / (alpha + new_kappa)
    for j in range(len(theta)):
        left = alpha - alpha * squares[j * stride]
        old = theta[j]
        moments = (alpha + kappa) * old - (left + kappa) * centre[j]
        theta[j] = scale * (moments + (left + new_kappa) * old)
        centre[j] = old
