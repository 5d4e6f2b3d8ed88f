"""Training in several processes: what each rank does, and how the caller of `fit` answers it.

Every rank runs the optimizer on its own samples. Rank 0 alone talks to the driver, by an engine's
`DriverLink`: it tells of passes, and requests checkpoints and judgements of weights on validation
samples. Nothing here knows how messages travel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from robustruct.objectives.adversarial import Outline
from robustruct.optimizers.certificates import Progress, Record, Resumable, inside
from robustruct.optimizers.checkpoints import Checkpoints
from robustruct.optimizers.collective import Collective
from robustruct.optimizers.distributed_shards import DistributedShards
from robustruct.optimizers.local_shards import LocalShards
from robustruct.optimizers.optimizer import Optimizer, Task
from robustruct.optimizers.tuning import Tuning

Arrays = dict[str, np.ndarray]


class DriverLink(Protocol):
    """How rank 0 reaches the driver; other ranks call only `certified` and `passed`, in vain."""

    def ask(self, what: str, about: Any) -> Any:
        """Return the answer of `Driver.answer`."""

    def passed(self, n_iter: int, gap: float, n_rounds: int, bytes_sent: int) -> None:
        """Tell that a pass is over."""

    def certified(self) -> None:
        """Tell that a certificate was made: a new attempt would start from it."""

    def interrupted(self) -> bool:
        """Whether the driver was interrupted since this was last asked."""


@dataclass(frozen=True, eq=False)
class Assignment:
    """What the ranks are to do together."""

    outline: Outline
    tuning: Tuning
    rounds: int | None
    """Exchanges of changes in a pass; None lets the number of processes decide."""
    optimizer: Optimizer
    max_iter: int
    seed: int
    limits: Mapping[str, Any]
    """Of `Progress`: ``tol``, ``check_every``, ``max_time``."""
    watched: bool
    """Whether the driver wants to see the weights of every certificate."""
    checkpoints: tuple[float, float] | None
    """Passes and seconds between checkpoints."""
    start: np.ndarray | None
    """Weights to begin with; only rank 0 needs them."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """How training ended on one rank."""

    interrupted: bool
    progress: Arrays
    """See `Progress.state`; empty but on rank 0."""
    advice: str
    n_rounds: int
    bytes_sent: int


class Training:
    """An attempt on one rank; also the keeper of its `Progress`."""

    def __init__(
        self,
        collective: Collective,
        link: DriverLink,
        local: LocalShards,
        given: Assignment,
        last: Progress | None = None,
    ) -> None:
        """Start from the weights of the ``last`` attempt of rank 0, if it made a certificate."""
        self.collective, self.link, self.given = collective, link, given
        self.shards = DistributedShards(
            local, collective, given.outline, given.rounds, link.interrupted
        )
        self.progress = Progress(
            given.outline,
            watch=self._watch,
            tick=self._tick,
            keeper=None if given.checkpoints is None else self,
            clock=self.shards.clock,
            **given.limits,
        )
        earlier = last.state() if last is not None and last.history else None
        start = given.start if earlier is None else None
        earlier, self.start = collective.broadcast((earlier, start), "start")
        self.restarted = earlier is not None
        if earlier is not None:
            self.progress.restore(earlier)
            self.progress.resumed = False  # these bounds are our own, not those of a file
            self.start = self.progress.theta.copy()

    def run(self) -> Outcome:
        """Run the optimizer."""
        given, progress, interrupted = self.given, self.progress, False
        try:
            task = Task(self.shards, progress, given.max_iter, given.seed, self.start)
            given.optimizer.minimise(task)
        except KeyboardInterrupt:
            interrupted = True
        state = progress.state() if self.collective.rank == 0 else {}
        sent = self.shards.n_rounds, self.collective.bytes_sent
        return Outcome(interrupted, state, progress.advice, *sent)

    def _tick(self, n_iter: int, estimate: float, by_whom: str) -> None:
        self.link.passed(n_iter, estimate, self.shards.n_rounds, self.collective.bytes_sent)

    def _watch(self, record: Record, theta: np.ndarray) -> bool:
        self.link.certified()
        return self.given.watched and bool(self._answer("watch", (record, theta)))

    def _answer(self, what: str, about: Any) -> Any:
        """Return the driver's answer to rank 0, on all ranks."""
        own = self.link.ask(what, about) if self.collective.rank == 0 else None
        return self.collective.broadcast(own, what)

    def restore(self, reached: Resumable) -> None:
        """Go on from the driver's checkpoint, unless weights of an earlier attempt are at hand."""
        if not self.restarted:
            shapes = {name: (v.shape, v.dtype.str) for name, v in reached.state().items()}
            found = self._answer("resume", shapes)
            if found is not None:
                self.progress.restore(inside("progress", found))
                reached.restore(inside("reached", found))
        self._kept_at, self._kept_pass = self.shards.clock(), reached.n_passes

    def due(self, n_passes: int) -> bool:
        """Whether the driver should write a checkpoint now."""
        assert self.given.checkpoints is not None  # else nobody asks
        passes, seconds = self.given.checkpoints
        waited = self.shards.clock() - self._kept_at
        return n_passes - self._kept_pass >= passes or waited >= seconds

    def keep(self, reached: Resumable) -> None:
        """Have the driver write a checkpoint; the other ranks go on."""
        self._kept_at, self._kept_pass = self.shards.clock(), reached.n_passes
        if self.collective.rank == 0:
            state = _joined(self.progress.state(), reached.state())
            self.link.ask("keep", (reached.n_passes, state))


