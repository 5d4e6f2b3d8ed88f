"""Declares the functions of messages.c and linear.c: messages on forests, linear maps."""

from robustruct.core.declare import Flags, Floats, Indices, Ints32
from robustruct.core.library import function
from robustruct.core.structs import Exponentials, Gibbs, Rows, ScoreArrays, Structure

max_product = function(
    "max_product", int, int, Structure, ScoreArrays, Floats, Indices, Floats
)  # (first, last, structure, scores, best, labels, values)
labelling_scores = function(
    "labelling_scores", int, int, Structure, ScoreArrays, Indices, Floats
)  # (first, last, structure, scores, labels, values)
sum_product = function(
    "sum_product", int, int, Structure, ScoreArrays, Exponentials, Floats, Gibbs
)  # (first, last, structure, scores, exponentials, share, gibbs)
k_best = function(
    "k_best", int, int, Structure, ScoreArrays, int, Indices, Floats
)  # (lo, hi, structure, scores, size, labels, values)
forest_allowed = function(
    "forest_allowed", int, int, Structure, ScoreArrays, Flags
)  # (first, last, structure, scores, allowed)

assemble_rows = function(
    "assemble_rows", int, Indices, Rows, int, int, Indices, Ints32, Floats
)  # (n_rows, order, raw, n_columns, constant, new_indptr, new_indices, new_data)
sparse_product = function(
    "sparse_product", int, int, Rows, int, Floats, Floats
)  # (first, last, rows, m, weights, out)
sparse_transposed_product = function(
    "sparse_transposed_product", int, int, int, Rows, int, int, Floats, Floats
)  # (first, last, start, rows, n, m, values, out)
sparse_label_sums = function(
    "sparse_label_sums", Rows, Indices, Floats, int, Floats
)  # (rows, labels, weight, k, out)
table_sums = function(
    "table_sums", int, Indices, Indices, int, Floats, Floats
)  # (n_slots, parent, table_of, k, q, out)
table_label_sums = function(
    "table_label_sums", Structure, Indices, Indices, Floats, int, Floats
)  # (structure, table_of, labels, weight, k, out)
