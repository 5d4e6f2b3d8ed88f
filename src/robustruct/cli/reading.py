"""Labelled files as data, with progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from robustruct.formats.corpus import Corpus
    from robustruct.formats.sample import Format
    from robustruct.formats.templates import Template


def read_data(
    path: str,
    form: Format | str | None,
    encoding: str,
    progress_wanted: bool,
    **options: Any,
) -> Corpus:
    """The samples of a file; ``options`` as for `read_corpus`, None stands for a default."""
    from robustruct.formats.corpus import read_corpus
    from robustruct.progress import Pace, progress

    pace = Pace()
    given = {name: value for name, value in options.items() if value is not None}
    with progress(f"reading {path}", progress_wanted) as show:
        return read_corpus(
            path,
            form,
            encoding=encoding,
            watch=lambda lines, n: show(f"{n:,} samples", pace.left(lines.fraction)),
            **given,
        )


def read_template(path: str | None, encoding: str) -> Template | None:
    """The template in a file, if one is given."""
    from robustruct.formats.templates import Template
    from robustruct.formats.text import Lines

    if path is None:
        return None
    with Lines(path, encoding) as lines:
        return Template.parse("\n".join(lines) + "\n", path)
