"""Orthant-wise L-BFGS (OWL-QN, Andrew and Gao 2007): the likelihood under an elastic net.

    min over θ   l1 |θ|_1  +  (alpha/2)|θ|²  +  Σ_s share_s [ log Z(θ·Φ_s) − θ·Φ_s(y_s) ]

|θ|_1 is linear while no weight changes its sign: a step stays in one orthant, and weights that
would leave it stop at 0. Nearly all weights are 0 and stay there, so L-BFGS works on the others and
on those that want to leave 0 (`WorkingSet`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from robustruct.core.vectors import (
    absolute_penalty,
    least_slopes,
)
from robustruct.optimizers.lbfgs import ENOUGH, Descent, Lbfgs, lower_bounds, penalised
from robustruct.optimizers.optimizer import Optimizer, Progress, Shards, Task

RENEW = 10  # steps after which it is asked anew which weights should move


class WorkingSet:
    """The weights that are not 0 or want to leave it, and what L-BFGS remembers of them."""

    def __init__(self, index: np.ndarray) -> None:
        self.index = index
        self.lbfgs = Lbfgs(max(len(index), 1))

    def renewed(self, index: np.ndarray) -> WorkingSet:
        """Other weights; what is remembered goes with those that stay."""
        if np.array_equal(index, self.index):
            return self
        new = WorkingSet(index)
        _, ours, theirs = np.intersect1d(self.index, index, assume_unique=True, return_indices=True)
        old, lbfgs = self.lbfgs, new.lbfgs
        kept = old.ring[-lbfgs.memory :]
        for row, earlier in enumerate(kept):
            lbfgs.vectors[row, theirs] = old.vectors[earlier, ours]
            lbfgs.vectors[lbfgs.memory + row, theirs] = old.vectors[old.memory + earlier, ours]
        lbfgs.products = lbfgs.vectors @ lbfgs.vectors.T
        curvature = lbfgs.products.diagonal(lbfgs.memory)
        lbfgs.ring = [row for row in range(len(kept)) if curvature[row] > 0.0]
        return new


class OrthantWiseDescent:
    """Steps of one fit."""

    def __init__(
        self,
        objective: Callable[[np.ndarray], tuple[float, np.ndarray]],
        l1: np.ndarray,
        theta: np.ndarray,
    ) -> None:
        """``objective`` has the absolute values in its value, but not in its gradient."""
        self.objective, self.l1 = objective, l1
        self.theta = theta.copy()
        self.value, self.gradient = objective(self.theta)
        self.slopes = np.empty_like(theta)
        self.working = WorkingSet(np.zeros(0, np.intp))
        self.n_steps = 0

    def step(self, done: Callable[[], bool]) -> bool:
        """One step; False if none makes the objective smaller."""
        least_slopes(self.theta, self.gradient, self.l1, self.slopes)
        if self.n_steps % RENEW == 0:
            self._renew()
        self.n_steps += 1
        if self._try(done):
            return True
        # Weights outside may want to move, and rounding may have spoilt what is remembered.
        self._renew()
        self.working.lbfgs.forget()
        return not done() and self._try(done)

    def _renew(self) -> None:
        moving = np.flatnonzero((self.theta != 0.0) | (self.slopes != 0.0))
        self.working = self.working.renewed(moving)

    def _try(self, done: Callable[[], bool]) -> bool:
        working = self.working
        index = working.index
        if not len(index):
            return False
        slopes, theta = self.slopes[index], self.theta[index]
        direction = np.empty_like(theta)
        working.lbfgs.direction(slopes, direction)
        direction[direction * slopes >= 0.0] = 0.0
        orthant = np.where(theta != 0.0, np.sign(theta), -np.sign(slopes))
        found = self._search(theta, slopes, direction, orthant, done)
        if found is None:
            return False
        there, full, value, gradient = found
        working.lbfgs.remember(theta, there, self.gradient[index], gradient[index])
        self.theta, self.value, self.gradient = full, value, gradient
        return True

    def _search(
        self,
        theta: np.ndarray,
        slopes: np.ndarray,
        direction: np.ndarray,
        orthant: np.ndarray,
        done: Callable[[], bool],
    ) -> tuple[np.ndarray, np.ndarray, float, np.ndarray] | None:
        """(weights of the working set, all weights, value, gradient) after a step that pays."""
        length, reach = 1.0, float(np.abs(direction).max())
        size = max(1.0, float(np.abs(theta).max()))
        while length * reach > 1e-16 * size:
            there = theta + length * direction
            there[there * orthant <= 0.0] = 0.0
            full = np.zeros_like(self.theta)
            full[self.working.index] = there
            value, gradient = self.objective(full)
            promised = float(slopes @ (there - theta))
            if value <= self.value + ENOUGH * promised:
                return there, full, value, gradient
            if done():
                return None
            # The lowest point of a parabola through both values, within limits.
            guess = -0.5 * promised / (value - self.value - promised)
            length *= min(max(guess, 0.1), 0.5)
        return None


def fit_elastic_net(
    shards: Shards, progress: Progress, max_iter: int, start: np.ndarray | None = None
) -> None:
    """Steps until the certified gap is within tolerance; see `fit_likelihood` on checkpoints."""
    outline, scales = shards.outline, shards.tuning.scales
    l1 = scales.scaled_l1(outline.l1)
    none = np.zeros(outline.n_weights)
    descent = Descent(none if start is None else scales.divided(start), progress.n_iter)

    def evaluate(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient, bound = penalised(shards, theta, lower)
        value += absolute_penalty(theta, l1)
        descent.n_passes += 1
        progress.report(descent.n_passes, scales.unscaled(theta), value, bound)
        progress.passed(descent.n_passes, progress.gap)
        return value, gradient

    def done() -> bool:
        ended = descent.stalled or progress.idle() or descent.n_passes >= max_iter
        return progress.finished or ended

    progress.advice = "Raise max_iter or tol, or use a larger alpha, which converges faster."
    progress.resume(descent)
    while not done():
        lower = lower_bounds(shards)
        steps = OrthantWiseDescent(evaluate, l1, descent.theta)
        while not done():
            descent.stalled = not steps.step(done) and not done()
            descent.theta = steps.theta
            if progress.due(descent.n_passes):
                break
        progress.keep(descent)


@dataclass(frozen=True)
class OrthantWise(Optimizer):
    """The CRF's exact likelihood under an elastic net, by OWL-QN, with a certificate.

    What "auto" is for the CRF with ``l1`` > 0.
    """

    name: ClassVar[str] = "owlqn"
    objectives: ClassVar[frozenset[str]] = frozenset({"likelihood"})
    takes_l1: ClassVar[bool] = True

    def minimise(self, task: Task) -> None:
        """See `fit_elastic_net`."""
        fit_elastic_net(task.shards, task.progress, task.max_iter, task.start)
