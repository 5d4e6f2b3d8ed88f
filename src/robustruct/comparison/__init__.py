"""The family and its corners on the same data and cost, and which differences are real."""

from robustruct.comparison.compare import (
    Comparison,
    Difference,
    Fit,
    Method,
    Recommendation,
    compare,
    recommendation,
)
from robustruct.comparison.examples import Example
from robustruct.comparison.samples import Samples

__all__ = [
    "Comparison",
    "Difference",
    "Example",
    "Fit",
    "Method",
    "Recommendation",
    "Samples",
    "compare",
    "recommendation",
]
