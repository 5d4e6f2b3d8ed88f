"""Runs work on all cores: ranges of samples with about equally many nodes, one per thread."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache, lru_cache
from typing import Any, TypeVar

import numpy as np

from robustruct.errors import InvalidInputError

T = TypeVar("T")

CACHE_FRIENDLY = 2**18  # float64 numbers, 2 MB: about the second-level cache of a core


def available_memory() -> float:
    """Return the bytes that this process may still take; inf if the system does not tell.

    A container may allow less than the machine has.
    """
    # The least of all limits that are known.
    free = [_machine_memory()]
    for limit, used, cached in _CONTAINERS:
        try:
            with open(limit) as most, open(used) as now, open(cached) as statistics:
                files = [line.split()[1] for line in statistics if line.startswith("inactive_file")]
                free.append(float(most.read()) - float(now.read()) + float(files[0]))
        except (OSError, ValueError, IndexError):  # no such limit, or the word "max"
            continue
    return max(0.0, min(free))


_GROUP = "/sys/fs/cgroup/memory"
_CONTAINERS = (
    (f"{_GROUP}.max", f"{_GROUP}.current", f"{_GROUP}.stat"),
    (f"{_GROUP}/memory.limit_in_bytes", f"{_GROUP}/memory.usage_in_bytes", f"{_GROUP}/memory.stat"),
)
"""Control groups of version 2 and 1: files with the limit, the usage, and statistics of it, where
``inactive_file`` is page cache that the system drops when memory is short."""


def _machine_memory() -> float:
    try:
        with open("/proc/meminfo") as file:
            said = dict(line.split(":") for line in file)
        return 1024.0 * sum(int(said[name].split()[0]) for name in ("MemAvailable", "SwapFree"))
    except (OSError, ValueError, KeyError, IndexError):
        pass
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):  # Windows
        return float("inf")


MOST = 64  # threads, unless there are more cores: each takes memory, and most would only wait


def n_threads(n_jobs: int | None) -> int:
    """Return the number of threads of ``n_jobs``: None is one, -1 all cores, -2 all but one."""
    if n_jobs is None:
        return 1
    if n_jobs == 0:
        raise InvalidInputError(
            "n_jobs = 0 means nothing; use 1 for one thread or -1 for all cores."
        )
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return min(n_jobs, max(MOST, cores)) if n_jobs > 0 else max(1, cores + 1 + n_jobs)


def stretches(n_rows: int, n_columns: int) -> list[tuple[int, int]]:
    """Split rows into ranges (first, last) of at most CACHE_FRIENDLY numbers."""
    step = max(1, CACHE_FRIENDLY // max(1, n_columns))
    return [(first, min(first + step, n_rows)) for first in range(0, n_rows, step)]


def over_samples(
    work: Callable[..., T], node_offsets: np.ndarray, n_jobs: int | None = -1, *arguments: Any
) -> list[T]:
    """Call ``work(first, last, *arguments)`` on ranges of samples that cover the batch.

    Results are in order. Threads help only if ``work`` releases the GIL, as every kernel does.
    """
    n_samples = len(node_offsets) - 1
    # A thread pays off from a few thousand nodes; below that, starting it costs more.
    most = min(n_samples, 1 + int(node_offsets[-1]) // 2000)
    wanted = 1 if most == 1 and n_jobs != 0 else min(n_threads(n_jobs), most)
    if wanted == 1:
        return [work(0, n_samples, *arguments)]
    goals = np.linspace(0, node_offsets[-1], wanted + 1)[1:-1]
    cuts = np.unique([0, *np.searchsorted(node_offsets, goals), n_samples])
    ranges = zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)
    return together(work, [(first, last, *arguments) for first, last in ranges])


def over_pieces(
    work: Callable[[int, int], T], pieces: Sequence[tuple[int, int]], n_jobs: int | None = -1
) -> list[T]:
    """Call ``work(first, last)`` for each of the pieces; results in order."""
    if len(pieces) == 1 and n_jobs != 0:
        return [work(*pieces[0])]
    threads = min(n_threads(n_jobs), len(pieces))

    def some(t: int) -> list[T]:
        return [work(*piece) for piece in pieces[t::threads]]

    by_thread = together(some, [(t,) for t in range(threads)]) if threads else []
    return [by_thread[i % threads][i // threads] for i in range(len(pieces))]


def over_ranges(work: Callable[[slice], T], length: int, n_jobs: int | None = -1) -> list[T]:
    """Call ``work(range)`` on ranges that cover vectors of this length; results in order."""
    # On fewer than about 500,000 numbers (4 MB) a thread costs more than it saves.
    wanted = min(n_threads(n_jobs), 1 + length // 500_000)
    cuts = [length * t // wanted for t in range(wanted + 1)]
    return together(work, [(slice(*cuts[t : t + 2]),) for t in range(wanted)])


def together(work: Callable[..., T], calls: Sequence[tuple[Any, ...]]) -> list[T]:
    """Call ``work(*arguments)`` for each of the calls, in parallel; results in order."""
    if len(calls) == 1:
        return [work(*calls[0])]
    others = [_pool(len(calls) - 1).submit(work, *call) for call in calls[1:]]
    try:
        first = work(*calls[0])  # this thread works instead of waiting
    finally:
        for other in others:  # the caller may reuse the arrays, so all must have ended
            other.exception()
    return [first, *(other.result() for other in others)]


def one_blas_thread() -> AbstractContextManager[Any]:
    """While entered, BLAS uses one thread, as our own threads use the cores."""
    return _blas(len(sys.modules)).limit(limits=1, user_api="blas")


@lru_cache(maxsize=1)
def _blas(n_modules: int) -> Any:
    """Find the loaded BLAS libraries, which takes longer than a small fit.

    A module loaded since may bring another one, so the number of modules is the key.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@cache
def _pool(size: int) -> ThreadPoolExecutor:
    """Return a pool of threads, which are reused: starting one may take longer than its work."""
    return ThreadPoolExecutor(size, "robustruct")


if hasattr(os, "register_at_fork"):  # threads do not survive a fork
    os.register_at_fork(after_in_child=_pool.cache_clear)
