"""How much the mistakes of a prediction cost, and which mistakes they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from robustruct._lazy import cached_property
from robustruct.arrays import as_floats, length
from robustruct.errors import InvalidInputError, shown
from robustruct.labels import (
    as_classes,
    as_labels,
    encode_labels,
    exactly_comparable,
    sorted_labels,
)
from robustruct.losses import Labels, LossLike, as_loss

__all__ = ["SpanCost", "confusion", "label_scores", "mean_loss", "span_scores"]

_SPAN_LABEL = re.compile(r"[BIES]-.+")


def mean_loss(
    y_true: Any,
    y_pred: Any,
    loss: LossLike = "hamming",
    node_weight: Any = None,
    average: str = "node",
    classes: Labels | None = None,
) -> float:
    """Mean cost of a prediction, per node or per sample.

    Parameters
    ----------
    y_true, y_pred : list of label arrays, or one flat array
        The true and the predicted labels of each sample. A flat array is read as samples of one
        node each.
    loss : str, array of shape (k, k) or Loss
        As in the models: "hamming", "absolute", "squared", costs (rows: true label, columns:
        predicted label), or a Loss.
    node_weight : list of arrays or flat array, optional
        How much each node counts, in the form of ``y_true``; by default 1.
    average : "node" or "sample"
        "node": the total cost over the total weight. "sample": the same within each sample, then
        the plain mean over samples, so that long samples do not count more.
    classes : sequence, optional
        Order of the labels for losses that need one, such as a plain array; by default the sorted
        labels found in ``y_true`` and ``y_pred``. Usually ``model.classes_``.

    Returns
    -------
    float

    Examples
    --------
    >>> y_true, y_pred = [[1, 2, 3, 3], [1, 1]], [[1, 2, 3, 3], [2, 3]]
    >>> mean_loss(y_true, y_pred, "absolute")
    0.5
    >>> mean_loss(y_true, y_pred, "absolute", average="sample")
    0.75
    """
    if average not in ("node", "sample"):
        raise InvalidInputError(f"average={shown(average)} is not known; use 'node' or 'sample'.")
    true, n_nodes = _flat_labels(y_true, "y_true")
    predicted, n_predicted = _flat_labels(y_pred, "y_pred")
    _check_same_sizes(n_nodes, n_predicted, "y_pred")
    weight = _flat_weights(node_weight, n_nodes)
    cost = weight * as_loss(loss).evaluate(true, predicted, classes)

    sample_of = np.repeat(np.arange(len(n_nodes)), n_nodes)
    sample_weight = np.bincount(sample_of, weights=weight, minlength=len(n_nodes))
    if average == "node":
        if not sample_weight.sum() > 0:
            raise InvalidInputError("all node weights are zero; give some node a positive weight.")
        return float(cost.sum() / weight.sum())
    if not (sample_weight > 0).all():
        s = int(np.argmin(sample_weight))
        raise InvalidInputError(
            f"the node weights of sample {s} sum to zero, so it has no mean; leave the sample out, "
            "or use average='node'.",
            sample=s,
            field="node_weight",
        )
    sample_cost = np.bincount(sample_of, weights=cost, minlength=len(n_nodes))
    return float((sample_cost / sample_weight).mean())


@dataclass(frozen=True)
class Detection:
    """How well things of one kind were found."""

    n_true: int
    n_predicted: int
    n_correct: int

    @property
    def precision(self) -> float:
        """Part of the predicted ones that are right; 0 if none was predicted."""
        return self.n_correct / self.n_predicted if self.n_predicted else 0.0

    @property
    def recall(self) -> float:
        """Part of the true ones that were found; 0 if there is none."""
        return self.n_correct / self.n_true if self.n_true else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        both = self.n_true + self.n_predicted
        return 2 * self.n_correct / both if both else 0.0


def confusion(y_true: Any, y_pred: Any, classes: Labels | None = None) -> np.ndarray:
    """(k, k) number of nodes with each [true label, predicted label].

    Parameters
    ----------
    y_true, y_pred : list of label arrays, or one flat array
    classes : sequence, optional
        Order of rows and columns; by default the sorted labels of both.

    Examples
    --------
    >>> confusion([["a", "b", "b"]], [["a", "a", "b"]])
    array([[1, 0],
           [1, 1]])
    """
    true, predicted, order = _codes(y_true, y_pred, classes)
    k = len(order)
    return np.bincount(true * k + predicted, minlength=k * k).reshape(k, k)


def label_scores(y_true: Any, y_pred: Any, classes: Labels | None = None) -> dict[Any, Detection]:
    """Precision, recall and F1 of every label; arguments as for `confusion`.

    Returns
    -------
    dict of Detection
        For each label ``precision``, ``recall``, ``f1`` and the counts they come from: ``n_true``,
        ``n_predicted``, ``n_correct`` nodes.
    """
    counts = confusion(y_true, y_pred, classes)
    return confusion_scores(counts, _codes(y_true, y_pred, classes)[2])


def confusion_scores(counts: np.ndarray, classes: Labels) -> dict[Any, Detection]:
    """Precision, recall and F1 of every label from the matrix that `confusion` makes."""
    return {
        label: Detection(int(counts[a].sum()), int(counts[:, a].sum()), int(counts[a, a]))
        for a, label in enumerate(as_labels(classes).tolist())
    }


def is_span_labelling(labels: Labels) -> bool:
    """Whether labels mark spans: all of them "O" or B-, I-, E-, S- with a type."""
    names = as_labels(labels).tolist()
    marks = [name for name in names if name != "O"]
    return bool(marks) and all(
        isinstance(name, str) and _SPAN_LABEL.fullmatch(name) for name in marks
    )


def span_scores(y_true: Any, y_pred: Any) -> tuple[Detection, dict[str, Detection]]:
    """Precision, recall and F1 of spans such as entities and chunks: overall, and by type.

    A span is right if its first and last node and its type are. Labels are BIO or BIOES; where they
    break the rules, spans are read as conlleval does: an I that continues nothing starts one.

    Parameters
    ----------
    y_true, y_pred : list of label arrays
        Spans do not cross samples.

    Returns
    -------
    (Detection, dict of Detection)
        Overall, and by type: ``precision``, ``recall``, ``f1``, ``n_true``, ``n_predicted`` and
        ``n_correct``.

    Examples
    --------
    >>> overall, by_type = span_scores([["B-X", "I-X", "O"]], [["B-X", "O", "B-Y"]])
    >>> overall
    Detection(n_true=1, n_predicted=2, n_correct=0)
    """
    spans = ComparedLabels.of(y_true, y_pred).spans
    kinds = (spans.true.kind, spans.predicted.kind, spans.predicted.kind[spans.right])
    counts = [np.bincount(kind, minlength=len(spans.types)) for kind in kinds]
    by_type = {
        kind: Detection(*numbers)
        for kind, *numbers in zip(spans.types, *(n.tolist() for n in counts), strict=True)
        if any(numbers)
    }
    return Detection(*(len(kind) for kind in kinds)), by_type


@dataclass(frozen=True)
class SpanCost:
    """What mistakes about spans cost, instead of mistakes about labels.

    A span that is true and not predicted is missed; one that is predicted and not true is false.
    Where first and last node are right and the type alone is wrong, ``wrong_type`` is paid instead
    of both. A span that is predicted with another end than the true one is a miss and a false one.

    Parameters
    ----------
    miss, false : float, default=1
        More than 0.
    wrong_type : float, optional
        0 or more; by default ``miss + false``.

    Examples
    --------
    >>> from robustruct.metrics import SpanCost
    >>> cost = SpanCost(miss=5, false=1, wrong_type=2)
    >>> cost.mean([["B-PER", "I-PER", "O", "B-LOC"]], [["B-ORG", "I-ORG", "O", "O"]])
    7.0
    """

    miss: float = 1.0
    false: float = 1.0
    wrong_type: float | None = None

    def __post_init__(self) -> None:
        for name in ("miss", "false", "wrong_type"):
            value, positive = getattr(self, name), name != "wrong_type"
            if value is None and not positive:
                continue
            real = isinstance(value, Real) and not isinstance(value, bool)
            if not real or not np.isfinite(value) or value < 0 or (positive and value == 0):
                raise InvalidInputError(
                    f"SpanCost: {name}={shown(value)}; give a finite number "
                    f"{'> 0' if positive else '>= 0, or None for miss + false'}.",
                    field=name,
                )

    @property
    def threshold(self) -> float:
        """The least probability at which it pays to predict a span; types are beside the point."""
        return self.false / (self.miss + self.false)

    def at(self, threshold: float) -> SpanCost:
        """The same miss, with mistakes of what is predicted made dearer or cheaper."""
        factor = threshold / (1.0 - threshold) * self.miss / self.false
        dearer = None if self.wrong_type is None else factor * self.wrong_type
        return replace(self, false=factor * self.false, wrong_type=dearer)

    def per_sample(self, y_true: Sequence[Any], y_pred: Sequence[Any]) -> np.ndarray:
        """(n_samples,) the total cost of each sample; labels as for `span_scores`."""
        return self.of(ComparedLabels.of(y_true, y_pred))

    def of(self, compared: ComparedLabels) -> np.ndarray:
        """(n_samples,) the same of labels that are compared already."""
        spans, count = compared.spans, compared.per_sample
        n_true, n_predicted = count(spans.true.first), count(spans.predicted.first)
        n_placed = count(spans.predicted.first[spans.placed])
        n_right = count(spans.predicted.first[spans.right])
        missed, false = n_true - n_placed, n_predicted - n_placed
        return self.miss * missed + self.false * false + self._wrong * (n_placed - n_right)

    def mean(self, y_true: Sequence[Any], y_pred: Sequence[Any]) -> float:
        """The mean cost of a sample."""
        return float(self.per_sample(y_true, y_pred).mean())

    @property
    def _wrong(self) -> float:
        return self.miss + self.false if self.wrong_type is None else self.wrong_type

    def gains(self, probability: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """((c,) what predicting each span saves in expectation, (c,) its best type).

        ``probability`` (c, types). Given the first and the last node the likeliest type is best.
        If none is predicted there, a miss is paid where some span is; if type t is, its price where
        none is, and that of a wrong type where another one is.
        """
        of_any = probability.sum(axis=1)
        best = probability.argmax(axis=1)
        right = probability[np.arange(len(best)), best]
        paid = self.false * (1.0 - of_any) + self._wrong * (of_any - right)
        return self.miss * of_any - paid, best


class Spans(NamedTuple):
    """Spans of all samples; the nodes of samples follow each other."""

    first: np.ndarray
    end: np.ndarray
    """The node after the last."""
    kind: np.ndarray
    """Number of the type."""


@dataclass(frozen=True, eq=False)
class ComparedSpans:
    """True and predicted spans."""

    true: Spans
    predicted: Spans
    types: list[str]
    right: np.ndarray
    """(n_predicted,) whether such a span is true."""
    placed: np.ndarray
    """(n_predicted,) whether a true one, of whatever type, has this first and last node."""


@dataclass(frozen=True, eq=False)
class ComparedLabels:
    """True and predicted labels of all samples."""

    true: np.ndarray
    """(N,) places in ``classes``."""
    predicted: np.ndarray
    """(N,)"""
    n_nodes: np.ndarray
    """(n_samples,)"""
    classes: np.ndarray

    @classmethod
    def of(cls, y_true: Any, y_pred: Any) -> ComparedLabels:
        """Of labels as users have them, in lists."""
        true, n_nodes = _flat_labels(y_true, "y_true")
        predicted, n_predicted = _flat_labels(y_pred, "y_pred")
        _check_same_sizes(n_nodes, n_predicted, "y_pred")
        classes = sorted_labels([true, predicted])
        codes = [encode_labels(labels, classes, "y") for labels in (true, predicted)]
        return cls(codes[0], codes[1], n_nodes, classes)

    def per_sample(self, nodes: np.ndarray) -> np.ndarray:
        """(n_samples,) how many of these nodes, a list of numbers, belong to each."""
        samples = np.searchsorted(np.cumsum(self.n_nodes), nodes, side="right")
        return np.bincount(samples, minlength=len(self.n_nodes))

    def label_counts(self, label: Any = None) -> np.ndarray:
        """(3, n_samples) nodes whose label is right, and true and predicted ones.

        Of one label, or of all but "O".
        """
        names = self.classes.tolist()
        wanted = np.array([name != "O" if label is None else name == label for name in names])
        is_true, is_predicted = wanted[self.true], wanted[self.predicted]
        right = is_true & (self.true == self.predicted)
        groups = (right, is_true, is_predicted)
        return np.stack([self.per_sample(np.flatnonzero(nodes)) for nodes in groups])

    def span_counts(self, kind: str | None = None) -> np.ndarray:
        """(3, n_samples) spans that are right, true and predicted; of one type or all."""
        spans = self.spans
        number = spans.types.index(kind) if kind in spans.types else -1

        def count(some: Spans, kept: np.ndarray | slice = slice(None)) -> np.ndarray:
            first, kinds = some.first[kept], some.kind[kept]
            return self.per_sample(first if kind is None else first[kinds == number])

        of_right = count(spans.predicted, spans.right)
        return np.stack([of_right, count(spans.true), count(spans.predicted)])

    @cached_property
    def spans(self) -> ComparedSpans:
        """The spans that both mark; refuse labels that mark none."""
        tags, types, kind_of = _marks(self.classes)
        first_of_sample = np.zeros(len(self.true), bool)
        first_of_sample[(np.cumsum(self.n_nodes) - self.n_nodes)[self.n_nodes > 0]] = True
        true, predicted = (
            _spans(tags[codes], kind_of[codes], first_of_sample)
            for codes in (self.true, self.predicted)
        )
        places = [one.first * (len(self.true) + 1) + one.end for one in (true, predicted)]
        whole = [
            place * len(types) + one.kind
            for place, one in zip(places, (true, predicted), strict=True)
        ]
        right, placed = np.isin(whole[1], whole[0]), np.isin(places[1], places[0])
        return ComparedSpans(true, predicted, types, right, placed)


def _marks(classes: np.ndarray) -> tuple[np.ndarray, list[str], np.ndarray]:
    """((k,) the first letter of each label, types, (k,) the number of its type)."""
    names = classes.tolist()
    wrong = next((one for one in names if one != "O" and not is_span_labelling([one])), None)
    if wrong is not None:
        raise InvalidInputError(
            f"the label {shown(wrong)} marks no span; labels are 'O', or B-, I-, E- or S- and a "
            "type."
        )
    types = sorted({name[2:] for name in names})
    tags = np.array([name[0] for name in names])
    return tags, types, np.array([types.index(name[2:]) for name in names], np.intp)


def _spans(tag: np.ndarray, kind: np.ndarray, first_of_sample: np.ndarray) -> Spans:
    """Return the spans of all nodes, given their letters and the numbers of their types."""
    inside = tag != "O"
    continues = np.zeros(len(tag), bool)
    continues[1:] = (
        np.isin(tag[1:], ("I", "E")) & np.isin(tag[:-1], ("B", "I")) & (kind[1:] == kind[:-1])
    )
    continues &= ~first_of_sample
    starts = np.flatnonzero(inside & ~continues)
    last = np.append(~continues[1:], True) if len(tag) else continues
    return Spans(starts, np.flatnonzero(inside & last) + 1, kind[starts])


def _codes(
    y_true: Any, y_pred: Any, classes: Labels | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes of the true and the predicted labels, and the labels in their order."""
    true, n_nodes = _flat_labels(y_true, "y_true")
    predicted, n_predicted = _flat_labels(y_pred, "y_pred")
    _check_same_sizes(n_nodes, n_predicted, "y_pred")
    order = sorted_labels([true, predicted]) if classes is None else as_classes(classes)
    return (
        encode_labels(true, order, "y_true"),
        encode_labels(predicted, order, "y_pred"),
        order,
    )


