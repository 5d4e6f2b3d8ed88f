"""Files of CRFsuite: one item per line, its label and its attributes separated by tabs.

    B-NP    w[0]=An    w[1]=AP    length:2.0

An attribute may have a value after a colon; a colon or backslash of its name is written ``\\:`` or
``\\\\``. A line ``@weight:2`` (or that field before the first label) weighs the sequence. An empty
line ends it. What is written has the form of ``crfsuite tag``: the predicted label, then
``label:probability`` for every label if asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from robustruct.formats.sample import Answer, Format, Sample
from robustruct.formats.text import Lines, shown

WEIGHT = "@weight"
_ESCAPED = re.compile(r"\\(.)")
_NAME = re.compile(r"((?:[^\\:]|\\.)*)(?::(.*))?", re.DOTALL)


@dataclass(frozen=True)
class CrfsuiteFormat(Format):
    """CRFsuite's own format; it has no options."""

    name = "crfsuite"

    def samples(self, lines: Lines, *, labelled: bool) -> Iterator[Sample]:
        items: list[Any] = []
        labels: list[str] = []
        weight, first = 1.0, 1
        for line in lines:
            if not line.strip():
                if items:
                    yield Sample(first, items, labels, weight)
                items, labels, weight, first = [], [], 1.0, lines.number + 1
                continue
            label, *fields = line.split("\t")
            if label.startswith(f"{WEIGHT}:"):
                weight = _weight(label, lines)
                if not fields:
                    continue
                label, *fields = fields
            if labelled and not label:
                raise lines.error("the line starts with a tab, so its label is missing.")
            labels.append(_plain(label))
            items.append(_attributes(fields, lines))
        if items:
            yield Sample(first, items, labels, weight)

    def features(self, samples: Sequence[Sample]) -> list[Any]:
        return [sample.content for sample in samples]

    def captions(self, sample: Sample) -> list[str]:
        return [next(iter(item), "") for item in sample.content]

    def render(self, sample: Sample, answer: Answer) -> str:
        written = []
        columns = [list(map(str, answer.labels))]
        if answer.best is not None:
            scores = "\t".join(f"{score:.6g}" for _, score in answer.best)
            written.append(f"@scores\t{scores}")
            columns += [list(map(str, labels)) for labels, _ in answer.best]
        if answer.probabilities is not None:
            for label in answer.probabilities[0]:
                columns.append([f"{label}:{p[label]:.6f}" for p in answer.probabilities])
        written += ["\t".join(fields) for fields in zip(*columns, strict=True)]
        return "\n".join(written) + "\n\n"

    def state(self) -> dict[str, Any]:
        return {"format": self.name}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> CrfsuiteFormat:
        return cls()


def _attributes(fields: list[str], lines: Lines) -> list[str] | dict[str, float]:
    """Return the names as a list if all values are 1, else a dict of values."""
    fields = [field for field in fields if field]
    if not any(":" in field or "\\" in field for field in fields):
        return fields
    pairs = [_attribute(field, lines) for field in fields]
    if all(value == 1.0 for _, value in pairs):
        return [name for name, _ in pairs]
    values: dict[str, float] = {}
    for name, value in pairs:
        values[name] = values.get(name, 0.0) + value
    return values


def _attribute(field: str, lines: Lines) -> tuple[str, float]:
    match = _NAME.fullmatch(field)
    if match is None:
        raise lines.error(
            f"the attribute {shown(field)} ends with a backslash; write \\\\ for one."
        )
    name, value = match.groups()
    if not value:
        return _plain(name), 1.0
    try:
        return _plain(name), float(value)
    except ValueError:
        raise lines.error(
            f"the attribute {shown(field)} has the value {shown(value)}, which is not a number; "
            "write a colon that belongs to the name as \\:"
        ) from None


def _weight(field: str, lines: Lines) -> float:
    value = field.partition(":")[2]
    try:
        weight = float(value)
    except ValueError:
        weight = -1.0
    if not 0 <= weight < float("inf"):
        raise lines.error(f"{shown(field)} does not weigh the sequence: give a number >= 0.")
    return weight


def _plain(text: str) -> str:
    return _ESCAPED.sub(r"\1", text) if "\\" in text else text
