"""The samples of a fit on the workers of a Dask cluster, as the caller of `fit` sees them.

The workers train together (`Group`), and add up among themselves; this process hands shards out,
starts them, and listens to the first of them. What passes through here does not depend on how many
weights or workers there are, but for the model in the end, and for the weights that checkpoints and
validation samples need.

A worker that fails takes the dual variables of its shards with it. The others then stop. The shards
are read and built again by another worker, with the adversary back at the truth, and a new attempt
goes on with all else as it was.
"""

from __future__ import annotations

import contextlib
import logging
import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from distributed import Client, Future

from robustruct.engines.dask import worker
from robustruct.engines.dask.training import Arrays, Assignment, News, Outcome
from robustruct.engines.dask.worker import Extent, Missing
from robustruct.engines.dask.worker_pool import WorkerPool
from robustruct.errors import EngineError, InvalidInputError
from robustruct.formats.shards import ShardedData
from robustruct.objectives.adversarial import Outline, fingerprint_of
from robustruct.objectives.build import Plan, Settings, Summary, plan_of
from robustruct.optimizers.checkpoints import Checkpoints
from robustruct.optimizers.optimizer import Optimizer, Progress, Task, inside
from robustruct.optimizers.tuning import Density

LOG = logging.getLogger(__name__)
REBUILDS = 20  # of one shard: more failures than that are the shard's fault
ATTEMPTS_WITHOUT_A_PASS = 20  # then something about the workers makes them fail


