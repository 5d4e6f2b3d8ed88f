"""How tree-like a graph is, in which order to eliminate its nodes, and the cliques that this makes.

Exact inference on a graph with cycles costs O(n k^(w+1)) for an elimination order of width w. Two
greedy orders are tried, fewest neighbours and fewest new edges. The first is exact up to width 2
(any graph of treewidth 2 has a node of degree 2 or less, and stays one when it is removed), hence
also where it finds 3. Small graphs get an order of least width by dynamic programming. On others
greedy orders can be far off (28 on a grid of 20 x 20 nodes, whose treewidth is 20), so sweeps
through the graph and greedy orders with ties broken at random are tried as well; the best is kept.

The bucket of node i is the clique {i} and its later neighbours in the triangulated graph. The first
of these to be eliminated is the bucket's parent, which contains all the others: the buckets form a
junction tree. On a forest the later neighbour is the parent, and the buckets are the edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from robustruct.core.elimination import (
    AS_LISTED,
    BY_DEGREE,
    BY_FILL,
    TOO_SHORT,
    best_order,
    contraction_bound,
    greedy_order,
    later_neighbours,
)
from robustruct.errors import IncompatibleError

if TYPE_CHECKING:
    from robustruct.graphs.batch import Batch

WIDEST = 40  # wider orders are not searched: two labels would already need 2^41 numbers a table
EXACT_NODES = 14  # dynamic programming over subsets takes 2^n steps
FILL_NODES = 2000  # counting new edges takes too long on larger graphs that are wide
RESTARTS = 4
"""Orders with random ties. Mean width on 60 random graphs of 30 to 150 nodes, sparse and planar:
11.0 and 12.3 with none, 10.7 and 12.0 with 4, 10.7 and 11.9 with 16."""


@dataclass(frozen=True, eq=False)
class Elimination:
    """An order of elimination."""

    order: np.ndarray
    """(n,) nodes, the first to go first."""
    width: int
    """Most neighbours a node has when it goes; ``WIDEST + 1`` means more than that."""
    exact: bool
    """True if no order has a smaller width: then it is the treewidth."""


def elimination(n_nodes: int, edges: np.ndarray) -> Elimination:
    """The best order found for the graph with edges (m, 2)."""
    best = _searched(n_nodes, edges, BY_DEGREE)
    if best.width <= 3:
        return Elimination(best.order, best.width, True)
    if n_nodes <= EXACT_NODES:
        order = np.empty(n_nodes, np.intp)
        return Elimination(order, best_order(n_nodes, len(edges), edges, order), True)
    for nodes in _sweeps(n_nodes, edges):
        best = min(best, _searched(n_nodes, edges, AS_LISTED, nodes), key=lambda one: one.width)
    if n_nodes <= FILL_NODES or best.width <= WIDEST:
        best = min(best, _searched(n_nodes, edges, BY_FILL), key=lambda one: one.width)
        for seed in range(RESTARTS):
            nodes = np.random.default_rng(seed).permutation(n_nodes)
            again = _searched(n_nodes, edges, BY_FILL, nodes)
            best = min(best, again, key=lambda one: one.width)
    return best


def _searched(
    n_nodes: int, edges: np.ndarray, rule: int, nodes: np.ndarray | None = None
) -> Elimination:
    """A greedy order; ties go to the node that comes first in ``nodes`` (n,), if given."""
    order = np.empty(n_nodes, np.intp)
    if nodes is None:
        width = greedy_order(n_nodes, len(edges), edges, rule, WIDEST, order)
        return Elimination(order, width, False)
    place = np.argsort(nodes)
    width = greedy_order(n_nodes, len(edges), place[edges], rule, WIDEST, order)
    return Elimination(nodes[order], width, False)


def _sweeps(n_nodes: int, edges: np.ndarray) -> list[np.ndarray]:
    """Orders that go through the graph from one side to the other: as listed, and by breadth."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee  # wide graphs only wait for SciPy

    ends = np.concatenate([edges, edges[:, ::-1]]).T
    adjacency = coo_array((np.ones(ends.shape[1]), ends), shape=(n_nodes, n_nodes)).tocsr()
    by_breadth = reverse_cuthill_mckee(adjacency, symmetric_mode=True)
    return [np.arange(n_nodes), by_breadth.astype(np.intp)]


def treewidth(n_nodes: int, edges: np.ndarray) -> tuple[int, int]:
    """(lower, upper) bound on the treewidth; equal where it is known.

    The upper bound is a number of nodes minus one where the graph is wider than any order tried.
    """
    found = elimination(n_nodes, edges)
    if found.exact:
        return found.width, found.width
    upper = found.width if found.width <= WIDEST else n_nodes - 1
    # The bound keeps an (n, n) matrix; a graph too large for it has at least width 4 here.
    lower = contraction_bound(n_nodes, len(edges), edges) if n_nodes <= FILL_NODES else 4
    return min(max(lower, 4), upper), upper


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
