"""Declares the functions of decomposition.c: dual decomposition."""

from robustruct.core.declare import Flags, Floats
from robustruct.core.library import function
from robustruct.core.structs import (
    CostArrays,
    GameArrays,
    Prices,
    ScoreArrays,
    StepRule,
    Structure,
)

start_messages = function(
    "start_messages", int, int, Structure, ScoreArrays, Floats, Floats, Prices
)  # (first, last, structure, scores, augmented, worst, prices)
message_sizes = function(
    "message_sizes", int, int, Structure, Floats, Floats
)  # (first, last, structure, weight, size)
descend = function(
    "descend", int, int, GameArrays, CostArrays, Flags, StepRule, Prices
)  # (first, last, game, form, active, rule, prices)
recover_edges = function(
    "recover_edges", int, int, Structure, ScoreArrays, Flags, Floats, Floats
)  # (first, last, structure, scores, active, r, q)
