"""The contract between processes that train together: sums and messages that all of them make.

Every process runs the same optimizer on its own samples (`DistributedShards`), so all of them call
the same collective operations in the same order. An engine for another cluster (MPI,
torch.distributed) implements `Collective`; docs/extending.md has an example.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Sequence
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
