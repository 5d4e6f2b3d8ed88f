"""Sequences from tables with a row per node, such as sensor data and logs, and answers back in.

Any table that narwhals knows: pandas, polars, pyarrow and others. None of them is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from robustruct.errors import InvalidInputError, InvalidTypeError, MissingExtraError, shown
from robustruct.formats.rows import (
    NamedRows,
    Remedies,
    Roles,
    numbers,
    refuse_gaps,
    some_rows,
    weights,
)
from robustruct.labels import as_labels

__all__ = ["Sequences", "frame_of", "sequences"]

REMEDIES = Remedies(
    missing="Fill the values in beforehand, with a column that says where; or ask for "
    'sequences(..., form="tables") and put NodeTransformer(SimpleImputer(add_indicator=True)) in '
    "front of the model.",
    text="Leave it out (features=[...] names those to use), make numbers of it, or ask for "
    'sequences(..., form="tables") and encode it by NodeTransformer(ColumnTransformer(...)).',
)


@dataclass(frozen=True, eq=False)
class Sequences:
    """Samples of a table: ``model.fit(s.X, s.y, groups=s.groups)``."""

    X: list[Any]
    """A chain for each sample: its rows in order, as an array or as a table. Both tell a model the
    names of columns."""
    y: list[Any] | None
    """Labels of each sample; ordered categories stay so. None without a column of labels."""
    feature_names: list[str]
    """Columns of ``X``."""
    groups: np.ndarray
    """(n_samples,) value of the first column in ``by``, for ``fit(..., groups=...)`` and for
    scikit-learn's splitters: of one subject, say, there may be several nights."""
    node_weight: list[np.ndarray] | None = None
    """Weight of each node's cost, where a column of weights is named."""


def sequences(
    df: Any,
    by: str | Sequence[str],
    order: str | None = None,
    label: str | None = None,
    weight: str | None = None,
    features: Sequence[str] | None = None,
    form: Literal["arrays", "tables"] = "arrays",
) -> Sequences:
    """Make a sample of the rows that share a value, such as a subject.

    Parameters
    ----------
    df : table
        Of pandas, polars, pyarrow or another library that narwhals knows; a row for each node.
    by : str or list of str
        Column, or columns, whose values tell samples apart.
    order : str, optional
        Column that orders the rows of a sample, such as a time; by default they keep their order.
    label : str, optional
        Column of labels. Those of an ordered Categorical (an Enum in polars) keep their order, so
        the losses "absolute" and "squared" know it.
    weight : str, optional
        Column with the weight of each node's cost.
    features : list of str, optional
        Columns of features; by default all that have no other role.
    form : "arrays" or "tables", default="arrays"
        Samples are arrays of numbers; or tables of the kind of ``df``, whose text and missing
        values are left to a `NodeTransformer` in front of the model.

    Returns
    -------
    Sequences

    Examples
    --------
    >>> import pandas
    >>> from robustruct import CRF
    >>> from robustruct.tables import frame_of, sequences
    >>> df = pandas.DataFrame(
    ...     {
    ...         "subject": ["ada", "ada", "bob", "bob", "bob"],
    ...         "time": [2, 1, 1, 2, 3],
    ...         "pulse": [70.0, 50.0, 52.0, 75.0, 71.0],
    ...         "stage": ["wake", "sleep", "sleep", "wake", "wake"],
    ...     },
    ...     index=[10, 11, 12, 13, 14],
    ... )
    >>> data = sequences(df, by="subject", order="time", label="stage")
    >>> data.X[0].ravel().tolist(), data.feature_names, data.groups.tolist()
    ([50.0, 70.0], ['pulse'], ['ada', 'bob'])
    >>> model = CRF(alpha=0.01).fit(data.X, data.y)
    >>> frame_of(df, model.predict(data.X), by="subject", order="time")["predicted"]
    10     wake
    11    sleep
    12    sleep
    13     wake
    14     wake
    Name: predicted, dtype: str
    """
    frame = _frame(df)
    roles = _roles(by, order, label, weight, features)
    if form not in ("arrays", "tables"):
        raise InvalidInputError(f"form={form!r} is not known; use 'arrays' or 'tables'.")
    keys = _keys(frame, roles)
    rows = roles.samples(keys, _place)
    names = roles.feature_names(frame.columns)
    if form == "tables":
        X = [frame[chosen.tolist(), names].to_native() for chosen in rows]
    else:
        table = {name: frame[name].to_numpy() for name in names}
        values = numbers(table, names, _place, REMEDIES)
        X = [NamedRows.of(values[chosen], names) for chosen in rows]
    return Sequences(
        X,
        None if label is None else _labels(frame[label], label, rows),
        names,
        keys[roles.by[0]][[chosen[0] for chosen in rows]],
        None
        if weight is None
        else _taken(weights(frame[weight].to_numpy(), weight, _place, REMEDIES), rows),
    )


