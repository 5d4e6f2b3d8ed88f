"""Games in which the predictor has more to choose from than labels, such as asking a person.

The cost then has more rows [predictor's actions] than columns [adversary's labels], the first of
them being the labels. Solvers and kernels take square games, so the adversary gets as many more
labels, twins of one that can occur at the node: a twin scores as the label does, whatever its
neighbours are, and costs no more than the cheapest label for any action. Playing it is never better
than playing that label, so for every p the adversary's best answers are worth the same, the value
is the same, and mass on twins moves to their labels without loss.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from robustruct.scores import Scores

if TYPE_CHECKING:
    from robustruct.game.game import Game, Play


def with_twins(scores: Scores, cost: np.ndarray) -> tuple[Scores, np.ndarray]:
    """Return scores and cost (m, m) of the square game for a cost (m, k), m > k."""
    m, k = cost.shape
    twin = _originals(scores)
    place = np.minimum(np.arange(m), k)  # k: a twin
    of_twins = np.take_along_axis(scores.unary, twin[:, None], axis=1)
    unary = np.concatenate([scores.unary, np.repeat(of_twins, m - k, axis=1)], axis=1)
    batch = scores.batch
    # A table for each combination of a table with the originals of the twins at both ends.
    child = twin[batch.child]
    parent = np.where(batch.parent >= 0, twin[batch.parent], 0)
    kinds, table_of = np.unique(
        np.stack([scores.table_of, child, parent], axis=1), axis=0, return_inverse=True
    )
    labels = np.broadcast_to(np.arange(k), (len(kinds), k))
    rows = np.concatenate([labels, kinds[:, 1:2]], axis=1)[:, place]
    columns = np.concatenate([labels, kinds[:, 2:3]], axis=1)[:, place]
    tables = scores.tables[kinds[:, 0, None, None], rows[:, :, None], columns[:, None, :]]
    table_of = np.ascontiguousarray(table_of.reshape(-1).astype(np.intp, copy=False))
    cheapest = np.repeat(cost.min(axis=1, keepdims=True), m - k, axis=1)
    square = np.concatenate([cost, cheapest], axis=1)
    return Scores(batch, unary, np.ascontiguousarray(tables), table_of), square


def without_twins(game: Game, play: Play) -> Play:
    """Return strategies of the game from those of its square one; they stay feasible."""
    k, batch, twin = game.scores.n_labels, game.scores.batch, _originals(game.scores)
    r = _merged(play.r, twin, k)
    q = _merged(play.q, twin[batch.child], k)
    parent = np.where(batch.parent >= 0, twin[batch.parent], 0)
    q = np.ascontiguousarray(_merged(q.transpose(0, 2, 1), parent, k).transpose(0, 2, 1))
    return replace(play, r=r, q=q, certificate=None)


def padded(r: np.ndarray, q: np.ndarray, n_actions: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (r, q) of a rectangular game as an adversary of its square one, without twins."""
    more = n_actions - r.shape[1]
    return np.pad(r, ((0, 0), (0, more))), np.pad(q, ((0, 0), (0, more), (0, more)))


def _originals(scores: Scores) -> np.ndarray:
    """(N,) the label at each node whose twins are added: the first that can occur."""
    return np.argmax(scores.unary > -np.inf, axis=1)


def _merged(values: np.ndarray, twin: np.ndarray, k: int) -> np.ndarray:
    """Values (n, m, ...) by label, those of twins added to the labels ``twin`` (n,)."""
    merged = values[:, :k].copy()
    merged[np.arange(len(merged)), twin] += values[:, k:].sum(axis=1)
    return merged
