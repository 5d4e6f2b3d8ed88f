"""Games and best labellings on the local polytope, for graphs too wide to be solved exactly.

The adversary's edge marginals need only agree with its node marginals, which on a graph with cycles
allows more than any distribution over labellings does. The value of the relaxed game is therefore
at least that of the exact one; on a forest they are equal. The upper bound holds for both games,
the lower bound for the relaxed one only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from robustruct.core.games import normalise_predictors
from robustruct.core.relaxation import round_labels, solve_relaxed
from robustruct.core.structs import Effort, RelaxedPoint
from robustruct.game.certified import certified, rounding_of
from robustruct.game.game import Game, Play
from robustruct.game.interior_point import InteriorPoint
from robustruct.game.solver import GameSolver, check_options
from robustruct.graphs import Batch
from robustruct.parallel import over_samples
from robustruct.scores import Scores


@dataclass(frozen=True, kw_only=True)
class Relaxed(GameSolver):
    """First-order steps whose cost per step is that of looking at every score once."""

    max_iter: int = 20_000
    check_every: int = 50
    """Steps between two computations of the bounds."""
    name: ClassVar[str] = "relaxed"

    def __post_init__(self) -> None:
        check_options(self, counts=("max_iter", "check_every"))

    def play(
        self, game: Game, tol: float, start: Play | None = None, n_jobs: int | None = -1
    ) -> Play:
        if game.scores.batch.n_chords == 0:  # nothing to relax
            play = InteriorPoint().play(game, tol, start, n_jobs)
            play.solver = self.name
            return play
        return self.descend(game, game.allowed_gap(tol), start, n_jobs)[0]

    def descend(
        self, game: Game, allowed: np.ndarray, start: Play | None, n_jobs: int | None
    ) -> tuple[Play, np.ndarray]:
        """Strategies with their bounds, and the multipliers u (slots, 2, k)."""
        s, b = game.scores, game.scores.batch
        n, k = s.unary.shape
        play = Play.empty(game, self.name)
        play.p[:], play.r[:], play.q[:] = 1.0 / k, 1.0 / k, 1.0 / k**2
        if start is not None:
            play.p[:], play.r[:], play.q[:] = start.p, start.r, start.q
        normalise_predictors(0, n, s.arrays, play.p)
        u = np.zeros((b.n_slots, 2, k))
        lower, upper = np.empty(b.n_samples), np.empty(b.n_samples)
        effort = Effort(allowed, self.max_iter, self.check_every, play.n_iter, play.exhausted)
        point = RelaxedPoint(play.p, play.r, play.q, u)
        over_samples(
            lambda first, last: solve_relaxed(
                first, last, game.arrays, effort, point, lower, upper
            ),
            b.node_offsets,
            n_jobs,
        )
        play.q[b.parent < 0] = 0.0
        lower, upper = certified(
            lower, upper, game.most_rounding() + _rounding_of(b, u), "relaxed game"
        )
        play.exhausted = upper - lower > allowed
        play.relaxed_bounds = (lower, upper)
        return play, u


def relaxed_labelling(
    scores: Scores, tol: float = 1e-3, n_jobs: int | None = -1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(labels (N,), their scores (S,), upper bounds (S,) on the best score).

    The relaxed problem is solved to ``tol`` times the range of the scores, and rounded.
    """
    b, k = scores.batch, scores.n_labels
    game = Game(scores, np.zeros((k, k)), np.zeros(b.n_nodes))
    allowed = tol * np.add.reduceat(_ranges(scores), b.node_offsets[:-1]) + game.rounding()
    play, u = Relaxed().descend(game, allowed, None, n_jobs)
    labels, values = np.empty(b.n_nodes, np.intp), np.empty(b.n_samples)
    over_samples(
        lambda first, last: round_labels(
            first, last, b.structure, scores.arrays, u, labels, values
        ),
        b.node_offsets,
        n_jobs,
    )
    assert play.relaxed_bounds is not None
    rounding = game.most_rounding() + _rounding_of(b, u)
    values, upper = certified(values, play.relaxed_bounds[1], rounding, "the labelling of sample")
    return labels, values, upper


def _rounding_of(batch: Batch, u: np.ndarray) -> np.ndarray:
    """(S,) what multipliers u, which enter and leave the upper bound, add to its rounding."""
    largest = np.where(batch.parent >= 0, np.abs(u).max(axis=(1, 2)), 0.0)
    sample = np.searchsorted(batch.node_offsets, batch.child, side="right") - 1
    sizes = 4.0 * np.bincount(sample, largest, minlength=batch.n_samples)
    found: np.ndarray = rounding_of(2.0 * u.shape[2] * np.diff(batch.edge_offsets), sizes)
    return found


def _ranges(scores: Scores) -> np.ndarray:
    """(N,) how much the label of each node can matter, by its own scores."""
    allowed = np.isfinite(scores.unary)
    high = np.where(allowed, scores.unary, -np.inf).max(axis=1)
    low = np.where(allowed, scores.unary, np.inf).min(axis=1)
    return high - low
