"""Train on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

from robustruct.engines.dask.shards import DaskShards
from robustruct.engines.dask.worker_pool import scheduler_lost, scheduler_must_answer, worker_info
from robustruct.engines.engine import MemorySamples
from robustruct.formats.shards import ShardedData
from robustruct.game.solver import check_options

T = TypeVar("T")


class DaskEngine:
    """Where a model trains: on the workers of a Dask cluster.

    ``AGM().fit(X, y, engine=DaskEngine(client))`` deals the samples out to the workers; with
    ``fit(ShardedData.from_files(...), engine=...)`` the workers read them. Each worker uses
    the model's ``n_jobs`` threads.

    Parameters
    ----------
    client : distributed.Client
    rounds_per_pass : int or "auto"
        How often workers exchange their steps in one pass over the data. More rounds need fewer
        passes and more messages. "auto": as many as workers, 2 to 16.
    give_up : float
        Seconds after which a worker counts as failed: if the scheduler has not heard from it, or
        if others have waited for its message in a sum of a kind that has worked before.

    Attributes
    ----------
    last_ : DaskShards
        Of the last fit: ``attempt`` (1, and one more for each new start), ``n_rounds``,
        ``bytes_sent`` (from worker to worker), ``bytes_through_here``, ``rebuilt`` (shards lost
        with a worker), ``moved`` (shards that a worker which joined has read).

    Examples
    --------
    >>> from distributed import Client  # doctest: +SKIP
    >>> engine = DaskEngine(Client("tcp://..."))  # doctest: +SKIP
    >>> AGM().fit(ShardedData.from_files("part-*.conll.gz"), engine=engine)  # doctest: +SKIP
    """

    def __init__(
        self,
        client: Any,
        *,
        rounds_per_pass: int | Literal["auto"] = "auto",
        give_up: float = 600.0,
    ) -> None:
        self.client = client
        self.rounds_per_pass = rounds_per_pass
        self.give_up = give_up
        given = () if rounds_per_pass == "auto" else ("rounds_per_pass",)
        check_options(self, counts=given, limits=("give_up",))

    @property
    def n_workers(self) -> int:
        """How many workers there are now."""
        return max(1, len(worker_info(self.client)))

    @contextmanager
    def shards(self, data: ShardedData | MemorySamples) -> Iterator[DaskShards]:
        """The samples on the workers, until the end of the context."""
        if isinstance(data, MemorySamples):
            data = data.dealt_out(self.n_workers)
        rounds = None if self.rounds_per_pass == "auto" else self.rounds_per_pass
        found = DaskShards(self.client, data, rounds, self.give_up)
        self.last_ = found
        try:
            yield found
        finally:
            found.pool.close()

    def map(self, function: Callable[[Any], T], items: Iterable[Any]) -> list[T]:
        """``function(item)`` for every item, on the workers; answers in order."""
        with scheduler_must_answer(self.client):
            tasks = self.client.map(function, list(items), pure=False)
        try:
            return self.client.gather(tasks)
        except CancelledError as error:
            raise scheduler_lost(self.client) from error
