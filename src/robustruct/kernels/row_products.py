"""Products of a sample's feature rows, by which it knows what a step does to its own scores."""

import numpy as np

from robustruct.kernels._jit import helper, kernel


@helper
def square(rows, features, spread_out, out):
    """out[i * n + j] = <rows[i], rows[j]> for n rows.

    spread_out (features,) is scratch, zero before and after.
    """
    n = len(rows)
    indptr, indices, data = features.indptr, features.indices, features.data
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
def all_products(structure, features, tables, n_columns, products):
    """Fill ``products``; distinct tables in the order in which `gather_scores` meets them.

    n_columns: the larger of the numbers of node and of edge features.
    """
    offsets, parent, table_of = structure.offsets, structure.parent, tables.table_of
    seen = np.full(len(tables.row), -1, np.intp)
    spread_out = np.zeros(n_columns)
    longest = 0
    for s in range(len(offsets) - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    rows = np.empty(longest, np.intp)
    for s in range(len(offsets) - 1):
        lo, n = offsets[s], offsets[s + 1] - offsets[s]
        for i in range(n):
            rows[i] = lo + i
        out = products.nodes[products.node_start[s] : products.node_start[s + 1]]
        square(rows[:n], features.nodes, spread_out, out)
        distinct = 0
        for i in range(lo, lo + n):
            if parent[i] >= 0 and seen[table_of[i]] != s:
                seen[table_of[i]] = s
                rows[distinct] = tables.row[table_of[i]]
                distinct += 1
        out = products.tables[products.table_start[s] : products.table_start[s + 1]]
        square(rows[:distinct], features.edges, spread_out, out)
