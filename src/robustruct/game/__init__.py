"""The inner problem: a game between a predictor and an adversary, and its solvers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robustruct._lazy import names_from

if TYPE_CHECKING:
    from robustruct.game.dual_decomposition import DualDecomposition
    from robustruct.game.game import Game, Play
    from robustruct.game.interior_point import InteriorPoint
    from robustruct.game.linear_program import LinearProgram
    from robustruct.game.solve import GameSolution, solve_batch, solve_game, solve_games
    from robustruct.game.solver import GameSolver
    from robustruct.game.solvers import SOLVERS, solver_by_name
    from robustruct.status import Status

__all__ = [
    "SOLVERS",
    "DualDecomposition",
    "Game",
    "GameSolution",
    "GameSolver",
    "InteriorPoint",
    "LinearProgram",
    "Play",
    "Status",
    "solve_batch",
    "solve_game",
    "solve_games",
    "solver_by_name",
]

# Training needs games but none of the solvers, each of which brings compiled code.
__getattr__, __dir__ = names_from(
    __name__,
    {
        "SOLVERS": "robustruct.game.solvers",
        "DualDecomposition": "robustruct.game.dual_decomposition",
        "Game": "robustruct.game.game",
        "GameSolution": "robustruct.game.solve",
        "GameSolver": "robustruct.game.solver",
        "InteriorPoint": "robustruct.game.interior_point",
        "LinearProgram": "robustruct.game.linear_program",
        "Play": "robustruct.game.game",
        "Status": "robustruct.status",
        "solve_batch": "robustruct.game.solve",
        "solve_game": "robustruct.game.solve",
        "solve_games": "robustruct.game.solve",
        "solver_by_name": "robustruct.game.solvers",
    },
)
