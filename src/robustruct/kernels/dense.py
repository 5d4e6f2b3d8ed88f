"""Small dense linear algebra for the blocks of a game, up to some sixty labels.

Symmetric matrices are held in their upper triangle. Sizes are given apart from the arrays, which may
be larger. Inner loops run along a row, four rows of the other factor at a time. Two habits of numba
shape the code: a view of a row costs a reference count, so elements are indexed in full; and a loop
that starts elsewhere than at 0 is only vectorised over unsigned integers.
"""

import numpy as np

from robustruct.kernels._jit import kernel


@kernel
def dot(n, x, y):
    """Σ x[i] y[i] over the first n entries."""
    total = 0.0
    for i in range(n):
        total += x[i] * y[i]
    return total


@kernel
def product(rows, n, a, x, out):
    """out[i] = Σ_j a[i, j] x[j]; four rows at a time hide the latency of the sums."""
    blocks = rows - rows % 4
    for i in range(0, blocks, 4):
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for j in range(n):
            value = x[j]
            s0 += a[i, j] * value
            s1 += a[i + 1, j] * value
            s2 += a[i + 2, j] * value
            s3 += a[i + 3, j] * value
        out[i], out[i + 1], out[i + 2], out[i + 3] = s0, s1, s2, s3
    for i in range(blocks, rows):
        s0 = 0.0
        for j in range(n):
            s0 += a[i, j] * x[j]
        out[i] = s0


@kernel
def add_transposed_product(rows, n, a, x, out):
    """out[j] += Σ_i a[i, j] x[i]."""
    blocks = rows - rows % 4
    for i in range(0, blocks, 4):
        c0, c1, c2, c3 = x[i], x[i + 1], x[i + 2], x[i + 3]
        for j in range(n):
            out[j] += (c0 * a[i, j] + c1 * a[i + 1, j]) + (c2 * a[i + 2, j] + c3 * a[i + 3, j])
    for i in range(blocks, rows):
        c0 = x[i]
        for j in range(n):
            out[j] += c0 * a[i, j]


@kernel
def add_gram(rows, n, sign, x, out):
    """Upper triangle of out (n, n) += sign x'x, x (rows, n)."""
    end = np.uint64(n)
    blocks = rows - rows % 4
    for i in range(0, blocks, 4):
        for a in range(n):
            c0, c1, c2, c3 = sign * x[i, a], sign * x[i + 1, a], sign * x[i + 2, a], sign * x[i + 3, a]
            for b in range(np.uint64(a), end):
                out[a, b] += (c0 * x[i, b] + c1 * x[i + 1, b]) + (c2 * x[i + 2, b] + c3 * x[i + 3, b])
    for i in range(blocks, rows):
        for a in range(n):
            c0 = sign * x[i, a]
            for b in range(np.uint64(a), end):
                out[a, b] += c0 * x[i, b]


@kernel
def eliminate_above(i, n, u):
    """Row i of u, from the diagonal on, less what the rows above account for."""
    end = np.uint64(n)
    start = np.uint64(i)
    blocks = i - i % 4
    for j in range(0, blocks, 4):
        c0, c1, c2, c3 = u[j, i], u[j + 1, i], u[j + 2, i], u[j + 3, i]
        for b in range(start, end):
            u[i, b] -= (c0 * u[j, b] + c1 * u[j + 1, b]) + (c2 * u[j + 2, b] + c3 * u[j + 3, b])
    for j in range(blocks, i):
        c0 = u[j, i]
        for b in range(start, end):
            u[i, b] -= c0 * u[j, b]


@kernel
def finish_row(i, n, pivot, u):
    """Divide row i of u by the root of its pivot; a pivot of 0 leaves its direction alone."""
    start, end = np.uint64(i + 1), np.uint64(n)
    if pivot > 0.0:
        inverse = 1.0 / np.sqrt(pivot)
        u[i, i] = pivot * inverse
        for b in range(start, end):
            u[i, b] *= inverse
    else:
        u[i, i] = 1e64
        for b in range(start, end):
            u[i, b] = 0.0


