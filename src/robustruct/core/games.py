"""Declares the functions of games.c: bounds of games."""

from robustruct.core.declare import Floats
from robustruct.core.library import function
from robustruct.core.structs import GameArrays, ScoreArrays, Strategies, Structure

augmented_unary = function("augmented_unary", GameArrays, Floats, Floats)  # (game, p, out)
sum_largest = function("sum_largest", GameArrays, Floats)  # (game, out)
game_upper = function(
    "game_upper", int, int, GameArrays, Floats, Floats
)  # (first, last, game, p, upper)
game_lower = function(
    "game_lower", int, int, GameArrays, Floats, Floats, Floats
)  # (first, last, game, r, q, lower)
add_chords = function("add_chords", GameArrays, Floats, Floats)  # (game, q, lower)
normalise_predictors = function(
    "normalise_predictors", int, int, ScoreArrays, Floats
)  # (lo, hi, scores, p)
make_feasible = function(
    "make_feasible", int, int, Structure, ScoreArrays, Strategies
)  # (first, last, structure, scores, played)
