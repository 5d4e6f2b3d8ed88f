"""Labelled files as a model takes them in Python, whole: for methods that need all samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from robustruct.errors import FileFormatError, errors_at_lines
from robustruct.evaluation.evaluate import known_labels
from robustruct.evaluation.predict_files import input_format
from robustruct.formats.text import Lines
from robustruct.models.base import StructuredModel


@dataclass(frozen=True, eq=False)
class HeldOutFile:
    """The samples of a file."""

    X: list[Any]
    y: list[list[Any]]
    node_weight: list[Any] | None
    """None if no sample has weights."""
    groups: list[str] | None
    """None unless asked for."""
    name: str
    lines: list[int]
    """Number of the first line of each sample."""


def read_held_out(model: StructuredModel, lines: Lines, groups: str | None = None) -> HeldOutFile:
    """Read a labelled file; ``groups`` names the column, or field, of a sample's group."""
    form = input_format(model, lines)
    samples = list(form.samples(lines, labelled=True))
    if not samples:
        raise FileFormatError(lines.name, None, "the file is empty: it has no samples.")
    numbers = [sample.line for sample in samples]
    as_known = known_labels(model.classes_)
    with errors_at_lines(lines.name, numbers):
        X = form.features(samples)
    weights = None
    if any(sample.node_weight is not None for sample in samples):
        weights = [
            [1.0] * len(s.labels or ()) if s.node_weight is None else s.node_weight for s in samples
        ]
    return HeldOutFile(
        X,
        [as_known(sample.labels or ()) for sample in samples],
        weights,
        None if groups is None else [form.group(sample, groups) for sample in samples],
        lines.name,
        numbers,
    )
