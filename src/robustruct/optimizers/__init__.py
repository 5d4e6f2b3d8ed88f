"""How an objective is minimised: one contract, one file per optimizer."""

from typing import Any

__all__ = ["Subgradient"]


def __getattr__(name: str) -> Any:
    """`Subgradient`, whose game solvers bring much compiled code, when it is asked for."""
    if name != "Subgradient":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from robustruct.optimizers.subgradient import Subgradient

    return Subgradient
