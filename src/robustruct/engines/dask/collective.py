"""Collective operations of Dask workers: messages go from worker to worker, past the scheduler.

A worker that is lost makes exchanges fail, or wait until the driver cancels the task of the
attempt; nothing is sent twice. A driver that is gone has its tasks cancelled by the scheduler.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
from distributed import Worker
from distributed.core import Status
from distributed.protocol import to_serialize

from robustruct.optimizers.collective import MessageCollective, OutOfStep, Stopped

RECEIVE = "robustruct_receive"  # the handler of workers that takes messages
LOOK_EVERY = 0.25  # seconds between looks at whether the driver has cancelled the attempt

Message = tuple[str, list[np.ndarray]]
"""Label and arrays."""


class Inbox:
    """Messages of other workers in one attempt."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.messages: dict[tuple[int, int], Message] = {}
        """By number of the exchange and rank of the sender."""
        self.closed = False
        """Whether this worker has left the attempt."""

    def put(self, number: int, rank: int, message: Message) -> bool:
        """Take a message in; whether it is of any use."""
        self.messages[number, rank] = message
        self.notify()
        return not self.closed

    def close(self) -> None:
        """Refuse messages from now on."""
        self.closed = True
        self.notify()

    def notify(self, _: Any = None) -> None:
        """Wake up the threads that wait."""
        with self.condition:
            self.condition.notify_all()


class DaskCollective(MessageCollective):
    """The workers of an attempt, as one of them sees it; made in the thread of its task."""

    def __init__(
        self, worker: Worker, fit: str, attempt: int, addresses: Sequence[str], inbox: Inbox
    ) -> None:
        self.worker, self.fit, self.attempt, self.inbox = worker, fit, attempt, inbox
        self.addresses, self.task = list(addresses), worker.get_current_task()
        self.size, self.rank = len(addresses), self.addresses.index(worker.address)
        self.others = [*range(self.rank + 1, self.size), *range(self.rank)]
        self.number, self.bytes_sent, self.label = 0, 0, ""
        self.worked: set[str] = set()
        """Labels of exchanges that came to their end."""
        self.waits_since: float | None = None
        self.missing: set[int] = set()
        """Ranks whose messages have not come."""
        self.not_taken: set[int] = set()
        """Ranks that have not taken our message."""

    def check(self) -> None:
        """Leave if the driver has cancelled the attempt, or the worker closes."""
        task = self.worker.state.tasks.get(self.task)
        closing = self.worker.status not in (Status.running, Status.paused)
        if task is None or task.state == "cancelled" or closing:
            raise Stopped

    def overdue(self, seconds: float) -> list[int]:
        """Return the ranks that have kept us waiting for longer.

        The first exchange with a label does not count, as workers may load code before it. A worker
        that waits itself for one that hangs still takes messages: so first those that take none.
        """
        since = self.waits_since
        if since is None or self.label not in self.worked or time.monotonic() - since < seconds:
            return []
        return sorted(self.not_taken or self.missing)

    def exchange(
        self, parts: Sequence[Sequence[np.ndarray]], label: str
    ) -> list[Sequence[np.ndarray]]:
        """See `MessageCollective`."""
        self.check()
        self.number, self.label = self.number + 1, label
        received = {self.rank: (label, list(parts[self.rank]))}
        if self.others:
            self.bytes_sent += sum(one.nbytes for rank in self.others for one in parts[rank])
            self.not_taken, self.missing = set(self.others), set(self.others)
            self.waits_since = time.monotonic()
            loop = self.worker.loop.asyncio_loop  # type: ignore[attr-defined]
            sending = asyncio.run_coroutine_threadsafe(self._send(parts), loop)
            try:
                received |= self._receive(sending)
            finally:
                sending.cancel()
            self.waits_since = None
        if any(other != label for other, _ in received.values()):
            raise OutOfStep
        self.worked.add(label)
        return [received[rank][1] for rank in range(self.size)]

    async def _send(self, parts: Sequence[Sequence[np.ndarray]]) -> None:
        async def send(rank: int) -> None:
            await self._send_one(rank, (self.label, list(parts[rank])))
            self.not_taken.discard(rank)

        await asyncio.gather(*map(send, self.others))

    async def _send_one(self, rank: int, message: Message) -> None:
        label, arrays = message
        taken = await getattr(self.worker.rpc(self.addresses[rank]), RECEIVE)(
            fit=self.fit,
            attempt=self.attempt,
            number=self.number,
            rank=self.rank,
            message=[label, [to_serialize(array) for array in arrays]],
        )
        if not taken:
            raise Stopped

    def _receive(self, sending: Future[None]) -> dict[int, Message]:
        """Wait for the others' messages, and until ours are sent."""
        found: dict[int, Message] = {}

        def complete() -> bool:
            for rank in list(self.missing):
                if (self.number, rank) in self.inbox.messages:
                    found[rank] = self.inbox.messages.pop((self.number, rank))
                    self.missing.discard(rank)
            if sending.done() and sending.exception() is not None:
                raise Stopped from sending.exception()
            return sending.done() and not self.missing

        sending.add_done_callback(self.inbox.notify)
        with self.inbox.condition:
            while not self.inbox.condition.wait_for(complete, LOOK_EVERY):
                self.check()
        return found
