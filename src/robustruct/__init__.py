"""Structured prediction trained for the cost that matters."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from robustruct._version import __version__

if TYPE_CHECKING:
    from robustruct.game.solve import GameSolution, solve_game, solve_games
    from robustruct.graphs.graph import Graph
    from robustruct.models import AGM, CRF, SSVM
    from robustruct.models.storage import load

__all__ = [
    "AGM",
    "CRF",
    "SSVM",
    "GameSolution",
    "Graph",
    "__version__",
    "load",
    "solve_game",
    "solve_games",
]

# Loaded on first use, so that importing the package (and the command line) starts at once.
_HOME = {
    "AGM": "robustruct.models",
    "CRF": "robustruct.models",
    "SSVM": "robustruct.models",
    "GameSolution": "robustruct.game.solve",
    "Graph": "robustruct.graphs.graph",
    "load": "robustruct.models.storage",
    "solve_game": "robustruct.game.solve",
    "solve_games": "robustruct.game.solve",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'robustruct' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
