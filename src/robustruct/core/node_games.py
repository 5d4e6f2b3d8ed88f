"""Declares the function of node_games.c: games on single nodes."""

from robustruct.core.declare import Floats
from robustruct.core.library import function
from robustruct.core.structs import CostArrays

ZERO_ONE, ABSOLUTE, SQUARED, ANY = range(4)  # kinds of cost

node_equilibria = function(
    "node_equilibria", int, int, CostArrays, Floats, Floats, Floats, Floats, Floats
)  # (lo, hi, form, weight, scores, p, r, value)
