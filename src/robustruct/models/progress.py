"""A progress bar with the gap for long fits; plain lines where there is no terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Tick = Callable[[int, float], None]


@contextmanager
def display(verbose: int, title: str, max_iter: int, tol: float) -> Iterator[Tick | None]:
    """Yields what to call after each pass, or None when nothing is to be shown."""
    if not verbose:
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(console, title, tol)
        return
    columns = (
        TextColumn("{task.description}"),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(title, state="compiling")

        def tick(n_iter: int, gap: float) -> None:
            bar.update(
                task, state=f"pass {n_iter} of at most {max_iter}  gap {gap:.2%}, wanted {tol:.2%}"
            )

        yield tick


def _lines(console: object, title: str, tol: float) -> Tick:
    last = time.monotonic()

    def tick(n_iter: int, gap: float) -> None:
        nonlocal last
        if n_iter == 1 or time.monotonic() - last >= 5:
            last = time.monotonic()
            console.print(f"{title}: pass {n_iter}, gap {gap:.2%}, wanted {tol:.2%}")  # type: ignore[attr-defined]

    return tick
