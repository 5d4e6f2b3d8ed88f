"""Where the real data sets are, and how their files are read."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from robustruct.errors import InvalidInputError, MissingDataError

DataHome = str | os.PathLike[str] | None

VARIABLE = "ROBUSTRUCT_DATA"


def data_file(path: str, contents: str, data_home: DataHome) -> Path:
    """The file ``path`` below the data folder, or an error that says how to point to it."""
    home = data_home if data_home is not None else os.environ.get(VARIABLE)
    if not home:
        raise MissingDataError(
            f"{path} ({contents}) is not part of the package. Set the environment variable "
            f"{VARIABLE} to the folder that holds it, or pass data_home=..."
        )
    file = Path(home) / path
    if not file.is_file():
        source = "data_home" if data_home is not None else VARIABLE
        raise MissingDataError(
            f"{file} does not exist; it should hold {contents}. Put the file there, or point "
            f"{source} (now {str(home)!r}) to the folder that contains {path}."
        )
    return file


def checked_choice(value: str, choices: Iterable[str], field: str) -> str:
    """``value`` if it is one of ``choices``, else an error that lists them."""
    allowed = list(choices)
    if value not in allowed:
        raise InvalidInputError(
            f"{field}={value!r} is not available; use {' or '.join(map(repr, allowed))}."
        )
    return value


def gzip_lines(file: Path) -> Iterator[str]:
    """Lines of a compressed UTF-8 text, without their ends."""
    with gzip.open(file, "rt", encoding="utf-8", newline="\n") as stream:
        for line in stream:
            yield line.rstrip("\n")


def gzip_sentences(
    file: Path, separator: str, n_columns: int, comment: str | None = None
) -> Iterator[list[list[str]]]:
    """Sentences of a column file: rows of ``n_columns`` fields, blank lines in between.

    Lines that start with ``comment`` are left out; by default none are, for a word may be ``#``.
    """
    rows: list[list[str]] = []
    for number, line in enumerate(gzip_lines(file), start=1):
        if comment is not None and line.startswith(comment):
            continue
        if line:
            fields = line.split(separator)
            if len(fields) != n_columns:
                raise InvalidInputError(
                    f"{file}, line {number}: {len(fields)} columns instead of {n_columns}; "
                    "the file is damaged or of another format, fetch it again."
                )
            rows.append(fields)
        elif rows:
            yield rows
            rows = []
    if rows:
        yield rows
