"""Declares the function of interior.c: the interior-point method on games."""

from robustruct.core.declare import Floats
from robustruct.core.library import function
from robustruct.core.structs import Effort, GameArrays, Strategies

interior_point = function(
    "interior_point", int, int, GameArrays, Floats, float, Effort, bool, Strategies, Strategies
)  # (first, last, game, loss, spread, effort, warm, start, found)
