"""The solvers by name. A new one is a file with a GameSolver in it and a line here."""

from __future__ import annotations

from typing import Any

from robustruct.errors import InvalidInputError, shown
from robustruct.game.auto import Auto
from robustruct.game.closed_form import ClosedForm
from robustruct.game.dual_decomposition import DualDecomposition
from robustruct.game.interior_point import InteriorPoint
from robustruct.game.linear_program import LinearProgram
from robustruct.game.pairwise import Pairwise
from robustruct.game.relaxed import Relaxed
from robustruct.game.solver import GameSolver

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
