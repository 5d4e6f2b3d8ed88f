"""Games without edges: every node is a game of its own, solved exactly by core/node_games.c.

Probabilities of samples of one node, as of any classifier, then order labels as scores do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from robustruct.core.node_games import node_equilibria
from robustruct.game.dual_decomposition import cost_form
from robustruct.game.game import Game, Play
from robustruct.game.solver import GameSolver
from robustruct.parallel import over_samples


@dataclass(frozen=True)
class ClosedForm(GameSolver):
    """Exact up to rounding, for nodes that stand alone."""

    name: ClassVar[str] = "closed_form"

    def refusal(self, game: Game) -> str | None:
        if (game.scores.batch.parent < 0).all():
            return None
        return "it solves nodes that stand alone, and this game has edges; use solver='auto'"

    def play(
        self, game: Game, tol: float, start: Play | None = None, n_jobs: int | None = -1
    ) -> Play:
        batch, unary = game.scores.batch, game.scores.unary
        n, k = unary.shape
        p, r, value = np.empty((n, k)), np.empty((n, k)), np.empty(n)
        form = cost_form(game.cost)

        def work(first: int, last: int) -> None:
            lo, hi = batch.node_offsets[first], batch.node_offsets[last]
            node_equilibria(lo, hi, form, game.weight, unary, p, r, value)

        over_samples(work, batch.node_offsets, n_jobs)
        n_samples = batch.n_samples
        return Play(
            p,
            r,
            np.zeros((n, k, k)),
            np.ones(n_samples, np.intp),
            np.zeros(n_samples, bool),
            self.name,
        )
