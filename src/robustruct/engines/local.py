"""Work without a cluster: all samples in this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from functools import reduce
from typing import TypeVar

import numpy as np

from robustruct.engines.engine import MemorySamples
from robustruct.errors import InvalidInputError
from robustruct.features.digests import joined_digests
from robustruct.formats.shards import ShardedData
from robustruct.objectives.adversarial import Problem
from robustruct.objectives.build import Plan, Settings, Summary, in_memory, plan_of, summarise
from robustruct.optimizers.local_shards import LocalShards, ShardState
from robustruct.optimizers.optimizer import Optimizer
from robustruct.optimizers.tuning import DENSE, Density

T = TypeVar("T")
Result = TypeVar("Result")


class PreparedLocalShards(LocalShards, ABC):
    """Samples of this process that are still to be encoded."""

    def __init__(self) -> None:
        super().__init__({}, DENSE)

    @abstractmethod
    def prepare(self, settings: Settings, tick: Callable[[str], None]) -> Plan:
        """See `PreparedShards`."""

    def sample_digests(self) -> np.ndarray:
        """See `PreparedShards`."""
        return joined_digests([one.sample_digests for one in self.local_problems.values()])

    def placed(self, optimizer: Optimizer) -> Optimizer:
        """The optimizer itself: it works in this process too."""
        return optimizer

    def hold(self, problems: Mapping[int, Problem]) -> None:
        """Train on these."""
        self.tuning = Density.of_all(map(Density.of, problems.values())).tuning()
        self.shards = {n: ShardState(problem, self.tuning) for n, problem in problems.items()}


class FileShards(PreparedLocalShards):
    """All shards in this process."""

    def __init__(self, data: ShardedData) -> None:
        super().__init__()
        self.data = data

    def prepare(self, settings: Settings, tick: Callable[[str], None]) -> Plan:
        """Read all shards, then encode them."""
        tick("reading")
        corpora = [shard.read() for shard in self.data]
        summaries = [summarise(corpus, hashed=self.data.hashed) for corpus in corpora]
        plan = plan_of(settings, reduce(Summary.merged, summaries), self.data.min_count)
        tick("encoding")
        problems = {n: plan.assembled(corpus) for n, corpus in enumerate(corpora)}
        found = {n: problem for n, problem in problems.items() if problem is not None}
        if not found:
            raise InvalidInputError("no shard has a sample with a weight; nothing can be learnt.")
        self.hold(found)
        return plan


class MemoryShards(PreparedLocalShards):
    """Samples in memory: one shard."""

    def __init__(self, samples: MemorySamples) -> None:
        super().__init__()
        self.samples = samples

    def prepare(self, settings: Settings, tick: Callable[[str], None]) -> Plan:
        """Encode them, which takes little time."""
        given = self.samples
        plan, problem = in_memory(
            settings, given.X, given.y, given.sample_weight, given.node_weight
        )
        self.hold({0: problem})
        return plan

    def again(self, plan: Plan) -> None:
        """Take the same samples, which are prepared, at another penalty and temperature."""
        self.hold({0: plan.retuned(self.first.given)})

    def part(self, samples: np.ndarray) -> MemoryShards:
        """Some of the samples, which are prepared; `again` says what is to be learnt of them."""
        part = copy(self)
        part.shards = {0: ShardState(self.first.given.take(samples), self.tuning)}
        return part


class LocalEngine:
    """The engine that is used where none is given."""

    n_workers = 1

    @contextmanager
    def shards(self, data: ShardedData | MemorySamples) -> Iterator[PreparedLocalShards]:
        """The samples in this process."""
        yield MemoryShards(data) if isinstance(data, MemorySamples) else FileShards(data)

    def map(self, function: Callable[[T], Result], items: Iterable[T]) -> list[Result]:
        """``function(item)`` for every item, one after the other."""
        return [function(item) for item in items]
