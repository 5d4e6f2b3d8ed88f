"""Splits samples of any form into structure, node features and edge features."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from robustruct.arrays import as_array, is_sparse
from robustruct.errors import InvalidInputError
from robustruct.features.columns import Blocks
from robustruct.features.names import CodedAttributes
from robustruct.graphs import Batch, Graph, n_rows


@dataclass(frozen=True, eq=False)
class Parts:
    """Structure and features of samples of any form, in the user's order."""

    structures: list[tuple[int, np.ndarray | None]] | None
    """(n_nodes, edges) of each sample, edges None for a chain; None if all have one node."""
    nodes: Blocks
    edges: Blocks | None
    """None where no edge has features."""
    n_edges: int
    types: list[str | int] | None
    """Types of all nodes; None without types."""

    @classmethod
    def of(cls, samples: Any) -> Parts:
        """Split ``samples``, at least one; refuse what is no list of samples."""
        if isinstance(samples, cls):
            return samples
        if hasattr(samples, "__array__"):
            array = as_array(samples, "X")
            samples = list(array) if array.ndim == 1 and array.dtype == object else array
        if is_sparse(samples) or isinstance(samples, np.ndarray):
            return cls._of_rows(samples)
        if not hasattr(samples, "__len__") or isinstance(samples, str | bytes | dict | Graph):
            raise InvalidInputError(
                f"X is a {type(samples).__name__}; expected a list of samples (wrap a single one "
                "in a list) or a 2-D array with one sample per row."
            )
        samples = list(samples)
        if not samples:
            raise InvalidInputError("X is empty; give at least one sample.")
        features, structures = [], []
        for s, sample in enumerate(samples):
            part = sample.node_features if isinstance(sample, Graph) else _checked_chain(sample, s)
            features.append(part)
            structures.append((n_rows(part), sample.edges if isinstance(sample, Graph) else None))
        nodes = Blocks(features, _offsets([n for n, _ in structures]), "node")
        sizes = [n - 1 if edges is None else len(edges) for n, edges in structures]
        edges = _edge_blocks(samples, sizes)
        return cls(structures, nodes, edges, sum(sizes), _node_types(samples))

    @classmethod
    def _of_rows(cls, rows: Any) -> Parts:
        """Take each row of a 2-D array as a sample of one node."""
        if rows.ndim != 2:
            raise InvalidInputError(
                f"X is an array of shape {rows.shape}; expected a list of samples, or two "
                "dimensions with one sample of one node per row. Chains of equal length: pass "
                "list(X)."
            )
        n = rows.shape[0]
        if n == 0:
            raise InvalidInputError("X is empty; give at least one sample.")
        return cls(None, Blocks([rows], np.arange(n + 1), "node"), None, 0, None)

    def batch(self) -> Batch:
        """Return the structures with nodes in elimination order, as kernels take them."""
        if self.structures is None:
            return Batch.of_single_nodes(self.nodes.n_rows)
        return Batch.build(self.structures)


def _offsets(sizes: list[int]) -> np.ndarray:
    return np.fromiter(accumulate(sizes, initial=0), np.intp, len(sizes) + 1)


def _checked_chain(sample: Any, s: int) -> Any:
    if not (
        is_sparse(sample)
        or hasattr(sample, "__array__")
        or isinstance(sample, list | tuple | CodedAttributes)
    ):
        raise InvalidInputError(
            f"sample {s} is a {type(sample).__name__}; expected a 2-D array, a scipy sparse "
            "matrix, a list with one dict or list of strings per node, or a Graph.",
            sample=s,
            field="X",
        )
    if getattr(sample, "ndim", 2) != 2:
        raise InvalidInputError(
            f"sample {s} has shape {sample.shape}; expected two dimensions, one row per node. "
            "For samples of one node pass a 2-D array as X.",
            sample=s,
            field="X",
        )
    if n_rows(sample) == 0:
        message = f"sample {s} is empty; a sample needs at least one node."
        raise InvalidInputError(message, sample=s, field="X")
    return sample


def _edge_blocks(samples: list[Any], sizes: list[int]) -> Blocks | None:
    parts = [sample.edge_features if isinstance(sample, Graph) else None for sample in samples]
    having = [s for s, part in enumerate(parts) if part is not None and n_rows(part)]
    if not having:
        return None
    for s, part in enumerate(parts):
        if part is None and sizes[s]:
            raise InvalidInputError(
                f"sample {s} has no edge_features, but sample {having[0]} has; give them to all "
                "samples or to none.",
                sample=s,
                field="X",
            )
    return Blocks([[] if part is None else part for part in parts], _offsets(sizes), "edge")


def _node_types(samples: list[Any]) -> list[str | int] | None:
    types_of = [getattr(sample, "node_types", None) for sample in samples]
    having = [s for s, types in enumerate(types_of) if types is not None]
    if not having:
        return None
    for s, types in enumerate(types_of):
        if types is None:
            raise InvalidInputError(
                f"sample {s} has no node_types, but sample {having[0]} has; give them to all "
                "samples or to none.",
                sample=s,
                field="X",
            )
    return [kind for types in types_of for kind in types or ()]
