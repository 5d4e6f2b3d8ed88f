"""The CRF's likelihood under an elastic net, by SciPy's L-BFGS-B, with a certificate.

    min over θ   l1 |θ|_1  +  (alpha/2)|θ|²  +  Σ_s share_s [ log Z(θ·Φ_s) − θ·Φ_s(y_s) ]

With l1 > 0 a weight is a difference of two parts that are not negative, θ = u − v: the penalty is
l1 (u + v), linear. Nearly all weights are 0 and stay there, so L-BFGS works on those that are not 0
or want to leave it, and asks which these are whenever the number of evaluations has doubled.

SciPy's takes 1.1 to 1.5 times the CPU time of an L-BFGS without bounds that was here before (wnut17
and a third of CoNLL-2000, 1.4 and 3.1 million weights, alpha = 1/n, gaps of 1e-2 and 1e-3). OWL-QN
(Andrew and Gao 2007), with l1 = 0.1/n, took half to all of its time at alpha = 1/n, twice at
0.1/n on CoNLL-2000, and on wnut17 did not get to a gap of 1e-2 in 1500 evaluations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from robustruct.core.vectors import absolute_penalty, add_slope, least_slopes, penalty
from robustruct.objectives.likelihood import LowerBounds
from robustruct.optimizers.certificates import Progress
from robustruct.optimizers.optimizer import Optimizer, Task
from robustruct.optimizers.shards import Shards

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

FEWEST, MOST = 5, 30  # steps remembered: as many as fit into CAPACITY numbers, within these limits
CAPACITY = 2**24  # 128 MiB of float64, so that memory does not grow with weights without end
FIRST = 10  # steps before weights are first chosen again: the gradient at 0 tells little
SLACK = 1e-3
"""How well relaxed values are known, in gaps of the fit. At 0.02 a fit of 20 grids of 60 x 60 nodes
stayed at a gap of 3 %: the lower bound squares the error of the gradient."""
# SciPy's own rules never end a descent: the certified gap does, or no decrease at all.
NEVER = {"maxfun": 10**9, "ftol": 0.0, "gtol": 0.0}


def penalised(
    shards: Shards, theta: np.ndarray, lower: LowerBounds, slack: float = 0.0, anew: bool = False
) -> tuple[float, np.ndarray, float]:
    """(objective but for l1 |θ|_1, its gradient, lower bound), for weights divided by scales."""
    alpha, squares = shards.outline.alpha, shards.tuning.scales.squares
    loss, gradient, least = shards.likelihood(theta, slack, anew)
    bound = lower.bound(least, theta, gradient)
    add_slope(gradient, theta, squares, alpha)
    return loss + penalty(theta, squares, alpha), gradient, bound


def lower_bounds(shards: Shards) -> LowerBounds:
    """Bounds for these samples' objective, from what is yet to be evaluated."""
    outline, scales = shards.outline, shards.tuning.scales
    l1 = scales.scaled_l1(outline.l1)
    return LowerBounds(outline.alpha, scales.squares, l1, outline.unavoidable)


class LBFGSState:
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


class _Enough(Exception):
    """Training should stop: raised through SciPy's loop, which asks after whole steps only."""


class _Parts:
    """The weights that L-BFGS moves: all of them, or (l1 > 0) parts of those that should move.

    L-BFGS-B knows bounds, not |θ|: θ = up - down with both >= 0 has the smooth penalty up + down.
    """

    def __init__(self, theta: np.ndarray, gradient: np.ndarray, l1: np.ndarray) -> None:
        self.n_weights, self.l1 = len(theta), np.zeros(0)
        if not l1.any():
            self.start = theta
            return
        slopes = np.empty_like(theta)
        least_slopes(theta, gradient, l1, slopes)
        # A weight of 0 whose slope is smaller than l1 would stay: leaving it out saves memory.
        self.up = np.flatnonzero((theta != 0.0) | (slopes < 0.0))
        self.down = np.flatnonzero((theta != 0.0) | (slopes > 0.0))
        every = np.broadcast_to(l1, theta.shape)
        self.l1 = np.concatenate([every[self.up], every[self.down]])
        self.start = np.maximum(np.concatenate([theta[self.up], -theta[self.down]]), 0.0)

    def weights(self, x: np.ndarray) -> np.ndarray:
        """θ, of SciPy's variables."""
        if not len(self.l1):
            return x.copy()
        theta = np.zeros(self.n_weights)
        theta[self.up] = x[: len(self.up)]
        theta[self.down] -= x[len(self.up) :]
        return theta

    def slopes(self, gradient: np.ndarray) -> np.ndarray:
        """Of the objective by SciPy's variables; ``gradient`` is that of all but l1."""
        if not len(self.l1):
            return gradient
        return self.l1 + np.concatenate([gradient[self.up], -gradient[self.down]])


