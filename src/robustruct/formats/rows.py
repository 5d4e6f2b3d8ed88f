"""Tables with a row for each node: which rows make a sample, in which order, and their features.

A table is a mapping from names of columns to arrays of one length, whatever it was read from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np

from robustruct.errors import InvalidInputError, shown

Table = Mapping[str, np.ndarray]
Place = Callable[[np.ndarray], str]
"""Names rows, given by their positions, for a message."""


class Remedies(NamedTuple):
    """What to do about columns that are no features yet, in the words of who reads the table."""

    missing: str
    text: str


MOST_SHOWN = 5  # rows and columns in a message: enough to find the rest with the same filter


@dataclass(frozen=True)
class Roles:
    """What the columns of a table mean; those without a role are features."""

    by: tuple[str, ...]
    """Columns whose values tell samples apart."""
    order: str | None = None
    """Column that orders the nodes of a sample; without it they keep the order of their rows."""
    label: str | None = None
    weight: str | None = None
    """Column with the weight of each node's cost."""
    features: tuple[str, ...] | None = None
    """Columns of features; all that have no other role if None."""

    def __post_init__(self) -> None:
        if not self.by:
            raise InvalidInputError(
                "by is empty; name the column whose values tell samples apart.", field="by"
            )
        named = [*self.by, *filter(None, (self.order, self.label, self.weight))]
        twice = [name for name in named if named.count(name) > 1]
        if twice:
            raise InvalidInputError(f"the column {twice[0]!r} is named twice; each has one role.")
        both = [name for name in self.features or () if name in named]
        if both:
            raise InvalidInputError(
                f"the column {both[0]!r} is among the features and has another role; drop one.",
                field="features",
            )

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Roles:
        """Return the roles of fields that came from a file."""
        by, features = fields.get("by"), fields.get("features")
        order, label, weight = (fields.get(role) for role in ("order", "label", "weight"))
        lists = [by, features]
        texts = [name for names in lists if isinstance(names, list) for name in names]
        texts += [name for name in (order, label, weight) if name is not None]
        if not all(isinstance(one, list) for one in lists) or set(map(type, texts)) != {str}:
            raise InvalidInputError("the model does not say which columns its input has.")
        return cls(tuple(by or ()), order, label, weight, tuple(features or ()))

    def check(self, names: Sequence[str]) -> None:
        """Refuse a table that lacks a column with a role."""
        of_role = [("by", name) for name in self.by]
        of_role += [("order", self.order), ("label", self.label), ("weight", self.weight)]  # type: ignore[list-item]
        for role, name in [*of_role, *(("features", name) for name in self.features or ())]:
            if name is not None and name not in names:
                close = get_close_matches(name, names, 1)
                hint = f"did you mean {close[0]!r}? It" if close else "it"
                raise InvalidInputError(
                    f"{role}={name!r} is no column of the table; {hint} has {_some(names)}.",
                    field=role,
                )

    def feature_names(self, names: Sequence[str]) -> list[str]:
        """Return the columns of features, in the order of the table unless they are named."""
        if self.features is not None:
            return list(self.features)
        taken = {*self.by, self.order, self.label, self.weight}
        return [name for name in names if name not in taken]

    def samples(self, table: Table, place: Place) -> list[np.ndarray]:
        """Return the rows of each sample, in order; samples come as their first rows do."""
        n_rows = len(table[self.by[0]])
        if not n_rows:
            raise InvalidInputError("the table has no rows.")
        keys = np.stack([_codes(table, name, place) for name in self.by])
        sample_of = np.unique(keys, axis=1, return_inverse=True)[1].ravel()
        first = np.full(sample_of.max() + 1, n_rows)
        np.minimum.at(first, sample_of, np.arange(n_rows))
        rank = np.argsort(np.argsort(first))[sample_of]
        time = np.arange(n_rows) if self.order is None else _codes(table, self.order, place)
        rows = np.lexsort((time, rank))
        same = (np.diff(rank[rows]) == 0) & (np.diff(time[rows]) == 0)
        if same.any():
            i = int(same.argmax())
            twins = np.sort(rows[[i, i + 1]])
            assert self.order is not None  # rows differ in their position
            who = ", ".join(f"{name} {_value(table[name][twins[0]])}" for name in self.by)
            raise InvalidInputError(
                f"{who} has {self.order} {_value(table[self.order][twins[0]])} twice, in "
                f"{place(twins)} ({same.sum()} such pairs in all), so the order of its nodes is "
                "not known; keep one of the rows, or name another column in by.",
                field=self.order,
            )
        return np.split(rows, np.flatnonzero(np.diff(rank[rows])) + 1)


