"""What the benchmarks share: the clock, the machine they ran on, and how rows are printed."""

from __future__ import annotations

import gc
import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class Seconds(NamedTuple):
    """Time by the clock, and of the processor over all threads: the steadier of the two."""

    wall: float
    cpu: float

    def columns(self) -> dict[str, float]:
        """For a row of results."""
        return {"seconds": rounded(self.wall), "cpu_s": rounded(self.cpu)}


def timed(call: Callable[[], T]) -> tuple[T, Seconds]:
    """The result of a call, and the time it took."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    result = call()
    return result, Seconds(time.perf_counter() - wall, time.process_time() - cpu)


def best_time(call: Callable[[], object], repeat: int = 20, budget: float = float("inf")) -> float:
    """Seconds of the fastest call; repeats end when their sum exceeds the budget."""
    best, spent = float("inf"), 0.0
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        took = time.perf_counter() - start
        best = min(best, took)
        spent += took
        if spent > budget:
            break
    return best


def rounded(value: float, digits: int = 4) -> float:
    """With so many significant digits."""
    return float(f"{value:.{digits}g}")


def machine(*packages: str) -> dict[str, Any]:
    """Where the figures come from: versions, cores, and how busy the machine is already."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": cores,
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        **{name: version(name) for name in ("robustruct", "numpy", *packages)},
    }


def show(rows: Iterable[Mapping[str, Any]], about: Mapping[str, Any], as_json: bool) -> None:
    """Rows as JSON lines that repeat ``about``, or as a table under it."""
    rows = list(rows)
    if as_json:
        for row in rows:
            print(json.dumps({**row, **about}), flush=True)
        return
    print("\n" + ", ".join(f"{name} {value}" for name, value in about.items()) + "\n")
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = [columns, *([_cell(row.get(name)) for name in columns] for row in rows)]
    widths = [max(len(line[c]) for line in cells) for c in range(len(columns))]
    right = [all(not isinstance(row.get(name), str) for row in rows) for name in columns]
    rule = ["-" * (width - 1) + (":" if r else "-") for width, r in zip(widths, right, strict=True)]
    for line in (cells[0], rule, *cells[1:]):
        aligned = [
            cell.rjust(width) if r else cell.ljust(width)
            for cell, width, r in zip(line, widths, right, strict=True)
        ]
        print("| " + " | ".join(aligned) + " |", flush=True)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