def _flat_labels(y: Any, field: str) -> tuple[np.ndarray, np.ndarray]:
    """All labels in one array, and the number of nodes of each sample."""
    samples = _checked_samples(y, field)
    if _is_flat(samples, field):
        labels = as_labels(samples)
        return labels, np.ones(len(labels), np.intp)
    arrays = [as_labels(labels) for labels in samples]
    filled = [labels for labels in arrays if len(labels)] or arrays
    if not exactly_comparable(filled):
        filled = [labels.astype(object) for labels in filled]
    sizes = np.array([len(labels) for labels in arrays], dtype=np.intp)
    return np.concatenate(filled), sizes


def _flat_weights(node_weight: Any, n_nodes: np.ndarray) -> np.ndarray:
    if node_weight is None:
        return np.ones(int(n_nodes.sum()))
    samples = _checked_samples(node_weight, "node_weight")
    if _is_flat(samples, "node_weight"):
        arrays = [as_floats(samples, "node_weight (one number per node)")]
        sizes = np.ones(arrays[0].size, np.intp)
    else:
        arrays = [
            as_floats(w, f"node_weight[{s}] (one number per node)") for s, w in enumerate(samples)
        ]
        sizes = np.array([array.size for array in arrays], dtype=np.intp)
    for array in arrays:
        if array.ndim != 1:
            raise InvalidInputError(
                f"node_weight holds an array of shape {array.shape}; give numbers, one per node."
            )
    _check_same_sizes(n_nodes, sizes, "node_weight")
    weight = np.concatenate(arrays)
    wrong = ~(np.isfinite(weight) & (weight >= 0))
    if wrong.any():
        raise InvalidInputError(
            f"node_weight holds {weight[wrong][0]}; weights are finite numbers, 0 or more, one per "
            "node."
        )
    return weight


