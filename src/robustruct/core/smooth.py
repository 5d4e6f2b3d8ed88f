"""Declares the functions of smooth.c and smooth_bounds.c, and one of grams.c (T > 0)."""

from robustruct.core.declare import Floats, Indices, Ints64, Singles
from robustruct.core.library import function
from robustruct.core.structs import (
    ExactCosts,
    Features,
    GibbsAdversary,
    Grams,
    LabelledGraphs,
    PaddedCosts,
    PaddedRules,
    SmoothCall,
    SmoothProblem,
    SmoothSettings,
)

natural_visits = function(
    "natural_visits", bool, Ints64, int, Indices, SmoothCall
)  # (leads, counters, n_order, order, call)
move_predictors = function(
    "move_predictors", int, int, LabelledGraphs, PaddedCosts, PaddedRules, float, Singles
)  # (first, last, samples, costs, rules, inv_mu, marginals)
to_single = function(
    "to_single", int, Indices, int, int, Floats, Singles
)  # (n_rows, rows, k, width, theta, single)
from_single = function(
    "from_single", int, Indices, int, int, Floats, Singles
)  # (n_rows, rows, k, width, theta, single)
sample_grams = function(
    "sample_grams", LabelledGraphs, Features, int, int, Grams
)  # (samples, features, n_node_features, n_edge_features, grams)

smooth_regrets = function(
    "smooth_regrets", int, int, SmoothProblem, Floats, ExactCosts, SmoothSettings, Floats
)  # (first, last, problem, theta, costs, settings, regrets)
smooth_moments = function(
    "smooth_moments", int, int, SmoothProblem, Floats, GibbsAdversary, Floats, Floats
)  # (first, last, problem, share, adversary, r, row_sums)
