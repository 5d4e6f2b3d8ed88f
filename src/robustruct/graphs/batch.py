"""Ragged samples as flat arrays: one big rooted forest that compiled code walks in one sweep.

Nodes are renumbered so that children come before their parents and the nodes of a sample stay
together. Going up a tree is then a loop forwards, going down a loop backwards; a chain keeps its
order. ``node_of`` and ``edge_of`` lead back to the order in which the user listed things.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from robustruct.errors import IncompatibleError
from robustruct.kernels.forests import root_forest


@dataclass(frozen=True, eq=False)
class Batch:
    """Structure of S samples with N nodes and M edges in all."""

    node_offsets: np.ndarray
    """(S+1,) sample s owns nodes node_offsets[s] .. node_offsets[s+1]-1, here and in user order."""
    edge_offsets: np.ndarray
    """(S+1,) the same for edges, in user order."""
    parent: np.ndarray
    """(N,) flat index of the parent, larger than the node's own; -1 at roots."""
    node_of: np.ndarray
    """(N,) the user's flat node index at each position."""
    edge_of: np.ndarray
    """(N,) the user's flat edge index of the edge to the parent; -1 at roots."""
    flipped: np.ndarray
    """(N,) bool, True where that edge was listed as (parent, child) rather than (child, parent)."""

    @classmethod
    def build(cls, structures: Iterable[tuple[int, np.ndarray | None]]) -> Batch:
        """Root each structure, given as (n_nodes, edges); ``None`` for edges means a chain.

        Samples with the same structure share the work.
        """
        known: dict[object, tuple[np.ndarray, ...]] = {}
        rooted, sizes, edge_counts = [], [], []
        for sample, (n_nodes, edges) in enumerate(structures):
            key = n_nodes if edges is None else (n_nodes, edges.tobytes())
            if key not in known:
                known[key] = _rooted(sample, n_nodes, edges)
            rooted.append(known[key])
            sizes.append(n_nodes)
            edge_counts.append(n_nodes - 1 if edges is None else len(edges))
        node_offsets = _offsets(sizes)
        edge_offsets = _offsets(edge_counts)
        order, parent, edge_of, flipped = (
            np.concatenate(part) for part in zip(*rooted, strict=True)
        )
        first_node = np.repeat(node_offsets[:-1], sizes)
        first_edge = np.repeat(edge_offsets[:-1], sizes)
        return cls(
            node_offsets,
            edge_offsets,
            np.where(parent < 0, -1, parent + first_node),
            order + first_node,
            np.where(edge_of < 0, -1, edge_of + first_edge),
            flipped,
        )

    def part(self, first: int, last: int) -> Batch:
        """Samples first .. last-1 as a batch of their own."""
        node, edge = self.node_offsets[first], self.edge_offsets[first]
        span = slice(node, self.node_offsets[last])
        parent, edge_of = self.parent[span], self.edge_of[span]
        return Batch(
            self.node_offsets[first : last + 1] - node,
            self.edge_offsets[first : last + 1] - edge,
            np.where(parent < 0, -1, parent - node),
            self.node_of[span] - node,
            np.where(edge_of < 0, -1, edge_of - edge),
            self.flipped[span].copy(),
        )

    def nodes_of(self, samples: np.ndarray) -> np.ndarray:
        """Positions of all nodes of the given samples, one sample after the other."""
        sizes = np.diff(self.node_offsets)[samples]
        before = np.cumsum(sizes) - sizes
        return np.repeat(self.node_offsets[samples] - before, sizes) + np.arange(sizes.sum())

    def take(self, samples: np.ndarray) -> Batch:
        """The given samples, in the given order, as a batch of their own."""
        nodes = self.nodes_of(samples)
        sizes = np.diff(self.node_offsets)[samples]
        node_offsets = _offsets(sizes)
        edge_offsets = _offsets(np.diff(self.edge_offsets)[samples])
        node_shift = np.repeat(node_offsets[:-1] - self.node_offsets[samples], sizes)
        edge_shift = np.repeat(edge_offsets[:-1] - self.edge_offsets[samples], sizes)
        parent, edge_of = self.parent[nodes], self.edge_of[nodes]
        return Batch(
            node_offsets,
            edge_offsets,
            np.where(parent < 0, -1, parent + node_shift),
            self.node_of[nodes] + node_shift,
            np.where(edge_of < 0, -1, edge_of + edge_shift),
            self.flipped[nodes],
        )

    @property
    def n_samples(self) -> int:
        return len(self.node_offsets) - 1

    @property
    def n_nodes(self) -> int:
        return int(self.node_offsets[-1])

    @property
    def n_edges(self) -> int:
        return int(self.edge_offsets[-1])

    @cached_property
    def keeps_order(self) -> bool:
        """True when no node was moved, as for chains."""
        return bool((self.node_of == np.arange(self.n_nodes)).all())

    @cached_property
    def child_of_edge(self) -> np.ndarray:
        """(M,) for each of the user's edges the position of its child."""
        children = np.empty(self.n_edges, np.intp)
        inner = np.flatnonzero(self.edge_of >= 0)
        children[self.edge_of[inner]] = inner
        return children

    def from_user(self, values: np.ndarray) -> np.ndarray:
        """Rows given in the user's node order, in the order of the batch."""
        return values if self.keeps_order else values[self.node_of]

    def to_user(self, values: np.ndarray) -> np.ndarray:
        """Rows in the order of the batch, back in the user's node order."""
        if self.keeps_order:
            return values
        out = np.empty_like(values)
        out[self.node_of] = values
        return out

    def edges_to_user(self, values: np.ndarray) -> np.ndarray:
        """(N, k, k) values [child, parent] as (M, k, k) [first, second label] in user order."""
        out = values[self.child_of_edge]
        turned = self.flipped[self.child_of_edge]
        out[turned] = out[turned].transpose(0, 2, 1)
        return out

    def split_nodes(self, values: np.ndarray) -> list[np.ndarray]:
        """One array per sample."""
        return np.split(values, self.node_offsets[1:-1])


def _offsets(sizes: list[int] | np.ndarray) -> np.ndarray:
    offsets = np.zeros(len(sizes) + 1, np.intp)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def _rooted(sample: int, n_nodes: int, edges: np.ndarray | None) -> tuple[np.ndarray, ...]:
    if edges is None:
        order = np.arange(n_nodes, dtype=np.intp)
        parent = order + 1
        parent[-1] = -1
        edge_of = order.copy()
        edge_of[-1] = -1
        return order, parent, edge_of, np.zeros(n_nodes, np.bool_)
    order, parent, edge_of = (np.empty(n_nodes, np.intp) for _ in range(3))
    flipped = np.empty(n_nodes, np.bool_)
    if not root_forest(n_nodes, edges, order, parent, edge_of, flipped):
        raise IncompatibleError(
            f"sample {sample}: its graph ({n_nodes} nodes, {len(edges)} edges) has a cycle; "
            "chains, trees and forests are supported. Remove edges until none closes a cycle."
        )
    return order, parent, edge_of, flipped
