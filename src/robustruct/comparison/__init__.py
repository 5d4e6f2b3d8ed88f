"""The family and its corners on the same data and cost, and which differences are real."""

from robustruct.comparison.compare import Comparison, compare
from robustruct.comparison.samples import Samples

__all__ = ["Comparison", "Samples", "compare"]
