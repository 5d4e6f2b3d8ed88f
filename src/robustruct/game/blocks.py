"""The adversary's marginals in sparse form: few of the k² pairs of labels on an edge carry mass."""

from __future__ import annotations

import numpy as np

from robustruct.graphs import Batch
from robustruct.kernels.pairs import (
    dense_pairs,
    pair_sums,
    repair_pairs,
    sparse_pairs,
    truth_pairs,
)


class Blocks:
    """Node marginals r and, for the edge of each node, a short list of pairs with their mass."""

    def __init__(self, batch: Batch, n_labels: int, slots: int = 8) -> None:
        n, k = batch.n_nodes, n_labels
        self.batch = batch
        self.r = np.zeros((n, k))
        self.pair = np.zeros((n, min(k * k, slots)), np.int32)
        """(N, slots) codes child label * k + parent label."""
        self.mass = np.zeros(self.pair.shape)
        self.count = np.zeros(n, np.int32)
        """(N,) how many slots are in use."""

    @classmethod
    def at(cls, batch: Batch, labels: np.ndarray, n_labels: int) -> Blocks:
        """All mass on one labelling."""
        blocks = cls(batch, n_labels)
        blocks.r[np.arange(batch.n_nodes), labels] = 1.0
        truth_pairs(batch.parent, labels, n_labels, blocks.pair, blocks.mass, blocks.count)
        return blocks

    @classmethod
    def of(cls, batch: Batch, r: np.ndarray, q: np.ndarray) -> Blocks:
        """From dense marginals r (N, k) and q (N, k, k)."""
        blocks = cls(batch, r.shape[1], 2 * max(int((q > 0).sum(axis=(1, 2)).max()), 4))
        blocks.r[:] = r
        sparse_pairs(batch.parent, q, blocks.pair, blocks.mass, blocks.count)
        return blocks

    def grow(self) -> None:
        """Double the slots where a list is full: a full list refuses steps that need a new pair."""
        k2, slots = self.r.shape[1] ** 2, self.pair.shape[1]
        if slots < k2 and (self.count == slots).any():
            room = ((0, 0), (0, min(slots, k2 - slots)))
            self.pair, self.mass = np.pad(self.pair, room), np.pad(self.mass, room)

    def repair(self, samples: np.ndarray | None = None) -> None:
        """Make nodes and edges exactly consistent, in all samples or the given ones."""
        b = self.batch
        every = [(0, b.n_samples)] if samples is None else [(s, s + 1) for s in samples]
        for first, last in every:
            repair_pairs(
                first, last, b.node_offsets, b.parent, self.r, self.pair, self.mass, self.count
            )

    def state(self) -> dict[str, np.ndarray]:
        """All that steps change; `restore` takes it back."""
        return {"r": self.r, "pair": self.pair, "mass": self.mass, "count": self.count}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from an earlier `state`."""
        self.r, self.count = state["r"], state["count"]
        self.pair, self.mass = state["pair"], state["mass"]

    def dense_edges(self) -> np.ndarray:
        """(N, k, k) edge marginals."""
        k = self.r.shape[1]
        q = np.zeros((self.batch.n_nodes, k, k))
        dense_pairs(self.batch.parent, self.pair, self.mass, self.count, q)
        return q

    def table_sums(self, table_of: np.ndarray, share: np.ndarray, out: np.ndarray) -> None:
        """Add share (N,) times the edge marginals to their tables in out (T, k, k)."""
        pair_sums(self.batch.parent, table_of, share, self.pair, self.mass, self.count, out)
