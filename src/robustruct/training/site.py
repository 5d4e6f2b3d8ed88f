"""What one process does for a fit, on the samples that it holds.

Training needs four sums over samples: of steps, of moments, of bounds, and for the CRF of
gradients. A `Site` adds up over the samples of this process. An engine that spreads samples over
many processes offers the same methods, with a site in each (`Sites`), so an optimizer does not know
where samples are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from robustruct.training.dual_blocks import DualBlocks, Tuning, tuning_for
from robustruct.training.likelihood import Likelihood
from robustruct.training.problem import Outline, Problem


@dataclass(frozen=True)
class Round:
    """Orders for one pass of visits."""

    number: int
    """Of the pass; passes count from 1."""
    seed: int
    penalty: float
    """alpha + kappa."""
    rest_below: float = -np.inf
    """Samples with a smaller gap than this rest."""


@dataclass(frozen=True)
class Seen:
    """What visits saw."""

    gap: float
    """The samples' part of the duality gap."""
    total_gap: float
    """Sum of the samples' gaps, not weighted."""


class Sites(Protocol):
    """Where the samples of a fit are."""

    @property
    def outline(self) -> Outline: ...

    @property
    def tuning(self) -> Tuning: ...

    def round(self, theta: np.ndarray, orders: Round) -> Seen:
        """Visit every sample that does not rest; θ moves in place."""

    def move_predictors(self) -> None:
        """The centres of the predictors follow, at the latest before the next round."""

    def moments(self) -> np.ndarray:
        """G(q), recomputed."""

    def bounds(self, theta: np.ndarray) -> tuple[float, float]:
        """(regret at θ and p0, gain of q): primal and dual but for the penalties."""

    def plain_bounds(self, theta: np.ndarray) -> tuple[float, float]:
        """The same with the adversary at the truth: valid even if a visit was interrupted."""

    def likelihood(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """(regret of the CRF at θ, its gradient), without the penalty."""


class Site:
    """Samples of this process, in one or more shards."""

    def __init__(
        self, problems: Sequence[Problem], tuning: Tuning | None = None, numbers: Sequence[int] = ()
    ) -> None:
        """``numbers`` of the shards, which decide on the order of visits; 0, 1, ... by default."""
        self.problems = list(problems)
        self.numbers = list(numbers) or list(range(len(self.problems)))
        self.tuning = tuning_for(self.problems[0]) if tuning is None else tuning
        self._blocks: list[DualBlocks] | None = None
        self._likelihoods: list[Likelihood] | None = None
        self._change: np.ndarray | None = None

    @property
    def outline(self) -> Outline:
        outlines = [problem.outline for problem in self.problems]
        return Outline(
            outlines[0].alpha,
            outlines[0].n_weights,
            sum(one.n_samples for one in outlines),
            sum(one.untrained for one in outlines),
        )

    @property
    def blocks(self) -> list[DualBlocks]:
        """The dual blocks of each shard; made at first use, as a CRF needs none."""
        if self._blocks is None:
            self._blocks = [DualBlocks(problem, self.tuning) for problem in self.problems]
        return self._blocks

    def round(self, theta: np.ndarray, orders: Round) -> Seen:
        if self._change is None:
            self._change = np.zeros_like(theta)
        for number, blocks in zip(self.numbers, self.blocks, strict=True):
            rng = np.random.default_rng([orders.seed, orders.number, number])
            order = rng.permutation(len(blocks.gap))
            if orders.rest_below > -np.inf:
                order = order[blocks.gap[order] >= orders.rest_below]
            blocks.visit(order, theta, self._change, orders.penalty)
        return Seen(
            sum(blocks.shared_gap() for blocks in self.blocks),
            float(sum(blocks.gap.sum() for blocks in self.blocks)),
        )

    def move_predictors(self) -> None:
        for blocks in self.blocks:
            blocks.move_predictors()

    def moments(self) -> np.ndarray:
        total = self.blocks[0].moments()
        for blocks in self.blocks[1:]:
            total += blocks.moments()
        return total

    def bounds(self, theta: np.ndarray) -> tuple[float, float]:
        return self._regret(theta), sum(b.problem.gain(b.q.r) for b in self.blocks)

    def plain_bounds(self, theta: np.ndarray) -> tuple[float, float]:
        return self._regret(theta), sum(b.problem.gain(b.problem.truth) for b in self.blocks)

    def _regret(self, theta: np.ndarray) -> float:
        return sum(blocks.problem.regret(theta, blocks.p0) for blocks in self.blocks)

    def likelihood(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        if self._likelihoods is None:
            self._likelihoods = [Likelihood(problem) for problem in self.problems]
        value, gradient = self._likelihoods[0](theta)
        for likelihood in self._likelihoods[1:]:
            more, slope = likelihood(theta)
            value, gradient = value + more, gradient + slope
        return value, gradient
