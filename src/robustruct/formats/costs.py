"""Costs of mistakes, as people write them: a table in a CSV file, or single changes like "A>B=5".

In a table each row is a true label and each column a predicted one, as in a confusion matrix:

    true\\predicted,O,B-PER
    O,0,1
    B-PER,5,0

says that a missed B-PER (true B-PER, predicted O) costs 5. With ``predicted\\true`` in the corner,
rows are the predicted labels. In a change, too, the true label comes first: ``B-PER>O=5``.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robustruct.errors import FileFormatError, InvalidInputError
from robustruct.formats.text import Lines, Path
from robustruct.losses import CostMatrix, as_labels

ANY = "*"
TRUE_FIRST = "true\\predicted"
_CORNERS = {"": False, "true": False, TRUE_FIRST: False, "predicted": True, "predicted\\true": True}


def read_costs(path: Path, encoding: str = "utf-8") -> CostMatrix:
    """The costs in a CSV file, its values separated by commas, semicolons or tabs."""
    with Lines(path, encoding) as lines:
        head = lines.head(1)
        if not head:
            raise FileFormatError(lines.name, None, "the file is empty: it has no costs.")
        mark = max(",;\t", key=head[0].count)
        table = csv.reader(lines, delimiter=mark, skipinitialspace=True)
        corner, *columns = (cell.strip() for cell in next(table))
        transposed = _CORNERS.get(corner.lower().replace("/", "\\").replace(" ", ""))
        if transposed is None:
            raise lines.error(
                f"the first cell is {corner!r}; leave it empty, or write {TRUE_FIRST} (rows are "
                "true labels) or predicted\\true (rows are predicted labels)."
            )
        rows: dict[str, list[float]] = {}
        for cells in table:
            label, *values = (cell.strip() for cell in cells) if cells else ("",)
            if not label and not any(values):
                continue
            if label in rows:
                raise lines.error(f"the label {label!r} has two rows.")
            if len(values) != len(columns):
                raise lines.error(
                    f"{len(values)} costs for {len(columns)} labels; each row names a label and "
                    "gives a cost for every column."
                )
            rows[label] = [_cost(value, lines) for value in values]
    for given, other, what in ((columns, rows, "row"), (rows, columns, "column")):
        for label in given:
            if label not in other:
                raise FileFormatError(lines.name, None, f"the label {label!r} has no {what}.")
    if len(set(columns)) < len(columns):
        raise FileFormatError(lines.name, 1, "a label is named twice.")
    matrix = np.array([rows[label] for label in columns])
    try:
        return CostMatrix(matrix if transposed else matrix.T, columns)
    except InvalidInputError as error:
        raise FileFormatError(lines.name, None, str(error)) from None


@dataclass(frozen=True)
class CostChange:
    """``true>predicted=cost``; a star stands for every label."""

    true: str
    predicted: str
    cost: float

    @classmethod
    def parse(cls, text: str) -> CostChange:
        """Read ``A>B=5``: where A is true, predicting B costs 5."""
        labels, _, cost = text.rpartition("=")
        true, arrow, predicted = labels.partition(">")
        try:
            value = float(cost)
        except ValueError:
            value = math.nan
        if not (arrow and true.strip() and predicted.strip() and math.isfinite(value)):
            raise InvalidInputError(
                f"the cost {text!r} is not understood; write TRUE>PREDICTED=COST, such as "
                '"B-PER>O=5" (a star stands for every label).'
            )
        return cls(true.strip(), predicted.strip(), value)


def changed_costs(
    matrix: np.ndarray, classes: Sequence[Any] | np.ndarray, changes: Iterable[CostChange]
) -> CostMatrix:
    """Costs [predicted, true] of ``classes`` after the changes, made one after the other.

    A star changes the costs of mistakes only: what is right stays as it is.
    """
    labels = as_labels(classes)
    place = {str(label): a for a, label in enumerate(labels.tolist())}
    costs = matrix.copy()
    for change in changes:
        predicted = _places(change.predicted, place, change)
        true = _places(change.true, place, change)
        pairs = [(a, b) for a in predicted for b in true]
        starred = ANY in (change.true, change.predicted)
        for a, b in pairs:
            if not (starred and a == b):
                costs[a, b] = change.cost
    return CostMatrix(costs, labels)


def named_costs(table: CostMatrix, classes: np.ndarray, name: str) -> CostMatrix:
    """Costs of a file for these labels and any others it names; ``name`` is the file.

    Labels of a file are text: they are matched with the way the labels of the data are written.
    """
    known = {str(label): label for label in classes.tolist()}
    given = [] if table.labels is None else table.labels.tolist()
    missing = [label for label in known if label not in given]
    if missing:
        others = [label for label in given if label not in known]
        hint = (
            f" It names {_listed(others)}, which the data lack: a typing error?" if others else ""
        )
        raise FileFormatError(
            name,
            None,
            f"the data have the label {missing[0]!r}, but no cost is given for it.{hint}",
        )
    return CostMatrix(table.costs, [known.get(label, label) for label in given])


def _places(label: str, place: dict[str, int], change: CostChange) -> list[int]:
    if label == ANY:
        return list(place.values())
    if label not in place:
        raise InvalidInputError(
            f"the cost {change.true}>{change.predicted}={change.cost:g} names the label {label!r}, "
            f"which the data lack; their labels are {_listed(list(place))}."
        )
    return [place[label]]


def _cost(value: str, lines: Lines) -> float:
    try:
        cost = float(value)
    except ValueError:
        cost = math.nan
    if not math.isfinite(cost):
        raise lines.error(f"the cost {value!r} is not a number.")
    return cost


def _listed(labels: list[str]) -> str:
    shown = ", ".join(labels[:20])
    return shown if len(labels) <= 20 else f"{shown} and {len(labels) - 20} more"
