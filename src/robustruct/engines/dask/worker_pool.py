"""The workers of a Dask cluster that a fit can use: their shards, task dispatch and failures.

Dask waits for ever for a task that is bound to a worker which is gone, and believes for minutes in
one that does not answer. So whoever asks here gets an answer from everybody in the end: what the
worker said, or `Missing` if it failed or was given up.

A worker is given up when the scheduler has not heard from it for ``give_up`` seconds, or when it
has been busy for so long with something that it has done before. The first time does not count: it
may compile.
"""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any

import dask
from distributed import Client, Future, wait
from distributed.client import ClosedClientError
from distributed.scheduler import KilledWorker

from robustruct.engines.dask import worker
from robustruct.engines.dask.versions import refusal, versions_of
from robustruct.engines.dask.worker import Missing
from robustruct.errors import EngineError

LOG = logging.getLogger(__name__)

Kind = tuple[str, ...]
"""Address of a worker and what it is asked to do."""


@contextlib.contextmanager
def scheduler_must_answer(client: Client) -> Iterator[None]:
    """What Dask raises when its scheduler is gone becomes our error."""
    if client.status != "running":
        raise scheduler_lost(client)
    try:
        yield
    except (OSError, ClosedClientError, CancelledError) as error:
        raise scheduler_lost(client) from error


def scheduler_lost(client: Client) -> EngineError:
    """What to raise when the scheduler is gone."""
    address = getattr(client.scheduler, "address", "its address")
    return EngineError(
        f"the connection to the Dask scheduler at {address} is lost; is it running? Connect a new "
        "Client and fit again; with a Checkpoint and resume=True the fit goes on where it was."
    )


def worker_info(client: Client) -> dict[str, Any]:
    """What the scheduler knows of each worker, by address."""
    with scheduler_must_answer(client):
        return client.scheduler_info(n_workers=-1)["workers"]


