"""Metrics of scikit-learn on the items of all sequences, under the names of sklearn-crfsuite."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

from sklearn import metrics

__all__ = [
    "flat_accuracy_score",
    "flat_classification_report",
    "flat_f1_score",
    "flat_fbeta_score",
    "flat_precision_score",
    "flat_recall_score",
    "sequence_accuracy_score",
]

Sequences = Iterable[Iterable[Any]]


def _flat(metric: Callable[..., Any], y_true: Sequences, y_pred: Sequences, **options: Any) -> Any:
    true, predicted = (list(chain.from_iterable(y)) for y in (y_true, y_pred))
    return metric(true, predicted, **options)


def flat_accuracy_score(y_true: Sequences, y_pred: Sequences) -> float:
    """Part of all items whose label is right."""
    return _flat(metrics.accuracy_score, y_true, y_pred)


def flat_precision_score(y_true: Sequences, y_pred: Sequences, **options: Any) -> Any:
    """`sklearn.metrics.precision_score` of all items."""
    return _flat(metrics.precision_score, y_true, y_pred, **options)


def flat_recall_score(y_true: Sequences, y_pred: Sequences, **options: Any) -> Any:
    """`sklearn.metrics.recall_score` of all items."""
    return _flat(metrics.recall_score, y_true, y_pred, **options)


def flat_f1_score(y_true: Sequences, y_pred: Sequences, **options: Any) -> Any:
    """`sklearn.metrics.f1_score` of all items."""
    return _flat(metrics.f1_score, y_true, y_pred, **options)


def flat_fbeta_score(y_true: Sequences, y_pred: Sequences, beta: float, **options: Any) -> Any:
    """`sklearn.metrics.fbeta_score` of all items."""
    return _flat(metrics.fbeta_score, y_true, y_pred, beta=beta, **options)


def flat_classification_report(
    y_true: Sequences, y_pred: Sequences, labels: Any = None, **options: Any
) -> Any:
    """`sklearn.metrics.classification_report` of all items."""
    return _flat(metrics.classification_report, y_true, y_pred, labels=labels, **options)


def sequence_accuracy_score(y_true: Sequence[Any], y_pred: Sequence[Any]) -> float:
    """Part of the sequences that are right as a whole; 0 where there are none."""
    right = [list(true) == list(found) for true, found in zip(y_true, y_pred, strict=True)]
    return sum(right) / len(right) if right else 0.0
