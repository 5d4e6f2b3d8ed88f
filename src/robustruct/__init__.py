"""Structured prediction trained for the cost that matters."""

from __future__ import annotations

from robustruct._lazy import names_from
from robustruct._version import __version__

TYPE_CHECKING = False  # typing itself would be most of what is loaded here
if TYPE_CHECKING:
    from robustruct.constraints import Constraints
    from robustruct.game.solve import GameSolution, solve_game, solve_games
    from robustruct.graphs.graph import Graph
    from robustruct.models import AGM, CRF, SSVM, AutoModel
    from robustruct.models.pipelines import NodeTransformer, cross_val_predict
    from robustruct.models.storage import load
    from robustruct.optimizers.checkpoints import Checkpoint

__all__ = [
    "AGM",
    "CRF",
    "SSVM",
    "AutoModel",
    "Checkpoint",
    "Constraints",
    "GameSolution",
    "Graph",
    "NodeTransformer",
    "__version__",
    "cross_val_predict",
    "load",
    "solve_game",
    "solve_games",
]

# Importing the package (and the command line) starts at once.
__getattr__, __dir__ = names_from(
    __name__,
    {
        "AGM": "robustruct.models",
        "AutoModel": "robustruct.models",
        "CRF": "robustruct.models",
        "SSVM": "robustruct.models",
        "Checkpoint": "robustruct.optimizers.checkpoints",
        "Constraints": "robustruct.constraints",
        "GameSolution": "robustruct.game.solve",
        "Graph": "robustruct.graphs.graph",
        "cross_val_predict": "robustruct.models.pipelines",
        "NodeTransformer": "robustruct.models.pipelines",
        "load": "robustruct.models.storage",
        "solve_game": "robustruct.game.solve",
        "solve_games": "robustruct.game.solve",
    },
)
