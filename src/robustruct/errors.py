"""What goes wrong, in the user's words: what was given, what is accepted, what to do next."""


class RobustructError(Exception):
    """Base of every error this library raises on purpose."""


class InvalidInputError(RobustructError, ValueError):
    """The data or an argument cannot be used; the message names the sample and the field."""


class IncompatibleError(RobustructError, ValueError):
    """Two valid things do not go together, such as a solver and a graph it cannot handle."""


class MissingDataError(RobustructError, FileNotFoundError):
    """A data set is not where it was looked for; the message says how to point to it."""


class MissingExtraError(RobustructError, ImportError):
    """An optional dependency is not installed; the message names the extra that brings it."""


class FileFormatError(InvalidInputError):
    """A file holds something else than it should; the message names the file and the line."""

    def __init__(self, name: str, line: int | None, message: str) -> None:
        place = name if line is None else f"{name}, line {line}"
        super().__init__(f"{place}: {message}")
