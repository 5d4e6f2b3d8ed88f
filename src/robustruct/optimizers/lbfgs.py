"""L-BFGS for strongly convex objectives with millions of weights.

scipy's L-BFGS-B, which allows for bounds, took as long as the objective itself (0.6 s an iteration
of 7 million weights; this takes 0.25 s). The direction −H g is a combination of the last steps s_i,
changes of the gradient y_i and the gradient itself, and the two-loop recursion for its coefficients
needs nothing but products of these (Chen et al. 2014): a few matrix-vector products instead of a
loop over vectors that are too long for any cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from robustruct.core.vectors import add_multiple, add_slope, penalty
from robustruct.objectives.likelihood import LowerBounds
from robustruct.optimizers.optimizer import Optimizer, Progress, Shards, Task

FEWEST, MOST = 10, 30  # steps remembered: as many as fit into ROOM numbers, within these limits
ROOM = 2**24
ENOUGH = 1e-4  # of the decrease that the slope promises
STEEP = 0.9  # of the slope must be gone after a step, or it was too short

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]


class Lbfgs:
    """The steps remembered, and the direction they suggest."""

    def __init__(self, n_weights: int) -> None:
        self.memory = min(max(FEWEST, ROOM // (2 * n_weights)), MOST)
        self.vectors = np.zeros((2 * self.memory, n_weights))
        """Steps, then changes of the gradient, each in a ring of rows."""
        self.products = np.zeros((2 * self.memory, 2 * self.memory))
        self.ring: list[int] = []
        """Rows in use, oldest first."""

    def forget(self) -> None:
        """Begin anew."""
        self.ring.clear()

    def remember(
        self, theta: np.ndarray, there: np.ndarray, gradient: np.ndarray, new_gradient: np.ndarray
    ) -> None:
        """Take note of a step, and of what it did to the gradient."""
        row = self.ring[0] if len(self.ring) == self.memory else len(self.ring)
        step, change = self.vectors[row], self.vectors[self.memory + row]
        np.subtract(there, theta, out=step)
        np.subtract(new_gradient, gradient, out=change)
        if row in self.ring:
            self.ring.remove(row)
        for at, vector in ((row, step), (self.memory + row, change)):
            self.products[at] = self.products[:, at] = self.vectors @ vector
        if (
            self.products[row, self.memory + row] > 0.0
        ):  # but for rounding, as it is strongly convex
            self.ring.append(row)
        else:
            self.forget()

    def direction(self, gradient: np.ndarray, out: np.ndarray) -> None:
        """−H g."""
        if not self.ring:
            np.multiply(gradient, -1.0 / max(1.0, float(np.linalg.norm(gradient))), out=out)
            return
        of_vectors, of_gradient = self._coefficients(self.vectors @ gradient)
        np.matmul(of_vectors, self.vectors, out=out)
        add_multiple(out, of_gradient, gradient)

    def _coefficients(self, with_gradient: np.ndarray) -> tuple[np.ndarray, float]:
        """(of the vectors, of the gradient) in the direction."""
        products, newest = self.products, self.ring[-1]
        sizes = {row: products[row, self.memory + row] for row in self.ring}
        coefficients, of_gradient, taken = np.zeros(2 * self.memory), -1.0, {}

        def product(at: int) -> float:
            return float(coefficients @ products[:, at] + of_gradient * with_gradient[at])

        for row in reversed(self.ring):
            taken[row] = product(row) / sizes[row]
            coefficients[self.memory + row] -= taken[row]
        shrink = sizes[newest] / products[self.memory + newest, self.memory + newest]
        coefficients *= shrink
        of_gradient *= shrink
        for row in self.ring:
            coefficients[row] += taken[row] - product(self.memory + row) / sizes[row]
        return coefficients, of_gradient


def descend(
    objective: Objective,
    theta: np.ndarray,
    done: Callable[[], bool],
    pause: Callable[[np.ndarray], bool],
) -> tuple[np.ndarray, bool]:
    """(where the steps end, whether no step makes the objective smaller).

    ``done`` is asked after every evaluation, ``pause`` after every step, with where it led.
    """
    lbfgs, direction, there = Lbfgs(len(theta)), np.empty_like(theta), np.empty_like(theta)
    theta = theta.copy()
    value, gradient = objective(theta)
    while not done():
        lbfgs.direction(gradient, direction)
        found = _search(objective, theta, value, gradient, direction, there, done)
        if found is not None:
            value, new_gradient = found
            lbfgs.remember(theta, there, gradient, new_gradient)
            theta, there, gradient = there, theta, new_gradient
            if pause(theta):
                break
        elif done():
            break
        elif lbfgs.ring:
            lbfgs.forget()  # rounding may have spoilt it: try the gradient itself
        else:
            return theta, True
    return theta, False


def _search(
    objective: Objective,
    theta: np.ndarray,
    value: float,
    gradient: np.ndarray,
    direction: np.ndarray,
    there: np.ndarray,
    done: Callable[[], bool],
) -> tuple[float, np.ndarray] | None:
    """(value, gradient) at ``there``, where the conditions of Wolfe hold; None if in vain."""
    slope = float(gradient @ direction)
    size, reach = float(np.abs(theta).max()), float(np.abs(direction).max())
    low, high, length = 0.0, np.inf, 1.0
    while slope < 0.0 and length * reach > 1e-16 * max(1.0, size):
        np.copyto(there, theta)
        add_multiple(there, length, direction)
        new_value, new_gradient = objective(there)
        enough = new_value <= value + ENOUGH * length * slope
        new_slope = float(new_gradient @ direction)
        if enough and (new_slope >= STEEP * slope or length - low < 0.1 * low):
            return new_value, new_gradient
        if done():
            return None
        # The secant of the slopes tells where the lowest point should be, within limits.
        guess = length * slope / (slope - new_slope) if new_slope > slope else np.inf
        if enough:
            low = length
            length = (
                min(max(guess, 2.0 * low), 10.0 * low) if high == np.inf else 0.5 * (low + high)
            )
        else:
            high = length
            length = min(max(guess, low + 0.1 * (high - low)), low + 0.5 * (high - low))
    return None


def penalised(
    shards: Shards, theta: np.ndarray, lower: LowerBounds
) -> tuple[float, np.ndarray, float]:
    """(objective but for l1 |θ|_1, its gradient, lower bound), for weights divided by scales."""
    alpha, squares = shards.outline.alpha, shards.tuning.scales.squares
    loss, gradient = shards.likelihood(theta)
    bound = lower.bound(loss, theta, gradient)
    add_slope(gradient, theta, squares, alpha)
    return loss + penalty(theta, squares, alpha), gradient, bound


def lower_bounds(shards: Shards) -> LowerBounds:
    """Bounds for these samples' objective, from what is yet to be evaluated."""
    outline, scales = shards.outline, shards.tuning.scales
    return LowerBounds(outline.alpha, scales.squares, scales.scaled_l1(outline.l1))


