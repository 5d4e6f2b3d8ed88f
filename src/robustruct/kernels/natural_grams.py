"""Products of the feature rows of each sample: how its marginals bend the dual through θ."""

import numpy as np

from robustruct.kernels._jit import helper, kernel
from robustruct.kernels.registers import compact
from robustruct.kernels.row_products import square


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
def _sparse_products(lo, n, rows, last, before, out):
    """out[i * n + j] = <row i, row j>, column by column: few rows have a column in common.

    last (columns,), -1 before and after: the latest entry of each column; before (entries,):
    scratch, the entry of the same column before each.
    """
    indptr, indices, data = rows.indptr, rows.indices, rows.data
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
    """Fill ``grams``; widths: the numbers of columns of node and of edge features."""
    compact()
    nodes, edges = features.nodes, features.edges
    longest = 0
    for s in range(len(samples.offsets) - 1):
        longest = max(longest, samples.offsets[s + 1] - samples.offsets[s])
        longest = max(longest, samples.table_start[s + 1] - samples.table_start[s])
    rows = np.empty(longest, np.intp)
    node_scratch, edge_scratch = np.zeros(widths[0]), np.zeros(widths[1])
    most = 0
    for s in range(len(samples.offsets) - 1):
        begin, end = samples.offsets[s], samples.offsets[s + 1]
        most = max(most, nodes.indptr[end] - nodes.indptr[begin])
    last, before = np.full(widths[0], -1, np.intp), np.empty(most, np.intp)
    for s in range(len(samples.offsets) - 1):
        lo, n = samples.offsets[s], samples.offsets[s + 1] - samples.offsets[s]
        if grams.node_start[s] == grams.node_start[s + 1]:
            begin, end = nodes.indptr[lo], nodes.indptr[lo + n]
            grams.n_columns[s] = _number_columns(
                begin, end, nodes.indices, node_scratch, grams.local
            )
        elif nodes.indptr[lo + n] - nodes.indptr[lo] < widths[0]:
            out = grams.nodes[grams.node_start[s] :]
            _sparse_products(lo, n, nodes, last, before, out)
        else:
            for i in range(n):
                rows[i] = lo + i
            square(rows[:n], nodes, node_scratch, grams.nodes[grams.node_start[s] :])
        lo, m = samples.table_start[s], samples.table_start[s + 1] - samples.table_start[s]
        for t in range(m):
            rows[t] = samples.row[lo + t]
        square(rows[:m], edges, edge_scratch, grams.tables[grams.table_start[s] :])
