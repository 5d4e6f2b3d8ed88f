"""The CRF's objective: the exact conditional likelihood, minimised by L-BFGS.

    min over θ   (alpha/2)|θ|²  +  Σ_s share_s [ log Z(θ·Φ_s) − θ·Φ_s(y_s) ]

The objective is alpha-strongly convex, so any θ proves how far it is from the optimum:
objective(θ) − optimum <= |gradient(θ)|² / (2 alpha).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from robustruct.features import adjoint, labelling_features
from robustruct.inference import marginals, score_of
from robustruct.kernels.weight_vectors import add_multiple
from robustruct.training.fit import Progress
from robustruct.training.lbfgs import descend
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
    add_multiple(gradient, alpha, theta)
    return value + 0.5 * alpha * float(theta @ theta), gradient


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

    What L-BFGS remembers is too large to be kept. So when a checkpoint is due, it forgets, and goes
    on from the weights reached, whether or not the process dies: then both take the same path.
    """
    alpha = sites.outline.alpha
    descent = Descent(np.zeros(sites.outline.n_weights) if start is None else start)

    def evaluate(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = penalised(sites, theta)
        descent.n_passes += 1
        bound = value - float(gradient @ gradient) / (2 * alpha)
        progress.report(descent.n_passes, theta, value, bound)
        progress.passed(descent.n_passes, progress.gap)
        return value, gradient

    def done() -> bool:
        return progress.finished or descent.stalled or descent.n_passes >= max_iter

    progress.resume(descent)
    while not done():
        descent.theta, descent.stalled = descend(
            evaluate, descent.theta, done, lambda: progress.due(descent.n_passes)
        )
        progress.keep(descent)