class DaskShards:
    """Shards on workers (`WorkerPool`); see `robustruct.engines.engine.PreparedShards`."""

    local_problem = None
    local_problems = None

    def __init__(
        self, client: Client, data: ShardedData, rounds: int | None, give_up: float
    ) -> None:
        self.pool, self.data, self.rounds = WorkerPool(client, give_up), data, rounds
        self.extents: dict[int, Extent | None] = {}
        self.plan: Plan | None = None
        self.attempt = 0
        self.rebuilt = 0
        self.moved = 0
        self.n_workers = 0
        self.n_rounds = 0
        self.bytes_sent = 0
        """From worker to worker."""
        self.bytes_through_here = 0
        """From and to this process while workers train; not counting what Dask adds."""

    # --------------------------------------------------------------------------- data to workers

    def prepare(self, settings: Settings, tick: Callable[[str], None]) -> Plan:
        """Have the workers read and encode the shards."""
        tick("reading")
        plan = plan_of(settings, self.summary(), self.data.min_count)
        tick("encoding")
        self.assemble(plan)
        return plan

    def summary(self) -> Summary:
        """Have every shard read, where it will stay, and summed up."""
        self.pool.assign(range(len(self.data)))
        wanted = {n: (self.data[n], self.data.hashed) for n in range(len(self.data))}
        found = self.pool.each(worker.read_summary, wanted)
        return reduce(Summary.merged, (found[n] for n in range(len(self.data))))

    def assemble(self, plan: Plan) -> None:
        """Have every shard encoded."""
        self.plan = plan
        self._build(range(len(self.data)))
        extents = [extent for extent in self.extents.values() if extent is not None]
        if not extents:
            raise InvalidInputError("no shard has a sample with a weight; nothing can be learnt.")
        self.outline = Outline.of_all([extent.outline for extent in extents])
        density = Density.of_all([extent.density for extent in extents])
        self.tuning = density.tuning(spread=len(extents) > 1)

    def _build(self, numbers: Sequence[int]) -> None:
        """Encode shards on the workers they are assigned to."""
        plan = pickle.dumps(self.plan)
        wanted = {number: (self.data[number], plan) for number in numbers}
        self.extents.update(self.pool.each(worker.assemble, wanted))

    def fingerprint(self) -> dict[str, Any]:
        """What the samples on all workers are."""
        extents = {n: extent for n, extent in self.extents.items() if extent is not None}
        return fingerprint_of({n: extent.digests for n, extent in extents.items()})

    # ------------------------------------------------------------------------- workers and shards

    def _settle(self) -> None:
        """Shards of workers that are gone are built by others; new workers get shards."""
        alive = set(self.pool.workers())
        lost = [number for number, address in self.pool.place.items() if address not in alive]
        self._rebuild(lost)
        for number, giver, taker in self._moves(self.pool.fit_workers()):
            self._move(number, giver, taker)

    def _moves(self, addresses: Sequence[str]) -> list[tuple[int, str, str]]:
        """Which shards workers that have none should get: (number, from, to)."""
        load = self.pool.load(addresses)
        moves = []
        for taker in [address for address, numbers in load.items() if not numbers]:
            giver = max(load, key=lambda one: len(load[one]))
            if len(load[giver]) < 2:
                break
            moves.append((load[giver].pop(), giver, taker))
            load[taker].append(moves[-1][0])
        return moves

    def _rebuild(self, numbers: Sequence[int]) -> None:
        """Build shards whose dual variables are lost, on the workers that have the fewest."""
        if not numbers:
            return
        self.rebuilt += len(numbers)
        if self.rebuilt > REBUILDS * len(self.data):
            raise EngineError(
                f"shards were lost {self.rebuilt} times because their workers died, so something "
                "about them kills workers; most often memory. Use more and smaller shards, or "
                "workers with more memory."
            )
        LOG.warning("shards %s were lost with their worker and are read again", list(numbers))
        self.pool.assign(numbers)
        self._build(numbers)

    def _move(self, number: int, giver: str, taker: str) -> None:
        """Hand a shard over with its dual variables, from worker to worker."""
        given = self.pool.submit(worker.give_away, giver, number)
        taken = self.pool.submit(worker.take_over, taker, number, given)
        answer = self.pool.answers({taker: taken}, self.pool.give_up).get(taker, False)
        if answer is True:
            self.pool.place[number] = taker
            self.moved += 1
        else:
            self._rebuild([number])

    # ------------------------------------------------------------------------------------ training

    @property
    def by_whom(self) -> str:
        """Who trains, in words."""
        workers = f"{self.n_workers} worker{'s' * (self.n_workers != 1)}"
        return f", {workers}, {self.n_rounds} rounds, {self.bytes_sent / 1e6:.0f} MB between them"

    def placed(self, optimizer: Optimizer) -> Optimizer:
        """The optimizer on the workers."""
        return OnWorkers(optimizer, self)

    def minimise(self, optimizer: Optimizer, task: Task) -> None:
        """Attempts, until one comes to its end."""
        progress, keeper = task.progress, task.progress.keeper
        assert keeper is None or isinstance(keeper, Checkpoints)
        assignment = Assignment(
            attempt=0,
            addresses=(),
            outline=self.outline,
            tuning=self.tuning,
            rounds=self.rounds,
            optimizer=optimizer,
            max_iter=task.max_iter,
            seed=task.seed,
            tol=progress.tol,
            check_every=progress.check_every,
            max_time=progress.max_time,
            watched=progress.watch is not None,
            checkpoints=None if keeper is None else (keeper.passes, keeper.seconds),
            give_up=self.pool.give_up,
            has_start=task.start is not None,
            start=task.start,
        )
        caller = Caller(progress)
        in_vain = 0
        while True:
            self._settle()
            self.attempt += 1
            passes = caller.n_passes
            done = self._attempt(replace(assignment, attempt=self.attempt), caller)
            if done is not None:
                break
            in_vain = 0 if caller.n_passes > passes else in_vain + 1
            if in_vain > ATTEMPTS_WITHOUT_A_PASS:
                raise EngineError(
                    f"the workers could not train together in {in_vain} attempts; can they reach "
                    "each other? Their logs say more."
                )
        if done.progress is not None and len(done.progress["history"]):
            progress.restore(done.progress)
        progress.advice = done.advice or progress.advice
        if done.how == "interrupted":
            raise KeyboardInterrupt

    def _attempt(self, assignment: Assignment, caller: Caller) -> Outcome | None:
        """Let the workers train together; None if they had to stop before the end."""
        load = self.pool.load(self.pool.workers())
        held = {
            address: [number for number in numbers if self.extents[number] is not None]
            for address, numbers in load.items()
        }
        addresses = [address for address, numbers in held.items() if numbers]
        self.n_workers = len(addresses)
        assignment = replace(assignment, addresses=addresses)
        others = replace(assignment, start=None)
        running = {
            address: self.pool.submit(
                worker.train, address, held[address], assignment if i == 0 else others
            )
            for i, address in enumerate(addresses)
        }
        if assignment.start is not None:
            self.bytes_through_here += assignment.start.nbytes
        attendance = Attendance(self, assignment, running, caller)
        before = self.n_rounds, self.bytes_sent
        try:
            ended = attendance.until_the_end()
        except BaseException:
            with contextlib.suppress(EngineError):  # a scheduler that is gone has no workers
                attendance.stop()
            raise
        found = [one for one in ended.values() if isinstance(one, Outcome)]
        self.n_rounds = before[0] + max([one.n_rounds for one in found], default=0)
        self.bytes_sent = before[1] + sum(one.bytes_sent for one in found)
        first = ended[addresses[0]]
        if isinstance(first, Outcome) and first.how in ("done", "interrupted"):
            self.bytes_through_here += _size(first.progress)
            return first
        return None


@dataclass(frozen=True)
class OnWorkers(Optimizer):
    """An optimizer that workers run together."""

    optimizer: Optimizer
    shards: DaskShards

    def minimise(self, task: Task) -> None:
        """See `DaskShards.minimise`."""
        self.shards.minimise(self.optimizer, task)


