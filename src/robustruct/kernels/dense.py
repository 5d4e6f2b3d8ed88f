"""Small dense linear algebra for the blocks of a game, up to some sixty labels.

Matrices live in a stack mat (n, slots, k, k), vectors in a stack vec (n, slots, k), and are named
by their two leading indices: a view would cost two atomic reference counts. Symmetric matrices are
held in their upper triangle. Inner loops run along a row, four rows of the other factor at a time;
missing rows of the last four repeat the last one with coefficient 0, since a second loop for them
would double the time of compilation. A loop that starts elsewhere than at 0 runs over unsigned
integers, or numba would not vectorise it.
"""

import numpy as np

from robustruct.kernels._jit import helper

# For a plain True and a plain False numba would compile a copy of a function each.
NO, YES = np.bool_(False), np.bool_(True)


@helper
def product(rows, n, mat, i, a, vec, j, x, to, out):
    """vec[to, out] = mat[i, a] vec[j, x]; four rows at a time hide the latency of the sums."""
    for b in range(0, rows, 4):
        b1, b2, b3 = min(b + 1, rows - 1), min(b + 2, rows - 1), min(b + 3, rows - 1)
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for c in range(n):
            value = vec[j, x, c]
            s0 += mat[i, a, b, c] * value
            s1 += mat[i, a, b1, c] * value
            s2 += mat[i, a, b2, c] * value
            s3 += mat[i, a, b3, c] * value
        vec[to, out, b] = s0
        vec[to, out, b1] = s1
        vec[to, out, b2] = s2
        vec[to, out, b3] = s3


@helper
def add_transposed_product(rows, n, mat, i, a, vec, j, x, to, out):
    """vec[to, out] += mat[i, a]' vec[j, x]."""
    for b in range(0, rows, 4):
        b1, b2, b3 = min(b + 1, rows - 1), min(b + 2, rows - 1), min(b + 3, rows - 1)
        c0 = vec[j, x, b]
        c1 = vec[j, x, b1] if b1 > b else 0.0
        c2 = vec[j, x, b2] if b2 > b1 else 0.0
        c3 = vec[j, x, b3] if b3 > b2 else 0.0
        for c in range(n):
            vec[to, out, c] += (c0 * mat[i, a, b, c] + c1 * mat[i, a, b1, c]) + (
                c2 * mat[i, a, b2, c] + c3 * mat[i, a, b3, c]
            )


@helper
def add_gram(rows, n, mat, i, x, j, out):
    """Upper triangle of mat[j, out] (n, n) += X'X, X = mat[i, x] (rows, n)."""
    end = np.uint64(n)
    for l0 in range(0, rows, 4):
        l1, l2, l3 = min(l0 + 1, rows - 1), min(l0 + 2, rows - 1), min(l0 + 3, rows - 1)
        for a in range(n):
            c0 = mat[i, x, l0, a]
            c1 = mat[i, x, l1, a] if l1 > l0 else 0.0
            c2 = mat[i, x, l2, a] if l2 > l1 else 0.0
            c3 = mat[i, x, l3, a] if l3 > l2 else 0.0
            for b in range(np.uint64(a), end):
                mat[j, out, a, b] += (c0 * mat[i, x, l0, b] + c1 * mat[i, x, l1, b]) + (
                    c2 * mat[i, x, l2, b] + c3 * mat[i, x, l3, b]
                )


@helper
def gram_difference(rows, n, mat, i, x, j, y, to, out):
    """Upper triangle of mat[to, out] (n, n) = X'X - Y'Y, X = mat[i, x], Y = mat[j, y] (rows, n)."""
    end = np.uint64(n)
    for a in range(n):
        for b in range(n):
            mat[to, out, a, b] = 0.0
    for l0 in range(0, rows, 2):
        l1 = min(l0 + 1, rows - 1)
        for a in range(n):
            c0, d0 = mat[i, x, l0, a], mat[j, y, l0, a]
            c1 = mat[i, x, l1, a] if l1 > l0 else 0.0
            d1 = mat[j, y, l1, a] if l1 > l0 else 0.0
            for b in range(np.uint64(a), end):
                mat[to, out, a, b] += (c0 * mat[i, x, l0, b] + c1 * mat[i, x, l1, b]) - (
                    d0 * mat[j, y, l0, b] + d1 * mat[j, y, l1, b]
                )


@helper
def eliminate_above(row, n, mat, i, u):
    """A row of U, from the diagonal on, less what the rows above account for."""
    start, end = np.uint64(row), np.uint64(n)
    for l0 in range(0, row, 4):
        l1, l2, l3 = min(l0 + 1, row - 1), min(l0 + 2, row - 1), min(l0 + 3, row - 1)
        c0 = mat[i, u, l0, row]
        c1 = mat[i, u, l1, row] if l1 > l0 else 0.0
        c2 = mat[i, u, l2, row] if l2 > l1 else 0.0
        c3 = mat[i, u, l3, row] if l3 > l2 else 0.0
        for b in range(start, end):
            mat[i, u, row, b] -= (c0 * mat[i, u, l0, b] + c1 * mat[i, u, l1, b]) + (
                c2 * mat[i, u, l2, b] + c3 * mat[i, u, l3, b]
            )


