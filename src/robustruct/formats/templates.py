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

Lines are evaluated once per distinct value, not per token.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from robustruct.core.encoding import apply_template, shift_codes
from robustruct.core.structs import TemplateArrays
from robustruct.errors import FileFormatError
from robustruct.features import CodedAttributes, PackedNames
from robustruct.features.names import Vocabulary
from robustruct.formats.text import shown
from robustruct.formats.tokens import Sentence, Words

_MACRO = re.compile(r"%([a-z]+)\[\s*(-?\d+)\s*,\s*(\d+)\s*(?:,\s*(\d+)\s*)?\]")
FARTHEST = 999_999
"""Largest row, column or length in a macro: far beyond any sentence, and small enough for int32."""


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
    """A value read near a token: ``%function[row,column]`` or ``%function[row,column,n]``."""

    function: str
    row: int
    column: int
    length: int = 0

    def of(self, word: str) -> str:
        """Apply the function to a word of the column."""
        if self.function in _PLAIN:
            return _PLAIN[self.function](word)
        return _CUT[self.function](word, self.length)


@dataclass(frozen=True)
class TemplateLine:
    """Macros with text around them: ``text`` has one piece more than ``macros``."""

    text: tuple[str, ...]
    macros: tuple[Macro, ...]


@dataclass(frozen=True)
class Template:
    """The attributes of tokens (``nodes``) and of pairs of neighbours (``edges``)."""

    nodes: tuple[TemplateLine, ...]
    edges: tuple[TemplateLine, ...]
    source: str
    """Text of the template."""

    @classmethod
    def parse(cls, source: str, name: str = "template") -> Template:
        """Parse a template; errors call it ``name``."""
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
        """Columns that the template reads, ascending."""
        lines = (*self.nodes, *self.edges)
        return sorted({macro.column for line in lines for macro in line.macros})

    def attributes(self, sentences: Sequence[Sentence]) -> list[CodedAttributes]:
        """Return the attributes of the tokens of each sentence."""
        return _applied(self.nodes, sentences, 0)

    def edge_attributes(self, sentences: Sequence[Sentence]) -> list[CodedAttributes]:
        """Return the attributes of each pair of neighbours, read at its second token."""
        return _applied(self.edges, sentences, 1)


def default_template(columns: Sequence[int]) -> Template:
    """Return the template that is used where none is given; the first column holds words.

    It reads words in a window of two to each side and pairs of them, prefixes and suffixes of up to
    four letters, the shape of the word and of its neighbours; of every other column a window of two
    to each side with pairs and triples around the token.

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
        valid = function in _PLAIN if length is None else function in _CUT and int(length) > 0
        if not valid:
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


def _applied(
    lines: Sequence[TemplateLine], sentences: Sequence[Sentence], skipped: int
) -> list[CodedAttributes]:
    """Return the attributes of each sentence, without its first ``skipped`` tokens."""
    attributes = []
    for stretch in _stretches(sentences):
        whole = _Reading(stretch).applied(lines)
        start = stretch[0].first
        for sentence in stretch:
            codes = whole.codes[sentence.first - start + skipped : sentence.last - start]
            attributes.append(CodedAttributes(whole.names, codes))
    return attributes


def _stretches(sentences: Sequence[Sentence]) -> Iterator[list[Sentence]]:
    """Group sentences that follow each other in one `Tokens`."""
    stretch: list[Sentence] = []
    for sentence in sentences:
        if stretch and (stretch[-1].tokens, stretch[-1].number + 1) != (
            sentence.tokens,
            sentence.number,
        ):
            yield stretch
            stretch = []
        stretch.append(sentence)
    if stretch:
        yield stretch


class _Reading:
    """Evaluates templates on consecutive sentences of one `Tokens`."""

    def __init__(self, stretch: Sequence[Sentence]) -> None:
        self.tokens = stretch[0].tokens
        self.first, self.last = stretch[0].number, stretch[-1].number + 1
        self.n = stretch[-1].last - stretch[0].first
        self.longest = max(map(len, stretch))
        self.texts: list[PackedNames] = []
        self.n_texts = 0

    def applied(self, lines: Sequence[TemplateLine]) -> CodedAttributes:
        """Return the attributes of all tokens, (tokens, lines) codes."""
        macros = list(dict.fromkeys(macro for line in lines for macro in line.macros))
        codes = np.empty((len(macros), self.n), np.int32)
        begins: dict[tuple[str, int, int], int] = {}
        for macro, row in zip(macros, codes, strict=True):
            self._read(macro, begins, row)
        place = {macro: -1 - i for i, macro in enumerate(macros)}
        pieces: list[int] = []
        line_offsets = [0]
        for line in lines:
            literals = self._added(PackedNames.of(line.text))
            pieces.append(literals)
            for i, macro in enumerate(line.macros, 1):
                pieces += [place[macro], literals + i]
            line_offsets.append(len(pieces))
        texts = PackedNames.joined(self.texts)
        arrays = TemplateArrays(
            texts.data,
            texts.offsets,
            codes,
            np.array(pieces, np.int32),
            np.array(line_offsets, np.intp),
        )
        names = Vocabulary()
        out = np.empty((self.n, len(lines)), np.int32)
        apply_template(arrays, names.handle, out)
        return CodedAttributes(names.packed(), out)

    def _read(self, macro: Macro, begins: dict[tuple[str, int, int], int], out: np.ndarray) -> None:
        """Write the number of the text that the macro reads at each token into out (tokens,)."""
        key = macro.function, macro.column, macro.length
        here = self._values(macro)
        if key not in begins:
            begins[key] = self._added(here.values)
        # The nearest marks are never read if the row is farther than the longest sentence.
        skipped = max(abs(macro.row) - self.longest, 0)
        sign = "-" if macro.row < 0 else "+"
        marks = [f"_B{sign}{i}" for i in range(skipped + 1, abs(macro.row) + 1)]
        shift_codes(
            self.first,
            self.last,
            self.tokens.arrays.offsets,
            here.codes,
            begins[key],
            macro.row,
            self._added(PackedNames.of(marks)) - skipped,
            out,
        )

    def _values(self, macro: Macro) -> Words:
        """Apply the macro's function to the words of its column, once per distinct word."""
        words = self.tokens.words(macro.column)
        if macro.function == "x":
            return words
        key = macro.function, macro.column, macro.length
        if key not in self.tokens.kept:
            number: dict[str, int] = {}
            of_word = [number.setdefault(macro.of(one), len(number)) for one in words.strings]
            codes = np.array(of_word, np.int32)[words.codes]
            self.tokens.kept[key] = Words(codes, PackedNames.of(number))
        return self.tokens.kept[key]

    def _added(self, texts: PackedNames) -> int:
        """Append texts to those that names consist of; return the index of the first."""
        self.texts.append(texts)
        self.n_texts += len(texts)
        return self.n_texts - len(texts)
