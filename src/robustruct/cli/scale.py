"""Options of training on much data: several files, several machines, interruptions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from robustruct.errors import EngineError, InvalidInputError

if TYPE_CHECKING:
    from robustruct.engines.engine import Engine

ANSWER_WITHIN = 5.0  # seconds for a scheduler and a worker to answer; a mistyped address shows soon


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Options about shards, engines and checkpoints; combinations are checked."""

    shards: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN",
            help="Instead of DATA: labelled files that belong together, such as "
            "'part-*.conll.gz', in quotes. Each is read where it is worked on.",
        ),
    ] = None
    min_count: Annotated[
        int | None,
        typer.Option(
            min=1, help="Leave out attributes that all shards give fewer times than this."
        ),
    ] = None
    hashed: Annotated[
        int | None,
        typer.Option(
            metavar="COLUMNS",
            help="With shards: attributes share so many columns by a hash of their names, and no "
            "list of names is made.",
        ),
    ] = None
    engine: Annotated[
        Literal["here", "dask"],
        typer.Option(
            help="Train in this process, or on the workers of a Dask cluster, each with --jobs "
            "threads. Without --scheduler, dask starts workers on this machine that share its "
            "cores."
        ),
    ] = "here"
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Scheduler of a cluster that is running, such as tcp://host:8786.",
        ),
    ] = None
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER", help="Keep the state of training there, so that --resume can go on."
        ),
    ] = None
    checkpoint_every: Annotated[
        str | None,
        typer.Option(
            metavar="PASSES|TIME",
            help="Passes between checkpoints, such as 10, or time, such as 30s, 10min or 2h.  "
            "[default: 60s]",
        ),
    ] = None
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on from the last checkpoint in the folder, if there is one."
        ),
    ] = False

    def __post_init__(self) -> None:
        if self.shards is None and self.min_count is not None:
            raise InvalidInputError("--min-count goes with --shards.")
        if self.shards is None and self.hashed is not None:
            raise InvalidInputError("--hashed goes with --shards.")
        if self.min_count is not None and self.hashed is not None:
            raise InvalidInputError(
                "--min-count needs the names of attributes, which --hashed does not keep; choose "
                "one of the two."
            )
        if self.engine != "dask" and self.scheduler is not None:
            raise InvalidInputError("--scheduler goes with --engine dask.")
        if self.checkpoint is None and (self.resume or self.checkpoint_every is not None):
            option = "--resume" if self.resume else "--checkpoint-every"
            raise InvalidInputError(f"{option} needs the folder: --checkpoint FOLDER.")

    def check(self, data: Sequence[str], alphas: Sequence[float] | str) -> None:
        """Refuse options that contradict these files or penalties, before anything is read."""
        if self.shards is not None and data:
            raise InvalidInputError(
                f"give DATA or --shards, not both. If {data[0]} comes from the pattern, put that "
                "in quotes, else the shell replaces it: --shards 'part-*'."
            )
        if self.shards is None and len(data) != 1:
            raise InvalidInputError(
                "name the labelled file: robustruct train DATA -o MODEL. Several files are shards: "
                "--shards 'part-*', in quotes."
            )
        if len(alphas) > 1:  # "auto" or a list
            needs = "is compared by cross-validation, which needs all samples in this process"
            if self.shards is not None:
                raise InvalidInputError(
                    f"--alpha {needs}; choose it on one of the files, robustruct train FILE "
                    "--alpha auto, then give that number with --shards."
                )
            if self.engine == "dask":
                raise InvalidInputError(
                    f"--alpha {needs}; choose it with --engine here, then give that number."
                )
        if self.checkpoint is not None:
            self._check_checkpoints(self.checkpoint)

    def _check_checkpoints(self, folder: str) -> None:
        from robustruct.optimizers.checkpoints import interval, kept_in

        try:
            interval(self._every)
        except InvalidInputError:
            raise InvalidInputError(
                f"--checkpoint-every {self.checkpoint_every} is not understood; give a number of "
                "passes, such as 10, or a time, such as 30s, 10min or 2h."
            ) from None
        if not self.resume and kept_in(folder):
            raise InvalidInputError(
                f"{folder} already holds checkpoints; add --resume to go on from them, or name "
                "another folder."
            )

    @property
    def _every(self) -> int | str:
        interval = self.checkpoint_every or "60s"
        return int(interval) if interval.isdecimal() else interval

    @property
    def fit_options(self) -> dict[str, Any]:
        """Arguments of ``fit`` about checkpoints."""
        if self.checkpoint is None:
            return {}
        from robustruct.optimizers.checkpoints import Checkpoint

        return {"checkpoint": Checkpoint(self.checkpoint, self._every, self.resume)}

    def after_interruption(self) -> str:
        """Return a sentence that says how to continue."""
        if self.checkpoint is None:
            return "--checkpoint FOLDER would have kept what was done."
        from robustruct.optimizers.checkpoints import kept_in

        checkpoints = kept_in(self.checkpoint)
        if not checkpoints:
            return f"There was no checkpoint in {self.checkpoint} yet."
        add = "" if self.resume else " with --resume added"
        last = os.path.join(self.checkpoint, checkpoints[-1])
        return f"The same command{add} goes on from {last}."

    def threads(self, jobs: int) -> int:
        """Return ``n_jobs`` of each process: workers on this machine get one core each."""
        own_cluster = self.engine == "dask" and self.scheduler is None
        return 1 if own_cluster and jobs < 0 else jobs

    @contextmanager
    def connected(self, jobs: int) -> Iterator[Engine | None]:
        """Yield a connected engine; None stands for this process."""
        if self.engine != "dask":
            yield None
            return
        from robustruct.engines import DaskEngine  # says what to install if there is no Dask

        started = _client(self.scheduler) if self.scheduler else _own_cluster(self.threads(jobs))
        with started as client:
            yield DaskEngine(client)


