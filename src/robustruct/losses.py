"""Losses: costs of mistakes.

A loss is additive over nodes: where label b is true, predicting a costs ``matrix[b, a]``, times the
node's weight. All costs that users give or get are written like that, rows: true label, columns:
predicted label, as in a confusion matrix. A loss does not know of models; it makes the cost
matrix of a list of labels and prices a labelling.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from robustruct.arrays import LARGEST, as_floats
from robustruct.errors import InvalidInputError, shown
from robustruct.labels import (
    as_classes,
    as_labels,
    encode_labels,
    family,
    shortened,
    sorted_labels,
)

__all__ = ["Absolute", "CostMatrix", "Hamming", "LabelSets", "Loss", "Squared"]

Labels = Sequence[Any] | np.ndarray
LossLike = Any  # "hamming" | "absolute" | "squared" | (k, k) array | dict | Loss


class Loss(ABC):
    """Cost of predicting one label where another is true."""

    @abstractmethod
    def matrix(self, classes: Labels) -> np.ndarray:
        """(k, k) costs of ``classes``; rows: true label, columns: predicted label."""

    def evaluate(self, y_true: Any, y_pred: Any, classes: Labels | None = None) -> np.ndarray:
        """Return the cost of each node of a labelling.

        ``classes`` fixes the order of the labels where the loss needs one; by default it is the
        sorted set of the labels in ``y_true`` and ``y_pred``. A true label that has no cost, as
        training never saw it, costs as much as the dearest mistake.

        Examples
        --------
        >>> Absolute().evaluate([1, 2, 3], [1, 3, 1])
        array([0., 1., 2.])
        """
        y_true, y_pred = as_labels(y_true), as_labels(y_pred)
        if len(y_true) != len(y_pred):
            raise InvalidInputError(
                f"y_true labels {len(y_true)} nodes but y_pred labels {len(y_pred)}."
            )
        order = (
            as_classes(classes) if classes is not None else self._default_classes(y_true, y_pred)
        )
        predicted = encode_labels(y_pred, order, "y_pred")
        known = set(order.tolist())
        unseen = sorted_labels([y_true, order]).tolist()
        labels = as_labels([*order.tolist(), *(label for label in unseen if label not in known)])
        costs = costs_with_unknown(self, labels, order)
        return costs[encode_labels(y_true, labels, "y_true"), predicted]

    def in_order(self, order: np.ndarray) -> Loss:
        """Return the loss for labels in this order, lowest first; most losses ignore it."""
        return self

    def _default_classes(self, y_true: np.ndarray, y_pred: np.ndarray) -> np.ndarray:
        return sorted_labels([y_true, y_pred])

    def _named(self, labels: np.ndarray, known: np.ndarray) -> np.ndarray:
        """Return the labels that have costs; ``known`` are those of costs without names."""
        return labels

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Hamming(Loss):
    """Every mistake costs 1 (zero-one loss per node)."""

    def matrix(self, classes: Labels) -> np.ndarray:
        return 1.0 - np.eye(len(classes))


class _Ordinal(Loss):
    """Loss of labels on a line: by their places in ``order``, or by value if they are numbers."""

    power: int

    def __init__(self, order: Labels | None = None) -> None:
        self.order = None if order is None else as_classes(order)

    def in_order(self, order: np.ndarray) -> Loss:
        return self if self.order is not None else type(self)(order)

    def matrix(self, classes: Labels) -> np.ndarray:
        labels = as_labels(classes)
        places = self._places(labels)
        with np.errstate(over="ignore", invalid="ignore"):
            costs = np.abs(places[:, None] - places[None, :]) ** self.power
        if not (costs <= LARGEST).all():
            raise InvalidInputError(
                f"the labels lie too far apart for this loss, from {shown(labels.min())} to "
                f"{shown(labels.max())}: a cost is at most {LARGEST:g}."
            )
        return costs

    def _places(self, labels: np.ndarray) -> np.ndarray:
        if self.order is not None:
            return encode_labels(labels, self.order, "the data").astype(float)
        if not {family(label) for label in labels} <= {"number"}:
            name = type(self).__name__
            raise InvalidInputError(
                f"the labels {shortened(labels.tolist())} have no order, which loss="
                f"'{name.lower()}' needs unless they are numbers (the alphabet is none). Name "
                f"them from the lowest to the highest, loss={name}(order=[...]) of "
                "robustruct.losses, or give y as an ordered Categorical of pandas."
            )
        return labels.astype(float) if labels.dtype.kind == "b" else _from_the_first(labels)

    def _named(self, labels: np.ndarray, known: np.ndarray) -> np.ndarray:
        return labels if self.order is None else self.order

    def _default_classes(self, y_true: np.ndarray, y_pred: np.ndarray) -> np.ndarray:
        return super()._default_classes(y_true, y_pred) if self.order is None else self.order

    def __repr__(self) -> str:
        given = "" if self.order is None else f"order={shortened(self.order.tolist())}"
        return f"{type(self).__name__}({given})"


class Absolute(_Ordinal):
    """A mistake costs the distance between the labels.

    Parameters
    ----------
    order : sequence, optional
        All labels from the lowest to the highest, each one step from the next; labels that are
        numbers need none, their distance is their difference.

    Examples
    --------
    >>> Absolute(order=["good", "moderate", "hazardous"]).evaluate(["good"], ["hazardous"])
    array([2.])
    """

    power = 1


class Squared(_Ordinal):
    """A mistake costs the squared distance between the labels.

    Parameters
    ----------
    order : sequence, optional
        As for `Absolute`.
    """

    power = 2


class CostMatrix(Loss):
    """Any finite cost for each pair of labels, asymmetric ones included.

    Where a label is true, predicting it must cost no more than predicting any other. Costs below 0
    are rewards: what counts is how much dearer a mistake is than the right answer.

    Parameters
    ----------
    matrix : array-like of shape (k, k), or dict
        Rows: true label, columns: predicted label. A dict gives single costs,
        ``{(true label, predicted label): cost}``; all others are those of ``default``.
    labels : sequence, optional
        The label of each row and column. Without it the order is that of ``classes_``, and a dict
        may name labels of the data only.
    default : str, array of shape (k, k) or Loss
        What mistakes cost that a dict does not name.

    Examples
    --------
    A missed "entity" costs five times a false one:

    >>> costs = CostMatrix([[0, 5], [1, 0]], labels=["entity", "other"])
    >>> costs
    CostMatrix, rows: true label, columns: predicted label
            entity  other
    entity       0      5
    other        1      0
    >>> costs.evaluate(["entity", "other"], ["other", "entity"])
    array([5., 1.])

    The same, whatever other labels there are:

    >>> CostMatrix({("entity", "other"): 5}, default="hamming").matrix(["entity", "other"])
    array([[0., 5.],
           [1., 0.]])
    """

    def __init__(
        self, matrix: Any, labels: Labels | None = None, default: LossLike = "hamming"
    ) -> None:
        self.labels = None if labels is None else as_labels(labels)
        if self.labels is not None and len(set(self.labels.tolist())) < len(self.labels):
            raise InvalidInputError(
                f"labels of the cost matrix repeat: {shortened(self.labels.tolist())}; name "
                "each row once."
            )
        self.default = default
        self.single: dict[tuple[Any, Any], float] | None = None
        """Costs of a dict, {(true, predicted): cost}."""
        if isinstance(matrix, Mapping):
            self.single = _single_costs(matrix)
            self._base = as_loss(default)
        else:
            self._table = self._checked(matrix)
        if self.labels is not None:
            self.matrix(self.labels)  # refuses wrong costs in the constructor

    @classmethod
    def from_csv(cls, path: Any, encoding: str = "utf-8") -> CostMatrix:
        """Read costs from a CSV file, as ``--loss FILE.csv`` of the command does.

        The first row and the first column name the labels; rows: true label, columns: predicted
        label. With ``predicted\\true`` in the first cell it is the other way round.

        Parameters
        ----------
        path : str or path-like
        encoding : str
        """
        from robustruct.formats.costs import read_costs

        return read_costs(path, encoding)

    def _checked(self, matrix: Any) -> np.ndarray:
        costs = as_floats(matrix, "the cost matrix")
        if costs.ndim != 2 or costs.shape[0] != costs.shape[1] or costs.size == 0:
            raise InvalidInputError(
                f"the cost matrix has shape {costs.shape}; it must be square, (n_labels, n_labels)."
            )
        if self.labels is not None and len(self.labels) != len(costs):
            raise InvalidInputError(
                f"the cost matrix has {len(costs)} rows, but {len(self.labels)} labels are "
                "given; name each row once."
            )
        check_costs(costs, range(len(costs)) if self.labels is None else self.labels)
        return costs

    @property
    def costs(self) -> np.ndarray:
        """(k, k) all costs; rows: true label, columns: predicted label.

        A dict without ``labels`` has costs only for the labels of data: see `matrix`.
        """
        if self.single is None:
            return self._table
        if self.labels is None:
            raise InvalidInputError(
                "the labels of these costs are not known; use matrix(classes), or name them in "
                "CostMatrix({...}, labels=[...])."
            )
        return self._changed(self.labels)

    def matrix(self, classes: Labels) -> np.ndarray:
        """(k, k) costs of ``classes``; rows: true label, columns: predicted label."""
        if self.labels is not None:
            place = encode_labels(as_labels(classes), self.labels, "the data")
            return self.costs[np.ix_(place, place)]
        if self.single is not None:
            return self._changed(as_labels(classes))
        if len(classes) != len(self._table):
            raise InvalidInputError(
                f"the cost matrix is for {len(self._table)} labels but the data have "
                f"{len(classes)}: {shortened(as_labels(classes).tolist())}. Name its rows "
                "with CostMatrix(matrix, labels=[...]); it may then list labels the data lack."
            )
        return self._table.copy()

    def _changed(self, labels: np.ndarray) -> np.ndarray:
        """Return the default's costs, with the single costs of the dict in place."""
        costs = np.array(self._base.matrix(labels), float)
        place = {label: a for a, label in enumerate(labels.tolist())}
        for pair, cost in (self.single or {}).items():
            for label in pair:
                if label not in place:
                    raise InvalidInputError(
                        f"the cost of {pair} names the label {shown(label)}, which is not among "
                        f"{shortened(labels.tolist())}. Where data may lack a label, name all "
                        "in CostMatrix({...}, labels=[...])."
                    )
            costs[place[pair[0]], place[pair[1]]] = cost
        check_costs(costs, labels)
        return costs

    def in_order(self, order: np.ndarray) -> Loss:
        if self.single is None:
            return self
        return CostMatrix(self.single, self.labels, self._base.in_order(order))

    def _named(self, labels: np.ndarray, known: np.ndarray) -> np.ndarray:
        if self.labels is not None:
            return self.labels
        return known if self.single is None else labels

    def _default_classes(self, y_true: np.ndarray, y_pred: np.ndarray) -> np.ndarray:
        if self.labels is not None:
            return self.labels
        named = [as_labels(list(pair)) for pair in self.single or ()]
        return sorted_labels([y_true, y_pred, *named])

    def __repr__(self) -> str:
        if self.single is not None and self.labels is None:
            rows = [("true", "predicted", "cost")]
            rows += [(_name(b), _name(a), f"{cost:g}") for (b, a), cost in self.single.items()]
            return f"CostMatrix, other mistakes as {self.default!r}\n{_aligned(rows, 2)}"
        costs = self.costs
        labels = range(len(costs)) if self.labels is None else self.labels.tolist()
        names = [_name(label) for label in labels]
        few = min(len(names), _MOST_SHOWN)
        table = [["", *names[:few]]]
        table += [[names[b], *(f"{cost:g}" for cost in costs[b, :few])] for b in range(few)]
        more = "" if few == len(names) else f"\n... {len(names)} labels in all"
        return f"CostMatrix, rows: true label, columns: predicted label\n{_aligned(table, 1)}{more}"


