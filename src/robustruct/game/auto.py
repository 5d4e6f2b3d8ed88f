"""Picks a solver by the size of the games, the tolerance and the loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from robustruct.game.closed_form import ClosedForm
from robustruct.game.game import Game, Play
from robustruct.game.interior_point import InteriorPoint
from robustruct.game.linear_program import LinearProgram
from robustruct.game.pairwise import Pairwise
from robustruct.game.solver import GameSolver

SMALL_PROGRAM = 10_000  # entries of clique tables: about a second for HiGHS


@dataclass(frozen=True)
class Auto(GameSolver):
    """Closed forms where no game has an edge, else the interior point.

    With cycles, pairwise steps, or linear programs where these are small and the tolerance is
    tight.
    """

    name: ClassVar[str] = "auto"

    def choice(self, game: Game, tol: float) -> GameSolver:
        """The solver that would run."""
        if (game.scores.batch.parent < 0).all():
            return ClosedForm()
        batch = game.scores.batch
        if batch.n_chords == 0:
            return InteriorPoint()
        entries = float(game.scores.n_labels) ** (batch.buckets.sizes + 1.0)
        largest = np.add.reduceat(entries, batch.node_offsets[:-1]).max()
        return LinearProgram() if tol < 1e-4 and largest <= SMALL_PROGRAM else Pairwise()

    def play(
        self, game: Game, tol: float, start: Play | None = None, n_jobs: int | None = -1
    ) -> Play:
        return self.choice(game, tol).play(game, tol, start, n_jobs)
