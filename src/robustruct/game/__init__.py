"""The inner problem: a game between a predictor and an adversary, and its solvers."""

from robustruct.game.dual_decomposition import DualDecomposition
from robustruct.game.game import Game, Play, Status
from robustruct.game.interior_point import InteriorPoint
from robustruct.game.linear_program import LinearProgram
from robustruct.game.node_game import NodeGame, node_game
from robustruct.game.solve import GameSolution, solve_batch, solve_game, solve_games
from robustruct.game.solver import GameSolver
from robustruct.game.solvers import SOLVERS, solver_by_name

__all__ = [
    "SOLVERS",
    "DualDecomposition",
    "Game",
    "GameSolution",
    "GameSolver",
    "InteriorPoint",
    "LinearProgram",
    "NodeGame",
    "Play",
    "Status",
    "node_game",
    "solve_batch",
    "solve_game",
    "solve_games",
    "solver_by_name",
]
