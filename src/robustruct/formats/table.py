"""Tables as CSV or Parquet: a row for each node, columns that say which rows make a sample.

The delimiter of a CSV file is the comma, semicolon or tab that is most frequent in its first line,
which names the columns. An empty field is a missing value. A prediction adds the columns
"predicted", "p[LABEL]", and "best 1" and so on, to the rows in the order of the file; the rows of a
Parquet file are written as CSV.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from robustruct.errors import FileFormatError, InvalidInputError
from robustruct.formats.rows import (
    NamedRows,
    Remedies,
    Roles,
    numbers,
    refuse_gaps,
    some_rows,
    weights,
)
from robustruct.formats.sample import Answer, Format, Sample
from robustruct.formats.text import Lines

DELIMITERS = ",;\t"
PREDICTED = "predicted"
REMEDIES = Remedies(
    missing="Fill the values in, with a column that says where; or leave out the rows or the "
    "column (--features names those to use).",
    text="Leave it out (--features names those to use), or make numbers of it.",
)
FLAGS = {"true": 1.0, "false": 0.0, "": math.nan}


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of one sample."""

    features: np.ndarray
    """(n, d)"""
    places: list[int]
    """(n,) their positions in the table."""
    table: _Table

    def __len__(self) -> int:
        return len(self.places)


@dataclass(frozen=True)
class TableFormat(Format):
    """A table whose columns have roles."""

    roles: Roles

    name = "table"

    @classmethod
    def found(cls, lines: Lines, roles: Roles) -> TableFormat:
        """Return the format of a table that has not been read yet, with its columns of features."""
        with _errors_of(lines):
            head = lines.columns() if lines.is_parquet else _head(lines, lines.head(1)[:1])[0]
            roles.check(head)
            return cls(replace(roles, features=tuple(roles.feature_names(head))))

    def samples(self, lines: Lines, *, labelled: bool) -> Iterator[Sample]:
        with _errors_of(lines):
            table = _Table.read(lines)
            roles = self.roles
            if not labelled:  # new rows need neither labels nor weights
                known = roles.weight in table.head
                roles = replace(roles, label=None, weight=roles.weight if known else None)
            elif roles.label is None:
                raise InvalidInputError("no column holds labels; name it (--label COLUMN).")
            roles.check(table.head)
            parts = roles.samples({name: table.column(name) for name in _keys(roles)}, table.place)
            names = roles.features or ()
            features = numbers(
                {name: table.column(name) for name in names}, names, table.place, REMEDIES
            )
            labels = None if roles.label is None else _labels(table, roles.label)
            weight = None
            if roles.weight is not None:
                column = table.column(roles.weight)
                weight = weights(column, roles.weight, table.place, REMEDIES)
            groups = table.column(roles.by[0]) if len(roles.by) > 1 else None
        for rows in parts:
            yield Sample(
                table.lines[rows[0]],
                Rows(NamedRows.of(features[rows], names), rows.tolist(), table),
                None if labels is None else labels[rows].tolist(),
                node_weight=None if weight is None else weight[rows].tolist(),
                group=None if groups is None else groups[rows[0]],
            )

    def features(self, samples: Sequence[Sample]) -> list[Any]:
        return [sample.content.features for sample in samples]

    def captions(self, sample: Sample) -> list[str]:
        rows, order = sample.content, self.roles.order
        if order is None:
            return [str(place) for place in rows.places]
        return self.values(sample, order)

    def values(self, sample: Sample, name: str) -> list[Any]:
        rows = sample.content
        if name not in rows.table.head:
            raise InvalidInputError(
                f"there is no column {name!r}; the table has {', '.join(rows.table.head[:20])}."
            )
        return [rows.table.cell(place, name) for place in rows.places]

    def group(self, sample: Sample, column: str) -> str:
        return str(self.values(sample, column)[0])

    def render(self, sample: Sample, answer: Answer) -> str:
        return "".join(self.rendered([(sample, answer)]))

    def rendered(self, pairs: Iterable[tuple[Sample, Answer]]) -> Iterator[str]:
        head: list[str] = []
        added: list[tuple[int, list[str]]] = []
        for sample, answer in pairs:
            rows = sample.content
            columns = _added(answer)
            head = max(head, list(columns), key=len)  # short samples have fewer best labellings
            added += zip(rows.places, map(list, zip(*columns.values(), strict=True)), strict=True)
        kept = [i for i, name in enumerate(rows.table.head) if name not in head]
        yield _csv([rows.table.head[i] for i in kept] + head)
        for place, cells in sorted(added):
            own = rows.table.cells(place)
            yield _csv([own[i] for i in kept] + cells + [""] * (len(head) - len(cells)))

    def state(self) -> dict[str, Any]:
        fields = asdict(self.roles).items()
        listed = {name: list(v) if isinstance(v, tuple) else v for name, v in fields}
        return {"format": self.name, **listed}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> TableFormat:
        fields = {name: value for name, value in state.items() if name != "format"}
        return cls(Roles.of(fields))


