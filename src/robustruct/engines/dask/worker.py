"""Tasks that run on Dask workers: reading and encoding of shards, and training.

Encoded shards are results of Dask tasks, which stay on their worker. Beside them a worker keeps,
for each fit, the session of the present attempt and the `Progress` of the last one.
"""

from __future__ import annotations

import logging
import pickle
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from distributed import Worker, get_worker, secede

from robustruct.engines.dask.collective import RECEIVE, DaskCollective, Inbox, Message
from robustruct.engines.training import Assignment, Outcome, Training
from robustruct.formats.corpus import Corpus
from robustruct.objectives.adversarial import Outline, Problem
from robustruct.objectives.build import Plan
from robustruct.optimizers.certificates import Progress
from robustruct.optimizers.collective import Stopped
from robustruct.optimizers.local_shards import LocalShards
from robustruct.optimizers.tuning import Density
from robustruct.parallel import one_blas_thread

LOG = logging.getLogger(__name__)
NEWS_EVERY = 0.5  # seconds, if nothing is requested: passes alone are not worth many messages


@dataclass(frozen=True)
class Extent:
    """What has to be known of a shard's problem before tuning and training."""

    outline: Outline
    density: Density
    digests: dict[str, str]
    sample_digests: np.ndarray | None


@dataclass(frozen=True, eq=False)
class News:
    """The answer of rank 0 to a poll."""

    passes: list[tuple[Any, ...]]
    """See `DriverLink.passed`."""
    n_certificates: int
    request: tuple[str, Any] | None
    """What rank 0 waits for an answer to."""
    overdue: list[int]


class Session(Inbox):
    """One attempt on one worker: messages of other workers, and the `DriverLink`."""

    def __init__(self) -> None:
        super().__init__()
        self.collective: DaskCollective | None = None
        self.passes: list[tuple[Any, ...]] = []
        self.n_certificates = self.interrupts = 0
        self.request: tuple[str, Any] | None = None
        self.answers: list[Any] = []

    def news(self, give_up: float) -> News:
        """Wait for a request, for a while, and return all there is to tell."""
        with self.condition:
            self.condition.wait_for(lambda: self.request or self.closed, NEWS_EVERY)
            passes, self.passes, request, self.request = self.passes, [], self.request, None
        overdue = [] if self.collective is None else self.collective.overdue(give_up)
        return News(passes, self.n_certificates, request, overdue)

    def take(self, answers: Sequence[Any], interrupt: bool) -> None:
        """Take answers of the driver, and whether it was interrupted."""
        self.answers += answers
        self.interrupts += interrupt
        self.notify()

    def ask(self, what: str, about: Any) -> Any:
        """See `DriverLink`."""
        assert self.collective is not None
        self.request = what, about
        self.notify()
        with self.condition:
            while not self.condition.wait_for(lambda: self.answers, NEWS_EVERY):
                self.collective.check()
            return self.answers.pop()

    def passed(self, *done: Any) -> None:
        """See `DriverLink`."""
        with self.condition:
            self.passes.append(done)

    def certified(self) -> None:
        """See `DriverLink`."""
        self.n_certificates += 1

    def interrupted(self) -> bool:
        """See `DriverLink`."""
        found, self.interrupts = self.interrupts > 0, 0
        return found


class FitState:
    """What a worker keeps of a fit beside its shards."""

    def __init__(self) -> None:
        self.lock, self.training = threading.Lock(), threading.Lock()
        self.attempt, self._session = 0, Session()
        self.progress: Progress | None = None
        """Certificates of the attempts so far, and the weights of the best."""

    def session(self, attempt: int) -> Session | None:
        """Return the session of an attempt, whoever comes first; None if a later one has begun."""
        with self.lock:
            if attempt > self.attempt:
                self.attempt, self._session = attempt, Session()
            return self._session if attempt == self.attempt else None


def _states(worker: Worker) -> dict[str, FitState]:
    """Return the states of all fits: kept on the worker, as several may share a process."""
    if not hasattr(worker, "robustruct_states"):
        states: dict[str, FitState] = {}

        def receive(fit: str, attempt: int, number: int, rank: int, message: Message) -> bool:
            session = states[fit].session(attempt) if fit in states else None
            return session is not None and session.put(number, rank, message)

        worker.handlers[RECEIVE] = receive
        worker.robustruct_states = states  # type: ignore[attr-defined]
    return worker.robustruct_states  # type: ignore[attr-defined]


def _state(fit: str) -> FitState:
    """Return what this worker keeps of a fit."""
    return _states(get_worker()).setdefault(fit, FitState())


def encode(fit: str, corpus: Corpus, pickled: bytes) -> Problem | None:
    """Encode a shard's samples by a plan; None if there are none."""
    _state(fit)  # from now on messages of other workers are taken
    plan: Plan = pickle.loads(pickled)
    return plan.assembled(corpus)


def extent_of(problem: Problem | None) -> Extent | None:
    """Return the extent of a shard; None if it has no samples."""
    if problem is None:
        return None
    return Extent(problem.outline, Density.of(problem), problem.digests(), problem.sample_digests)


def train(
    problems: Mapping[int, Problem | None],
    fit: str,
    attempt: int,
    addresses: Sequence[str],
    given: Assignment,
) -> Outcome | None:
    """Train with the workers at these addresses; None if the attempt stopped before its end."""
    state = _state(fit)
    session = state.session(attempt)
    if session is None:
        return None
    collective = DaskCollective(get_worker(), fit, attempt, addresses, session)
    session.collective = collective
    secede()  # other tasks want to use the worker too
    held = {number: one for number, one in problems.items() if one is not None}
    try:
        with state.training, one_blas_thread():  # an attempt that was cancelled may be leaving yet
            local = LocalShards(held, given.tuning)
            training = Training(collective, session, local, given, state.progress)
            state.progress = training.progress
            outcome = training.run()
    except Stopped as error:
        LOG.info("stopped: %r, %r", error, error.__cause__)
        outcome = None
    session.close()  # not after other errors: these are the driver's to see first
    return outcome


def poll(fit: str, attempt: int, answers: Sequence[Any], interrupt: bool, give_up: float) -> News:
    """Bring rank 0 answers, and return its news."""
    session = _state(fit).session(attempt)
    assert session is not None
    session.take(answers, interrupt)
    secede()
    return session.news(give_up)


def drop(fit: str) -> None:
    """Forget a fit."""
    _states(get_worker()).pop(fit, None)
