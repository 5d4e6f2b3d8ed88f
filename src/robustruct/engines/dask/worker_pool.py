"""The workers of a Dask cluster that a fit can use: who is alive, and who has which shard.

Dask waits for ever for a task that is bound to a worker which is gone, and believes for minutes in
one that does not answer. So every wait here looks at the workers as well.
"""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any

import dask
from distributed import Client, Future, wait
from distributed.client import ClosedClientError

from robustruct.engines.dask import worker
from robustruct.engines.dask.versions import refusal, versions_of
from robustruct.errors import EngineError

LOG = logging.getLogger(__name__)
REBUILDS = 20  # of one shard: more failures than that are the shard's fault


class WorkerLost(Exception):
    """The worker of a task is gone."""


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
    """Return the error about a scheduler that is gone."""
    address = getattr(client.scheduler, "address", "its address")
    return EngineError(
        f"the connection to the Dask scheduler at {address} is lost; is it running? Connect a new "
        "Client and fit again; with a Checkpoint and resume=True the fit goes on where it was."
    )


def worker_info(client: Client) -> dict[str, Any]:
    """Return what the scheduler knows of each worker, by address."""
    with scheduler_must_answer(client):
        return client.scheduler_info(n_workers=-1)["workers"]


class WorkerPool:
    """Workers, and which of them has which shard."""

    def __init__(self, client: Client, give_up: float) -> None:
        self.client, self.give_up = client, give_up
        self.fit = uuid.uuid4().hex
        self.place: dict[int, str] = {}
        """Address of the worker that has each shard."""
        self.n_shards = self.rebuilt = self.moved = 0
        """Shards, those that were lost with their worker, and those that another has taken over."""
        self.silent: set[str] = set()
        """Workers that were given up."""
        self.checked: set[str] = set()
        """Workers whose versions are ours."""
        self.heard: dict[str, tuple[float, float]] = {}
        """The last sign of life of each worker by its clock, and when we learnt of it."""

    def workers(self) -> list[str]:
        """Return the addresses of the workers there are, but for those given up; wait for one."""
        deadline = time.monotonic() + self.give_up
        while True:
            addresses = worker_info(self.client)
            self._listen(addresses)
            found = sorted(set(addresses) - self.silent)
            if found:
                return found
            if self.silent & set(addresses):
                raise EngineError(
                    f"the Dask cluster did not answer within {self.give_up:g} seconds; are its "
                    "scheduler and workers running? DaskEngine(give_up=...) waits longer."
                )
            if time.monotonic() > deadline:
                raise EngineError(
                    f"the Dask cluster has had no worker for {self.give_up:g} seconds; start some "
                    "(`dask worker tcp://...`) and fit again."
                )
            time.sleep(0.1)

    def _listen(self, workers: dict[str, Any]) -> None:
        """Give up workers that the scheduler has not heard from for too long."""
        now = time.monotonic()
        for address, info in workers.items():
            seen, since = self.heard.get(address, (None, now))
            if seen != info["last_seen"]:
                self.heard[address] = info["last_seen"], now
            elif now - since > self.give_up and address not in self.silent:
                self.do_without(address)

    def do_without(self, address: str) -> None:
        """Do without a worker that does not answer, even if the scheduler still believes in it."""
        LOG.warning("worker %s has not answered for %g s", address, self.give_up)
        self.silent.add(address)

    def fit_workers(self) -> list[str]:
        """Return the workers of our versions; when a fit begins, another version is an error."""
        unknown = [address for address in self.workers() if address not in self.checked]
        with scheduler_must_answer(self.client):
            found = versions_of(self.client, unknown) if unknown else {}
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

    def dealt(self, addresses: Sequence[str]) -> dict[int, str]:
        """Return the place of each shard, given the workers there are.

        Shards stay where they are, unless their worker is lost or another has none.
        """
        load: dict[str | None, list[int]] = {address: [] for address in addresses}
        homeless: list[int] = []
        for number in range(self.n_shards):
            load.get(self.place.get(number), homeless).append(number)
        by_size = list(load.values())
        for number in homeless:
            min(by_size, key=len).append(number)
        while not min(by_size, key=len) and len(max(by_size, key=len)) > 1:
            min(by_size, key=len).append(max(by_size, key=len).pop())
        return {number: str(address) for address in load for number in load[address]}

    def settle(self) -> list[int]:
        """Give each shard a worker; return those that have another one than before."""
        addresses = self.fit_workers()
        last, self.place = self.place, self.dealt(addresses)
        changed = [number for number in self.place if self.place[number] != last.get(number)]
        lost = [n for n in changed if n in last and last[n] not in addresses]
        self.moved += sum(number in last for number in changed) - len(lost)
        self.rebuilt += len(lost)
        if lost:
            LOG.warning("shards %s were lost with their worker and are read again", lost)
        if self.rebuilt > REBUILDS * self.n_shards:
            raise EngineError(
                f"shards were lost {self.rebuilt} times because their workers died, so something "
                "about them kills workers; most often memory. Use more and smaller shards, or "
                "workers with more memory."
            )
        return changed

    def submit(self, task: Callable[..., Any], address: str, *given: Any, **options: Any) -> Future:
        """Send a worker a task."""
        # Through the scheduler, which no worker that hangs can hold up; plans are large, so be it.
        with (
            scheduler_must_answer(self.client),
            dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}),
        ):
            return self.client.submit(task, *given, workers=[address], pure=False, **options)

    def wait(self, tasks: Sequence[Future], timeout: float, how: str = "FIRST_COMPLETED") -> None:
        """Wait until a task has ended, but no longer than ``timeout`` seconds."""
        try:
            with self.client.as_current():
                wait(list(tasks), timeout=timeout, return_when=how)
        except TimeoutError:
            pass
        except CancelledError as error:
            if self.client.status != "running":
                raise scheduler_lost(self.client) from error

    def result(self, task: Future, address: str) -> Any:
        """Return the result of a task that has ended; raises its error, or `WorkerLost`."""
        timeout = 1.0
        while address in self.workers():
            try:
                return task.result(timeout=timeout)
            except TimeoutError:
                timeout *= 2.0  # weights may take long, and would start again
            except CancelledError as error:
                if self.client.status != "running":
                    raise scheduler_lost(self.client) from error
                break
        raise WorkerLost(address)

    def each(self, numbers: Iterable[int], submit: Callable[[int], Future]) -> dict[int, Any]:
        """Return results of a task for each shard; a shard whose worker is lost goes to another."""
        waiting = {number: submit(number) for number in numbers}
        results: dict[int, Any] = {}
        while waiting:
            self.wait(list(waiting.values()), 1.0)
            try:
                for number, task in list(waiting.items()):
                    if task.done():
                        results[number] = self.result(task, self.place[number])
                        del waiting[number]
                lost = not {self.place[number] for number in waiting} <= set(self.workers())
            except WorkerLost:
                lost = True
            if lost:
                waiting |= {number: submit(number) for number in self.settle()}
        return results

    def close(self) -> None:
        """Have the workers forget the fit."""
        with contextlib.suppress(EngineError):  # a scheduler that is gone has no workers
            addresses = set(worker_info(self.client)) - self.silent
            tasks = [self.submit(worker.drop, address, self.fit) for address in addresses]
            self.wait(tasks, 5.0, "ALL_COMPLETED")  # who does not answer is not waited for
