"""The exact game in a dozen Newton steps: a primal-dual interior point with the tree's structure.

The game is a pair of linear programs, the adversary's over edge marginals and the predictor's over
max-product messages with p as a variable. Each Newton step is one elimination up the tree and one
substitution down, O(n k³) in all, without a global matrix. Mehrotra's predictor-corrector steps
keep both points strictly feasible; the bounds are taken when the complementarity says they may do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from robustruct.game.game import Game, Play
from robustruct.game.solver import GameSolver, refuse_cycles
from robustruct.kernels.interior_point import interior_point
from robustruct.kernels.structs import Effort
from robustruct.parallel import over_samples


@dataclass(frozen=True)
class InteriorPoint(GameSolver):
    """Solves to a relative gap of 1e-6 and better; time grows as n k³."""

    max_iter: int = 100

    name: ClassVar[str] = "interior_point"

    def refusal(self, game: Game) -> str | None:
        return refuse_cycles(game)

    def play(
        self, game: Game, tol: float, start: Play | None = None, n_jobs: int | None = -1
    ) -> Play:
        play = Play.empty(game, self.name)
        warm = play if start is None else start
        effort = Effort(game.allowed_gap(tol), self.max_iter, 1, play.n_iter, play.exhausted)
        over_samples(
            lambda first, last: interior_point(
                first,
                last,
                game.arrays,
                effort,
                start is not None,
                warm.strategies,
                play.strategies,
            ),
            game.scores.batch.node_offsets,
            n_jobs,
        )
        return play
