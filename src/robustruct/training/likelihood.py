"""The CRF's objective: the exact conditional likelihood, minimised by L-BFGS.

    min over θ   (alpha/2)|θ|²  +  Σ_s share_s [ log Z(θ·Φ_s) − θ·Φ_s(y_s) ]

The objective is alpha-strongly convex, so any θ proves how far it is from the optimum:
objective(θ) − optimum <= |gradient(θ)|² / (2 alpha).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from robustruct.features import adjoint, labelling_features
from robustruct.inference import marginals, score_of
from robustruct.training.fit import Progress
from robustruct.training.problem import Problem

if TYPE_CHECKING:
    from robustruct.training.site import Sites


class Likelihood:
    """Value and gradient of the negative log-likelihood, without the penalty."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.observed = labelling_features(
            problem.design, problem.labels, problem.n_labels, problem.share
        )

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        problem = self.problem
        scores = problem.scores(theta)
        found = marginals(scores, share=problem.share, n_jobs=problem.n_jobs)
        regret = found.log_partition - score_of(scores, problem.labels)
        nodes = problem.node_share[:, None] * found.nodes
        gradient = adjoint(problem.design, nodes, found.table_sums, problem.n_jobs)
        gradient -= self.observed
        return float(problem.share @ regret), gradient


def penalised(sites: Sites, theta: np.ndarray) -> tuple[float, np.ndarray]:
    """The objective and its gradient."""
    alpha = sites.outline.alpha
    value, gradient = sites.likelihood(theta)
    gradient += alpha * theta
    return value + 0.5 * alpha * float(theta @ theta), gradient


class _Done(Exception):
    """Raised inside scipy's loop, which offers no other way to stop after a good evaluation."""


class Descent:
    """Where L-BFGS has got to."""

    def __init__(self, theta: np.ndarray) -> None:
        self.theta = theta
        self.n_passes = 0
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
    sites: Sites, progress: Progress, max_iter: int, start: np.ndarray | None = None
) -> None:
    """L-BFGS until the certified gap is within the tolerance.

    scipy's loop cannot be kept. So when a checkpoint is due, the loop ends and another begins from
    the weights reached, whether or not the process dies: then both take the same path.
    """
    alpha = sites.outline.alpha
    descent = Descent(np.zeros(sites.outline.n_weights) if start is None else start)

    def evaluate(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = penalised(sites, theta)
        descent.n_passes += 1
        bound = value - float(gradient @ gradient) / (2 * alpha)
        progress.report(descent.n_passes, theta, value, bound)
        progress.passed(descent.n_passes, progress.gap)
        if progress.finished or descent.n_passes >= max_iter:
            descent.theta = theta.copy()
            raise _Done
        return value, gradient

    def pause(intermediate_result: OptimizeResult) -> None:
        if progress.due(descent.n_passes):
            descent.theta = intermediate_result.x.copy()
            raise _Done

    options = {"maxiter": max_iter, "maxfun": 10 * max_iter, "ftol": 0.0, "gtol": 0.0}
    progress.resume(descent)
    while not (progress.finished or descent.stalled or descent.n_passes >= max_iter):
        try:
            # The stubs of scipy want a fixed shape of array.
            found = minimize(  # type: ignore[call-overload]
                evaluate, descent.theta, jac=True, method="L-BFGS-B", callback=pause,
                options=options,
            )  # fmt: skip
            descent.theta, descent.stalled = found.x, True
        except _Done:
            pass
        progress.keep(descent)