@helper
def cholesky(n, floor, zero_sums, mat, i, u):
    """The upper triangle of A = mat[i, u] becomes U, U'U = A, with the diagonal inverted.

    A pivot below ``floor`` times its diagonal is noise: its direction is then left alone.
    With ``zero_sums``, rows of A sum to 0, and the last row and column are left out. Each pivot is
    then minus the sum of the entries beside it, as in the algorithm of Grassmann, Taksar and
    Heyman: where strongly tied groups hang together weakly, the weak ties survive rounding.
    """
    for row in range(n - 1 if zero_sums else n):
        least = floor * mat[i, u, row, row]
        eliminate_above(row, n, mat, i, u)
        pivot = mat[i, u, row, row]
        if zero_sums:
            beside = 0.0
            for b in range(row + 1, n):
                beside -= mat[i, u, row, b]
            pivot = beside if beside > 0.0 else pivot
        scale = 1.0 / np.sqrt(pivot) if pivot > least else 0.0
        for b in range(np.uint64(row + 1), np.uint64(n)):
            mat[i, u, row, b] *= scale
        mat[i, u, row, row] = scale if scale > 0.0 else 1e-64


@helper
def solve_transposed(n, mat, i, u, vec, j, x):
    """vec[j, x] becomes the solution of U'y = vec[j, x]."""
    end = np.uint64(n)
    for row in range(n):
        value = vec[j, x, row] * mat[i, u, row, row]
        vec[j, x, row] = value
        for b in range(np.uint64(row + 1), end):
            vec[j, x, b] -= value * mat[i, u, row, b]


@helper
def solve_transposed_rows(n, columns, lower, mat, i, u, j, x):
    """X = mat[j, x] (n, columns) becomes the solution of U'Y = X; ``lower`` if X is triangular."""
    for row in range(n):
        for l0 in range(0, row, 4):
            l1, l2, l3 = min(l0 + 1, row - 1), min(l0 + 2, row - 1), min(l0 + 3, row - 1)
            c0 = mat[i, u, l0, row]
            c1 = mat[i, u, l1, row] if l1 > l0 else 0.0
            c2 = mat[i, u, l2, row] if l2 > l1 else 0.0
            c3 = mat[i, u, l3, row] if l3 > l2 else 0.0
            for a in range(l3 + 1 if lower else columns):
                mat[j, x, row, a] -= (c0 * mat[j, x, l0, a] + c1 * mat[j, x, l1, a]) + (
                    c2 * mat[j, x, l2, a] + c3 * mat[j, x, l3, a]
                )
        inverse = mat[i, u, row, row]
        for a in range(columns):
            mat[j, x, row, a] *= inverse


@helper
def solve_upper(n, mat, i, u, vec, j, x):
    """vec[j, x] becomes the solution of U y = vec[j, x]."""
    for row in range(n - 1, -1, -1):
        even, odd = 0.0, 0.0
        for b in range(row + 1, n - 1, 2):
            even += mat[i, u, row, b] * vec[j, x, b]
            odd += mat[i, u, row, b + 1] * vec[j, x, b + 1]
        if (n - row) % 2 == 0:
            even += mat[i, u, row, n - 1] * vec[j, x, n - 1]
        vec[j, x, row] = (vec[j, x, row] - (even + odd)) * mat[i, u, row, row]


@helper
def inverse_from_cholesky(n, mat, i, u, scratch, j, out):
    """Both triangles of mat[j, out] (n, n) = (U'U)⁻¹; mat[i, scratch] ends as the inverse of U'."""
    for row in range(n):
        for a in range(n):
            mat[i, scratch, row, a] = 0.0
            mat[j, out, row, a] = 0.0
        mat[i, scratch, row, row] = 1.0
    solve_transposed_rows(n, n, YES, mat, i, u, i, scratch)
    add_gram(n, n, mat, i, scratch, j, out)
    for a in range(n):
        for b in range(a):
            mat[j, out, a, b] = mat[j, out, b, a]


@helper
def swap_symmetric(n, p, q, mat, i, a):
    """Exchange rows and columns p <= q of a symmetric matrix held in its upper triangle."""
    if p == q:
        return
    for b in range(p):
        mat[i, a, b, p], mat[i, a, b, q] = mat[i, a, b, q], mat[i, a, b, p]
    for b in range(p + 1, q):
        mat[i, a, p, b], mat[i, a, b, q] = mat[i, a, b, q], mat[i, a, p, b]
    for b in range(q + 1, n):
        mat[i, a, p, b], mat[i, a, q, b] = mat[i, a, q, b], mat[i, a, p, b]
    mat[i, a, p, p], mat[i, a, q, q] = mat[i, a, q, q], mat[i, a, p, p]
