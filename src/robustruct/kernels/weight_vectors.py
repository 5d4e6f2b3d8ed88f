"""Vectors as long as θ, which are too large for temporaries.

The penalty on weight j is alpha s_j, that on its distance from the centre z is what is missing to
alpha + kappa, which all weights have in common.

squares (weights,) s, or (1,) where it is the same for all; see optimizers/scaling.py. What every
        pass or step asks for has a loop for that, of vectors; sums may be reordered (quick_kernel).
"""

from robustruct.kernels._jit import kernel, quick_kernel


@kernel
def add_multiple(to, factor, vector):
    """to += factor * vector."""
    for j in range(len(to)):
        to[j] += factor * vector[j]


@quick_kernel
def penalty(theta, squares, alpha):
    """Σ alpha s / 2 θ²."""
    total = 0.0
    if len(squares) == 1:
        for j in range(len(theta)):
            total += theta[j] ** 2
        return 0.5 * alpha * squares[0] * total
    for j in range(len(theta)):
        total += squares[j] * theta[j] ** 2
    return 0.5 * alpha * total


@kernel
def add_slope(gradient, theta, squares, alpha):
    """gradient += that of `penalty`."""
    if len(squares) == 1:
        for j in range(len(theta)):
            gradient[j] += alpha * squares[0] * theta[j]
        return
    for j in range(len(theta)):
        gradient[j] += alpha * squares[j] * theta[j]


@kernel
def dual_penalty(moments, squares, alpha):
    """Σ moments² / (2 alpha s): the conjugate of `penalty`."""
    stride = 0 if len(squares) == 1 else 1
    total = 0.0
    for j in range(len(moments)):
        total += moments[j] ** 2 / (alpha * squares[j * stride])
    return 0.5 * total


@quick_kernel
def centre_gap(theta, centre, squares, alpha, kappa):
    """The centre's part of the gap: Σ (alpha + kappa - alpha s)² (θ - z)² / (2 alpha s)."""
    total = 0.0
    if len(squares) == 1:
        for j in range(len(theta)):
            total += (theta[j] - centre[j]) ** 2
        own = alpha * squares[0]
        return 0.5 * total * (alpha - own + kappa) ** 2 / own
    for j in range(len(theta)):
        own = alpha * squares[j]
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


@kernel
def absolute_penalty(theta, l1):
    """Σ l1 |θ|; l1 (weights,), or (1,) where it is the same for all."""
    stride = 0 if len(l1) == 1 else 1
    total = 0.0
    for j in range(len(theta)):
        total += l1[j * stride] * abs(theta[j])
    return total


@kernel
def least_slopes(theta, gradient, l1, out):
    """Into ``out``: of the slopes of objective + `absolute_penalty`, those nearest to 0.

    At θ = 0 these are an interval, and 0 where it holds 0: then the weight should stay there.
    """
    stride = 0 if len(l1) == 1 else 1
    for j in range(len(theta)):
        own, slope = l1[j * stride], gradient[j]
        if theta[j] > 0.0 or (theta[j] == 0.0 and slope < -own):
            out[j] = slope + own
        elif theta[j] < 0.0 or slope > own:
            out[j] = slope - own
        else:
            out[j] = 0.0


@kernel
def elastic_conjugate(moments, squares, alpha, l1, part):
    """The conjugate of `penalty` + `absolute_penalty` at part * moments.

    Σ max(part |moments| - l1, 0)² / (2 alpha s); return it with its first and second derivative by
    ``part``.
    """
    stride = 0 if len(squares) == 1 else 1
    value, slope, bend = 0.0, 0.0, 0.0
    for j in range(len(moments)):
        size = abs(moments[j])
        beyond = part * size - l1[j * stride]
        if beyond > 0.0:
            own = alpha * squares[j * stride]
            value += beyond**2 / own
            slope += size * beyond / own
            bend += size**2 / own
    return 0.5 * value, slope, bend
