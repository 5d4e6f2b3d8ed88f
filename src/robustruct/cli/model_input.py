"""Models and the files they are applied to: what predict, evaluate and inspect share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from robustruct.cli.errors import BadInputError, blamed_on_input
from robustruct.errors import blamed_on_lines

if TYPE_CHECKING:
    from robustruct.formats.sample import Answer, Format, Sample
    from robustruct.formats.text import Lines
    from robustruct.models.base import StructuredModel

CHUNK = 500  # samples that are in memory at once


def load_model(path: str) -> StructuredModel:
    """The model in a file."""
    from robustruct.models.storage import load

    try:
        with blamed_on_input():
            return load(path)
    except FileNotFoundError:
        raise BadInputError(
            f"{path}: there is no such model; `robustruct train DATA -o {path}` makes one."
        ) from None
    except OSError as error:
        raise BadInputError(f"{path}: it cannot be read: {error.strerror}.") from None


def input_format(model: StructuredModel, lines: Lines) -> Format:
    """How to read these lines for this model."""
    from robustruct.formats.conll import ConllFormat
    from robustruct.formats.recognise import FORMATS, recognised_name, restored

    state = getattr(model, "input_", None)
    if state is not None:
        with blamed_on_input():
            return restored(state)
    name = recognised_name(lines)
    if name == ConllFormat.name:
        raise BadInputError(
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
    watch: Callable[[int], None] | None = None,
) -> Iterator[tuple[Sample, Answer]]:
    """The samples of a file with what the model says about them; few are in memory at once."""
    from robustruct.formats.corpus import chunks
    from robustruct.formats.sample import Answer

    names = model.classes_.tolist()
    done = 0
    for chunk in chunks(form.samples(lines, labelled=labelled), CHUNK):
        with blamed_on_lines(lines.name, [sample.line for sample in chunk]):
            X = form.features(chunk)
            weight = [1.0 if s.node_weight is None else s.node_weight for s in chunk]
            answers = [Answer(labels.tolist()) for labels in model.predict(X, weight)]
            if proba:
                for answer, rows in zip(answers, model.predict_proba(X, weight), strict=True):
                    answer.probabilities = [
                        dict(zip(names, row, strict=True)) for row in rows.tolist()
                    ]
            if k_best:
                for answer, found in zip(answers, model.predict_k_best(X, k_best), strict=True):
                    answer.best = [(labels.tolist(), score) for labels, score in found]
        yield from zip(chunk, answers, strict=True)
        done += len(chunk)
        if watch is not None:
            watch(done)
