"""Declares the functions of spanning.c and reweighted.c: relaxed games with an entropy."""

from robustruct.core.declare import Floats, Indices
from robustruct.core.library import function
from robustruct.core.structs import (
    Effort,
    RelaxedGibbs,
    SmoothGames,
    SmoothSettings,
    SpanningForests,
    Structure,
)

spanning_forests = function(
    "spanning_forests", int, int, Structure, Indices, Indices
)  # (first, last, structure, order, count)
solve_reweighted = function(
    "solve_reweighted", int, int, SmoothGames, SpanningForests, SmoothSettings, Effort,
    RelaxedGibbs, Floats, Floats,
)  # fmt: skip
# (first, last, game, forests, settings, effort, point, lower, upper)
