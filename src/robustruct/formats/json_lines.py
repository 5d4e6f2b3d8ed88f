"""Graphs as JSON lines: one object per line.

    {"nodes": [{"w": "a"}, {"w": "b"}], "edges": [[0, 1]], "labels": ["X", "Y"]}

    nodes          features of each node: an object of strings and numbers, a list of strings, or a
                   list of numbers, of one kind throughout the file
    edges          pairs of nodes, counted from 0; without it each node is joined to the next
    edge_features  features of each edge, in the same forms; optional, but for all samples or none
    labels         a string or number for each node; in training also null (unknown) or a list (one
                   of these)
    weights        weight of each node's cost; optional
    weight         weight of the sample in training; optional
    group          string or number that samples share which belong together; optional, but for all
                   samples or none

Other fields are kept and ignored. A prediction adds the fields "predicted", "probabilities",
"best" and "spans".
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robustruct.errors import InvalidInputError
from robustruct.formats.sample import Answer, Format, Sample
from robustruct.formats.text import Lines, shown
from robustruct.graphs import Graph

LARGEST_LABEL = 2**63  # integers beyond have no numpy type


@dataclass(frozen=True)
class JsonLinesFormat(Format):
    """JSON lines; everything is in the file, so there are no options."""

    name = "json-lines"
    labels_are_text = False

    def samples(self, lines: Lines, *, labelled: bool) -> Iterator[Sample]:
        for line in lines:
            if not line.strip():
                continue
            try:
                yield _sample(parsed(line), lines.number, labelled, line)
            except InvalidInputError as error:
                raise lines.error(str(error)) from None

    def features(self, samples: Sequence[Sample]) -> list[Any]:
        return [sample.content for sample in samples]

    def values(self, sample: Sample, name: str) -> list[Any]:
        values = json.loads(sample.text[0]).get(name)
        if not isinstance(values, list):
            raise InvalidInputError(
                f"the sample has no list {shown(name)} with a value for each node."
            )
        return values

    def captions(self, sample: Sample) -> list[str]:
        return [_caption(node) for node in json.loads(sample.text[0])["nodes"]]

    def group(self, sample: Sample, column: str) -> str:
        fields = json.loads(sample.text[0])
        if column not in fields:
            raise InvalidInputError(
                f"line {sample.line} has no field {shown(column)} to read its group from.",
                field="groups",
            )
        return json.dumps(fields[column])

    def render(self, sample: Sample, answer: Answer) -> str:
        return json.dumps({**json.loads(sample.text[0]), **as_json(answer)}) + "\n"

    def state(self) -> dict[str, Any]:
        return {"format": self.name}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> JsonLinesFormat:
        return cls()


def parsed(line: str) -> Any:
    """Parse a line of JSON; errors are in users' words."""
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise InvalidInputError(
            f"this is not JSON ({error.msg} at character {error.pos + 1}); each line holds one "
            "complete object."
        ) from None
    except RecursionError:
        raise InvalidInputError("lists or objects are nested too deeply.") from None
    except ValueError as error:  # an integer of thousands of digits
        raise InvalidInputError(f"a number cannot be read ({error}).") from None


def _caption(node: Any) -> str:
    """Return the first text among the features of a node, or "" without any."""
    if isinstance(node, str):
        return node
    values = node.values() if isinstance(node, dict) else node
    texts = [value for value in values if isinstance(value, str)]
    if not texts and isinstance(node, dict):
        texts = list(node)
    return texts[0] if texts else ""


def as_json(answer: Answer) -> dict[str, Any]:
    """Return the fields that a prediction adds."""
    fields: dict[str, Any] = {"predicted": answer.labels}
    if answer.probabilities is not None:
        fields["probabilities"] = [
            {str(label): p for label, p in node.items()} for node in answer.probabilities
        ]
    if answer.best is not None:
        fields["best"] = [{"labels": labels, "score": score} for labels, score in answer.best]
    if answer.spans is not None:
        names = ("first", "end", "type", "probability")
        fields["spans"] = [dict(zip(names, span, strict=True)) for span in answer.spans]
    return fields


