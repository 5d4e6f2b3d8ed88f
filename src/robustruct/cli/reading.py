"""Labelled files as data, with progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from robustruct.errors import InvalidInputError

if TYPE_CHECKING:
    from robustruct.formats.corpus import Corpus
    from robustruct.formats.sample import Format
    from robustruct.formats.shards import ShardedData
    from robustruct.formats.templates import Template


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What the user says about a labelled file; None is left to `read_corpus` to find out."""

    form: str | None = None
    """Name of the format."""
    template: str | None = None
    """File with a template."""
    label_column: int | None = None
    columns: Sequence[int] | None = None
    """What the default template reads."""
    weight_column: int | None = None
    separator: str | None = None
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        if self.template is not None and self.columns is not None:
            raise InvalidInputError("a template names its own columns; leave out --columns.")

    def read(self, path: str, progress_wanted: bool, *, captions: bool = False) -> Corpus:
        """The samples of a file."""
        return self._read(path, self.form, progress_wanted, captions=captions, **self._columns())

    def shards(self, pattern: str, **options: Any) -> ShardedData:
        """Files that match a pattern; ``options`` are those of `ShardedData`."""
        from robustruct.formats.shards import ShardedData

        return ShardedData.from_files(
            pattern, form=self.form, encoding=self.encoding, **options, **self._columns()
        )

    def read_alike(
        self, path: str, form: Format, progress_wanted: bool, *, captions: bool = False
    ) -> Corpus:
        """The samples of another file, in the format found in the first."""
        return self._read(path, form, progress_wanted, captions=captions)

    def _read(
        self, path: str, form: Format | str | None, progress_wanted: bool, **options: Any
    ) -> Corpus:
        from robustruct.formats.corpus import read_corpus
        from robustruct.progress import Pace, progress

        pace = Pace()
        with progress(f"reading {path}", progress_wanted) as show:
            return read_corpus(
                path,
                form,
                encoding=self.encoding,
                watch=lambda lines, n: show(f"{n:,} samples", pace.left(lines.fraction)),
                **options,
            )

    def _columns(self) -> dict[str, Any]:
        options = {
            "template": self._read_template(),
            "label_column": self.label_column,
            "columns": self.columns,
            "weight_column": self.weight_column,
            "separator": self.separator,
        }
        return {name: value for name, value in options.items() if value is not None}

    def _read_template(self) -> Template | None:
        from robustruct.formats.templates import Template
        from robustruct.formats.text import Lines

        if self.template is None:
            return None
        with Lines(self.template, self.encoding) as lines:
            return Template.parse("\n".join(lines) + "\n", self.template)
