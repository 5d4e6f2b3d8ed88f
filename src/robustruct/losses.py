"""What a mistake costs.

A loss is additive over nodes: predicting label a where b is true costs ``matrix[a, b]``, times the
node's weight. A loss knows nothing of models; it turns a list of labels into its cost matrix and
prices a labelling.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from robustruct.errors import InvalidInputError

LossLike = Any  # "hamming" | "absolute" | "squared" | (k, k) array | Loss


class Loss(ABC):
    """Cost of predicting one label where another is true."""

    @abstractmethod
    def matrix(self, classes: Sequence[Any]) -> np.ndarray:
        """(k, k) costs, entry [a, b] for predicting ``classes[a]`` when ``classes[b]`` is true."""

    def evaluate(self, y_true: Any, y_pred: Any, classes: Sequence[Any] | None = None) -> np.ndarray:
        """Cost of each node of a labelling.

        ``classes`` fixes the order of the labels where the loss needs one; by default it is the
        sorted set of the labels in ``y_true`` and ``y_pred``.

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
        order = as_labels(classes) if classes is not None else self._default_classes(y_true, y_pred)
        costs = self.matrix(order)
        return costs[encode_labels(y_pred, order, "y_pred"), encode_labels(y_true, order, "y_true")]

    def _default_classes(self, y_true: np.ndarray, y_pred: np.ndarray) -> np.ndarray:
        return sorted_labels([y_true, y_pred])

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Hamming(Loss):
    """Every mistake costs 1 (zero-one loss per node)."""

    def matrix(self, classes: Sequence[Any]) -> np.ndarray:
        return 1.0 - np.eye(len(classes))


class _Ordinal(Loss):
    """Labels have places on a line: their own values if they are numbers, else their order."""

    power: int

    def matrix(self, classes: Sequence[Any]) -> np.ndarray:
        labels = as_labels(classes)
        if labels.dtype.kind in "iuf":
            places = labels.astype(float)
        else:
            places = np.arange(len(labels), dtype=float)
        return np.abs(places[:, None] - places[None, :]) ** self.power


class Absolute(_Ordinal):
    """A mistake costs the distance between the labels."""

    power = 1


class Squared(_Ordinal):
    """A mistake costs the squared distance between the labels."""

    power = 2


class CostMatrix(Loss):
    """Any finite cost for each pair of labels, asymmetric ones included.

    Parameters
    ----------
    matrix : array-like of shape (k, k)
        Entry [a, b] is the cost of predicting label a when b is true.
    labels : sequence, optional
        The label of each row and column. Without it the order is that of ``classes_``.

    Examples
    --------
    A missed "entity" costs five times a false one:

    >>> costs = CostMatrix([[0, 1], [5, 0]], labels=["entity", "other"])
    >>> costs.evaluate(["entity", "other"], ["other", "entity"])
    array([5., 1.])
    """

    def __init__(self, matrix: Any, labels: Sequence[Any] | None = None) -> None:
        try:
            costs = np.array(matrix, dtype=float)
        except (TypeError, ValueError) as error:
            raise InvalidInputError("the cost matrix must hold numbers, one row per label.") from error
        if costs.ndim != 2 or costs.shape[0] != costs.shape[1] or costs.size == 0:
            raise InvalidInputError(
                f"the cost matrix has shape {costs.shape}; it must be square, (n_labels, n_labels)."
            )
        if not np.isfinite(costs).all():
            a, b = np.argwhere(~np.isfinite(costs))[0]
            raise InvalidInputError(
                f"the cost matrix holds {costs[a, b]} at [{a}, {b}]; costs must be finite. To rule a "
                "label or a transition out, use the model's `forbidden` argument."
            )
        self.costs = costs
        self.labels = None if labels is None else as_labels(labels)
        if self.labels is not None:
            if len(self.labels) != len(costs):
                raise InvalidInputError(
                    f"the cost matrix has {len(costs)} rows but {len(self.labels)} labels are given."
                )
            if len(set(self.labels.tolist())) < len(self.labels):
                raise InvalidInputError(f"labels of the cost matrix repeat: {self.labels.tolist()}.")

    def matrix(self, classes: Sequence[Any]) -> np.ndarray:
        if self.labels is None:
            if len(classes) != len(self.costs):
                raise InvalidInputError(
                    f"the cost matrix is for {len(self.costs)} labels but the data have "
                    f"{len(classes)}: {_shortened(list(classes))}. Name its rows with "
                    "CostMatrix(matrix, labels=[...]); it may then list labels the data lack."
                )
            return self.costs.copy()
        place = encode_labels(as_labels(classes), self.labels, "the data")
        return self.costs[np.ix_(place, place)]

    def _default_classes(self, y_true: np.ndarray, y_pred: np.ndarray) -> np.ndarray:
        return self.labels if self.labels is not None else super()._default_classes(y_true, y_pred)

    def __repr__(self) -> str:
        k = len(self.costs)
        return f"CostMatrix({k} x {k}{'' if self.labels is None else ', labels=' + _shortened(self.labels.tolist())})"


