"""The game as one sparse linear program per sample, solved by HiGHS: slow, exact, the reference.

Adversary (what is solved):      max Σ_i [ <B_i, Q_i> + b_i·r_i + w_i v_i ]   subject to
                                 Q_i has margins r_i and r_parent(i), Σ r_root = 1, v_i ≤ (L r_i)_a
Predictor (read off the duals):  the multipliers of v_i ≤ (L r_i)_a are w_i p_i.

Scores enter as regrets against the best labelling. A labelling worse by more than the whole range
of the cost is never played, so what is left has the size of the costs, however large the scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import highspy
import numpy as np
import scipy.sparse as sp

from robustruct.game.game import Game, Play
from robustruct.game.solver import GameSolver
from robustruct.kernels.regret import regrets


@dataclass(frozen=True, kw_only=True)
class LinearProgram(GameSolver):
    """HiGHS on the local polytope. Ignores warm starts; takes one thread."""

    method: str = "choose"
    """"simplex", "ipm" (interior point, then crossover) or "choose"."""
    time_limit: float = np.inf
    """Seconds per game."""
    name: ClassVar[str] = "linear_program"

    def play(
        self, game: Game, tol: float, start: Play | None = None, n_jobs: int | None = -1
    ) -> Play:
        batch = game.scores.batch
        play = Play.empty(game, self.name)
        scores = game.scores
        node, edge, top = np.empty_like(play.r), np.empty_like(play.q), np.empty(batch.n_samples)
        regrets(
            0, batch.n_samples, batch.node_offsets, batch.parent, scores.unary, scores.tables,
            scores.table_of, node, edge, top,
        )  # fmt: skip
        for s in range(batch.n_samples):
            self._play_one(game, s, node, edge, play)
        return play

    def _play_one(self, game: Game, s: int, node: np.ndarray, edge: np.ndarray, play: Play) -> None:
        highs = highspy.Highs()
        highs.setOptionValue("output_flag", False)
        highs.setOptionValue("threads", 1)
        highs.setOptionValue("solver", self.method)
        highs.setOptionValue("time_limit", self.time_limit)
        highs.setOptionValue("primal_feasibility_tolerance", 1e-10)
        highs.setOptionValue("dual_feasibility_tolerance", 1e-10)
        lo, hi = game.scores.batch.node_offsets[s : s + 2]
        worst = -game.allowed_gap(1.0)[s]
        highs.passModel(_program(game, lo, hi, node[lo:hi], edge[lo:hi], worst))
        highs.run()
        info, solution = highs.getInfo(), highs.getSolution()
        play.n_iter[s] = max(info.simplex_iteration_count, 0) + max(info.ipm_iteration_count, 0)
        play.exhausted[s] = highs.getModelStatus() in (
            highspy.HighsModelStatus.kTimeLimit,
            highspy.HighsModelStatus.kIterationLimit,
        )
        n, k = hi - lo, game.scores.n_labels
        inner = np.flatnonzero(game.scores.batch.parent[lo:hi] >= 0)
        x, dual = np.asarray(solution.col_value), np.asarray(solution.row_dual)
        if len(x):
            play.r[lo:hi] = x[: n * k].reshape(n, k)
            play.q[lo + inner] = x[n * k : n * k + len(inner) * k * k].reshape(-1, k, k)
        if len(dual):
            # Where the weight is zero the multipliers are too; the caller makes that row uniform.
            play.p[lo:hi] = np.maximum(-dual[: n * k], 0.0).reshape(n, k)


def _program(
    game: Game, lo: int, hi: int, node: np.ndarray, edge: np.ndarray, worst: float
) -> highspy.HighsLp:
    """Columns: r (n k), Q of inner nodes (m k k), v (n). Rows: costs, margins, roots."""
    n, k = node.shape
    parent = game.scores.batch.parent[lo:hi]
    inner, roots = np.flatnonzero(parent >= 0), np.flatnonzero(parent < 0)
    m = len(inner)
    label = np.arange(k)
    r = np.arange(n * k).reshape(n, k)
    q = n * k + np.arange(m * k * k).reshape(m, k, k)
    v = n * k + m * k * k + np.arange(n)
    cost_row = np.arange(n * k).reshape(n, k)
    child_row = n * k + np.arange(m * k).reshape(m, k)
    parent_row = child_row + m * k
    root_row = n * k + 2 * m * k + np.arange(len(roots))
    shape = (n * k + 2 * m * k + len(roots), n * k + m * k * k + n)

    # Costs in [0, 1] and gains in units of the largest weight: HiGHS has absolute tolerances.
    size = np.ptp(game.cost)
    cost = (game.cost - game.cost.min()) / (size or 1.0)
    unit = game.weight[lo:hi].max() * size or -worst or 1.0
    blocks = [
        (cost_row, v[:, None], 1.0),
        (cost_row[:, :, None], r[:, None, :], -cost),
        (child_row[:, :, None], q, 1.0),
        (child_row, r[inner], -1.0),
        (parent_row[:, None, :], q, 1.0),
        (parent_row, r[parent[inner] - lo], -1.0),
        (root_row[:, None], r[np.ix_(roots, label)], 1.0),
    ]
    flat = [[part.ravel() for part in np.broadcast_arrays(*block)] for block in blocks]
    rows, columns, values = (np.concatenate(part) for part in zip(*flat, strict=True))
    matrix = sp.csc_array((values, (rows, columns)), shape=shape)
    matrix.eliminate_zeros()

    above = parent[inner] - lo
    pair = edge[inner] + node[above][:, None, :]
    at_root = np.where(parent[:, None] < 0, node, 0.0)
    gain = np.concatenate([at_root.ravel(), edge[inner].ravel(), game.weight[lo:hi] * size])
    total = np.concatenate([node.ravel(), pair.ravel(), np.zeros(n)])
    never = total < worst
    program = highspy.HighsLp()
    program.num_row_, program.num_col_ = shape
    program.sense_ = highspy.ObjSense.kMinimize
    program.col_cost_ = np.where(never, 0.0, -gain / unit)
    program.col_lower_ = np.concatenate([np.zeros(shape[1] - n), np.full(n, -np.inf)])
    program.col_upper_ = np.where(never, 0.0, np.inf)
    target = np.zeros(shape[0])
    target[root_row] = 1.0
    program.row_lower_ = np.where(np.arange(shape[0]) < n * k, -np.inf, target)
    program.row_upper_ = target
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_ = matrix.indptr
    program.a_matrix_.index_ = matrix.indices
    program.a_matrix_.value_ = matrix.data
    return program
