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

from robustruct.core.interior import interior_point
from robustruct.core.structs import Effort
from robustruct.game.game import Game, Play
from robustruct.game.solver import GameSolver, check_options, refuse_cycles
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
        arguments = game.arrays, *_scaled(game), effort, start is not None, warm, found
        over_samples(interior_point, offsets, n_jobs, *arguments)
        return play


def _scaled(game: Game) -> tuple[np.ndarray, float]:
    """Costs between 0 and 1, and what they were divided by."""
    least, spread = game.cost_range
    return (game.cost - least) / spread if spread > 0 else np.zeros_like(game.cost), spread
