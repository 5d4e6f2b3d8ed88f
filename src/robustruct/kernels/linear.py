"""Linear maps between weights and scores.

Sparse rows are indptr (n+1,) intp, indices (nnz,) int32 and data (nnz,) float64.
"""

import numpy as np

from robustruct.kernels._jit import helper, kernel


@kernel
def assemble_rows(
    order, indptr, indices, data, n_columns, constant, new_indptr, new_indices, new_data
):
    """Copy rows ``order`` of a raw sparse matrix, made clean; return the number of entries.

    Entries of value 0 or column -1 (unknown) are dropped and repeated columns of a row added up.
    ``constant`` is the column of a 1 appended to every row, or -1. new_indptr (n+1,) intp,
    new_indices int32 and new_data with room for every entry and constant, out.
    """
    place = np.full(n_columns, -1, np.intp)
    n = 0
    new_indptr[0] = 0
    for i in range(len(order)):
        start = n
        for j in range(indptr[order[i]], indptr[order[i] + 1]):
            column = indices[j]
            if column < 0 or data[j] == 0.0:
                continue
            if place[column] >= start:
                new_data[place[column]] += data[j]
                continue
            place[column] = n
            new_indices[n] = column
            new_data[n] = data[j]
            n += 1
        if constant >= 0:
            new_indices[n] = constant
            new_data[n] = 1.0
            n += 1
        new_indptr[i + 1] = n
    return n


@helper
def row_product(begin, end, indices, data, weights, base, out):
    """out (m,) = base (m,) + Σ_j data[j] weights[indices[j]] over entries begin .. end-1.

    From eight columns on, eight sums at a time stay in registers (the last eight overlap those
    before): stores and loads of every sum for every entry would take most of the time.
    """
    m = weights.shape[1]
    if m < 8:
        for a in range(m):
            out[a] = base[a]
        for j in range(begin, end):
            value = data[j]
            row = weights[indices[j]]
            for a in range(m):
                out[a] += value * row[a]
        return
    one = np.uint64(1)  # unsigned, or numba would allow for negative indices
    for start in range(0, m, 8):
        a0 = np.uint64(min(start, m - 8))
        a1 = a0 + one
        a2 = a1 + one
        a3 = a2 + one
        a4 = a3 + one
        a5 = a4 + one
        a6 = a5 + one
        a7 = a6 + one
        s0, s1, s2, s3 = base[a0], base[a1], base[a2], base[a3]
        s4, s5, s6, s7 = base[a4], base[a5], base[a6], base[a7]
        for j in range(begin, end):
            value = data[j]
            i = np.uint64(indices[j])
            v0, v1, v2, v3 = weights[i, a0], weights[i, a1], weights[i, a2], weights[i, a3]
            v4, v5, v6, v7 = weights[i, a4], weights[i, a5], weights[i, a6], weights[i, a7]
            s0, s1, s2, s3 = s0 + value * v0, s1 + value * v1, s2 + value * v2, s3 + value * v3
            s4, s5, s6, s7 = s4 + value * v4, s5 + value * v5, s6 + value * v6, s7 + value * v7
        out[a0], out[a1], out[a2], out[a3] = s0, s1, s2, s3
        out[a4], out[a5], out[a6], out[a7] = s4, s5, s6, s7


@kernel
def sparse_product(first, last, indptr, indices, data, weights, out):
    """Rows first .. last-1 of the product with weights (d, m), into out (n, m)."""
    nothing = np.zeros(weights.shape[1])
    for i in range(first, last):
        row_product(indptr[i], indptr[i + 1], indices, data, weights, nothing, out[i])


@kernel
def sparse_transposed_product(first, last, start, indptr, indices, data, values, out):
    """Add to rows first .. last-1 of out (d, m) a transposed matrix times values (n, m).

    The matrix is rows start .. start+n-1 of the one given.
    """
    n, m = values.shape
    for i in range(n):
        row = values[i]
        empty = True
        for a in range(m):
            empty = empty and row[a] == 0.0
        if empty:  # as for most nodes in the moments of training
            continue
        for j in range(indptr[start + i], indptr[start + i + 1]):
            if first <= indices[j] < last:
                value = data[j]
                total = out[indices[j]]
                for a in range(m):
                    total[a] += value * row[a]


@kernel
def sparse_label_sums(indptr, indices, data, labels, weight, out):
    """Add weight[i] times row i to column labels[i] of out (d, k)."""
    for i in range(len(labels)):
        for j in range(indptr[i], indptr[i + 1]):
            out[indices[j], labels[i]] += weight[i] * data[j]


@kernel
def table_sums(parent, table_of, q, out):
    """Add the edge marginals q (slots, k, k) to their tables in out (T, k, k)."""
    k = q.shape[1]
    for i in range(len(parent)):
        if parent[i] < 0:
            continue
        total = out[table_of[i]]
        for b in range(k):
            for a in range(k):
                total[b, a] += q[i, b, a]


@kernel
def table_label_sums(child, parent, table_of, labels, weight, out):
    """Add weight[i] to the pair of labels on every edge of node i, in its table of out."""
    for e in range(len(parent)):
        if parent[e] >= 0:
            i = child[e]
            out[table_of[e], labels[i], labels[parent[e]]] += weight[i]
