"""The loss that ``--loss``, ``--cost`` and ``--label-order`` describe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from robustruct.errors import InvalidInputError
from robustruct.formats.costs import CostChange, changed_costs, named_costs, read_costs
from robustruct.labels import as_labels
from robustruct.losses import CostMatrix, Loss, as_loss

ORDINAL = ("absolute", "squared")
NAMES = ("hamming", *ORDINAL)


class ChosenLoss(Loss):
    """A loss by name or from a CSV file, with single costs changed.

    Labels are known only when the data are read; whatever is wrong without them is refused in the
    constructor.

    Parameters
    ----------
    loss : str or Loss
        "hamming", "absolute", "squared", the path of a CSV file, or a loss to change.
    costs : sequence of str
        Changes such as "A>B=5".
    order : sequence of str, optional
        Labels from the lowest to the highest.
    encoding : str
        Encoding of the CSV file.
    """

    def __init__(
        self,
        loss: str | Loss,
        costs: Sequence[str] = (),
        order: Sequence[str] | None = None,
        encoding: str = "utf-8",
    ) -> None:
        self.loss, self.order = loss, order
        self.changes = [CostChange.parse(text) for text in costs]
        self.table: CostMatrix | None = None
        if order is not None and loss not in ORDINAL:
            raise InvalidInputError("--label-order goes with --loss absolute or --loss squared.")
        if isinstance(loss, str) and loss not in NAMES:
            if "." not in loss and "/" not in loss:
                raise InvalidInputError(
                    f"--loss {loss} is not known; use {', '.join(NAMES)} or a CSV file (FILE.csv)."
                )
            self.table = read_costs(loss, encoding)

    def of(self, classes: np.ndarray) -> Loss:
        """Return the loss for data with these labels; it may have costs of further labels."""
        base = self._unchanged(classes)
        if not self.changes:
            return base
        if isinstance(base, CostMatrix) and base.labels is not None:
            classes = base.labels  # a file may name labels that the data lack
        return changed_costs(base.matrix(classes), classes, self.changes)

    def _unchanged(self, classes: np.ndarray) -> Loss:
        if not isinstance(self.loss, str):
            return self.loss
        if self.table is not None:
            return named_costs(self.table, classes, self.loss)
        if self.order is not None:
            labels = _ordered(self.order, classes)
            return CostMatrix(as_loss(self.loss).matrix(range(len(labels))), labels)
        if self.loss in ORDINAL and classes.dtype.kind not in "iuf":
            raise InvalidInputError(
                f"--loss {self.loss} needs labels that are numbers or have an order, but there are "
                f"labels such as {classes[0]!s}; say --label-order LOWEST,...,HIGHEST."
            )
        return as_loss(self.loss)

    def matrix(self, classes: Any) -> np.ndarray:
        labels = as_labels(classes)
        return self.of(labels).matrix(labels)


def loss_name(loss: Loss) -> str:
    """Return the name of a loss for tables and messages."""
    return "cost" if isinstance(loss, CostMatrix) else f"{type(loss).__name__} loss"


def _ordered(order: Sequence[str], classes: np.ndarray) -> list[Any]:
    label_of = {str(label): label for label in classes.tolist()}
    missing = [label for label in label_of if label not in order]
    if missing:
        raise InvalidInputError(f"--label-order lacks the label {missing[0]}, which the data have.")
    return [label_of.get(label, label) for label in order]
