"""The game with nothing but a MAP oracle: training's pairwise steps, with the weights held still.

Each node is its own feature and each table its own edge feature, so that θ is the scores
themselves; with a learning rate of 0 they never move, and what is left is the ascent on q.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from robustruct.core.ascent import move_centres, visit_cyclic_samples, visit_samples
from robustruct.core.games import normalise_predictors
from robustruct.core.structs import (
    Ascent,
    Design,
    Features,
    PendingMoves,
    Predictor,
    Products,
    Rows,
    Rules,
    SampleScores,
    TableRows,
    Visits,
    WeightChange,
    WeightChanges,
    Weights,
)
from robustruct.game.adversaries import EdgePairs, LabellingMixtures
from robustruct.game.game import Game, Play, lower_bounds, upper_bounds
from robustruct.game.solver import GameSolver, check_options
from robustruct.inference import best_labelling, junction_trees
from robustruct.scores import Scores


@dataclass(frozen=True)
class Pairwise(GameSolver):
    """Needs only max-product; a gap of 1e-2 is cheap for any k, 1e-4 takes patience."""

    max_iter: int = 5000
    """Most rounds; a round is up to ``inner`` steps and a move of the predictor's centre."""
    inner: int = 5
    check_every: int = 10
    """Rounds between two computations of the bounds."""

    name: ClassVar[str] = "pairwise"

    def __post_init__(self) -> None:
        check_options(self, counts=("max_iter", "inner", "check_every"))

    def play(
        self, game: Game, tol: float, start: Play | None = None, n_jobs: int | None = -1
    ) -> Play:
        ascent = _Ascent(game, start, self.inner)
        n_samples = game.scores.batch.n_samples
        allowed = game.allowed_gap(tol)
        best = Play(
            ascent.p0.copy(),
            ascent.q.r.copy(),
            ascent.q.dense_edges(),
            np.zeros(n_samples, np.intp),
            np.ones(n_samples, bool),
            self.name,
        )
        upper, lower = np.full(n_samples, np.inf), np.full(n_samples, -np.inf)
        for round_ in range(1, self.max_iter + 1):
            active = np.flatnonzero(best.exhausted)
            ascent.round(active)
            # Bounds cost as much as some rounds; after the first they say which games are easy.
            if round_ % self.check_every and round_ > 1:
                continue
            ascent.check(active, best, upper, lower)
            best.n_iter[active] = round_
            best.exhausted = upper - lower > allowed
            if not best.exhausted.any():
                break
        return best


class _Ascent:
    """The adversary and the predictor's centre, for every game."""

    def __init__(self, game: Game, start: Play | None, inner: int) -> None:
        self.game = game
        scores, batch = game.scores, game.scores.batch
        n, k = scores.unary.shape
        spread = np.ptp(game.cost)
        inv_mu = np.full(k, 1.0 / spread if spread > 0 else 0.0)
        self.p0 = np.full((n, k), 1.0 / k) if start is None else start.p.copy()
        normalise_predictors(0, n, scores.arrays, self.p0)
        self.predictor = Predictor.of(game.cost, inv_mu, game.weight, self.p0)
        self.q: EdgePairs | LabellingMixtures
        if batch.n_chords:  # which labellings make up the marginals of a start is not known
            self.trees = junction_trees(scores)
            self.q = LabellingMixtures(batch, best_labelling(scores, 1)[0], k)
        elif start is None:
            self.q = EdgePairs.at(batch, best_labelling(scores, 1)[0], k)
        else:
            self.q = EdgePairs.of(batch, start.r, start.q)
        self.design, self.weights, self.changes = _as_training(scores)
        self.visits = _visits_without_learning(batch.n_samples, inner)
        largest = batch.largest
        self.pending = PendingMoves.empty(1, largest[0])
        self.buffers = SampleScores.empty(1, *largest, len(scores.tables), k)
        self.ascent = Ascent(
            batch.structure,
            self.design,
            self.weights,
            self.predictor,
            self.visits,
            self.pending,
            self.buffers,
            self.changes,
        )

    def round(self, active: np.ndarray) -> None:
        """Some steps on each active game, then the centres follow."""
        batch, q = self.game.scores.batch, self.q
        if isinstance(q, LabellingMixtures):
            visit_cyclic_samples(active, len(active), self.ascent, self.trees, q.arrays)
        else:
            self.pending.begin(len(active))
            visit_samples(0, active, len(active), self.ascent, q.arrays)
        for s in active:
            lo, hi = batch.node_offsets[s], batch.node_offsets[s + 1]
            move_centres(lo, hi, self.predictor, self.design.rules, q.r)
        q.grow()

    def check(self, active: np.ndarray, best: Play, upper: np.ndarray, lower: np.ndarray) -> None:
        """Recompute the bounds, and keep the best predictor and the best adversary of each game."""
        batch = self.game.scores.batch
        self.q.repair(active)  # bounds hold for marginals that are exactly consistent
        r, q = self.q.r, self.q.dense_edges()
        new_upper = upper_bounds(self.game, self.p0, 1)
        new_lower = lower_bounds(self.game, r, q, 1)
        for s in active:
            span = slice(batch.node_offsets[s], batch.node_offsets[s + 1])
            if new_upper[s] < upper[s]:
                upper[s], best.p[span] = new_upper[s], self.p0[span]
            if new_lower[s] > lower[s]:
                slots = batch.slots_of(np.array([s]))
                lower[s], best.r[span], best.q[slots] = new_lower[s], r[span], q[slots]


def _as_training(scores: Scores) -> tuple[Design, Weights, WeightChanges]:
    """Scores as the weights of features: every node and every table is a feature of its own."""
    (n, k), n_tables = scores.unary.shape, len(scores.tables)
    masks = np.where(np.isneginf(scores.unary), -np.inf, 0.0)
    design = Design(
        Features(_each_its_own(n), _each_its_own(n_tables)),
        TableRows(scores.table_of, np.arange(n_tables, dtype=np.intp), np.zeros(n_tables, np.intp)),
        Rules(np.arange(n, dtype=np.intp), masks, np.zeros(k * k)),
    )
    weights = Weights(scores.unary.copy(), scores.tables.reshape(n_tables, k * k).copy())
    changes = WeightChanges(
        WeightChange.none(n, n, k), WeightChange.none(n_tables, n_tables, k * k)
    )
    return design, weights, changes


def _each_its_own(n: int) -> Rows:
    """The rows of a unit matrix."""
    return Rows(np.arange(n + 1, dtype=np.intp), np.arange(n, dtype=np.int32), np.ones(n))


def _visits_without_learning(n_samples: int, inner: int) -> Visits:
    """Visits that leave the weights, here the scores, as they are: then no product is needed."""
    rate, gap, regret = np.zeros((3, n_samples))
    return Visits(inner, rate, Products.none(n_samples), gap, regret)
