"""What all experiments share: options, finished pieces that survive a crash, all cores, statistics.

An experiment is a list of independent pieces of work, each named by a small dict such as
``{"split": 3, "loss": "absolute", "model": "AGM"}``, and a function that turns such a key into a
result that fits into JSON. `Experiment.run` spreads the pieces over all cores and writes each
result down as soon as it is there; with ``--resume`` finished pieces are not computed again.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one process per core already fills them

import argparse
import functools
import hashlib
import json
import multiprocessing
import platform
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from scipy.stats import wilcoxon

import robustruct
from robustruct import AGM, CRF, SSVM
from tables import Table

Key = dict[str, Any]
Result = dict[str, Any]

KINDS = {"AGM": AGM, "CRF": CRF, "SSVM": SSVM}
SIGNIFICANCE = 0.05
ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("numpy", "scipy", "scikit-learn")
SECONDS_BETWEEN_LINES = 10.0  # of progress, when nobody watches a terminal


def options(name: str, description: str | None) -> argparse.ArgumentParser:
    """The options every experiment has; add your own to the parser returned."""
    parser = argparse.ArgumentParser(
        prog=f"python experiments/{name}.py",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(name=name)
    parser.add_argument("--json", metavar="PATH", help="results (default: results/NAME.json)")
    parser.add_argument("--figure", metavar="PATH", help="figure (default: results/NAME.svg)")
    parser.add_argument("--resume", action="store_true", help="keep pieces finished earlier")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (all cores)")
    parser.add_argument("--limit", type=int, metavar="N", help="at most N samples: a quick look")
    parser.add_argument("--results", type=Path, default=Path("results"), help="output folder")
    return parser


class Experiment:
    """Options given and settings fixed: runs pieces, keeps results, writes the report.

    Parameters
    ----------
    args : Namespace
        From `options`.
    settings : dict
        Everything that a result depends on and its key does not say, such as tolerances and
        ``args.limit``. Results of other settings are kept in another file.
    """

    def __init__(self, args: argparse.Namespace, settings: dict[str, Any]) -> None:
        self.args = args
        self.settings = {"robustruct": robustruct.__version__} | settings
        self.started = time.perf_counter()
        self.store = Store(args.results, args.name, self.settings, resume=args.resume)
        self.keys: list[Key] = []  # of the pieces that this run rests on

    def run(self, work: Callable[[Key], Result], keys: Iterable[Key], what: str) -> list[Result]:
        """Results of all keys, in their order; computes what is not finished yet.

        ``work`` must be a function of a module, or a partial of one, since other processes call it.
        Each result gets ``"seconds"``, ``"cpu_seconds"`` and the key's entries beside its own.
        """
        keys = list(keys)
        self.keys += keys
        missing = [key for key in keys if key not in self.store]
        try:
            with Pieces(what, len(keys), len(keys) - len(missing)) as advance:
                for line in _computed(work, missing, self.args.jobs):
                    self.store.add(line | {"commit": commit()})
                    advance()
        except KeyboardInterrupt:
            done = sum(key in self.store for key in keys)
            print(
                f"\ninterrupted; {done} of {len(keys)} pieces ({what}) are kept in "
                f"{self.store.file}. Go on with --resume.",
                file=sys.stderr,
            )
            raise SystemExit(130) from None
        return [self.store[key] for key in keys]

    def about(self) -> dict[str, Any]:
        """Command, commit, versions, machine and time: what it takes to do this again."""
        lines = [self.store.lines[_text(key)] for key in self.keys]
        return {
            "command": command(),
            "commit": commit(),
            "pieces_of_commits": sorted({line["commit"] for line in lines}),
            "date": datetime.now(UTC).strftime("%Y-%m-%d"),
            "versions": {"python": platform.python_version(), "robustruct": robustruct.__version__}
            | {package: version(package) for package in PACKAGES},
            "machine": machine(),
            "jobs": self.args.jobs,
            "seconds": round(time.perf_counter() - self.started, 1),
            # On a busy machine the clock says little; pieces of earlier runs count here too.
            "cpu_seconds": round(sum(line["result"].get("cpu_seconds", 0) for line in lines), 1),
        }

    def report(self, tables: Sequence[Table], results: Any) -> None:
        """Print the tables, and write them with all results and circumstances as JSON."""
        about = self.about()
        console = Console(width=None if sys.stdout.isatty() else 120)
        for table in tables:
            console.print(table.rich(), "")
        console.print(
            f"{about['seconds']:.0f} s ({about['cpu_seconds']:.0f} s of processor time in "
            f"{about['jobs']} processes), {about['machine']}, commit {about['commit']}",
            highlight=False,
        )
        whole = {
            "experiment": self.args.name,
            "about": about,
            "settings": self.settings,
            "tables": [table.markdown() for table in tables],
            "results": results,
        }
        self.json_file.parent.mkdir(parents=True, exist_ok=True)
        self.json_file.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
        console.print(f"written: {self.json_file}", highlight=False)

    @property
    def json_file(self) -> Path:
        return Path(self.args.json or self.args.results / f"{self.args.name}.json")

    @property
    def figure_file(self) -> Path:
        """Where the figure goes; the folder exists."""
        file = Path(self.args.figure or self.args.results / f"{self.args.name}.svg")
        file.parent.mkdir(parents=True, exist_ok=True)
        return file


class Store:
    """Finished pieces in a file of JSON lines, one file for each choice of settings.

    The settings are the first line and, as a fingerprint, part of the name: a stale file is never
    mixed in. Every line is flushed, and a last line cut off by a crash is dropped.
    """

    def __init__(self, folder: Path, name: str, settings: dict[str, Any], *, resume: bool) -> None:
        first = _text({"settings": settings})
        fingerprint = hashlib.sha256(first.encode()).hexdigest()[:8]
        self.file = Path(folder) / f"{name}-{fingerprint}.jsonl"
        self.lines: dict[str, dict[str, Any]] = {}
        if resume and self.file.exists():
            self.lines = {_text(line["key"]): line for line in self._whole_lines(first)}
        elif self.file.exists():
            self.file.replace(self.file.with_suffix(".jsonl.old"))
        self.file.parent.mkdir(parents=True, exist_ok=True)
        kept = [first, *map(_text, self.lines.values())]
        self.file.write_text("".join(line + "\n" for line in kept), encoding="utf-8")

    def _whole_lines(self, first: str) -> Iterator[dict[str, Any]]:
        settings, *lines = self.file.read_text(encoding="utf-8").split("\n")[:-1]
        if settings != first:
            raise SystemExit(f"{self.file} holds results of other settings; move it away.")
        for line in lines:
            yield json.loads(line)

    def __contains__(self, key: Key) -> bool:
        return _text(key) in self.lines

    def __getitem__(self, key: Key) -> Result:
        return key | self.lines[_text(key)]["result"]

    def add(self, line: dict[str, Any]) -> None:
        """Keep ``{"key": ..., "result": ..., ...}``."""
        text = _text(line)
        # What a resumed run reads back is what this run goes on with.
        self.lines[_text(line["key"])] = json.loads(text)
        with self.file.open("a", encoding="utf-8") as stream:
            stream.write(text + "\n")


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{value!r} ({type(value).__name__}) does not fit into JSON")


# ------------------------------------------------------------------------------------- processes


def _computed(
    work: Callable[[Key], Result], keys: Sequence[Key], jobs: int
) -> Iterator[dict[str, Any]]:
    """Lines for the store, as they are finished."""
    timed = functools.partial(_timed, work)
    if jobs == 1 or len(keys) <= 1:
        yield from map(timed, keys)
        return
    context = multiprocessing.get_context("spawn")  # threads and compiled code do not fork well
    # Workers inherit that Ctrl-C is not for them: this process ends them.
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    pool = context.Pool(min(jobs, len(keys)))
    signal.signal(signal.SIGINT, handler)
    with pool:
        yield from pool.imap_unordered(timed, keys)


def _timed(work: Callable[[Key], Result], key: Key) -> dict[str, Any]:
    start, cpu = time.perf_counter(), time.process_time()
    result = work(key)
    times = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}
    return {"key": key, "result": result | {name: round(t, 3) for name, t in times.items()}}


class Pieces:
    """Bar with pieces done and time left; plain lines where there is no terminal."""

    def __init__(self, what: str, total: int, done: int) -> None:
        self.what, self.total, self.done, self.before = what, total, done, done
        self.start = self.last = time.perf_counter()
        console = Console(stderr=True)
        self.bar = None
        if console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
            self.bar = Progress(*columns, TimeRemainingColumn(), console=console)

    def __enter__(self) -> Callable[[], None]:
        if self.bar is not None:
            self.bar.start()
            self.task = self.bar.add_task(self.what, total=self.total, completed=self.done)
        elif self.before:
            print(f"{self.what}: {self.before} of {self.total} were done", file=sys.stderr)
        return self.advance

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def advance(self) -> None:
        """One more piece is done."""
        self.done += 1
        if self.bar is not None:
            self.bar.advance(self.task)
            return
        now = time.perf_counter()
        if self.done == self.total or now - self.last >= SECONDS_BETWEEN_LINES:
            self.last = now
            left = (now - self.start) / (self.done - self.before) * (self.total - self.done)
            line = f"{self.what}: {self.done} of {self.total}, about {left:.0f} s left"
            print(line, file=sys.stderr, flush=True)


# ------------------------------------------------------------------------------------ statistics


def mean_and_error(values: Any) -> tuple[float, float]:
    """Mean and its standard error."""
    values = np.asarray(values, float)
    if len(values) < 2:
        return float(values.mean()), float("nan")
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def wilcoxon_p(first: Any, second: Any) -> float:
    """p-value of the two-sided Wilcoxon signed-rank test on paired values; 1 if all are equal."""
    difference = np.asarray(first, float) - np.asarray(second, float)
    if not difference.any():
        return 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ties and few pairs: scipy then approximates, and says so
        return float(wilcoxon(difference).pvalue)


def bootstrap_interval(
    first: Any, second: Any, *, level: float = 0.95, n_draws: int = 10_000
) -> tuple[float, float]:
    """Percentile interval of mean(first - second), pairs drawn anew with replacement."""
    difference = np.asarray(first, float) - np.asarray(second, float)
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(difference), size=(n_draws, len(difference)))
    means = difference[drawn].mean(axis=1)
    tail = 50 * (1 - level)
    low, high = np.percentile(means, [tail, 100 - tail])
    return float(low), float(high)


def best_or_as_good(values: dict[str, Any]) -> set[str]:
    """The name with the least mean, and those not significantly worse than it (paired Wilcoxon)."""
    best = min(values, key=lambda name: float(np.mean(values[name])))
    return {
        name
        for name in values
        if name == best or wilcoxon_p(values[name], values[best]) >= SIGNIFICANCE
    }


# ----------------------------------------------------------------------------- fits and machines


def certificate(model: Any) -> Result:
    """What a fit proves about itself: its certified relative gap, passes and penalty.

    The gap of a CRF is |gradient|² / (2 alpha) over the objective, that of AGM and SSVM primal
    minus dual: both bound from above how far the objective is from its optimum.
    """
    return {
        "alpha": float(model.alpha_),
        "gap": float(model.duality_gap_),
        "tol": float(model.tol),
        "passes": int(model.n_iter_),
    }


def worst_gaps(results: Iterable[Result]) -> str:
    """One line: the largest certified gap of each model's fits, and how many missed their tol."""
    by_model: dict[str, list[Result]] = {}
    for result in results:
        by_model.setdefault(result["model"], []).append(result)
    parts = []
    for name, fits in by_model.items():
        missed = sum(fit["gap"] > fit["tol"] for fit in fits)
        note = f", {missed} above tol" if missed else ""
        gap = max(fit["gap"] for fit in fits)
        parts.append(f"{name} {gap:.2g} ({len(fits)} fits, tol {fits[0]['tol']:g}{note})")
    return "largest relative gap " + "; ".join(parts)


def command() -> str:
    """The command that started this process, as one would type it at the root."""
    script = Path(sys.argv[0]).resolve()
    shown = script.relative_to(ROOT) if script.is_relative_to(ROOT) else script.name
    return " ".join(["python", str(shown), *sys.argv[1:]])


@functools.cache
def commit() -> str:
    """Short commit of the checkout, with a + when tracked files differ from it."""
    try:
        head = _git("rev-parse", "--short=10", "HEAD")
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", "src", "experiments")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+" if changed else "")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def machine() -> str:
    """Processor and cores."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":", 1)[1].strip() if names else model
    return f"{model}, {os.cpu_count()} cores"
