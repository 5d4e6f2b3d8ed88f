"""The contract of engines: where samples are, and where work on them is done.

An optimizer runs where the samples are, and sees them as `robustruct.optimizers.shards.Shards`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from robustruct.formats.shards import ShardedData
from robustruct.objectives.build import Plan, Settings
from robustruct.optimizers.optimizer import Optimizer
from robustruct.optimizers.shards import SamplesOutline

T = TypeVar("T")
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class MemorySamples:
    """Samples in memory, as users pass them to ``fit``."""

    X: Any
    y: Any
    sample_weight: Any = None
    node_weight: Any = None
    groups: Any = None
    """Of each sample; a choice holds out whole groups."""

    def dealt_out(self, n_shards: int) -> ShardedData:
        """The same in several shards."""
        weights = {"sample_weight": self.sample_weight, "node_weight": self.node_weight}
        return ShardedData.from_samples(self.X, self.y, n_shards, **weights)


class PreparedShards(SamplesOutline, Protocol):
    """Shards that make objectives of the samples they are given."""

    def prepare(self, settings: Settings, tick: Callable[[str], None]) -> Plan:
        """Read the samples, decide once for all, encode; ``tick`` is told what is being done."""

    def fingerprint(self) -> dict[str, Any]:
        """What the samples are: see `fingerprint_of`."""

    def sample_digests(self) -> np.ndarray:
        """(S,) digests by which the samples are recognised: see `robustruct.features.digests`."""

    def placed(self, optimizer: Optimizer) -> Optimizer:
        """The optimizer as it works where the samples are."""


class Engine(Protocol):
    """Where a model trains, predicts and is evaluated."""

    @property
    def n_workers(self) -> int:
        """How many shards can be worked on at once."""

    def shards(self, data: ShardedData | MemorySamples) -> AbstractContextManager[PreparedShards]:
        """The samples where they are to be worked on, until the end of the context."""

    def map(self, function: Callable[[T], Result], items: Iterable[T]) -> list[Result]:
        """``function(item)`` for every item, in order; both are sent by pickle."""
