"""The workers that train together: they keep in step, and add up among themselves.

Every worker of a group runs the same optimizer with the same numbers, so all of them come to the
same exchanges in the same order. In an exchange each sends a message to each other one, from worker
to worker. Vectors as long as θ are added up in two of them: every worker owns a stretch of the
weights, gets what the others have there, and sends them the sums. So each sends and receives about
two vectors, however many workers there are, and nothing passes through the scheduler.

Only the first worker's clock counts, and only it takes orders; both go along with its messages,
which therefore everybody learns of at the same point. Workers whose numbers differ, because
processors round differently, notice it by what they are about to do (`OutOfStep`).
"""

from __future__ import annotations

import asyncio
import pickle
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from distributed import Worker
from distributed.protocol import to_serialize

from robustruct.core.vectors import merge_entries

RECEIVE, PRESENT = "robustruct_receive", "robustruct_present"  # what workers ask each other
LOOK_AFTER = 5.0  # seconds between questions whether a worker that is waited for is still there
SMALL = 2**12  # numbers that are sent to all at once
FEW = 3  # workers that send changes to each other, and not by way of owners
ALIKE = 1e-9  # relative differences between workers that rounding may explain


class Stopped(Exception):
    """The group has come to an end: a worker is gone, or somebody has said so."""


class OutOfStep(Stopped):
    """Workers were about to do different things."""


class Paused(Stopped):
    """All workers have stopped at the same point, because shards are about to move."""


@dataclass(frozen=True, eq=False)
class Message:
    """What one worker tells another in an exchange."""

    about: Sequence[Any]
    """What the sender is doing; the same for all workers."""
    facts: Sequence[float]
    arrays: Sequence[np.ndarray]
    clock: float
    order: str
    """What everybody should do now; only the first worker says so."""


