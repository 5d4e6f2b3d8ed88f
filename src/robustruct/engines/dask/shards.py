"""The samples of a fit on the workers of a Dask cluster, as the caller of `fit` sees them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from distributed import Client, Future

from robustruct.engines.dask import worker
from robustruct.engines.dask.supervisor import OnWorkers
from robustruct.engines.dask.worker import Extent
from robustruct.engines.dask.worker_pool import WorkerPool
from robustruct.errors import InvalidInputError
from robustruct.features.digests import joined_digests
from robustruct.formats.shards import ShardedData
from robustruct.objectives.adversarial import Outline, fingerprint_of
from robustruct.objectives.build import Plan, Settings, Summary, plan_of, summarise
from robustruct.optimizers.optimizer import Optimizer
from robustruct.optimizers.tuning import Density


class DaskShards:
    """Shards on workers (`WorkerPool`); see `robustruct.engines.engine.PreparedShards`."""

    local_problem = None
    local_problems = None

    def __init__(
        self, client: Client, data: ShardedData, rounds: int | None, give_up: float
    ) -> None:
        self.pool, self.data, self.rounds = WorkerPool(client, give_up), data, rounds
        self.corpora: dict[int, Future] = {}
        """Shards as they were read, until they are encoded."""
        self.problems: dict[int, Future] = {}
        """Encoded shards."""
        self.extents: dict[int, Extent | None] = {}
        self.pool.n_shards = len(data)
        self.attempt = self.n_workers = self.n_rounds = self.bytes_sent = 0
        self.bytes_through_here = 0
        """From and to this process while workers train; not counting what Dask adds."""

    @property
    def rebuilt(self) -> int:
        """Shards that were lost with their worker."""
        return self.pool.rebuilt

    @property
    def moved(self) -> int:
        """Shards that a worker which joined has taken over."""
        return self.pool.moved

    @property
    def by_whom(self) -> str:
        """Who trains, in words."""
        workers = f"{self.n_workers} worker{'s' * (self.n_workers != 1)}"
        return f", {workers}, {self.n_rounds} rounds, {self.bytes_sent / 1e6:.0f} MB between them"

    def prepare(self, settings: Settings, tick: Callable[[str], None]) -> Plan:
        """Have the workers read and encode the shards."""
        tick("reading")
        numbers = self.pool.settle()
        summaries = self.pool.each(numbers, self._summary)
        merged = reduce(Summary.merged, (summaries[number] for number in sorted(summaries)))
        plan = plan_of(settings, merged, self.data.min_count)
        tick("encoding")
        self.plan = pickle.dumps(plan)
        self.extents = self.pool.each(numbers, self._extent)
        extents = [extent for extent in self.extents.values() if extent is not None]
        if not extents:
            raise InvalidInputError("no shard has a sample with a weight; nothing can be learnt.")
        self.outline = Outline.of_all([extent.outline for extent in extents])
        density = Density.of_all([extent.density for extent in extents])
        self.tuning = density.tuning(spread=len(extents) > 1)
        return plan

    def _summary(self, number: int) -> Future:
        """Have a shard read, where it will stay, and summed up."""
        address = self.pool.place[number]
        self.corpora[number] = self.pool.submit(self.data[number].read, address)
        corpus, hashed = self.corpora[number], self.data.hashed
        return self.pool.submit(summarise, address, corpus, hashed=hashed)

    def _extent(self, number: int) -> Future:
        """Have a shard encoded; it is read again unless it was only just read."""
        pool, address = self.pool, self.pool.place[number]
        corpus = self.corpora.pop(number, None) or pool.submit(self.data[number].read, address)
        problem = pool.submit(worker.encode, address, pool.fit, corpus, self.plan)
        self.problems[number] = problem
        return pool.submit(worker.extent_of, address, problem)

    def settle(self) -> None:
        """Have shards of lost workers encoded by others, and some by workers that have joined."""
        self.extents |= self.pool.each(self.pool.settle(), self._extent)

    def held_by(self, address: str) -> dict[int, Future]:
        """Return the encoded shards of a worker."""
        return {n: self.problems[n] for n, other in self.pool.place.items() if other == address}

    def holders(self) -> list[str]:
        """Return the addresses of workers that have samples."""
        return sorted({self.pool.place[n] for n, extent in self.extents.items() if extent})

    def fingerprint(self) -> dict[str, Any]:
        """See `fingerprint_of`."""
        extents = {n: extent for n, extent in self.extents.items() if extent is not None}
        return fingerprint_of({n: extent.digests for n, extent in extents.items()})

    def sample_digests(self) -> np.ndarray:
        """See `PreparedShards`."""
        extents = filter(None, self.extents.values())
        return joined_digests(extent.sample_digests for extent in extents)

    def placed(self, optimizer: Optimizer) -> Optimizer:
        """Return the optimizer on the workers."""
        return OnWorkers(optimizer, self)
