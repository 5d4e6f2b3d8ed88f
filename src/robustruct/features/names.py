"""Names of columns, by the hundred thousand: packed as bytes, and in a hash table.

Names are UTF-8 (lone surrogates included, as Python's strings may hold them) and become strings
only when asked for.
"""

from __future__ import annotations

import itertools
import os
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, overload
from zlib import crc32

import numpy as np

from robustruct.core.encoding import (
    names_copy,
    names_count,
    names_free,
    names_joined,
    names_new,
    names_packed,
    names_pairs,
    names_size,
)
from robustruct.errors import InvalidInputError

_NO_UTF_8 = 0xFF  # a byte that no text in UTF-8 has


class PackedNames(Sequence[str]):
    """A list of strings stored as bytes.

    Parameters
    ----------
    data : uint8 array
        Concatenated names.
    offsets : int64 array of shape (n + 1,)
        Start of each name.

    Examples
    --------
    >>> names = PackedNames.of(["w:a", "é"])
    >>> names[1], list(names), names.data.nbytes
    ('é', ['w:a', 'é'], 5)
    """

    __slots__ = ("data", "offsets")

    def __init__(self, data: np.ndarray, offsets: np.ndarray) -> None:
        self.data = data
        self.offsets = offsets

    @classmethod
    def of(cls, strings: Iterable[str]) -> PackedNames:
        """Pack strings."""
        pieces = [_encoded(string) for string in strings]
        offsets = np.zeros(len(pieces) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, pieces), np.int64, len(pieces)), out=offsets[1:])
        return cls(np.frombuffer(b"".join(pieces), np.uint8), offsets)

    @classmethod
    def checked(cls, data: np.ndarray, offsets: np.ndarray) -> PackedNames:
        """Check names from a file, which may be damaged."""
        whole = (data.dtype, offsets.dtype) == (np.uint8, np.int64)
        if not whole or data.ndim != 1 or offsets.ndim != 1:
            raise InvalidInputError("names are not packed as bytes and where each begins.")
        whole = len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == len(data)
        if not whole or (np.diff(offsets) < 0).any():
            raise InvalidInputError("the places where names begin are not in order.")
        names = cls(np.ascontiguousarray(data), np.ascontiguousarray(offsets))
        if not names.data.tobytes().isascii():
            names.tolist()  # raises if a name is no text
        return names

    @classmethod
    def joined(cls, parts: Sequence[PackedNames]) -> PackedNames:
        """Concatenate lists of names."""
        starts = np.cumsum([0, *(len(part.data) for part in parts)])
        offsets = [part.offsets[:-1] + start for part, start in zip(parts, starts, strict=False)]
        data = [np.empty(0, np.uint8), *(part.data for part in parts)]
        return cls(np.concatenate(data), np.concatenate([*offsets, starts[-1:]]))

    def tolist(self) -> list[str]:
        """Return the names as strings."""
        blob, cuts = self.data.tobytes(), self.offsets.tolist()
        if blob.isascii():  # one byte per letter: much faster
            text = blob.decode()
            return [text[first:last] for first, last in itertools.pairwise(cuts)]
        return [_decoded(blob[first:last]) for first, last in itertools.pairwise(cuts)]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, item: int) -> str: ...

    @overload
    def __getitem__(self, item: slice) -> list[str]: ...

    def __getitem__(self, item: int | slice) -> str | list[str]:
        if isinstance(item, slice):
            return [self[i] for i in range(*item.indices(len(self)))]
        number = range(len(self))[item]
        return _decoded(self.data[self.offsets[number] : self.offsets[number + 1]].tobytes())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PackedNames):
            return NotImplemented
        same = np.array_equal(self.offsets, other.offsets)
        return same and np.array_equal(self.data, other.data)

    __hash__ = None  # type: ignore[assignment]


class Pairs(NamedTuple):
    """Names "key:value", or "key" where there is no text."""

    keys: list[str]
    key_of: np.ndarray
    """(n,) int32, index of each name's key."""
    has_text: np.ndarray
    """(n,) bool, whether the name has a value that is text."""
    texts: list[str]
    """Texts of the names that have one, in order."""


