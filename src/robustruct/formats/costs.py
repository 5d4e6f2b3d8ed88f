"""Costs of mistakes as text: a table in a CSV file, or single changes like "A>B=5".

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
from itertools import chain
from typing import Any

import numpy as np

from robustruct.errors import FileFormatError, InvalidInputError
from robustruct.formats.text import Lines, Path, shown
from robustruct.labels import as_labels
from robustruct.losses import CostMatrix

ANY = "*"
TRUE_FIRST = "true\\predicted"
_CORNERS = {"": False, "true": False, TRUE_FIRST: False, "predicted": True, "predicted\\true": True}


def read_costs(path: Path, encoding: str = "utf-8") -> CostMatrix:
    """Read a CSV file of costs, separated by commas, semicolons or tabs."""
    with Lines(path, encoding) as lines:
        head = next((line for line in lines if line.strip()), None)
        if head is None:
            raise FileFormatError(lines.name, None, "the file is empty: it has no costs.")
        mark = max(",;\t", key=head.count)
        table = csv.reader(chain([head], lines), delimiter=mark, skipinitialspace=True)
        try:
            transposed, columns = _header(next(table), lines)
            rows = _rows(table, columns, lines)
        except csv.Error as error:
            raise lines.error(f"this is not CSV ({error}); write a row of costs a line.") from None
    for labels, other, what in ((columns, rows, "row"), (rows, columns, "column")):
        for label in labels:
            if label not in other:
                raise FileFormatError(lines.name, None, f"the label {shown(label)} has no {what}.")
    if len(set(columns)) < len(columns):
        raise FileFormatError(lines.name, 1, "a label is named twice.")
    matrix = np.array([rows[label] for label in columns])
    try:
        return CostMatrix(matrix.T if transposed else matrix, columns)
    except InvalidInputError as error:
        raise FileFormatError(lines.name, None, str(error)) from None


def _header(cells: list[str], lines: Lines) -> tuple[bool, list[str]]:
    """Return (whether rows are predicted labels, labels of the columns)."""
    corner, *columns = (cell.strip() for cell in cells)
    transposed = _CORNERS.get(corner.lower().replace("/", "\\").replace(" ", ""))
    if transposed is None:
        raise lines.error(
            f"the first cell is {shown(corner)}; leave it empty, or write {TRUE_FIRST} (rows are "
            "true labels) or predicted\\true (rows are predicted labels)."
        )
    if not columns:
        raise lines.error("no label is named; the first row names a label for every column.")
    return transposed, columns


def _rows(table: Iterable[list[str]], columns: list[str], lines: Lines) -> dict[str, list[float]]:
    """Return the row of costs of each label."""
    rows: dict[str, list[float]] = {}
    for cells in table:
        label, *values = (cell.strip() for cell in cells) if cells else ("",)
        if not label and not any(values):
            continue
        if label in rows:
            raise lines.error(f"the label {shown(label)} has two rows.")
        if len(values) != len(columns):
            raise lines.error(
                f"{len(values)} costs for {len(columns)} labels; each row names a label and "
                "gives a cost for every column."
            )
        rows[label] = [_cost(value, lines) for value in values]
    return rows


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
                f"the cost {shown(text)} is not understood; write TRUE>PREDICTED=COST, such as "
                '"B-PER>O=5" (a star stands for every label).'
            )
        return cls(true.strip(), predicted.strip(), value)


def changed_costs(
    matrix: np.ndarray, classes: Sequence[Any] | np.ndarray, changes: Iterable[CostChange]
) -> CostMatrix:
    """Apply changes in order to the costs [true, predicted] of ``classes``.

    A star changes the costs of mistakes only, not those of right answers.
    """
    labels = as_labels(classes)
    label_of = {str(label): label for label in labels.tolist()}
    single: dict[tuple[Any, Any], float] = {}
    for change in changes:
        starred = ANY in (change.true, change.predicted)
        predicted = _labels_of(change.predicted, label_of, change)
        for true in _labels_of(change.true, label_of, change):
            single |= {(true, a): change.cost for a in predicted if not (starred and a == true)}
    return CostMatrix(single, labels, default=matrix)


def named_costs(table: CostMatrix, classes: np.ndarray, name: str) -> CostMatrix:
    """Match the costs of the file ``name`` with these labels; further labels of it are kept.

    Labels of a file are text, which is compared with the spelling of the labels of the data.
    """
    label_of = {str(label): label for label in classes.tolist()}
    named = [] if table.labels is None else table.labels.tolist()
    missing = [label for label in label_of if label not in named]
    if missing:
        others = [label for label in named if label not in label_of]
        hint = (
            f" It names {_listed(others)}, which the data lack: a typing error?" if others else ""
        )
        raise FileFormatError(
            name,
            None,
            f"the data have the label {shown(missing[0])}, but no cost is given for it.{hint}",
        )
    return CostMatrix(table.costs, [label_of.get(label, label) for label in named])


def _labels_of(label: str, label_of: dict[str, Any], change: CostChange) -> list[Any]:
    if label == ANY:
        return list(label_of.values())
    if label not in label_of:
        raise InvalidInputError(
            f"the cost {shown(f'{change.true}>{change.predicted}={change.cost:g}')[1:-1]} names "
            f"the label {shown(label)}, which the data lack; their labels are "
            f"{_listed(list(label_of))}."
        )
    return [label_of[label]]


def _cost(value: str, lines: Lines) -> float:
    try:
        cost = float(value)
    except ValueError:
        cost = math.nan
    if not math.isfinite(cost):
        raise lines.error(f"the cost {shown(value)} is not a number.")
    return cost


def _listed(labels: list[str]) -> str:
    names = ", ".join(label if len(label) <= 40 else f"{label[:36]}..." for label in labels[:20])
    return names if len(labels) <= 20 else f"{names} and {len(labels) - 20} more"
