"""Compares predictions with true labels, by counts that add up over files and machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robustruct.errors import FileFormatError, InvalidInputError
from robustruct.evaluation.predict_files import CHUNK, answered
from robustruct.formats.corpus import chunks
from robustruct.formats.sample import Format
from robustruct.formats.text import Lines
from robustruct.guarantees.certificate import Observed
from robustruct.labels import as_labels, encode_labels, sorted_labels
from robustruct.losses import Loss, costs_with_unknown
from robustruct.metrics import Detection, confusion_scores, is_span_labelling, span_scores
from robustruct.models.base import StructuredModel

Compared = tuple[np.ndarray, np.ndarray, np.ndarray]
"""True labels, predicted labels and weights of the nodes of one sample."""


@dataclass(frozen=True, eq=False)
class PairsOfSamples:
    """What was predicted where something was true, in each of some samples."""

    labels: np.ndarray
    """(k,)"""
    n_samples: int
    sample: np.ndarray
    """(m,) sample of each entry."""
    pair: np.ndarray
    """(m,) a k + b for true label a and predicted label b."""
    weight: np.ndarray
    """(m,) total weight of such nodes in the sample."""

    @classmethod
    def of(
        cls, labels: np.ndarray, sizes: Sequence[int], pair: np.ndarray, weight: np.ndarray
    ) -> PairsOfSamples:
        """Add up nodes of the same sample and pair; samples have ``sizes`` nodes."""
        n_pairs = len(labels) ** 2
        of_node = np.repeat(np.arange(len(sizes)), sizes)
        entries, entry_of = np.unique(of_node * n_pairs + pair, return_inverse=True)
        totals = np.bincount(entry_of, weight, len(entries))
        return cls(labels, len(sizes), *np.divmod(entries, n_pairs), totals)

    def sums(self, labels: np.ndarray, costs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(S,) cost and (S,) weight of each sample; ``costs`` are those of ``labels``."""
        place = encode_labels(self.labels, labels, "the data")
        true, predicted = np.divmod(self.pair, len(self.labels))
        cost = self.weight * costs[place[true], place[predicted]]
        return (
            np.bincount(self.sample, cost, self.n_samples),
            np.bincount(self.sample, self.weight, self.n_samples),
        )


@dataclass(frozen=True, eq=False)
class Tally:
    """Confusion counts of some samples; tallies can be merged."""

    labels: np.ndarray
    """(k,) all labels, true or predicted, sorted."""
    counts: np.ndarray
    """(k, k) number of nodes with each [true label, predicted label]."""
    weights: np.ndarray
    """(k, k) their total weight."""
    n_samples: int
    n_right: int
    """Samples without a mistake."""
    spans: dict[str, Detection] | None
    """Spans by type; None if a label is no part of any."""
    by_sample: tuple[PairsOfSamples, ...] = ()
    """The same sample by sample, in the parts in which they were counted."""

    @classmethod
    def empty(cls, labels: np.ndarray) -> Tally:
        """Return the tally of no samples, with rows for ``labels``."""
        k = len(labels)
        return cls(labels, np.zeros((k, k), np.intp), np.zeros((k, k)), 0, 0, {})

    @classmethod
    def of(cls, compared: list[Compared]) -> Tally:
        """Count some samples, at least one."""
        truth, predicted, weights = (list(part) for part in zip(*compared, strict=True))
        labels = sorted_labels([*truth, *predicted])
        k, spans = len(labels), None
        a = np.concatenate([encode_labels(part, labels, "the data") for part in truth])
        b = np.concatenate([encode_labels(part, labels, "the prediction") for part in predicted])
        # No span here, but other samples may have some: None would rule out spans for all.
        if labels.tolist() == ["O"]:
            spans = {}
        elif is_span_labelling(labels):
            spans = span_scores(truth, predicted)[1]
        weight = np.concatenate(weights)
        by_sample = PairsOfSamples.of(labels, [len(part) for part in truth], a * k + b, weight)
        return cls(
            labels,
            np.bincount(a * k + b, minlength=k * k).reshape(k, k),
            np.bincount(a * k + b, weights=weight, minlength=k * k).reshape(k, k),
            len(truth),
            sum(bool((x == y).all()) for x, y in zip(truth, predicted, strict=True)),
            spans,
            (by_sample,),
        )

    def merged(self, other: Tally) -> Tally:
        """Return the tally of the samples of both."""
        labels = sorted_labels([self.labels, other.labels])
        k = len(labels)
        counts, weights = np.zeros((k, k), np.intp), np.zeros((k, k))
        for part in (self, other):
            place = encode_labels(part.labels, labels, "the data")
            counts[np.ix_(place, place)] += part.counts
            weights[np.ix_(place, place)] += part.weights
        spans = None
        if self.spans is not None and other.spans is not None:
            kinds = sorted({*self.spans, *other.spans})
            spans = {kind: _sum(self.spans.get(kind), other.spans.get(kind)) for kind in kinds}
        return Tally(
            labels,
            counts,
            weights,
            self.n_samples + other.n_samples,
            self.n_right + other.n_right,
            spans,
            self.by_sample + other.by_sample,
        )

    def evaluated(self, loss: Loss, classes: np.ndarray) -> Evaluation:
        """Price the mistakes of a model with these ``classes``.

        Labels without a cost, which training never saw, cost as much as the dearest mistake.
        """
        if not self.n_samples:
            raise InvalidInputError("there is no sample to evaluate; the data are empty.")
        costs = costs_with_unknown(loss, self.labels, classes)
        total = self.weights.sum()
        mean = float((costs * self.weights).sum() / total) if total > 0 else 0.0
        overall = None
        if is_span_labelling(self.labels) and self.spans is not None:
            overall = _sum(*self.spans.values())
        return Evaluation(
            loss=mean,
            accuracy=float(np.trace(self.counts) / self.counts.sum()),
            whole_samples=self.n_right / self.n_samples,
            n_samples=self.n_samples,
            n_nodes=int(self.counts.sum()),
            labels=self.labels,
            confusion=self.counts,
            costs=costs,
            by_label=confusion_scores(self.counts, self.labels),
            spans=overall,
            spans_by_type=None if overall is None else self.spans,
            observed=self._observed(costs),
        )

    def _observed(self, costs: np.ndarray) -> Observed:
        sums = [part.sums(self.labels, costs) for part in self.by_sample]
        cost, weight = map(np.concatenate, zip(*sums, strict=True))
        return Observed(cost, weight, float(costs.min()), float(costs.max()))


