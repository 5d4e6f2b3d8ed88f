"""Progress on stderr: one updated line on a terminal, plain lines at intervals elsewhere.

Nothing is written to stdout, which may be piped into another program.
"""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Show = Callable[[str, float | None], None]
"""Called with the state in words and the seconds left, or None."""

EVERY = 5.0  # seconds between plain lines: often enough to show life, seldom enough for a log

LOG = logging.getLogger("robustruct")

_asked: list[bool] = []  # stack of the arguments of `notes` contexts, which may be nested


@contextmanager
def notes(wanted: bool) -> Iterator[None]:
    """While entered, show notes or not; this overrides `_somebody_watches`."""
    _asked.append(wanted)
    try:
        yield
    finally:
        # Not pop(): contexts of several threads end in any order.
        _asked.remove(wanted)


def note(text: str) -> None:
    """Print a note on stderr if wanted, by default on a terminal or in a notebook, else log it.

    By default Python does not show the log at level INFO.
    """
    if sys.stderr is not None and (any(_asked) if _asked else _somebody_watches()):
        print(f"robustruct: {text}", file=sys.stderr, flush=True)
    else:
        LOG.info("%s", text)


def _somebody_watches() -> bool:
    """Return whether stderr is a terminal or Python interactive, as in notebooks (sys.ps1)."""
    return sys.stderr.isatty() or hasattr(sys, "ps1")


@contextmanager
def progress(title: str, wanted: bool = True) -> Iterator[Show]:
    """Yield a function that shows the state of some work; it does nothing unless ``wanted``."""
    if not wanted:
        yield lambda state, left: None
        return
    with notes(True), _shown(title) as show:
        yield show


@contextmanager
def _shown(title: str) -> Iterator[Show]:
    if not sys.stderr.isatty():
        yield _lines(title)
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TextColumn("{task.fields[state]}", markup=False),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, state="starting", left="")

        def show(state: str, left: float | None) -> None:
            bar.update(task, state=state, left="" if left is None else f"{duration(left)} left")

        yield show


@contextmanager
def fit_progress(
    model: str, wanted: bool | int, tol: float, max_iter: int
) -> Iterator[Callable[[int, float, str], None]]:
    """Yield a function to call after each pass with its number, the relative gap, and a suffix."""
    pace = GapPace(tol, max_iter)
    with progress(f"{model} training", bool(wanted)) as show:

        def tick(n_iter: int, gap: float, by_whom: str) -> None:
            state = f"pass {n_iter} of at most {max_iter}, gap {gap:.2%} (goal {tol:.2%}){by_whom}"
            show(state, pace.left(n_iter, gap))

        yield tick


@contextmanager
def shards_progress(
    model: str, wanted: bool | int, n_shards: int
) -> Iterator[Callable[[str], None]]:
    """Yield a function to call with the name of each stage of the work on shards."""
    with progress(f"{model} on {n_shards} shards", bool(wanted)) as show:
        yield lambda work: show(work, None)


def _lines(title: str) -> Show:
    shown: float | None = None

    def show(state: str, left: float | None) -> None:
        nonlocal shown
        now = time.monotonic()
        if shown is None or now - shown >= EVERY:
            shown = now
            rest = "" if left is None else f", {duration(left)} left"
            print(f"{title}: {state}{rest}", file=sys.stderr, flush=True)

    return show


def duration(seconds: float) -> str:
    """Format seconds briefly: 8 s, 2 min, 3 h.

    >>> duration(100)
    '2 min'
    """
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= 0.95 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


class Pace:
    """Estimates the time left from the fraction of the work that is done."""

    def __init__(self) -> None:
        self.started = time.monotonic()

    def left(self, done: float | None) -> float | None:
        """Return the seconds left after a fraction ``done``; None in the first half second."""
        spent = time.monotonic() - self.started
        if done is None or not 0 < done < 1 or spent < 0.5:
            return None
        return spent * (1 - done) / done


class GapPace:
    """Estimates the time left of a fit, if the gap shrinks geometrically."""

    def __init__(self, tol: float, max_iter: int) -> None:
        self.tol, self.max_iter = tol, max_iter
        self.pace = Pace()
        self.seen: list[tuple[float, float]] = []

    def left(self, n_iter: int, gap: float) -> float | None:
        """Return the seconds to the goal, at most to the last pass; None if it cannot be told."""
        last_pass = self.pace.left(n_iter / self.max_iter)
        if not 0 < gap < math.inf or last_pass is None:
            return last_pass
        if gap <= self.tol:
            return 0.0
        now = time.monotonic() - self.pace.started
        self.seen.append((now, math.log(gap)))
        # The rate over the second half of the time: gaps shrink irregularly at first.
        then, before = next(
            (point for point in reversed(self.seen) if point[0] <= now / 2), self.seen[0]
        )
        shrunk = before - math.log(gap)
        if now <= then or shrunk <= 0:
            return None
        return min(last_pass, (now - then) * math.log(gap / self.tol) / shrunk)
