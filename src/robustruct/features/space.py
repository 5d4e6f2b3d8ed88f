"""The feature space: encodes samples of any form as a batch with feature rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from robustruct.errors import InvalidInputError
from robustruct.features.columns import (
    Columns,
    NumericColumns,
    columns_from_state,
    encode_rows,
    fit_columns,
)
from robustruct.features.matrix import FeatureMatrix, distinct_rows, part_of, take_rows
from robustruct.features.samples import Parts
from robustruct.features.summary import FeatureSummary
from robustruct.graphs import Batch


@dataclass(frozen=True, eq=False)
class Design:
    """Encoded samples: their structure, and the rows of features that weights multiply."""

    batch: Batch
    nodes: FeatureMatrix
    """(N, d) rows in the order of the batch, float64; with a bias the last column is 1."""
    edges: FeatureMatrix
    """(R, d_e) the distinct rows of edge features, at least one; the last column is 1."""
    table_of: np.ndarray
    """(slots,) intp, the table of each edge of the batch; 0, unused, in empty slots."""
    table_row: np.ndarray
    """(T,) intp, the row of ``edges`` that scores each table."""
    table_transposed: np.ndarray
    """(T,) bool, True where the edges of the table were listed as (parent, child)."""
    type_of: np.ndarray
    """(N,) intp, index of each node's type in the space's ``types``; 0 without types."""

    @classmethod
    def build(
        cls,
        batch: Batch,
        nodes: FeatureMatrix,
        edges: FeatureMatrix,
        row_of: np.ndarray,
        type_of: np.ndarray,
    ) -> Design:
        """Let edges with equal feature rows and equal orientation share a table.

        ``row_of`` (M,) is the row of ``edges`` of each of the user's edges.
        """
        if (
            edges.shape[0] == 1 and not batch.flipped.any()
        ):  # as in chains: only_table table for all
            only_table = np.zeros(1, np.intp), np.zeros(1, np.bool_)
            return cls(batch, nodes, edges, np.zeros(batch.n_slots, np.intp), *only_table, type_of)
        inner = np.flatnonzero(batch.edge_of >= 0)
        # A table is a row of edge features with an orientation.
        wanted = 2 * row_of[batch.edge_of[inner]] + batch.flipped[inner]
        used = np.zeros(2 * edges.shape[0], np.bool_)
        used[wanted] = True
        if len(inner) == 0:
            # Kernels take at least one table.
            used[0] = True
        table_of = np.zeros(batch.n_slots, np.intp)
        table_of[inner] = (np.cumsum(used) - 1)[wanted]
        tables = np.flatnonzero(used)
        return cls(batch, nodes, edges, table_of, tables // 2, tables % 2 == 1, type_of)

    @property
    def n_node_features(self) -> int:
        return self.nodes.shape[1]

    @property
    def n_edge_features(self) -> int:
        return self.edges.shape[1]

    @property
    def n_tables(self) -> int:
        return len(self.table_row)

    def take(self, samples: np.ndarray) -> Design:
        """Gather samples into a new design, with the tables and rows that they use."""
        nodes, slots = self.batch.nodes_of(samples), self.batch.slots_of(samples)
        rows = take_rows(self.nodes, nodes)
        return self._of(self.batch.take(samples), rows, self.table_of[slots], self.type_of[nodes])

    def induced(self, kept: np.ndarray) -> tuple[Design, np.ndarray, np.ndarray]:
        """Restrict to some nodes (N,) bool, and the edges among them.

        Return also the place of each node that is left, and the number of each sample.
        """
        batch = self.batch
        of_user, edges = batch.to_user(kept), batch.user_edges
        left = of_user[edges].all(axis=1)
        slots, ends, user = batch.slot_of_edge[left], edges[left], np.flatnonzero(of_user)
        cuts, edge_cuts = (
            np.searchsorted(values, batch.node_offsets) for values in (user, ends.min(axis=1))
        )
        ends = np.searchsorted(user, ends)
        structures, samples = [], np.flatnonzero(np.diff(cuts))
        for s in samples.tolist():
            edges = ends[edge_cuts[s] : edge_cuts[s + 1]] - cuts[s]
            structures.append((int(cuts[s + 1] - cuts[s]), np.ascontiguousarray(edges)))
        smaller = Batch.build(structures)
        place = np.empty(batch.n_nodes, np.intp)
        place[batch.node_of] = np.arange(batch.n_nodes)
        places = place[user[smaller.node_of]]
        row_of = self.table_row[self.table_of[slots]]
        nodes = take_rows(self.nodes, places)
        design = Design.build(smaller, nodes, self.edges, row_of, self.type_of[places])
        return design, places, samples

    def part(self, first: int, last: int) -> Design:
        """Restrict a design of trees to samples first .. last-1; rows are views."""
        lo, hi = self.batch.node_offsets[[first, last]]
        rows = part_of(self.nodes, lo, hi)
        batch = self.batch.part(first, last)
        return self._of(batch, rows, self.table_of[lo:hi], self.type_of[lo:hi])

    def _of(
        self, batch: Batch, nodes: FeatureMatrix, tables: np.ndarray, type_of: np.ndarray
    ) -> Design:
        """Return a design of other samples; ``tables`` (slots,) are their tables in this one."""
        inner = batch.parent >= 0
        table_of = np.zeros(batch.n_slots, np.intp)
        used = np.zeros(1, np.intp)
        if self.n_tables > 1 and inner.any():
            used, table_of[inner] = np.unique(tables[inner], return_inverse=True)
        rows, table_row = np.unique(self.table_row[used], return_inverse=True)
        edges = take_rows(self.edges, rows)
        return Design(
            batch, nodes, edges, table_of, table_row, self.table_transposed[used], type_of
        )


@dataclass(frozen=True, eq=False)
class FeatureSpace:
    """Columns of node and edge features; immutable, made by ``fit``.

    A sample is a chain, given as an array or sparse matrix of shape (n_nodes, n_features) or as a
    list with one dict, list of strings or string per node; or a ``Graph``. A plain 2-D array (or
    sparse matrix) instead of a list holds one sample of one node per row.

    Every edge has a constant feature, whose weights are the label transitions.

    Examples
    --------
    >>> space, design = FeatureSpace.fit([[{"w": "a"}, {"w": "b", "len": 2.0}], [["w:b"]]])
    >>> space.node_feature_names
    ['w:a', 'w:b', 'len', '(bias)']
    >>> space.edge_feature_names
    ['(transition)']
    """

    node_columns: Columns
    edge_columns: Columns | None
    bias: bool
    types: tuple[str | int, ...] = ()
    """Types of nodes; empty without types."""

    @classmethod
    def fit(cls, samples: Any, *, bias: bool = True) -> tuple[FeatureSpace, Design]:
        """Learn the columns from training samples and encode these in the same pass."""
        parts = Parts.of(samples)
        batch = parts.batch()
        node_columns, nodes = fit_columns(parts.nodes, batch.node_of, bias)
        edge_columns, edge_rows = None, None
        if parts.edges is not None:
            edge_columns, edge_rows = fit_columns(parts.edges, np.arange(batch.n_edges), True)
        space = cls(node_columns, edge_columns, bias, sorted_types(parts.types or ()))
        type_of = space._type_codes(parts.types, batch)
        return space, _design(batch, nodes, edge_rows, space.n_edge_features, type_of)

    @classmethod
    def of_summary(
        cls, summary: FeatureSummary, *, bias: bool = True, min_count: int = 1
    ) -> FeatureSpace:
        """Return the space of all samples that ``summary`` sums up.

        Parameters
        ----------
        summary : FeatureSummary
        bias : bool
            Whether nodes have a constant feature.
        min_count : int
            Attributes that occur fewer times get no column.
        """
        if summary.nodes is None:
            raise InvalidInputError("there is no sample to learn from; all shards are empty.")
        edges = None if summary.edges is None else summary.edges.columns(min_count)
        types = sorted_types(summary.types or ())
        return cls(summary.nodes.columns(min_count), edges, bias, types)

    def encode(self, samples: Any) -> Design:
        """Encode other samples. Attributes that training did not see are ignored."""
        parts = Parts.of(samples)
        batch = parts.batch()
        nodes = encode_rows(self.node_columns, parts.nodes, batch.node_of, self.bias)
        edge_rows = None
        if parts.edges is not None:
            if self.edge_columns is None:
                raise InvalidInputError(
                    f"sample {parts.edges.filled()[0][0]} has edge features, but the model was "
                    "trained without any; leave them out.",
                    sample=parts.edges.filled()[0][0],
                    field="X",
                )
            edge_rows = encode_rows(self.edge_columns, parts.edges, np.arange(batch.n_edges), True)
        elif self.edge_columns is not None and batch.n_edges:
            sample = int((np.diff(batch.edge_offsets) > 0).argmax())
            raise InvalidInputError(
                f"sample {sample} has no edge features, but the model was trained with them; pass "
                "Graph(node_features, edges, edge_features).",
                sample=sample,
                field="X",
            )
        type_of = self._type_codes(parts.types, batch)
        return _design(batch, nodes, edge_rows, self.n_edge_features, type_of)

    def _type_codes(self, types: list[str | int] | None, batch: Batch) -> np.ndarray:
        """(N,) index of each node's type, in the order of the batch."""
        if types is None and not self.types:
            return np.zeros(batch.n_nodes, np.intp)
        if types is None or not self.types:
            has = "has no" if types is None else "has"
            raise InvalidInputError(
                f"X {has} node_types, unlike the samples of training; give them to all or to none."
            )
        place = {kind: t for t, kind in enumerate(self.types)}
        unknown = sorted({str(kind) for kind in types if kind not in place})
        if unknown:
            raise InvalidInputError(
                f"node_types holds {unknown[0]!r}, which training has not seen; it knows "
                f"{', '.join(map(repr, self.types))}."
            )
        codes = np.array([place[kind] for kind in types], np.intp)
        return np.ascontiguousarray(batch.from_user(codes))

    @property
    def is_numeric(self) -> bool:
        """Whether the features of nodes are numbered columns, not attributes."""
        return isinstance(self.node_columns, NumericColumns)

    @property
    def n_node_features(self) -> int:
        return len(self.node_columns) + self.bias

    @property
    def n_edge_features(self) -> int:
        return 1 if self.edge_columns is None else len(self.edge_columns) + 1

    @property
    def node_feature_names(self) -> list[str]:
        return self.node_columns.names + ["(bias)"] * self.bias

    @property
    def edge_feature_names(self) -> list[str]:
        names = [] if self.edge_columns is None else self.edge_columns.names
        return [*names, "(transition)"]

    def state(self) -> dict[str, Any]:
        """Return the whole space: packed names, and types that JSON can write."""
        return {
            "bias": self.bias,
            "types": list(self.types),
            "nodes": self.node_columns.state(),
            "edges": None if self.edge_columns is None else self.edge_columns.state(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> FeatureSpace:
        """Return the space of a ``state()``."""
        edges = None if state["edges"] is None else columns_from_state(state["edges"])
        nodes, types = columns_from_state(state["nodes"]), tuple(state.get("types", ()))
        return cls(nodes, edges, bool(state["bias"]), types)


def sorted_types(types: Iterable[str | int]) -> tuple[str | int, ...]:
    """Return the distinct types of nodes in canonical order."""
    return tuple(sorted(set(types), key=lambda kind: (str(type(kind)), kind)))


def _design(
    batch: Batch,
    nodes: FeatureMatrix,
    edge_rows: FeatureMatrix | None,
    n_edge_features: int,
    type_of: np.ndarray,
) -> Design:
    """Return the design of a batch, with distinct rows of edge features."""
    if edge_rows is None or batch.n_edges == 0:
        constant = np.zeros((1, n_edge_features))
        constant[0, -1] = 1.0
        edges: FeatureMatrix = constant
        row_of = np.zeros(batch.n_edges, np.intp)
    else:
        edges, row_of = distinct_rows(edge_rows)
    return Design.build(batch, nodes, edges, row_of, type_of)