class _Table:
    """The cells of a table, as text or as values of Parquet."""

    def __init__(self, head: list[str], values: Sequence[Any], lines: Sequence[int]) -> None:
        self.head, self.lines = head, lines
        self._values = dict(zip(head, values, strict=True))

    @classmethod
    def read(cls, lines: Lines) -> _Table:
        if lines.is_parquet:
            columns = lines.table()
            n_rows = len(next(iter(columns.values()), ()))
            return cls(list(columns), [*columns.values()], range(1, n_rows + 1))
        first = next(iter(lines), None)
        if first is None:
            raise InvalidInputError("the file is empty.")
        head, delimiter = _head(lines, [first])
        reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter)
        rows, numbers = [], []
        try:
            for row in reader:
                if len(row) != len(head):
                    if not row:
                        continue
                    raise lines.error(
                        f"the row has {len(row)} fields, but the first line names {len(head)} "
                        "columns."
                    )
                rows.append(row)
                numbers.append(lines.number)
        except csv.Error as error:
            raise lines.error(f"the row cannot be read ({error}).") from None
        return cls(head, list(zip(*rows, strict=True)) or [()] * len(head), numbers)

    def column(self, name: str, text: bool = False) -> np.ndarray:
        """(N,) a column, of numbers unless ``text`` is asked for or one is none; gaps are None."""
        values = self._values[name]
        if isinstance(values, np.ndarray):
            return values
        if not text and set(map(str.lower, values)) <= set(FLAGS):
            return np.array([FLAGS[value.lower()] for value in values])
        if not text:
            try:
                return np.array([value or "nan" for value in values], dtype=float)
            except ValueError:
                pass
        column = np.empty(len(values), object)
        column[:] = [value or None for value in values]
        return column

    def cell(self, place: int, name: str) -> str:
        value = self._values[name][place]
        if isinstance(value, np.generic) and value.dtype.kind not in "mM":
            value = value.item()
        return "" if value is None or value != value else str(value)

    def cells(self, place: int) -> list[str]:
        return [self.cell(place, name) for name in self.head]

    def place(self, rows: np.ndarray) -> str:
        """Name rows for a message."""
        if isinstance(self.lines, range):
            return some_rows(rows, "row", 1)
        return some_rows(np.asarray(self.lines)[rows], "line")


@contextmanager
def _errors_of(lines: Lines) -> Iterator[None]:
    """Name the file in errors about its table."""
    try:
        yield
    except FileFormatError:
        raise
    except InvalidInputError as error:
        raise FileFormatError(lines.name, None, str(error)) from None


def _keys(roles: Roles) -> list[str]:
    return [*roles.by, *([] if roles.order is None else [roles.order])]


def _head(lines: Lines, first: list[str]) -> tuple[list[str], str]:
    """(names of the columns, delimiter) of a CSV file that begins with these lines."""
    text = first[0] if first else ""
    delimiter = max(DELIMITERS, key=text.count)
    head = next(csv.reader([text], delimiter=delimiter), [])
    twice = [name for name in head if head.count(name) > 1]
    if twice:
        raise lines.error(f"it names two columns {twice[0]!r}; give each another name.", 1)
    return head, delimiter


def _labels(table: _Table, name: str) -> np.ndarray:
    """(N,) labels as text, as in other formats."""
    labels = table.column(name, text=True)
    refuse_gaps(labels, name, "the label", table.place, "fill them in, or leave the rows out.")
    return np.array([str(label) for label in labels.tolist()], object)


def _added(answer: Answer) -> dict[str, list[str]]:
    """The columns that an answer adds."""
    cells = {PREDICTED: [str(label) for label in answer.labels]}
    if answer.probabilities is not None:
        for label in answer.probabilities[0]:
            cells[f"p[{label}]"] = [f"{node[label]:.6g}" for node in answer.probabilities]
    for i, (labels, _) in enumerate(answer.best or ()):
        cells[f"best {i + 1}"] = [str(label) for label in labels]
    return cells


def _csv(cells: list[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()
