"""Columns of a feature matrix, and the encoding of samples as its rows.

Features come in blocks, one per sample: a dense array, a sparse matrix, or a list of attributes.
All blocks of a data set are of one kind; dense and sparse blocks share numeric columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from robustruct._lazy import cached_property
from robustruct.arrays import LARGEST, all_sound_csr, as_array, as_csr, is_sparse
from robustruct.errors import InvalidInputError, shown
from robustruct.features.attributes import (
    Entries,
    Lookup,
    attribute_entries,
)
from robustruct.features.matrix import FeatureMatrix, SparseRows
from robustruct.features.names import CodedAttributes, HashedVocabulary, PackedNames, Vocabulary
from robustruct.graphs import n_rows

DENSE = "a dense array"
SPARSE = "a sparse matrix"
ATTRIBUTES = "dicts or lists of strings"

HASH = "crc32"  # the same in every process and release, and in the standard library
MOST_HASHED = 2**30  # columns are int32, with one more for the bias


@dataclass(frozen=True)
class NumericColumns:
    """Columns 0 .. width-1 of dense or sparse input."""

    width: int
    given: tuple[str, ...] = ()
    """Names of columns in the data frames of training; empty for arrays."""

    def __len__(self) -> int:
        return self.width

    @property
    def names(self) -> list[str]:
        return list(self.given) or [f"x{i}" for i in range(self.width)]

    def state(self) -> dict[str, Any]:
        """For `columns_from_state`."""
        named = {"names": PackedNames.of(self.given)} if self.given else {}
        return {"kind": "numeric", "width": self.width, **named}


@dataclass(frozen=True, eq=False)
class AttributeColumns:
    """One column per attribute, in the order of first appearance in the training samples."""

    vocabulary: Vocabulary

    def __len__(self) -> int:
        return len(self.vocabulary)

    @cached_property
    def names(self) -> list[str]:
        return self.vocabulary.packed().tolist()

    def state(self) -> dict[str, Any]:
        """For `columns_from_state`."""
        return {"kind": "attributes", "names": self.vocabulary.packed()}


@dataclass(frozen=True)
class HashedColumns:
    """A fixed number of columns, to which attributes are hashed by name; no name is stored.

    Attributes that collide in a column share its weights.
    """

    width: int

    def __post_init__(self) -> None:
        whole = isinstance(self.width, int | np.integer)
        if not whole or not 1 <= self.width <= MOST_HASHED:
            raise InvalidInputError(
                f"hashed={shown(self.width)}: the number of columns lies between 1 and "
                f"{MOST_HASHED}; "
                "2**20 is usual."
            )

    def __len__(self) -> int:
        return self.width

    @property
    def names(self) -> list[str]:
        return [f"hash:{i}" for i in range(self.width)]

    @property
    def vocabulary(self) -> HashedVocabulary:
        """Maps names to columns."""
        return HashedVocabulary(self.width)

    def state(self) -> dict[str, Any]:
        """For `columns_from_state`."""
        return {"kind": "hashed", "hash": HASH, "width": self.width}


Columns = NumericColumns | AttributeColumns | HashedColumns


def columns_from_state(state: dict[str, Any]) -> Columns:
    """Return the columns of a ``state()``."""
    if state["kind"] == "numeric":
        names = tuple(state.get("names", ()))
        if names and len(names) != state["width"]:
            raise InvalidInputError(
                f"its features have {len(names)} names for {state['width']} columns."
            )
        return NumericColumns(int(state["width"]), names)
    if state["kind"] == "hashed":
        if state["hash"] != HASH:
            raise InvalidInputError(
                f"its attributes are hashed by {state['hash']!r}, but this robustruct knows "
                f"{HASH!r}; upgrade robustruct."
            )
        return HashedColumns(int(state["width"]))
    return AttributeColumns(Vocabulary.of(state["names"]))


@dataclass(frozen=True, eq=False)
class Blocks:
    """Features of all nodes (or of all edges), with their names in messages."""

    parts: list[Any]
    """One block per sample, or the one block of a plain 2-D array."""
    offsets: np.ndarray
    """(S+1,) sample s owns rows offsets[s] .. offsets[s+1]-1."""
    item: str
    """"node" or "edge"."""

    @property
    def n_rows(self) -> int:
        return int(self.offsets[-1])

    def name(self, part: int) -> str:
        """Return the name of a part for messages."""
        if len(self.parts) < len(self.offsets) - 1:
            return "the rows of X"
        return f"sample {part}: {self.item} features"

    def refusal(self, part: int, complaint: str) -> InvalidInputError:
        """Return the error about a part."""
        sample = part if len(self.parts) == len(self.offsets) - 1 else None
        return InvalidInputError(f"{self.name(part)} {complaint}", sample=sample, field="X")

    def refusal_of_row(self, row: int, complaint: str) -> InvalidInputError:
        """Return the error about a row."""
        sample = int(np.searchsorted(self.offsets, row, side="right")) - 1
        number = row - int(self.offsets[sample])
        return InvalidInputError(
            f"sample {sample}, {self.item} {number}: {complaint}",
            sample=sample,
            node=number if self.item == "node" else None,
            field="X",
        )

    def filled(self) -> list[tuple[int, Any]]:
        """Return the non-empty parts with their indices."""
        return [(i, part) for i, part in enumerate(self.parts) if n_rows(part)]


def fit_columns(blocks: Blocks, order: np.ndarray, constant: bool) -> tuple[Columns, FeatureMatrix]:
    """Learn the columns from training samples and encode them, rows in ``order``."""
    if common_kind(blocks) == ATTRIBUTES:
        vocabulary = Vocabulary()
        entries = _added_entries(blocks, vocabulary)
        rows = _sparse_rows(entries, len(vocabulary), blocks, order, constant)
        return AttributeColumns(vocabulary), rows
    columns = NumericColumns(_first_width(blocks), column_names(blocks))
    return columns, encode_rows(columns, blocks, order, constant)


def attribute_counts(blocks: Blocks) -> dict[str, int]:
    """Count the occurrences of each attribute, in the order of first appearance."""
    vocabulary = Vocabulary()
    columns = _added_entries(blocks, vocabulary)[1]
    counts = np.bincount(columns, minlength=len(vocabulary)).tolist()
    return dict(zip(vocabulary.packed().tolist(), counts, strict=True))


def numeric_width(blocks: Blocks) -> int:
    """Return the number of columns, which all numeric blocks must share."""
    width = _first_width(blocks)
    numeric_blocks(blocks, width, column_names(blocks))
    return width


def column_names(blocks: Blocks) -> tuple[str, ...]:
    """Return the column names of the first block if it is a data frame, else ()."""
    return _names_of(blocks.filled()[0][1])


def _names_of(part: Any) -> tuple[str, ...]:
    """Return the names of a data frame if all are distinct strings, as in scikit-learn."""
    names = tuple(getattr(part, "columns", ())) if hasattr(part, "__array__") else ()
    texts = all(isinstance(name, str) for name in names)
    return names if texts and len(set(names)) == len(names) else ()


def _first_width(blocks: Blocks) -> int:
    number, first = blocks.filled()[0]
    return int(_checked_block(blocks, number, first).shape[1])


def encode_rows(
    columns: Columns, blocks: Blocks, order: np.ndarray, constant: bool
) -> FeatureMatrix:
    """Encode rows ``order`` of the blocks; with ``constant``, append a column of ones."""
    kind = common_kind(blocks)
    if isinstance(columns, NumericColumns) == (kind == ATTRIBUTES):
        wanted = "numeric columns" if isinstance(columns, NumericColumns) else ATTRIBUTES
        number = blocks.filled()[0][0]
        raise blocks.refusal(
            number,
            f"are {kind}, but the model was trained on {wanted}; use the same kind of features as "
            "in training.",
        )
    if not isinstance(columns, NumericColumns):
        vocabulary = columns.vocabulary
        lookup = Lookup(vocabulary.find, vocabulary.find_pairs, vocabulary.find_packed)
        entries = attribute_entries(blocks.parts, lookup, blocks.item)
        return _sparse_rows(entries, len(columns), blocks, order, constant)
    if kind == SPARSE:
        entries = _sparse_entries(blocks, columns.width)
        return _sparse_rows(entries, columns.width, blocks, order, constant)
    return _dense_rows(blocks, columns, order, constant)


def common_kind(blocks: Blocks) -> str:
    """Return the kind of all blocks; an error names the first sample of another kind."""
    filled = blocks.filled()
    if not filled:
        return DENSE
    kind = _kind(blocks, *filled[0])
    for number, part in filled[1:]:
        other = _kind(blocks, number, part)
        if other != kind:
            raise blocks.refusal(
                number,
                f"are {other}, but those of sample {filled[0][0]} are {kind}; use one kind for the "
                "whole data set.",
            )
    return kind


def _kind(blocks: Blocks, number: int, part: Any) -> str:
    if is_sparse(part):
        return SPARSE
    if hasattr(part, "__array__"):
        return DENSE
    if isinstance(part, CodedAttributes):
        return ATTRIBUTES
    if not isinstance(part, list | tuple):
        raise blocks.refusal(
            number,
            f"are a {type(part).__name__}; expected a 2-D array, a scipy sparse matrix, or a list "
            "with one dict or list of strings each.",
        )
    # A list without entries could be either kind: the first item that has some decides.
    for item in part:
        if isinstance(item, Mapping | str | bytes | set | frozenset):
            return ATTRIBUTES
        if not isinstance(item, list | tuple):
            return ATTRIBUTES if item is None else DENSE
        if item:
            return ATTRIBUTES if isinstance(item[0], str | bytes) else DENSE
    return ATTRIBUTES


def _added_entries(blocks: Blocks, vocabulary: Vocabulary) -> Entries:
    lookup = Lookup(vocabulary.add, vocabulary.add_pairs, vocabulary.add_packed)
    return attribute_entries(blocks.parts, lookup, blocks.item)


def _checked_block(blocks: Blocks, number: int, part: Any) -> Any:
    """Check that a block has two dimensions and real numbers; return it dense or as CSR."""
    name = blocks.name(number)
    try:
        block: Any = as_csr(part, name) if is_sparse(part) else as_array(part, name)
    except InvalidInputError as error:
        error.sample, error.field = blocks.refusal(number, "").sample, "X"
        raise
    if block.ndim != 2:
        raise blocks.refusal(
            number,
            f"have shape {block.shape}; expected two dimensions, one row of numbers each. A sample "
            "with edges is a Graph(node_features, edges).",
        )
    if block.dtype.kind not in "fiub":
        raise blocks.refusal(
            number,
            f"hold values of type {block.dtype}; expected real numbers. Give text as dicts or "
            "lists of strings.",
        )
    return block


def numeric_blocks(blocks: Blocks, width: int, names: tuple[str, ...] = ()) -> list[Any]:
    """Return all non-empty blocks, checked: arrays or CSR matrices of ``width`` columns.

    If ``names`` are known, data frames must have the same names in the same order.
    """
    parts = [part for _, part in blocks.filled()]
    if all_sound_csr(parts, width):
        return parts
    checked = []  # not all are sound CSR: convert each, or name the one at fault
    for number, part in blocks.filled():
        block = _checked_block(blocks, number, part)
        if block.shape[1] != width:
            raise blocks.refusal(
                number,
                f"have {block.shape[1]} columns; expected {width} as in the first training sample.",
            )
        theirs = _names_of(part)
        if names and theirs and theirs != names:
            i = next(i for i in range(width) if theirs[i] != names[i])
            raise blocks.refusal(
                number,
                f"have the column {theirs[i]!r} where training has {names[i]!r} (column {i}); give "
                "the columns of training, in their order.",
            )
        checked.append(block)
    return checked


def _dense_rows(
    blocks: Blocks, columns: NumericColumns, order: np.ndarray, constant: bool
) -> np.ndarray:
    width = columns.width
    rows = np.empty((blocks.n_rows, width + constant))
    rows[:, width:] = 1.0
    if blocks.n_rows:
        checked = numeric_blocks(blocks, width, columns.given)
        with np.errstate(over="ignore"):  # a long double may become inf, which is refused below
            np.concatenate(checked, out=rows[:, :width], casting="same_kind")
    if not _usable(rows):
        row, column = np.argwhere(~(np.abs(rows) <= LARGEST))[0]
        _refuse_value(blocks, int(row), f"feature {column}", rows[row, column])
    # Chains keep their order: no second copy of all features is made.
    return rows if np.array_equal(order, np.arange(len(rows))) else rows[order]


def _sparse_entries(blocks: Blocks, width: int) -> Entries:
    checked = numeric_blocks(blocks, width)
    lengths = np.concatenate([np.diff(block.indptr) for block in checked])
    indptr = np.zeros(len(lengths) + 1, np.intp)
    np.cumsum(lengths, out=indptr[1:])
    # Arrays of a CSR matrix may be longer than its entries.
    ends = [int(block.indptr[-1]) for block in checked]
    parts = list(zip(checked, ends, strict=True))
    with np.errstate(over="ignore"):
        return (
            indptr,
            # Safe: indices are below the width, which is checked to be a number of columns.
            np.concatenate([b.indices[:n] for b, n in parts], dtype=np.int32, casting="unsafe"),
            np.concatenate([b.data[:n] for b, n in parts], dtype=np.float64),
        )


def _sparse_rows(
    entries: Entries, width: int, blocks: Blocks, order: np.ndarray, constant: bool
) -> SparseRows:
    indptr, columns, values = entries
    if not _usable(values):
        entry = int(np.argmin(np.abs(values) <= LARGEST))
        row = int(np.searchsorted(indptr, entry, side="right")) - 1
        _refuse_value(blocks, row, "a feature", values[entry])
    return SparseRows.assemble(indptr, columns, values, width, order, constant)


def _usable(values: np.ndarray) -> bool:
    """Return whether all values are finite and their squares do not overflow."""
    return not values.size or bool(values.max() <= LARGEST and values.min() >= -LARGEST)


def _refuse_value(blocks: Blocks, row: int, feature: str, value: float) -> None:
    if np.isfinite(value):
        raise blocks.refusal_of_row(
            row,
            f"{feature} is {value:g}; the largest size of a feature is {LARGEST:g}. Scale the "
            "features.",
        )
    raise blocks.refusal_of_row(
        row,
        f"{feature} is {value}; features must be finite. Replace missing values, for example by 0 "
        "and a feature that says 'missing'.",
    )
