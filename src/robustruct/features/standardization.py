"""Dense columns brought to mean 0 and spread 1 for training, and the weights back from there.

A column of readings near 1000 beside one of thousandths makes training slow, and a penalty on their
weights unfair. So training sees z = (x - centre) / scale, where the constant column, whose weight
can take the shift, is there; without it nothing is shifted, and columns are scaled by their root
mean square. Weights for z are equal to weights for x:

    v z + b = (v / scale) x + (b - v centre / scale)

Models keep the latter, so whoever predicts or reads weights need not know of this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from robustruct.arrays import LARGEST
from robustruct.features.linear import split_weights
from robustruct.features.matrix import FeatureMatrix
from robustruct.features.moments import Moments
from robustruct.features.space import Design, FeatureSpace

CONSTANT = 16 * np.finfo(float).eps
"""A spread that is no larger than this times the mean is rounding: the column is constant."""


@dataclass(frozen=True, eq=False)
class StandardColumns:
    """What is done to the columns of a matrix; a last column of ones, if any, stays."""

    centre: np.ndarray
    """(d,)"""
    scale: np.ndarray
    """(d,)"""
    constant: bool
    """Whether the last column is constant."""

    @classmethod
    def of(cls, moments: Moments, constant: bool) -> StandardColumns:
        """Columns without spread are not scaled."""
        spread = np.sqrt(moments.squares / moments.weight)
        centre, scale = moments.mean, spread
        if not constant:
            centre, scale = np.zeros_like(moments.mean), np.hypot(spread, moments.mean)
        felt = (scale > CONSTANT * np.abs(moments.mean)) & (scale > 1.0 / LARGEST)
        own = [0.0] * constant, [1.0] * constant
        return cls(
            np.append(centre, own[0]), np.append(np.where(felt, scale, 1.0), own[1]), constant
        )

    def apply(self, matrix: FeatureMatrix) -> None:
        """Change a dense matrix in place."""
        assert isinstance(matrix, np.ndarray)  # moments are of dense features only
        matrix -= self.centre
        matrix /= self.scale

    def to_given(self, weights: np.ndarray) -> None:
        """Turn weights (d, m) for columns as training sees them into those for columns as given."""
        weights /= self.scale[:, None]
        if self.constant:
            weights[-1] -= self.centre @ weights

    def to_standard(self, weights: np.ndarray) -> None:
        """The other way round."""
        if self.constant:
            weights[-1] += self.centre @ weights
        weights *= self.scale[:, None]


@dataclass(frozen=True, eq=False)
class Standardization:
    """How training sees dense features; features of other kinds it sees as they are."""

    nodes: StandardColumns | None = None
    """None where node features are not dense, or not to be changed."""
    edges: StandardColumns | None = None

    @classmethod
    def of(
        cls, space: FeatureSpace, nodes: Moments | None, edges: Moments | None
    ) -> Standardization:
        """By the moments of node and edge features, None where these are not dense."""
        return cls(
            None if nodes is None or not nodes.weight else StandardColumns.of(nodes, space.bias),
            None if edges is None or not edges.weight else StandardColumns.of(edges, True),
        )

    @property
    def trivial(self) -> bool:
        """Whether nothing is changed."""
        return self.nodes is None and self.edges is None

    def applied(self, design: Design) -> Design:
        """The design as training sees it, in the memory of the one given."""
        if self.nodes is not None:
            self.nodes.apply(design.nodes)
        if self.edges is not None:
            self.edges.apply(design.edges)
        return design

    def weights_for_given(
        self, space: FeatureSpace, theta: np.ndarray, n_labels: int
    ) -> np.ndarray:
        """Weights for features as given, from those that training has found."""
        return self._changed(space, theta, n_labels, StandardColumns.to_given)

    def weights_for_training(
        self, space: FeatureSpace, theta: np.ndarray, n_labels: int
    ) -> np.ndarray:
        """Weights for training to begin with, from those for features as given."""
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
