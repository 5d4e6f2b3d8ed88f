"""What every solver of the game promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from robustruct.game.game import Game, Play


def refuse_cycles(game: Game) -> str | None:
    """The refusal of a solver that walks up and down trees."""
    if game.scores.batch.n_chords == 0:
        return None
    return "it solves games on forests, and this graph has cycles; use solver='auto'"


class GameSolver(ABC):
    """An algorithm for the inner problem. Options are fields of the solver, the game is data."""

    name: ClassVar[str]

    def refusal(self, game: Game) -> str | None:
        """Why this solver cannot take ``game``, as the end of a sentence; None if it can."""
        return None

    @abstractmethod
    def play(
        self, game: Game, tol: float, start: Play | None = None, n_jobs: int | None = -1
    ) -> Play:
        """Strategies whose gap should be at most ``game.allowed_gap(tol)``.

        They need not be exactly feasible: the caller repairs them and recomputes the bounds.
        ``start`` is the outcome of a similar game, for a warm start.
        """
