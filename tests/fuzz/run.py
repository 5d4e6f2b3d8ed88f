"""Fuzzing, the long form: ``python tests/fuzz/run.py --cases 1000000 --seed 0``.

Cases go round the targets of ``readers.py`` and ``arrays.py``. Case i of a target depends on the
seed, the target and i alone, so that ``--only TARGET:CASE`` shows a violation again. A case
violates what is promised if it raises anything but an error of robustruct that blames the input, if
its message is longer than a screen, or if it takes more time or memory than so small an input may.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import os
import resource
import shutil
import signal
import sys
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import numpy as np
import readers

from robustruct.errors import InternalError, RobustructError

try:
    import arrays
except ModuleNotFoundError as error:
    if error.name != "arrays":
        raise
    arrays = None  # type: ignore[assignment]

TARGETS: dict[str, Callable[[np.random.Generator], None]] = {
    **readers.TARGETS,
    **(arrays.TARGETS if arrays is not None else {}),
}
if arrays is not None:
    assert not readers.TARGETS.keys() & arrays.TARGETS.keys(), "one would hide the other"

SECONDS = 5.0  # of the processor, for one case that has nothing to compile
MEBIBYTES = 128  # that one case may need on top of what the process has
CHARACTERS = 2000  # of a message


class Violation(Exception):
    """What a case must not do."""


def generator(seed: int, target: str, case: int) -> np.random.Generator:
    """The generator of one case."""
    return np.random.default_rng([seed, zlib.crc32(target.encode()), case])


class Waste(Violation):
    """Too much time or memory, of which compiling takes some too."""


def run_case(seed: int, target: str, case: int) -> str:
    """ "read" or "refused"; raises what is a violation."""
    try:
        return _run_once(seed, target, case)
    except Waste:
        return _run_once(seed, target, case)  # by now all is compiled


def _run_once(seed: int, target: str, case: int) -> str:
    _forget_peak()
    peak, started = _peak(), time.process_time()
    outcome = "read"
    with _alarm(20 * SECONDS):
        try:
            TARGETS[target](generator(seed, target, case))
        except InternalError:
            raise  # the library contradicts itself
        except RobustructError as error:
            outcome = "refused"
            if len(str(error)) > CHARACTERS:
                raise Violation(f"a message of {len(str(error))} characters") from error
    seconds, grown = time.process_time() - started, _peak() - peak
    if seconds > SECONDS:
        raise Waste(f"{seconds:.1f} s of the processor")
    if grown > MEBIBYTES:
        raise Waste(f"{grown:.0f} MiB of memory")
    return outcome


def _forget_peak() -> None:
    """From now on `_peak` is about what comes; where the system cannot do that, about all."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def _peak() -> float:
    """The most memory that was in use, in MiB."""
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """What takes longer is stopped."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Waste(f"stopped after {seconds:.0f} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


class Journal:
    """The case at work, in a file that is still there after a crash; and what went wrong."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.file = os.open(folder / "at-work", os.O_RDWR | os.O_CREAT | os.O_TRUNC)

    def begin(self, target: str, case: int) -> None:
        os.pwrite(self.file, f"{target}:{case}".ljust(60).encode(), 0)

    def violated(self, seed: int, target: str, case: int) -> None:
        """Save the input and the trace."""
        place = self.folder / f"{target}-{seed}-{case}"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(readers.WORK, place)
        trace = traceback.format_exc()
        (place / "trace.txt").write_text(trace, encoding="utf-8", errors="backslashreplace")
        last = trace.strip().splitlines()[-1]
        print(f"VIOLATION {target}:{case} (seed {seed}): {last[:200]!a}; see {place}", flush=True)


def run(seed: int, cases: int, names: list[str], folder: Path, every: float = 60.0) -> Counter:
    """All cases; counts of (target, outcome)."""
    counts: Counter[tuple[str, str]] = Counter()
    spent: Counter[str] = Counter()
    journal, shown = Journal(folder), time.monotonic()
    for number in range(cases):
        target, case = names[number % len(names)], number // len(names)
        journal.begin(target, case)
        started = time.perf_counter()
        try:
            outcome = run_case(seed, target, case)
        except KeyboardInterrupt:
            break
        except BaseException:
            outcome = "violated"
            journal.violated(seed, target, case)
        counts[target, outcome] += 1
        spent[target] += time.perf_counter() - started
        if time.monotonic() - shown > every:
            shown = time.monotonic()
            print(f"{number + 1:,} cases, {violations(counts)} violations", flush=True)
    print(f"{'target':24}{'read':>10}{'refused':>10}{'violated':>10}{'ms a case':>11}")
    for name in names:
        done = [counts[name, outcome] for outcome in ("read", "refused", "violated")]
        pace = 1000 * spent[name] / max(1, sum(done))
        print(f"{name:24}{done[0]:10,}{done[1]:10,}{done[2]:10,}{pace:11.2f}")
    print(f"{sum(counts.values()):,} cases, seed {seed}: {violations(counts)} violations")
    return counts


def violations(counts: Counter) -> int:
    """How many cases were violations."""
    return sum(n for (_, outcome), n in counts.items() if outcome == "violated")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=10_000, help="of all targets together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--targets", help="names, separated by commas; by default all")
    parser.add_argument(
        "--only", metavar="TARGET:CASE", help="run one case and show what it raises"
    )
    parser.add_argument("--keep", type=Path, default=Path("fuzz-violations"), help="a folder")
    given = parser.parse_args()
    faulthandler.enable()
    if given.only:
        target, _, case = given.only.rpartition(":")
        print(run_case(given.seed, target, int(case)), readers.WORK)
        return 0
    names = given.targets.split(",") if given.targets else list(TARGETS)
    unknown = sorted(set(names) - set(TARGETS))
    if unknown:
        parser.error(f"no target {unknown[0]}; there are {', '.join(TARGETS)}")
    return int(violations(run(given.seed, given.cases, names, given.keep)) > 0)


if __name__ == "__main__":
    sys.exit(main())
