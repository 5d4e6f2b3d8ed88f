"""The samples of a fit as an optimizer on one of the workers sees them.

In a round every worker visits its samples, starting from the same θ, and the changes of θ are added
up (CoCoA, Smith et al. 2018). K workers might all push a weight the same way, and the sum overshoot
by a factor of K. A worker therefore takes each of its changes δ for σ times as large as it is,
which makes the sum an ascent as long as |Σδ|² <= σ Σ|δ|². That holds for σ = K whatever the data
are, but workers with different features hardly meet: σ follows the ratio that the last round has
seen, with a margin.

Changes travel in float32. What that rounds off does not add up: θ is recomputed from moments, in
float64, whenever a certificate is made.
"""

from __future__ import annotations

from dataclasses import astuple, replace

import numpy as np

from robustruct.engines.dask.group import Group, Updates
from robustruct.kernels.updates import add_all, add_entries
from robustruct.objectives.adversarial import Outline
from robustruct.optimizers.local_shards import LocalShards
from robustruct.optimizers.optimizer import CentreUpdate, Kept, PassSpec, PassStats
from robustruct.optimizers.tuning import Tuning

MARGIN = 1.1
"""Of the damping. CoNLL-2000 to a gap of 5 % on two workers, four rounds a pass: 22 passes; with 3
it takes 27, without damping it diverges; in one process 18."""


class SummedShards:
    """Sums over the samples of all workers; see `robustruct.optimizers.optimizer.Shards`."""

    local_problem = None
    local_problems = None
    dual = None

    def __init__(
        self, local: LocalShards, group: Group, outline: Outline, rounds: int, kept: Kept
    ) -> None:
        self.local, self.group, self.outline = local, group, outline
        self.rounds = rounds
        self.kept = kept
        """What is left of the dual variables of earlier attempts."""
        self.n_rounds = 0
        self.damping = float(group.size)
        """σ"""
        self.updates = Updates(group, outline.n_weights)

    @property
    def tuning(self) -> Tuning:
        return self.local.tuning

    def retune(self, tuning: Tuning) -> None:
        """Begin anew with other settings, unless an earlier attempt has begun with them."""
        if self.tuning.natural != tuning.natural:
            self.local.retune(tuning)

    def round(self, theta: np.ndarray, centre: np.ndarray, spec: PassSpec) -> PassStats:
        """Some rounds of visits, which together make a pass; one if there is nobody else."""
        self.group.begin("round")
        if self.group.size == 1:
            self.n_rounds += 1
            seen = self.local.round(theta, centre, spec)
            self.group.exchange(["round", *astuple(spec)])
            return seen
        largest = 0.0
        for part in range(self.rounds):
            self.n_rounds += 1
            seen, ratio = self._round(theta, centre, replace(spec, part=part, parts=self.rounds))
            largest = max(largest, ratio)
            self.damping = max(self.damping, MARGIN * ratio)
        if largest > 0.0:
            self.damping = max(1.0, MARGIN * largest, 0.8 * self.damping)
        self.damping = min(self.damping, float(self.group.size))
        return seen

    def _round(
        self, theta: np.ndarray, centre: np.ndarray, spec: PassSpec
    ) -> tuple[PassStats, float]:
        """(what all workers saw, how hard they clashed); θ moves by what all have changed."""
        damped = replace(spec, penalty=spec.penalty / self.damping)
        found, index, value = self.local.changes(theta, centre, damped, 1.0 / self.damping)
        about = ["round", *astuple(spec), self.damping]
        sums, facts, ratio = self.updates.add_up(index, value, about, astuple(found))
        for first, arrays in sums:
            if len(arrays) == 1:
                add_all(theta[first : first + len(arrays[0])], arrays[0])
            else:
                add_entries(theta, 0, *arrays)
        return PassStats(*facts.sum(axis=0).tolist()), ratio

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
