"""Vectors as long as θ, which are too large for temporaries.

The penalty on weight j is alpha s_j, that on its distance from the centre z is what is missing to
alpha + kappa, which all weights have in common.

squares (rows,) s, of rows of equally many weights: one row is all of them where s is the same for
        all; see optimizers/scaling.py. What every pass or step asks for is added up in any order
        (quick_kernel).
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
    total, width = 0.0, len(theta) // len(squares)
    for row in range(len(squares)):
        own = 0.0
        for j in range(row * width, (row + 1) * width):
            own += theta[j] ** 2
        total += squares[row] * own
    return 0.5 * alpha * total


@kernel
def add_slope(gradient, theta, squares, alpha):
    """gradient += that of `penalty`."""
    width = len(theta) // len(squares)
    for row in range(len(squares)):
        own = alpha * squares[row]
        for j in range(row * width, (row + 1) * width):
            gradient[j] += own * theta[j]


@kernel
def dual_penalty(moments, squares, alpha):
    """Σ moments² / (2 alpha s): the conjugate of `penalty`."""
    total, width = 0.0, len(moments) // len(squares)
    for row in range(len(squares)):
        own = 0.0
        for j in range(row * width, (row + 1) * width):
            own += moments[j] ** 2
        total += own / (alpha * squares[row])
    return 0.5 * total


@quick_kernel
def centre_gap(theta, centre, squares, alpha, kappa):
    """The centre's part of the gap: Σ (alpha + kappa - alpha s)² (θ - z)² / (2 alpha s)."""
    total, width = 0.0, len(theta) // len(squares)
    for row in range(len(squares)):
        own, apart = alpha * squares[row], 0.0
        for j in range(row * width, (row + 1) * width):
            apart += (theta[j] - centre[j]) ** 2
        total += apart * (alpha - own + kappa) ** 2 / own
    return 0.5 * total


@kernel
def weights_from_moments(theta, centre, squares, alpha, kappa):
    """From moments in θ to weights; return the `dual_penalty` of the moments.

    θ <- (θ + (alpha + kappa - alpha s) z) / (alpha + kappa)
    """
    total, width = 0.0, len(theta) // len(squares)
    scale = 1.0 / (alpha + kappa)
    for row in range(len(squares)):
        own, size = alpha * squares[row], 0.0
        for j in range(row * width, (row + 1) * width):
            size += theta[j] ** 2
            theta[j] = scale * (theta[j] + (alpha - own + kappa) * centre[j])
        total += size / own
    return 0.5 * total


@kernel
def moments_from_weights(theta, centre, squares, alpha, kappa, out):
    """Into ``out``: the moments that `weights_from_moments` has made θ from."""
    width = len(theta) // len(squares)
    for row in range(len(squares)):
        left = alpha - alpha * squares[row] + kappa
        for j in range(row * width, (row + 1) * width):
            out[j] = (alpha + kappa) * theta[j] - left * centre[j]


@kernel
def follow_centre(theta, centre, squares, alpha, kappa, new_kappa):
    """z <- θ, and θ <- what the moments behind θ and z make of the new centre and kappa."""
    width = len(theta) // len(squares)
    scale = 1.0 / (alpha + new_kappa)
    for row in range(len(squares)):
        left = alpha - alpha * squares[row]
        for j in range(row * width, (row + 1) * width):
            old = theta[j]
            moments = (alpha + kappa) * old - (left + kappa) * centre[j]
            theta[j] = scale * (moments + (left + new_kappa) * old)
            centre[j] = old


@kernel
def scale_rows(vector, factors, out):
    """Into ``out``: the rows of a vector, each times its factor."""
    width = len(vector) // len(factors)
    for row in range(len(factors)):
        for j in range(row * width, (row + 1) * width):
            out[j] = factors[row] * vector[j]


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
    stride = 0 if len(l1) == 1 else 1
    value, slope, bend, width = 0.0, 0.0, 0.0, len(moments) // len(squares)
    for row in range(len(squares)):
        own = alpha * squares[row]
        for j in range(row * width, (row + 1) * width):
            size = abs(moments[j])
            beyond = part * size - l1[j * stride]
            if beyond > 0.0:
                value += beyond**2 / own
                slope += size * beyond / own
                bend += size**2 / own
    return 0.5 * value, slope, bend
