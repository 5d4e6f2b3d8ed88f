"""Options about labelled files, and reading them with progress."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from robustruct.cli.options import EncodingOption, TableOptions
from robustruct.errors import InvalidInputError

if TYPE_CHECKING:
    from robustruct.formats.corpus import Corpus
    from robustruct.formats.sample import Format
    from robustruct.formats.shards import ShardedData
    from robustruct.formats.templates import Template

POSITION = "position"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Options about the layout of a labelled file; where None, `read_corpus` detects it."""

    form: Annotated[
        Literal["conll", "crfsuite", "json-lines"] | None,
        typer.Option("--format", help="Format of the data; by default it is recognised."),
    ] = None
    template: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Features of columns, in the syntax of CRF++."),
    ] = None
    label_column: Annotated[
        int | None,
        typer.Option(help="Column of the labels, from 0; negative: from the last.  [default: -1]"),
    ] = None
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="0,1,...",
            help="Columns that the default template reads, words first; by default all others.",
        ),
    ] = None
    weights: Annotated[
        str | None,
        typer.Option(
            metavar=f"{POSITION}|COLUMN",
            help="Weight of each node's cost: growing with its position, or from a column, by "
            "number or, in a table, by name.",
        ),
    ] = None
    groups: Annotated[
        int | None,
        typer.Option(
            metavar="COLUMN",
            help="Column with what a sentence belongs to (document, subject, template): groups are "
            "held out whole.  [default: documents, if the file begins with -DOCSTART-]",
        ),
    ] = None
    separator: Annotated[
        Literal["blanks", "tab"] | None,
        typer.Option(help="Columns are separated by blanks and tabs alike, or by each tab."),
    ] = None
    partial: Annotated[
        bool,
        typer.Option(
            "--partial", help="Labels can be known in part: ? or nothing is unknown, A|B either."
        ),
    ] = False
    encoding: EncodingOption = "utf-8"
    table: TableOptions = field(default_factory=TableOptions)

    def __post_init__(self) -> None:
        if self.table.by is not None:
            self._check_table()
            return
        if self.template is not None and self.columns is not None:
            raise InvalidInputError("a template names its own columns; leave out --columns.")
        self._columns_read()
        self._weight_column()

    def _check_table(self) -> None:
        """Refuse options of files without named columns."""
        named = {
            "format": self.form,
            "template": self.template,
            "label-column": self.label_column,
            "columns": self.columns,
            "separator": self.separator,
            "groups": self.groups,
        }
        for name, value in named.items():
            if value is not None:
                raise InvalidInputError(
                    f"--{name} does not go with --by: tables name columns, and "
                    "the first in --by holds groups."
                )

    @property
    def by_position(self) -> bool:
        """Whether node weights grow with the position in the sequence."""
        return self.weights == POSITION

    def read(self, path: str, quiet: bool, *, captions: bool = False) -> Corpus:
        """Read the samples of a file."""
        return self._read(path, self.form, quiet, captions=captions, **self._columns())

    def shards(self, pattern: str, **options: Any) -> ShardedData:
        """Return the files that match a pattern as shards; ``options`` go to `ShardedData`."""
        from robustruct.formats.shards import ShardedData

        if self.table.by is not None:
            raise InvalidInputError(
                "a table is read as a whole, and the rows of a sample could be in several files; "
                "leave out --shards."
            )
        if self.partial:
            raise InvalidInputError(
                "--partial is about a file that is read as a whole; leave out --shards."
            )
        if self.by_position:
            raise InvalidInputError(
                f"--weights {POSITION} needs all samples in this process; shards take the number "
                "of a column."
            )
        if self.groups is not None:
            raise InvalidInputError(
                "--groups is about what is chosen on held-out samples, and nothing is chosen on "
                "shards; leave it out, or give one file."
            )
        return ShardedData.from_files(
            pattern, form=self.form, encoding=self.encoding, **options, **self._columns()
        )

    def read_alike(self, path: str, form: Format, quiet: bool, *, captions: bool = False) -> Corpus:
        """Read the samples of another file in the format of the first."""
        return self._read(path, form, quiet, captions=captions)

    def _read(self, path: str, form: Format | str | None, quiet: bool, **options: Any) -> Corpus:
        from robustruct.datasets import position_weights
        from robustruct.formats.corpus import read_corpus
        from robustruct.progress import Pace, progress

        pace = Pace()
        with progress(f"reading {path}", not quiet) as show:
            corpus = read_corpus(
                path,
                form,
                encoding=self.encoding,
                partial=self.partial,
                watch=lambda lines, n: show(f"{n:,} samples", pace.left(lines.fraction)),
                **options,
            )
        if self.groups is not None and corpus.groups is None:
            raise InvalidInputError(
                f"--groups {self.groups}: all samples of {path} have the same group, so none can "
                "be held out; name another column, or leave it out.",
                field="groups",
            )
        if self.by_position:
            return replace(corpus, node_weight=position_weights(corpus.y))
        return corpus

    def _columns(self) -> dict[str, Any]:
        if self.table.by is not None:
            return {"roles": self.table.roles(None if self.by_position else self.weights)}
        options = {
            "template": self._read_template(),
            "label_column": self.label_column,
            "columns": self._columns_read(),
            "weight_column": self._weight_column(),
            "group_column": self.groups,
            "separator": self.separator,
        }
        return {name: value for name, value in options.items() if value is not None}

    def _columns_read(self) -> list[int] | None:
        if self.columns is None:
            return None
        try:
            return [int(part) for part in self.columns.split(",")]
        except ValueError:
            raise InvalidInputError(
                f"--columns {self.columns} is not a list of numbers such as 0,2."
            ) from None

    def _weight_column(self) -> int | None:
        if self.weights is None or self.by_position:
            return None
        try:
            return int(self.weights)
        except ValueError:
            raise InvalidInputError(
                f"--weights {self.weights}: say {POSITION}, or the number of a column, from 0."
            ) from None

    def _read_template(self) -> Template | None:
        from robustruct.formats.templates import Template
        from robustruct.formats.text import Lines

        if self.template is None:
            return None
        with Lines(self.template, self.encoding) as lines:
            return Template.parse("\n".join(lines) + "\n", self.template)
