"""One sample: features on nodes, edges between them, features on edges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from robustruct.arrays import is_sparse, refuse_masked
from robustruct.errors import InvalidInputError, shown


def n_rows(features: Any) -> int:
    """Number of nodes (or edges) that ``features`` describes."""
    shape = getattr(features, "shape", None)
    return len(features) if shape is None else int(shape[0])


class Graph:
    """Nodes with features, joined by edges.

    Parameters
    ----------
    node_features : array or sparse matrix of shape (n_nodes, n_features), or list
        A list holds one dict, list of strings, or string per node.
    edges : array-like of shape (n_edges, 2)
        Pairs of node indices. Each pair appears once, in either direction; the direction given
        decides which label comes first in pairwise scores and weights.
    edge_features : array, sparse matrix or list, optional
        One row (or dict) per edge. Every edge also gets a constant feature, so that plain label
        transitions are always learnt.
    node_types : sequence of str or int, optional
        What kind of thing each node is, where a graph joins several kinds (tokens and their
        sentence, objects and their scene). A node can only get labels that training has seen on
        nodes of its type; label sets with names of their own have weights of their own.

    Examples
    --------
    >>> import numpy as np
    >>> star = Graph(np.eye(4), [(0, 1), (0, 2), (0, 3)])
    >>> star.n_nodes, star.n_edges
    (4, 3)
    """

    __slots__ = ("edge_features", "edges", "node_features", "node_types")

    def __init__(
        self, node_features: Any, edges: Any, edge_features: Any = None, node_types: Any = None
    ) -> None:
        self.node_features = _checked_rows(node_features, "node_features")
        self.edges = checked_edges(edges, self.n_nodes)
        self.edge_features = edge_features
        if edge_features is not None:
            self.edge_features = _checked_rows(edge_features, "edge_features")
            if n_rows(edge_features) != self.n_edges:
                raise InvalidInputError(
                    f"edge_features describes {n_rows(edge_features)} edges but edges lists "
                    f"{self.n_edges}; give one row per edge, in the same order."
                )

        self.node_types = None if node_types is None else _checked_types(node_types, self.n_nodes)

    @classmethod
    def chain(cls, node_features: Any, edge_features: Any = None) -> Graph:
        """A sequence: each node is joined to the next."""
        return cls(node_features, chain_edges(n_rows(node_features)), edge_features)

    @property
    def n_nodes(self) -> int:
        return n_rows(self.node_features)

    @property
    def n_edges(self) -> int:
        return len(self.edges)

    def __repr__(self) -> str:
        return f"Graph({self.n_nodes} nodes, {self.n_edges} edges)"


def chain_edges(n_nodes: int) -> np.ndarray:
    """The edges (0, 1), (1, 2), ... of a sequence."""
    first = np.arange(max(n_nodes - 1, 0), dtype=np.intp)
    return np.stack([first, first + 1], axis=1)


def checked_edges(edges: Any, n_nodes: int) -> np.ndarray:
    """``edges`` as an (m, 2) integer array, or an error that names the offending edge."""
    refuse_masked(edges, "edges")
    try:
        array = np.asarray(edges)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            "edges must be pairs of node indices, shape (n_edges, 2)."
        ) from error
    if array.size == 0:
        return np.empty((0, 2), np.intp)
    if array.ndim != 2 or array.shape[1] != 2:
        raise InvalidInputError(
            f"edges has shape {array.shape}; expected (n_edges, 2): one pair of node indices a row."
        )
    if array.dtype.kind not in "iu":
        raise InvalidInputError(
            f"edges holds {array.dtype} values; node indices must be integers 0..{n_nodes - 1}."
        )
    array = np.ascontiguousarray(array, dtype=np.intp)
    if array.min() < 0 or array.max() >= n_nodes:
        outside = (array < 0) | (array >= n_nodes)
        e = int(outside.any(axis=1).argmax())
        raise InvalidInputError(
            f"edge {e} is {tuple(array[e].tolist())}, but the graph has nodes 0..{n_nodes - 1}."
        )
    pairs = array.tolist()  # graphs are small: sets are quicker than sorting arrays
    loops = [e for e, (a, b) in enumerate(pairs) if a == b]
    if loops:
        e = loops[0]
        raise InvalidInputError(
            f"edge {e} joins node {array[e, 0]} to itself; self loops are not edges of the model. "
            "Put what it expresses into the node's features."
        )
    keys = [a * n_nodes + b if a < b else b * n_nodes + a for a, b in pairs]
    if len(set(keys)) < len(keys):
        first = np.unique(keys, return_index=True)[1]
        e = int(np.setdiff1d(np.arange(len(keys)), first)[0])
        raise InvalidInputError(
            f"edge {e} {tuple(array[e].tolist())} appears twice (in either direction); list each "
            "pair once and add up its features."
        )
    return array


def _checked_rows(features: Any, field: str) -> Any:
    if is_sparse(features):
        n_dimensions: int = getattr(features, "ndim", 2)
        if n_dimensions != 2:
            raise InvalidInputError(
                f"{field} is a sparse array of {n_dimensions} dimension(s); expected 2."
            )
    elif isinstance(features, np.ndarray):
        if features.ndim != 2:
            raise InvalidInputError(
                f"{field} has shape {features.shape}; expected two dimensions, one row per item."
            )
    elif not isinstance(features, Sequence) or isinstance(features, str | bytes):
        raise InvalidInputError(
            f"{field} is a {type(features).__name__}; expected a 2-D array, a scipy sparse matrix, "
            "or a list with one dict or list of strings per item."
        )
    if field == "node_features" and n_rows(features) == 0:
        raise InvalidInputError("node_features is empty; a sample needs at least one node.")
    return features


def _checked_types(node_types: Any, n_nodes: int) -> list[str | int]:
    if isinstance(node_types, str) or not isinstance(node_types, Iterable):
        raise InvalidInputError(
            f"node_types is a {type(node_types).__name__}; give a list with one type per node."
        )
    types = node_types.ravel().tolist() if isinstance(node_types, np.ndarray) else list(node_types)
    if len(types) != n_nodes:
        raise InvalidInputError(
            f"node_types names {len(types)} types but the graph has {n_nodes} nodes; give one each."
        )
    for i, kind in enumerate(types):
        if isinstance(kind, bool) or not isinstance(kind, str | int):
            raise InvalidInputError(
                f"the type of node {i} is {shown(kind)}; types are strings or integers."
            )
    return types