class Mailbox:
    """Messages of other workers that have come in."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.attempt = 0
        """The group that this worker is in, or was."""
        self.stopped = 0
        """The last group that was told to stop."""
        self.messages: dict[tuple[int, int, int], Message] = {}
        """By attempt, number of the exchange, and rank of the sender."""
        self.orders: dict[int, str] = {}
        """What to tell the others of an attempt, if we are the first."""

    def takes(self, attempt: int) -> bool:
        """Whether messages to a group are of any use."""
        return attempt >= self.attempt and attempt > self.stopped

    def put(self, attempt: int, number: int, rank: int, message: Message) -> bool:
        """A message has come in; whether it is of any use."""
        with self.condition:
            if not self.takes(attempt):
                return False
            self.messages[attempt, number, rank] = message
            self.condition.notify_all()
            return True

    def begin(self, attempt: int) -> None:
        """Join a group; what came for earlier ones is void."""
        with self.condition:
            self.attempt = max(attempt, self.attempt)
            self.messages = {at: one for at, one in self.messages.items() if at[0] >= attempt}

    def stop(self, attempt: int) -> None:
        """Leave a group as soon as possible."""
        with self.condition:
            self.stopped = max(attempt, self.stopped)
            self.condition.notify_all()


class Group:
    """The workers of an attempt, as one of them sees it."""

    def __init__(
        self, worker: Worker, fit: str, attempt: int, addresses: Sequence[str], mailbox: Mailbox
    ) -> None:
        self.worker, self.fit, self.attempt = worker, fit, attempt
        self.addresses, self.mailbox = list(addresses), mailbox
        self.size, self.rank = len(addresses), self.addresses.index(worker.address)
        self.number = 0
        """Of exchanges so far."""
        self.doing, self.again = "", False
        """What this worker does, and whether it has done so before: then it does not compile."""
        self._done: set[str] = set()
        self.waiting_for: list[int] = []
        """Ranks that have not taken our message yet, or else those whose messages have not come."""
        self._not_taken: set[int] = set()
        self.bytes_sent = 0
        self._clock = time.perf_counter()
        mailbox.begin(attempt)

    def clock(self) -> float:
        """Seconds by the clock of the first worker, as of the last exchange."""
        return self._clock

    def begin(self, what: str) -> None:
        """Take note of what is about to be done, up to the end of an exchange."""
        self._done.add(self.doing)
        self.doing, self.again = what, what in self._done

    # --------------------------------------------------------------------------------- exchanges

    def exchange(
        self,
        about: Sequence[Any],
        facts: Sequence[float] = (),
        arrays: Sequence[Sequence[np.ndarray]] | None = None,
    ) -> list[Message]:
        """The messages of all workers, our own among them; ``arrays`` of ours by who gets them."""
        self.number += 1
        given = [list(some) for some in arrays] if arrays is not None else [[]] * self.size
        order = self.mailbox.orders.pop(self.attempt, "") if self.rank == 0 else ""
        told = list(about), [float(fact) for fact in facts]
        messages = [Message(*told, some, time.perf_counter(), order) for some in given]
        found = {self.rank: messages[self.rank]}
        if self.size > 1:
            others = [*range(self.rank + 1, self.size), *range(self.rank)]
            self.bytes_sent += sum(one.nbytes for rank in others for one in given[rank])
            self._not_taken = set(others)
            loop = self.worker.loop.asyncio_loop  # type: ignore[attr-defined]
            sending = asyncio.run_coroutine_threadsafe(self._send(others, messages), loop)
            found |= self._received(others, sending)
        received = [found[rank] for rank in range(self.size)]
        first = received[0]
        self._clock = first.clock
        if any(tuple(one.about) != tuple(first.about) for one in received):
            raise OutOfStep
        if first.order:
            raise KeyboardInterrupt if first.order == "interrupt" else Paused
        return received

    async def _send(self, ranks: Sequence[int], messages: Sequence[Message]) -> None:
        async def send(rank: int) -> None:
            await self._send_one(rank, messages[rank])
            self._not_taken.discard(rank)

        await asyncio.gather(*map(send, ranks))

    async def _send_one(self, rank: int, message: Message) -> None:
        peer = self.worker.rpc(self.addresses[rank])
        taken = await getattr(peer, RECEIVE)(
            fit=self.fit,
            attempt=self.attempt,
            number=self.number,
            rank=self.rank,
            message=[
                message.about,
                message.facts,
                [to_serialize(array) for array in message.arrays],
                message.clock,
                message.order,
            ],
        )
        if not taken:
            raise Stopped

    def _received(self, ranks: Sequence[int], sending: Future[None]) -> dict[int, Message]:
        """The others' messages, once ours are sent as well."""
        mailbox, keys = self.mailbox, {rank: (self.attempt, self.number, rank) for rank in ranks}
        looked = time.monotonic()

        def wake(_: Any) -> None:
            with mailbox.condition:
                mailbox.condition.notify_all()

        sending.add_done_callback(wake)
        try:
            while True:
                with mailbox.condition:
                    if not mailbox.takes(self.attempt):
                        raise Stopped
                    if sending.done() and sending.exception() is not None:
                        raise Stopped from sending.exception()
                    missing = [r for r, key in keys.items() if key not in mailbox.messages]
                    # A worker that runs takes messages at any time; it may wait for one that hangs.
                    self.waiting_for = sorted(self._not_taken) or missing
                    if not missing and sending.done():
                        return {rank: mailbox.messages.pop(key) for rank, key in keys.items()}
                    mailbox.condition.wait(LOOK_AFTER / 2)
                if self.waiting_for and time.monotonic() - looked > LOOK_AFTER:
                    self._look_after(self.waiting_for)
                    looked = time.monotonic()
        finally:
            sending.cancel()

    def _look_after(self, ranks: Sequence[int]) -> None:
        """Stop if a worker that is waited for has left the group, or cannot be reached."""

        async def present(rank: int) -> bool:
            asked = getattr(self.worker.rpc(self.addresses[rank]), PRESENT)
            return bool(await asked(fit=self.fit, attempt=self.attempt))

        async def all_present() -> bool:
            return all(await asyncio.gather(*(present(rank) for rank in ranks)))

        loop = self.worker.loop.asyncio_loop  # type: ignore[attr-defined]
        asked = asyncio.run_coroutine_threadsafe(all_present(), loop)
        try:
            if not asked.result(LOOK_AFTER):
                raise Stopped
        except TimeoutError:
            asked.cancel()  # it may hang, which is for the caller of `fit` to judge
        except OSError as error:
            raise Stopped from error

    # -------------------------------------------------------------------------------------- sums

    def stretches(self, n: int) -> list[tuple[int, int]]:
        """Which of ``n`` weights each worker owns, from and to."""
        cuts = [n * rank // self.size for rank in range(self.size + 1)]
        return list(pairwise(cuts))

    def add_up(self, vector: np.ndarray, about: str, facts: Sequence[float] = ()) -> np.ndarray:
        """Σ over workers of ``vector``, in place and in float64, and (workers, ...) all facts."""
        if self.size == 1:
            return np.array([self.exchange([about], facts)[0].facts])
        stretches = self.stretches(len(vector))
        first, last = stretches[self.rank]
        parts = [_packed(vector[a:b], a) for a, b in stretches]
        received = self.exchange([about, "parts"], facts, parts)
        own = vector[first:last]
        for message in received:
            if message is not received[self.rank]:
                _add(own, first, message.arrays)
        sums = self.exchange([about, "sums"], (), [_packed(own.copy(), first)] * self.size)
        for rank, (a, b) in enumerate(stretches):
            if rank != self.rank:
                vector[a:b] = 0.0
                _add(vector[a:b], a, sums[rank].arrays)
        return np.array([message.facts for message in received])

    def share(self, state: dict[str, np.ndarray], source: int) -> dict[str, np.ndarray]:
        """The arrays of one worker, for all."""
        if self.size == 1:
            return state
        small = {name: value for name, value in state.items() if value.size <= SMALL}
        shapes = {name: value.shape for name, value in state.items() if name not in small}
        told = np.frombuffer(pickle.dumps((small, shapes)), np.uint8)
        header = [[told]] * self.size if self.rank == source else None
        received = self.exchange(["share", source], (), header)
        small, shapes = pickle.loads(received[source].arrays[0].tobytes())
        found = dict(small)
        for name, shape in shapes.items():
            mine = self.rank == source
            whole = np.array(state[name], float) if mine else np.zeros(shape)
            self.add_up(whole.reshape(-1), f"share {name}")
            found[name] = whole
        return found

    def check_alike(self, numbers: Sequence[float]) -> None:
        """Stop unless a number is the same for all workers, but for rounding."""
        if np.ptp(numbers) > ALIKE * np.abs(numbers).max():
            raise OutOfStep


class Updates:
    """Sums of changes of θ that workers have made: entries in float32.

    Where workers are FEW, everybody gets all changes and adds them up: that takes one exchange, and
    no more bytes. Otherwise sums are made as those of vectors are.
    """

    def __init__(self, group: Group, n_weights: int, kind: np.ndarray) -> None:
        """``kind``: of each row of θ, see `Damping`."""
        self.group, self.kind = group, kind
        self.row, self.n_kinds = n_weights // len(kind), int(kind.max(initial=0)) + 1
        self.index_type = np.int32 if n_weights < 2**31 else np.int64
        self.stretches = group.stretches(n_weights)
        if group.size <= FEW:
            self.stretches = [(0, n_weights)] * group.size

    def add_up(
        self, index: np.ndarray, value: np.ndarray, about: Sequence[Any], facts: Sequence[float]
    ) -> tuple[list[tuple[int, Sequence[np.ndarray]]], np.ndarray, np.ndarray, np.ndarray]:
        """(sums by stretch, (workers, ...) all facts, |sum|² and Σ|changes|² by kind)."""
        group = self.group
        parts = []
        for first, last in self.stretches:
            a, b = np.searchsorted(index, [first, last])
            parts.append(_shortest(index[a:b], value[a:b], first, last))
        own = self._squares(index, value)
        received = group.exchange([*about, "changes"], [*own, *facts], parts)
        first, last = self.stretches[group.rank]
        sums = _merged([self._entries(message.arrays, first, last) for message in received])
        ours = _shortest(*sums, first, last)
        all_facts = np.array([message.facts for message in received])
        squares, told = all_facts[:, : self.n_kinds].sum(axis=0), all_facts[:, self.n_kinds :]
        of_sums = self._squares(*sums)
        if group.size <= FEW:
            return [(0, ours)], told, of_sums, squares
        summed = group.exchange([*about, "sums"], of_sums.tolist(), [ours] * group.size)
        of_sums = np.sum([message.facts for message in summed], axis=0)
        every = zip(self.stretches, summed, strict=True)
        return [(first, message.arrays) for (first, _), message in every], told, of_sums, squares

    def _squares(self, index: np.ndarray, value: np.ndarray) -> np.ndarray:
        """Sums of squares of entries, by kind."""
        found = np.zeros(self.n_kinds)
        np.add.at(found, self.kind[index // self.row], value.astype(np.float64) ** 2)
        return found

    def _entries(
        self, arrays: Sequence[np.ndarray], first: int, last: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """What `_shortest` was given."""
        if len(arrays) == 2:
            return arrays[0], arrays[1]
        return np.arange(first, last, dtype=self.index_type), arrays[0]


def _merged(lists: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """The sums of lists of changes: neighbours are merged until one is left."""
    while len(lists) > 1:
        pairs = zip(lists[0::2], lists[1::2], strict=False)
        left = lists[len(lists) // 2 * 2 :]
        lists = [_merged_pair(*one, *other) for one, other in pairs] + left
    return lists[0]


def _merged_pair(
    index_a: np.ndarray, value_a: np.ndarray, index_b: np.ndarray, value_b: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    most = len(index_a) + len(index_b)
    index, value = np.empty(most, index_a.dtype), np.empty(most, value_a.dtype)
    count = merge_entries(index_a, value_a, index_b, value_b, index, value)
    return index[:count], value[:count]


def _packed(stretch: np.ndarray, first: int) -> list[np.ndarray]:
    """Part of a vector: its entries that are not 0, or all if that is less."""
    count = np.count_nonzero(stretch)
    if count >= 0.6 * len(stretch):
        return [stretch]
    small = first + len(stretch) < 2**31
    place = np.flatnonzero(stretch)
    return [(place + first).astype(np.int32 if small else np.int64), stretch[place]]


def _shortest(index: np.ndarray, value: np.ndarray, first: int, last: int) -> list[np.ndarray]:
    """Changes as index and value, or as all values of the stretch if that is less."""
    if index.nbytes + value.nbytes <= (last - first) * value.itemsize:
        return [index, value]
    every = np.zeros(last - first, value.dtype)
    every[index - first] = value
    return [every]


def _add(to: np.ndarray, first: int, arrays: Sequence[np.ndarray]) -> None:
    """What `_packed` or `_shortest` have made."""
    if len(arrays) == 1:
        to += arrays[0]
    elif len(arrays) == 2:
        index, value = arrays
        to[index - first] += value
