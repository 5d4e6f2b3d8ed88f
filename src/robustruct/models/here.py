"""Work on shards without a cluster: all of them in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import reduce
from typing import Protocol, TypeVar

from robustruct.errors import InvalidInputError
from robustruct.formats.corpus import Corpus
from robustruct.formats.shards import ShardedData
from robustruct.models.assembly import Plan, Summary, summarise
from robustruct.training.site import Holding, Site, Sites
from robustruct.training.tuning import DENSE, SMOOTH, Density

T = TypeVar("T")
Result = TypeVar("Result")


class ShardSites(Sites, Protocol):
    """Sites that get their samples from shards."""

    def summary(self) -> Summary:
        """Read every shard, and sum all up."""

    def assemble(self, plan: Plan) -> None:
        """Make problems of the shards, ready for training."""


class Engine(Protocol):
    """Where a model trains, predicts and is evaluated."""

    @property
    def n_workers(self) -> int:
        """How many shards can be worked on at once."""

    def sites(self, data: ShardedData) -> AbstractContextManager[ShardSites]:
        """The shards where they are to be worked on, until the end of the context."""

    def map(self, function: Callable[[T], Result], items: Iterable[T]) -> list[Result]:
        """``function(item)`` for every item, in order; both are sent by pickle."""


class ShardedSite(Site):
    """All shards in this process."""

    def __init__(self, data: ShardedData) -> None:
        super().__init__({}, DENSE)
        self.data = data
        self.corpora: list[Corpus] = []

    def summary(self) -> Summary:
        """Read every shard, and sum all up."""
        self.corpora = [shard.read() for shard in self.data]
        found = [summarise(corpus, hashed=self.data.hashed) for corpus in self.corpora]
        return reduce(Summary.merged, found)

    def assemble(self, plan: Plan) -> None:
        """Make problems of the shards."""
        problems = {n: plan.assembled(corpus) for n, corpus in enumerate(self.corpora)}
        self.corpora.clear()
        found = {n: problem for n, problem in problems.items() if problem is not None}
        if not found:
            raise InvalidInputError("no shard has a sample with a weight; nothing can be learnt.")
        first = next(iter(found.values()))
        self.tuning = Density.of_all(map(Density.of, found.values())).tuning()
        if first.temperature > 0.0:
            self.tuning = SMOOTH
        self.shards = {n: Holding(problem, self.tuning) for n, problem in found.items()}


class Here:
    """The engine that is used where none is given."""

    n_workers = 1

    @contextmanager
    def sites(self, data: ShardedData) -> Iterator[ShardedSite]:
        """The shards in this process."""
        yield ShardedSite(data)

    def map(self, function: Callable[[T], Result], items: Iterable[T]) -> list[Result]:
        """``function(item)`` for every item, one after the other."""
        return [function(item) for item in items]
