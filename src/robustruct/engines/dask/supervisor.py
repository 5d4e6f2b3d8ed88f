"""Attempts to train on a Dask cluster, as the process that calls `fit` starts and watches them.

The workers train together, and this process polls rank 0 of them. What passes through here does not
depend on how many weights or workers there are, but for the model in the end, and for the weights
that checkpoints and validation samples need.

An attempt ends when a worker is lost, or when one has joined and a certificate was made: its tasks
are cancelled. The next one starts again on the workers there are, from the weights of the last
certificate. Nothing else is kept, so no sum mixes two attempts.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dask.sizeof import sizeof
from distributed import Future

from robustruct.engines.dask import worker
from robustruct.engines.dask.worker import News
from robustruct.engines.dask.worker_pool import WorkerLost
from robustruct.engines.training import Assignment, Driver, Outcome
from robustruct.errors import EngineError
from robustruct.optimizers.optimizer import Optimizer, Task

if TYPE_CHECKING:
    from robustruct.engines.dask.shards import DaskShards

ATTEMPTS_IN_VAIN = 20  # with no certificate, nor a pass beyond the last: workers fail for a reason
PAUSE = 0.25  # seconds before an attempt, for each in vain before: the scheduler may lag behind


class OnWorkers(Optimizer):
    """An optimizer that workers run together."""

    def __init__(self, optimizer: Optimizer, shards: DaskShards) -> None:
        self.optimizer, self.shards = optimizer, shards

    def minimise(self, task: Task) -> None:
        """Start attempts until one comes to its end."""
        shards, driver = self.shards, Driver(task.progress)
        of = self.optimizer, shards.outline, shards.tuning, shards.rounds
        assignment = driver.assignment(task, *of)
        outcome, in_vain, addresses = None, 0, list[str]()
        while outcome is None:
            if in_vain > ATTEMPTS_IN_VAIN:
                raise EngineError(
                    f"the workers could not train together in {in_vain} attempts; can they reach "
                    "each other? Their logs say more."
                )
            time.sleep(PAUSE * in_vain)
            shards.settle()
            # Rank 0 starts from weights of its own: workers of earlier attempts come first.
            ready = shards.holders()
            known = [address for address in addresses if address in ready]
            addresses = known + [address for address in ready if address not in known]
            shards.attempt, shards.n_workers = shards.attempt + 1, len(addresses)
            passes, supervisor = driver.n_passes, Supervisor(driver, shards, addresses)
            outcome = supervisor.run(assignment)
            if outcome is None and supervisor.interrupted:
                raise KeyboardInterrupt
            advanced = supervisor.n_certificates > 0 or driver.n_passes > passes
            in_vain = 0 if advanced else in_vain + 1
        shards.bytes_through_here += sizeof(outcome.progress)
        driver.finish(outcome)


class Supervisor:
    """Polls rank 0 during an attempt, and detects failed workers."""

    def __init__(self, driver: Driver, shards: DaskShards, addresses: Sequence[str]) -> None:
        self.driver, self.shards, self.pool = driver, shards, shards.pool
        self.addresses, self.session = addresses, (shards.pool.fit, shards.attempt)
        self.before = shards.n_rounds, shards.bytes_sent
        self.running: dict[str, Future] = {}
        self.polled: Future | None = None
        self.answers: list[Any] = []
        """Those that rank 0 has not got yet."""
        self.answering = self.interrupted = self.interrupt = False
        """Whether rank 0 waits for an answer; whether we were interrupted; if it is to be told."""
        self.n_certificates = 0
        self.joined_at: int | None = None
        """How many certificates there were when a worker joined that could take over shards."""

    def run(self, assignment: Assignment) -> Outcome | None:
        """Have the workers train; return None if they had to stop before the end."""
        first = self.addresses[0]
        try:
            self._start(assignment)
            while True:
                try:
                    self._poll()
                    if self.running[first].done():
                        outcome: Outcome | None = self.pool.result(self.running[first], first)
                        if outcome is not None:
                            self._count(outcome.n_rounds, outcome.bytes_sent)
                        return outcome
                    if self._must_end():
                        return None
                except KeyboardInterrupt:
                    if self.interrupted:
                        raise
                    self.interrupted = self.interrupt = True
                    if self.answering:
                        self._reply(None)
        except WorkerLost:
            return None
        finally:
            # Tasks that nobody wants are cancelled, without waiting for a scheduler that is gone.
            for task in (*self.running.values(), *filter(None, [self.polled])):
                task.release()

    def _start(self, assignment: Assignment) -> None:
        self.shards.bytes_through_here += sizeof(assignment.start)
        for address in self.addresses:
            given = self.shards.held_by(address), *self.session, self.addresses, assignment
            self.running[address] = self.pool.submit(worker.train, address, *given)
            assignment = replace(assignment, start=None)  # rank 0 alone needs it

    def _poll(self) -> None:
        """Wait for news of rank 0, for a while."""
        first = self.addresses[0]
        if self.polled is None:
            told = self.answers, self.interrupt, self.pool.give_up
            self.polled = self.pool.submit(worker.poll, first, *self.session, *told)
            self.answers, self.interrupt = [], False
        self.pool.wait([self.polled, *self.running.values()], 1.0)
        if self.polled.done():
            polled, self.polled = self.polled, None
            self._hear(self.pool.result(polled, first))

    def _hear(self, news: News) -> None:
        shards, driver = self.shards, self.driver
        shards.bytes_through_here += sizeof((news.passes, news.request))
        for number, gap, rounds, sent in news.passes:
            self._count(rounds, sent)
            driver.n_passes = max(number, driver.n_passes)
            driver.progress.passed(number, gap, shards.by_whom)
        self.n_certificates = news.n_certificates
        for rank in news.overdue:
            self.pool.do_without(self.addresses[rank])
        if news.request is not None:
            self.answering = True
            self._reply(driver.answer(*news.request))

    def _reply(self, answer: Any) -> None:
        self.answering = False
        self.shards.bytes_through_here += sizeof(answer)
        self.answers.append(answer)

    def _count(self, rounds: int, sent: int) -> None:
        """Take note of rounds and of bytes that rank 0 has sent; the others send as many."""
        self.shards.n_rounds = self.before[0] + rounds
        self.shards.bytes_sent = self.before[1] + sent * len(self.addresses)

    def _must_end(self) -> bool:
        """Whether a worker is lost, has stopped or has joined; raises the error of a task."""
        alive = self.pool.workers()
        for address, task in self.running.items():
            if address not in alive:
                return True
            if task.done() and self.pool.result(task, address) is None:  # it has stopped
                return True
        if self.pool.dealt(alive) == self.pool.place:
            return False
        if self.joined_at is None:
            self.joined_at = self.n_certificates
        certified = self.n_certificates > self.joined_at
        return certified and self.pool.dealt(self.pool.fit_workers()) != self.pool.place
