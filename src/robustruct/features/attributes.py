"""Attributes of nodes (or edges): dicts, lists of strings and strings as sparse entries.

The conventions are those of python-crfsuite: ``{"w": "a"}`` is the attribute ``w:a`` of value 1,
``{"w": 2.5}`` the attribute ``w`` of value 2.5, True and False are 1 and 0, a nested dict, list or
set prefixes its attributes with its key, and a list of strings holds attributes of value 1. A bare
string is one attribute (python-crfsuite takes each of its letters for one).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, compress, groupby, repeat
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from robustruct.core.encoding import first_seen
from robustruct.errors import InvalidInputError, shown
from robustruct.features.names import CodedAttributes, PackedNames, Pairs

Entries = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Raw sparse rows: indptr (n+1,) intp, columns int32 (-1: unknown), values float64."""


_TEXT = (str, bytes)
_NUMBER = (float, int, Real, np.bool_)  # common types first: isinstance(x, Real) alone is slow


_AT_ONCE = 5000
"""Items whose names are looked up together: their text stays in the cache."""


class Lookup(NamedTuple):
    """Functions from names to columns (n,): of strings, of key-value pairs, of packed names."""

    strings: Callable[[list[str]], np.ndarray]
    pairs: Callable[[Pairs], np.ndarray]
    packed: Callable[[PackedNames, np.ndarray], np.ndarray]


def attribute_entries(blocks: list[Any], columns_of: Lookup, kind: str) -> Entries:
    """Return columns and values of all items of all blocks, in order.

    ``kind``, "node" or "edge", is the word for an item in messages.
    """
    if all(type(block) is CodedAttributes for block in blocks):
        return _entries_of_codes(blocks, columns_of)
    items = list(chain.from_iterable(blocks))
    kinds = set(map(type, items))
    try:
        if all(issubclass(kind, dict) for kind in kinds):
            return _entries_of_dicts(items, columns_of)
        if kinds <= {list, tuple}:
            return _entries_of_strings(items, columns_of)
    except (TypeError, OverflowError):
        pass  # values other than strings and numbers: the general function handles or refuses them
    return _entries_of_anything(blocks, columns_of, kind)


def _entries_of_codes(blocks: list[CodedAttributes], columns_of: Lookup) -> Entries:
    """Return entries of coded attributes; each name is looked up once, by first appearance."""
    lengths, columns = [np.empty(0, np.intp)], [np.empty(0, np.int32)]
    for _, group in groupby(blocks, lambda block: id(block.names)):
        members = list(group)
        names = members[0].names
        # Samples of one template have equally many attributes per node: whole arrays are joined.
        for width, same in groupby(members, lambda block: block.codes.shape[1]):
            codes = np.concatenate([block.codes for block in same])
            lengths.append(np.full(len(codes), width))
            columns.append(_columns_of_names(names, codes.ravel(), columns_of))
    counts, column_of = np.concatenate(lengths), np.concatenate(columns)
    return _indptr(counts), column_of, np.ones(len(column_of))


def _columns_of_names(names: PackedNames, codes: np.ndarray, columns_of: Lookup) -> np.ndarray:
    order = np.empty(len(names), np.intp)
    used = order[: first_seen(len(codes), codes, len(names), order)]
    column_of = np.empty(len(names), np.int32)
    column_of[used] = columns_of.packed(names, used)
    return column_of[codes]


def _entries_of_strings(items: list[Any], columns_of: Lookup) -> Entries:
    indptr = _indptr(np.fromiter(map(len, items), np.intp, len(items)))
    columns = np.empty(indptr[-1], np.int32)
    for first in range(0, len(items), _AT_ONCE):
        last = min(first + _AT_ONCE, len(items))
        names = list(chain.from_iterable(items[first:last]))
        columns[indptr[first] : indptr[last]] = columns_of.strings(names)
    return indptr, columns, np.ones(len(columns))


def _entries_of_dicts(items: list[dict[str, Any]], columns_of: Lookup) -> Entries:
    indptr = _indptr(np.fromiter(map(len, items), np.intp, len(items)))
    columns, numbers = np.empty(indptr[-1], np.int32), np.ones(indptr[-1])
    for first in range(0, len(items), _AT_ONCE):
        some = items[first : first + _AT_ONCE]
        entries = slice(indptr[first], indptr[first + len(some)])
        pairs, has_number, values = _pairs(some)
        columns[entries] = columns_of.pairs(pairs)
        numbers[entries][has_number] = values
    return indptr, columns, numbers


def _pairs(items: list[dict[str, Any]]) -> tuple[Pairs, np.ndarray, np.ndarray]:
    """Return keys and texts of flat dicts, the mask of entries with a number, and the numbers."""
    keys = _Numbers()
    n = sum(map(len, items))
    key_of = np.fromiter(map(keys.__getitem__, chain.from_iterable(items)), np.int32, n)
    values = list(chain.from_iterable(map(dict.values, items)))
    has_text = np.fromiter(map(isinstance, values, repeat(str)), np.bool_, len(values))
    others = list(compress(values, (~has_text).tolist()))
    if not all(issubclass(kind, _NUMBER) for kind in set(map(type, others))):
        raise TypeError
    texts = list(compress(values, has_text.tolist())) if others else values
    numbers = np.fromiter(map(float, others), np.float64, len(others))
    return Pairs(list(keys), key_of, has_text, texts), ~has_text, numbers


class _Numbers(dict[str, int]):
    """Numbers keys in the order of first appearance."""

    def __missing__(self, key: str) -> int:
        if not isinstance(key, str):
            raise TypeError
        number = self[key] = len(self)
        return number


def _entries_of_anything(blocks: list[Any], columns_of: Lookup, kind: str) -> Entries:
    lengths: list[int] = []
    names: list[str] = []
    values = array("d")
    for b, block in enumerate(blocks):
        for i, item in enumerate(block):
            before = len(names)
            try:
                for name, value in attributes(item):
                    names.append(name)
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
            lengths.append(len(names) - before)
    return _indptr(lengths), columns_of.strings(names), np.array(values, np.float64)


def attributes(item: Any) -> Iterator[tuple[str, float]]:
    """Yield name and value of each attribute of one item.

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
        # The order of a set of strings differs between processes; that of columns must not.
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


def _indptr(lengths: np.ndarray | list[int]) -> np.ndarray:
    indptr = np.zeros(len(lengths) + 1, np.intp)
    np.cumsum(lengths, out=indptr[1:])
    return indptr