def _checked_samples(values: Any, field: str) -> Any:
    n = length(values)
    if n is None or isinstance(values, str | bytes | dict | set | frozenset):
        raise InvalidInputError(
            f"{field} is a {type(values).__name__}; give a list with one array per sample."
        )
    if n == 0:
        raise InvalidInputError(f"{field} is empty; there is no sample to take a mean over.")
    return values


def _is_flat(samples: Any, field: str) -> bool:
    """Whether the items are labels themselves, not arrays of labels."""
    if isinstance(samples, np.ndarray) and samples.dtype.kind != "O":
        return samples.ndim == 1
    scalar = [isinstance(item, str | bytes) or length(item) is None for item in samples]
    if any(scalar) and not all(scalar):
        s = scalar.index(not scalar[0])
        raise InvalidInputError(
            f"{field} mixes labels and arrays of labels (sample {s} differs from sample 0); give "
            "an array for each sample, or one flat array.",
            sample=s,
            field=field,
        )
    return scalar[0]


def _check_same_sizes(n_nodes: np.ndarray, other: np.ndarray, field: str) -> None:
    if len(n_nodes) != len(other):
        raise InvalidInputError(f"y_true has {len(n_nodes)} samples but {field} has {len(other)}.")
    if (n_nodes != other).any():
        s = int(np.argmax(n_nodes != other))
        raise InvalidInputError(
            f"sample {s}: y_true labels {n_nodes[s]} nodes but {field} has {other[s]} entries.",
            sample=s,
            field=field,
        )
