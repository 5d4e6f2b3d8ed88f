"""Stopping on validation data: the loss there is often flat long before the gap closes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from robustruct.losses import as_loss
from robustruct.metrics import mean_loss
from robustruct.models import data
from robustruct.training.fit import Record

if TYPE_CHECKING:
    from robustruct.models.base import StructuredModel


class EarlyStopping:
    """Called with every certificate; remembers the weights with the lowest validation loss."""

    def __init__(self, model: StructuredModel, X: Any, y: Any) -> None:
        self.model = model
        self.design = model._space.encode(X)
        self.truth = data.label_arrays(y, self.design.batch, data.is_flat(X))
        self.loss, self.theta = np.inf, np.zeros(0)
        self.since_best = 0

    def __call__(self, record: Record, theta: np.ndarray) -> bool:
        """True when ``patience`` evaluations have passed without a lower loss."""
        model, batch = self.model, self.design.batch
        codes = model._decide(model._scores(self.design, theta))
        predicted = model.classes_[batch.to_user(codes)]
        truth = np.concatenate(self.truth)
        loss = mean_loss([truth], [predicted], as_loss(model.loss), classes=model.classes_)
        if loss < self.loss:
            self.loss, self.theta, self.since_best = loss, theta.copy(), 0
        else:
            self.since_best += 1
        model.validation_loss_ = self.loss
        return self.since_best >= model.patience
