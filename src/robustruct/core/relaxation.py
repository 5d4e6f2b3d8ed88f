"""Declares the functions of relaxation.c and relaxed_labels.c: the local polytope."""

from robustruct.core.declare import Floats, Indices
from robustruct.core.library import function
from robustruct.core.structs import Effort, GameArrays, RelaxedPoint, ScoreArrays, Structure

solve_relaxed = function(
    "solve_relaxed", int, int, GameArrays, Effort, RelaxedPoint, Floats, Floats
)  # (first, last, game, effort, point, lower, upper)
adjust_edges = function(
    "adjust_edges", int, Indices, Structure, ScoreArrays, Floats, Floats, Floats
)  # (n_edges, slots, structure, scores, r, q, missing)
round_labels = function(
    "round_labels", int, int, Structure, ScoreArrays, Floats, Indices, Floats
)  # (first, last, structure, scores, u, labels, values)
