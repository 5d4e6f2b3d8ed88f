"""What an ascent asks of samples, wherever they are: visits that improve, and sums over all.

`LocalShards` answers for the samples of one process, `DistributedShards` for those of several. The
contract of optimizers that users write is in optimizers/optimizer.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from robustruct.objectives.adversarial import Outline, Problem

if TYPE_CHECKING:
    from robustruct.optimizers.dual_variables import DualVariables
    from robustruct.optimizers.tuning import Tuning


@dataclass(frozen=True)
class PassSpec:
    """Orders for a pass of visits, or for a part of one."""

    number: int
    """Of the pass; passes count from 1."""
    seed: int
    penalty: float
    """alpha + kappa."""
    steps: int
    """Of a sample in a visit, at most."""
    skip_below: float = -np.inf
    """Samples with a smaller gap than this are skipped."""
    part: int = 0
    parts: int = 1
    mu: float = 1.0
    """How strongly predictors are held to their centres, in units of the start."""


@dataclass(frozen=True)
class CentreUpdate:
    """Orders for the centres after a pass: those of the predictors, and z of the weights."""

    alpha: float
    kappa: float
    new_kappa: float
    mu: float
    """Of the pass."""


@dataclass(frozen=True)
class PassStats:
    """What visits saw."""

    gap: float
    """The samples' part of the duality gap."""
    total_gap: float
    """Sum of the samples' gaps, not weighted."""
    regret: float = np.inf
    """The primal without its penalty, each sample under the weights of its visit; infinite where
    visits do not know."""
    predictor_gap: float = 0.0
    """The part of ``gap`` that predictors give away."""


class SamplesOutline(Protocol):
    """What is known of the samples of a fit, wherever they are."""

    @property
    def local_problems(self) -> Mapping[int, Problem] | None:
        """The samples of all shards as they were given, by number; None if they are elsewhere."""

    @property
    def local_problem(self) -> Problem | None:
        """All samples, where they are one shard in this process; None elsewhere."""

    @property
    def outline(self) -> Outline: ...

    @property
    def tuning(self) -> Tuning: ...


class Shards(SamplesOutline, Protocol):
    """Sums over the samples of a fit."""

    @property
    def dual(self) -> DualVariables | None:
        """The dual variables of all samples, where they are one shard in this process."""

    def retune(self, tuning: Tuning) -> None:
        """Reset the dual variables and use other settings."""

    def round(self, theta: np.ndarray, spec: PassSpec) -> PassStats:
        """Visit every sample that is not skipped; θ moves in place."""

    def follow(self, theta: np.ndarray, centre: np.ndarray, spec: CentreUpdate) -> None:
        """All centres follow, and θ with them."""

    def moments(self, out: np.ndarray) -> None:
        """G(q), recomputed, into ``out``."""

    def bounds(self, theta: np.ndarray) -> tuple[float, float]:
        """(regret at θ and p0, gain of q): primal and dual but for the penalties."""

    def plain_bounds(self, theta: np.ndarray) -> tuple[float, float]:
        """The same with the adversary at the truth: valid even if a visit was interrupted."""

    def likelihood(
        self, theta: np.ndarray, slack: float = 0.0, anew: bool = False
    ) -> tuple[float, np.ndarray, float]:
        """(regret of a smooth objective at θ, its gradient, lower regret), without the penalty.

        The regret is exact, or relaxed: then it is known to ``slack``, and found from where the
        last call was unless it is to begin ``anew``.
        """

    def state(self) -> dict[str, np.ndarray]:
        """What visits have changed; empty where it would have to travel."""

    def restore(self, state: dict[str, np.ndarray]) -> bool:
        """Go on from an earlier `state`; False where it does not hold dual variables."""