@contextmanager
def _own_cluster(threads: int) -> Iterator[Any]:
    """Start workers with ``threads`` cores each on this machine, and yield a client of them."""
    from distributed import Client, LocalCluster

    from robustruct.parallel import n_threads

    n_workers = max(1, n_threads(-1) // threads)
    with (
        LocalCluster(
            # No dashboard, which would open a port; no limit, at which Dask kills workers.
            n_workers=n_workers,
            threads_per_worker=1,
            dashboard_address=None,
            memory_limit=None,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@contextmanager
def _client(scheduler: str) -> Iterator[Any]:
    """Yield a client of a cluster that has at least one worker."""
    from distributed import Client

    _check_answer(scheduler)
    with Client(scheduler, timeout=ANSWER_WITHIN, set_as_default=False) as client:
        try:
            client.wait_for_workers(1, timeout=ANSWER_WITHIN)
        except TimeoutError:
            raise EngineError(
                f"the scheduler at {scheduler} has no worker; start some on machines that find "
                f"the data: `dask worker {scheduler}`."
            ) from None
        yield client


def _check_answer(scheduler: str) -> None:
    """Refuse an address where no scheduler answers.

    A client would log its failed attempts until the process ends.
    """
    import asyncio

    from distributed.comm import connect

    async def call() -> None:
        # connect() retries until its own time-out, which comes first.
        comm = await asyncio.wait_for(connect(scheduler, timeout=ANSWER_WITHIN), ANSWER_WITHIN + 1)
        comm.abort()

    try:
        asyncio.run(call())
    except ValueError as error:
        raise InvalidInputError(
            f"--scheduler {scheduler} is no address ({error}); write it as tcp://host:8786."
        ) from None
    except (OSError, TimeoutError):
        raise EngineError(
            f"no Dask scheduler answers at {scheduler}; is it running (`dask scheduler`), and does "
            "the network let you through?"
        ) from None
