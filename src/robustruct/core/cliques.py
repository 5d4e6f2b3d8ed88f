"""Exact inference over cliques: what cliques.c takes."""

from robustruct.core.declare import Floats, Indices
from robustruct.core.library import function
from robustruct.core.structs import Gibbs, JunctionTrees, ScoreArrays, Structure

clique_max = function(
    "clique_max", int, int, Structure, JunctionTrees, ScoreArrays, Indices, Floats
)  # (first, last, structure, trees, scores, labels, values)
clique_sum = function(
    "clique_sum", int, int, Structure, JunctionTrees, ScoreArrays, Floats, Gibbs
)  # (first, last, structure, trees, scores, share, gibbs)
