"""How an objective is minimised: one contract, one file per optimizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robustruct._lazy import names_from

if TYPE_CHECKING:
    from robustruct.optimizers.collective import Collective
    from robustruct.optimizers.optimizer import Optimizer
    from robustruct.optimizers.subgradient import Subgradient

__all__ = ["Collective", "Optimizer", "Subgradient"]

# The solvers of games that `Subgradient` needs are loaded with it only.
__getattr__, __dir__ = names_from(
    __name__,
    {
        "Collective": "robustruct.optimizers.collective",
        "Optimizer": "robustruct.optimizers.optimizer",
        "Subgradient": "robustruct.optimizers.subgradient",
    },
)
