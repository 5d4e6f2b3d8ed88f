"""The exact game in a dozen Newton steps: a primal-dual interior point with the tree's structure.

The game is a pair of linear programs, the adversary's over edge marginals and the predictor's over
max-product messages with p as a variable. Each Newton step is one elimination up the tree and one
substitution down, O(n k³) in all, without a global matrix. Mehrotra's predictor-corrector steps
keep both points strictly feasible; the bounds are taken when the complementarity says they may do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from robustruct.core.structs import Effort, InteriorState
from robustruct.game.game import Game, Play
from robustruct.game.solver import GameSolver, check_options, refuse_cycles
from robustruct.kernels.interior_point import interior_point
from robustruct.parallel import over_samples


@dataclass(frozen=True)
class InteriorPoint(GameSolver):
    """Solves to a relative gap of 1e-6 and better; time grows as n k³."""

    max_iter: int = 100

    name: ClassVar[str] = "interior_point"

    def __post_init__(self) -> None:
        check_options(self, counts=("max_iter",))

    def refusal(self, game: Game) -> str | None:
        return refuse_cycles(game)

    def play(
        self, game: Game, tol: float, start: Play | None = None, n_jobs: int | None = -1
    ) -> Play:
        play = Play.empty(game, self.name)
        warm = (play if start is None else start).strategies
        effort = Effort(game.allowed_gap(tol), self.max_iter, 1, play.n_iter, play.exhausted)
        found, offsets = play.strategies, game.scores.batch.node_offsets
        costs = _scaled(game)

        def work(first: int, last: int) -> None:
            largest = int(np.maximum.reduce(offsets[first + 1 : last + 1] - offsets[first:last]))
            state = _new_state(largest, game.scores.unary, *costs)
            interior_point(first, last, game.arrays, effort, start is not None, warm, found, state)

        over_samples(work, offsets, n_jobs)
        return play


def _scaled(game: Game) -> tuple[np.ndarray, float]:
    """Costs between 0 and 1, and what they were divided by."""
    least, spread = game.cost_range
    return (game.cost - least) / spread if spread > 0 else np.zeros_like(game.cost), spread


def _new_state(n: int, unary: np.ndarray, loss: np.ndarray, spread: float) -> InteriorState:
    """Memory for one game after the other, of up to n nodes each."""
    k = unary.shape[1]
    return InteriorState(
        tree=np.empty((n, 4), np.intp),
        labels=np.empty((n, k), np.intp),
        answers=np.empty((n, k), np.intp),
        scalar=np.empty((n, 2)),
        vec=np.empty((n, 18, k)),
        mat=np.empty((n + 1, 10, k, k)),
        loss=loss,
        spread=spread,
        best=np.empty_like(unary),
        augmented=np.empty_like(unary),
        factor=np.empty((n, k)),
        star=np.empty(len(unary), np.intp),
    )
