"""What goes wrong, in the user's words: what was given, what is accepted, what to do next."""

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
"""Characters; what users pass can be of any length, and ends up in messages."""

_BRIEF = reprlib.Repr()
_BRIEF.maxlevel, _BRIEF.maxstring, _BRIEF.maxother, _BRIEF.maxlong = 3, 80, 80, 40


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the caller of this package, however deep in it the reason was found."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("robustruct."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def shown(value: Any) -> str:
    """A value as a message shows it: its ``repr``, of which a long one loses its middle.

    >>> shown("a" * 1000)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'"
    >>> shown([1, 2])
    '[1, 2]'
    """
    try:
        text = _BRIEF.repr(value)
    except Exception:  # as for integers of many digits; a message must not fail
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
        Which ones, counted from 0; None where it is not about one.
    field : str or None
        Which argument, such as "X", "y" or "alpha".
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
        """The same complaint with its place before it, for who knows more about that."""
        kind = InvalidTypeError if isinstance(self, TypeError) else InvalidInputError
        return kind(
            f"{place}: {self}",
            sample=self.sample if sample is None else sample,
            node=self.node if node is None else node,
            field=field or self.field,
        )


class InvalidTypeError(InvalidInputError, TypeError):
    """The same, where values of another type are expected."""


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
    """A file holds something else than it should; the message names the file and the line.

    Attributes
    ----------
    name : str
        Of the file.
    line : int or None
    """

    def __init__(self, name: str, line: int | None, message: str, **fields: Any) -> None:
        place = name if line is None else f"{name}, line {line}"
        super().__init__(f"{place}: {message}", **fields)
        self.name, self.line = name, line
        self._message = message

    def __reduce__(self) -> tuple[Any, ...]:
        # By itself pickle would call the class with the whole text as its only argument.
        return type(self), (self.name, self.line, self._message), vars(self)


@contextmanager
def errors_at_lines(name: str, lines: Sequence[int], *, validation: bool = False) -> Iterator[None]:
    """What is refused inside is the fault of a file, and of the sample that the error names.

    ``lines`` are the first lines of the samples, which are those of the field "validation" or the
    others.
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
