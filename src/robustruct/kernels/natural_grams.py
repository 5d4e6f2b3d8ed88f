"""Products of the feature rows of each sample: how its marginals bend the dual through θ."""

import numpy as np

from robustruct.kernels._jit import helper, kernel
from robustruct.kernels.row_products import square
from robustruct.kernels.structs import Rows


@helper
def _number_columns(begin, end, indices, scratch, local):
    """Number the columns of entries begin .. end-1 as they come; return how many there are."""
    used = 0
    for j in range(begin, end):
        if scratch[indices[j]] == 0.0:
            used += 1
            scratch[indices[j]] = used
        local[j] = scratch[indices[j]] - 1.0
    for j in range(begin, end):
        scratch[indices[j]] = 0.0
    return used


@helper
def _sparse_products(lo, n, indptr, indices, data, last, before, out):
    """out[i * n + j] = <row i, row j>, column by column: few rows have a column in common.

    last (columns,), -1 before and after: the latest entry of each column; before (entries,):
    scratch, the entry of the same column before each.
    """
    for i in range(n * n):
        out[i] = 0.0
    begin = indptr[lo]
    for i in range(n):
        for j in range(indptr[lo + i], indptr[lo + i + 1]):
            before[j - begin] = last[indices[j]]
            last[indices[j]] = j - begin
    i = n - 1
    for j in range(indptr[lo + n] - 1, begin - 1, -1):
        while j < indptr[lo + i]:
            i -= 1
        out[i * n + i] += data[j] ** 2
        last[indices[j]] = -1
        other, row = before[j - begin], i - 1
        while other >= 0:
            while begin + other < indptr[lo + row]:
                row -= 1
            product = data[j] * data[begin + other]
            out[i * n + row] += product
            out[row * n + i] += product
            other = before[other]


@kernel
def natural_grams(samples, features, widths, grams):
    """Fill ``grams``; widths: the numbers of columns of x and of f."""
    longest = 0
    for s in range(len(samples.offsets) - 1):
        longest = max(longest, samples.offsets[s + 1] - samples.offsets[s])
        longest = max(longest, samples.table_start[s + 1] - samples.table_start[s])
    rows = np.empty(longest, np.intp)
    x_scratch, f_scratch = np.zeros(widths[0]), np.zeros(widths[1])
    most = 0
    for s in range(len(samples.offsets) - 1):
        begin, end = samples.offsets[s], samples.offsets[s + 1]
        most = max(most, features.x_indptr[end] - features.x_indptr[begin])
    nodes = Rows(features.x_indptr, features.x_indices, features.x_data)
    edges = Rows(features.f_indptr, features.f_indices, features.f_data)
    last, before = np.full(widths[0], -1, np.intp), np.empty(most, np.intp)
    for s in range(len(samples.offsets) - 1):
        lo, n = samples.offsets[s], samples.offsets[s + 1] - samples.offsets[s]
        if grams.node_start[s] == grams.node_start[s + 1]:
            begin, end = features.x_indptr[lo], features.x_indptr[lo + n]
            grams.n_columns[s] = _number_columns(
                begin, end, features.x_indices, x_scratch, grams.local
            )
        elif features.x_indptr[lo + n] - features.x_indptr[lo] < widths[0]:
            _sparse_products(
                lo, n, features.x_indptr, features.x_indices, features.x_data, last, before,
                grams.nodes[grams.node_start[s] :],
            )  # fmt: skip
        else:
            for i in range(n):
                rows[i] = lo + i
            square(rows[:n], nodes, x_scratch, grams.nodes[grams.node_start[s] :])
        lo, m = samples.table_start[s], samples.table_start[s + 1] - samples.table_start[s]
        for t in range(m):
            rows[t] = features.row[lo + t]
        square(rows[:m], edges, f_scratch, grams.tables[grams.table_start[s] :])