class Caller:
    """Answers what workers ask; also stands for what they have reached, towards checkpoints."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.n_passes = 0
        self.known: Arrays = {}
        self.resumed: Arrays | None = None
        self.asked_before = False

    def state(self) -> Arrays:
        """See `Resumable`."""
        return self.known

    def restore(self, state: Arrays) -> None:
        """See `Resumable`."""
        self.known, self.n_passes = state, state["n_passes"].item()
        reached = {f"reached.{name}": value for name, value in state.items()}
        found = {f"progress.{name}": value for name, value in self.progress.state().items()}
        self.resumed = {**reached, **found}

    def answer(self, what: str, about: Any) -> Any:
        """What a worker wants to know."""
        if what == "watch":
            assert self.progress.watch is not None
            return self.progress.watch(*about)
        if what == "keep":
            self.n_passes, state = about
            self.known = inside("reached", state)
            self.progress.restore(inside("progress", state))
            self.progress.keep(self)
            return None
        assert what == "resume"
        if not self.asked_before:
            self.asked_before = True
            self.known = {
                name: np.broadcast_to(np.zeros((), kind), shape)
                for name, (shape, kind) in about.items()
            }
            self.progress.resume(self)
        return self.resumed


class Attendance:
    """While the workers of an attempt train: listens to the first of them, and sees to them all."""

    def __init__(
        self,
        shards: DaskShards,
        assignment: Assignment,
        running: Mapping[str, Future],
        caller: Caller,
    ) -> None:
        self.shards, self.pool, self.caller = shards, shards.pool, caller
        self.attempt, self.addresses = assignment.attempt, list(assignment.addresses)
        self.first, self.running = self.addresses[0], dict(running)
        self.ended: dict[str, Any] = {}
        self.before = shards.n_rounds, shards.bytes_sent
        self.number, self.since = 0, time.monotonic()
        """The last exchange we know of, and since when."""
        self.looked = self.since
        self.asked: tuple[str, Any] | None = None
        """What the first worker waits for an answer to."""
        self.stopping = self.interrupted = False
        self.ears: Future | None = self._listen()

    def until_the_end(self) -> dict[str, Any]:
        """How the attempt ended, by worker."""
        while self.running:
            try:
                self._wait()
            except KeyboardInterrupt:
                if self.interrupted:
                    raise
                self.interrupted = True
                self._send(worker.order, self.first, "interrupt")
                if self.asked is not None:
                    self._reply(None)
        return self.ended

    def _wait(self) -> None:
        ears = self.ears
        waiting = [*self.running.values(), *([] if ears is None else [ears])]
        self.pool.wait(waiting, 1.0, "FIRST_COMPLETED")
        if ears is not None and ears.done():
            self.ears = self._listen() if self.first in self.running else None
            news = self.pool.result(ears, self.first)
            if isinstance(news, News):
                self._hear(news)
        done = any(task.done() for task in self.running.values())
        if done or time.monotonic() - self.looked > 1.0:
            self._look_after()
            self.looked = time.monotonic()

    def _listen(self) -> Future:
        return self.pool.submit(worker.listen, self.first, self.attempt)

    def _reply(self, answer: Any) -> None:
        self.asked = None
        self.shards.bytes_through_here += _size(answer)
        self._send(worker.reply, self.first, answer)

    def _send(self, message: Callable[..., None], address: str, *about: Any) -> None:
        self.pool.tell(message, address, self.attempt, *about)

    def _hear(self, news: News) -> None:
        shards, now = self.shards, time.monotonic()
        shards.bytes_through_here += len(pickle.dumps(replace(news, asked=None)))
        for number, gap, rounds, sent in news.passes:
            shards.n_rounds = self.before[0] + rounds
            shards.bytes_sent = self.before[1] + sent * len(self.addresses)
            self.caller.n_passes = max(number, self.caller.n_passes)
            self.caller.progress.passed(number, gap, shards.by_whom)
        if news.asked is not None:
            shards.bytes_through_here += _size(news.asked)
            self.asked = news.asked
            self._reply(self.caller.answer(*news.asked))
            now = time.monotonic()
        if news.number != self.number or news.asked is not None:
            self.number, self.since = news.number, now
        elif news.again and now - self.since > self.pool.give_up:
            self.pool.do_without(self.addresses[rank] for rank in news.waiting_for or [0])

    def _look_after(self) -> None:
        """Take note of who has come to an end, and have the others stop if one is gone."""
        alive = self.pool.workers()
        for address, task in list(self.running.items()):
            if task.done():
                self.ended[address] = self.pool.result(task, address)
            elif address not in alive or self.pool.is_silent(address):
                if address in alive:
                    self.pool.do_without([address])
                task.cancel()
                self.ended[address] = Missing(())
            else:
                continue
            del self.running[address]
        ended = self.ended.values()
        if any(isinstance(one, Missing) or one.how == "stopped" for one in ended):
            self.stop()
        elif not self.ended and not self.stopping and self.shards._moves(alive):
            self._send(worker.order, self.first, "pause")
            self.stopping = True

    def stop(self) -> None:
        """Have everybody leave."""
        if self.running and not (self.stopping and self.ended):
            self.stopping = True
            for address in self.running:
                self._send(worker.stop, address)


def _size(something: Any) -> int:
    """Bytes of the arrays in something that is sent."""
    if isinstance(something, np.ndarray):
        return something.nbytes
    if isinstance(something, dict):
        return sum(map(_size, something.values()))
    if isinstance(something, tuple | list):
        return sum(map(_size, something))
    return 8
