"""Encodes dicts, sparse and dense input in one feature space; scores, and their adjoint."""

from robustruct.features.linear import (
    adjoint,
    labelling_features,
    n_weights,
    scores,
    split_weights,
    sum_over_tables,
)
from robustruct.features.matrix import FeatureMatrix, SparseRows
from robustruct.features.names import CodedAttributes, PackedNames
from robustruct.features.samples import Parts
from robustruct.features.space import Design, FeatureSpace, sorted_types
from robustruct.features.standardization import Standardization
from robustruct.features.summary import FeatureSummary, Moments

__all__ = [
    "CodedAttributes",
    "Design",
    "FeatureMatrix",
    "FeatureSpace",
    "FeatureSummary",
    "Moments",
    "PackedNames",
    "Parts",
    "SparseRows",
    "Standardization",
    "adjoint",
    "labelling_features",
    "n_weights",
    "scores",
    "sorted_types",
    "split_weights",
    "sum_over_tables",
]
