"""Training on one of the workers of a group: the optimizer, and the line to the caller of `fit`.

All workers run the optimizer; the first alone talks to the caller. What it tells (passes) and asks
(to keep a checkpoint, to judge weights on validation samples) is small, but for weights where these
are asked for.

If an attempt ends because a worker is gone or has joined, the next one goes on from where the first
worker that was there has got to. Dual variables are where they were, and θ is recomputed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from distributed import get_worker

from robustruct.engines.dask.group import Group, OutOfStep, Paused, Stopped
from robustruct.engines.dask.summed_shards import SummedShards
from robustruct.objectives.adversarial import Outline
from robustruct.optimizers.local_shards import LocalShards
from robustruct.optimizers.optimizer import (
    Kept,
    Optimizer,
    Progress,
    Record,
    Resumable,
    Task,
    inside,
)
from robustruct.optimizers.tuning import Tuning
from robustruct.parallel import one_blas_thread

if TYPE_CHECKING:
    from robustruct.engines.dask.worker import WorkerState

LOG = logging.getLogger(__name__)
NEWS_EVERY = 0.5  # seconds, if nothing is asked
DESERTED = 60.0  # seconds, at least, without anybody who listens: then the caller is gone

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Assignment:
    """What the workers of a group are to do."""

    attempt: int
    addresses: Sequence[str]
    outline: Outline
    tuning: Tuning
    rounds: int | None
    optimizer: Optimizer
    max_iter: int
    seed: int
    tol: float
    check_every: int | None
    max_time: float | None
    watched: bool
    """Whether the caller wants to see the weights of every certificate."""
    checkpoints: tuple[float, float] | None
    """After how many passes or seconds the caller keeps one."""
    give_up: float
    has_start: bool
    start: np.ndarray | None = None
    """Weights to begin with; only the first worker gets them."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """How an attempt ended, as one worker tells it."""

    how: str
    """"done", "interrupted", "paused" or "stopped"."""
    progress: Arrays | None = None
    """Of the first worker, when training is over."""
    advice: str = ""
    n_rounds: int = 0
    bytes_sent: int = 0
    """From this worker to others."""


@dataclass(frozen=True, eq=False)
class News:
    """What the first worker has to tell."""

    passes: list[tuple[int, float, int, int]]
    """Number, estimate of the gap, rounds and bytes that this worker has sent so far."""
    asked: tuple[str, Any] | None
    """What it wants to know, if it waits for an answer."""
    number: int
    """Of exchanges so far."""
    again: bool
    """Whether the worker does what it has done before."""
    waiting_for: list[int]
    """Ranks of the workers whose messages have not come."""


class Line:
    """Between the first worker and the caller of `fit`, who asks for news."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.passes: list[tuple[int, float, int, int]] = []
        self.asked: tuple[str, Any] | None = None
        self.answer: list[Any] = []
        self.closed = False
        self.group: Group | None = None
        self.heard = time.monotonic()

    def close(self) -> None:
        """Nothing more is to be told."""
        with self.condition:
            self.closed = True
            self.condition.notify_all()

    def news(self) -> News:
        """Wait for something to tell; passes alone are not worth many messages."""
        deadline = time.monotonic() + NEWS_EVERY
        with self.condition:
            self.heard = time.monotonic()
            while self.asked is None and not self.closed:
                if not self.condition.wait(max(deadline - time.monotonic(), 0.0)):
                    break
            passes, self.passes, asked, self.asked = self.passes, [], self.asked, None
            group = self.group
            if group is None:
                return News(passes, asked, 0, False, [])
            return News(passes, asked, group.number, group.again, list(group.waiting_for))

    def tell(self, done: tuple[int, float, int, int]) -> None:
        """A pass is over."""
        with self.condition:
            self.passes.append(done)

    def ask(self, what: str, about: Any = None) -> Any:
        """The caller's answer."""
        with self.condition:
            self.asked = what, about
            self.condition.notify_all()
            while not self.answer:
                if self.closed:
                    raise Stopped
                self.condition.wait(1.0)
            return self.answer.pop()

    def take(self, answer: Any) -> None:
        """The caller has answered."""
        with self.condition:
            self.answer.append(answer)
            self.condition.notify_all()


