"""The adversary as a list of labellings: what is kept of it where samples have cycles."""

from __future__ import annotations

import numpy as np

from robustruct.core.ascent import mixture_sums, repair_mixtures
from robustruct.core.structs import Mixtures
from robustruct.graphs import Batch


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
