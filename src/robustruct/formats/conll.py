"""Column files (CoNLL, CRF++): one token per line, an empty line after each sentence.

Columns are separated by blanks or tabs, or by single tabs if asked for, and count from 0.
A prediction is appended as one more column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from robustruct.errors import FileFormatError, InvalidInputError
from robustruct.formats.sample import Answer, Format, Sample
from robustruct.formats.templates import Template, default_template
from robustruct.formats.text import Lines, shown
from robustruct.formats.tokens import (
    BLANKS,
    TAB,
    BadRow,
    Sentence,
    column_rules,
    read_tokens,
)
from robustruct.graphs import Graph

HEAD = 200  # lines from which columns are detected, so comments may come first
DOCUMENT = "-DOCSTART-"  # the word of a sentence that begins a document
MOST_COLUMNS = 256  # read by the default template; a line with more is a whole text, not a token


def sentences(
    lines: Lines, n_columns: Sequence[int], separator: str = BLANKS, comment: str | None = None
) -> Iterator[Sentence]:
    """Yield the sentences of a column file.

    Parameters
    ----------
    lines : Lines
    n_columns : sequence of int
        One or two allowed numbers of columns, the larger first; the tokens of a sentence agree.
    separator : "blanks" or "tab"
    comment : str, optional
        Prefix of comment lines; a line with a tab is a token all the same.
    """
    for tokens in read_tokens(lines, column_rules(n_columns, separator, comment)):
        if isinstance(tokens, BadRow):
            reason = "columns are separated by single tabs."
            if separator != TAB:
                reason = (
                    "columns are separated by blanks or tabs; if values hold blanks, separate "
                    "columns by tabs and say --separator tab."
                )
            counted = _counted(tokens.n_columns)
            raise lines.error(f"{counted} instead of {tokens.expected}; {reason}", tokens.line)
        yield from tokens.sentences()


@dataclass(frozen=True)
class ConllFormat(Format):
    """Roles of the columns, and the template that makes features of them."""

    name = "conll"

    n_columns: int
    label_column: int
    template: Template
    weight_column: int | None = None
    separator: str = BLANKS
    comment: str | None = None
    """Prefix of comment lines."""
    group_column: int | None = None
    """Column with the name of what a sentence belongs to."""

    @classmethod
    def found(
        cls,
        lines: Lines,
        *,
        label_column: int = -1,
        columns: Sequence[int] | None = None,
        template: Template | None = None,
        weight_column: int | None = None,
        group_column: int | None = None,
        separator: str = BLANKS,
        comment: str | None = None,
    ) -> ConllFormat:
        """Detect the format of a labelled file from its first lines.

        Parameters
        ----------
        lines : Lines
            Unread; they stay unread.
        label_column : int
            Negative numbers count from the last column.
        columns : sequence of int, optional
            Columns that the default template reads, words first; by default all but the labels,
            weights and groups.
        template : Template, optional
        weight_column : int, optional
            Column with the weight of each token's cost.
        group_column : int, optional
            Column with the name of what a sentence belongs to, such as its document, the same for
            all its tokens.
        separator : "blanks" or "tab"
            Blanks and tabs alike, or each tab.
        comment : str, optional
            Prefix of comment lines; by default "#" if columns are separated by tabs and such a
            line has none.
        """
        if separator not in (BLANKS, TAB):
            raise InvalidInputError(f"separator={separator!r}; use {BLANKS!r} or {TAB!r}.")
        head = [(n, line) for n, line in enumerate(lines.head(HEAD), 1) if line.strip()]
        # Without tabs, a line that starts with # may be a token.
        if comment is None and any("\t" in line for _, line in head):
            comment = "#" if any(_is_comment(line, "#") for _, line in head) else None
        number, first = next(
            ((n, line) for n, line in head if not _is_comment(line, comment)), (0, "")
        )
        if not first:
            raise FileFormatError(lines.name, None, "the file is empty: it has no tokens.")
        n_columns = len(_fields(first, separator))
        if n_columns < 2:
            raise lines.error(
                f"there is one column ({shown(first)}), but a token needs at least a word and a "
                "label, separated by blanks or a tab.",
                number,
            )
        label = _resolved(label_column, n_columns, "label column", lines.name)
        weight = (
            None
            if weight_column is None
            else _resolved(weight_column, n_columns, "weight column", lines.name)
        )
        group = (
            None
            if group_column is None
            else _resolved(group_column, n_columns, "group column", lines.name)
        )
        roles = [("labels", label), ("weights", weight), ("groups", group)]
        special: dict[int | None, str] = {}
        for role, column in roles:
            if column in special and column is not None:
                raise FileFormatError(
                    lines.name,
                    None,
                    f"column {column} cannot hold both {special[column]} and {role}.",
                )
            special[column] = role
        if template is None:
            if columns is None:
                others = [c for c in range(n_columns) if c not in special]
                if len(others) > MOST_COLUMNS:
                    raise lines.error(_too_many(n_columns), number)
            else:
                others = [_resolved(c, n_columns, "column", lines.name) for c in columns]
            if not others:
                raise FileFormatError(lines.name, None, "no column is left to make features of.")
            template = default_template(others)
        form = cls(n_columns, label, template, weight, separator, comment, group)
        form._check_template(lines.name)
        return form

    def _check_template(self, name: str) -> None:
        for column in self.template.columns:
            if column >= self.n_columns:
                raise FileFormatError(
                    name,
                    None,
                    f"the features read column {column}, but the file has columns "
                    f"0..{self.n_columns - 1}; correct the template or --columns.",
                )
            if column == self.label_column:
                raise FileFormatError(
                    name,
                    None,
                    f"the features read column {column}, which holds the labels; correct the "
                    "template, --columns or --label-column.",
                )

    # ------------------------------------------------------------------------------------- reading

    def samples(self, lines: Lines, *, labelled: bool) -> Iterator[Sample]:
        allowed = [self.n_columns]
        if not labelled and self.label_column == self.n_columns - 1:
            allowed.append(self.n_columns - 1)
        marked = self._begins_with_mark(lines)
        document = 0
        for sentence in sentences(lines, allowed, self.separator, self.comment):
            labels, weights = None, None
            document += marked and sentence[0][0] == DOCUMENT
            group: Any = document if marked else None
            if sentence.n_columns == self.n_columns:
                labels = sentence.column(self.label_column)
                if self.weight_column is not None:
                    weights = self._weights(lines, sentence)
                if self.group_column is not None:
                    group = self._group(lines, sentence)
            yield Sample(sentence.line, sentence, labels, node_weight=weights, group=group)

    def _begins_with_mark(self, lines: Lines) -> bool:
        """Return whether marks part the file into documents, as in CoNLL-2003."""
        head = (line for line in lines.head(HEAD) if not _is_comment(line, self.comment))
        first = next((line for line in head if line.strip()), "")
        return _fields(first, self.separator)[0] == DOCUMENT if first else False

    def _group(self, lines: Lines, sentence: Sentence) -> str:
        values = sentence.column(self.group_column)  # type: ignore[arg-type]
        for value, number in zip(values, sentence.lines, strict=True):
            if value != values[0]:
                raise lines.error(
                    f"column {self.group_column} says group {shown(value)}, but the sentence began "
                    f"in group {shown(values[0])}; a sentence belongs to one.",
                    number,
                )
        return values[0]

    def _weights(self, lines: Lines, sentence: Sentence) -> list[float]:
        weights = []
        values = sentence.column(self.weight_column)  # type: ignore[arg-type]
        for value, number in zip(values, sentence.lines, strict=True):
            weight = _as_weight(value)
            if weight is None:
                raise lines.error(
                    f"the weight {shown(value)} in column {self.weight_column} is not a number "
                    ">= 0.",
                    number,
                )
            weights.append(weight)
        return weights

    # ------------------------------------------------------------------------------------ features

    def features(self, samples: Sequence[Sample]) -> list[Any]:
        sentences = [sample.content for sample in samples]
        nodes = self.template.attributes(sentences)
        if not self.template.edges:
            return list(nodes)
        edges = self.template.edge_attributes(sentences)
        return [Graph.chain(*parts) for parts in zip(nodes, edges, strict=True)]

    def values(self, sample: Sample, name: str) -> list[Any]:
        sentence, number = sample.content, int(name) if name.lstrip("-").isdecimal() else None
        n = sentence.n_columns
        if number is None or not -n <= number < n:
            raise InvalidInputError(
                f"there is no column {shown(name)}: the tokens have {n} columns, 0 to {n - 1} (or "
                f"-{n} to -1, from the last)."
            )
        return list(sentence.column(number % n))

    def captions(self, sample: Sample) -> list[str]:
        special = (self.label_column, self.weight_column, self.group_column)
        word = next((column for column in range(self.n_columns) if column not in special), 0)
        return sample.content.column(word)

    # ------------------------------------------------------------------------------------- writing

    def render(self, sample: Sample, answer: Answer) -> str:
        lines = sample.content.text
        mark = "\t" if "\t" in "".join(lines) else " "
        columns = [list(map(str, answer.labels))]
        written = []
        if answer.best is not None:
            columns += [list(map(str, labels)) for labels, _ in answer.best]
            scores = mark.join(f"{score:.6g}" for _, score in answer.best)
            written.append(f"#{mark}scores{mark}{scores}")
        if answer.probabilities is not None:
            for label in answer.probabilities[0]:
                columns.append([f"{label}/{p[label]:.6f}" for p in answer.probabilities])
        added = map(mark.join, zip(*columns, strict=True))
        written += [
            line if _is_comment(line, self.comment) else f"{line.rstrip()}{mark}{next(added)}"
            for line in lines
        ]
        return "\n".join(written) + "\n\n"

    def node_text(self, sample: Sample, node: int) -> str:
        return " ".join(sample.content[node])

    # -------------------------------------------------------------------------------------- stored

    def state(self) -> dict[str, Any]:
        state = {**vars(self), "template": self.template.source}
        del state["group_column"]  # a matter of training: what is read later need not have groups
        return {"format": self.name, **state}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> ConllFormat:
        fields = {key: value for key, value in state.items() if key != "format"}
        _check_fields(fields)
        template = Template.parse(fields.pop("template"), "the model's template")
        form = cls(template=template, **fields)
        form._check_template("the model's template")
        return form


_FIELDS: dict[str, Callable[[Any, int], bool]] = {
    "n_columns": lambda value, n: n >= 2,
    "label_column": lambda value, n: type(value) is int and 0 <= value < n,
    "weight_column": lambda value, n: value is None or (type(value) is int and 0 <= value < n),
    "separator": lambda value, n: value in (BLANKS, TAB),
    "comment": lambda value, n: value is None or isinstance(value, str),
    "template": lambda value, n: isinstance(value, str),
}
"""Checks of the fields of a stored format, given the number of columns."""


def _check_fields(fields: dict[str, Any]) -> None:
    n = fields.get("n_columns")
    for name, fits in _FIELDS.items():
        if type(n) is not int or name not in fields or not fits(fields[name], n):
            raise InvalidInputError(f"the model does not say how to read columns: {name} is wrong.")
    unknown = sorted(set(fields) - set(_FIELDS))
    if unknown:
        raise InvalidInputError(
            f"the model reads columns in a way not known here ({shown(unknown[0])}); upgrade "
            "robustruct."
        )


def _counted(n: int) -> str:
    return "1 column" if n == 1 else f"{n} columns"


def _too_many(n: int) -> str:
    return (
        f"there are {n} columns, but unasked at most {MOST_COLUMNS} become features. A token "
        "stands on a line of its own; if these are its columns, choose some (--columns 0,1,...) or "
        "give a template."
    )


def _is_comment(line: str, mark: str | None) -> bool:
    return mark is not None and line.startswith(mark) and "\t" not in line


def _fields(line: str, separator: str) -> list[str]:
    if separator == TAB:
        return line.split("\t")
    # Not split(): it would also cut at the no-break space and other blanks inside words.
    fields = line.replace("\t", " ").split(" ")
    return [value for value in fields if value] if "" in fields else fields


def _resolved(column: int, n_columns: int, what: str, name: str) -> int:
    if not -n_columns <= column < n_columns:
        raise FileFormatError(
            name,
            None,
            f"there is no {what} {column}: the first token has {n_columns} columns, 0 to "
            f"{n_columns - 1} (or -{n_columns} to -1, from the last).",
        )
    return column % n_columns


def _as_weight(value: str) -> float | None:
    try:
        weight = float(value)
    except ValueError:
        return None
    return weight if 0 <= weight < float("inf") else None
