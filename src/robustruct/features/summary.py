"""Summaries of features, from which a feature space is learnt; they can be merged.

Each shard is summed up where it lies; summaries are sent and merged, and `FeatureSpace.of_summary`
makes the space in which all shards are encoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from robustruct.errors import InvalidInputError
from robustruct.features.columns import (
    ATTRIBUTES,
    DENSE,
    AttributeColumns,
    Blocks,
    Columns,
    HashedColumns,
    NumericColumns,
    attribute_counts,
    column_names,
    common_kind,
    numeric_blocks,
    numeric_width,
)
from robustruct.features.names import PackedNames, Vocabulary
from robustruct.features.samples import Parts


@dataclass(frozen=True, eq=False)
class ColumnSummary:
    """Summary of the features of nodes (or of edges)."""

    kind: str
    """Dense, sparse or attributes, in the words of an error."""
    width: int | None
    """Number of columns; None for attributes that are counted."""
    counts: dict[str, int] | None
    """Number of occurrences of each attribute, in the order of first appearance."""
    source: str
    """Source of the first sample, for messages."""
    moments: Moments | None = None
    """Moments of dense columns."""
    names: tuple[str, ...] = ()
    """Names of columns of data frames."""

    @classmethod
    def of(
        cls, blocks: Blocks, hashed: int | None, source: str, weight: np.ndarray | None = None
    ) -> ColumnSummary:
        """Sum up blocks, not all of them empty; ``weight`` (S,) is that of samples."""
        kind = common_kind(blocks)
        if kind != ATTRIBUTES:
            if hashed is not None:
                raise InvalidInputError(
                    f"hashed={hashed} is for attributes, but {blocks.item} features are {kind}, "
                    "whose columns are numbered already; leave hashed out."
                )
            width, names = numeric_width(blocks), column_names(blocks)
            return cls(kind, width, None, source, Moments.of(blocks, weight), names)
        if hashed is not None:
            return cls(kind, hashed, None, source)
        return cls(kind, None, attribute_counts(blocks), source)

    def merged(self, other: ColumnSummary, item: str) -> ColumnSummary:
        """The summary of both."""
        if self.kind != other.kind:
            raise InvalidInputError(
                f"{item} features are {self.kind} in {self.source}, but {other.kind} in "
                f"{other.source}; use one kind for the whole data set."
            )
        if self.width != other.width:
            raise InvalidInputError(
                f"{item} features have {self.width} columns in {self.source}, but {other.width} "
                f"in {other.source}; they must be the same everywhere."
            )
        if self.names and other.names and self.names != other.names:
            raise InvalidInputError(
                f"{item} features have the columns {', '.join(self.names)} in {self.source}, but "
                f"{', '.join(other.names)} in {other.source}; give them the same names and order."
            )
        if self.moments is not None and other.moments is not None:
            return replace(self, moments=self.moments.merged(other.moments))
        if self.counts is None or other.counts is None:
            return self
        counts = dict(self.counts)
        for name, count in other.counts.items():
            counts[name] = counts.get(name, 0) + count
        return replace(self, counts=counts)

    def columns(self, min_count: int) -> Columns:
        """Return the columns, without attributes that occur fewer than ``min_count`` times."""
        if self.counts is not None:
            names = [name for name, count in self.counts.items() if count >= min_count]
            if self.counts and not names:
                most = max(self.counts, key=self.counts.__getitem__)
                raise InvalidInputError(
                    f"min_count={min_count} leaves no attribute: the commonest, {most!r}, is given "
                    f"{self.counts[most]} times. Lower min_count."
                )
            return AttributeColumns(Vocabulary.of(PackedNames.of(names)))
        assert self.width is not None
        if self.kind == ATTRIBUTES:
            return HashedColumns(self.width)
        return NumericColumns(self.width, self.names)


@dataclass(frozen=True, eq=False)
class FeatureSummary:
    """Summary of samples for `FeatureSpace.of_summary`; summaries can be merged.

    Examples
    --------
    >>> here = FeatureSummary.of([[["w:a"], ["w:b", "cap"]]])
    >>> there = FeatureSummary.of([[["w:b"]]])
    >>> here.merged(there).nodes.counts
    {'w:a': 1, 'w:b': 2, 'cap': 1}
    """

    nodes: ColumnSummary | None = None
    """None without samples."""
    edges: ColumnSummary | None = None
    """None if no edge has features."""
    bare_edges: str | None = None
    """Source of edges without features, if there are any."""
    types: frozenset[str | int] | None = None
    """Types of nodes; None without types."""

    @classmethod
    def of(cls, samples: Any, *, hashed: int | None = None, source: str = "X") -> FeatureSummary:
        """Sum up samples in any form that `FeatureSpace.fit` takes; there may be none.

        Parameters
        ----------
        samples : list of samples or 2-D array
        hashed : int, optional
            Give the attributes of nodes this many columns by a hash of their names, which are then
            not counted. Attributes of edges are counted all the same: each has weights for every
            pair of labels, so there cannot be many.
        source : str
            Name of these samples in messages.
        """
        if isinstance(samples, Sequence) and len(samples) == 0:
            return cls()
        return cls.of_parts(Parts.of(samples), hashed=hashed, source=source)

    @classmethod
    def of_parts(
        cls, parts: Parts, *, hashed: int | None, source: str, weight: np.ndarray | None = None
    ) -> FeatureSummary:
        """Sum up samples that are split into parts; ``weight`` (S,) is that of samples."""
        bare = parts.edges is None and parts.n_edges > 0
        return cls(
            ColumnSummary.of(parts.nodes, hashed, source, weight),
            None if parts.edges is None else ColumnSummary.of(parts.edges, None, source, weight),
            source if bare else None,
            None if parts.types is None else frozenset(parts.types),
        )

    def merged(self, other: FeatureSummary) -> FeatureSummary:
        """Return the summary of both; an error names shards that do not fit together."""
        if self.nodes is None or other.nodes is None:
            return other if self.nodes is None else self
        edges, bare = self.edges or other.edges, self.bare_edges or other.bare_edges
        if self.edges is not None and other.edges is not None:
            edges = self.edges.merged(other.edges, "edge")
        if edges is not None and bare is not None:
            raise InvalidInputError(
                f"edges have features in {edges.source}, but not in {bare}; give them to all "
                "samples or to none."
            )
        if (self.types is None) != (other.types is None):
            having, lacking = (other, self) if self.types is None else (self, other)
            assert having.nodes is not None
            assert lacking.nodes is not None
            raise InvalidInputError(
                f"nodes have node_types in {having.nodes.source}, but not in "
                f"{lacking.nodes.source}; give them to all samples or to none."
            )
        types = None if self.types is None or other.types is None else self.types | other.types
        return FeatureSummary(self.nodes.merged(other.nodes, "node"), edges, bare, types)


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
