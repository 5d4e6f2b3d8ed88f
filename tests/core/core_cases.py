"""Random forests with scores, as the core takes them."""

from __future__ import annotations

import itertools

import numpy as np

from robustruct.core.structs import GameArrays, ScoreArrays, Structure


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


LABELS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 15, 16, 17, 23, 24, 31, 33, 50, 64]


def games(
    seed: int,
    k: int,
    sizes: tuple[int, ...] = (5, 1, 1, 8, 2),
    forbidden: float = 0.2,
    scale: float = 1.0,
) -> GameArrays:
    """Games on forests; some nodes have no weight."""
    rng = np.random.default_rng([seed, k, 2])
    structure = forests(seed, k, sizes)
    given = scores(structure, seed, k, forbidden=forbidden)
    given = given._replace(unary=scale * given.unary, tables=scale * given.tables)
    cost, weight = rng.random((k, k)), rng.uniform(0.1, 2.0, sum(sizes))
    np.fill_diagonal(cost, 0.0)
    weight[rng.random(len(weight)) < 0.1] = 0.0
    return GameArrays(structure, given, cost, weight)


def game_with_chords(k: int) -> GameArrays:
    """Two chains, of which the second has three chords."""
    game = games(5, k, (3, 5))
    parent = np.array([1, 2, -1, 4, 5, 6, 7, -1, 5, 6, 7], np.intp)
    child = np.array([*range(8), 3, 3, 4], np.intp)
    structure = Structure(game.structure.offsets, np.array([0, 0, 3], np.intp), child, parent)
    table_of = np.arange(11, dtype=np.intp) % 3
    return game._replace(structure=structure, scores=game.scores._replace(table_of=table_of))
