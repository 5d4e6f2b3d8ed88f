"""Work on shards without a cluster: all of them in this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol, TypeVar

from robustruct.errors import InvalidInputError
from robustruct.formats.shards import ShardedData
from robustruct.objectives.adversarial import Problem
from robustruct.objectives.build import Plan, Settings, Summary, in_memory, plan_of, summarise
from robustruct.optimizers.local_shards import Holding, Site
from robustruct.optimizers.optimizer import Sites
from robustruct.optimizers.tuning import DENSE, Density

T = TypeVar("T")
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples in memory, as users pass them to ``fit``."""

    X: Any
    y: Any
    sample_weight: Any = None
    node_weight: Any = None

    def dealt_out(self, n_shards: int) -> ShardedData:
        """The same in several shards."""
        weights = {"sample_weight": self.sample_weight, "node_weight": self.node_weight}
        return ShardedData.from_samples(self.X, self.y, n_shards, **weights)


class PreparedSites(Sites, Protocol):
    """Sites that make objectives of the samples they are given."""

    def prepare(self, settings: Settings, tick: Callable[[str], None]) -> Plan:
        """Read the samples, decide once for all, encode; ``tick`` is told what is being done."""

    def set_alpha(self, alpha: float) -> None:
        """Train with another penalty."""


class Engine(Protocol):
    """Where a model trains, predicts and is evaluated."""

    @property
    def n_workers(self) -> int:
        """How many shards can be worked on at once."""

    def sites(self, data: ShardedData | Samples) -> AbstractContextManager[PreparedSites]:
        """The samples where they are to be worked on, until the end of the context."""

    def map(self, function: Callable[[T], Result], items: Iterable[T]) -> list[Result]:
        """``function(item)`` for every item, in order; both are sent by pickle."""


class PreparedSite(Site, ABC):
    """Samples of this process that are still to be encoded."""

    def __init__(self) -> None:
        super().__init__({}, DENSE)

    @abstractmethod
    def prepare(self, settings: Settings, tick: Callable[[str], None]) -> Plan:
        """See `PreparedSites`."""

    def hold(self, problems: Mapping[int, Problem]) -> None:
        """Train on these."""
        self.tuning = Density.of_all(map(Density.of, problems.values())).tuning()
        self.shards = {n: Holding(problem, self.tuning) for n, problem in problems.items()}

    def set_alpha(self, alpha: float) -> None:
        """Train with another penalty."""
        self.hold({n: shard.given.with_alpha(alpha) for n, shard in self.shards.items()})


class ShardedSite(PreparedSite):
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


class MemorySite(PreparedSite):
    """Samples in memory: one shard."""

    def __init__(self, samples: Samples) -> None:
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


class Here:
    """The engine that is used where none is given."""

    n_workers = 1

    @contextmanager
    def sites(self, data: ShardedData | Samples) -> Iterator[PreparedSite]:
        """The samples in this process."""
        yield MemorySite(data) if isinstance(data, Samples) else ShardedSite(data)

    def map(self, function: Callable[[T], Result], items: Iterable[T]) -> list[Result]:
        """``function(item)`` for every item, one after the other."""
        return [function(item) for item in items]
