"""Scores ψ of a batch: what a labelling is worth, node by node and edge by edge."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from robustruct._lazy import cached_property
from robustruct.arrays import as_floats
from robustruct.core.structs import ScoreArrays
from robustruct.errors import InvalidInputError
from robustruct.graphs import Batch


@dataclass(frozen=True, eq=False)
class Scores:
    """score(y) = Σ_i unary[i, y_i] + Σ_slots with an edge tables[table_of, y_child, y_parent].

    Edges with equal features share a table, so a chain model with plain transitions stores one
    (k, k) table however many edges it has. -inf forbids a label or a pair.
    """

    batch: Batch
    unary: np.ndarray
    """(N, k), in the order of the batch."""
    tables: np.ndarray
    """(T, k, k) indexed [label of the child, label of the parent]; at least one table."""
    table_of: np.ndarray
    """(slots,) intp, the table of each edge; 0, unused, where a slot holds none."""

    @property
    def n_labels(self) -> int:
        return self.unary.shape[1]

    @cached_property
    def arrays(self) -> ScoreArrays:
        """What the kernels take."""
        return ScoreArrays(self.unary, self.tables, self.table_of)

    def part(self, first: int, last: int) -> Scores:
        """The scores of samples first .. last-1."""
        span = slice(self.batch.node_offsets[first], self.batch.node_offsets[last])
        slots = self.batch.slots_of(np.arange(first, last))
        return Scores(
            self.batch.part(first, last),
            self.unary[span].copy(),
            self.tables,
            self.table_of[slots],
        )

    def with_unary(self, unary: np.ndarray) -> Scores:
        """The same pairwise scores beside other unary ones."""
        return replace(self, unary=unary)

    @classmethod
    def from_user(cls, batch: Batch, unary: np.ndarray, pairwise: np.ndarray) -> Scores:
        """Scores given per user node (N, k) and per user edge (M, k, k) [first, second label]."""
        unary, pairwise = as_floats(unary, "unary"), as_floats(pairwise, "pairwise")
        k = unary.shape[1] if unary.ndim == 2 else 0
        if unary.shape != (batch.n_nodes, k) or not k or pairwise.shape != (batch.n_edges, k, k):
            raise InvalidInputError(
                f"unary has shape {unary.shape} and pairwise {pairwise.shape}; expected (n, k) and "
                f"(m, k, k) for the n = {batch.n_nodes} nodes and m = {batch.n_edges} edges."
            )
        for field, values in (("unary", unary), ("pairwise", pairwise)):
            if np.isnan(values).any() or (values == np.inf).any():
                raise InvalidInputError(
                    f"{field} holds NaN or +inf; scores are finite, or -inf to forbid."
                )
        return cls.arranged(batch, unary, pairwise)

    @classmethod
    def arranged(cls, batch: Batch, unary: np.ndarray, pairwise: np.ndarray) -> Scores:
        """`from_user` for arrays of float64 that are known to fit, and may be kept and changed."""
        if batch.n_edges:
            swapped = batch.edge_of[batch.flipped]
            if len(swapped):
                pairwise[swapped] = pairwise[swapped].transpose(0, 2, 1)
        else:
            pairwise = np.zeros((1, *pairwise.shape[1:]))
        return cls(
            batch,
            np.ascontiguousarray(batch.from_user(unary)),
            np.ascontiguousarray(pairwise),
            np.maximum(batch.edge_of, 0),
        )