class WorkerPool:
    """Workers, and which of them has which shard."""

    def __init__(self, client: Client, give_up: float) -> None:
        self.client, self.give_up = client, give_up
        self.fit = uuid.uuid4().hex
        self.place: dict[int, str] = {}
        """Address of the worker that has each shard."""
        self.silent: set[str] = set()
        """Workers that were given up."""
        self.checked: set[str] = set()
        """Workers whose versions are ours."""
        self.heard: dict[str, tuple[float, float]] = {}
        """The last sign of life of each worker by its clock, and when we learnt of it."""
        self.kind_of: dict[Any, Kind] = {}
        """By key of a task that is not answered yet."""
        self.done_before: set[Kind] = set()
        self.told: list[Future] = []
        """Messages under way: a task that nobody refers to may be dropped before it runs."""

    # ------------------------------------------------------------------------- workers and shards

    def workers(self) -> list[str]:
        """Addresses of the workers there are, without those given up; waits for the first."""
        deadline = time.monotonic() + self.give_up
        while True:
            addresses = worker_info(self.client)
            self._listen(addresses)
            found = sorted(set(addresses) - self.silent)
            if found:
                return found
            if self.silent & set(addresses):
                raise self.silence()
            if time.monotonic() > deadline:
                raise EngineError(
                    f"the Dask cluster has had no worker for {self.give_up:g} seconds; start some "
                    "(`dask worker tcp://...`) and fit again."
                )
            time.sleep(0.1)

    def fit_workers(self) -> list[str]:
        """The same, of our versions: others would train something else, or fail at any moment.

        When a fit begins, one of another version is an error; one that joins later gets no shard.
        """
        unknown = [address for address in self.workers() if address not in self.checked]
        with scheduler_must_answer(self.client):
            found = versions_of(self.client, unknown)
        for address, versions in found.items():
            refused = refusal(address, versions)
            if refused is None:
                self.checked.add(address)
            elif not self.place:
                raise refused
            else:
                LOG.warning("%s", refused)
                self.silent.add(address)
        return self.workers()

    def _listen(self, workers: dict[str, Any]) -> None:
        now = time.monotonic()
        for address, info in workers.items():
            if self.heard.get(address, (None,))[0] != info["last_seen"]:
                self.heard[address] = info["last_seen"], now

    def overdue(self, task: Future, address: str, since: float) -> bool:
        """Whether to give up a worker that has not answered a task ``since`` then."""
        if self.is_silent(address):
            return True
        late = time.monotonic() - since > self.give_up
        return late and self.kind_of.get(task.key) in self.done_before

    def is_silent(self, address: str) -> bool:
        """Whether the scheduler has not heard from a worker for too long."""
        now = time.monotonic()
        return now - self.heard.get(address, (0.0, now))[1] > self.give_up

    def do_without(self, addresses: Iterable[str]) -> None:
        """Do without workers that do not answer, even if the scheduler still believes in them."""
        for address in addresses:
            LOG.warning("worker %s has not answered for %g s", address, self.give_up)
            self.silent.add(address)
        self.workers()  # there must be others

    def load(self, addresses: Sequence[str]) -> dict[str, list[int]]:
        """The shards that each of some workers has."""
        load: dict[str, list[int]] = {address: [] for address in addresses}
        for number, address in self.place.items():
            if address in load:
                load[address].append(number)
        return load

    def assign(self, numbers: Sequence[int]) -> None:
        """Deal out shards to the workers that have the fewest."""
        for number in numbers:
            self.place.pop(number, None)
        addresses = self.fit_workers()
        load = self.load(addresses)
        for number in numbers:
            address = min(load, key=lambda one: len(load[one]))
            self.place[number] = address
            load[address].append(number)

    # --------------------------------------------------------------------------- tasks and errors

    def submit(self, task: Callable[..., Any], address: str, *arguments: Any) -> Future:
        """Send a worker a task about this fit."""
        # Through the scheduler, which no worker that hangs can hold up; plans are large, so be it.
        with (
            scheduler_must_answer(self.client),
            dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}),
        ):
            sent = self.client.submit(task, self.fit, *arguments, workers=[address], pure=False)
        which = [argument for argument in arguments if isinstance(argument, str)]
        self.kind_of[sent.key] = (address, task.__name__, *which)
        return sent

    def tell(self, message: Callable[..., None], address: str, *about: Any) -> None:
        """Send a worker a task whose answer nobody waits for."""
        self.told = [task for task in self.told if not task.done()]
        self.told.append(self.submit(message, address, *about))

    def result(self, task: Future, address: str) -> Any:
        """The answer of a task that is done; `Missing` if the worker failed before that."""
        deadline, timeout = time.monotonic() + self.give_up, 1.0
        kind = self.kind_of.pop(task.key, None)
        while time.monotonic() < deadline:
            try:
                timeout *= 2.0  # weights may take long, and would begin anew
                answer = task.result(timeout=timeout)
                if kind is not None:
                    self.done_before.add(kind)
                return answer
            except TimeoutError:
                if address not in self.workers():
                    break
            except CancelledError as error:
                if self.client.status != "running":
                    raise scheduler_lost(self.client) from error
                break
            except KilledWorker as error:
                raise EngineError(
                    f"workers died again and again at the same work ({error}); most often they "
                    "run out of memory. Use more and smaller shards, or workers with more memory."
                ) from error
        task.cancel()
        return Missing(tuple(self.load([address])[address]))

    def silence(self) -> EngineError:
        """What to raise if nobody answers."""
        return EngineError(
            f"the Dask cluster did not answer within {self.give_up:g} seconds; are its scheduler "
            "and workers running? DaskEngine(give_up=...) waits longer."
        )

    def answers(self, asked: dict[str, Future], timeout: float) -> dict[str, Any]:
        """What workers answer in time; `Missing` stands for those that failed.

        A task bound to a worker that is gone would wait for ever, so we look after them ourselves.
        """
        answers: dict[str, Any] = {}
        deadline = time.monotonic() + timeout
        while True:
            for address, task in asked.items():
                if address not in answers and task.done():
                    answers[address] = self.result(task, address)
            pending = {one: task for one, task in asked.items() if one not in answers}
            left = deadline - time.monotonic()
            if not pending or left <= 0:
                return answers
            if not self.wait(list(pending.values()), min(1.0, left), "FIRST_COMPLETED"):
                alive = set(self.workers())
                for address, task in pending.items():
                    if address not in alive and not task.done():
                        task.cancel()
                        answers[address] = Missing(tuple(self.load([address])[address]))

    def wait(self, tasks: Sequence[Future], timeout: float, how: str = "ALL_COMPLETED") -> bool:
        """Whether tasks came to an end in time."""
        try:
            with self.client.as_current():
                wait(list(tasks), timeout=timeout, return_when=how)
        except TimeoutError:
            return False
        except CancelledError as error:
            if self.client.status != "running":
                raise scheduler_lost(self.client) from error
        return True

    def each(
        self, task: Callable[..., Any], arguments: Mapping[int, tuple[Any, ...]]
    ) -> dict[int, Any]:
        """A task for each shard, on the worker it is assigned to; on another if that one fails."""

        def submit(number: int) -> Future:
            return self.submit(task, self.place[number], number, *arguments[number])

        waiting = {number: submit(number) for number in arguments}
        answers: dict[int, Any] = {}
        last = time.monotonic()
        while waiting:
            self.wait(list(waiting.values()), 1.0, "FIRST_COMPLETED")
            alive = set(self.workers())
            for number, asked in list(waiting.items()):
                address = self.place[number]
                if asked.done():
                    answer = self.result(asked, address)
                elif address not in alive:
                    asked.cancel()
                    answer = Missing((number,))
                else:
                    continue
                last = time.monotonic()
                if isinstance(answer, Missing):
                    self.assign([number])
                    waiting[number] = submit(number)
                else:
                    answers[number] = answer
                    del waiting[number]
            late = [n for n, task in waiting.items() if self.overdue(task, self.place[n], last)]
            if late:
                last = time.monotonic()
                self.do_without({self.place[number] for number in late})
        return answers

    def close(self) -> None:
        """Have the workers forget the fit."""
        with contextlib.suppress(EngineError):  # a scheduler that is gone has no workers
            tasks = [
                self.submit(worker.drop, address)
                for address in sorted(set(worker_info(self.client)) - self.silent)
            ]
            self.wait([*tasks, *self.told], 5.0)  # who does not answer will not be waited for
        self.told.clear()