class _Evaluations:
    """The objective with its certificate, evaluated once where it is asked for twice."""

    def __init__(
        self, shards: Shards, progress: Progress, descent: LBFGSState, max_iter: int
    ) -> None:
        self.shards, self.progress, self.descent = shards, progress, descent
        self.max_iter, self.begun = max_iter, descent.n_passes
        self.l1 = shards.tuning.scales.scaled_l1(shards.outline.l1)
        self.forget()

    def forget(self) -> None:
        """Start as a fit that resumes here would."""
        self.lower = lower_bounds(self.shards)
        self.theta, self.found = np.zeros(0), (np.inf, np.zeros(0))

    def _slack(self) -> float:
        """How well relaxed values need to be known: by far better than the optimum is."""
        progress, outline = self.progress, self.progress.problem
        gap = progress.primal - progress.dual
        if not np.isfinite(gap):
            return SLACK * (outline.untrained - outline.unavoidable)
        return SLACK * max(gap, progress.tol * progress.scale(progress.primal))

    def done(self) -> bool:
        descent, progress = self.descent, self.progress
        ended = descent.stalled or descent.n_passes >= self.max_iter or progress.idle(self.begun)
        return progress.finished or ended

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """(objective but for l1 |θ|_1, its gradient)."""
        if np.array_equal(theta, self.theta):
            return self.found
        value, gradient, bound = penalised(
            self.shards, theta, self.lower, self._slack(), not len(self.theta)
        )
        self.theta, self.found = theta, (value, gradient)
        self.descent.n_passes += 1
        value += absolute_penalty(theta, self.l1)
        weights = self.shards.tuning.scales.unscaled(theta)
        self.progress.report(self.descent.n_passes, weights, value, bound)
        self.progress.passed(self.descent.n_passes, self.progress.gap)
        if self.done():
            raise _Enough
        return self.found


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
    none = np.zeros(shards.outline.n_weights)
    # Workers that start again go on counting where the last certificate was.
    begun = max(n_passes, progress.n_iter)
    descent = LBFGSState(none if start is None else shards.tuning.scales.divided(start), begun)
    progress.advice = "Raise max_iter or tol, or use a larger alpha, which converges faster."
    evaluate = _Evaluations(shards, progress, descent, max_iter)
    progress.resume(descent)
    if evaluate.done():  # and kept so
        return
    try:
        while not evaluate.done():
            if _descend(evaluate):
                progress.keep(descent)
                evaluate.forget()
    except _Enough:
        pass
    progress.keep(descent)


def _descend(evaluate: _Evaluations) -> bool:
    """Steps with the same parts; return whether a checkpoint is due."""
    from scipy.optimize import Bounds, minimize  # takes long to load, and few fits need it

    descent, progress, due = evaluate.descent, evaluate.progress, False
    _, gradient = evaluate(descent.theta)
    parts = _Parts(descent.theta, gradient, evaluate.l1)

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = evaluate(parts.weights(x))
        return value + float(parts.l1 @ x if len(parts.l1) else 0.0), parts.slopes(gradient)

    def stepped(intermediate_result: OptimizeResult) -> None:
        nonlocal due
        descent.theta = parts.weights(intermediate_result.x)
        due = progress.due(descent.n_passes)
        if due:
            raise StopIteration

    if not len(parts.start):
        descent.stalled = True
        return False
    before, _ = objective(parts.start)
    memory = min(max(FEWEST, CAPACITY // (2 * len(parts.start))), MOST)
    # Without a penalty on absolute values the parts stay the same: no need to begin again.
    steps = max(FIRST, descent.n_passes) if len(parts.l1) else NEVER["maxfun"]
    options: Any = {**NEVER, "maxcor": memory, "maxiter": steps}
    result = minimize(
        objective, parts.start, jac=True, method="L-BFGS-B",
        bounds=Bounds(0.0, np.inf) if len(parts.l1) else None, callback=stepped, options=options,
    )  # fmt: skip
    # When it ends without a decrease although its memory was empty, floating point allows for none.
    descent.stalled = not due and result.nit < steps and result.fun >= before
    return due


@dataclass(frozen=True)
class LBFGS(Optimizer):
    """The CRF's exact likelihood, also with ``l1``, by L-BFGS; its gradient certifies the gap."""

    name: ClassVar[str] = "lbfgs"
    objectives: ClassVar[frozenset[str]] = frozenset({"likelihood"})
    takes_l1: ClassVar[bool] = True
    takes_partial: ClassVar[bool] = True

    def minimise(self, task: Task) -> None:
        """See `fit_likelihood`."""
        fit_likelihood(task.shards, task.progress, task.max_iter, task.start)
