"""The game as one sparse linear program per sample, solved by HiGHS: slow, exact, the reference.

Adversary (what is solved):      max Σ_i [ <B_i, Q_i> + w_i v_i ]   subject to
                                 Q_i agrees with the bucket of its parent, and with r_i,
                                 Σ Q_root = 1, v_i ≤ (L r_i)_a
Predictor (read off the duals):  the multipliers of v_i ≤ (L r_i)_a are w_i p_i.

Q_i are the marginals of the cliques of the junction tree (graphs/elimination.py), on a forest those
of the edges; a consistent set of them is a distribution over labellings.

Scores enter as regrets against the best labelling. A labelling worse by more than the whole range
of the cost is never played, so what is left has the size of the costs, however large the scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from robustruct.core.cliques import clique_regrets, clique_rows, consistent_marginals
from robustruct.core.structs import JunctionTrees
from robustruct.game.game import Game, Play
from robustruct.game.solver import GameSolver, check_options
from robustruct.inference import junction_trees

# What HiGHS may violate rows and reduced costs by: the tightest that it takes, and its default,
# for programs that it cannot solve so tightly. (SciPy gives no answer that is not optimal.)
TOLERANCES = (1e-10, 1e-7)


@dataclass(frozen=True, kw_only=True)
class LinearProgram(GameSolver):
    """HiGHS, as SciPy has it, on the clique marginals. Ignores warm starts; takes one thread."""

    time_limit: float = np.inf
    """Seconds per game."""
    name: ClassVar[str] = "linear_program"

    def __post_init__(self) -> None:
        check_options(self, limits=("time_limit",))

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
        from scipy.optimize import linprog  # takes long to load, and few games need it

        lo, hi = game.scores.batch.node_offsets[s : s + 2]
        n, k = hi - lo, game.scores.n_labels
        cliques = _Cliques(game, lo, hi, graph)
        # A label that the predictor may not play bounds nothing.
        playable = ~np.isneginf(game.scores.unary[lo:hi])
        program = _program(game, lo, hi, cliques, worst, playable.ravel())
        options: Any = {} if np.isinf(self.time_limit) else {"time_limit": self.time_limit}
        for tolerance in TOLERANCES:
            options |= {f"{side}_feasibility_tolerance": tolerance for side in ("primal", "dual")}
            result = linprog(**program, options=options)
            play.n_iter[s] += max(result.nit, 0)
            play.exhausted[s] = result.status == 1
            if result.status in (0, 1):  # optimal, or out of time
                break
        # Out of time there may be no point: tables of zeros then become the best labelling.
        solved = result.x is not None
        tables = result.x[: cliques.n_entries] if solved else np.zeros(cliques.n_entries)
        consistent_marginals(
            lo, hi, graph, k, cliques.start, cliques.regret, tables, play.r, play.q
        )
        if solved:
            # Where the weight is zero the multipliers are too; the caller makes that row uniform.
            p = np.zeros((n, k))
            p[playable] = np.maximum(-result.ineqlin.marginals, 0.0)
            play.p[lo:hi] = p


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


def _program(
    game: Game, lo: int, hi: int, cliques: _Cliques, worst: float, playable: np.ndarray
) -> dict[str, Any]:
    """Arguments of ``linprog``.

    Columns: tables, r (n k), v (n). Rows of A_ub: costs of playable labels; of A_eq: the cliques'.
    """
    import scipy.sparse as sp

    n, k, n_entries = hi - lo, game.scores.n_labels, cliques.n_entries
    n_columns = n_entries + n * k + n
    # Costs in [0, 1] and gains in units of the largest weight: HiGHS has absolute tolerances.
    size = np.ptp(game.cost)
    cost = (game.cost - game.cost.min()) / (size or 1.0)
    unit = game.weight[lo:hi].max() * size or -worst or 1.0
    one = sp.eye_array(n)
    costs = sp.hstack(
        [sp.csr_array((n * k, n_entries)), -sp.kron(one, cost), sp.kron(one, np.ones((k, 1)))],
        format="csr",
    )
    agreement = sp.csr_array(
        (cliques.values, (cliques.rows, cliques.columns)),
        shape=(n * k + int(cliques.start[-1]), n_columns),
    )
    total = np.zeros(agreement.shape[0])
    total[n * k + cliques.roots] = 1.0
    gain = np.concatenate([cliques.regret, np.zeros(n * k), game.weight[lo:hi] * size])
    # Entries of labellings that lose more than any cost could win back: fewer for HiGHS to price.
    never = np.concatenate([cliques.total < worst, np.zeros(n * k + n, bool)])
    lower = np.concatenate([np.zeros(n_columns - n), np.full(n, -np.inf)])
    return {
        "c": np.where(never, 0.0, -gain / unit),
        "A_ub": costs[playable],
        "b_ub": np.zeros(playable.sum()),
        "A_eq": agreement,
        "b_eq": total,
        "bounds": np.column_stack([lower, np.where(never, 0.0, np.inf)]),
    }
