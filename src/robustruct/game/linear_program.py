"""The game as one sparse linear program per sample, solved by HiGHS: slow, exact, the reference.

Adversary (what is solved):      max Σ_i [ <B_i, Q_i> + w_i v_i ]   subject to
                                 Q_i agrees with the bucket of its parent, and with r_i,
                                 Σ Q_root = 1, v_i ≤ (L r_i)_a
Predictor (read off the duals):  the multipliers of v_i ≤ (L r_i)_a are w_i p_i.

Q_i are the marginals of the cliques of the junction tree (graphs/buckets.py), on a forest those of
the edges; a consistent set of them is a distribution over labellings.

Scores enter as regrets against the best labelling. A labelling worse by more than the whole range
of the cost is never played, so what is left has the size of the costs, however large the scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from robustruct.core.cliques import clique_regrets, clique_rows, consistent_marginals
from robustruct.core.structs import JunctionTrees
from robustruct.game.game import Game, Play
from robustruct.game.solver import GameSolver, check_options
from robustruct.inference import junction_trees

if TYPE_CHECKING:
    import highspy


@dataclass(frozen=True, kw_only=True)
class LinearProgram(GameSolver):
    """HiGHS on the clique marginals. Ignores warm starts; takes one thread."""

    method: str = "choose"
    """"simplex", "ipm" (interior point, then crossover) or "choose"."""
    time_limit: float = np.inf
    """Seconds per game."""
    name: ClassVar[str] = "linear_program"

    def __post_init__(self) -> None:
        check_options(self, limits=("time_limit",), method=("choose", "simplex", "ipm"))

    def play(
        self, game: Game, tol: float, start: Play | None = None, n_jobs: int | None = -1
    ) -> Play:
        play = Play.empty(game, self.name)
        self.play_some(game, np.arange(game.scores.batch.n_samples), play)
        return play

    def play_some(self, game: Game, samples: np.ndarray, play: Play) -> None:
        """Write the strategies of the given games into ``play``."""
        graph = junction_trees(game.scores)
        worst = -game.allowed_gap(1.0)
        for s in samples:
            self._play_one(game, s, graph, worst[s], play)

    def _play_one(self, game: Game, s: int, graph: JunctionTrees, worst: float, play: Play) -> None:
        import highspy  # takes long to load, and few games need it

        highs = highspy.Highs()
        highs.setOptionValue("output_flag", False)
        highs.setOptionValue("threads", 1)
        highs.setOptionValue("solver", self.method)
        highs.setOptionValue("time_limit", self.time_limit)
        highs.setOptionValue("primal_feasibility_tolerance", 1e-10)
        highs.setOptionValue("dual_feasibility_tolerance", 1e-10)
        lo, hi = game.scores.batch.node_offsets[s : s + 2]
        cliques = _Cliques(game, lo, hi, graph)
        highs.passModel(_program(game, lo, hi, cliques, worst))
        highs.run()
        info, solution = highs.getInfo(), highs.getSolution()
        play.n_iter[s] = max(info.simplex_iteration_count, 0) + max(info.ipm_iteration_count, 0)
        play.exhausted[s] = highs.getModelStatus() in (
            highspy.HighsModelStatus.kTimeLimit,
            highspy.HighsModelStatus.kIterationLimit,
        )
        n, k = hi - lo, game.scores.n_labels
        x, dual = np.array(solution.col_value), np.array(solution.row_dual)
        tables = x[: cliques.n_entries] if len(x) else np.zeros(cliques.n_entries)
        consistent_marginals(
            lo, hi, graph, k, cliques.start, cliques.regret, tables, play.r, play.q
        )
        if len(dual):
            # Where the weight is zero the multipliers are too; the caller makes that row uniform.
            play.p[lo:hi] = np.maximum(-dual[: n * k], 0.0).reshape(n, k)


class _Cliques:
    """Buckets of one sample: where their tables are, and what their entries lose."""

    def __init__(self, game: Game, lo: int, hi: int, graph: JunctionTrees) -> None:
        scores, k = game.scores, game.scores.n_labels
        sizes = game.scores.batch.buckets.sizes[lo:hi]
        self.n_entries = int((k ** (sizes + 1)).sum())
        self.start = np.empty(hi - lo + 1, np.intp)
        self.regret, self.total = np.empty(self.n_entries), np.empty(self.n_entries)
        clique_regrets(lo, hi, graph, scores.arrays, self.start, self.regret, self.total)
        above = game.scores.batch.buckets.offsets[lo:hi][sizes > 0]
        parents = game.scores.batch.buckets.members[above] - lo
        room = (hi - lo) * k + 2 * self.n_entries + int((k ** (sizes[parents] + 1)).sum())
        self.rows, self.columns = np.empty(room, np.intp), np.empty(room, np.intp)
        self.values = np.empty(room)
        used = clique_rows(lo, hi, graph, k, self.start, self.rows, self.columns, self.values)
        assert used == room
        self.roots = self.start[:-1][sizes == 0]
        """Rows, among those of message entries, that hold the total of a bucket."""


def _program(game: Game, lo: int, hi: int, cliques: _Cliques, worst: float) -> highspy.HighsLp:
    """Columns: tables, r (n k), v (n). Rows: costs (n k), then those of the cliques."""
    import highspy
    import scipy.sparse as sp

    n, k, n_entries = hi - lo, game.scores.n_labels, cliques.n_entries
    r = n_entries + np.arange(n * k).reshape(n, k)
    v = n_entries + n * k + np.arange(n)
    cost_row = np.arange(n * k).reshape(n, k)
    shape = (2 * n * k + int(cliques.start[-1]), n_entries + n * k + n)

    # Costs in [0, 1] and gains in units of the largest weight: HiGHS has absolute tolerances.
    size = np.ptp(game.cost)
    cost = (game.cost - game.cost.min()) / (size or 1.0)
    unit = game.weight[lo:hi].max() * size or -worst or 1.0
    blocks = [
        (cost_row, v[:, None], 1.0),
        (cost_row[:, :, None], r[:, None, :], -cost),
        (n * k + cliques.rows, cliques.columns, cliques.values),
    ]
    flat = [[part.ravel() for part in np.broadcast_arrays(*block)] for block in blocks]
    rows, columns, values = (np.concatenate(part) for part in zip(*flat, strict=True))
    matrix = sp.csc_array((values, (rows, columns)), shape=shape)
    matrix.eliminate_zeros()

    gain = np.concatenate([cliques.regret, np.zeros(n * k), game.weight[lo:hi] * size])
    never = np.concatenate([cliques.total < worst, np.zeros(n * k + n, bool)])
    program = highspy.HighsLp()
    program.num_row_, program.num_col_ = shape
    program.sense_ = highspy.ObjSense.kMinimize
    program.col_cost_ = np.where(never, 0.0, -gain / unit)
    program.col_lower_ = np.concatenate([np.zeros(shape[1] - n), np.full(n, -np.inf)])
    program.col_upper_ = np.where(never, 0.0, np.inf)
    target = np.zeros(shape[0])
    target[2 * n * k + cliques.roots] = 1.0
    program.row_lower_ = np.where(np.arange(shape[0]) < n * k, -np.inf, target)
    # What the predictor may not answer with bounds nothing.
    barred = np.flatnonzero(np.isneginf(game.scores.unary[lo:hi]).ravel())
    target[barred] = np.inf
    program.row_upper_ = target
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_ = matrix.indptr
    program.a_matrix_.index_ = matrix.indices
    program.a_matrix_.value_ = matrix.data
    return program
