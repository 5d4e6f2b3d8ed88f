"""The command ``robustruct``, also as ``python -m robustruct``.

Loading what it needs can take a second. Libraries turn an interrupt in that time into errors of
their own, so until the work begins (`robustruct.cli.errors.ready`), and again when it is over,
Ctrl-C just ends the process, as it does with any program that has nothing to clean up.
"""

import os
import signal
import sys

INTERRUPTED = 130  # 128 + SIGINT: what shells give a command that Ctrl-C has ended


def main() -> None:
    """Load the command and run it."""
    _end_on_interrupt()
    _open_closed_streams()
    try:
        from robustruct.cli.app import main as run

        run()
    except KeyboardInterrupt:
        print("robustruct: interrupted.", file=sys.stderr)
        sys.exit(INTERRUPTED)
    finally:
        _end_on_interrupt()


def _end_on_interrupt() -> None:
    """Unless whoever started us wants interrupts ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _open_closed_streams() -> None:
    """Keep the numbers of streams that were closed (``>&-``) from being given to other files."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    if sys.stderr is None:  # print(file=None) would write to standard output
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (for as long as we live)


if __name__ == "__main__":
    main()
