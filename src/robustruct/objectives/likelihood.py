"""The CRF's objective: the exact conditional likelihood, minimised by L-BFGS.

    min over θ   (alpha/2)|θ|²  +  Σ_s share_s [ log Z(θ·Φ_s) − θ·Φ_s(y_s) ]

The objective is alpha-strongly convex, so any θ proves how far it is from the optimum:
objective(θ) − optimum <= |gradient(θ)|² / (2 alpha). L-BFGS works on θ / s (optimizers/scaling.py).
"""

from __future__ import annotations

import numpy as np

from robustruct.features import adjoint, labelling_features
from robustruct.inference import marginals, score_of
from robustruct.objectives.adversarial import Problem


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
