"""The interior point on games: what interior.c takes."""

from robustruct.core.declare import Floats
from robustruct.core.library import function
from robustruct.core.structs import Effort, GameArrays, Strategies

interior_point = function(
    "interior_point", int, int, GameArrays, Floats, float, Effort, bool, Strategies, Strategies
)  # (first, last, game, loss, spread, effort, warm, start, found)
