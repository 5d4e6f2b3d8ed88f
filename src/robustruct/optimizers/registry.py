"""The optimizers by name. A new one is a file with an Optimizer in it and a line here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from robustruct.errors import IncompatibleError
from robustruct.optimizers.optimizer import Optimizer
from robustruct.optimizers.shards import SamplesOutline


def _dual_ascent() -> Optimizer:
    from robustruct.optimizers.dual_ascent import DualAscent

    return DualAscent()


def _lbfgs() -> Optimizer:
    from robustruct.optimizers.lbfgs import LBFGS

    return LBFGS()


def _natural_ascent() -> Optimizer:
    from robustruct.optimizers.natural_ascent import NaturalAscent

    return NaturalAscent()


def _subgradient() -> Optimizer:
    from robustruct.optimizers.subgradient import Subgradient

    return Subgradient()


# Functions, as each optimizer brings compiled code of its own that others do without.
OPTIMIZERS: dict[str, Callable[[], Optimizer]] = {
    "dual_ascent": _dual_ascent,
    "lbfgs": _lbfgs,
    "natural_ascent": _natural_ascent,
    "subgradient": _subgradient,
}
FINEST = 1e-5  # gaps that visits in float32 can reach
MANY_PAIRS = 2**27  # samples times pairs of labels: eight bytes each
AUTO = {"game": "dual_ascent", "hinge": "dual_ascent", "likelihood": "lbfgs"}


def chosen(
    optimizer: str | Optimizer,
    objective: str,
    temperature: float,
    tol: float,
    shards: SamplesOutline,
) -> Optimizer:
    """The optimizer that is meant by a name, "auto" or an object with options."""
    if not isinstance(optimizer, str):
        return optimizer
    if optimizer == "auto":
        problem = shards.local_problem
        relaxed = problem is not None and problem.relaxed
        if shards.outline.l1 > 0 or (relaxed and temperature > 0):
            return _lbfgs()
        # Without costs in training it is the likelihood, whatever it is called.
        likelihood = temperature == np.inf
        optimizer = AUTO["likelihood" if likelihood else objective]
        if (0 < temperature < np.inf) or (likelihood and _suits_natural_ascent(tol, shards)):
            optimizer = "natural_ascent"
    return OPTIMIZERS[optimizer]()


def _suits_natural_ascent(tol: float, shards: SamplesOutline) -> bool:
    """Whether it should be quicker than L-BFGS on a likelihood: sparse features, of about one size.

    On 30 to 1,000 sentences of CoNLL-2000 it took a tenth to a thirtieth of the time.
    """
    outline, tuning = shards.outline, shards.tuning
    if tol < FINEST or outline.n_chords:
        return False
    return outline.n_samples * outline.n_labels**2 <= MANY_PAIRS and tuning.sparse and tuning.even


def check_takes(optimizer: Optimizer, objective: str, shards: SamplesOutline) -> None:
    """Refuse samples that the optimizer cannot take."""
    if shards.outline.l1 > 0 and not optimizer.takes_l1:
        raise IncompatibleError(
            f"optimizer={optimizer.name!r} takes no penalty on absolute weights; use "
            "optimizer='auto' with l1 > 0."
        )
    problems = (shards.local_problems or {}).values()
    if any(one.partial for one in problems) and not optimizer.takes_partial:
        raise IncompatibleError(
            f"optimizer={optimizer.name!r} needs the label of every node; use "
            f"optimizer={AUTO[objective]!r} where labels are known in part."
        )
    refusal = optimizer.refusal(shards)
    if refusal is not None:
        raise IncompatibleError(f"{refusal}; use optimizer='auto'.")