_BY_NAME = {"hamming": Hamming, "absolute": Absolute, "squared": Squared}


def as_loss(loss: LossLike) -> Loss:
    """The loss meant by a name, a square array or a Loss."""
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str):
        if loss not in _BY_NAME:
            raise InvalidInputError(
                f"loss={loss!r} is not known; use one of {', '.join(map(repr, _BY_NAME))}, a "
                "(k, k) array, or CostMatrix(matrix, labels)."
            )
        return _BY_NAME[loss]()
    if isinstance(loss, np.ndarray | list | tuple):
        return CostMatrix(loss)
    raise InvalidInputError(
        f"loss is a {type(loss).__name__}; give 'hamming', 'absolute', 'squared', a (k, k) array "
        "or a Loss."
    )


def class_weighted(
    matrix: np.ndarray, classes: Sequence[Any], class_weight: Mapping[Any, float] | None
) -> np.ndarray:
    """Costs with the column of each true label scaled by its weight (1 for labels not named)."""
    if class_weight is None:
        return matrix
    place = {label: a for a, label in enumerate(as_labels(classes).tolist())}
    weights = np.ones(len(place))
    for label, weight in class_weight.items():
        if label not in place:
            raise InvalidInputError(
                f"class_weight names {label!r}, which is not a label; labels are "
                f"{_shortened(list(place))}."
            )
        if not (np.isfinite(weight) and weight >= 0):
            raise InvalidInputError(f"class_weight[{label!r}] = {weight}; weights are finite and >= 0.")
        weights[place[label]] = weight
    return matrix * weights


def as_labels(labels: Any) -> np.ndarray:
    """Labels as a 1-D array that never changes a label: mixed types stay Python objects."""
    if isinstance(labels, np.ndarray):
        array = labels
    else:
        values = list(labels)
        array = np.asarray(values) if len({_family(v) for v in values}) <= 1 else _objects(values)
        if array.dtype.kind not in "iufbUO" or (array.ndim != 1 and values):
            array = _objects(values)
    if array.ndim != 1:
        raise InvalidInputError(f"labels have shape {array.shape}; expected one label per node.")
    return array


def sorted_labels(label_arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The distinct labels, sorted; labels of several types are sorted type by type."""
    kinds = {_kind(array) for array in label_arrays}
    if len(kinds) == 1 and "O" not in kinds:
        return np.unique(np.concatenate(label_arrays))
    distinct = {label for array in label_arrays for label in array.tolist()}
    return as_labels(sorted(distinct, key=lambda label: (_family(label), label)))


def encode_labels(labels: np.ndarray, classes: np.ndarray, field: str) -> np.ndarray:
    """Index of each label in ``classes``; an unknown label is an error that names it."""
    same_kind = _kind(labels) == _kind(classes) != "O"
    if same_kind and (len(classes) < 2 or bool((classes[1:] > classes[:-1]).all())):
        codes = np.searchsorted(classes, labels)
        codes[codes == len(classes)] = 0
        unknown = classes[codes] != labels if len(classes) else np.ones(len(labels), bool)
    else:
        place = {label: a for a, label in enumerate(classes.tolist())}
        codes = np.array([place.get(label, -1) for label in labels.tolist()], dtype=np.intp)
        unknown = codes < 0
    if unknown.any():
        i = int(np.argmax(unknown))
        raise InvalidInputError(
            f"{field} holds the label {labels[i : i + 1].tolist()[0]!r} (node {i}), which is not among "
            f"the known labels {_shortened(classes.tolist())}."
        )
    return codes.astype(np.intp, copy=False)


def _kind(array: np.ndarray) -> str:
    return "n" if array.dtype.kind in "iufb" else array.dtype.kind


def _family(label: Any) -> str:
    return "number" if isinstance(label, int | float | np.number | np.bool_) else type(label).__name__


def _objects(values: list[Any]) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _shortened(labels: list[Any]) -> str:
    if len(labels) <= 12:
        return repr(labels)
    return f"[{', '.join(map(repr, labels[:10]))}, ... {len(labels) - 10} more]"
