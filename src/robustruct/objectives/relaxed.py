"""Smooth objectives on the local polytope: their value and gradient, with a lower value.

    min over θ   (alpha/2)|θ|²  +  Σ_s share_s [ V_s(θ·Φ_s) − θ·Φ_s(y_s) ]

V is the value of the relaxed smooth game (game/relaxed_smooth.py), an upper bound on T log Z(.):
with L = 0 that is a likelihood, with p held at the truth the softmax margin, with p free the smooth
AGM. V is convex and differentiable in θ, its gradient the features of the adversary's marginals.
Both are known to within the gap of the games, which are solved as far as training needs, each time
from where they were. The upper value is a bound on the exact objective too.
"""

from __future__ import annotations

import numpy as np

from robustruct.core.structs import RelaxedGibbs
from robustruct.features import adjoint, labelling_features, sum_over_tables
from robustruct.game.game import Game
from robustruct.game.relaxed_smooth import first_point, improve
from robustruct.inference import score_of
from robustruct.objectives.adversarial import Problem
from robustruct.scores import Scores


class RelaxedLikelihood:
    """Value and gradient of a smooth objective on the local polytope, without the penalty."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.observed = labelling_features(
            problem.design, problem.labels, problem.n_labels, problem.share
        )
        self.point: RelaxedGibbs | None = None

    def __call__(
        self, theta: np.ndarray, slack: float, anew: bool = False
    ) -> tuple[float, np.ndarray, float]:
        """(value, gradient, lower value), these ``slack`` apart at most, as far as sweeps get.

        ``anew`` forgets where the games were.
        """
        problem, batch = self.problem, self.problem.design.batch
        ψ = problem.scores(theta)
        game = self._game(ψ)
        if self.point is None or anew:
            self.point = first_point(game)
        share = np.where(problem.share > 0, problem.share, np.inf)
        # Every sample gets its part of the slack by its number of nodes.
        sizes = np.diff(batch.node_offsets)
        part = sizes * (problem.share > 0) / (sizes @ (problem.share > 0))
        allowed = np.where(problem.share > 0, slack * part / share, np.inf)
        lower, upper, _ = improve(
            game, problem.temperature or 1.0, allowed, self.point, problem.n_jobs
        )
        truth = score_of(ψ, problem.labels)
        node_share = problem.node_share
        sums = sum_over_tables(problem.design, node_share[batch.child, None, None] * self.point.q)
        nodes = node_share[:, None] * self.point.r
        gradient = adjoint(problem.design, nodes, sums, problem.n_jobs) - self.observed
        value, least = problem.share @ (upper - truth), problem.share @ (lower - truth)
        return float(value), gradient, float(least)

    def _game(self, ψ: Scores) -> Game:
        """The games behind scores; where p is the truth, its costs are scores."""
        problem = self.problem
        if not problem.truth_is_predictor:
            return Game(ψ, problem.cost, problem.node_weight)
        costs = problem.node_weight[:, None] * problem.cost[problem.labels]
        return Game(ψ.with_unary(ψ.unary + costs), np.zeros_like(problem.cost), problem.node_weight)
