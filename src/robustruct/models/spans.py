"""Spans of a fitted model: their probabilities, and the decision by them."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from robustruct.errors import IncompatibleError, InvalidInputError, shown
from robustruct.graphs import Batch
from robustruct.inference import marginals
from robustruct.scores import Scores
from robustruct.spans import (
    Span,
    SpanCandidates,
    SpanLabels,
    SpanRule,
    check_chains,
    least_probability,
    span_candidates,
)
from robustruct.validation import chunks

if TYPE_CHECKING:
    from robustruct.models.prediction import Prediction


def candidates(model: Prediction, found: Scores, least: float) -> SpanCandidates:
    """The spans of at least this probability, over all types, under the model's distribution."""
    labels = SpanLabels.of(model.classes_)
    check_chains(found.batch)
    parts = [
        (first, span_candidates(batch, r, q, labels, least))
        for first, batch, r, q in _distributions(model, found)
    ]
    return SpanCandidates.joined(parts)


def _distributions(
    model: Prediction, found: Scores
) -> Iterator[tuple[int, Batch, np.ndarray, np.ndarray]]:
    """(first node, batch, node and edge marginals) of parts, as edge marginals take much room.

    They are those that ``predict_proba`` has the nodes of.
    """
    from robustruct.game.smooth import at_temperature

    if model.temperature_ == 0:
        raise IncompatibleError(
            "spans have no probabilities at temperature 0, where the adversary's strategy is not "
            "unique; fit with a temperature > 0, or a CRF."
        )
    batch = found.batch
    for first, last in chunks(batch, len(model.classes_) ** 2):
        part = found if last - first == batch.n_samples else found.part(first, last)
        start = int(batch.node_offsets[first])
        if model.temperature_ == np.inf:
            heat = model.absolute_temperature_
            gibbs = marginals(at_temperature(part, heat), edges=True, n_jobs=model.n_jobs)
            assert gibbs.edges is not None
            yield start, part.batch, gibbs.nodes, gibbs.edges
        else:
            ((_, play),) = model._games(part)
            yield start, part.batch, play.r, play.q


def labels_of(model: Prediction, batch: Batch, spans: SpanCandidates, rule: SpanRule) -> np.ndarray:
    """(N,) label codes of the spans that the rule takes, in the order of the batch."""
    written = SpanLabels.of(model.classes_).written(batch.n_nodes, *spans.chosen(rule)[:3])
    return batch.from_user(written)


def listed(
    model: Prediction, found: Scores, threshold: float | str, overlapping: bool
) -> list[list[Span]]:
    """See ``predict_spans``."""
    rule = _rule(model, threshold)
    least = least_probability(rule)
    spans = candidates(model, found, least)
    if overlapping:
        place, kind = np.nonzero((spans.probability >= least) & (spans.probability > 0))
        first, end = spans.first[place], spans.end[place]
        p = spans.probability[place, kind]
    else:
        first, end, kind, p = spans.chosen(rule)
    offsets = found.batch.node_offsets
    order = np.lexsort((kind, end, first))
    sample = np.searchsorted(offsets, first[order], side="right") - 1
    start = offsets[sample]
    types = SpanLabels.of(model.classes_).types
    answers: list[list[Span]] = [[] for _ in range(found.batch.n_samples)]
    columns = (sample, first[order] - start, end[order] - start, kind[order], p[order])
    for s, i, j, t, probability in zip(*(x.tolist() for x in columns), strict=True):
        answers[s].append((i, j, types[t], min(probability, 1.0)))
    return answers


def _rule(model: Prediction, threshold: float | str) -> SpanRule:
    if isinstance(threshold, str) and threshold == "auto":
        return model._span_rule
    real = isinstance(threshold, Real) and not isinstance(threshold, bool)
    if not real or not 0 <= threshold <= 1:  # type: ignore[operator]
        raise InvalidInputError(
            f"threshold={shown(threshold)}; give the least probability of a span, from 0 to 1, or "
            "'auto'.",
            field="threshold",
        )
    return float(threshold)
