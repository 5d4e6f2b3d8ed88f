"""Standardises dense columns for training, and maps weights back to columns as given.

Columns of very different magnitudes make training slow and a common penalty on their weights
unfair. So training sees z = (x - centre) / scale. The shift needs the constant column, whose weight
absorbs it; without that column centre is 0 and scale the root mean square. Weights of z and of x
are equivalent:

    v z + b = (v / scale) x + (b - v centre / scale)

Models store the latter, so prediction and inspection need not know of this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from robustruct.arrays import LARGEST
from robustruct.features.linear import split_weights
from robustruct.features.matrix import FeatureMatrix
from robustruct.features.space import Design, FeatureSpace
from robustruct.features.summary import Moments

CONSTANT = 16 * np.finfo(float).eps
"""A standard deviation up to this times the mean is rounding: the column is constant."""


@dataclass(frozen=True, eq=False)
class StandardColumns:
    """Centre and scale of the columns of a matrix; a last column of ones stays."""

    centre: np.ndarray
    """(d,) subtracted."""
    scale: np.ndarray
    """(d,) divided by."""
    constant: bool
    """Whether the last column is constant."""

    @classmethod
    def of(cls, moments: Moments, constant: bool) -> StandardColumns:
        """Return centre and scale by these moments; constant columns have scale 1."""
        spread = np.sqrt(moments.squares / moments.weight)
        centre, scale = moments.mean, spread
        if not constant:
            centre, scale = np.zeros_like(moments.mean), np.hypot(spread, moments.mean)
        # A constant column would be divided by rounding errors.
        felt = (scale > CONSTANT * np.abs(moments.mean)) & (scale > 1.0 / LARGEST)
        own = [0.0] * constant, [1.0] * constant
        return cls(
            np.append(centre, own[0]), np.append(np.where(felt, scale, 1.0), own[1]), constant
        )

    def apply(self, matrix: FeatureMatrix) -> None:
        """Standardise a dense matrix in place."""
        assert isinstance(matrix, np.ndarray)  # only dense features have moments
        matrix -= self.centre
        matrix /= self.scale

    def to_given(self, weights: np.ndarray) -> None:
        """Map weights (d, m) of standardised columns to columns as given, in place."""
        weights /= self.scale[:, None]
        if self.constant:
            weights[-1] -= self.centre @ weights

    def to_standard(self, weights: np.ndarray) -> None:
        """Map weights (d, m) of columns as given to standardised columns, in place."""
        if self.constant:
            weights[-1] += self.centre @ weights
        weights *= self.scale[:, None]


@dataclass(frozen=True, eq=False)
class Standardization:
    """Standardization of dense node and edge features; other kinds stay as they are."""

    nodes: StandardColumns | None = None
    """None if node features are not dense, or not to be changed."""
    edges: StandardColumns | None = None

    @classmethod
    def of(
        cls, space: FeatureSpace, nodes: Moments | None, edges: Moments | None
    ) -> Standardization:
        """Derive it from the moments of node and edge features, None if not dense."""
        return cls(
            None if nodes is None or not nodes.weight else StandardColumns.of(nodes, space.bias),
            None if edges is None or not edges.weight else StandardColumns.of(edges, True),
        )

    @property
    def trivial(self) -> bool:
        """Whether no column changes."""
        return self.nodes is None and self.edges is None

    def applied(self, design: Design) -> Design:
        """Standardise a design in place, and return it."""
        if self.nodes is not None:
            self.nodes.apply(design.nodes)
        if self.edges is not None:
            self.edges.apply(design.edges)
        return design

    def weights_for_given(
        self, space: FeatureSpace, theta: np.ndarray, n_labels: int
    ) -> np.ndarray:
        """Map weights of standardised columns to columns as given."""
        return self._changed(space, theta, n_labels, StandardColumns.to_given)

    def weights_for_training(
        self, space: FeatureSpace, theta: np.ndarray, n_labels: int
    ) -> np.ndarray:
        """Map weights of columns as given to standardised columns."""
        return self._changed(space, theta, n_labels, StandardColumns.to_standard)

    def _changed(
        self,
        space: FeatureSpace,
        theta: np.ndarray,
        n_labels: int,
        change: Callable[[StandardColumns, np.ndarray], None],
    ) -> np.ndarray:
        if self.trivial:
            return theta
        theta = theta.copy()
        blocks = split_weights(space, theta, n_labels)
        for columns, block in zip((self.nodes, self.edges), blocks, strict=True):
            if columns is not None:
                change(columns, block.reshape(len(block), -1))
        return theta
