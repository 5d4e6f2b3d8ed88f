"""The inner problem: a game between a predictor and an adversary, and its solvers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robustruct._lazy import names_from

if TYPE_CHECKING:
    from robustruct.game.dual_decomposition import DualDecomposition
    from robustruct.game.game import Game, Play
    from robustruct.game.solver import GameSolver
    from robustruct.status import Status

__all__ = ["DualDecomposition", "Game", "GameSolver", "Play", "Status"]

# Training needs games but none of the solvers.
__getattr__, __dir__ = names_from(
    __name__,
    {
        "DualDecomposition": "robustruct.game.dual_decomposition",
        "Game": "robustruct.game.game",
        "GameSolver": "robustruct.game.solver",
        "Play": "robustruct.game.game",
        "Status": "robustruct.status",
    },
)
