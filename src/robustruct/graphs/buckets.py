"""Cliques of a batch: what exact inference works on where samples have cycles.

The bucket of node i is the clique {i} and its later neighbours in the triangulated graph. The first
of these to be eliminated is the bucket's parent, which contains all the others: the buckets form a
junction tree. On a forest the later neighbour is the parent, and the buckets are the edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from robustruct.core.elimination import TOO_SHORT, later_neighbours
from robustruct.errors import IncompatibleError

if TYPE_CHECKING:
    from robustruct.graphs.batch import Batch

TABLE_LIMIT = 2**27
"""Most numbers (8 bytes each) that the tables of one sample may take."""


@dataclass(frozen=True, eq=False)
class Buckets:
    """The junction tree of every sample of a batch, in flat arrays."""

    offsets: np.ndarray
    """(N+1,) node i owns members offsets[i] .. offsets[i+1]-1."""
    members: np.ndarray
    """Positions of the later neighbours, ascending; the first is the parent of the bucket."""
    first_child: np.ndarray
    """(N,) a bucket of which this one is the parent, or -1."""
    next_child: np.ndarray
    """(N,) another bucket with the same parent, or -1."""
    chord_start: np.ndarray
    """(N+1,) node i is the child of chords chord_start[i] .. chord_start[i+1]-1."""
    node_offsets: np.ndarray
    """(S+1,) as in the batch."""

    @classmethod
    def of(cls, batch: Batch) -> Buckets:
        """Fill in the edges that elimination in the order of the batch adds."""
        n = batch.n_nodes
        offsets, first, after = (np.empty(m, np.intp) for m in (n + 1, n, n))
        count, capacity = TOO_SHORT, len(batch.parent)
        while count == TOO_SHORT:
            capacity *= 2
            members = np.empty(capacity, np.intp)
            out = offsets, members, first, after
            count = later_neighbours(n, batch.structure, capacity, *out)
        members = members[:count].copy()
        chord_start = np.searchsorted(batch.child[n:], np.arange(n + 1)).astype(np.intp)
        return cls(offsets, members, first, after, chord_start, batch.node_offsets)

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """What the kernels take."""
        return self.offsets, self.members, self.first_child, self.next_child, self.chord_start

    @property
    def sizes(self) -> np.ndarray:
        """(N,) number of later neighbours of each node."""
        return np.diff(self.offsets)

    def widths(self) -> np.ndarray:
        """(S,) width of each sample's junction tree."""
        return np.maximum.reduceat(self.sizes, self.node_offsets[:-1])

    def table_sizes(self, n_labels: int) -> np.ndarray:
        """(S,) numbers that exact inference keeps at once, as floats: they may be huge."""
        messages = np.power(float(n_labels), self.sizes)
        kept = np.add.reduceat(messages, self.node_offsets[:-1])
        return 2 * kept + np.power(float(n_labels), self.widths() + 1.0)

    def fit(self, n_labels: int) -> np.ndarray:
        """(S,) bool, whether the tables of each sample fit into memory."""
        return self.table_sizes(n_labels) <= TABLE_LIMIT

    def check_memory(self, n_labels: int, copies: int = 1) -> None:
        """Refuse tables that would not fit, before anything is allocated."""
        needed = copies * self.table_sizes(n_labels)
        if (needed <= TABLE_LIMIT).all():
            return
        s = int((needed > TABLE_LIMIT).argmax())
        width = int(self.widths()[s])
        fits = int((TABLE_LIMIT / (4 * copies)) ** (1.0 / (width + 1)))
        fewer = f"fewer labels (at most {fits})" if fits > 1 else "fewer edges"
        raise IncompatibleError(
            f"sample {s}: exact inference on its graph is too large. Its treewidth is estimated "
            f"at {width}, so tables with {n_labels} labels would hold {needed[s]:.2g} numbers "
            f"({8 * needed[s] / 2**30:.2g} GiB; {TABLE_LIMIT * 8 / 2**30:.2g} GiB are allowed). "
            f"Use {fewer}, or an approximation: inference='relaxed', or solve_game with "
            "solver='relaxed'."
        )
