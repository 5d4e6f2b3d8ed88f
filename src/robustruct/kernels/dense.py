"""Small dense linear algebra for the blocks of a game, up to some sixty labels.

Matrices live in a stack mat (n, slots, k, k), vectors in a stack vec (n, slots, k), and are named by
their two leading indices: a view would cost two atomic reference counts. Symmetric matrices are held
in their upper triangle. Inner loops run along a row, four rows of the other factor at a time; a loop
that starts elsewhere than at 0 runs over unsigned integers, or numba would not vectorise it.
"""

import numpy as np

from robustruct.kernels._jit import kernel


@kernel
def product(rows, n, mat, i, a, vec, j, x, to, out):
    """vec[to, out] = mat[i, a] vec[j, x]; four rows at a time hide the latency of the sums."""
    blocks = rows - rows % 4
    for b in range(0, blocks, 4):
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for c in range(n):
            value = vec[j, x, c]
            s0 += mat[i, a, b, c] * value
            s1 += mat[i, a, b + 1, c] * value
            s2 += mat[i, a, b + 2, c] * value
            s3 += mat[i, a, b + 3, c] * value
        vec[to, out, b] = s0
        vec[to, out, b + 1] = s1
        vec[to, out, b + 2] = s2
        vec[to, out, b + 3] = s3
    for b in range(blocks, rows):
        s0 = 0.0
        for c in range(n):
            s0 += mat[i, a, b, c] * vec[j, x, c]
        vec[to, out, b] = s0


@kernel
def add_transposed_product(rows, n, mat, i, a, vec, j, x, to, out):
    """vec[to, out] += mat[i, a]' vec[j, x]."""
    blocks = rows - rows % 4
    for b in range(0, blocks, 4):
        c0, c1, c2, c3 = vec[j, x, b], vec[j, x, b + 1], vec[j, x, b + 2], vec[j, x, b + 3]
        for c in range(n):
            vec[to, out, c] += (c0 * mat[i, a, b, c] + c1 * mat[i, a, b + 1, c]) + (
                c2 * mat[i, a, b + 2, c] + c3 * mat[i, a, b + 3, c]
            )
    for b in range(blocks, rows):
        c0 = vec[j, x, b]
        for c in range(n):
            vec[to, out, c] += c0 * mat[i, a, b, c]


@kernel
def add_gram(rows, n, mat, i, x, j, out):
    """Upper triangle of mat[j, out] (n, n) += X'X, X = mat[i, x] (rows, n)."""
    end = np.uint64(n)
    blocks = rows - rows % 4
    for c in range(0, blocks, 4):
        for a in range(n):
            c0, c1, c2, c3 = (
                mat[i, x, c, a],
                mat[i, x, c + 1, a],
                mat[i, x, c + 2, a],
                mat[i, x, c + 3, a],
            )
            for b in range(np.uint64(a), end):
                mat[j, out, a, b] += (c0 * mat[i, x, c, b] + c1 * mat[i, x, c + 1, b]) + (
                    c2 * mat[i, x, c + 2, b] + c3 * mat[i, x, c + 3, b]
                )
    for c in range(blocks, rows):
        for a in range(n):
            c0 = mat[i, x, c, a]
            for b in range(np.uint64(a), end):
                mat[j, out, a, b] += c0 * mat[i, x, c, b]


@kernel
def gram_difference(rows, n, mat, i, x, j, y, to, out):
    """Upper triangle of mat[to, out] (n, n) = X'X - Y'Y, X = mat[i, x], Y = mat[j, y] (rows, n)."""
    end = np.uint64(n)
    for a in range(n):
        for b in range(np.uint64(a), end):
            mat[to, out, a, b] = 0.0
    blocks = rows - rows % 2
    for c in range(0, blocks, 2):
        for a in range(n):
            c0, c1, d0, d1 = (
                mat[i, x, c, a],
                mat[i, x, c + 1, a],
                mat[j, y, c, a],
                mat[j, y, c + 1, a],
            )
            for b in range(np.uint64(a), end):
                mat[to, out, a, b] += (c0 * mat[i, x, c, b] + c1 * mat[i, x, c + 1, b]) - (
                    d0 * mat[j, y, c, b] + d1 * mat[j, y, c + 1, b]
                )
    for c in range(blocks, rows):
        for a in range(n):
            c0, d0 = mat[i, x, c, a], mat[j, y, c, a]
            for b in range(np.uint64(a), end):
                mat[to, out, a, b] += c0 * mat[i, x, c, b] - d0 * mat[j, y, c, b]


@kernel
def eliminate_above(row, n, mat, i, u):
    """A row of U, from the diagonal on, less what the rows above account for."""
    start, end = np.uint64(row), np.uint64(n)
    blocks = row - row % 4
    for c in range(0, blocks, 4):
        c0, c1, c2, c3 = (
            mat[i, u, c, row],
            mat[i, u, c + 1, row],
            mat[i, u, c + 2, row],
            mat[i, u, c + 3, row],
        )
        for b in range(start, end):
            mat[i, u, row, b] -= (c0 * mat[i, u, c, b] + c1 * mat[i, u, c + 1, b]) + (
                c2 * mat[i, u, c + 2, b] + c3 * mat[i, u, c + 3, b]
            )
    for c in range(blocks, row):
        c0 = mat[i, u, c, row]
        for b in range(start, end):
            mat[i, u, row, b] -= c0 * mat[i, u, c, b]


