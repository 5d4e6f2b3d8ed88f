"""Eight bytes for each sample, by which it is recognised when it comes again."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from robustruct.features.matrix import FeatureMatrix, part_of
from robustruct.features.space import Design
from robustruct.parallel import stretches

# Odd constants with irregular bits: the golden ratio, and those of the mixer of splitmix64.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def sample_digests(design: Design) -> np.ndarray:
    """(S,) uint64 digests of samples as they are encoded, before columns are standardised.

    Equal samples have equal digests in any batch. Sums wrap around, as is meant.
    """
    batch = design.batch
    starts = batch.node_offsets[:-1]
    first = np.repeat(starts, np.diff(batch.node_offsets))
    place = (np.arange(batch.n_nodes) - first).astype(np.uint64)
    nodes = _mixed(_row_digests(design.nodes) + GOLDEN * (place + np.uint64(1)))
    digests: np.ndarray = np.add.reduceat(nodes, starts)
    np.add.at(digests, *_edge_digests(design))
    return digests


def joined_digests(parts: Iterable[np.ndarray | None]) -> np.ndarray:
    """Those of several shards, of which all or none have some."""
    return np.concatenate([np.zeros(0, np.uint64), *(one for one in parts if one is not None)])


def _edge_digests(design: Design) -> tuple[np.ndarray, np.ndarray]:
    """(m,) the sample of each edge, and (m,) a digest of its ends and features."""
    batch = design.batch
    slots = np.flatnonzero(batch.parent >= 0)
    owner = np.searchsorted(batch.node_offsets, batch.child[slots], side="right") - 1
    first = batch.node_offsets[owner]
    child, parent = (
        (ends[slots] - first).astype(np.uint64) for ends in (batch.child, batch.parent)
    )
    tables = _row_digests(design.edges)[design.table_row] + design.table_transposed
    ends = _mixed(child + GOLDEN * parent)
    return owner, _mixed(ends + tables[design.table_of[slots]])


def _row_digests(matrix: FeatureMatrix) -> np.ndarray:
    """(n,) digests of rows: sums over their entries, so that the order of these does not matter."""
    n, width = matrix.shape
    digests = np.empty(n, np.uint64)
    of_column = _mixed(GOLDEN * np.arange(1, width + 1, dtype=np.uint64))
    for begin, end in stretches(n, width if isinstance(matrix, np.ndarray) else 64):
        part = part_of(matrix, begin, end)
        if isinstance(part, np.ndarray):
            digests[begin:end] = (_bits(part) * of_column).sum(axis=1)
            continue
        sums = np.zeros(len(part.data) + 1, np.uint64)
        np.cumsum(_bits(part.data) * of_column[part.indices], out=sums[1:])
        digests[begin:end] = np.diff(sums[part.indptr])
    return digests


def _bits(values: np.ndarray) -> np.ndarray:
    """The bits of numbers as odd integers; 0 and -0 are the same number."""
    bits: np.ndarray = (values + 0.0).view(np.uint64) | np.uint64(1)
    return bits


def _mixed(values: np.ndarray) -> np.ndarray:
    """Spread every bit over all of them."""
    values = (values ^ (values >> np.uint64(30))) * FIRST
    values = (values ^ (values >> np.uint64(27))) * SECOND
    mixed: np.ndarray = values ^ (values >> np.uint64(31))
    return mixed
