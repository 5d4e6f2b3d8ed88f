"""The loss that ``--loss``, ``--cost`` and ``--order`` describe, for the labels of the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from robustruct.losses import Loss

ORDINAL = ("absolute", "squared")
NAMES = ("hamming", *ORDINAL)


def chosen_loss(
    loss: str | Loss,
    costs: Sequence[str],
    order: Sequence[str] | None,
    classes: np.ndarray,
    encoding: str = "utf-8",
) -> Loss:
    """A loss by name or from a CSV file, with single costs changed.

    Parameters
    ----------
    loss : str or Loss
        "hamming", "absolute", "squared", the path of a CSV file, or a loss to change.
    costs : sequence of str
        Changes such as "A>B=5".
    order : sequence of str, optional
        Labels from the lowest to the highest.
    classes : ndarray
        The sorted labels of the data.
    encoding : str
        Of the CSV file.
    """
    from robustruct.errors import InvalidInputError
    from robustruct.formats.costs import CostChange, changed_costs, named_costs, read_costs
    from robustruct.losses import CostMatrix, as_loss

    changes = [CostChange.parse(text) for text in costs]
    if order is not None and loss not in ORDINAL:
        raise InvalidInputError("--order goes with --loss absolute or --loss squared.")
    base: Loss
    if not isinstance(loss, str):
        base = loss
    elif loss not in NAMES:
        if "." not in loss and "/" not in loss:
            raise InvalidInputError(
                f"--loss {loss} is not known; use {', '.join(NAMES)} or a CSV file (FILE.csv)."
            )
        base = named_costs(read_costs(loss, encoding), classes, loss)
    elif order is not None:
        labels = _ordered(order, classes)
        base = CostMatrix(as_loss(loss).matrix(range(len(labels))), labels)
    else:
        base = as_loss(loss)
        if loss in ORDINAL and classes.dtype.kind not in "iuf":
            raise InvalidInputError(
                f"--loss {loss} needs labels that are numbers or have an order, but there are "
                f"labels such as {classes[0]!s}; say --order LOWEST,...,HIGHEST."
            )
    if not changes:
        return base
    if isinstance(base, CostMatrix) and base.labels is not None:
        classes = base.labels  # a file may name labels that the data lack
    return changed_costs(base.matrix(classes), classes, changes)


def loss_name(loss: Loss) -> str:
    """What people call a loss."""
    from robustruct.losses import CostMatrix

    return "cost" if isinstance(loss, CostMatrix) else f"{type(loss).__name__} loss"


def _ordered(order: Sequence[str], classes: np.ndarray) -> list[Any]:
    from robustruct.errors import InvalidInputError

    known = {str(label): label for label in classes.tolist()}
    missing = [label for label in known if label not in order]
    if missing:
        raise InvalidInputError(f"--order lacks the label {missing[0]}, which the data have.")
    return [known.get(label, label) for label in order]