class Driver:
    """Answers requests of rank 0 and holds the state to be checkpointed."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.n_passes = 0
        self.expected: Arrays = {}
        """The state of the optimizer in the last checkpoint, or zeros of the same shapes."""
        self.kept: Arrays | None = None
        """All that the last checkpoint holds, as ranks take it; None without one."""

    def assignment(
        self, task: Task, optimizer: Optimizer, outline: Outline, tuning: Tuning, rounds: int | None
    ) -> Assignment:
        """Return what ranks are to do for a task."""
        progress, keeper = self.progress, self.progress.keeper
        assert keeper is None or isinstance(keeper, Checkpoints)
        return Assignment(
            outline,
            tuning,
            rounds,
            optimizer,
            task.max_iter,
            task.seed,
            limits={name: getattr(progress, name) for name in ("tol", "check_every", "max_time")},
            watched=progress.watch is not None,
            checkpoints=None if keeper is None else (keeper.passes, keeper.seconds),
            start=task.start,
        )

    def answer(self, what: str, about: Any) -> Any:
        """Answer a request of rank 0."""
        if what == "watch":
            assert self.progress.watch is not None
            return self.progress.watch(*about)
        if what == "keep":
            self.n_passes, state = about
            self.kept, self.expected = state, inside("reached", state)
            self.progress.restore(inside("progress", state))
            self.progress.keep(self)
            return None
        assert what == "resume"
        if not self.expected:  # the first time
            self.expected = {
                name: np.broadcast_to(np.zeros((), kind), shape)
                for name, (shape, kind) in about.items()
            }
            self.progress.resume(self)
        return self.kept

    def finish(self, outcome: Outcome) -> None:
        """Take over what rank 0 has found; raises KeyboardInterrupt if it was interrupted."""
        if len(outcome.progress["history"]):
            self.progress.restore(outcome.progress)
        self.progress.advice = outcome.advice
        if outcome.interrupted:
            raise KeyboardInterrupt

    def state(self) -> Arrays:
        """See `Resumable`."""
        return self.expected

    def restore(self, state: Arrays) -> None:
        """See `Resumable`."""
        self.expected, self.n_passes = state, state["n_passes"].item()
        self.kept = _joined(self.progress.state(), state)


def _joined(progress: Arrays, reached: Arrays) -> Arrays:
    """Return both states in one dict."""
    return {
        **{f"progress.{name}": value for name, value in progress.items()},
        **{f"reached.{name}": value for name, value in reached.items()},
    }