@kernel
def cholesky(n, u, floor):
    """The upper triangle of u becomes U with U'U = (old u).

    A pivot below ``floor`` times its diagonal is noise and taken for 0.
    """
    for i in range(n):
        least = floor * u[i, i]
        eliminate_above(i, n, u)
        finish_row(i, n, u[i, i] if u[i, i] > least else 0.0, u)


@kernel
def laplacian_cholesky(n, u):
    """Upper triangle of u becomes U, U'U = (old u) without its last row and column; its rows sum to 0.

    Each pivot is minus the sum of the entries beside it, as in the algorithm of Grassmann, Taksar and
    Heyman: where strongly tied groups hang together weakly, the weak ties survive rounding.
    """
    for i in range(n - 1):
        eliminate_above(i, n, u)
        pivot = 0.0
        for b in range(i + 1, n):
            pivot -= u[i, b]
        finish_row(i, n, pivot if pivot > 0.0 else u[i, i], u)


@kernel
def solve_transposed(n, u, x):
    """x becomes the solution of U'x = (old x), for one right-hand side."""
    end = np.uint64(n)
    for i in range(n):
        value = x[i] / u[i, i]
        x[i] = value
        for b in range(np.uint64(i + 1), end):
            x[b] -= value * u[i, b]


@kernel
def solve_transposed_rows(n, columns, u, x):
    """x (n, columns) becomes the solution of U'x = (old x)."""
    for i in range(n):
        blocks = i - i % 4
        for j in range(0, blocks, 4):
            c0, c1, c2, c3 = u[j, i], u[j + 1, i], u[j + 2, i], u[j + 3, i]
            for a in range(columns):
                x[i, a] -= (c0 * x[j, a] + c1 * x[j + 1, a]) + (c2 * x[j + 2, a] + c3 * x[j + 3, a])
        for j in range(blocks, i):
            c0 = u[j, i]
            for a in range(columns):
                x[i, a] -= c0 * x[j, a]
        inverse = 1.0 / u[i, i]
        for a in range(columns):
            x[i, a] *= inverse


@kernel
def solve_upper(n, u, x):
    """x becomes the solution of U x = (old x), for one right-hand side."""
    for i in range(n - 1, -1, -1):
        even, odd = 0.0, 0.0
        for b in range(i + 1, n - 1, 2):
            even += u[i, b] * x[b]
            odd += u[i, b + 1] * x[b + 1]
        if (n - i) % 2 == 0:
            even += u[i, n - 1] * x[n - 1]
        x[i] = (x[i] - (even + odd)) / u[i, i]


@kernel
def inverse_from_cholesky(n, u, lower, out):
    """out (n, n), both triangles, = (U'U)⁻¹. lower (n, n) is scratch: it ends as the inverse of U'."""
    for i in range(n):
        for a in range(n):
            lower[i, a] = 0.0
            out[i, a] = 0.0
        lower[i, i] = 1.0
        blocks = i - i % 4
        for j in range(0, blocks, 4):
            c0, c1, c2, c3 = u[j, i], u[j + 1, i], u[j + 2, i], u[j + 3, i]
            for a in range(j + 4):
                lower[i, a] -= (c0 * lower[j, a] + c1 * lower[j + 1, a]) + (
                    c2 * lower[j + 2, a] + c3 * lower[j + 3, a]
                )
        for j in range(blocks, i):
            c0 = u[j, i]
            for a in range(j + 1):
                lower[i, a] -= c0 * lower[j, a]
        inverse = 1.0 / u[i, i]
        for a in range(i + 1):
            lower[i, a] *= inverse
    add_gram(n, n, 1.0, lower, out)
    for a in range(n):
        for b in range(a):
            out[a, b] = out[b, a]


@kernel
def swap_symmetric(n, i, j, a):
    """Exchange rows and columns i <= j of a symmetric matrix held in its upper triangle."""
    if i == j:
        return
    for b in range(i):
        a[b, i], a[b, j] = a[b, j], a[b, i]
    for b in range(i + 1, j):
        a[i, b], a[b, j] = a[b, j], a[i, b]
    for b in range(j + 1, n):
        a[i, b], a[j, b] = a[j, b], a[i, b]
    a[i, i], a[j, j] = a[j, j], a[i, i]
