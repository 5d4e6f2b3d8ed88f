"""Products of a sample's feature rows, by which a step updates the sample's own scores."""

import numpy as np

from robustruct.kernels._jit import helper, kernel


@kernel
def gram_sizes(offsets, parent, table_of, n_tables, node_start, table_start):
    """Where each sample's Gram matrices of nodes and of distinct tables begin; outputs (S+1,)."""
    seen = np.full(n_tables, -1, np.intp)
    node_start[0] = 0
    table_start[0] = 0
    for s in range(len(offsets) - 1):
        distinct = 0
        for i in range(offsets[s], offsets[s + 1]):
            if parent[i] >= 0 and seen[table_of[i]] != s:
                seen[table_of[i]] = s
                distinct += 1
        node_start[s + 1] = node_start[s] + (offsets[s + 1] - offsets[s]) ** 2
        table_start[s + 1] = table_start[s] + distinct**2


@helper
def row_products(rows, n, indptr, indices, data, spread_out, out):
    """out[i * n + j] = <row i, row j>; spread_out is scratch of a row's width, zero outside."""
    for i in range(n):
        for at in range(indptr[rows[i]], indptr[rows[i] + 1]):
            spread_out[indices[at]] = data[at]
        for j in range(i + 1):
            total = 0.0
            for at in range(indptr[rows[j]], indptr[rows[j] + 1]):
                total += data[at] * spread_out[indices[at]]
            out[i * n + j] = total
            out[j * n + i] = total
        for at in range(indptr[rows[i]], indptr[rows[i] + 1]):
            spread_out[indices[at]] = 0.0


@kernel
def gram_matrices(
    offsets, parent, table_of, table_row, x_indptr, x_indices, x_data, n_node_features,
    f_indptr, f_indices, f_data, n_edge_features, node_start, table_start, node_gram, table_gram,
):  # fmt: skip
    """Fill node_gram and table_gram; distinct tables in the order in which _gather meets them."""
    seen = np.full(len(table_row), -1, np.intp)
    node_scratch = np.zeros(n_node_features)
    edge_scratch = np.zeros(n_edge_features)
    longest = 0
    for s in range(len(offsets) - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    rows = np.empty(longest, np.intp)
    for s in range(len(offsets) - 1):
        lo, hi = offsets[s], offsets[s + 1]
        for i in range(lo, hi):
            rows[i - lo] = i
        row_products(
            rows, hi - lo, x_indptr, x_indices, x_data, node_scratch, node_gram[node_start[s] :]
        )
        distinct = np.intp(0)  # a plain 0 has a type of its own, and code for it
        for i in range(lo, hi):
            if parent[i] >= 0 and seen[table_of[i]] != s:
                seen[table_of[i]] = s
                rows[distinct] = table_row[table_of[i]]
                distinct += 1
        row_products(
            rows, distinct, f_indptr, f_indices, f_data, edge_scratch, table_gram[table_start[s] :]
        )
