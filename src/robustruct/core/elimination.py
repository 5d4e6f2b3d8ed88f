"""Declares the functions of elimination.c: elimination orders and forests."""

from robustruct.core.declare import Flags, Indices
from robustruct.core.library import function
from robustruct.core.structs import Structure

TOO_SHORT = -2  # as in elimination.c

BY_DEGREE, BY_FILL, AS_LISTED = range(3)  # rules of greedy_order
greedy_order = function(
    "greedy_order", int, int, Indices, int, int, Indices
)  # (n_nodes, n_edges, edges, rule, limit, order)
best_order = function("best_order", int, int, Indices, Indices)  # (n_nodes, n_edges, edges, order)
contraction_bound = function("contraction_bound", int, int, Indices)  # (n_nodes, n_edges, edges)
later_neighbours = function(
    "later_neighbours", int, Structure, int, Indices, Indices, Indices, Indices
)  # (n_nodes, structure, capacity, sizes, members, first_child, next_child)
root_forest = function(
    "root_forest", int, int, Indices, Indices, Indices, Indices, Flags
)  # (n_nodes, n_edges, edges, order, parent, edge_of, flipped)
peel_forests = function(
    "peel_forests", int, int, Indices, Indices
)  # (n_nodes, n_edges, edges, forest)
