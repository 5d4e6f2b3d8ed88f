"""Means and variances of dense columns, which can be merged over shards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from robustruct.features.columns import DENSE, Blocks, common_kind, numeric_blocks, numeric_width

PIECE = 2**20  # numbers (8 MB) copied at once, so that all data are never copied


@dataclass(frozen=True, eq=False)
class Moments:
    """Moments of the columns of dense features; a row has the weight of its sample."""

    weight: float
    """Total weight of the rows."""
    mean: np.ndarray
    """(d,) weighted means."""
    squares: np.ndarray
    """(d,) weighted sums of squared distances from the mean."""

    @classmethod
    def of(cls, blocks: Blocks, sample_weight: np.ndarray | None = None) -> Moments | None:
        """Compute moments; ``sample_weight`` (S,) is 1 by default. None if not dense."""
        if common_kind(blocks) != DENSE:
            return None
        sizes = np.diff(blocks.offsets)
        weight = np.ones(len(sizes)) if sample_weight is None else sample_weight
        width = numeric_width(blocks)
        moments = cls(0.0, np.zeros(width), np.zeros(width))
        row_weight, first = np.repeat(weight, sizes), 0
        with np.errstate(over="ignore", invalid="ignore"):  # encoding checks values
            for rows in _pieces(blocks, width):
                moments = moments.merged(cls._of_rows(rows, row_weight[first : first + len(rows)]))
                first += len(rows)
        return moments

    @classmethod
    def _of_rows(cls, rows: np.ndarray, weight: np.ndarray) -> Moments:
        total = float(weight.sum())
        if not total > 0:
            return cls(0.0, np.zeros(rows.shape[1]), np.zeros(rows.shape[1]))
        mean = weight @ rows / total
        mean += weight @ (rows - mean) / total  # makes the mean of a constant column exact
        return cls(total, mean, weight @ np.square(rows - mean))

    def merged(self, other: Moments) -> Moments:
        """Return the moments of the rows of both (Chan, Golub and LeVeque)."""
        if not (self.weight and other.weight):
            return self if self.weight else other
        total = self.weight + other.weight
        # Differences of means, not sums of squares, so that large means do not cancel.
        apart = other.mean - self.mean
        mean = self.mean + apart * (other.weight / total)
        between = np.square(apart) * (self.weight * (other.weight / total))
        return Moments(total, mean, self.squares + other.squares + between)


def _pieces(blocks: Blocks, width: int) -> Iterator[np.ndarray]:
    """Yield all rows in order, in C-contiguous pieces that do not depend on the blocks' layout."""
    most = max(1, PIECE // max(width, 1))
    waiting: list[np.ndarray] = []
    n_waiting = 0
    for block in numeric_blocks(blocks, width):
        for first in range(0, len(block), most):
            waiting.append(block[first : first + most])
            n_waiting += len(waiting[-1])
            if n_waiting >= most:
                yield np.ascontiguousarray(np.concatenate(waiting, dtype=np.float64))
                waiting, n_waiting = [], 0
    if waiting:
        yield np.ascontiguousarray(np.concatenate(waiting, dtype=np.float64))
