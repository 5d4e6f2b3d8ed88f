"""Data that need no files: an embedded set, and generators with a known truth."""

from robustruct.datasets.counter import load_counter
from robustruct.datasets.dataset import Dataset, position_weights
from robustruct.datasets.synthetic import make_chains, make_grids, make_trees

__all__ = [
    "Dataset",
    "load_counter",
    "make_chains",
    "make_grids",
    "make_trees",
    "position_weights",
]
