"""Small dense linear algebra, written so that every inner loop runs along a row.

Symmetric matrices are held in their upper triangle. Sizes are given apart from the arrays, which may
be larger. Blocks of four rows share one pass over the row they update: for the sizes of a game (up
to some sixty labels) that is faster than a call of BLAS.
"""

import numpy as np

from robustruct.kernels._jit import kernel


@kernel
def dot(n, x, y):
    """Σ x[i] y[i] over the first n entries, in four partial sums."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    blocks = n - n % 4
    for i in range(0, blocks, 4):
        s0 += x[i] * y[i]
        s1 += x[i + 1] * y[i + 1]
        s2 += x[i + 2] * y[i + 2]
        s3 += x[i + 3] * y[i + 3]
    for i in range(blocks, n):
        s0 += x[i] * y[i]
    return (s0 + s1) + (s2 + s3)


@kernel
def add_gram(rows, n, sign, x, out):
    """Upper triangle of out (n, n) += sign x'x, x (rows, n)."""
    blocks = rows - rows % 4
    for i in range(0, blocks, 4):
        x0, x1, x2, x3 = x[i], x[i + 1], x[i + 2], x[i + 3]
        for a in range(n):
            c0, c1, c2, c3 = sign * x0[a], sign * x1[a], sign * x2[a], sign * x3[a]
            row = out[a]
            for b in range(a, n):
                row[b] += (c0 * x0[b] + c1 * x1[b]) + (c2 * x2[b] + c3 * x3[b])
    for i in range(blocks, rows):
        x0 = x[i]
        for a in range(n):
            c0 = sign * x0[a]
            row = out[a]
            for b in range(a, n):
                row[b] += c0 * x0[b]


@kernel
def cholesky(n, a, floor):
    """Upper triangle of a (n, n) becomes U with U'U = a.

    A pivot that rounding has eaten, below ``floor`` times its diagonal, is replaced by a huge one:
    the direction it stands for is then left alone.
    """
    for i in range(n):
        row = a[i]
        original = row[i]
        blocks = i - i % 4
        for j in range(0, blocks, 4):
            u0, u1, u2, u3 = a[j], a[j + 1], a[j + 2], a[j + 3]
            c0, c1, c2, c3 = u0[i], u1[i], u2[i], u3[i]
            for b in range(i, n):
                row[b] -= (c0 * u0[b] + c1 * u1[b]) + (c2 * u2[b] + c3 * u3[b])
        for j in range(blocks, i):
            u0 = a[j]
            c0 = u0[i]
            for b in range(i, n):
                row[b] -= c0 * u0[b]
        if row[i] > floor * original:
            inverse = 1.0 / np.sqrt(row[i])
            for b in range(i, n):
                row[b] *= inverse
        else:
            row[i] = 1e64
            for b in range(i + 1, n):
                row[b] = 0.0


@kernel
def solve_transposed(n, u, x):
    """x becomes the solution of U'x = (old x), for one right-hand side."""
    for i in range(n):
        row = u[i]
        value = x[i] / row[i]
        x[i] = value
        for b in range(i + 1, n):
            x[b] -= value * row[b]


@kernel
def solve_transposed_rows(n, columns, u, x):
    """x (n, columns) becomes the solution of U'x = (old x)."""
    for i in range(n):
        row = x[i]
        blocks = i - i % 4
        for j in range(0, blocks, 4):
            x0, x1, x2, x3 = x[j], x[j + 1], x[j + 2], x[j + 3]
            c0, c1, c2, c3 = u[j, i], u[j + 1, i], u[j + 2, i], u[j + 3, i]
            for a in range(columns):
                row[a] -= (c0 * x0[a] + c1 * x1[a]) + (c2 * x2[a] + c3 * x3[a])
        for j in range(blocks, i):
            x0 = x[j]
            c0 = u[j, i]
            for a in range(columns):
                row[a] -= c0 * x0[a]
        inverse = 1.0 / u[i, i]
        for a in range(columns):
            row[a] *= inverse


@kernel
def solve_upper(n, u, x):
    """x becomes the solution of U x = (old x), for one right-hand side."""
    for i in range(n - 1, -1, -1):
        x[i] = (x[i] - dot(n - i - 1, u[i, i + 1 :], x[i + 1 :])) / u[i, i]


@kernel
def inverse_from_cholesky(n, u, lower, out):
    """out (n, n), both triangles, = (U'U)⁻¹. lower (n, n) is scratch: it ends as the inverse of U'."""
    for i in range(n):
        row = lower[i]
        for a in range(n):
            row[a] = 0.0
        row[i] = 1.0
        blocks = i - i % 4
        for j in range(0, blocks, 4):
            x0, x1, x2, x3 = lower[j], lower[j + 1], lower[j + 2], lower[j + 3]
            c0, c1, c2, c3 = u[j, i], u[j + 1, i], u[j + 2, i], u[j + 3, i]
            for a in range(j + 4):
                row[a] -= (c0 * x0[a] + c1 * x1[a]) + (c2 * x2[a] + c3 * x3[a])
        for j in range(blocks, i):
            x0 = lower[j]
            c0 = u[j, i]
            for a in range(j + 1):
                row[a] -= c0 * x0[a]
        inverse = 1.0 / u[i, i]
        for a in range(i + 1):
            row[a] *= inverse
    for a in range(n):
        row = out[a]
        for b in range(n):
            row[b] = 0.0
    for i in range(n):
        x0 = lower[i]
        for a in range(i + 1):
            c0 = x0[a]
            row = out[a]
            for b in range(a, i + 1):
                row[b] += c0 * x0[b]
    for a in range(n):
        for b in range(a + 1, n):
            out[b, a] = out[a, b]


@kernel
def laplacian_cholesky(n, a):
    """Upper triangle of a becomes U with U'U = a without its last row and column; rows of a sum to 0.

    Each pivot is minus the sum of the entries beside it, as in the algorithm of Grassmann, Taksar and
    Heyman: where strongly tied groups hang together weakly, the weak ties survive rounding.
    """
    for i in range(n - 1):
        row = a[i]
        blocks = i - i % 4
        for j in range(0, blocks, 4):
            u0, u1, u2, u3 = a[j], a[j + 1], a[j + 2], a[j + 3]
            c0, c1, c2, c3 = u0[i], u1[i], u2[i], u3[i]
            for b in range(i, n):
                row[b] -= (c0 * u0[b] + c1 * u1[b]) + (c2 * u2[b] + c3 * u3[b])
        for j in range(blocks, i):
            u0 = a[j]
            c0 = u0[i]
            for b in range(i, n):
                row[b] -= c0 * u0[b]
        pivot = 0.0
        for b in range(i + 1, n):
            pivot -= row[b]
        if not pivot > 0.0:
            pivot = row[i]
        if pivot > 0.0:
            inverse = 1.0 / np.sqrt(pivot)
            row[i] = pivot * inverse
            for b in range(i + 1, n):
                row[b] *= inverse
        else:
            row[i] = 1e64
            for b in range(i + 1, n):
                row[b] = 0.0
