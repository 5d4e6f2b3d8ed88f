"""The adversaries of a batch as short lists, where dense tables would be mostly zeros.

`EdgePairs` keeps, on forests, the few of the k² pairs of labels of an edge that carry mass;
`LabellingMixtures` keeps some labellings of each sample with cycles, with their masses, which is
feasible whatever the graph.
"""

from __future__ import annotations

import numpy as np

from robustruct.core.ascent import mixture_sums, pair_sums, repair_mixtures, repair_pairs
from robustruct.core.structs import Marginals, Mixtures
from robustruct.errors import InvalidInputError
from robustruct.graphs import Batch

DUST = 1e-12  # smaller masses are left out, as steps do (core/ascent.h)
CONSISTENT = 1e-6  # by which nodes and edges may differ in what is read; steps lose far less


class EdgePairs:
    """Node marginals r and, for the edge of each node, a short list of pairs with their mass."""

    def __init__(self, batch: Batch, n_labels: int, capacity: int = 8) -> None:
        n, k = batch.n_nodes, n_labels
        self.batch = batch
        self.r = np.zeros((n, k))
        self.pair = np.zeros((n, min(k * k, capacity)), np.int32)
        """(N, capacity) codes child label * k + parent label."""
        self.mass = np.zeros(self.pair.shape)
        self.count = np.zeros(n, np.int32)
        """(N,) how many pairs there are."""

    @property
    def arrays(self) -> Marginals:
        """What the core takes."""
        return Marginals(self.r, self.pair, self.mass, self.count)

    @classmethod
    def at(cls, batch: Batch, labels: np.ndarray, n_labels: int) -> EdgePairs:
        """All mass on one labelling."""
        pairs = cls(batch, n_labels)
        pairs.r[np.arange(batch.n_nodes), labels] = 1.0
        edges = np.flatnonzero(batch.parent >= 0)
        pairs.pair[edges, 0] = labels[edges] * n_labels + labels[batch.parent[edges]]
        pairs.mass[edges, 0] = 1.0
        pairs.count[edges] = 1
        return pairs

    @classmethod
    def of(cls, batch: Batch, r: np.ndarray, q: np.ndarray) -> EdgePairs:
        """From dense marginals r (N, k) and q (N, k, k)."""
        pairs = cls(batch, r.shape[1], 2 * max(int((q > 0).sum(axis=(1, 2)).max()), 4))
        pairs.r[:] = r
        by_pair = q.reshape(len(q), -1)
        node, code = np.nonzero((by_pair > DUST) & (batch.parent >= 0)[:, None])
        pairs.count[:] = np.bincount(node, minlength=len(q))
        place = np.arange(len(node)) - np.repeat(np.cumsum(pairs.count) - pairs.count, pairs.count)
        pairs.pair[node, place], pairs.mass[node, place] = code, by_pair[node, code]
        return pairs

    def grow(self) -> None:
        """Double the capacity where a list is full: it would refuse steps that need a new pair."""
        k2, capacity = self.r.shape[1] ** 2, self.pair.shape[1]
        if capacity < k2 and (self.count == capacity).any():
            more = ((0, 0), (0, min(capacity, k2 - capacity)))
            self.pair, self.mass = np.pad(self.pair, more), np.pad(self.mass, more)

    def repair(self, samples: np.ndarray | None = None) -> None:
        """Make nodes and edges exactly consistent, in all samples or the given ones."""
        b = self.batch
        every = [(0, b.n_samples)] if samples is None else [(s, s + 1) for s in samples]
        for first, last in every:
            repair_pairs(first, last, b.structure, self.arrays)

    def state(self) -> dict[str, np.ndarray]:
        """All that steps change; `restore` takes it back."""
        return {"r": self.r, "pair": self.pair, "mass": self.mass, "count": self.count}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from an earlier `state`; refuses pairs that contradict the labels of nodes."""
        self._check(state["r"], state["pair"], state["mass"], state["count"])
        self.r, self.count = state["r"], state["count"]
        self.pair, self.mass = state["pair"], state["mass"]

    def _check(self, r: np.ndarray, pair: np.ndarray, mass: np.ndarray, count: np.ndarray) -> None:
        k, parent = r.shape[1], self.batch.parent
        used = (np.arange(pair.shape[1]) < count[:, None]) & (parent >= 0)[:, None]
        node, place = np.nonzero(used)
        codes, masses = pair[node, place], mass[node, place]
        child, above = np.zeros_like(r), np.zeros_like(r)
        np.add.at(child, (node, codes // k), masses)
        np.add.at(above, (node, codes % k), masses)
        inner = parent >= 0
        off = np.abs(child - r)[inner], np.abs(above[inner] - r[parent[inner]])
        if max(part.max(initial=0.0) for part in off) > CONSISTENT:
            raise InvalidInputError("its pairs of labels contradict the labels of their nodes.")

    def dense_edges(self) -> np.ndarray:
        """(N, k, k) edge marginals."""
        n, k = self.r.shape
        q = np.zeros((n, k, k))
        self.table_sums(np.arange(n), np.ones(n), q)
        return q

    def table_sums(self, table_of: np.ndarray, share: np.ndarray, out: np.ndarray) -> None:
        """Add share (N,) times the edge marginals to their tables in out (T, k, k)."""
        pair_sums(self.batch.structure, table_of, share, self.arrays, out)


class LabellingMixtures:
    """For each sample some labellings with their masses, and the node marginals r they imply."""

    def __init__(self, batch: Batch, labels: np.ndarray, n_labels: int) -> None:
        self.batch = batch
        self.n_labels = n_labels
        self.labelling = np.zeros((8, batch.n_nodes), np.intp)
        """(capacity, N) labels."""
        self.labelling[0] = labels
        self.mass = np.zeros((batch.n_samples, 8))
        self.mass[:, 0] = 1.0
        self.count = np.ones(batch.n_samples, np.intp)
        """(S,) how many labellings each sample has."""
        self.r = np.zeros((batch.n_nodes, n_labels))
        self.repair()

    @property
    def arrays(self) -> Mixtures:
        """What the core takes."""
        return Mixtures(self.r, self.labelling, self.mass, self.count)

    def grow(self) -> None:
        """Double the capacity where a list is more than half full: full ones refuse steps."""
        capacity = self.mass.shape[1]
        if 2 * self.count.max() > capacity:
            self.labelling = np.pad(self.labelling, ((0, capacity), (0, 0)))
            self.mass = np.pad(self.mass, ((0, 0), (0, capacity)))

    def repair(self, samples: np.ndarray | None = None) -> None:
        """Sweep up rounding: masses that sum to 1, and the node marginals they imply."""
        b = self.batch
        every = [(0, b.n_samples)] if samples is None else [(s, s + 1) for s in samples]
        for first, last in every:
            repair_mixtures(first, last, b.structure, self.arrays)

    def state(self) -> dict[str, np.ndarray]:
        """All that steps change; `restore` takes it back."""
        return {"r": self.r, "atom": self.labelling, "mass": self.mass, "count": self.count}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from an earlier `state`."""
        self.r, self.count = state["r"], state["count"]
        self.labelling, self.mass = state["atom"], state["mass"]

    def dense_edges(self) -> np.ndarray:
        """(slots, k, k) edge marginals."""
        b, k = self.batch, self.n_labels
        q = np.zeros((b.n_slots, k, k))
        self.table_sums(np.arange(b.n_slots), np.ones(b.n_nodes), q)
        return q

    def table_sums(self, table_of: np.ndarray, share: np.ndarray, out: np.ndarray) -> None:
        """Add share (N,) times the edge marginals to their tables in out (T, k, k)."""
        mixture_sums(self.batch.structure, table_of, share, self.arrays, out)