def frame_of(
    df: Any,
    predictions: Any,
    by: str | Sequence[str],
    order: str | None = None,
    classes: Sequence[Any] | None = None,
) -> Any:
    """Return the table with predictions as columns, in its own order and with its own index.

    Parameters
    ----------
    df : table
        As it was given to `sequences`, or with other columns; the rows must be the same.
    predictions : list, or dict of names and lists
        What ``model.predict(s.X)`` returned, which becomes the column "predicted"; or several
        things by name. Lists with an array per sample hold values of nodes; probabilities become a
        column for each label, ``"name[label]"``. Arrays with a number per sample, such as those of
        ``predict_risk``, are repeated on its rows; its two ends become ``"name[least]"`` and
        ``"name[most]"``. Columns of the same names are replaced.
    by, order
        As for `sequences`.
    classes : sequence, optional
        Labels of probabilities, ``model.classes_``; by default they are numbered.

    Returns
    -------
    table
        Of the kind of ``df``.
    """
    import narwhals as nw

    frame = _frame(df)
    roles = _roles(by, order)
    rows = roles.samples(_keys(frame, roles), _place)
    if not isinstance(predictions, Mapping):
        predictions = {"predicted": predictions}
    columns = {}
    for name, values in predictions.items():
        columns.update(_columns(name, values, rows, classes))
    return frame.with_columns(
        nw.new_series(name, values, backend=frame.implementation)
        for name, values in columns.items()
    ).to_native()


def _frame(df: Any) -> Any:
    """The table as narwhals sees it."""
    try:
        import narwhals as nw
    except ImportError:
        raise MissingExtraError(
            "tables are read through narwhals, which scikit-learn 1.9 and later brings; install "
            "robustruct[tables]."
        ) from None
    try:
        return nw.from_native(df, eager_only=True)
    except TypeError:
        raise InvalidTypeError(
            f"the table is a {type(df).__name__}; give a data frame that is in memory, of pandas "
            "or polars (of a LazyFrame, what collect() returns).",
            field="df",
        ) from None


def _roles(
    by: str | Sequence[str],
    order: str | None = None,
    label: str | None = None,
    weight: str | None = None,
    features: Sequence[str] | None = None,
) -> Roles:
    listed = (by,) if isinstance(by, str) else tuple(by)
    if isinstance(features, str):
        raise InvalidTypeError(
            f"features={features!r} is one text; give a list, [{features!r}].", field="features"
        )
    return Roles(listed, order, label, weight, None if features is None else tuple(features))


def _keys(frame: Any, roles: Roles) -> dict[str, np.ndarray]:
    """The columns that say which rows belong together, and in which order."""
    roles.check(frame.columns)
    names = [*roles.by, *([] if roles.order is None else [roles.order])]
    return {name: frame[name].to_numpy() for name in names}


def _place(rows: np.ndarray) -> str:
    return some_rows(rows, "row") + " (from 0)"


def _taken(values: np.ndarray, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The values of each sample."""
    return [values[chosen] for chosen in rows]


def _labels(column: Any, name: str, rows: Sequence[np.ndarray]) -> list[Any]:
    import narwhals as nw

    values = column.to_numpy()
    remedy = "leave the rows out, or do not name a column of labels to predict them."
    refuse_gaps(values, name, "label", _place, remedy)
    if column.dtype == nw.Enum:
        return [column[chosen.tolist()].to_native() for chosen in rows]
    return _taken(as_labels(values.tolist()), rows)


def _columns(
    name: str, values: Any, rows: Sequence[np.ndarray], classes: Sequence[Any] | None
) -> dict[str, Any]:
    """The columns that the predictions under a name become."""
    sizes = [len(chosen) for chosen in rows]
    if len(values) != len(rows):
        raise InvalidInputError(
            f"{name!r} has {len(values)} items, but the table has {len(rows)} samples; predict all "
            "samples of sequences(...) of this table.",
            field="predictions",
        )
    of_samples = isinstance(values, np.ndarray) and values.dtype.kind in "biuf"
    if of_samples:
        of_nodes, names = np.repeat(values, sizes, axis=0), ["least", "most"]
    else:
        parts = [part if getattr(part, "ndim", 1) == 2 else as_labels(part) for part in values]
        wrong = [s for s, part in enumerate(parts) if len(part) != sizes[s]]
        if wrong:
            raise InvalidInputError(
                f"{name!r} has {len(parts[wrong[0]])} values for sample {wrong[0]}, which has "
                f"{sizes[wrong[0]]} rows; give by and order as sequences(...) had them.",
                sample=wrong[0],
                field="predictions",
            )
        of_nodes = np.concatenate([np.asarray(part) for part in parts])
        known = range(of_nodes.shape[-1]) if classes is None else classes
        names = list(map(str, known))
    placed = np.empty_like(of_nodes)
    placed[np.concatenate(rows)] = of_nodes
    if placed.ndim == 1:
        return {name: placed.tolist()}
    if len(names) != placed.shape[1]:
        raise InvalidInputError(
            f"{name!r} has {placed.shape[1]} columns, but there are names for {len(names)}, "
            f"{shown(names)}; give classes=model.classes_.",
            field="classes",
        )
    return {f"{name}[{one}]": placed[:, i] for i, one in enumerate(names)}
