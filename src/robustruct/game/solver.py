"""What every solver of the game promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from numbers import Integral, Real
from typing import ClassVar

import numpy as np

from robustruct.errors import InvalidInputError, shown
from robustruct.game.game import Game, Play


def refuse_cycles(game: Game) -> str | None:
    """The refusal of a solver that walks up and down trees."""
    if game.scores.batch.n_chords == 0:
        return None
    return "it solves games on forests, and this graph has cycles; use solver='auto'"


def check_options(
    options: object,
    *,
    counts: Sequence[str] = (),
    positive: Sequence[str] = (),
    limits: Sequence[str] = (),
    **choices: tuple[str, ...],
) -> None:
    """Refuse fields that make no sense; kernels would hang on them, or divide by them.

    counts: integers > 0; positive: finite numbers > 0; limits: the same, or infinity; choices: the
    names that a field may be.
    """

    def check(names: Sequence[str], kind: type, most: float, wanted: str) -> None:
        for name in names:
            value = getattr(options, name)
            known = isinstance(value, kind) and not isinstance(value, bool)  # True is a number too
            if not (known and 0 < value <= most):
                raise InvalidInputError(f"{name}={shown(value)}; give {wanted}.")

    check(counts, Integral, np.iinfo(np.intp).max, "an integer > 0")
    check(positive, Real, np.finfo(float).max, "a finite number > 0")
    check(limits, Real, np.inf, "a number > 0")
    for name, known in choices.items():
        value = getattr(options, name)
        if not (isinstance(value, str) and value in known):
            names = " or ".join(map(repr, known))
            raise InvalidInputError(f"{name}={shown(value)} is not known; use {names}.")


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
