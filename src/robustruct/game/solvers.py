"""The solvers by name, and the choice among them by the size of the games, tolerance and loss.

A new solver is a file with a `GameSolver` in it and a line in ``_CLASSES``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from robustruct.errors import InvalidInputError, shown
from robustruct.game.dual_decomposition import DualDecomposition
from robustruct.game.game import Game, Play
from robustruct.game.interior_point import InteriorPoint
from robustruct.game.linear_program import LinearProgram
from robustruct.game.node_games import ClosedForm
from robustruct.game.pairwise import Pairwise
from robustruct.game.relaxed import Relaxed
from robustruct.game.solver import GameSolver

SMALL_PROGRAM = 10_000  # entries of clique tables: about a second for HiGHS


@dataclass(frozen=True)
class Auto(GameSolver):
    """Closed forms where no game has an edge, else the interior point.

    With cycles, pairwise steps, or linear programs where these are small and the tolerance is
    tight. Small ones also finish what rounding keeps the interior point from.
    """

    name: ClassVar[str] = "auto"

    def choice(self, game: Game, tol: float) -> GameSolver:
        """The solver that would run."""
        batch = game.scores.batch
        if batch.n_edges == 0:
            return ClosedForm()
        if batch.n_chords == 0:
            return InteriorPoint()
        small = _program_sizes(game).max() <= SMALL_PROGRAM
        return LinearProgram() if tol < 1e-4 and small else Pairwise()

    def play(
        self, game: Game, tol: float, start: Play | None = None, n_jobs: int | None = -1
    ) -> Play:
        chosen = self.choice(game, tol)
        play = chosen.play(game, tol, start, n_jobs)
        if isinstance(chosen, InteriorPoint):
            _finish(game, tol, play, n_jobs)
        return play


def _program_sizes(game: Game) -> np.ndarray:
    """(S,) entries of the clique tables of each game."""
    batch = game.scores.batch
    entries = float(game.scores.n_labels) ** (batch.buckets.sizes + 1.0)
    sizes: np.ndarray = np.add.reduceat(entries, batch.node_offsets[:-1])
    return sizes


def _finish(game: Game, tol: float, play: Play, n_jobs: int | None) -> None:
    """Linear programs for the games of a forest that ``play`` has not solved, where small."""
    play.repair(game, n_jobs)
    lower, upper = play.bounds(game, n_jobs)
    unsolved = upper - lower > game.allowed_gap(tol)
    if not unsolved.any():
        return
    left = np.flatnonzero(unsolved & (_program_sizes(game) <= SMALL_PROGRAM))
    again = Play.empty(game, play.solver)
    LinearProgram().play_some(game, left, again)
    again.repair(game, n_jobs)
    new_lower, new_upper = again.bounds(game, n_jobs)
    for s in left:
        nodes = slice(*game.scores.batch.node_offsets[s : s + 2])
        play.n_iter[s] += again.n_iter[s]
        play.exhausted[s] = again.exhausted[s]
        if new_upper[s] < upper[s]:
            play.p[nodes] = again.p[nodes]
        if new_lower[s] > lower[s]:
            play.r[nodes], play.q[nodes] = again.r[nodes], again.q[nodes]
    play.certificate = None


_CLASSES: list[type[GameSolver]] = [
    Auto,
    ClosedForm,
    Pairwise,
    InteriorPoint,
    DualDecomposition,
    LinearProgram,
    Relaxed,
]

SOLVERS: dict[str, type[GameSolver]] = {solver.name: solver for solver in _CLASSES}


def solver_by_name(name: str) -> GameSolver:
    """A solver with its default options."""
    if name not in SOLVERS:
        raise InvalidInputError(
            f"solver={shown(name)} is not known; use one of {', '.join(map(repr, SOLVERS))}."
        )
    return SOLVERS[name]()


def as_solver(solver: Any) -> GameSolver:
    """A solver given by name or as it is."""
    if isinstance(solver, str):
        return solver_by_name(solver)
    if not isinstance(solver, GameSolver):
        raise InvalidInputError(
            f"solver={shown(solver)}; give a name, such as 'auto', or a GameSolver."
        )
    return solver
