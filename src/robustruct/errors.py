"""Errors, in users' words: what was given, what is accepted, what to do next."""

from __future__ import annotations

import reprlib
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

__all__ = [
    "EngineError",
    "FileFormatError",
    "IncompatibleError",
    "InternalError",
    "InvalidInputError",
    "MissingDataError",
    "MissingExtraError",
    "RobustructError",
]

LONGEST_MESSAGE = 2000
"""Characters of a message: values that users pass can be of any length, and end up in it."""

# Levels and characters: enough to recognise a value by, in a message of a few lines.
_BRIEF = reprlib.Repr()
_BRIEF.maxlevel, _BRIEF.maxstring, _BRIEF.maxother, _BRIEF.maxlong = 3, 80, 80, 40


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside this package that called it, however deep the reason is."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("robustruct."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def shown(value: Any) -> str:
    """Return the ``repr`` of a value for a message; a long one loses its middle.

    >>> shown("a" * 1000)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'"
    >>> shown([1, 2])
    '[1, 2]'
    """
    try:
        text = _BRIEF.repr(value)
    except Exception:  # any repr may fail, such as one of a huge integer; a message must not
        text = f"a {type(value).__name__}"
    return _shortened(text, 200)


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = (limit - 40) // 2
    return f"{text[:half]} ... ({len(text) - 2 * half} characters) ... {text[-half:]}"


class RobustructError(Exception):
    """Base of every error this library raises on purpose; its message is never very long."""

    def __init__(self, message: str = "") -> None:
        super().__init__(_shortened(str(message), LONGEST_MESSAGE))


class InvalidInputError(RobustructError, ValueError):
    """The data or an argument cannot be used; the message names the sample and the field.

    Attributes
    ----------
    sample, node : int or None
        Index of the sample and node, from 0; None if the error is about neither.
    field : str or None
        Name of the argument, such as "X", "y" or "alpha".
    """

    def __init__(
        self,
        message: str,
        *,
        sample: int | None = None,
        node: int | None = None,
        field: str | None = None,
    ) -> None:
        super().__init__(message)
        self.sample = None if sample is None else int(sample)
        self.node = None if node is None else int(node)
        self.field = field

    def at(
        self,
        place: str,
        *,
        sample: int | None = None,
        node: int | None = None,
        field: str | None = None,
    ) -> InvalidInputError:
        """Return the error with its place put before the message, for callers that know it."""
        kind = InvalidTypeError if isinstance(self, TypeError) else InvalidInputError
        return kind(
            f"{place}: {self}",
            sample=self.sample if sample is None else sample,
            node=self.node if node is None else node,
            field=field or self.field,
        )


class InvalidTypeError(InvalidInputError, TypeError):
    """An argument has the wrong type."""


class IncompatibleError(RobustructError, ValueError):
    """Two valid arguments contradict each other, such as a solver and a graph it cannot handle."""


class MissingDataError(RobustructError, FileNotFoundError):
    """A data set was not found; the message says how to point to it."""


class EngineError(RobustructError, RuntimeError):
    """A cluster fails to do its work."""


class InternalError(RobustructError, RuntimeError):
    """The library contradicts itself: a defect of it, not of the input. Please report it."""


class MissingExtraError(RobustructError, ImportError):
    """An optional dependency is not installed; the message names the extra that brings it."""


class FileFormatError(InvalidInputError):
    """A file has wrong content; the message names the file and the line.

    Attributes
    ----------
    name : str
        Name of the file.
    line : int or None
    """

    def __init__(self, name: str, line: int | None, message: str, **fields: Any) -> None:
        place = name if line is None else f"{name}, line {line}"
        super().__init__(f"{place}: {message}", **fields)
        self.name, self.line = name, line
        self._message = message

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickle's default would call the class with the whole text as its only argument.
        return type(self), (self.name, self.line, self._message), vars(self)


@contextmanager
def errors_at_lines(name: str, lines: Sequence[int], *, validation: bool = False) -> Iterator[None]:
    """Turn errors about a sample into `FileFormatError` with its line.

    ``lines`` are the first lines of the samples; with ``validation``, of those of ``fit``'s
    argument "validation".
    """
    try:
        yield
    except FileFormatError:
        raise
    except InvalidInputError as error:
        if (error.field == "validation") != validation:
            raise
        sample = error.sample
        line = lines[sample] if sample is not None and sample < len(lines) else None
        fields = {"sample": sample, "node": error.node, "field": error.field}
        raise FileFormatError(name, line, str(error), **fields) from error
