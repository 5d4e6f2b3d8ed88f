"""The paper's way to solve a game (Fathony et al. 2018, section 3.2); it trains by
optimizers/subgradient.py, which has the same names.

Prices u_i on the agreement of node i with its parent replace the constraint (Theorem 2), and every
node plays a game of its own (equation 7, with weights w_i):

    V = min over u   Σ_i  max over r_i   min over p_i    a_i(u)·r_i + w_i p_i' L r_i

    p_i, r_i    what predictor and adversary play on node i      L    cost [predicted, true]
    Q_i (`q`)   the adversary on node i and its parent           b, B    unary and pairwise scores
    a_i         max over the parent's label of  B_i + b_i − u_i + Σ over children k of u_k

The node games have closed forms (game/node_games.py); u follows a subgradient
(core/decomposition.c). As the function of u is not smooth, the r of the last u need not be near the
optimum, but averages over the steps are; Q* follows from them by optimal transport (equation 8,
core/transport.c). Beyond the paper: at any u, one max-product pass certifies the p of the node
games, and the repaired Q the r.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from robustruct.core.decomposition import (
    descend,
    message_sizes,
    recover_edges,
    start_messages,
)
from robustruct.core.games import augmented_unary
from robustruct.core.structs import Prices, StepRule
from robustruct.game.game import Game, Play, lower_bounds, upper_bounds
from robustruct.game.node_games import cost_form
from robustruct.game.solver import GameSolver, check_options, refuse_cycles
from robustruct.parallel import over_samples


@dataclass(frozen=True, kw_only=True)
class DualDecomposition(GameSolver):
    """Subgradient over messages with exact node games. Good for gaps of about 1e-2 to 1e-3."""

    max_iter: int = 5000
    """Steps on the messages."""
    step: Literal["polyak", "diminishing"] = "polyak"
    """"polyak": towards the best lower bound known, shortened whenever the gap stops shrinking;
    "diminishing": proportional to 1 / sqrt(t), needs no bound."""
    check_every: int = 50
    """Steps between two certificates."""
    name: ClassVar[str] = "dual_decomposition"

    def __post_init__(self) -> None:
        check_options(
            self,
            counts=("max_iter", "check_every"),
            step=("polyak", "diminishing"),
        )

    def refusal(self, game: Game) -> str | None:
        return refuse_cycles(game)

    def play(
        self, game: Game, tol: float, start: Play | None = None, n_jobs: int | None = -1
    ) -> Play:
        search = _PriceSearch(self, game, start, n_jobs)
        allowed = game.allowed_gap(tol)
        while True:
            search.active &= search.upper - search.lower > allowed
            if search.n_done >= self.max_iter or not search.active.any():
                return search.outcome()
            search.advance(min(self.check_every, self.max_iter - search.n_done))


class _PriceSearch:
    """Messages, averages and the best strategies so far, for all games of a batch."""

    def __init__(
        self, options: DualDecomposition, game: Game, start: Play | None, n_jobs: int | None
    ) -> None:
        self.options, self.game, self.n_jobs = options, game, n_jobs
        batch = game.scores.batch
        shape = (batch.n_nodes, game.scores.n_labels)
        self.form = cost_form(game.cost)
        self.sizes = np.diff(batch.node_offsets)
        self.q = np.zeros((*shape, shape[1]))
        if start is None:
            self.best_p, self.best_r = np.full(shape, 1.0 / shape[1]), np.zeros(shape)
        else:
            self.best_p, self.best_r, self.q[:] = start.p.copy(), start.r.copy(), start.q
        self.n_done = 0
        self.n_iter = np.zeros(batch.n_samples, np.intp)
        self.active = np.ones(batch.n_samples, bool)
        # Without a start the adversary begins with the best labelling, which is how repair fills q.
        opening = self._repaired(self.best_p, self.best_r, self.q)
        self.best_p, self.best_r = opening.p, opening.r
        self.lower, self.upper = opening.bounds(game, n_jobs)

        self.prices = Prices(
            u=np.zeros(shape),
            alive=np.zeros(shape, bool),
            size=np.empty(shape[0]),
            p=np.empty(shape),
            r=np.empty(shape),
            p_sum=np.zeros(shape),
            r_sum=np.zeros(shape),
            mass=np.zeros(batch.n_samples),
            p_best=self.best_p.copy(),
            g_best=np.full(batch.n_samples, np.inf),
        )
        augmented, scores = np.empty(shape), game.scores
        augmented_unary(game.arrays, self.best_p, augmented)
        worst, structure = -game.allowed_gap(1.0), batch.structure
        self._over(start_messages, structure, scores.arrays, augmented, worst, self.prices)
        self._over(message_sizes, structure, game.weight, self.prices.size)
        self.step = np.ones(batch.n_samples)
        total = np.add.reduceat(self.prices.size, batch.node_offsets[:-1])
        self.longest = np.ptp(game.cost) * np.sqrt(total)
        self.window_end = 2 * options.check_every
        self.window_gap = self.upper - self.lower

    def advance(self, n_steps: int) -> None:
        """Some steps on the messages of the active games, then a certificate."""
        prices, polyak = self.prices, self.options.step == "polyak"
        step = self.step if polyak else self._diminished()
        rule = StepRule(n_steps, polyak, step, self.longest, self.lower)
        self._over(descend, self.game.arrays, self.form, self.active, rule, prices)
        self.n_done += n_steps
        self.n_iter[self.active] = self.n_done
        mass = np.repeat(np.where(prices.mass > 0, prices.mass, 1.0), self.sizes)[:, None]
        for p in (prices.p_best, prices.p_sum / mass):
            upper = upper_bounds(self.game, p, self.n_jobs)
            better = self.active & (upper < self.upper)
            self.upper[better] = upper[better]
            self._keep(better, self.best_p, p)
        r = prices.r_sum / mass
        self._recover(r, self.active)
        average = self._repaired(self.best_p, r, self.q)
        lower = lower_bounds(self.game, average.r, average.q, self.n_jobs)
        better = self.active & (lower > self.lower)
        self.lower[better] = lower[better]
        self._keep(better, self.best_r, r)
        if self.n_done >= self.window_end:
            self._next_window()

    def _next_window(self) -> None:
        """Forget the averages, as early steps were far off; twice as many steps until next time."""
        gap = self.upper - self.lower
        # Steps that tend to zero, though not too fast, converge whatever the lower bound does.
        self.step[gap > 0.5 * self.window_gap] *= 0.9
        self.window_gap = gap
        self.window_end = 2 * self.n_done
        for total in (self.prices.p_sum, self.prices.r_sum, self.prices.mass):
            np.copyto(total, 0.0)

    def _diminished(self) -> np.ndarray:
        return self.longest / np.sqrt(1.0 + self.n_done)

    def outcome(self) -> Play:
        self._recover(self.best_r, np.ones_like(self.active))
        return Play(self.best_p, self.best_r, self.q, self.n_iter, self.active, self.options.name)

    def _recover(self, r: np.ndarray, active: np.ndarray) -> None:
        scores = self.game.scores
        self._over(recover_edges, scores.batch.structure, scores.arrays, active, r, self.q)

    def _repaired(self, p: np.ndarray, r: np.ndarray, q: np.ndarray) -> Play:
        """Feasible copies; forbidden pairs can leave the transport short of its margins."""
        play = Play(p.copy(), r.copy(), q.copy(), self.n_iter, self.active, self.options.name)
        play.repair(self.game, self.n_jobs)
        return play

    def _keep(self, chosen: np.ndarray, kept: np.ndarray, new: np.ndarray) -> None:
        nodes = np.repeat(chosen, self.sizes)
        kept[nodes] = new[nodes]

    def _over(self, kernel: Callable[..., None], *arguments: object) -> None:
        over_samples(kernel, self.game.scores.batch.node_offsets, self.n_jobs, *arguments)