class Vocabulary:
    """Maps names to columns; `add` gives a new name the next column.

    Examples
    --------
    >>> names = Vocabulary()
    >>> names.add(["b", "a", "b"]).tolist(), names.find(["a", "c"]).tolist(), len(names)
    ([0, 1, 0], [1, -1], 2)
    """

    def __init__(self) -> None:
        # A random seed, so that nobody can craft names that collide in the table.
        self.handle = names_new(int.from_bytes(os.urandom(8), "little", signed=True))
        """Hash table of the core, freed with this object."""
        self._free = weakref.finalize(self, names_free, self.handle)
        # At exit the system frees all memory, and the core may be gone.
        self._free.atexit = False

    @classmethod
    def of(cls, names: PackedNames) -> Vocabulary:
        """Return the vocabulary of distinct names; refuse duplicates."""
        vocabulary = cls()
        vocabulary.add_packed(names, np.arange(len(names)))
        if len(vocabulary) < len(names):
            columns = vocabulary.find_packed(names, np.arange(len(names)))
            again = int(np.flatnonzero(columns != np.arange(len(names)))[0])
            raise InvalidInputError(f"two columns have the name {names[again]!r:.80}.")
        return vocabulary

    def __len__(self) -> int:
        return names_count(self.handle)

    def __reduce__(self) -> tuple[Any, ...]:
        return Vocabulary.of, (self.packed(),)

    def packed(self) -> PackedNames:
        """Return the names in the order of columns."""
        data = np.empty(names_size(self.handle), np.uint8)
        offsets = np.empty(len(self) + 1, np.int64)
        names_copy(self.handle, data, offsets)
        return PackedNames(data, offsets)

    def add(self, names: list[str]) -> np.ndarray:
        """(n,) int32 columns of names; new names are added."""
        return self._joined(names, True)

    def find(self, names: list[str]) -> np.ndarray:
        """(n,) int32 columns of names, -1 for unknown ones."""
        return self._joined(names, False)

    def add_pairs(self, pairs: Pairs) -> np.ndarray:
        """As `add`, for key-value pairs."""
        return self._pairs(pairs, True)

    def find_pairs(self, pairs: Pairs) -> np.ndarray:
        """As `find`, for key-value pairs."""
        return self._pairs(pairs, False)

    def add_packed(self, names: PackedNames, which: np.ndarray) -> np.ndarray:
        """As `add`, for names[which]."""
        return self._packed(names, which, True)

    def find_packed(self, names: PackedNames, which: np.ndarray) -> np.ndarray:
        """As `find`, for names[which]."""
        return self._packed(names, which, False)

    def _joined(self, names: list[str], grow: bool) -> np.ndarray:
        text, separator = _joined_text(names)
        columns = np.empty(len(names), np.int32)
        data = np.frombuffer(text, np.uint8)
        names_joined(self.handle, data, len(text), separator, len(names), grow, columns)
        return columns

    def _pairs(self, pairs: Pairs, grow: bool) -> np.ndarray:
        keys = PackedNames.of(pairs.keys)
        text, separator = _joined_text(pairs.texts)
        values = np.frombuffer(text, np.uint8)
        columns = np.empty(len(pairs.key_of), np.int32)
        about_values = len(columns), values, len(text), separator
        names_pairs(self.handle, keys.data, keys.offsets, *pairs[1:3], *about_values, grow, columns)
        return columns

    def _packed(self, names: PackedNames, which: np.ndarray, grow: bool) -> np.ndarray:
        columns = np.empty(len(which), np.int32)
        names_packed(self.handle, names.data, names.offsets, len(which), which, grow, columns)
        return columns


class HashedVocabulary:
    """Maps names to columns by CRC-32, which is the same in every process and release."""

    def __init__(self, width: int) -> None:
        self.width = width

    def find(self, names: list[str]) -> np.ndarray:
        """(n,) int32 columns of names."""
        text, separator = _joined_text(names)
        pieces = text.split(bytes([separator])) if names else []
        return self._columns(pieces)

    def find_pairs(self, pairs: Pairs) -> np.ndarray:
        """As `find`, for key-value pairs."""
        keys, texts = pairs.keys, iter(pairs.texts)
        of_names = zip(pairs.key_of.tolist(), pairs.has_text.tolist(), strict=True)
        return self.find(
            [f"{keys[key]}:{next(texts)}" if text else keys[key] for key, text in of_names]
        )

    def find_packed(self, names: PackedNames, which: np.ndarray) -> np.ndarray:
        """As `find`, for names[which]."""
        blob, offsets = names.data.tobytes(), names.offsets.tolist()
        return self._columns([blob[offsets[i] : offsets[i + 1]] for i in which.tolist()])

    def _columns(self, names: list[bytes]) -> np.ndarray:
        hashes = np.fromiter(map(crc32, names), np.int64, len(names))
        return (hashes % self.width).astype(np.int32)


def _joined_text(names: list[str]) -> tuple[bytes, int]:
    """Join names by a separator that none of them holds; return both."""
    text = _encoded("\0".join(names))
    if text.count(b"\0") < max(len(names), 1):
        return text, 0
    return bytes([_NO_UTF_8]).join(map(_encoded, names)), _NO_UTF_8


def _encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def _decoded(name: bytes) -> str:
    return name.decode("utf-8", "surrogatepass")


class CodedAttributes(Sequence[list[str]]):
    """Attributes of one sample's nodes (or edges), as codes into a list of names.

    It is equivalent to a list of lists of strings, but takes a fraction of the time and memory:
    samples of one file share their ``names``.

    Parameters
    ----------
    names : PackedNames
        Names of attributes; a name may occur twice.
    codes : int32 array of shape (n_nodes, n_attributes)
        Names of each node, by index.

    Examples
    --------
    >>> CodedAttributes(PackedNames.of(["w:a", "w:b", "cap"]), np.array([[0, 2], [1, 2]]))[1]
    ['w:b', 'cap']
    """

    __slots__ = ("codes", "names")

    def __init__(self, names: PackedNames, codes: np.ndarray) -> None:
        self.names = names
        self.codes = codes

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, item: int) -> list[str]: ...

    @overload
    def __getitem__(self, item: slice) -> CodedAttributes: ...

    def __getitem__(self, item: int | slice) -> list[str] | CodedAttributes:
        if isinstance(item, slice):
            return CodedAttributes(self.names, self.codes[item])
        return [self.names[code] for code in self.codes[item].tolist()]
