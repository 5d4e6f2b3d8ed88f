"""The optimizers by name. A new one is a file with an Optimizer in it and a line here."""

from __future__ import annotations

from collections.abc import Callable

from robustruct.errors import IncompatibleError
from robustruct.optimizers.optimizer import Optimizer, Shards


def _dual_ascent() -> Optimizer:
    from robustruct.optimizers.dual_ascent import DualAscent

    return DualAscent()


def _lbfgs() -> Optimizer:
    from robustruct.optimizers.lbfgs import LBFGS

    return LBFGS()


def _subgradient() -> Optimizer:
    from robustruct.optimizers.subgradient import Subgradient

    return Subgradient()


# Functions, as each optimizer brings compiled code of its own that others do without.
OPTIMIZERS: dict[str, Callable[[], Optimizer]] = {
    "dual_ascent": _dual_ascent,
    "lbfgs": _lbfgs,
    "subgradient": _subgradient,
}
AUTO = {"game": "dual_ascent", "hinge": "dual_ascent", "likelihood": "lbfgs"}


def chosen(optimizer: str | Optimizer, objective: str) -> Optimizer:
    """The optimizer that is meant by a name, "auto" or an object with options."""
    if isinstance(optimizer, str):
        optimizer = OPTIMIZERS[AUTO[objective] if optimizer == "auto" else optimizer]()
    return optimizer


def check_takes(optimizer: Optimizer, objective: str, shards: Shards) -> None:
    """Refuse samples that the optimizer cannot take."""
    refusal = optimizer.refusal(shards)
    if refusal is not None:
        raise IncompatibleError(f"{refusal}; use optimizer={AUTO[objective]!r}.")