_MOST_SHOWN, _LONGEST_NAME = 10, 40  # labels in a repr, and their characters: it fits a terminal


def _name(label: Any) -> str:
    """Format a label for a printed table."""
    try:
        text = str(label)
    except ValueError:  # an integer of thousands of digits
        text = shown(label)
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 3]}..."


def _single_costs(costs: Mapping[Any, Any]) -> dict[tuple[Any, Any], float]:
    for pair, cost in costs.items():
        number = family(cost) == "number" and abs(cost) <= LARGEST
        if not (isinstance(pair, tuple) and len(pair) == 2 and number):
            raise InvalidInputError(
                f"the costs hold {shown(pair)}: {shown(cost)}; write (true label, predicted "
                'label): cost, such as {("B-PER", "O"): 5}.'
            )
    return {pair: float(cost) for pair, cost in costs.items()}


def _aligned(rows: Sequence[Sequence[str]], n_left: int) -> str:
    """Format a table, the first ``n_left`` columns left-aligned, numbers right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if c < n_left else cell.rjust(width)
            for c, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


class LabelSets(Loss):
    """Costs of several label sets side by side, for graphs whose nodes are of several types.

    Parameters
    ----------
    *parts : CostMatrix
        One per label set, each with ``labels``; no label belongs to two.

    Examples
    --------
    Tokens are in or out, sentences are good or bad, and to take a bad one for good costs most:

    >>> tokens = CostMatrix([[0, 1], [1, 0]], labels=["in", "out"])
    >>> sentences = CostMatrix([[0, 5], [1, 0]], labels=["bad", "good"])
    >>> LabelSets(tokens, sentences).evaluate(["in", "bad"], ["out", "good"])
    array([1., 5.])
    """

    def __init__(self, *parts: CostMatrix) -> None:
        unnamed = [part for part in parts if getattr(part, "labels", None) is None]
        if not parts or unnamed:
            raise InvalidInputError(
                "LabelSets takes CostMatrix(matrix, labels=[...]), one for each set of labels."
            )
        names = [label for part in parts for label in part.labels.tolist()]  # type: ignore[union-attr]
        if len(set(names)) < len(names):
            raise InvalidInputError(
                f"a label belongs to two sets: {shortened(names)}; give it two names."
            )
        size = len(names)
        across = max(float(part.costs.max()) for part in parts)
        costs = np.full((size, size), across)
        first = 0
        for part in parts:
            last = first + len(part.costs)
            costs[first:last, first:last] = part.costs
            first = last
        self.parts = parts
        self._whole = CostMatrix(costs, names)

    def matrix(self, classes: Labels) -> np.ndarray:
        return self._whole.matrix(classes)

    def _default_classes(self, y_true: np.ndarray, y_pred: np.ndarray) -> np.ndarray:
        return self._whole._default_classes(y_true, y_pred)

    def _named(self, labels: np.ndarray, known: np.ndarray) -> np.ndarray:
        return self._whole._named(labels, known)

    def __repr__(self) -> str:
        return "LabelSets of\n" + "\n".join(map(repr, self.parts))


def check_costs(costs: np.ndarray, labels: Labels) -> None:
    """Refuse costs [true, predicted] that are no numbers, or where a mistake costs less."""
    if not (np.abs(costs) <= LARGEST).all():  # refuses NaN, too
        b, a = np.argwhere(~(np.abs(costs) <= LARGEST))[0]
        raise InvalidInputError(
            f"the cost matrix holds {costs[b, a]:g} at [{b}, {a}]; costs must be finite and of "
            f"size {LARGEST:g} at most. To rule a label or a transition out, use the model's "
            "`constraints`."
        )
    right = np.diag(costs)
    wrong = np.argwhere(right[:, None] > costs)
    if not len(wrong):
        return
    b, a = wrong[0]
    names = as_labels(labels).tolist()
    true, other = shown(names[b]), shown(names[a])
    raise InvalidInputError(
        f"where {true} is true, predicting {other} costs {costs[b, a]:g} and predicting "
        f"{true} costs {right[b]:g}; the right answer must cost no more than any other. Rows "
        "of a cost matrix are true labels, columns predicted ones, and larger is worse."
    )


def costs_with_unknown(loss: Loss, labels: np.ndarray, known: np.ndarray) -> np.ndarray:
    """(k, k) costs [true, predicted] of ``labels``, some of which the loss may lack.

    Costs without names belong to the labels ``known``. A label without costs was never seen in
    training and is never predicted; mistaking it costs as much as the dearest mistake.
    """
    known = loss._named(labels, known)
    table = loss.matrix(known)
    place = {label: a for a, label in enumerate(known.tolist())}
    at = np.array([place.get(label, -1) for label in labels.tolist()], np.intp)
    costs = np.full((len(at), len(at)), table.max(initial=0.0))
    np.fill_diagonal(costs, 0.0)
    inside = np.flatnonzero(at >= 0)
    costs[np.ix_(inside, inside)] = table[np.ix_(at[inside], at[inside])]
    return costs


def predicted_first(costs: np.ndarray) -> np.ndarray:
    """Transpose costs of users to L[predicted, true] of equations, solvers and kernels."""
    return np.ascontiguousarray(costs.T)


_BY_NAME: dict[str, Callable[[], Loss]] = {
    "hamming": Hamming,
    "absolute": Absolute,
    "squared": Squared,
}


def equal_costs(costs: np.ndarray) -> bool:
    """Return whether all mistakes cost the same, and all right answers do."""
    mistakes, right = costs[~np.eye(len(costs), dtype=bool)], np.diag(costs)
    return not len(mistakes) or bool(np.ptp(mistakes) == 0 and np.ptp(right) == 0)


def symmetric_costs(costs: np.ndarray) -> bool:
    """Return whether the cost matrix is symmetric."""
    return bool(np.abs(costs - costs.T).max() <= 1e-9 * np.ptp(costs))


def as_loss(loss: LossLike) -> Loss:
    """Return the loss for a name, a square array, a dict of costs or a Loss."""
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str):
        if loss not in _BY_NAME:
            raise InvalidInputError(
                f"loss={shown(loss)} is not known; use one of {', '.join(map(repr, _BY_NAME))}, a "
                "(k, k) array, {(true, predicted): cost}, or CostMatrix(matrix, labels)."
            )
        return _BY_NAME[loss]()
    if isinstance(loss, np.ndarray | list | tuple | Mapping):
        return CostMatrix(loss)
    raise InvalidInputError(
        f"loss is a {type(loss).__name__}; give 'hamming', 'absolute', 'squared', a (k, k) array, "
        "a dict {(true, predicted): cost} or a Loss."
    )


def class_weighted(
    matrix: np.ndarray, classes: Labels, class_weight: Mapping[Any, float] | None
) -> np.ndarray:
    """Scale the row of each true label by its weight, 1 for labels that are not named."""
    if class_weight is None:
        return matrix
    if not isinstance(class_weight, Mapping):
        raise InvalidInputError(
            f"class_weight is a {type(class_weight).__name__}; give a dict from label to weight."
        )
    place = {label: a for a, label in enumerate(as_labels(classes).tolist())}
    weights = np.ones(len(place))
    for label, weight in class_weight.items():
        if label not in place:
            raise InvalidInputError(
                f"class_weight names {shown(label)}, which is not a label; labels are "
                f"{shortened(list(place))}."
            )
        plain = weight.item() if isinstance(weight, np.generic) else weight
        if not (family(weight) == "number" and 0 <= plain <= LARGEST):
            raise InvalidInputError(
                f"class_weight[{shown(label)}] = {shown(weight)}; weights are finite numbers, 0 "
                "or more."
            )
        weights[place[label]] = weight
    return matrix * weights[:, None]


def _from_the_first(labels: np.ndarray) -> np.ndarray:
    """(k,) distance of each number from the smallest, exact for large integers."""
    values = [label.item() if isinstance(label, np.integer) else label for label in labels]
    # Differences of integers beyond 2**53 would be lost in floats.
    exact = [Fraction(*value.as_integer_ratio()) for value in values]
    low = min(exact, default=Fraction(0))
    return np.array([_rounded(value - low) for value in exact], dtype=float)


def _rounded(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf
