"""Estimates the memory of a fit, and refuses one that is too large before it starts.

Weights of transitions grow with the square of the number of labels, so a small file whose label
column was chosen by mistake can need more than any machine has.
"""

from __future__ import annotations

from bisect import bisect
from typing import NamedTuple

import numpy as np

from robustruct.errors import IncompatibleError
from robustruct.parallel import available_memory


class Need(NamedTuple):
    """float64 numbers that a fit holds at its peak, as measured, per unit of size."""

    weight: float
    """Per weight."""
    node: float
    """Per label of every node."""
    pair: float
    """Per pair of labels."""
    sample: float
    """Per pair of labels of every sample with edges."""


# Measured, by optimizer.
QUASI_NEWTON = Need(66, 4, 0, 0)  # L-BFGS keeps pairs of past steps and gradients
ORTHANT_WISE = Need(5, 3, 7, 0)
DUAL = Need(3, 4, 10, 0)
NATURAL = Need(2, 4, 15, 1)


class Sizes(NamedTuple):
    """Sizes that memory depends on."""

    n_labels: int
    n_features: int
    """Number of node features."""
    n_weights: int
    n_nodes: int = 0
    """Nodes in this process."""
    n_with_edges: int = 0
    """Samples with edges in this process."""

    def bytes(self, need: Need) -> float:
        """Return the bytes that a fit of this size takes."""
        k = float(self.n_labels)
        parts = (self.n_weights, self.n_nodes * k, k * k, self.n_with_edges * k * k)
        return 8.0 * float(np.dot(need, parts))

    def with_labels(self, n_labels: int) -> Sizes:
        """Return the sizes for another number of labels."""
        k, d = self.n_labels, self.n_features
        tables = (self.n_weights - d * k) // (k * k)
        weights = d * n_labels + tables * n_labels * n_labels
        return self._replace(n_labels=n_labels, n_weights=weights)


def need_of(objective: str, temperature: float, l1: float) -> Need:
    """Return the need of the default optimizer of an objective.

    A likelihood's natural ascent needs less than L-BFGS, but may have to hand over to it.
    """
    if objective == "likelihood":
        return ORTHANT_WISE if l1 > 0 else QUASI_NEWTON
    return NATURAL if temperature > 0 else DUAL


def check_memory(sizes: Sizes, need: Need) -> None:
    """Refuse a fit that this machine has no memory for."""
    wanted, free = sizes.bytes(need), available_memory()
    if wanted <= free:
        return
    k = sizes.n_labels
    fit = bisect(range(k), free, key=lambda fewer: sizes.with_labels(fewer).bytes(need)) - 1
    other = ""
    if sizes.bytes(DUAL) < wanted:
        other = f", an AGM or SSVM with temperature=0 (about {_gib(sizes.bytes(DUAL))})"
    raise IncompatibleError(
        f"{k:,} labels and {sizes.n_features:,} features make {sizes.n_weights:,} weights, of "
        f"which {k:,} times {k:,} are about transitions; this fit needs about {_gib(wanted)} of "
        f"memory, and {_gib(free)} are free. Look whether these are the labels meant (the right "
        f"column?); use fewer (about {max(fit, 0):,} would fit), fewer "
        f"features{other}, or a machine with more memory."
    )


def _gib(n_bytes: float) -> str:
    return f"{n_bytes / 2**30:.3g} GiB"
