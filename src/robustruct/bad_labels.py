"""Repairs or drops training labels that break the rules of their tagging scheme.

Most corpora have some. The CoNLL scorer reads them as spans all the same: an I that continues
nothing begins a span. Repaired labels mark the same spans by the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from robustruct.arrays import length
from robustruct.constraints import Constraints, tag_parts
from robustruct.errors import InvalidInputError, warn
from robustruct.formats.corpus import Corpus
from robustruct.formats.sample import Format
from robustruct.formats.shards import Shard, ShardedData
from robustruct.graphs import Graph
from robustruct.labels import as_labels, encode_labels, sorted_labels, split_options

MOST_PLACES = 3  # that a warning names: enough to look at, and it stays readable


@dataclass(frozen=True)
class BadLabels:
    """Number of bad labels, and the first places; can be merged."""

    n_labels: int = 0
    n_samples: int = 0
    places: tuple[str, ...] = ()

    def merged(self, other: BadLabels) -> BadLabels:
        """Return the sum of both."""
        return BadLabels(
            self.n_labels + other.n_labels,
            self.n_samples + other.n_samples,
            (self.places + other.places)[:MOST_PLACES],
        )

    def warn(self, rules: Constraints) -> None:
        """Warn of bad labels, and say whether they were repaired or dropped."""
        if not self.n_labels:
            return
        done, other = (
            "were repaired as the CoNLL scorer reads them",
            "'drop' leaves the samples out",
        )
        if rules.bad_labels == "drop":
            done, other = "made their samples be left out", "'repair' reads them as the scorer does"
        warn(
            f"y: {self.n_labels} labels in {self.n_samples} samples break constraints="
            f"{rules.scheme!r} and {done}; the first: {'; '.join(self.places)}. "
            f"Constraints({rules.scheme!r}, bad_labels='error') refuses such labels, {other}.",
            UserWarning,
        )


NONE_BAD = BadLabels()


@dataclass(frozen=True, eq=False)
class CleanCorpus(Corpus):
    """A corpus whose labels keep the rules."""

    bad_labels: BadLabels = NONE_BAD


@dataclass(frozen=True)
class CleanShard:
    """A shard whose labels are cleaned when it is read."""

    shard: Shard
    rules: Constraints

    @property
    def name(self) -> str:
        """Name of the shard."""
        return self.shard.name

    @property
    def format(self) -> Format | None:
        """Format of the file; None if the shard is no file."""
        return getattr(self.shard, "format", None)

    def read(self) -> Corpus:
        """Read and clean the samples; returns a `CleanCorpus`."""
        return clean_corpus(self.shard.read(), self.rules)


def clean_shards(data: ShardedData, rules: Constraints) -> ShardedData:
    """Return the data as shards that are cleaned where they are read."""
    shards = [CleanShard(shard, rules) for shard in data]
    return ShardedData(shards, min_count=data.min_count, hashed=data.hashed)


def clean_corpus(corpus: Corpus, rules: Constraints) -> CleanCorpus:
    """Repair or drop the labels of a corpus that break the rules."""
    lines = corpus.lines

    def place(sample: int) -> str:
        return (
            f"{corpus.name}, line {lines[sample]}" if lines else f"{corpus.name}, sample {sample}"
        )

    values = {field.name: getattr(corpus, field.name) for field in fields(Corpus)}
    columns = ["X", "y", "sample_weight", "node_weight", "captions", "groups"]
    columns += ["lines"] if lines else []
    *parts, bad = clean_samples(*(values[name] for name in columns), rules=rules, place=place)
    return CleanCorpus(**{**values, **dict(zip(columns, parts, strict=True))}, bad_labels=bad)


def clean_samples(
    X: Any, y: Any, *more: Any, rules: Constraints, place: Any = "sample {}".format
) -> tuple[Any, ...]:
    """Repair or drop labels; return (X, y, *more, `BadLabels`).

    ``more`` are further lists with an item per sample, or None. Labels that are no lists, one per
    sample, stay as they are; `fit` refuses them with a better message.
    """
    arrays = _arrays(X, y)
    if arrays is None:
        return X, y, *more, NONE_BAD
    assert rules.scheme is not None  # see `Constraints.cleans_labels`
    right = repaired([_edges(sample) for sample in X], arrays, rules.scheme)
    wrong = [np.flatnonzero(old != new) for old, new in zip(arrays, right, strict=True)]
    bad = [s for s, nodes in enumerate(wrong) if len(nodes)]
    if not bad:
        return X, y, *more, NONE_BAD
    summary = BadLabels(
        sum(map(len, wrong)),
        len(bad),
        tuple(
            f"{place(s)}, node {wrong[s][0]}: {arrays[s][wrong[s][0]]}, not {right[s][wrong[s][0]]}"
            for s in bad[:MOST_PLACES]
        ),
    )
    if rules.bad_labels == "drop":
        kept = sorted(set(range(len(arrays))) - set(bad))
        return *(_taken(part, kept) for part in (X, y, *more)), summary
    labels = list(y)
    for s in bad:
        labels[s] = right[s].tolist() if isinstance(y[s], list | tuple) else right[s]
    return X, labels, *more, summary


def repaired(
    edges: Sequence[np.ndarray | None], labels: Sequence[np.ndarray], scheme: str
) -> list[np.ndarray]:
    """Return labels that keep ``scheme`` and mark the spans that `span_scores` reads.

    ``edges`` (m, 2) of a sample lead from a node to the next; None stands for a chain.
    """
    classes = sorted_labels(labels)
    code = np.concatenate([encode_labels(array, classes, "y") for array in labels])
    parts = [tag_parts(label, scheme) for label in classes.tolist()]
    tag = np.array([letter for letter, _ in parts])[code]
    kind = np.unique([name for _, name in parts], return_inverse=True)[1][code]
    first, second = _all_edges(edges, [len(array) for array in labels])
    goes_on = np.isin(tag[first], ("B", "I")) & np.isin(tag[second], ("I", "E"))
    goes_on &= kind[first] == kind[second]
    continues = np.zeros(len(code), bool)
    continues[second] = True
    # A node may have several edges into it; all of them must continue the span.
    continues[second[~goes_on]] = False
    continued = np.zeros(len(code), bool)
    continued[first[goes_on & continues[second]]] = True
    right = np.where(continues, "I", "B")
    if scheme == "BIOES":
        right = np.where(continued, right, np.where(continues, "E", "S"))
    wrong = np.flatnonzero((tag != "O") & (tag != right))
    offsets = np.cumsum([0, *map(len, labels)])
    cleaned = list(labels)
    for s in np.unique(np.searchsorted(offsets, wrong, side="right") - 1).tolist():
        span = range(offsets[s], offsets[s + 1])
        cleaned[s] = as_labels(
            ["O" if tag[i] == "O" else f"{right[i]}-{parts[code[i]][1]}" for i in span]
        )
    return cleaned


def _all_edges(
    edges: Sequence[np.ndarray | None], sizes: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """(M,) first and (M,) second nodes of the edges of all samples."""
    start, pairs = 0, [np.empty((0, 2), np.intp)]
    for some, size in zip(edges, sizes, strict=True):
        nodes = np.arange(start, start + size)
        pairs.append(np.stack([nodes[:-1], nodes[1:]], axis=1) if some is None else nodes[some])
        start += size
    return tuple(np.concatenate(pairs).T)


def _edges(sample: Any) -> np.ndarray | None:
    return sample.edges if isinstance(sample, Graph) else None


def _arrays(X: Any, y: Any) -> list[np.ndarray] | None:
    """Return the label array of each sample; None if `fit` would refuse them.

    Labels that are known in part stay as they are: "O" everywhere, which breaks no rule, stands
    for them.
    """
    if not length(y) or length(X) != length(y):
        return None
    try:
        # A str is a sequence too, of its letters: left out, it makes the lengths differ below.
        arrays = [
            as_labels(["O"] * len(labels) if split_options(labels)[1] else labels)
            for labels in y
            if not isinstance(labels, str)
        ]
    except InvalidInputError:
        return None
    fits = len(arrays) == len(y) and all(
        x.n_nodes == len(labels)
        for x, labels in zip(X, arrays, strict=True)
        if isinstance(x, Graph)
    )
    return arrays if fits else None


def _taken(values: Any, kept: Sequence[int]) -> Any:
    if values is None or length(values) is None:
        return values
    if isinstance(values, np.ndarray):
        return values[list(kept)]
    return [values[s] for s in kept]
