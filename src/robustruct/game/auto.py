"""Picks a solver by the size of the games, the tolerance and the loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from robustruct.game.closed_form import ClosedForm
from robustruct.game.game import Game, Play
from robustruct.game.interior_point import InteriorPoint
from robustruct.game.solver import GameSolver


@dataclass(frozen=True)
class Auto(GameSolver):
    """Closed forms where no game has an edge, else the interior point."""

    name: ClassVar[str] = "auto"

    def choice(self, game: Game, tol: float) -> GameSolver:
        """The solver that would run."""
        if (game.scores.batch.parent < 0).all():
            return ClosedForm()
        return InteriorPoint()

    def play(
        self, game: Game, tol: float, start: Play | None = None, n_jobs: int | None = -1
    ) -> Play:
        return self.choice(game, tol).play(game, tol, start, n_jobs)
