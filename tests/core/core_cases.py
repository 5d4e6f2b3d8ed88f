"""Random forests with scores, for comparing the core in C with the kernels in Python."""

from __future__ import annotations

import itertools

import numpy as np

from robustruct.core.structs import ScoreArrays, Structure


def forests(
    seed: int, k: int, sizes: tuple[int, ...] = (5, 0, 1, 8, 2), chain: bool = False
) -> Structure:
    """Samples of the given numbers of nodes; some nodes are roots."""
    rng = np.random.default_rng([seed, k])
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
    parent = np.full(offsets[-1], -1, np.intp)
    for lo, hi in itertools.pairwise(offsets):
        for i in range(lo, hi - 1):
            if chain or rng.random() < 0.85:
                parent[i] = i + 1 if chain else rng.integers(i + 1, hi)
    child = np.arange(offsets[-1], dtype=np.intp)
    return Structure(offsets, np.zeros_like(offsets), child, parent)


def scores(
    structure: Structure, seed: int, k: int, n_tables: int = 3, forbidden: float = 0.2
) -> ScoreArrays:
    """Scores of which some are -inf, such that every label 0 is allowed."""
    rng = np.random.default_rng([seed, k, 1])
    n = len(structure.parent)
    unary, tables = 3 * rng.normal(size=(n, k)), rng.normal(size=(n_tables, k, k))
    unary[:, 1:][rng.random((n, k - 1)) < forbidden] = -np.inf
    tables[:, 1:, 1:][rng.random((n_tables, k - 1, k - 1)) < forbidden] = -np.inf
    return ScoreArrays(unary, tables, rng.integers(0, n_tables, n).astype(np.intp))
