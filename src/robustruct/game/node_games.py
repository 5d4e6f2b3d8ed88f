"""Games of single nodes, solved exactly by core/node_games.c in a form that fits the cost.

Where there are no edges these are the whole game, and probabilities then order labels as scores do;
elsewhere dual decomposition plays them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from robustruct.core.node_games import ABSOLUTE, ANY, SQUARED, ZERO_ONE, node_equilibria
from robustruct.core.structs import CostArrays
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


def cost_form(cost: np.ndarray) -> CostArrays:
    """A (k, k) cost [predicted, true], with the closed form of node games that fits it.

    Recognised up to a positive factor and a constant per column, which belongs to the scores:

    | cost[a, b]                           | method                       | time       |
    |--------------------------------------|------------------------------|------------|
    | 1 if a != b else 0                   | sort                         | O(k log²k) |
    | abs(x_a - x_b), x places on a line   | two maxima                   | O(k)       |
    | (x_a - x_b)^2                        | a walk along an envelope     | O(k)       |
    | anything else                        | simplex on the k x k payoffs | O(k^3)     |
    """
    cost = np.ascontiguousarray(cost, dtype=float)
    k = len(cost)
    offset = np.diag(cost).copy()
    excess = cost - offset
    slack = 1e-12 * np.abs(excess).max()

    def near(form: np.ndarray) -> bool:
        return bool((np.abs(excess - form) <= slack).all())

    # On a line, the label farthest from any other is an end of it.
    reach = np.maximum(excess[np.argmax(excess[0])], 0.0)
    place, unit = np.zeros(k), float(excess[0, -1]) if k > 1 else 0.0
    if unit >= 0 and near(unit * (1 - np.eye(k))):
        kind = ZERO_ONE
    elif near(np.abs(reach[:, None] - reach)):
        kind, place = ABSOLUTE, reach
    elif near(np.subtract.outer(np.sqrt(reach), np.sqrt(reach)) ** 2):
        kind, place = SQUARED, np.sqrt(reach)
    else:
        kind, offset = ANY, np.zeros(k)
    return CostArrays(kind, place, np.argsort(place, kind="stable"), unit, offset, cost)
