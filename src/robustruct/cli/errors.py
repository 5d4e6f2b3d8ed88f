"""Exit codes of the command, and what leads to them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from robustruct.errors import (
    EngineError,
    FileFormatError,
    InvalidInputError,
    MissingDataError,
    RobustructError,
)
from robustruct.progress import notes

FAILED, USAGE, BAD_INPUT, INTERRUPTED = 1, 2, 3, 130

HELP = (
    "Exit codes: 0 done; 1 failed while running, such as a full disk or a cluster that does not "
    "answer; 2 wrong usage; 3 an input file is missing, damaged or does not fit; 130 interrupted."
)


class BadInputError(RobustructError):
    """An input file cannot be used."""


def exit_code(error: RobustructError) -> int:
    """The exit code that an error of the library leads to."""
    if isinstance(error, EngineError):
        return FAILED
    bad_input = isinstance(error, BadInputError | FileFormatError | MissingDataError)
    return BAD_INPUT if bad_input else USAGE


@contextmanager
def ready(quiet: bool = False) -> Iterator[None]:
    """Load what takes long; from then on an interrupt is an exception that can be answered.

    Within, what the library has to note is shown unless ``quiet``.
    """
    import robustruct.models  # noqa: F401 (brings the compiler with it)

    ours = threading.current_thread() is threading.main_thread()
    if ours and signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    with notes(not quiet):
        yield


@contextmanager
def blamed_on_input() -> Iterator[None]:
    """What the library refuses inside is the input's fault."""
    try:
        yield
    except FileFormatError:
        raise
    except InvalidInputError as error:
        raise BadInputError(str(error)) from error