class Training:
    """An attempt on one worker; also the keeper and the watcher of its `Progress`."""

    def __init__(
        self, fit: str, here: WorkerState, local: LocalShards, assignment: Assignment
    ) -> None:
        self.here, self.local, self.assignment = here, local, assignment
        self.line = here.line(assignment.attempt)
        attempt, addresses = assignment.attempt, assignment.addresses
        self.group = Group(get_worker(), fit, attempt, addresses, here.mailbox)
        self.line.group = self.group
        self.first = self.group.rank == 0
        self.source: int | None = None
        """Rank of the worker that knows where earlier attempts have got to."""
        self.shards: SummedShards | None = None
        self.progress: Progress | None = None
        self.reached: Resumable | None = None
        """Where the optimizer has got to."""

    def run(self) -> Outcome:
        """Train; see `Outcome`."""
        given, group = self.assignment, self.group
        try:
            with one_blas_thread():
                had = group.exchange(["begin"], [self.here.last is not None])
                self.source = next((r for r, one in enumerate(had) if one.facts[0]), None)
                kept = Kept.NONE if self.source is None else Kept.SOME
                shards = SummedShards(self.local, group, given.outline, given.rounds, kept)
                progress = self._progress()
                self.shards, self.progress = shards, progress
                task = Task(shards, progress, given.max_iter, given.seed, self._start())
                given.optimizer.minimise(task)
        except KeyboardInterrupt:
            return self._outcome("interrupted")
        except (OutOfStep, Paused):
            return self._outcome("paused")
        except Stopped as error:
            LOG.info("stopped: %r", error.__cause__)
            return self._outcome("stopped")
        return self._outcome("done")

    def _outcome(self, how: str) -> Outcome:
        n_rounds = 0 if self.shards is None else self.shards.n_rounds
        sent = self.group.bytes_sent
        if self.progress is None or not self.first or how not in ("done", "interrupted"):
            return Outcome(how, n_rounds=n_rounds, bytes_sent=sent)
        return Outcome(how, self.progress.state(), self.progress.advice, n_rounds, sent)

    def _progress(self) -> Progress:
        given = self.assignment
        return Progress(
            given.outline,
            given.tol,
            watch=self._watch if given.watched else None,
            tick=self._tick,
            check_every=given.check_every,
            keeper=self,
            max_time=given.max_time,
            clock=self.group.clock,
        )

    def _start(self) -> np.ndarray | None:
        given = self.assignment
        if not given.has_start or self.source is not None:
            return None
        start = {} if given.start is None else {"start": given.start}
        return self.group.share(start, 0)["start"]

    # ------------------------------------------------------------------------- what `Progress` asks

    def _tick(self, n_iter: int, estimate: float, by_whom: str) -> None:
        if self.first and self.shards is not None:
            self.line.tell((n_iter, estimate, self.shards.n_rounds, self.group.bytes_sent))
            if time.monotonic() - self.line.heard > max(DESERTED, self.assignment.give_up):
                raise Stopped

    def _watch(self, record: Record, theta: np.ndarray) -> bool:
        told = self.line.ask("watch", (record, theta)) if self.first else False
        return bool(self.group.exchange(["watch"], [told])[0].facts[0])

    def restore(self, reached: Resumable) -> None:
        """Go on from where earlier attempts have got to, or from the caller's checkpoint."""
        last = self.here.last
        if self.source is not None:
            self._go_on(reached, {} if last is None else last.kept(), self.source)
        elif self.assignment.checkpoints is not None:
            found = None
            if self.first:
                shapes = {name: (v.shape, v.dtype.str) for name, v in reached.state().items()}
                found = self.line.ask("resume", shapes)
            if self.group.exchange(["resume"], [found is not None])[0].facts[0]:
                self._go_on(reached, found or {}, 0)
        self._kept_at, self._kept_pass = self.group.clock(), reached.n_passes
        self.reached, self.here.last = reached, self

    def _go_on(self, reached: Resumable, state: Arrays, source: int) -> None:
        state = self.group.share(state, source)
        assert self.progress is not None
        self.progress.restore(inside("progress", state))
        reached.restore(inside("reached", state))

    def due(self, n_passes: int) -> bool:
        """Whether the caller should keep a checkpoint now."""
        if self.assignment.checkpoints is None:
            return False
        passes, seconds = self.assignment.checkpoints
        waited = self.group.clock() - self._kept_at
        return n_passes - self._kept_pass >= passes or waited >= seconds

    def keep(self, reached: Resumable) -> None:
        """Have the caller keep a checkpoint, if any are wanted."""
        if self.assignment.checkpoints is None:
            return
        if self.first:
            self.line.ask("keep", (reached.n_passes, self.kept()))
        self.group.exchange(["keep"])
        self._kept_at, self._kept_pass = self.group.clock(), reached.n_passes

    def kept(self) -> Arrays:
        """All that a later attempt or fit depends on, but for the dual variables."""
        assert self.progress is not None
        assert self.reached is not None
        progress, reached = self.progress.state(), self.reached.state()
        return {
            **{f"progress.{name}": value for name, value in progress.items()},
            **{f"reached.{name}": value for name, value in reached.items()},
        }
