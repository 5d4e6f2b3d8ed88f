"""The contract between processes that train together: sums and messages that all of them make.

Every process runs the same optimizer on its own samples (`DistributedShards`), so all of them call
the same collective operations in the same order. An engine for another cluster (MPI,
torch.distributed) implements `Collective`, or `MessageCollective` where there are but messages:
docs/extending.md has an example.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np


class Stopped(Exception):
    """The processes cannot go on together: one is lost, or they were told to stop."""


class OutOfStep(Stopped):
    """Processes were about to do different things."""


class Collective(ABC):
    """Collective operations of ``size`` processes, as the one numbered ``rank`` sees them.

    Each operation has a label, which says what it is for and is the same on all ranks. An
    implementation raises `OutOfStep` where it notices that labels differ, and `Stopped` where a
    process is lost; no operation can follow then.
    """

    rank: int
    size: int
    bytes_sent: int = 0
    """From this process to others so far."""

    @abstractmethod
    def allgather(self, arrays: Sequence[np.ndarray], label: str) -> list[Sequence[np.ndarray]]:
        """Return the arrays of all processes, by rank; they may differ in number and length."""

    @abstractmethod
    def allreduce(self, vector: np.ndarray, label: str) -> None:
        """Replace a vector by its sum over all processes, in place: the same bits on all ranks."""

    def broadcast(self, value: Any, label: str) -> Any:
        """Return the value of rank 0."""
        if self.size == 1:
            return value
        own = [np.frombuffer(pickle.dumps(value), np.uint8)] if self.rank == 0 else []
        return pickle.loads(self.allgather(own, label)[0][0].tobytes())


class MessageCollective(Collective):
    """Collective operations made of messages from each process to each other one.

    Vectors as long as θ are added up in two exchanges: each process owns a stretch of the weights,
    gets the others' values there, and sends them the sums. So it sends and receives about two
    vectors, however many processes there are.
    """

    @abstractmethod
    def exchange(
        self, parts: Sequence[Sequence[np.ndarray]], label: str
    ) -> list[Sequence[np.ndarray]]:
        """Send ``parts`` by rank, and return those for us, by rank."""

    def allgather(self, arrays: Sequence[np.ndarray], label: str) -> list[Sequence[np.ndarray]]:
        """See `Collective`."""
        return self.exchange([list(arrays)] * self.size, label)

    def allreduce(self, vector: np.ndarray, label: str) -> None:
        """See `Collective`; zeros do not travel where they are many."""
        if self.size == 1:
            return
        cuts = [len(vector) * rank // self.size for rank in range(self.size + 1)]
        stretches = [vector[a:b] for a, b in pairwise(cuts)]
        own = stretches[self.rank]
        others = [rank for rank in range(self.size) if rank != self.rank]
        sent = [[] if one is own else _packed(one) for one in stretches]
        parts = self.exchange(sent, f"parts of {label}")
        for rank in others:
            _add(own, parts[rank])
        # Where messages are not copied, others may read ours after we have gone on.
        sums = self.allgather(_packed(own.copy()), f"sums of {label}")
        for rank in others:
            stretches[rank][:] = 0.0
            _add(stretches[rank], sums[rank])


def _packed(stretch: np.ndarray) -> list[np.ndarray]:
    """Part of a vector: its places and values that are not 0, or all values if that is less."""
    if np.count_nonzero(stretch) >= 0.6 * len(stretch):
        return [stretch]
    place = np.flatnonzero(stretch)
    return [place.astype(np.int32 if len(stretch) < 2**31 else np.int64), stretch[place]]


def _add(to: np.ndarray, packed: Sequence[np.ndarray]) -> None:
    """Add what `_packed` has made."""
    if len(packed) == 1:
        to += packed[0]
    else:
        to[packed[0]] += packed[1]