class NamedRows(np.ndarray):
    """An array (n, d) that knows the names of its columns, as a model does that is trained on it.

    What is computed from it has no names.
    """

    columns: Sequence[str] = ()

    @classmethod
    def of(cls, rows: np.ndarray, columns: Sequence[str]) -> NamedRows:
        """Return the rows with the names of their columns."""
        named = np.ascontiguousarray(rows).view(cls)
        named.columns = columns
        return named


def missing(values: np.ndarray) -> np.ndarray:
    """(N,) whether a value is None, NaN, NaT or pandas.NA."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    if values.dtype.kind != "O":
        return np.zeros(len(values), bool)
    return np.array([_is_missing(value) for value in values.tolist()], bool)


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA has no truth value
        return True


def numbers(table: Table, names: Sequence[str], place: Place, remedies: Remedies) -> np.ndarray:
    """(N, d) the columns ``names`` as numbers; text and missing values are refused."""
    if not names:
        raise InvalidInputError(
            "the table has no columns of features: all have another role.", field="features"
        )
    rows = np.empty((len(table[names[0]]), len(names)))
    for i, name in enumerate(names):
        gaps = missing(table[name])
        if gaps.any():
            raise InvalidInputError(
                f"the column {name!r} has no value in {place(np.flatnonzero(gaps))}. "
                f"{remedies.missing}",
                field=name,
            )
        rows[:, i] = _as_numbers(table[name], name, place, remedies)
    return rows


def _as_numbers(values: np.ndarray, name: str, place: Place, remedies: Remedies) -> np.ndarray:
    if values.dtype.kind in "biuf":
        return values
    if values.dtype.kind == "O" and not any(isinstance(one, str) for one in values.tolist()):
        try:
            return values.astype(float)
        except (TypeError, ValueError):
            pass
    strange = np.array([not _is_number(value) for value in values.tolist()])
    rows = np.flatnonzero(strange)
    raise InvalidInputError(
        f"the column {name!r} holds {_value(values[rows[0]])}, no number, in {place(rows)}. "
        f"{remedies.text}",
        field=name,
    )


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return False
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def refuse_gaps(values: np.ndarray, name: str, role: str, place: Place, remedy: str) -> None:
    """Refuse missing values in a column that has a role."""
    gaps = missing(values)
    if gaps.any():
        raise InvalidInputError(
            f"the column {name!r}, which is {role}, has no value in "
            f"{place(np.flatnonzero(gaps))}; {remedy}",
            field=name,
        )


def weights(values: np.ndarray, name: str, place: Place, remedies: Remedies) -> np.ndarray:
    """(N,) a column of weights, which are finite and not negative."""
    refuse_gaps(values, name, "the weight", place, "write 1 for an ordinary row.")
    found = numbers({name: values}, [name], place, remedies)[:, 0]
    wrong = np.flatnonzero(~((found >= 0) & np.isfinite(found)))
    if len(wrong):
        raise InvalidInputError(
            f"the column {name!r} holds the weight {found[wrong[0]]:g} in {place(wrong)}; weights "
            "are finite and >= 0.",
            field=name,
        )
    return found


def _codes(table: Table, name: str, place: Place) -> np.ndarray:
    """(N,) the place of each value among the sorted values of the column."""
    refuse_gaps(
        table[name], name, "by or order", place, "fill the values in, or leave the rows out."
    )
    try:
        return np.unique(table[name], return_inverse=True)[1]
    except TypeError as error:
        raise InvalidInputError(
            f"the values of the column {name!r} cannot be sorted ({error}); make them all numbers, "
            "times or text.",
            field=name,
        ) from None


def some_rows(rows: np.ndarray, word: str, start: int = 0) -> str:
    """Name rows, or lines, by their numbers, the first few of many; ``start`` is the first's."""
    numbers = [str(row + start) for row in rows[:MOST_SHOWN].tolist()]
    more = f" and {len(rows) - MOST_SHOWN} more" if len(rows) > MOST_SHOWN else ""
    return f"{word}{'s' if len(rows) > 1 else ''} {', '.join(numbers)}{more}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return ", ".join(map(repr, names[:20])) + more


def _value(value: Any) -> str:
    if isinstance(value, np.datetime64 | np.timedelta64):
        return str(value)  # as an item it may be a number of nanoseconds
    return shown(value.item() if isinstance(value, np.generic) else value)
