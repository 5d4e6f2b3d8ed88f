"""Sums over the samples of several processes, as an optimizer in one of them sees them.

A pass is made in rounds. In a round every process visits samples of its own, starting from the same
θ, and the changes of θ are added up (CoCoA, Smith et al. 2018). K processes might all push a weight
the same way, and the sum overshoot by a factor of K. A process therefore takes its changes δ for σ
times as large as they are. The dual falls by a sum over weights, so σ may differ from weight to
weight; the sum is an ascent as long as, kind by kind,

    |Σ δ|²  <=  σ Σ |δ|².

That holds for σ = the number of processes whose samples have the feature. Most features are rare,
and met by one process in a round; the few that most samples have are met by all. Weights are
therefore put together by how often their feature occurs, and σ of each kind follows the ratio of
the two sides, the clash, that rounds have seen. With one σ for all, the many rare weights hide that
those of frequent features overshoot.

Changes travel in float32. What that rounds off does not add up: θ is recomputed from moments, in
float64, whenever a certificate is made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np

from robustruct._lazy import cached_property
from robustruct.core.vectors import merge_entries
from robustruct.objectives.adversarial import Outline
from robustruct.optimizers.collective import Collective, OutOfStep
from robustruct.optimizers.local_shards import LocalShards
from robustruct.optimizers.shards import CentreUpdate, PassSpec, PassStats
from robustruct.optimizers.tuning import Tuning

LEAST_ROUNDS, MOST_ROUNDS = 2, 16
"""Of a pass; in between one for each process. See benchmarks/README.md."""
SAMPLES_A_ROUND = 16  # of one process, at least: messages take as long as some samples
ALIKE = 1e-9  # relative differences between processes that rounding may explain
DENSE = 2  # entries for each weight, of all processes: beyond it a sum of whole vectors is shorter

MARGIN = 1.1
"""Of σ over the clash; see benchmarks/README.md for this and the next."""
FALL = 0.8  # of σ in a pass, at most

Entries = tuple[np.ndarray, np.ndarray]
"""Indices into θ, ascending, and changes there."""


def rounds_for(n_processes: int, n_samples: int) -> int:
    """Return how often processes should exchange their changes in a pass over the samples."""
    # As many as processes, unless their samples would be too few for the time of a message.
    wanted = min(MOST_ROUNDS, n_processes, n_samples // (SAMPLES_A_ROUND * n_processes))
    return max(LEAST_ROUNDS, wanted)


class DistributedShards:
    """Sums over the samples of all processes; see `robustruct.optimizers.shards.Shards`."""

    local_problem = None
    local_problems = None
    dual = None

    def __init__(
        self,
        local: LocalShards,
        collective: Collective,
        outline: Outline,
        rounds: int | None = None,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        """``interrupted`` is asked on rank 0; True raises KeyboardInterrupt on all ranks."""
        self.local, self.collective, self.outline = local, collective, outline
        self.rounds = rounds or rounds_for(collective.size, outline.n_samples)
        self.interrupted = interrupted
        self.n_rounds = 0
        self.sums_vectors = False
        """Whether changes are so many that whole vectors are added up."""
        self._clock: float = collective.broadcast(time.perf_counter(), "clock")

    @property
    def tuning(self) -> Tuning:
        return self.local.tuning

    def retune(self, tuning: Tuning) -> None:
        """Reset the dual variables and use other settings."""
        self.local.retune(tuning)

    def clock(self) -> float:
        """Seconds by the clock of rank 0, as of the last sum: all ranks take the same decisions."""
        return self._clock

    def _gather(
        self,
        label: str,
        facts: Sequence[float] = (),
        same: Sequence[float] = (),
        arrays: Sequence[np.ndarray] = (),
    ) -> tuple[np.ndarray, list[Sequence[np.ndarray]]]:
        """Return the (processes, ...) facts and the arrays of all; numbers ``same`` must agree."""
        stop = self.collective.rank == 0 and self.interrupted()
        # One message for all: each costs a round trip, whatever it holds.
        own = np.array([time.perf_counter(), stop, *same, *facts], float)
        received = self.collective.allgather([own, *arrays], label)
        rows = np.array([one[0] for one in received])
        self._clock = float(rows[0, 0])
        first = 2 + len(same)
        if not np.allclose(rows[:, 2:first], rows[0, 2:first], rtol=ALIKE, atol=0.0):
            raise OutOfStep
        if rows[0, 1]:  # on all ranks at the same sum, so none waits for another
            raise KeyboardInterrupt
        return rows[:, first:], [one[1:] for one in received]

    # ------------------------------------------------------------------------------------- rounds

    @cached_property
    def damping(self) -> Damping:
        """Where features are shared by most samples all weights are one kind."""
        problem, size = self.local.first.problem, self.collective.size
        n_rows = self.outline.n_weights // problem.n_labels
        if not self.tuning.sparse:
            return Damping.of_all(n_rows, size)
        counts = self.local.column_counts()
        self.collective.allreduce(counts, "columns")
        return Damping.by_count(counts, n_rows - len(counts), size, self.rounds)

    def round(self, theta: np.ndarray, spec: PassSpec) -> PassStats:
        """Visit every sample that is not skipped, in some rounds; in one if we are alone."""
        if self.collective.size == 1:
            self.n_rounds += 1
            seen = self.local.round(theta, spec)
            self._gather("round")
            return seen
        for part in range(self.rounds):
            self.n_rounds += 1
            seen = self._round(theta, replace(spec, part=part, parts=self.rounds))
        self.damping.end_pass()
        return seen

    def _round(self, theta: np.ndarray, spec: PassSpec) -> PassStats:
        """Move θ by the changes of all processes, and return what all of them saw."""
        damping, whole = self.damping, self.sums_vectors
        found, *entries = self.local.changes(theta, spec, damping.pace)
        index, value = entries
        facts = [len(index), *astuple(found), *self._squares(index, value)]
        same = [*astuple(spec), *damping.sigma]
        rows, arrays = self._gather("round", facts, same, () if whole else entries)
        if whole:
            total = np.zeros(len(theta), np.float32)
            total[index] = value
            self.collective.allreduce(total, "changes")
            index = np.flatnonzero(total)
            value = total[index]
        else:
            index, value = _merged([(one[0], one[1]) for one in arrays])
        theta[index] += value
        stats = 1 + len(astuple(found))
        damping.see(self._squares(index, value), rows[:, stats:].sum(axis=0))
        self.sums_vectors = bool(rows[:, 0].sum() > DENSE * len(theta))
        return PassStats(*rows[:, 1:stats].sum(axis=0).tolist())

    def _squares(self, index: np.ndarray, value: np.ndarray) -> np.ndarray:
        """Return the sums of squares of changes, by kind of weights."""
        kind, row = self.damping.kind, self.outline.n_weights // len(self.damping.kind)
        squares = value.astype(np.float64) ** 2
        return np.bincount(kind[index // row], squares, len(self.damping.sigma))

    def follow(self, theta: np.ndarray, centre: np.ndarray, spec: CentreUpdate) -> None:
        """All centres follow, and θ with them: the same on every rank."""
        self.local.follow(theta, centre, spec)

    # --------------------------------------------------------------------------------------- sums

    def moments(self, out: np.ndarray) -> None:
        """G(q), recomputed, into ``out``."""
        self.local.moments(out)
        self.collective.allreduce(out, "moments")

    def bounds(self, theta: np.ndarray) -> tuple[float, float]:
        """(regret at θ and p0, gain of q)."""
        return self._sum("bounds", theta, self.local.bounds(theta))

    def plain_bounds(self, theta: np.ndarray) -> tuple[float, float]:
        """The same with the adversary at the truth."""
        return self._sum("plain bounds", theta, self.local.plain_bounds(theta))

    def _sum(self, label: str, theta: np.ndarray, own: tuple[float, float]) -> tuple[float, float]:
        rows, _ = self._gather(label, own, [float(theta @ theta)])
        regret, gain = rows.sum(axis=0).tolist()
        return regret, gain

    def likelihood(
        self, theta: np.ndarray, slack: float = 0.0, anew: bool = False
    ) -> tuple[float, np.ndarray, float]:
        """(regret at θ, its gradient, lower regret); games are exact on a cluster."""
        value, gradient, _ = self.local.likelihood(theta, slack, anew)
        rows, _ = self._gather("likelihood", [value], [float(theta @ theta)])
        self.collective.allreduce(gradient, "gradient")
        total = float(rows.sum())
        return total, gradient, total

    def state(self) -> dict[str, np.ndarray]:
        """Nothing: dual variables are as large as the data, and do not travel."""
        return {}

    def restore(self, state: dict[str, np.ndarray]) -> bool:
        """Dual variables stay as they are at the start."""
        return False


def _merged(lists: list[Entries]) -> Entries:
    """Return the sums of lists of changes: neighbours are merged until one list is left."""
    while len(lists) > 1:
        pairs = zip(lists[0::2], lists[1::2], strict=False)
        left = lists[len(lists) // 2 * 2 :]
        lists = [_merged_pair(one, other) for one, other in pairs] + left
    return lists[0]


def _merged_pair(one: Entries, other: Entries) -> Entries:
    most = len(one[0]) + len(other[0])
    index, value = np.empty(most, one[0].dtype), np.empty(most, one[1].dtype)
    count = merge_entries(*one, *other, index, value)
    return index[:count], value[:count]


@dataclass(eq=False)
class Damping:
    """σ of every weight: rows of θ, as long as there are labels, are of one kind each."""

    kind: np.ndarray
    """(rows,) uint8."""
    most: np.ndarray
    """(kinds,) what σ need not exceed."""

    def __post_init__(self) -> None:
        self.sigma = self.most.copy()
        self.worst = np.zeros(len(self.most))
        """The largest clash of the pass so far."""

    @classmethod
    def of_all(cls, n_rows: int, n_workers: int) -> Damping:
        """One σ for all weights."""
        return cls(np.zeros(n_rows, np.uint8), np.array([float(n_workers)]))

    @classmethod
    def by_count(cls, counts: np.ndarray, n_edge_rows: int, n_workers: int, rounds: int) -> Damping:
        """By how many nodes have a feature, to powers of two; what edges have is a kind too.

        Each of a feature's nodes is visited in one of the rounds of a pass, at random. So with c of
        them the other workers that meet it in the same round are (K - 1) (1 - (1 - 1/R)^(c/(K-1)))
        at most, which is when they have equally many.
        """
        of_node = np.ceil(np.log2(np.maximum(counts, 1.0))).astype(np.uint8)
        highest = int(of_node.max(initial=0))
        others = n_workers - 1
        elsewhere = np.exp2(np.arange(highest + 1)) / max(others, 1)
        most = 1.0 + others * (1.0 - (1.0 - 1.0 / rounds) ** elsewhere)
        kind = np.concatenate([of_node, np.full(n_edge_rows, highest + 1, np.uint8)])
        return cls(kind, np.append(most, float(n_workers)))

    @cached_property
    def _pace(self) -> np.ndarray:
        return np.empty(len(self.kind))

    @property
    def pace(self) -> np.ndarray:
        """(rows,) σ of each row of θ, or (1,) where all have the same."""
        if len(self.sigma) == 1:
            return self.sigma
        return np.take(self.sigma, self.kind, out=self._pace)

    def see(self, sums: np.ndarray, parts: np.ndarray) -> None:
        """A round had |Σδ|² = ``sums`` and Σ|δ|² = ``parts``, by kind: σ rises at once."""
        clash = sums / np.maximum(parts, 1e-300)
        np.maximum(self.worst, clash, out=self.worst)
        self.sigma = np.minimum(np.maximum(self.sigma, MARGIN * clash), self.most)

    def end_pass(self) -> None:
        """σ falls towards what the pass has seen, where it has seen anything."""
        wanted = np.maximum(MARGIN * self.worst, FALL * self.sigma)
        self.sigma = np.where(self.worst > 0.0, np.clip(wanted, 1.0, self.most), self.sigma)
        self.worst[:] = 0.0
