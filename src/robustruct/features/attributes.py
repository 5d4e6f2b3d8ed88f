"""Attributes of nodes (or edges): dicts, lists of strings and strings, as columns and values.

The conventions are those of python-crfsuite: ``{"w": "a"}`` is the attribute ``w:a`` of value 1,
``{"w": 2.5}`` the attribute ``w`` of value 2.5, True and False are 1 and 0, a nested dict, list or
set prefixes its attributes with its key, and a list of strings holds attributes of value 1. A bare
string is one attribute (python-crfsuite takes each of its letters for one).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, chain, groupby
from numbers import Real
from operator import getitem
from typing import Any
from zlib import crc32

import numpy as np

from robustruct.errors import InvalidInputError, shown
from robustruct.features.coded import CodedAttributes

Entries = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Raw sparse rows: indptr (n+1,) intp, columns int32 (-1: unknown), values float64."""


_TEXT = (str, bytes)
_NUMBER = (float, int, Real, np.bool_)  # the usual ones first: Real alone is slow to ask for


class GrowingVocabulary(dict[str, int]):
    """Name to column; a new name gets the next column."""

    def __missing__(self, name: str) -> int:
        if not isinstance(name, str):
            raise TypeError
        column = self[str(name)] = len(self)
        return column


class FixedVocabulary(dict[str, int]):
    """Name to column; -1 for a name that was not seen in training."""

    def __missing__(self, name: str) -> int:
        if not isinstance(name, str):
            raise TypeError
        return -1


class HashedVocabulary:
    """Name to column by a hash of the name that is the same in every process and release."""

    def __init__(self, width: int) -> None:
        self.width = width

    def __getitem__(self, name: str) -> int:
        if not isinstance(name, str):
            raise TypeError
        return crc32(name.encode("utf-8", "surrogatepass")) % self.width


Vocabulary = GrowingVocabulary | FixedVocabulary | HashedVocabulary


def attribute_entries(blocks: list[Any], vocabulary: Vocabulary, kind: str) -> Entries:
    """Columns and values of all items of all blocks, in order.

    ``kind`` is what messages call an item: "node" or "edge".
    """
    if all(type(block) is CodedAttributes for block in blocks):
        return _entries_of_codes(blocks, vocabulary)
    items = list(chain.from_iterable(blocks))
    kinds = set(map(type, items))
    try:
        if all(issubclass(kind, dict) for kind in kinds):
            return _entries_of_dicts(items, vocabulary)
        if kinds <= {list, tuple}:
            return _entries_of_strings(items, vocabulary)
    except (TypeError, OverflowError):
        pass  # something else than strings and numbers inside: take the road that knows them all
    return _entries_of_anything(blocks, vocabulary, kind)


def _entries_of_codes(blocks: list[CodedAttributes], vocabulary: Vocabulary) -> Entries:
    """Every name that occurs is looked up once, in the order of first appearance."""
    lengths, columns = [np.empty(0, np.intp)], [np.empty(0, np.int32)]
    for _, group in groupby(blocks, lambda block: id(block.names)):
        members = list(group)
        names = members[0].names
        for width, same in groupby(members, lambda block: block.codes.shape[1]):
            codes = np.concatenate([block.codes for block in same])
            lengths.append(np.full(len(codes), width))
            columns.append(_columns_of_names(names, codes.ravel(), vocabulary))
    counts, found = np.concatenate(lengths), np.concatenate(columns)
    return _indptr(counts, len(counts)), found, np.ones(len(found))


def _columns_of_names(names: list[str], codes: np.ndarray, vocabulary: Vocabulary) -> np.ndarray:
    first = np.full(len(names), len(codes))
    # Assigned from the last to the first, so that the first appearance stays.
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    used = np.flatnonzero(first < len(codes))
    used = used[np.argsort(first[used])]
    column_of = np.empty(len(names), np.int32)
    looked_up = map(vocabulary.__getitem__, [names[code] for code in used.tolist()])
    column_of[used] = np.fromiter(looked_up, np.int32, len(used))
    return column_of[codes]


def _entries_of_strings(items: list[Any], vocabulary: Vocabulary) -> Entries:
    indptr = _indptr(map(len, items), len(items))
    names = chain.from_iterable(items)
    columns = np.fromiter(map(vocabulary.__getitem__, names), np.int32, indptr[-1])
    return indptr, columns, np.ones(len(columns))


