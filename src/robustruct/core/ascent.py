"""Declares functions of ascent.c, mixtures.c, adversary.c, oracle.c and grams.c (T = 0)."""

from robustruct.core.declare import Floats, Indices
from robustruct.core.library import function
from robustruct.core.structs import (
    Ascent,
    Features,
    JunctionTrees,
    Marginals,
    Mixtures,
    Predictor,
    Products,
    Rules,
    Structure,
    TableRows,
)

visit_samples = function(
    "visit_samples", int, Indices, int, Ascent, Marginals
)  # (thread, order, n, ascent, adversary)
visit_cyclic_samples = function(
    "visit_cyclic_samples", Indices, int, Ascent, JunctionTrees, Mixtures
)  # (order, n, ascent, trees, mixtures)
move_centres = function(
    "move_centres", int, int, Predictor, Rules, Floats
)  # (lo, hi, predictor, rules, r)
row_products = function(
    "row_products", Structure, Features, TableRows, int, Products
)  # (structure, features, tables, columns, products)

repair_pairs = function(
    "repair_pairs", int, int, Structure, Marginals
)  # (first, last, structure, marginals)
pair_sums = function(
    "pair_sums", Structure, Indices, Floats, Marginals, Floats
)  # (structure, table_of, share, marginals, out)
repair_mixtures = function(
    "repair_mixtures", int, int, Structure, Mixtures
)  # (first, last, structure, mixtures)
mixture_sums = function(
    "mixture_sums", Structure, Indices, Floats, Mixtures, Floats
)  # (structure, table_of, share, mixtures, out)
