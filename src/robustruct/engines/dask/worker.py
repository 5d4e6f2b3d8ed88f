"""What runs on a Dask worker, on the shards that it keeps between tasks.

Every task names its fit and the shards it is about. A task that runs where these are not, because
their worker has failed or was restarted, answers `Missing`; it is for the caller to have them built
again. Replicas of θ and of its centre stay on the worker too, and are brought up to date by the
sparse updates that a task carries.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from distributed import get_worker

from robustruct.formats.corpus import Corpus
from robustruct.formats.shards import Shard
from robustruct.objectives.adversarial import Outline
from robustruct.objectives.build import Plan, Summary, summarise
from robustruct.optimizers.local_shards import LocalShards, ShardState
from robustruct.optimizers.optimizer import CentreUpdate, PassSpec, PassStats
from robustruct.optimizers.tuning import Density, Tuning


@dataclass(frozen=True, eq=False)
class SparseVector:
    """The entries of a vector that are not zero."""

    index: np.ndarray
    value: np.ndarray

    @classmethod
    def of(cls, vector: np.ndarray) -> SparseVector:
        """From all entries."""
        index = np.flatnonzero(vector)
        value = vector[index]
        return cls(index.astype(np.int32) if len(vector) < 2**31 else index, value)

    @property
    def nbytes(self) -> int:
        return int(self.index.nbytes + self.value.nbytes)


@dataclass(frozen=True, eq=False)
class Replicas:
    """θ and its centre, in full."""

    theta: np.ndarray
    centre: np.ndarray | None
    """None leaves the centre as it is."""

    @property
    def nbytes(self) -> int:
        return self.theta.nbytes + (0 if self.centre is None else self.centre.nbytes)


Change = SparseVector | CentreUpdate | Replicas
"""Steps that were added up, centres that followed, or θ anew."""


@dataclass(frozen=True, eq=False)
class Update:
    """One change of θ; they are numbered, so that none is made twice if Dask repeats a task."""

    version: int
    change: Change

    @property
    def nbytes(self) -> int:
        return 0 if isinstance(self.change, CentreUpdate) else self.change.nbytes


@dataclass(frozen=True)
class Missing:
    """The worker does not hold these shards."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Steps:
    """What a round of visits has done to θ, and what it saw."""

    delta: SparseVector
    square: float
    """|delta|²"""
    seen: PassStats


@dataclass(frozen=True)
class Extent:
    """What has to be known of a shard's problem before tuning and training."""

    outline: Outline
    density: Density
    digests: dict[str, str]
    """See `Problem.digests`."""


