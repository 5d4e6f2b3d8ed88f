"""Data in shards, which no single process need hold all of.

A shard is a recipe, small enough to be sent to a worker. The worker reads the samples itself, and
another worker reads them again if it has to take over.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Protocol, overload

import numpy as np

from robustruct.arrays import as_array, as_csr, as_floats, is_sparse, length
from robustruct.errors import FileFormatError, InvalidInputError, MissingDataError, shown
from robustruct.features.columns import HashedColumns
from robustruct.formats.conll import HEAD
from robustruct.formats.corpus import Corpus, read_corpus
from robustruct.formats.json_lines import JsonLinesFormat
from robustruct.formats.output import checked_path
from robustruct.formats.recognise import recognised
from robustruct.formats.sample import Format
from robustruct.formats.text import Lines, Path
from robustruct.labels import as_labels


class Shard(Protocol):
    """Some samples of a data set, read where they are needed."""

    @property
    def name(self) -> str:
        """Name in messages and of output files."""

    def read(self) -> Corpus:
        """Read the samples, possibly none. Labels of text formats stay text."""


@dataclass(frozen=True)
class FileShard:
    """A file of samples."""

    path: str
    format: Format
    encoding: str

    @property
    def name(self) -> str:
        """Path of the file."""
        return self.path

    def read(self) -> Corpus:
        """Read the file; it may be empty."""
        return read_corpus(self.path, self.format, encoding=self.encoding, part=True)


@dataclass(frozen=True, eq=False)
class SampleShard:
    """Samples in memory."""

    corpus: Corpus

    @property
    def name(self) -> str:
        """Number of the shard among all."""
        return self.corpus.name

    def read(self) -> Corpus:
        """Return the samples."""
        return self.corpus


class ShardedData(Sequence[Shard]):
    """Samples in shards, for training, prediction and evaluation in several places.

    Made by `from_files` or `from_samples`.

    Parameters
    ----------
    shards : iterable of Shard
    min_count : int
        Attributes that occur fewer times in all shards together get no weight in training.
    hashed : int, optional
        Number of columns to which attributes of nodes are hashed by name. There is no vocabulary
        then, which saves memory and traffic; attributes that collide in a column share its weights,
        and the model does not know their names.
    """

    def __init__(
        self, shards: Iterable[Shard], *, min_count: int = 1, hashed: int | None = None
    ) -> None:
        self.shards = tuple(shards)
        if not isinstance(min_count, int | np.integer) or min_count < 1:
            raise InvalidInputError(f"min_count={min_count!r}; it is a whole number, 1 or more.")
        if hashed is not None:
            HashedColumns(hashed)  # checks the number
            if min_count > 1:
                raise InvalidInputError(
                    f"min_count={min_count} needs the names of attributes, which hashed={hashed} "
                    "does not keep; choose one of the two."
                )
        self.min_count = min_count
        self.hashed = hashed

    @classmethod
    def from_files(
        cls,
        patterns: Path | Sequence[Path],
        *,
        form: Format | str | None = None,
        encoding: str = "utf-8",
        min_count: int = 1,
        hashed: int | None = None,
        **columns: Any,
    ) -> ShardedData:
        """Make a shard of each file; files are sorted by name.

        Parameters
        ----------
        patterns : str, path or list of these
            Files, or patterns such as ``"data/part-*.jsonl.gz"``; ``**`` stands for any folders.
            Workers on other machines must find the files under the same names.
        form : Format or str, optional
            The format of all files or its name ("conll", "crfsuite", "json-lines"); by default it
            is detected on the first that is not empty. Parquet files have a row for each object
            of JSON lines.
        encoding : str
        min_count, hashed
            As for the class.
        **columns
            Options of `ConllFormat.found`, as for `read_corpus`.
        """
        paths = _matching(patterns)
        if not isinstance(form, Format):
            form = _detected_format(paths, form, encoding, columns)
        shards = [FileShard(path, form, encoding) for path in paths]
        return cls(shards, min_count=min_count, hashed=hashed)

    @classmethod
    def from_samples(
        cls,
        X: Any,
        y: Any,
        n_shards: int,
        *,
        sample_weight: Any = None,
        node_weight: Any = None,
        random_state: int = 0,
        min_count: int = 1,
        hashed: int | None = None,
    ) -> ShardedData:
        """Split samples in memory into shards at random; equal seeds make equal shards.

        Parameters
        ----------
        X, y, sample_weight, node_weight
            As for ``fit``.
        n_shards : int
            With more shards than samples some are empty.
        random_state : int
        min_count, hashed
            As for the class.
        """
        if not isinstance(n_shards, int | np.integer) or n_shards < 1:
            raise InvalidInputError(f"n_shards={n_shards!r}; it is a whole number, 1 or more.")
        if y is None:
            raise InvalidInputError("y is missing; training needs the labels of every node.")
        X, y, node_weight = _listed(X, y, node_weight)
        n = len(X)
        for field, values in (
            ("y", y),
            ("sample_weight", sample_weight),
            ("node_weight", node_weight),
        ):
            if values is None:
                continue
            n_items = length(values)
            if n_items is None or isinstance(values, Mapping | Set):
                raise InvalidInputError(
                    f"{field} is {shown(values)}; give a list or array with an item per sample."
                )
            if n_items != n:
                raise InvalidInputError(f"X has {n} samples but {field} has {n_items} items.")
        weights = None if sample_weight is None else as_floats(sample_weight, "sample_weight")
        # At random: samples often come sorted, and shards should be alike.
        order = np.random.default_rng(random_state).permutation(n)
        shards = []
        for number, dealt in enumerate(np.array_split(order, n_shards)):
            # Sorted, so that samples of a shard keep the user's order.
            chosen = np.sort(dealt)
            corpus = Corpus(
                [X[i] for i in chosen],
                [y[i] for i in chosen],
                None if weights is None else weights[chosen],
                None if node_weight is None else [node_weight[i] for i in chosen],
                [],
                JsonLinesFormat(),
                name=f"shard {number}",
            )
            shards.append(SampleShard(corpus))
        return cls(shards, min_count=min_count, hashed=hashed)

    @property
    def format(self) -> Format | None:
        """Format of all shards; None unless they are files of one format."""
        formats = [getattr(shard, "format", None) for shard in self]
        first = formats[0] if formats else None
        return first if all(form == first for form in formats) else None

    def __len__(self) -> int:
        return len(self.shards)

    def __iter__(self) -> Iterator[Shard]:
        return iter(self.shards)

    @overload
    def __getitem__(self, item: int) -> Shard: ...

    @overload
    def __getitem__(self, item: slice) -> ShardedData: ...

    def __getitem__(self, item: int | slice) -> Shard | ShardedData:
        if isinstance(item, slice):
            return ShardedData(self.shards[item], min_count=self.min_count, hashed=self.hashed)
        return self.shards[item]

    def __repr__(self) -> str:
        return f"ShardedData({len(self)} shards)"


def _matching(patterns: Path | Sequence[Path]) -> list[str]:
    """Return the files that match, sorted by name, each once."""
    if isinstance(patterns, str | os.PathLike):
        patterns = [patterns]
    listed = [checked_path(pattern) for pattern in patterns]
    if not listed:
        raise InvalidInputError("no file is named; give a file, a pattern or a list of them.")
    matches: set[str] = set()
    for pattern in listed:
        # An existing file is taken by its name even if that looks like a pattern.
        names = [pattern] if os.path.exists(pattern) else glob.glob(pattern, recursive=True)
        files = {os.path.abspath(name) for name in names if os.path.isfile(name)}
        if not files:
            raise MissingDataError(
                f"no file matches {pattern!r} (looked for in {os.getcwd()}); a pattern such as "
                "'folder/part-*' names files, not folders."
            )
        matches |= files
    return sorted(matches)


def _detected_format(
    paths: Sequence[str], name: str | None, encoding: str, columns: dict[str, Any]
) -> Format:
    for path in paths:
        with Lines(path, encoding) as lines:
            if any(line.strip() for line in lines.head(HEAD)):
                return recognised(lines, name, **columns)
    raise FileFormatError(paths[0], None, f"the file is empty, as are all {len(paths)} files.")


def _listed(X: Any, y: Any, node_weight: Any) -> tuple[Any, Any, Any]:
    """Convert to lists with an entry per sample; rows of a 2-D array are samples of one node."""
    rows: Any = X
    if is_sparse(X):
        rows = as_csr(X, "X")
    elif hasattr(X, "__array__") and np.ndim(X) > 1:
        rows = as_array(X, "X")
    else:
        try:
            return list(X), y, node_weight
        except TypeError:
            raise InvalidInputError(
                f"X is a {type(X).__name__}; expected a list of samples or a 2-D array."
            ) from None
    labels, n = as_labels(y), rows.shape[0]
    weights = None if node_weight is None else as_floats(node_weight, "node_weight").reshape(-1, 1)
    return (
        [rows[i : i + 1] for i in range(n)],
        [labels[i : i + 1] for i in range(len(labels))],
        None if weights is None else list(weights),
    )