def _entries_of_dicts(items: list[dict[str, Any]], vocabulary: Vocabulary) -> Entries:
    indptr = _indptr(map(len, items), len(items))
    keys = _Keys(vocabulary)
    per_key = map(keys.__getitem__, chain.from_iterable(items))
    values = chain.from_iterable(map(dict.values, items))
    which = np.fromiter(map(getitem, per_key, values), np.intp, indptr[-1])
    columns = np.array(keys.columns, np.int32)
    return indptr, columns[which], np.array(keys.numbers, np.float64)[which]


class _Keys(dict[str, "_Values"]):
    """Key of a flat dict to its values, and these to a position in ``columns`` and ``numbers``.

    What recurs is met once: its name is put together and looked up once.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.columns = array("i")
        self.numbers = array("d")

    def __missing__(self, key: str) -> _Values:
        if not isinstance(key, str):
            raise TypeError
        self[key] = _Values(key, self)
        return self[key]


class _Values(dict[Any, int]):
    def __init__(self, key: str, keys: _Keys) -> None:
        super().__init__()
        self.key = key
        self.vocabulary, self.columns, self.numbers = keys.vocabulary, keys.columns, keys.numbers

    def __missing__(self, value: Any) -> int:
        position = len(self.columns)
        if isinstance(value, str):
            self.columns.append(self.vocabulary[f"{self.key}:{value}"])
            self.numbers.append(1.0)
            self[value] = position
        elif isinstance(value, _NUMBER):
            self.numbers.append(float(value))
            self.columns.append(self.vocabulary[self.key])
            if value in (0, 1):  # other numbers may all differ and would fill the memory
                self[value] = position
        else:
            raise TypeError
        return position


def _entries_of_anything(blocks: list[Any], vocabulary: Vocabulary, kind: str) -> Entries:
    lengths, columns, values = [], array("i"), array("d")
    for b, block in enumerate(blocks):
        for i, item in enumerate(block):
            before = len(columns)
            try:
                for name, value in attributes(item):
                    columns.append(vocabulary[name])
                    values.append(value)
            except InvalidInputError as error:
                place, node = f"sample {b}, {kind} {i}", i if kind == "node" else None
                raise error.at(place, sample=b, node=node, field="X") from None
            except RecursionError:
                raise InvalidInputError(
                    f"sample {b}, {kind} {i}: dicts or lists are nested too deeply; name "
                    "attributes flatly.",
                    sample=b,
                    node=i if kind == "node" else None,
                    field="X",
                ) from None
            lengths.append(len(columns) - before)
    return (
        _indptr(lengths, len(lengths)),
        np.array(columns, np.int32),
        np.array(values, np.float64),
    )


def attributes(item: Any) -> Iterator[tuple[str, float]]:
    """Name and value of each attribute of one item.

    >>> dict(attributes({"w": "a", "len": 2, "title": True, "near": {"-1": ["the", "a"]}}))
    {'w:a': 1.0, 'len': 2.0, 'title': 1.0, 'near:-1:the': 1.0, 'near:-1:a': 1.0}
    """
    if isinstance(item, _TEXT):
        yield _text(item), 1.0
    elif isinstance(item, Mapping):
        for key, value in item.items():
            name = _text(key)
            if isinstance(value, _TEXT):
                yield f"{name}:{_text(value)}", 1.0
            elif isinstance(value, _NUMBER):
                yield name, _number(name, value)
            elif isinstance(value, Mapping | list | tuple | set | frozenset):
                for inner, number in attributes(value):
                    yield f"{name}:{inner}", number
            else:
                raise InvalidInputError(
                    f"the attribute {shown(name)} is {_described(value)}; a value is a string, a "
                    "finite "
                    "number, a bool, or a dict, list or set of these. Leave the key out for "
                    "'no value'."
                )
    elif isinstance(item, list | tuple):
        for name in item:
            yield _text(name), 1.0
    elif isinstance(item, set | frozenset):
        # Sets of strings have another order in every process: sort, so that columns stay the same.
        for name in sorted(map(_text, item)):
            yield name, 1.0
    else:
        raise InvalidInputError(
            f"it is {_described(item)}; expected a dict, a list of strings or a string."
        )


def _text(name: Any) -> str:
    if isinstance(name, str):
        return name
    if isinstance(name, bytes):
        try:
            return name.decode()
        except UnicodeDecodeError:
            raise InvalidInputError(
                f"the bytes {shown(name)} are not UTF-8; use strings."
            ) from None
    raise InvalidInputError(
        f"the attribute name {shown(name)} is {_described(name)}; expected a string."
    )


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        raise InvalidInputError(f"the value of {shown(name)} is too large for a float.") from None


def _described(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _indptr(lengths: Iterable[int], n: int) -> np.ndarray:
    return np.fromiter(accumulate(lengths, initial=0), np.intp, n + 1)