def _sum(*parts: Detection | None) -> Detection:
    detections = [part for part in parts if part is not None]
    return Detection(
        sum(part.n_true for part in detections),
        sum(part.n_predicted for part in detections),
        sum(part.n_correct for part in detections),
    )


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Quality of predicted labels."""

    loss: float
    """Mean cost per node, by weight."""
    accuracy: float
    """Fraction of nodes with the right label."""
    whole_samples: float
    """Fraction of samples that are right in all nodes."""
    n_samples: int
    n_nodes: int
    labels: np.ndarray
    """(k,) the labels of the model and of the data, sorted."""
    confusion: np.ndarray
    """(k, k) number of nodes with each [true label, predicted label]."""
    costs: np.ndarray
    """(k, k) rows: true label, columns: predicted label. Labels without a cost, which training
    never saw, have that of the dearest mistake."""
    by_label: dict[Any, Detection]
    spans: Detection | None
    """Spans such as entities, where labels are BIO or BIOES."""
    spans_by_type: dict[str, Detection] | None
    observed: Observed
    """What each sample costs: a certificate follows where samples had no part in the model."""


def tally(labels: np.ndarray, compared: Iterable[Compared]) -> Tally:
    """Count any number of samples; ``labels`` have rows even if no node has them."""
    # By chunks, so that predictions of a large file are never all in memory.
    total = Tally.empty(labels)
    for some in chunks(iter(compared), CHUNK):
        total = total.merged(Tally.of(some))
    return total


def compared_file(
    model: StructuredModel,
    form: Format,
    lines: Lines,
    watch: Callable[[int], None] | None = None,
    digests: list[np.ndarray] | None = None,
    looks: list[np.ndarray] | None = None,
) -> Iterator[Compared]:
    """Yield (true labels, predicted labels, node weights) of the samples of a file, in chunks.

    ``digests`` takes those of the samples, by which a model recognises what it was trained on,
    ``looks`` what tells whether others are like these.

    A label in text is matched with the model's label of the same spelling.
    """
    as_known = known_labels(model.classes_)
    answers = answered(model, form, lines, labelled=True, watch=watch, digests=digests, looks=looks)
    for sample, answer in answers:
        if any(label is None or isinstance(label, list) for label in sample.labels or ()):
            raise FileFormatError(
                lines.name,
                sample.line,
                "a label is known in part; predictions are judged by labels that are known.",
            )
        labels = as_known(sample.labels or ())
        node_weight = np.ones(len(labels)) if sample.node_weight is None else sample.node_weight
        weight = np.asarray(node_weight, float) * sample.weight
        yield as_labels(labels), as_labels(answer.labels), weight


def known_labels(classes: np.ndarray) -> Callable[[Sequence[Any]], list[Any]]:
    """Return what reads labels of a file as those of a model that are spelt alike."""
    label_of = {str(label): label for label in classes.tolist()}
    numbers = classes.dtype.kind in "iuf"

    def as_known(labels: Sequence[Any]) -> list[Any]:
        found = [label_of.get(str(label), label) for label in labels]
        return [_as_number(label) for label in found] if numbers else found

    return as_known


def _as_number(label: Any) -> Any:
    try:
        return float(label)
    except (TypeError, ValueError):
        return label
