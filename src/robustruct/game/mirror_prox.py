"""Saddle-point mirror-prox (Nowak-Vila, Bach and Rudi, ICML 2020): entropic steps on both sides.

Each iteration is two sum-products. The gap of the averaged strategies falls as 1 / iterations, so
this is a method for loose tolerances, here as the published alternative to the interior point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from robustruct.core.structs import Effort
from robustruct.game.edge_pairs import EdgePairs
from robustruct.game.game import Game, Play
from robustruct.game.solver import GameSolver, check_options, refuse_cycles
from robustruct.inference import best_labelling
from robustruct.kernels.mirror_prox import mirror_prox
from robustruct.parallel import over_samples


@dataclass(frozen=True, kw_only=True)
class MirrorProx(GameSolver):
    """Reaches 1e-2 in a hundred iterations or so. Of a warm start it takes the predictor only."""

    max_iter: int = 5_000
    check_every: int = 10
    """Iterations between computations of the gap, growing with their number."""
    name: ClassVar[str] = "mirror_prox"

    def __post_init__(self) -> None:
        check_options(self, counts=("max_iter", "check_every"))

    def refusal(self, game: Game) -> str | None:
        return refuse_cycles(game)

    def play(
        self, game: Game, tol: float, start: Play | None = None, n_jobs: int | None = -1
    ) -> Play:
        s, b = game.scores, game.scores.batch
        n, k = s.unary.shape
        play = Play.empty(game, self.name)
        free = game.scale() == 0  # no mistake costs more than another: the game is MAP inference
        allowed = np.where(free, np.inf, game.allowed_gap(tol))
        effort = Effort(allowed, self.max_iter, self.check_every, play.n_iter, play.exhausted)
        start_p = np.full((n, k), 1.0 / k) if start is None else start.p
        over_samples(
            lambda first, last: mirror_prox(
                first, last, game.arrays, effort, start_p, play.strategies
            ),
            b.node_offsets,
            n_jobs,
        )
        if free.any():
            best = EdgePairs.at(b, best_labelling(s, n_jobs)[0], k)
            nodes = np.repeat(free, np.diff(b.node_offsets))
            play.r[nodes], play.q[nodes] = best.r[nodes], best.dense_edges()[nodes]
        return play