@kernel
def finish_row(row, n, pivot, mat, i, u):
    """Divide a row of U by the root of its pivot; a pivot of 0 leaves its direction alone."""
    start, end = np.uint64(row + 1), np.uint64(n)
    if pivot > 0.0:
        inverse = 1.0 / np.sqrt(pivot)
        mat[i, u, row, row] = inverse
        for b in range(start, end):
            mat[i, u, row, b] *= inverse
    else:
        mat[i, u, row, row] = 1e-64
        for b in range(start, end):
            mat[i, u, row, b] = 0.0


@kernel
def cholesky(n, floor, mat, i, u):
    """The upper triangle of A = mat[i, u] becomes U, U'U = A, with the diagonal inverted.

    A pivot below ``floor`` times its diagonal is noise and taken for 0.
    """
    for row in range(n):
        least = floor * mat[i, u, row, row]
        eliminate_above(row, n, mat, i, u)
        pivot = mat[i, u, row, row]
        finish_row(row, n, pivot if pivot > least else 0.0, mat, i, u)


@kernel
def laplacian_cholesky(n, mat, i, u):
    """As cholesky, for a matrix whose rows sum to 0, without its last row and column.

    Each pivot is minus the sum of the entries beside it, as in the algorithm of Grassmann, Taksar
    and Heyman: where strongly tied groups hang together weakly, the weak ties survive rounding.
    """
    for row in range(n - 1):
        eliminate_above(row, n, mat, i, u)
        pivot = 0.0
        for b in range(row + 1, n):
            pivot -= mat[i, u, row, b]
        finish_row(row, n, pivot if pivot > 0.0 else mat[i, u, row, row], mat, i, u)


@kernel
def solve_transposed(n, mat, i, u, vec, j, x):
    """vec[j, x] becomes the solution of U'y = vec[j, x]."""
    end = np.uint64(n)
    for row in range(n):
        value = vec[j, x, row] * mat[i, u, row, row]
        vec[j, x, row] = value
        for b in range(np.uint64(row + 1), end):
            vec[j, x, b] -= value * mat[i, u, row, b]


@kernel
def solve_transposed_rows(n, columns, mat, i, u, j, x):
    """X = mat[j, x] (n, columns) becomes the solution of U'Y = X."""
    for row in range(n):
        blocks = row - row % 4
        for c in range(0, blocks, 4):
            c0, c1, c2, c3 = (
                mat[i, u, c, row],
                mat[i, u, c + 1, row],
                mat[i, u, c + 2, row],
                mat[i, u, c + 3, row],
            )
            for a in range(columns):
                mat[j, x, row, a] -= (c0 * mat[j, x, c, a] + c1 * mat[j, x, c + 1, a]) + (
                    c2 * mat[j, x, c + 2, a] + c3 * mat[j, x, c + 3, a]
                )
        for c in range(blocks, row):
            c0 = mat[i, u, c, row]
            for a in range(columns):
                mat[j, x, row, a] -= c0 * mat[j, x, c, a]
        inverse = mat[i, u, row, row]
        for a in range(columns):
            mat[j, x, row, a] *= inverse


@kernel
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


@kernel
def inverse_from_cholesky(n, mat, i, u, scratch, j, out):
    """Both triangles of mat[j, out] (n, n) = (U'U)⁻¹; mat[i, scratch] ends as the inverse of U'."""
    for row in range(n):
        for a in range(n):
            mat[i, scratch, row, a] = 0.0
            mat[j, out, row, a] = 0.0
        mat[i, scratch, row, row] = 1.0
    solve_transposed_lower(n, mat, i, u, scratch)
    # Row c of the inverse is 0 beyond c.
    blocks = n - n % 4
    for c in range(0, blocks, 4):
        end = np.uint64(c + 4)
        for a in range(c + 4):
            c0, c1 = mat[i, scratch, c, a], mat[i, scratch, c + 1, a]
            c2, c3 = mat[i, scratch, c + 2, a], mat[i, scratch, c + 3, a]
            for b in range(np.uint64(a), end):
                mat[j, out, a, b] += (
                    c0 * mat[i, scratch, c, b] + c1 * mat[i, scratch, c + 1, b]
                ) + (c2 * mat[i, scratch, c + 2, b] + c3 * mat[i, scratch, c + 3, b])
    for c in range(blocks, n):
        end = np.uint64(c + 1)
        for a in range(c + 1):
            c0 = mat[i, scratch, c, a]
            for b in range(np.uint64(a), end):
                mat[j, out, a, b] += c0 * mat[i, scratch, c, b]
    for a in range(n):
        for b in range(a):
            mat[j, out, a, b] = mat[j, out, b, a]


@kernel
def solve_transposed_lower(n, mat, i, u, x):
    """As solve_transposed_rows, for a right-hand side that is lower triangular."""
    for row in range(n):
        blocks = row - row % 4
        for c in range(0, blocks, 4):
            c0, c1, c2, c3 = (
                mat[i, u, c, row],
                mat[i, u, c + 1, row],
                mat[i, u, c + 2, row],
                mat[i, u, c + 3, row],
            )
            for a in range(c + 4):
                mat[i, x, row, a] -= (c0 * mat[i, x, c, a] + c1 * mat[i, x, c + 1, a]) + (
                    c2 * mat[i, x, c + 2, a] + c3 * mat[i, x, c + 3, a]
                )
        for c in range(blocks, row):
            c0 = mat[i, u, c, row]
            for a in range(c + 1):
                mat[i, x, row, a] -= c0 * mat[i, x, c, a]
        inverse = mat[i, u, row, row]
        for a in range(row + 1):
            mat[i, x, row, a] *= inverse


@kernel
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
