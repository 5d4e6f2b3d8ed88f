"""What runs on a Dask worker, on the shards that it keeps between tasks.

Every task names its fit and the shards it is about. A task that runs where these are not, because
their worker has failed or was restarted, answers `Missing`; it is for the caller to have them built
again.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from distributed import Worker, get_worker, secede

from robustruct.engines.dask.group import PRESENT, RECEIVE, Mailbox, Message
from robustruct.engines.dask.training import Assignment, Line, News, Outcome, Training
from robustruct.formats.corpus import Corpus
from robustruct.formats.shards import Shard
from robustruct.objectives.adversarial import Outline, Problem
from robustruct.objectives.build import Plan, Summary, summarise
from robustruct.optimizers.local_shards import LocalShards, ShardState
from robustruct.optimizers.tuning import Density, Tuning


@dataclass(frozen=True)
class Missing:
    """The worker does not hold these shards."""

    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Extent:
    """What has to be known of a shard's problem before tuning and training."""

    outline: Outline
    density: Density
    digests: dict[str, str]
    """See `Problem.digests`."""


class WorkerState:
    """All that a worker holds of one fit."""

    def __init__(self) -> None:
        self.corpora: dict[int, Corpus] = {}
        self.empty: set[int] = set()
        self.problems: dict[int, Problem] = {}
        self.local: LocalShards | None = None
        self.mailbox = Mailbox()
        self.lines: dict[int, Line] = {}
        """To the caller of `fit`, by attempt."""
        self.last: Training | None = None
        """The last attempt that got as far as to have a state."""

    def missing(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """The shards that are not here."""
        return tuple(n for n in numbers if n not in self.problems and n not in self.empty)

    def line(self, attempt: int) -> Line:
        """The line of an attempt, whoever comes first."""
        return self.lines.setdefault(attempt, Line())

    def local_shards(self, numbers: Sequence[int], tuning: Tuning) -> LocalShards:
        """Just these shards, with what earlier attempts have made of them."""
        if self.local is None:
            self.local = LocalShards({}, tuning)
        here = self.local.shards
        for number in [n for n in here if n not in numbers]:
            del here[number]
        for number in numbers:
            if number in self.problems and number not in here:
                here[number] = ShardState(self.problems[number], self.local.tuning)
        self.local.shards = dict(sorted(here.items()))
        return self.local


def state_of(fit: str) -> WorkerState:
    """What this worker holds of a fit."""
    worker = get_worker()
    states = _states(worker)
    if fit not in states:
        states[fit] = WorkerState()
    return states[fit]


def _states(worker: Worker) -> dict[str, WorkerState]:
    """Of all fits: kept on the worker, as several may share a process."""
    if not hasattr(worker, "robustruct_states"):
        states: dict[str, WorkerState] = {}

        def receive(fit: str, attempt: int, number: int, rank: int, message: list[Any]) -> bool:
            here = states.get(fit)
            return here is not None and here.mailbox.put(attempt, number, rank, Message(*message))

        def present(fit: str, attempt: int) -> bool:
            return fit in states and states[fit].mailbox.takes(attempt)

        worker.handlers[RECEIVE], worker.handlers[PRESENT] = receive, present
        worker.robustruct_states = states  # type: ignore[attr-defined]
    return worker.robustruct_states  # type: ignore[attr-defined]


# ------------------------------------------------------------------------------------------- tasks


def read_summary(fit: str, number: int, shard: Shard, hashed: int | None) -> Summary:
    """Read a shard and sum it up; its samples stay here."""
    corpus = state_of(fit).corpora[number] = shard.read()
    return summarise(corpus, hashed=hashed)


def assemble(fit: str, number: int, shard: Shard, pickled: bytes) -> Extent | None:
    """Encode a shard's samples by a plan, and drop these; None if there are none."""
    here = state_of(fit)
    corpus = here.corpora.pop(number, None)
    plan: Plan = pickle.loads(pickled)
    problem = plan.assembled(shard.read() if corpus is None else corpus)
    if problem is None:
        here.empty.add(number)
        return None
    here.problems[number] = problem
    return Extent(problem.outline, Density.of(problem), problem.digests())


def train(fit: str, numbers: Sequence[int], assignment: Assignment) -> Outcome | Missing:
    """Train with the other workers of a group, to the end or until somebody stops it."""
    here = state_of(fit)
    absent = here.missing(numbers)
    if absent:
        return Missing(absent)
    secede()  # other fits want to use the worker too
    local = here.local_shards(numbers, assignment.tuning)
    try:
        return Training(fit, here, local, assignment).run()
    finally:
        here.mailbox.stop(assignment.attempt)
        here.line(assignment.attempt).close()


def listen(fit: str, attempt: int) -> News:
    """What there is to tell the caller of `fit`; asked of the first worker only."""
    line = state_of(fit).line(attempt)
    secede()
    return line.news()


def reply(fit: str, attempt: int, answer: Any) -> None:
    """What the caller of `fit` answers."""
    state_of(fit).line(attempt).take(answer)


def order(fit: str, attempt: int, what: str) -> None:
    """Have all workers stop at the same point; asked of the first worker only."""
    state_of(fit).mailbox.orders[attempt] = what


def stop(fit: str, attempt: int) -> None:
    """Leave a group, as one of its workers is gone."""
    here = state_of(fit)
    here.mailbox.stop(attempt)
    here.line(attempt).close()


def give_away(fit: str, number: int) -> tuple[Any, ShardState | None] | None:
    """A shard with all that training has made of it, for another worker; None if it is not here."""
    here = state_of(fit)
    if here.missing([number]):
        return None
    state = None if here.local is None else here.local.shards.pop(number, None)
    return here.problems.pop(number, None), state


def take_over(fit: str, number: int, given: tuple[Any, ShardState | None] | None) -> bool:
    """Hold a shard that another worker gave away; whether it did."""
    if given is None:
        return False
    here, (problem, state) = state_of(fit), deepcopy(given)  # read-only as they come
    if problem is None:
        here.empty.add(number)
        return True
    here.problems[number] = problem
    if state is not None:
        if here.local is None:
            here.local = LocalShards({}, state.tuning)
        here.local.shards[number] = state
    return True


def drop(fit: str) -> None:
    """Forget a fit."""
    here = _states(get_worker()).pop(fit, None)
    if here is not None:
        here.mailbox.stop(2**62)
