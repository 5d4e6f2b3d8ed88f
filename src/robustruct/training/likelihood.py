"""The CRF's objective: the exact conditional likelihood, minimised by L-BFGS.

    min over θ   (alpha/2)|θ|²  +  Σ_s share_s [ log Z(θ·Φ_s) − θ·Φ_s(y_s) ]

The objective is alpha-strongly convex, so any θ proves how far it is from the optimum:
objective(θ) − optimum <= |gradient(θ)|² / (2 alpha).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize

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


def fit_likelihood(
    sites: Sites, progress: Progress, max_iter: int, start: np.ndarray | None = None
) -> None:
    """L-BFGS until the certified gap is within the tolerance."""
    alpha, n_weights = sites.outline.alpha, sites.outline.n_weights
    evaluations = 0

    def evaluate(theta: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal evaluations
        value, gradient = penalised(sites, theta)
        evaluations += 1
        bound = value - float(gradient @ gradient) / (2 * alpha)
        done = progress.report(evaluations, theta, value, bound)
        progress.passed(evaluations, progress.gap)
        if done or evaluations >= max_iter:
            raise _Done
        return value, gradient

    first = np.zeros(n_weights) if start is None else start
    options = {"maxiter": max_iter, "maxfun": 10 * max_iter, "ftol": 0.0, "gtol": 0.0}
    with contextlib.suppress(_Done):
        # The stubs of scipy want a fixed shape of array.
        minimize(evaluate, first, jac=True, method="L-BFGS-B", options=options)  # type: ignore[call-overload]
