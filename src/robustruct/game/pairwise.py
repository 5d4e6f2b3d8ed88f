"""The game with nothing but a MAP oracle: training's pairwise steps, with the weights held still.

Each node is its own feature and each table its own edge feature, so that θ is the scores
themselves; with a learning rate of 0 they never move, and what is left is the ascent on q.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from robustruct.game.atoms import Atoms
from robustruct.game.blocks import Blocks
from robustruct.game.game import Game, Play, lower_bounds, upper_bounds
from robustruct.game.solver import GameSolver
from robustruct.inference import best_labelling, junction_trees
from robustruct.kernels.atoms import atom_visits
from robustruct.kernels.changes import no_change
from robustruct.kernels.game_bounds import normalise_predictors
from robustruct.kernels.pairwise import pairwise_visits
from robustruct.kernels.predictor import move_centres


@dataclass(frozen=True)
class Pairwise(GameSolver):
    """Needs only max-product; a gap of 1e-2 is cheap for any k, 1e-4 takes patience."""

    max_iter: int = 5000
    """Most rounds; a round is up to ``inner`` steps and a move of the predictor's centre."""
    inner: int = 5
    check_every: int = 10
    """Rounds between two looks at the bounds."""

    name: ClassVar[str] = "pairwise"

    def play(
        self, game: Game, tol: float, start: Play | None = None, n_jobs: int | None = -1
    ) -> Play:
        ascent = _Ascent(game, start)
        n_samples = game.scores.batch.n_samples
        allowed = game.allowed_gap(tol)
        best = Play(
            ascent.p0.copy(), ascent.q.r.copy(), ascent.q.dense_edges(),
            np.zeros(n_samples, np.intp), np.ones(n_samples, bool), self.name,
        )  # fmt: skip
        upper, lower = np.full(n_samples, np.inf), np.full(n_samples, -np.inf)
        for round_ in range(1, self.max_iter + 1):
            active = np.flatnonzero(best.exhausted)
            ascent.round(active, self.inner)
            if round_ % self.check_every and round_ > 1:
                continue
            ascent.check(active, best, upper, lower)
            best.n_iter[active] = round_
            best.exhausted = upper - lower > allowed
            if not best.exhausted.any():
                break
        return best


class _Ascent:
    """The adversary's blocks and the predictor's centre, for every game."""

    def __init__(self, game: Game, start: Play | None) -> None:
        self.game = game
        scores, batch = game.scores, game.scores.batch
        n, k = scores.unary.shape
        n_tables = len(scores.tables)
        spread = np.ptp(game.cost)
        self.inv_mu = np.full(len(game.cost), 1.0 / spread if spread > 0 else 0.0)
        self.cost_t = np.ascontiguousarray(game.cost.T)
        self.theta_node = scores.unary.copy()
        self.theta_edge = scores.tables.reshape(n_tables, k * k).copy()
        self.p0 = np.full((n, k), 1.0 / k) if start is None else start.p.copy()
        normalise_predictors(0, n, scores.unary, self.p0)
        self._rows = np.arange(n, dtype=np.intp)
        self.q: Blocks | Atoms
        if batch.n_chords:  # which labellings make up the marginals of a start is not known
            junction_trees(scores)
            self.q = Atoms(batch, best_labelling(scores, 1)[0], k)
        elif start is None:
            self.q = Blocks.at(batch, best_labelling(scores, 1)[0], k)
        else:
            self.q = Blocks.of(batch, start.r, start.q)
        self.gap, self.given = np.zeros(batch.n_samples), np.zeros(batch.n_samples)
        self._fixed = (
            np.arange(n + 1, dtype=np.intp), np.arange(n, dtype=np.int32), np.ones(n),
            np.arange(n_tables + 1, dtype=np.intp), np.arange(n_tables, dtype=np.int32),
            np.ones(n_tables), np.arange(n_tables, dtype=np.intp), np.zeros(n_tables, np.intp),
            np.zeros(n, np.intp), np.zeros((1, k)), np.zeros((2, k, k)),
        )  # fmt: skip
        self._changes = no_change(n, n, k), no_change(n_tables, n_tables, k * k)
        self._no_gram = np.zeros(batch.n_samples + 1, np.intp), np.empty(0)

    def round(self, active: np.ndarray, inner: int) -> None:
        """Up to ``inner`` steps on each active game, then the centres follow."""
        scores, batch, game = self.game.scores, self.game.scores.batch, self.game
        x1, x2, x3, f1, f2, f3, rows, turns, kinds, mask, pair_mask = self._fixed
        starts, empty = self._no_gram
        q, rates = self.q, np.zeros(batch.n_samples)
        if isinstance(q, Atoms):
            atom_visits(
                active, batch.node_offsets, batch.chord_offsets, batch.child, batch.parent,
                batch.buckets.arrays, (x1, x2, x3, f1, f2, f3), self.theta_node, self.theta_edge,
                (scores.table_of, rows, turns), (kinds, mask, pair_mask), game.cost, game.weight,
                rates, self.inv_mu, inner, self.p0, q.r, *q.lists, self._changes, self.gap,
                self.given,
            )  # fmt: skip
        else:
            pairwise_visits(
                active, batch.node_offsets, batch.parent, (x1, x2, x3, f1, f2, f3),
                self.theta_node, self.theta_edge, (scores.table_of, rows, turns),
                (kinds, mask, pair_mask), game.cost, game.weight, rates, self.inv_mu, inner,
                self.p0, q.r, q.pair, q.mass, q.count, self._changes, starts, starts, empty, empty,
                self.gap, self.given,
            )  # fmt: skip
        for s in active:
            lo, hi = batch.node_offsets[s], batch.node_offsets[s + 1]
            move_centres(lo, hi, self.p0, q.r, self.cost_t, self.inv_mu, self._rows, scores.unary)
        q.grow()

    def check(self, active: np.ndarray, best: Play, upper: np.ndarray, lower: np.ndarray) -> None:
        """Recompute the bounds, and keep the best predictor and the best adversary of each game."""
        batch = self.game.scores.batch
        self.q.repair(active)
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
