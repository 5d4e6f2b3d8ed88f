"""Columns of features that differ in size by orders of magnitude, brought to one size.

Optimizers look for θ' = θ / s, with one power of two s_f <= 1 for each row f of θ, and see features
x'_f = s_f x_f: scores, moments times s and bounds are the same, and the penalty on a weight is
alpha s_f² instead of alpha. The objective does not change, only the metric of its steps. Powers of
two round nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from robustruct._lazy import cached_property
from robustruct.features import Design, FeatureMatrix, SparseRows
from robustruct.objectives.adversarial import Problem


@dataclass(frozen=True, eq=False)
class Columns:
    """How large the features are, column by column; columns of nodes first, then those of edges."""

    squares: np.ndarray
    """Sum of squares of each."""
    entries: np.ndarray
    """Values that are not zero."""
    n_nodes: int
    """Nodes that both are summed over."""

    @classmethod
    def of(cls, design: Design) -> Columns:
        """The columns of a design; an edge feature counts as often as edges have it."""
        slots = np.flatnonzero(design.batch.parent >= 0)
        rows = design.table_row[design.table_of[slots]]
        uses = np.bincount(rows, minlength=design.edges.shape[0]).astype(float)
        parts = [_sums(design.nodes), _sums(design.edges, uses)]
        squares, entries = (np.concatenate(both) for both in zip(*parts, strict=True))
        return cls(squares, entries, design.batch.n_nodes)

    @classmethod
    def of_all(cls, parts: Iterable[Columns]) -> Columns:
        """The columns of shards together."""
        all_parts = list(parts)
        return cls(
            np.sum([part.squares for part in all_parts], axis=0),
            np.sum([part.entries for part in all_parts], axis=0),
            sum(part.n_nodes for part in all_parts),
        )

    def scales(self, least: float) -> np.ndarray:
        """s of each column; those whose values are below ``least`` count as if they were as large.

        Values are a column's root mean square where it is not zero, so columns of zeros and ones
        are of one size, however rare the ones.
        """
        with np.errstate(over="ignore"):
            size = np.sqrt(np.minimum(self.squares, 1e300) / np.maximum(self.entries, 1.0))
        if not size.any():
            return np.ones(len(size))
        least = max(least, float(size[size > 0].min()))
        return np.exp2(-np.round(np.log2(np.maximum(size, least) / least)))

    def stiffness(self, frequent: float, least: float) -> np.ndarray:
        """What columns are multiplied with if at least ``frequent`` nodes have them: 1/2, 1/4, ...

        A quarter for four times as many, and so on; ``least`` at least.
        """
        often = np.maximum(self.entries / frequent, 0.5)
        return np.maximum(np.exp2(-np.floor(np.log2(often) / 2 + 1.0)), least)


def _sums(matrix: FeatureMatrix, times: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(d,) sums of squares of the columns, and of entries that are not zero.

    Each row counts once, or ``times``.
    """
    with np.errstate(over="ignore"):
        if not isinstance(matrix, SparseRows):
            times = np.ones(len(matrix)) if times is None else times
            return times @ matrix**2, times @ (matrix != 0)
        width = matrix.shape[1]
        if times is None:
            entries = np.diff(matrix.column_offsets).astype(float)
            if (matrix.data == 1.0).all():  # as in most text
                return entries, entries
            return np.bincount(matrix.indices, matrix.data**2, width), entries
        each = np.repeat(times, np.diff(matrix.indptr))
        return (
            np.bincount(matrix.indices, each * matrix.data**2, width),
            np.bincount(matrix.indices, each, width),
        )


@dataclass(frozen=True, eq=False)
class Scales:
    """s, for the columns where it is not 1."""

    index: np.ndarray
    """Columns of the nodes' features, then of the edges'."""
    factor: np.ndarray
    n_columns: tuple[int, int]
    n_labels: int

    @classmethod
    def of(cls, scales: np.ndarray, n_columns: tuple[int, int], n_labels: int) -> Scales:
        """From s of every column."""
        index = np.flatnonzero(scales != 1.0)
        return cls(index, scales[index], n_columns, n_labels)

    @property
    def trivial(self) -> bool:
        """Whether nothing is scaled."""
        return len(self.index) == 0

    @cached_property
    def of_rows(self) -> np.ndarray:
        """s of every row of θ, as long as there are labels; (1,) where it is 1 for all."""
        if self.trivial:
            return np.ones(1)
        d, scales = self.n_columns[0], self._of_columns
        return np.concatenate([scales[:d], np.repeat(scales[d:], self.n_labels)])

    @property
    def _of_columns(self) -> np.ndarray:
        scales = np.ones(sum(self.n_columns))
        scales[self.index] = self.factor
        return scales

    @cached_property
    def squares(self) -> np.ndarray:
        """The square of `of_rows`: the penalty on a row's weights relative to alpha."""
        return self.of_rows**2

    def unscaled(self, theta: np.ndarray) -> np.ndarray:
        """The weights behind θ / s; the same array where nothing is scaled."""
        return theta if self.trivial else self._times(theta, self.of_rows)

    def divided(self, weights: np.ndarray) -> np.ndarray:
        """θ / s; the same array where nothing is scaled. Powers of two have exact inverses."""
        return weights if self.trivial else self._times(weights, 1.0 / self.of_rows)

    def _times(self, vector: np.ndarray, factors: np.ndarray) -> np.ndarray:
        return (vector.reshape(len(factors), -1) * factors[:, None]).ravel()

    def scaled_l1(self, l1: float) -> np.ndarray:
        """The penalty on each |θ / s| that is ``l1`` on |θ|; (1,) where it is the same for all."""
        return l1 * (self.of_rows if self.trivial else np.repeat(self.of_rows, self.n_labels))

    def scaled(self, problem: Problem) -> Problem:
        """The same problem, about θ / s."""
        if self.trivial:
            return problem
        d = self.n_columns[0]
        scales, design = self._of_columns, problem.design
        nodes, edges = _times(design.nodes, scales[:d]), _times(design.edges, scales[d:])
        partial = problem.partial
        if partial is not None:
            partial = partial.scaled(self.of_rows)
        return replace(problem, design=replace(design, nodes=nodes, edges=edges), partial=partial)


UNSCALED = Scales(np.zeros(0, np.intp), np.zeros(0), (0, 0), 0)


def _times(matrix: FeatureMatrix, factor: np.ndarray) -> FeatureMatrix:
    """The columns of a matrix, each times its factor."""
    if isinstance(matrix, SparseRows):
        data = matrix.data * factor[matrix.indices]
        return SparseRows(matrix.indptr, matrix.indices, data, matrix.shape)
    return np.ascontiguousarray(matrix * factor)