def _sample(value: Any, number: int, labelled: bool, line: str) -> Sample:
    if not isinstance(value, dict):
        raise InvalidInputError(f"a sample is an object in braces, not a {type(value).__name__}.")
    nodes = value.get("nodes")
    if not isinstance(nodes, list) or not nodes:
        raise InvalidInputError('"nodes" must be a list with the features of at least one node.')
    n = len(nodes)
    features = _features(nodes, "nodes")
    if "edges" in value or "edge_features" in value:
        edges = value.get("edges", [[i, i + 1] for i in range(n - 1)])
        rows = value.get("edge_features")
        edge_features = None if rows is None else _features(rows, "edge_features")
        content: Any = Graph(features, edges, edge_features)
    else:
        content = features
    labels = value.get("labels")
    if labelled and labels is None:
        raise InvalidInputError('"labels" is missing; it holds one label per node.')
    if labels is not None:
        expected = "string or finite number of 64 bits"
        _check_list(labels, n, "labels", _is_known if labelled else _is_label, expected)
    weights = value.get("weights")
    if weights is not None:
        _check_list(weights, n, "weights", _is_weight, "finite number >= 0")
    weight = value.get("weight", 1.0)
    if not _is_weight(weight):
        raise InvalidInputError(f'"weight" is {shown(weight)}; it is a finite number >= 0.')
    group = value.get("group")
    if group is not None and not _is_label(group):
        raise InvalidInputError(f'"group" is {shown(group)}; it is a string or a number.')
    return Sample(number, content, labels, float(weight), weights, group, [line])


def _features(rows: Any, field: str) -> Any:
    """Convert rows of numbers to an array; leave attributes as they are."""
    if not isinstance(rows, list):
        raise InvalidInputError(f'"{field}" is a {type(rows).__name__}, not a list.')
    for i, row in enumerate(rows):
        if not isinstance(row, dict | list | str):
            raise InvalidInputError(
                f'"{field}" holds {shown(row)} at place {i}; features are an object, a list or a '
                "string."
            )
    if not rows or not all(isinstance(row, list) for row in rows):
        return rows
    kinds = {type(value) for row in rows for value in row}
    if kinds <= {str}:
        return rows
    if not kinds <= {int, float, bool}:
        raise InvalidInputError(f'"{field}" holds lists of something else than numbers or strings.')
    if len({len(row) for row in rows}) > 1:
        raise InvalidInputError(f'"{field}" holds rows of numbers of different lengths.')
    try:
        return np.array(rows, dtype=float)
    except OverflowError:
        raise InvalidInputError(f'"{field}" holds a number too large for a float.') from None


def _check_list(
    values: Any, n: int, field: str, fits: Callable[[Any], bool], expected: str
) -> None:
    if not isinstance(values, list) or len(values) != n:
        size = f"{len(values)} items" if isinstance(values, list) else type(values).__name__
        raise InvalidInputError(f'"{field}" has {size}, but there are {n} nodes.')
    for i, value in enumerate(values):
        if not fits(value):
            raise InvalidInputError(
                f'"{field}" holds {shown(value)} for node {i}, not a {expected}.'
            )


def _is_label(value: Any) -> bool:
    if isinstance(value, str):
        return not value.endswith("\0")  # numpy drops it, and two labels would be one
    if isinstance(value, float):
        return math.isfinite(value)
    return _is_number(value) and abs(value) < LARGEST_LABEL


def _is_known(value: Any) -> bool:
    """Return whether a value says something about a label: null, one, or several."""
    if isinstance(value, list):
        return len(value) > 0 and all(map(_is_label, value))
    return value is None or _is_label(value)


def _is_weight(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= sys.float_info.max


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
