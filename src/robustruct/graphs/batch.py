"""Ragged samples as flat arrays: one big rooted forest that compiled code walks in one sweep.

Nodes are renumbered so that children come before their parents and the nodes of a sample stay
together. Going up a tree is then a loop forwards, going down a loop backwards; a chain keeps its
order. ``node_of`` and ``edge_of`` lead back to the order in which the user listed things.

Edges live in slots. Slot i < N is the edge from node i to its parent, if it has one. A sample with
cycles is numbered in an order of elimination instead; a node's edge to the first of its later
neighbours takes the node's own slot, and those to the others, its chords, follow behind slot N, in
the order of their children. Whatever goes over all slots treats both alike, and a batch of forests
has no slot more than it has nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from robustruct._lazy import cached_property
from robustruct.core.elimination import root_forest
from robustruct.core.reweighted import spanning_forests
from robustruct.core.structs import SpanningForests, Structure
from robustruct.graphs.elimination import Buckets, elimination


@dataclass(frozen=True, eq=False)
class Batch:
    """Structure of S samples with N nodes, M edges and C chords in all."""

    node_offsets: np.ndarray
    """(S+1,) sample s owns nodes node_offsets[s] .. node_offsets[s+1]-1, here and in user order."""
    edge_offsets: np.ndarray
    """(S+1,) the same for edges, in user order."""
    chord_offsets: np.ndarray
    """(S+1,) sample s owns slots N + chord_offsets[s] .. N + chord_offsets[s+1]-1 too."""
    child: np.ndarray
    """(N+C,) flat index of the node an edge belongs to; slot i < N is that of node i."""
    parent: np.ndarray
    """(N+C,) flat index of its other end, larger than the child's; -1 where there is no edge."""
    node_of: np.ndarray
    """(N,) the user's flat node index at each position."""
    edge_of: np.ndarray
    """(N+C,) the user's flat edge index of the edge; -1 where there is none."""
    flipped: np.ndarray
    """(N+C,) bool, True where the edge was listed as (parent, child), not as (child, parent)."""

    @classmethod
    def build(cls, structures: Iterable[tuple[int, np.ndarray | None]]) -> Batch:
        """Put each structure in order, given as (n_nodes, edges); ``None`` for edges is a chain.

        Samples with the same structure share the work.
        """
        known: dict[object, _Rooted] = {}
        rooted = []
        structures = list(structures)
        if len(structures) == 1:
            return cls._of_one(_Rooted.of(*structures[0]))
        for n_nodes, edges in structures:
            key = n_nodes if edges is None else (n_nodes, edges.tobytes())
            if key not in known:  # most chains of a corpus share their length with others
                known[key] = _Rooted.of(n_nodes, edges)
            rooted.append(known[key])
        sizes = np.array([len(one.order) for one in rooted])
        chords = np.array([len(one.parent) for one in rooted]) - sizes
        node_offsets, chord_offsets = _offsets(sizes), _offsets(chords)
        edge_offsets = _offsets(np.array([one.n_edges for one in rooted]))
        first_node = np.concatenate(
            [np.repeat(node_offsets[:-1], sizes), np.repeat(node_offsets[:-1], chords)]
        )
        first_edge = np.concatenate(
            [np.repeat(edge_offsets[:-1], sizes), np.repeat(edge_offsets[:-1], chords)]
        )

        def slots(name: str) -> np.ndarray:
            parts = [getattr(one, name) for one in rooted]
            if not chord_offsets[-1]:
                return np.concatenate(parts)
            # Slots of all nodes first, so that node i has slot i; chords of all samples behind.
            own = [part[:n] for part, n in zip(parts, sizes, strict=True)]
            return np.concatenate(own + [p[n:] for p, n in zip(parts, sizes, strict=True)])

        parent, edge_of = slots("parent"), slots("edge_of")
        return cls(
            node_offsets,
            edge_offsets,
            chord_offsets,
            slots("child") + first_node,
            np.where(parent < 0, -1, parent + first_node),
            np.concatenate([one.order for one in rooted]) + first_node[: node_offsets[-1]],
            np.where(edge_of < 0, -1, edge_of + first_edge),
            slots("flipped"),
        )

    @classmethod
    def _of_one(cls, one: _Rooted) -> Batch:
        """A sample alone is a batch as it is."""
        n_nodes = len(one.order)
        return cls(
            np.array([0, n_nodes]),
            np.array([0, one.n_edges]),
            np.array([0, len(one.parent) - n_nodes]),
            one.child,
            one.parent,
            one.order,
            one.edge_of,
            one.flipped,
        )

    @classmethod
    def of_single_nodes(cls, n_samples: int) -> Batch:
        """Samples of one node each."""
        nodes, none = np.arange(n_samples, dtype=np.intp), np.full(n_samples, -1, np.intp)
        return cls(
            np.arange(n_samples + 1, dtype=np.intp),
            np.zeros(n_samples + 1, np.intp),
            np.zeros(n_samples + 1, np.intp),
            nodes,
            none,
            nodes.copy(),
            none.copy(),
            np.zeros(n_samples, np.bool_),
        )

    @property
    def largest(self) -> tuple[int, int]:
        """(nodes, slots) of the largest sample."""
        nodes = np.diff(self.node_offsets)
        return int(nodes.max()), int((nodes + np.diff(self.chord_offsets)).max())

    @cached_property
    def structure(self) -> Structure:
        """What the kernels take."""
        return Structure(self.node_offsets, self.chord_offsets, self.child, self.parent)

    def part(self, first: int, last: int) -> Batch:
        """Samples first .. last-1 as a batch of their own."""
        return self.take(np.arange(first, last))

    def nodes_of(self, samples: np.ndarray) -> np.ndarray:
        """Positions of all nodes of the given samples, one sample after the other."""
        sizes = np.diff(self.node_offsets)[samples]
        before = np.cumsum(sizes) - sizes
        return np.repeat(self.node_offsets[samples] - before, sizes) + np.arange(sizes.sum())

    def slots_of(self, samples: np.ndarray) -> np.ndarray:
        """Slots of the given samples, in the order in which a batch of theirs has them."""
        nodes = self.nodes_of(samples)
        if self.n_chords == 0:
            return nodes
        sizes = np.diff(self.chord_offsets)[samples]
        before = np.cumsum(sizes) - sizes
        chords = np.repeat(self.chord_offsets[samples] - before, sizes) + np.arange(sizes.sum())
        return np.concatenate([nodes, self.n_nodes + chords])

    def take(self, samples: np.ndarray) -> Batch:
        """The given samples, in the given order, as a batch of their own."""
        nodes, slots = self.nodes_of(samples), self.slots_of(samples)
        sizes, chords = np.diff(self.node_offsets)[samples], np.diff(self.chord_offsets)[samples]
        node_offsets = _offsets(sizes)
        edge_offsets = _offsets(np.diff(self.edge_offsets)[samples])
        node_shift, edge_shift = (
            np.concatenate([np.repeat(shift, sizes), np.repeat(shift, chords)])
            for shift in (
                node_offsets[:-1] - self.node_offsets[samples],
                edge_offsets[:-1] - self.edge_offsets[samples],
            )
        )
        parent, edge_of = self.parent[slots], self.edge_of[slots]
        return Batch(
            node_offsets,
            edge_offsets,
            _offsets(chords),
            self.child[slots] + node_shift,
            np.where(parent < 0, -1, parent + node_shift),
            self.node_of[nodes] + node_shift[: len(nodes)],
            np.where(edge_of < 0, -1, edge_of + edge_shift),
            self.flipped[slots],
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

    @property
    def n_chords(self) -> int:
        return int(self.chord_offsets[-1])

    @property
    def n_slots(self) -> int:
        return len(self.parent)

    @cached_property
    def slot_of_edge(self) -> np.ndarray:
        """(M,) for each of the user's edges its slot."""
        slots = np.empty(self.n_edges, np.intp)
        inner = np.flatnonzero(self.edge_of >= 0)
        slots[self.edge_of[inner]] = inner
        return slots

    @cached_property
    def user_edges(self) -> np.ndarray:
        """(M, 2) the user's flat indices of the ends of every edge, as listed."""
        slots = self.slot_of_edge
        child, parent = self.node_of[self.child[slots]], self.node_of[self.parent[slots]]
        flipped = self.flipped[slots]
        ends = np.where(flipped, parent, child), np.where(flipped, child, parent)
        return np.stack(ends, axis=1)

    @cached_property
    def buckets(self) -> Buckets:
        """The cliques that exact inference works on where there are chords."""
        return Buckets.of(self)

    @cached_property
    def spanning_forests(self) -> SpanningForests:
        """Forests that cover all edges, for relaxed games with an entropy."""
        order, count = np.empty(self.n_nodes, np.intp), np.empty(self.n_samples, np.intp)
        spanning_forests(0, self.n_samples, self.structure, order, count)
        return SpanningForests(order, _offsets(count * np.diff(self.node_offsets)))

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
        """(slots, k, k) values [child, parent] as (M, k, k) [first, second], in user order."""
        out = values[self.slot_of_edge]
        swapped = self.edge_of[self.flipped]
        if len(swapped):
            out[swapped] = out[swapped].transpose(0, 2, 1)
        return out

    def edges_from_user(self, values: np.ndarray) -> np.ndarray:
        """The reverse; zero where a slot holds no edge."""
        out = np.zeros((self.n_slots, *values.shape[1:]))
        out[self.slot_of_edge] = values
        out[self.flipped] = out[self.flipped].transpose(0, 2, 1)
        return out

    def split_nodes(self, values: np.ndarray) -> list[np.ndarray]:
        """One array per sample."""
        return [values] if self.n_samples == 1 else np.split(values, self.node_offsets[1:-1])

    def split_edges(self, values: np.ndarray) -> list[np.ndarray]:
        """One array per sample, of values in the user's order of edges."""
        return [values] if self.n_samples == 1 else np.split(values, self.edge_offsets[1:-1])


def _offsets(sizes: list[int] | np.ndarray) -> np.ndarray:
    offsets = np.zeros(len(sizes) + 1, np.intp)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


@dataclass(frozen=True, eq=False)
class _Rooted:
    """One sample in its order; fields as in `Batch`."""

    order: np.ndarray
    child: np.ndarray
    parent: np.ndarray
    edge_of: np.ndarray
    flipped: np.ndarray
    n_edges: int

    @classmethod
    def of(cls, n_nodes: int, edges: np.ndarray | None) -> _Rooted:
        order = np.arange(n_nodes, dtype=np.intp)
        if edges is None:
            parent, edge_of = order + 1, order.copy()
            parent[-1], edge_of[-1] = -1, -1
            return cls(order, order, parent, edge_of, np.zeros(n_nodes, np.bool_), n_nodes - 1)
        parent, edge_of = np.empty(n_nodes, np.intp), np.empty(n_nodes, np.intp)
        flipped = np.empty(n_nodes, np.bool_)
        child = order.copy()
        if root_forest(n_nodes, len(edges), edges, order, parent, edge_of, flipped):
            return cls(order, child, parent, edge_of, flipped, len(edges))
        return cls._with_cycles(n_nodes, edges)

    @classmethod
    def _with_cycles(cls, n_nodes: int, edges: np.ndarray) -> _Rooted:
        order = elimination(n_nodes, edges).order
        position = np.empty(n_nodes, np.intp)
        position[order] = np.arange(n_nodes)
        # Along the order every edge leads from the end that is eliminated first to the other.
        ends = position[edges]
        child, parent = ends.min(axis=1), ends.max(axis=1)
        sequence = np.lexsort((parent, child))
        # A node's slot holds the edge to its first later neighbour; its other edges are chords.
        first = np.ones(len(edges), bool)
        first[1:] = child[sequence][1:] != child[sequence][:-1]
        own, chords = sequence[first], sequence[~first]
        slots = np.full((2, n_nodes), -1, np.intp)
        slots[:, child[own]] = parent[own], own
        flipped = np.zeros(n_nodes, np.bool_)
        flipped[child[own]] = ends[own, 0] > ends[own, 1]
        return cls(
            order,
            np.concatenate([np.arange(n_nodes, dtype=np.intp), child[chords]]),
            np.concatenate([slots[0], parent[chords]]),
            np.concatenate([slots[1], chords]),
            np.concatenate([flipped, ends[chords, 0] > ends[chords, 1]]),
            len(edges),
        )
