"""Stopping on validation data: the loss there is often flat long before the gap closes."""

from __future__ import annotations

from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import numpy as np

from robustruct.errors import InvalidInputError
from robustruct.losses import LossLike
from robustruct.models.prediction import HeldOut
from robustruct.objectives.build import Plan
from robustruct.optimizers.certificates import Record, records
from robustruct.validation import as_listed

if TYPE_CHECKING:
    from robustruct.models.base import StructuredModel


class EarlyStopping:
    """Called with every certificate; remembers the weights with the lowest validation loss."""

    def __init__(
        self,
        model: StructuredModel,
        plan: Plan,
        loss: LossLike,
        validation: Any,
        patience: int,
        *,
        rows: bool,
    ) -> None:
        """``rows``: whether training samples are the rows of an array."""
        if not isinstance(validation, tuple | list) or len(validation) != 2:
            raise InvalidInputError("validation must be a pair (X, y).")
        X, y = validation[0], as_listed(validation[1])
        self.model, self.plan, self.patience = model, plan, patience
        try:
            X, flat = model._checked(X, rows)
            self.held_out = HeldOut.encoded(plan.space.encode(X), flat, plan.classes, loss, y)
        except InvalidInputError as error:
            raise error.at("validation", field="validation") from None
        self.theta: np.ndarray | None = None
        self.record: Record | None = None
        self.loss = np.inf
        self.since_best = 0

    def __call__(self, record: Record, theta: np.ndarray) -> bool:
        """True when ``patience`` evaluations have passed without a lower loss."""
        decided = self.held_out.decided(self.model, self.plan.weights_for_given(theta))
        loss = self.held_out.mean_cost(decided)
        if loss < self.loss:
            self.loss, self.theta, self.record, self.since_best = loss, theta.copy(), record, 0
        else:
            self.since_best += 1
        return self.since_best >= self.patience

    def state(self) -> dict[str, np.ndarray]:
        """What was found so far; `restore` takes it back."""
        found = {"loss": np.array(self.loss), "since_best": np.array(self.since_best)}
        if self.theta is not None and self.record is not None:
            found |= {"theta": self.theta, "record": np.array(astuple(self.record))}
        return found

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from an earlier `state`."""
        self.loss, self.since_best = state["loss"].item(), state["since_best"].item()
        if "theta" in state:
            self.theta, (self.record,) = state["theta"], records(state["record"][None])