class Descent:
    """Where L-BFGS has got to."""

    def __init__(self, theta: np.ndarray, n_passes: int = 0) -> None:
        self.theta = theta
        self.n_passes = n_passes
        """Evaluations of the objective."""
        self.stalled = False
        """Whether no step makes the objective smaller, as far as floating point can tell."""

    def state(self) -> dict[str, np.ndarray]:
        """All that the evaluations to come depend on; `restore` takes it back."""
        return {
            "theta": self.theta,
            "n_passes": np.array(self.n_passes),
            "stalled": np.array(self.stalled),
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from an earlier `state`."""
        self.theta, self.n_passes = state["theta"], state["n_passes"].item()
        self.stalled = state["stalled"].item()


def fit_likelihood(
    shards: Shards,
    progress: Progress,
    max_iter: int,
    start: np.ndarray | None = None,
    n_passes: int = 0,
) -> None:
    """L-BFGS until the certified gap is within the tolerance, after ``n_passes`` of another.

    What L-BFGS remembers is too large to be kept. So when a checkpoint is due, it forgets, and goes
    on from the weights reached, whether or not the process dies: then both take the same path.
    """
    scales = shards.tuning.scales
    none = np.zeros(shards.outline.n_weights)
    before = max(n_passes, progress.n_iter)
    descent = Descent(none if start is None else scales.divided(start), before)

    def evaluate(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient, bound = penalised(shards, theta, lower)
        descent.n_passes += 1
        progress.report(descent.n_passes, scales.unscaled(theta), value, bound)
        progress.passed(descent.n_passes, progress.gap)
        return value, gradient

    def pause(theta: np.ndarray) -> bool:
        descent.theta = theta
        return progress.due(descent.n_passes)

    def done() -> bool:
        ended = descent.stalled or progress.idle(before) or descent.n_passes >= max_iter
        return progress.finished or ended

    progress.advice = "Raise max_iter or tol, or use a larger alpha, which converges faster."
    progress.resume(descent)
    while not done():
        lower = lower_bounds(shards)
        descent.theta, descent.stalled = descend(evaluate, descent.theta, done, pause)
        progress.keep(descent)


@dataclass(frozen=True)
class LBFGS(Optimizer):
    """The CRF's exact likelihood by L-BFGS; its gradient certifies the gap."""

    name: ClassVar[str] = "lbfgs"
    objectives: ClassVar[frozenset[str]] = frozenset({"likelihood"})

    def minimise(self, task: Task) -> None:
        """See `fit_likelihood`."""
        fit_likelihood(task.shards, task.progress, task.max_iter, task.start)
