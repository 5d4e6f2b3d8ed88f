"""Feature templates in the syntax of CRF++, applied to whole files at once.

A line of a template makes one attribute per token:

    U05:%x[-1,0]/%x[0,0]     column 0 of the token before, "/", column 0 of this token
    B                        transitions between labels; they are always learnt
    B01:%x[0,1]              a transition that depends on column 1 of the second token
    # anything               a comment

``%x[row,column]`` counts rows from the token and columns from 0. Beyond the sentence it reads
``_B-1``, ``_B-2`` ... before and ``_B+1``, ``_B+2`` ... after it. Four more functions go beyond
CRF++: ``%lower[row,column]``, ``%shape[row,column]`` (``McDonald-12`` is ``XxXx-d``),
``%prefix[row,column,n]`` and ``%suffix[row,column,n]``, the first or last n letters.

Each line is worked out for the different values it takes, not for every token.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, repeat

import numpy as np

from robustruct.errors import FileFormatError
from robustruct.features import CodedAttributes
from robustruct.formats.text import shown

Rows = Sequence[Sequence[str]]
"""A sentence: the columns of each token."""

_MACRO = re.compile(r"%([a-z]+)\[\s*(-?\d+)\s*,\s*(\d+)\s*(?:,\s*(\d+)\s*)?\]")
_LIMIT = 2**62
FARTHEST = 999_999
"""Largest number of rows, columns or letters that a macro may name."""


def _class_of(letter: str) -> str:
    if letter.isupper():
        return "X"
    if letter.isdigit():
        return "d"
    return "x" if letter.isalpha() else letter


def _shape(word: str) -> str:
    return "".join(kind for kind, _ in groupby(map(_class_of, word)))


_PLAIN: dict[str, Callable[[str], str]] = {"x": str, "lower": str.lower, "shape": _shape}
_CUT: dict[str, Callable[[str, int], str]] = {
    "prefix": lambda word, n: word[:n],
    "suffix": lambda word, n: word[-n:],
}


@dataclass(frozen=True)
class Macro:
    """A value looked up near a token: ``%function[row,column]`` or ``%function[row,column,n]``."""

    function: str
    row: int
    column: int
    length: int = 0

    def of(self, word: str) -> str:
        """The value for a word of the column."""
        if self.function in _PLAIN:
            return _PLAIN[self.function](word)
        return _CUT[self.function](word, self.length)


@dataclass(frozen=True)
class TemplateLine:
    """Macros with text around them; ``text`` has one piece more than there are macros."""

    text: tuple[str, ...]
    macros: tuple[Macro, ...]


@dataclass(frozen=True)
class Template:
    """The attributes of tokens (``nodes``) and of pairs of neighbours (``edges``)."""

    nodes: tuple[TemplateLine, ...]
    edges: tuple[TemplateLine, ...]
    source: str
    """The text it was read from."""

    @classmethod
    def parse(cls, source: str, name: str = "template") -> Template:
        """Read a template; ``name`` is what errors call it."""
        nodes, edges = [], []
        for number, line in enumerate(source.split("\n"), start=1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            parsed = _parsed_line(line, name, number)
            if line[0] == "B":
                edges += [parsed] if parsed.macros else []
            elif line[0] == "U":
                nodes.append(parsed)
            else:
                raise FileFormatError(
                    name, number, f"a line starts with U, B or #, but this one is {shown(line)}."
                )
        if not nodes:
            raise FileFormatError(
                name, None, "it has no line that starts with U, so tokens would have no features."
            )
        return cls(tuple(nodes), tuple(edges), source)

    @property
    def columns(self) -> list[int]:
        """The columns it reads."""
        lines = (*self.nodes, *self.edges)
        return sorted({macro.column for line in lines for macro in line.macros})

    def attributes(self, sentences: Sequence[Rows]) -> list[CodedAttributes]:
        """Attributes of the tokens of each sentence."""
        return _split(_applied(self.nodes, sentences), sentences, 0)

    def edge_attributes(self, sentences: Sequence[Rows]) -> list[CodedAttributes]:
        """Attributes of the pairs of neighbours of each sentence, named by the second token."""
        return _split(_applied(self.edges, sentences), sentences, 1)


def default_template(columns: Sequence[int]) -> Template:
    """The template used when none is given; the first column is taken for words.

    Words in a window of two to each side and pairs of them, beginnings and endings of up to four
    letters, the shape of the word and of its neighbours; of every other column a window of two to
    each side with pairs and triples around the token.

    Examples
    --------
    >>> print(default_template([0]).source.splitlines()[2])
    Uw[-2]:%lower[-2,0]
    """
    word, *others = columns
    lines = ["# Default template", f"Uword:%x[0,{word}]"]
    lines += [f"Uw[{row}]:%lower[{row},{word}]" for row in (-2, -1, 0, 1, 2)]
    lines += [f"Uw[{a}|{b}]:%lower[{a},{word}]/%lower[{b},{word}]" for a, b in ((-1, 0), (0, 1))]
    for kind in ("prefix", "suffix"):
        lines += [f"U{kind}[{n}]:%{kind}[0,{word},{n}]" for n in (1, 2, 3, 4)]
    lines += [f"Ushape[{row}]:%shape[{row},{word}]" for row in (-1, 0, 1)]
    for c in others:
        lines += [f"Ucol{c}[{row}]:%x[{row},{c}]" for row in (-2, -1, 0, 1, 2)]
        for a, b in ((-2, -1), (-1, 0), (0, 1), (1, 2)):
            lines.append(f"Ucol{c}[{a}|{b}]:%x[{a},{c}]/%x[{b},{c}]")
        lines.append(f"Ucol{c}[-1|0|1]:%x[-1,{c}]/%x[0,{c}]/%x[1,{c}]")
    return Template.parse("\n".join([*lines, "B", ""]), "default template")


def _parsed_line(line: str, name: str, number: int) -> TemplateLine:
    macros, text, end = [], [], 0
    for found in _MACRO.finditer(line):
        function, row, column, length = found.groups()
        if any(
            len(digits or "") > 7 or abs(int(digits or 0)) > FARTHEST
            for digits in (row, column, length)
        ):
            raise FileFormatError(
                name, number, f"{shown(found[0])} has a number beyond {FARTHEST}."
            )
        known = function in _PLAIN if length is None else function in _CUT and int(length) > 0
        if not known:
            raise FileFormatError(
                name,
                number,
                f"{shown(found[0])[1:-1]} is not known; write %x[row,column], %lower[row,column], "
                "%shape[row,column], %prefix[row,column,n] or %suffix[row,column,n].",
            )
        text.append(line[end : found.start()])
        macros.append(Macro(function, int(row), int(column), int(length or 0)))
        end = found.end()
    text.append(line[end:])
    broken = next((piece for piece in text if re.search(r"%[a-z]+\[", piece)), None)
    if broken is not None:
        raise FileFormatError(
            name, number, f"{shown(broken.strip())} is not complete; a macro reads like %x[-1,0]."
        )
    return TemplateLine(tuple(text), tuple(macros))


# ------------------------------------------------------------------------- the work on whole files


class _Values:
    """What one macro reads at every token: numbers into a list of different values."""

    def __init__(self, codes: np.ndarray, values: list[str]) -> None:
        self.codes = codes
        self.values = values


class _Tokens:
    """Columns of all tokens of many sentences."""

    def __init__(self, sentences: Sequence[Rows]) -> None:
        lengths = np.array([len(rows) for rows in sentences], np.intp)
        ends = np.cumsum(lengths)
        self.sentences = sentences
        self.n = int(lengths.sum())
        self.longest = int(lengths.max(initial=0))
        self.start = np.repeat(ends - lengths, lengths)
        self.end = np.repeat(ends, lengths)
        self._words: dict[int, tuple[np.ndarray, list[str]]] = {}
        self._read: dict[tuple[str, int, int], _Values] = {}

    def words(self, column: int) -> tuple[np.ndarray, list[str]]:
        """(n,) number of the word of each token, and the different words."""
        if column not in self._words:
            number: dict[str, int] = {}
            found = (
                number.setdefault(row[column], len(number))
                for row in chain.from_iterable(self.sentences)
            )
            codes = np.fromiter(found, np.int64, self.n)
            self._words[column] = codes, list(number)
        return self._words[column]

    def values(self, macro: Macro) -> _Values:
        """The macro without its row."""
        key = macro.function, macro.column, macro.length
        if key not in self._read:
            codes, words = self.words(macro.column)
            number: dict[str, int] = {}
            of_word = np.array(
                [number.setdefault(macro.of(word), len(number)) for word in words], np.int64
            )
            self._read[key] = _Values(of_word[codes] if len(words) else codes, list(number))
        return self._read[key]

    def shifted(self, macro: Macro) -> _Values:
        """The macro at every token, with marks beyond the ends of sentences."""
        here = self.values(macro)
        row, n_values = macro.row, len(here.values)
        if row == 0 or self.n == 0:
            return here
        target = np.arange(self.n) + row
        beyond = self.start - target if row < 0 else target - self.end + 1
        # Marks nearer than this are not needed: no sentence is that long.
        skipped = max(abs(row) - self.longest, 0)
        mark = "_B-" if row < 0 else "_B+"
        marks = [f"{mark}{i}" for i in range(skipped + 1, abs(row) + 1)]
        inside = here.codes[np.clip(target, 0, self.n - 1)]
        codes = np.where(beyond > 0, n_values + beyond - skipped - 1, inside)
        return _Values(codes, here.values + marks)


def _applied(lines: Iterable[TemplateLine], sentences: Sequence[Rows]) -> CodedAttributes:
    tokens = _Tokens(sentences)
    names: list[str] = []
    columns: list[np.ndarray] = []
    for line in lines:
        parts = [tokens.shifted(macro) for macro in line.macros]
        first, codes = _combined(parts, tokens.n)
        columns.append(codes + len(names))
        pieces: list[Iterable[str]] = [repeat(line.text[0], len(first))]
        for part, text in zip(parts, line.text[1:], strict=True):
            values = part.values
            pieces += [[values[i] for i in part.codes[first].tolist()], repeat(text, len(first))]
        names += map("".join, zip(*pieces, strict=True))
    shape = (tokens.n, len(columns))
    codes = np.stack(columns, axis=1, dtype=np.int32) if columns else np.empty(shape, np.int32)
    return CodedAttributes(names, codes)


def _combined(parts: Sequence[_Values], n: int) -> tuple[np.ndarray, np.ndarray]:
    """(a token for each different combination of values, (n,) which combination a token has)."""
    key, size = np.zeros(n, np.int64), 1
    for part in parts:
        if size * len(part.values) > _LIMIT:
            first, key = _distinct(key, size)
            size = len(first)
        key = key * len(part.values) + part.codes
        size *= len(part.values)
    return _distinct(key, size)


def _distinct(key: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """(where each different key is first or last seen, (n,) the number of each key)."""
    if size <= 8 * len(key):  # counting is faster than sorting
        where = np.full(size, -1, np.intp)
        where[key] = np.arange(len(key))
        used = where >= 0
        return where[used], (np.cumsum(used) - 1)[key]
    _, first, number = np.unique(key, return_index=True, return_inverse=True)
    return first, number.reshape(-1)


def _split(
    whole: CodedAttributes, sentences: Sequence[Rows], skipped: int
) -> list[CodedAttributes]:
    """The rows of each sentence, without its first ``skipped`` tokens."""
    parts, first = [], 0
    for rows in sentences:
        last = first + len(rows)
        parts.append(CodedAttributes(whole.names, whole.codes[first + skipped : last]))
        first = last
    return parts
