"""What goes wrong, in the user's words: what was given, what is accepted, what to do next."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


class RobustructError(Exception):
    """Base of every error this library raises on purpose."""


class InvalidInputError(RobustructError, ValueError):
    """The data or an argument cannot be used; the message names the sample and the field."""


class IncompatibleError(RobustructError, ValueError):
    """Two valid things do not go together, such as a solver and a graph it cannot handle."""


class MissingDataError(RobustructError, FileNotFoundError):
    """A data set is not where it was looked for; the message says how to point to it."""


class EngineError(RobustructError, RuntimeError):
    """A cluster does not do its work."""


class InternalError(RobustructError, RuntimeError):
    """The library contradicts itself: a defect of it, not of the input. Please report it."""


class MissingExtraError(RobustructError, ImportError):
    """An optional dependency is not installed; the message names the extra that brings it."""


class FileFormatError(InvalidInputError):
    """A file holds something else than it should; the message names the file and the line."""

    def __init__(self, name: str, line: int | None, message: str) -> None:
        place = name if line is None else f"{name}, line {line}"
        super().__init__(f"{place}: {message}")
        self._parts = name, line, message

    def __reduce__(self) -> tuple[Any, ...]:
        # By itself pickle would call the class with the whole text as its only argument.
        return type(self), self._parts


@contextmanager
def blamed_on_lines(name: str, lines: Sequence[int]) -> Iterator[None]:
    """What is refused inside is the fault of a file, and of the sample that the message names.

    ``lines`` are the first lines of the samples.
    """
    try:
        yield
    except FileFormatError:
        raise
    except InvalidInputError as error:
        found = re.search(r"sample (\d+)|y\[(\d+)\]", str(error))
        sample = len(lines) if found is None else int(found[1] or found[2])
        line = lines[sample] if sample < len(lines) else None
        raise FileFormatError(name, line, str(error)) from error
