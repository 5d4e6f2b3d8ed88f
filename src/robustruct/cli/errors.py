"""Exit codes of the command, and the errors that lead to them."""

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

# 2 is what typer itself exits with on wrong usage, 130 what shells report for SIGINT (128 + 2).
FAILED, USAGE, BAD_INPUT, INTERRUPTED = 1, 2, 3, 130

HELP = (
    "Exit codes: 0 done; 1 failed while running, such as a full disk or a cluster that does not "
    "answer; 2 wrong usage; 3 an input file is missing, damaged or does not fit; 130 interrupted."
)


class BadInputError(RobustructError):
    """An input file cannot be used."""


def exit_code(error: RobustructError) -> int:
    """Return the exit code of an error of the library."""
    if isinstance(error, EngineError):
        return FAILED
    bad_input = isinstance(error, BadInputError | FileFormatError | MissingDataError)
    return BAD_INPUT if bad_input else USAGE


@contextmanager
def ready(quiet: bool = False) -> Iterator[None]:
    """Load the models, then make Ctrl-C raise KeyboardInterrupt and show notes unless ``quiet``.

    Until then Ctrl-C ends the process at once (see ``__main__.py``).
    """
    import robustruct.models  # noqa: F401 (loads the core)

    # signal() may be called in the main thread only.
    ours = threading.current_thread() is threading.main_thread()
    if ours and signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    with notes(not quiet):
        yield


@contextmanager
def blamed_on_input() -> Iterator[None]:
    """Turn errors about arguments into `BadInputError`: they come from the input file."""
    try:
        yield
    except FileFormatError:
        raise
    except InvalidInputError as error:
        raise BadInputError(str(error)) from error
