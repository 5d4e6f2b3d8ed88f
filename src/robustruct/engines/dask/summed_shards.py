"""The samples of a fit as an optimizer on one of the workers sees them.

In a round every worker visits some of its samples, starting from the same θ, and the changes of θ
are added up; robustruct.optimizers.damping says how workers keep them from overshooting together.

Changes travel in float32. What that rounds off does not add up: θ is recomputed from moments, in
float64, whenever a certificate is made.
"""

from __future__ import annotations

from dataclasses import astuple, replace

import numpy as np

from robustruct._lazy import cached_property
from robustruct.engines.dask.group import Group, Updates
from robustruct.objectives.adversarial import Outline
from robustruct.optimizers.damping import Damping
from robustruct.optimizers.local_shards import LocalShards
from robustruct.optimizers.optimizer import CentreUpdate, Kept, PassSpec, PassStats
from robustruct.optimizers.tuning import Tuning

LEAST_ROUNDS, MOST_ROUNDS = 2, 16
"""Of a pass; in between one for each worker. See benchmarks/README.md."""
SAMPLES_A_ROUND = 16  # of one worker, at least: messages take as long as some samples


def rounds_for(n_workers: int, n_samples: int) -> int:
    """How often workers should exchange what they changed in a pass over the samples."""
    wanted = min(MOST_ROUNDS, n_workers, n_samples // (SAMPLES_A_ROUND * n_workers))
    return max(LEAST_ROUNDS, wanted)


class SummedShards:
    """Sums over the samples of all workers; see `robustruct.optimizers.optimizer.Shards`."""

    local_problem = None
    local_problems = None
    dual = None

    def __init__(
        self, local: LocalShards, group: Group, outline: Outline, rounds: int | None, kept: Kept
    ) -> None:
        self.local, self.group, self.outline = local, group, outline
        self.rounds = rounds or rounds_for(group.size, outline.n_samples)
        self.kept = kept
        """What is left of the dual variables of earlier attempts."""
        self.n_rounds = 0

    @property
    def tuning(self) -> Tuning:
        return self.local.tuning

    def retune(self, tuning: Tuning) -> None:
        """Begin anew with other settings, unless an earlier attempt has begun with them."""
        if self.tuning.natural != tuning.natural:
            self.local.retune(tuning)

    @cached_property
    def damping(self) -> Damping:
        """Of this attempt. Where features are shared by most samples all weights are one kind."""
        problem = self.local.first.problem
        n_rows, workers = self.outline.n_weights // problem.n_labels, self.group.size
        if not self.tuning.sparse:
            return Damping.of_all(n_rows, workers)
        counts = self.local.column_counts()
        self.group.add_up(counts, "columns")
        return Damping.by_count(counts, n_rows - len(counts), workers, self.rounds)

    @cached_property
    def updates(self) -> Updates:
        return Updates(self.group, self.outline.n_weights, self.damping.kind)

    def round(self, theta: np.ndarray, centre: np.ndarray, spec: PassSpec) -> PassStats:
        """Some rounds of visits, which together make a pass; one if there is nobody else."""
        self.group.begin("round")
        if self.group.size == 1:
            self.n_rounds += 1
            seen = self.local.round(theta, centre, spec)
            self.group.exchange(["round", *astuple(spec)])
            return seen
        for part in range(self.rounds):
            self.n_rounds += 1
            seen = self._round(theta, centre, replace(spec, part=part, parts=self.rounds))
        self.damping.end_pass()
        return seen

    def _round(self, theta: np.ndarray, centre: np.ndarray, spec: PassSpec) -> PassStats:
        """What all workers saw; θ moves by what all have changed."""
        found, index, value = self.local.changes(theta, centre, spec, self.damping.pace)
        about = ["round", *astuple(spec), *self.damping.sigma.tolist()]
        sums, facts, *clash = self.updates.add_up(index, value, about, astuple(found))
        self.damping.see(*clash)
        for first, arrays in sums:
            if len(arrays) == 1:
                theta[first : first + len(arrays[0])] += arrays[0]
            else:
                index, value = arrays
                theta[index] += value
        return PassStats(*facts.sum(axis=0).tolist())

    def follow(self, theta: np.ndarray, centre: np.ndarray, spec: CentreUpdate) -> None:
        """All centres follow, and θ with them: the same on every worker."""
        self.local.follow(theta, centre, spec)

    def moments(self, out: np.ndarray) -> None:
        """G(q), recomputed, into ``out``."""
        self.group.begin("moments")
        self.local.moments(out)
        self.group.add_up(out, "moments")

    def bounds(self, theta: np.ndarray) -> tuple[float, float]:
        """(regret at θ and p0, gain of q)."""
        return self._bounds("bounds", theta)

    def plain_bounds(self, theta: np.ndarray) -> tuple[float, float]:
        """The same with the adversary at the truth."""
        return self._bounds("plain_bounds", theta)

    def _bounds(self, which: str, theta: np.ndarray) -> tuple[float, float]:
        self.group.begin(which)
        own = getattr(self.local, which)(theta)
        received = self.group.exchange([which], [*own, float(theta @ theta)])
        self.group.check_alike([message.facts[2] for message in received])
        return sum(one.facts[0] for one in received), sum(one.facts[1] for one in received)

    def likelihood(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """(regret of the CRF at θ, its gradient)."""
        self.group.begin("likelihood")
        value, gradient = self.local.likelihood(theta)
        facts = self.group.add_up(gradient, "likelihood", [value, float(theta @ theta)])
        self.group.check_alike(facts[:, 1].tolist())
        return float(facts[:, 0].sum()), gradient

    def state(self) -> dict[str, np.ndarray]:
        """Nothing: dual variables are as large as the data, and do not travel."""
        return {}

    def restore(self, state: dict[str, np.ndarray]) -> Kept:
        """Dual variables stay where they are."""
        return self.kept
