"""Sentences of a column file in arrays: words as offsets into the text, and as codes.

Strings are made only of words that are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from robustruct._lazy import cached_property
from robustruct.core.encoding import count_columns, number_words, read_columns
from robustruct.core.structs import ColumnArrays, ColumnRules
from robustruct.errors import FileFormatError
from robustruct.features.names import PackedNames, Vocabulary
from robustruct.formats.text import Lines

BLANKS, TAB = "blanks", "tab"
AT_ONCE = 2**18
"""Bytes of text parsed together: enough for codes and templates to be shared by many tokens."""


@dataclass(frozen=True)
class BadRow:
    """A line with a wrong number of columns."""

    line: int
    n_columns: int
    expected: int


@dataclass(frozen=True, eq=False)
class Words:
    """One value per token, as a code into the distinct values."""

    codes: np.ndarray
    """(tokens,) int32."""
    values: PackedNames

    @cached_property
    def strings(self) -> list[str]:
        """The distinct values."""
        return self.values.tolist()


class Tokens:
    """Some sentences of a column file."""

    def __init__(self, text: np.ndarray, arrays: ColumnArrays, lines_before: int) -> None:
        self.text = text
        """UTF-8, uint8."""
        self.arrays: Any = arrays
        self.lines_before = lines_before
        self._words: dict[int, Words] = {}
        self.kept: dict[tuple[str, int, int], Words] = {}
        """Cache of `Words` that macros of templates make of columns."""

    def sentences(self) -> list[Sentence]:
        """Return all sentences in order."""
        cuts = self.arrays.offsets.tolist()
        return [Sentence(self, i, cuts[i], cuts[i + 1]) for i in range(len(cuts) - 1)]

    def words(self, column: int) -> Words:
        """Return the words of a column."""
        if column not in self._words:
            numbers = Vocabulary()
            codes = np.empty(len(self.arrays.lines), np.int32)
            number_words(numbers.handle, self.text, self.arrays, column, codes)
            self._words[column] = Words(codes, numbers.packed())
        return self._words[column]


class Sentence(Sequence[list[str]]):
    """The tokens between two empty lines; each is a list of its columns."""

    __slots__ = ("first", "last", "number", "tokens")

    def __init__(self, tokens: Tokens, number: int, first: int, last: int) -> None:
        self.tokens = tokens
        self.number = number
        """Index among the sentences of ``tokens``."""
        self.first, self.last = first, last

    @property
    def n_columns(self) -> int:
        """Number of columns, equal for all tokens."""
        return int(self.tokens.arrays.widths[self.number])

    @property
    def lines(self) -> list[int]:
        """Line number of each token."""
        of_tokens = self.tokens.arrays.lines[self.first : self.last]
        return (of_tokens + self.tokens.lines_before).tolist()

    @property
    def line(self) -> int:
        """Line number of the first token."""
        return int(self.tokens.arrays.lines[self.first]) + self.tokens.lines_before

    def column(self, number: int) -> list[str]:
        """Return the words of one column."""
        words = self.tokens.words(number)
        strings = words.strings
        return [strings[code] for code in words.codes[self.first : self.last].tolist()]

    @property
    def text(self) -> list[str]:
        """Lines of the file, comments included."""
        begin, end = self.tokens.arrays.spans[self.number].tolist()
        lines = _text(self.tokens.text[begin:end]).split("\n")
        return [line.rstrip("\r") for line in lines if line and not line.isspace()]

    def __len__(self) -> int:
        return self.last - self.first

    @overload
    def __getitem__(self, item: int) -> list[str]: ...

    @overload
    def __getitem__(self, item: slice) -> list[list[str]]: ...

    def __getitem__(self, item: int | slice) -> list[str] | list[list[str]]:
        if isinstance(item, slice):
            return [self[i] for i in range(*item.indices(len(self)))]
        token = self.first + range(len(self))[item]
        arrays, n = self.tokens.arrays, self.n_columns
        places = zip(arrays.begins[token, :n], arrays.ends[token, :n], strict=True)
        return [_text(self.tokens.text[begin:end]) for begin, end in places]

    def __eq__(self, other: object) -> bool:
        return list(self) == other

    __hash__ = None  # type: ignore[assignment]


def column_rules(
    n_columns: Sequence[int], separator: str = BLANKS, comment: str | None = None
) -> ColumnRules:
    """Return the struct of parsing rules; arguments as in `sentences`."""
    mark = np.frombuffer((comment or "").encode("utf-8", "surrogatepass"), np.uint8)
    return ColumnRules(n_columns[0], n_columns[-1], separator == TAB, comment is not None, mark)


def read_tokens(lines: Lines, rules: ColumnRules) -> Iterator[Tokens | BadRow]:
    """Yield the sentences of a file, many at a time; a bad row is the last item."""
    blocks = lines.blocks()
    left, lines_before, at_end = b"", 0, False
    while not at_end:
        gathered, size = [left], len(left)
        fault: FileFormatError | None = None
        try:
            # At least double an unfinished sentence: parsing it again per block would be quadratic.
            while not at_end and size < max(AT_ONCE, 2 * len(left)):
                block = next(blocks, None)
                at_end = block is None
                gathered.append(block or b"")
                size += len(gathered[-1])
        except FileFormatError as error:
            fault = error  # raised after the sentences before it
        text = np.frombuffer(b"".join(gathered), np.uint8)
        # In the order of the enumeration in core/columns.c.
        counts = np.zeros(7, np.intp)
        count_columns(rules, text, len(text), at_end, counts)
        n_tokens, n_sentences, used, n_lines, bad_line, n_found, expected = counts.tolist()
        if n_tokens:
            yield _tokens(rules, text[:used], n_tokens, n_sentences, lines_before)
        if bad_line:
            yield BadRow(lines_before + bad_line, n_found, expected)
            return
        if fault is not None:
            raise fault
        left, lines_before = text[used:].tobytes(), lines_before + n_lines


def _tokens(
    rules: ColumnRules, text: np.ndarray, n_tokens: int, n_sentences: int, lines_before: int
) -> Tokens:
    arrays = ColumnArrays(
        np.empty((n_tokens, rules.most), np.intp),
        np.empty((n_tokens, rules.most), np.intp),
        np.empty(n_tokens, np.intp),
        np.empty(n_sentences + 1, np.intp),
        np.empty(n_sentences, np.intp),
        np.empty((n_sentences, 2), np.intp),
    )
    read_columns(rules, text, len(text), arrays)
    return Tokens(text, arrays, lines_before)


def _text(data: np.ndarray) -> str:
    return data.tobytes().decode("utf-8", "surrogatepass")
