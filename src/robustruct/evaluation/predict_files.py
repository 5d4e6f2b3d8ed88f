"""Predicts the labels of the samples of files, and writes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, BinaryIO

import numpy as np

from robustruct.errors import InvalidInputError, errors_at_lines
from robustruct.formats.conll import ConllFormat
from robustruct.formats.corpus import chunks
from robustruct.formats.json_lines import as_json
from robustruct.formats.recognise import FORMATS, recognised_name, restored
from robustruct.formats.rows import Roles
from robustruct.formats.sample import Answer, Format, Sample, as_options
from robustruct.formats.table import TableFormat
from robustruct.formats.text import Lines
from robustruct.labels import as_labels
from robustruct.models.base import StructuredModel
from robustruct.models.prediction import ActionsLike

CHUNK = 500  # samples in memory at once; more take memory, fewer the overhead of a call each


def input_format(model: StructuredModel, lines: Lines, roles: Roles | None = None) -> Format:
    """Return the format in which to read these lines for this model.

    ``roles`` are those of the columns of a table; a model that was trained on one knows them.
    """
    state = getattr(model, "input_", None)
    if roles is not None:
        form = None if state is None else restored(state)
        if isinstance(form, TableFormat) and roles.features is None:
            roles = replace(roles, features=form.roles.features)
        return TableFormat.found(lines, roles)
    if state is not None:
        return restored(state)
    name = recognised_name(lines)
    if name == ConllFormat.name:
        raise InvalidInputError(
            "the model was made in Python, so it does not know how to make features of columns; "
            "give it attributes (CRFsuite's format or JSON lines), or train it with `robustruct "
            "train`."
        )
    return FORMATS[name].from_state({})


def answered(
    model: StructuredModel,
    form: Format,
    lines: Lines,
    *,
    labelled: bool,
    proba: bool = False,
    k_best: int = 0,
    known: str | None = None,
    spans: float | str | None = None,
    watch: Callable[[int], None] | None = None,
    digests: list[np.ndarray] | None = None,
    looks: list[np.ndarray] | None = None,
    actions: ActionsLike = None,
    rule: str | None = None,
) -> Iterator[tuple[Sample, Answer]]:
    """Yield the samples of a file with their predictions, CHUNK of them in memory at once.

    ``known`` names the column or field that holds labels which predictions are to agree with.
    ``spans`` is the least probability of a span; without it none are listed.
    ``digests`` takes those of the samples, ``looks`` what tells whether they are like training's.
    """
    names = model.classes_.tolist()
    label_of = {str(label): label for label in names}
    of_rule, done = None if rule is None else label_of.get(rule, rule), 0
    for chunk in chunks(form.samples(lines, labelled=labelled), CHUNK):
        with errors_at_lines(lines.name, [sample.line for sample in chunk]):
            X = form.features(chunk)
            weight = None
            if any(sample.node_weight is not None for sample in chunk):
                weight = [1.0 if s.node_weight is None else s.node_weight for s in chunk]
            if digests is not None:
                digests.append(model._digests(X))
            if looks is not None:
                looks.append(model._looks(X))
            given: Any = None
            if known is not None:
                given = [
                    [_known(value, label_of) for value in form.values(sample, known)]
                    for sample in chunk
                ]
            answers = [
                Answer(as_labels(labels).tolist())
                for labels in model.predict(X, weight, known=given, actions=actions, rule=of_rule)
            ]
            if proba:
                rows_of = model.predict_proba(X, weight, known=given)
                for answer, rows in zip(answers, rows_of, strict=True):
                    answer.probabilities = [
                        dict(zip(names, row, strict=True)) for row in rows.tolist()
                    ]
            if k_best:
                ranked = model.predict_k_best(X, k_best, known=given)
                for answer, best in zip(answers, ranked, strict=True):
                    answer.best = [(as_labels(labels).tolist(), score) for labels, score in best]
            if spans is not None:
                listed = model.predict_spans(X, spans, known=given)
                for answer, found in zip(answers, listed, strict=True):
                    answer.spans = found
        yield from zip(chunk, answers, strict=True)
        done += len(chunk)
        if watch is not None:
            watch(done)


def _known(value: Any, label_of: dict[str, Any]) -> Any:
    """Return what is known of a label, with the model's labels of the same spelling."""
    options = as_options(value) if isinstance(value, str) else value
    if isinstance(options, set | list):
        return {label_of.get(str(label), label) for label in options}
    return None if options is None else label_of.get(str(options), options)


def write_answers(
    pairs: Iterable[tuple[Sample, Answer]],
    form: Format | None,
    stream: BinaryIO,
    encoding: str = "utf-8",
) -> int:
    """Write samples with their answers and return their number.

    Without a format each becomes a JSON line with the answer alone.
    """
    n = 0

    def counted() -> Iterator[tuple[Sample, Answer]]:
        nonlocal n
        for pair in pairs:
            yield pair
            n += 1

    if form is None:
        texts = (json.dumps(as_json(answer)) + "\n" for _, answer in counted())
    else:
        texts = form.rendered(counted())  # type: ignore[assignment]
    for text in texts:
        try:
            stream.write(text.encode(encoding))
        except UnicodeEncodeError as error:
            missing = error.object[error.start]
            raise InvalidInputError(
                f"the answer holds {missing!r}, which {encoding} lacks; choose another encoding, "
                "such as utf-8."
            ) from None
    return n
