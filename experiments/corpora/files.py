"""Where the real data sets are, and how their files are read."""

from __future__ import annotations

import os
from collections.abc import Iterable
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
