"""Declares the functions of cliques.c: exact inference over cliques."""

from robustruct.core.declare import Flags, Floats, Indices
from robustruct.core.library import function
from robustruct.core.structs import Gibbs, JunctionTrees, ScoreArrays, Structure

clique_max = function(
    "clique_max", int, int, Structure, JunctionTrees, ScoreArrays, Indices, Floats
)  # (first, last, structure, trees, scores, labels, values)
clique_sum = function(
    "clique_sum", int, int, Structure, JunctionTrees, ScoreArrays, Floats, Gibbs
)  # (first, last, structure, trees, scores, share, gibbs)
clique_allowed = function(
    "clique_allowed", int, int, Structure, JunctionTrees, ScoreArrays, Flags
)  # (first, last, structure, trees, scores, allowed)
clique_k_best = function(
    "clique_k_best", int, int, JunctionTrees, ScoreArrays, int, Indices, Floats
)  # (lo, hi, trees, scores, size, labels, values)

clique_regrets = function(
    "clique_regrets", int, int, JunctionTrees, ScoreArrays, Indices, Floats, Floats
)  # (lo, hi, trees, scores, start, regret, total)
clique_rows = function(
    "clique_rows", int, int, JunctionTrees, int, Indices, Indices, Indices, Floats
)  # (lo, hi, trees, k, start, rows, columns, values)
consistent_marginals = function(
    "consistent_marginals",
    *(int, int, JunctionTrees, int, Indices, Floats, Floats, Floats, Floats),
)  # (lo, hi, trees, k, start, regret, tables, r, q)
