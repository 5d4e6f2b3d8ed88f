"""Training at T = 0: what oracle.c, steps.c and ascent.c take."""

from robustruct.core.declare import Floats, Indices
from robustruct.core.library import function
from robustruct.core.structs import Ascent, Marginals, Predictor, Rules

visit_samples = function(
    "visit_samples", int, Indices, int, Ascent, Marginals
)  # (thread, order, n, ascent, adversary)
move_centres = function(
    "move_centres", int, int, Predictor, Rules, Floats
)  # (lo, hi, predictor, rules, r)
