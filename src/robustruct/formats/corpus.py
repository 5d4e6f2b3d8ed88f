"""Reads whole files as training or test data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from robustruct.errors import FileFormatError
from robustruct.formats.recognise import recognised
from robustruct.formats.sample import Format, as_options
from robustruct.formats.text import Lines, Path
from robustruct.labels import as_labels

LARGEST = 2**63  # labels of larger numbers stay text: numpy has no integers for them
CHUNK = 4000  # samples whose features are made at once: templates work on many tokens together
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Corpus:
    """Samples of a file: ``model.fit(corpus.X, corpus.y, **corpus.weights)``."""

    X: list[Any]
    y: list[np.ndarray]
    sample_weight: np.ndarray | None
    node_weight: list[np.ndarray] | None
    lines: list[int]
    """First line of each sample."""
    format: Format
    captions: list[list[str]] | None = None
    """Text of each node for drawings; read only if asked for."""
    name: str = "X"
    """Source of the samples, for messages."""
    labels_as_written: bool = False
    """Whether labels are text of the file, whose digits may mean numbers."""
    groups: list[Any] | None = None
    """What each sample belongs to, where the file says so."""

    def __len__(self) -> int:
        return len(self.X)

    @property
    def n_nodes(self) -> int:
        """Number of labels, over all samples."""
        return sum(map(len, self.y))

    @property
    def weights(self) -> dict[str, Any]:
        """The weights that the file gives, by the names of ``fit``'s arguments."""
        given = {"sample_weight": self.sample_weight, "node_weight": self.node_weight}
        return {name: value for name, value in given.items() if value is not None}


def read_corpus(
    path: Path,
    form: Format | str | None = None,
    *,
    encoding: str = "utf-8",
    watch: Callable[[Lines, int], None] | None = None,
    captions: bool = False,
    part: bool = False,
    partial: bool = False,
    **columns: Any,
) -> Corpus:
    """Read a labelled file in any format.

    Labels of a text format become numbers if all of them are written like numbers.

    Parameters
    ----------
    path : str or path-like
        A text file, plain or gzip; "-" is standard input.
    form : Format or str, optional
        The format or its name ("conll", "crfsuite", "json-lines"); by default it is detected.
    encoding : str
    watch : callable, optional
        Called after each chunk with the lines and the number of samples so far.
    captions : bool
        Whether to keep the words of the nodes, for drawing them.
    part : bool
        Whether the file is one of several: it may then be empty, and labels stay as they are
        written, because only all files together tell whether they are numbers.
    partial : bool
        Whether labels of a text format can be known in part: "?" or nothing is unknown, "A|B" one
        of several. In JSON lines these are null and a list, whatever this says.
    **columns
        Options of `ConllFormat.found`: ``label_column``, ``columns``, ``template`` and so on.

    Returns
    -------
    Corpus
    """
    with Lines(path, encoding) as lines:
        if not isinstance(form, Format):
            form = recognised(lines, form, **columns)
        X: list[Any] = []
        labels: list[Sequence[Any]] = []
        weights: list[float] = []
        node_weights: list[Sequence[float] | None] = []
        starts: list[int] = []
        groups: list[Any] = []
        words: list[list[str]] = []
        for chunk in chunks(form.samples(lines, labelled=True), CHUNK):
            X += form.features(chunk)
            labels += [sample.labels or [] for sample in chunk]
            weights += [sample.weight for sample in chunk]
            node_weights += [sample.node_weight for sample in chunk]
            starts += [sample.line for sample in chunk]
            groups += [sample.group for sample in chunk]
            if captions:
                words += [form.captions(sample) for sample in chunk]
            if watch is not None:
                watch(lines, len(X))
        if not X and not part:
            raise FileFormatError(lines.name, None, "the file is empty: it has no samples.")
    y = _labels(labels, form.labels_are_text and not part, partial and form.labels_are_text)
    return Corpus(
        X,
        y,
        None if set(weights) <= {1.0} else np.array(weights),
        None
        if all(weight is None for weight in node_weights)
        else [
            np.ones(len(of_nodes)) if weight is None else np.asarray(weight, float)
            for weight, of_nodes in zip(node_weights, y, strict=True)
        ],
        starts,
        form,
        words if captions else None,
        lines.name,
        labels_as_written=part and form.labels_are_text,
        groups=_known_groups(groups, starts, lines.name),
    )


def _known_groups(groups: list[Any], lines: Sequence[int], name: str) -> list[Any] | None:
    """Return the groups of samples; None where there are fewer than two."""
    if len(set(groups)) < 2:
        return None
    without = [line for group, line in zip(groups, lines, strict=True) if group is None]
    if not without:
        return groups
    raise FileFormatError(
        name,
        without[0],
        "this sample has no group, but others have; give all samples one, or none.",
    )


def _labels(labels: Sequence[Sequence[Any]], are_text: bool, partial: bool) -> list[np.ndarray]:
    """Return labels as `label_arrays` does; where some are known in part, as Python objects."""
    rows = [[as_options(a) for a in row] for row in labels] if partial else labels
    kinds = {type(label) for row in rows for label in row}
    if not kinds & {type(None), set, list}:
        return label_arrays(rows, are_text)
    single = [a for row in rows for a in row if not (a is None or isinstance(a, set | list))]
    some = [a for row in rows for one in row if isinstance(one, set | list) for a in one]
    names = [*single, *some]
    value = dict(zip(names, as_numbers(names), strict=True)) if are_text else {}
    arrays = []
    for row in rows:
        array = np.empty(len(row), dtype=object)
        for i, label in enumerate(row):
            if isinstance(label, set | list):
                array[i] = {value.get(a, a) for a in label}
            else:
                array[i] = value.get(label, label)
        arrays.append(array)
    return arrays


def chunks(items: Iterator[T], size: int) -> Iterator[list[T]]:
    """Split items into lists of at most ``size``."""
    while chunk := list(islice(items, size)):
        yield chunk


def label_arrays(labels: Sequence[Sequence[Any]], are_text: bool) -> list[np.ndarray]:
    """Return one array per sample; of numbers if ``are_text`` and all labels spell numbers."""
    if not labels:
        return []
    flat = [label for of_sample in labels for label in of_sample]
    cuts = np.cumsum([len(of_sample) for of_sample in labels])[:-1]
    values = as_numbers(flat) if are_text else flat
    only_text = set(map(type, values)) == {str}  # quicker than asking as_labels
    return np.split(np.array(values) if only_text else as_labels(values), cuts)


def as_numbers(labels: list[Any]) -> list[Any]:
    """Convert texts to integers, else floats, if all of them are spelt as Python spells them."""
    for kind in (int, float):
        try:
            number = {label: kind(label) for label in set(labels)}
        except ValueError:
            continue
        fits = all(abs(value) < LARGEST for value in number.values())  # False for nan, too
        if fits and all(str(value) == label for label, value in number.items()):
            return [number[label] for label in labels]
    return labels