class WorkerState:
    """All that a worker holds of one fit."""

    def __init__(self) -> None:
        self.corpora: dict[int, Corpus] = {}
        self.empty: set[int] = set()
        self.local: LocalShards | None = None
        self.problems: dict[int, Any] = {}
        self.theta = self.centre = np.zeros(0)
        self.version = -1

    def missing(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """The shards that are not here."""
        return tuple(n for n in numbers if n not in self.problems and n not in self.empty)

    def ready(
        self, numbers: Sequence[int], tuning: Tuning, updates: Sequence[Update]
    ) -> LocalShards | Missing:
        """Just these shards, with the replicas up to date."""
        absent = self.missing(numbers)
        if absent:
            return Missing(absent)
        local = self._local_shards(numbers, tuning)
        self._apply(updates)
        return local

    def _local_shards(self, numbers: Sequence[int], tuning: Tuning) -> LocalShards:
        if self.local is None or self.local.tuning.natural != tuning.natural:
            self.local = LocalShards({}, tuning)
        here = self.local.shards
        for number in [n for n in here if n not in numbers]:
            del here[number]
        for number in numbers:
            if number in self.problems and number not in here:
                here[number] = ShardState(self.problems[number], tuning)
        self.local.shards = dict(sorted(here.items()))
        return self.local

    def _apply(self, updates: Sequence[Update]) -> None:
        """Bring the replicas up to date."""
        for update in updates:
            if update.version <= self.version:
                continue
            self.version, change = update.version, update.change
            if isinstance(change, Replicas):
                self.theta = change.theta.copy()
                if change.centre is not None:
                    self.centre = change.centre.copy()
            elif isinstance(change, SparseVector):
                self.theta[change.index] += change.value
            else:
                assert self.local is not None  # `ready` makes it before
                self.local.follow(self.theta, self.centre, change)


def state_of(fit: str) -> WorkerState:
    """What this worker holds of a fit."""
    return _states().setdefault(fit, WorkerState())


def _states() -> dict[str, WorkerState]:
    """By fit; tied to the worker, as several may share a process."""
    worker: Any = get_worker()
    if not hasattr(worker, "robustruct_states"):
        worker.robustruct_states = {}
    return worker.robustruct_states


# ------------------------------------------------------------------------------------------- tasks


def read_summary(fit: str, number: int, shard: Shard, hashed: int | None) -> Summary:
    """Read a shard and sum it up; its samples stay here."""
    corpus = state_of(fit).corpora[number] = shard.read()
    return summarise(corpus, hashed=hashed)


def assemble(fit: str, number: int, shard: Shard, pickled: bytes) -> Extent | None:
    """Encode a shard's samples by a plan, and drop these; None if there are none."""
    here = state_of(fit)
    corpus = here.corpora.pop(number, None)
    plan: Plan = pickle.loads(pickled)
    problem = plan.assembled(shard.read() if corpus is None else corpus)
    if problem is None:
        here.empty.add(number)
        return None
    here.problems[number] = problem
    return Extent(problem.outline, Density.of(problem), problem.digests())


def take_round(
    fit: str,
    numbers: Sequence[int],
    tuning: Tuning,
    updates: Sequence[Update],
    spec: PassSpec,
    damping: float,
) -> Steps | Missing:
    """Visit the samples of some shards, starting from the replica of θ.

    With ``damping`` the steps are as short as if that many processes made the same steps at once.
    """
    here = state_of(fit)
    local = here.ready(numbers, tuning, updates)
    if isinstance(local, Missing):
        return local
    if not local.shards:
        return Steps(SparseVector.of(np.zeros(0)), 0.0, PassStats(0.0, 0.0, 0.0))
    theta = here.theta.copy()
    seen = local.round(theta, here.centre, replace(spec, penalty=spec.penalty / damping))
    theta -= here.theta
    theta /= damping
    return Steps(SparseVector.of(theta), float(theta @ theta), seen)


def take_sum(
    fit: str, numbers: Sequence[int], tuning: Tuning, updates: Sequence[Update], method: str
) -> Any:
    """A method of the shards, at the replica of θ; None if they have no samples."""
    here = state_of(fit)
    local = here.ready(numbers, tuning, updates)
    if isinstance(local, Missing):
        return local
    if not local.shards:
        return None
    if method == "moments":
        moments = np.empty_like(here.theta)
        local.moments(moments)
        return moments
    return getattr(local, method)(here.theta)


def give_away(fit: str, number: int) -> tuple[Any, ShardState | None] | None:
    """A shard with all that training has made of it, for another worker; None if it is not here."""
    here = state_of(fit)
    if here.missing([number]):
        return None
    state = None if here.local is None else here.local.shards.pop(number, None)
    return here.problems.pop(number, None), state


def take_over(fit: str, number: int, given: tuple[Any, ShardState | None] | None) -> bool:
    """Hold a shard that another worker gave away; whether it did."""
    if given is None:
        return False
    here, (problem, state) = state_of(fit), deepcopy(given)  # read-only as they come
    if problem is None:
        here.empty.add(number)
        return True
    here.problems[number] = problem
    if state is not None:
        if here.local is None:
            here.local = LocalShards({}, state.tuning)
        here.local.shards[number] = state
    return True


def drop(fit: str) -> None:
    """Forget a fit."""
    _states().pop(fit, None)
