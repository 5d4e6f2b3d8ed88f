"""Smooth games on the local polytope, for graphs too wide to be solved exactly.

    V(ψ) = max over r, q   min over p   Σ_i w_i p_i' L r_i + <ψ, (r, q)> + T H(r, q)
    H = mean over spanning forests F of [ Σ_i H(r_i) − Σ_{e in F} I(q_e) ]

r and q need only agree on every edge. H is concave, at least the entropy of any distribution that
has these marginals, and equal to it on a forest: so V is at least the value of the exact game, and
with L = 0 at least T log Z(ψ / T). The upper bound holds for both games, the lower bound for the
relaxed one only. How both are found: core/reweighted.c.
"""

from __future__ import annotations

import numpy as np

from robustruct.core.reweighted import solve_reweighted
from robustruct.core.structs import FREE, NOBODY, Effort, RelaxedGibbs, SmoothGames, SmoothSettings
from robustruct.game.certified import certified
from robustruct.game.game import Game, Play
from robustruct.parallel import over_samples
from robustruct.scores import Scores

MOST_SWEEPS = 2000
SWEEPS = 4  # between bounds, which take as long as one or two of them
MARGINALS_TOL = 1e-6  # gap per node, in units of T: marginals are then right to about 1e-3


def first_point(game: Game) -> RelaxedGibbs:
    """Return where to begin: predictors that are uniform on their labels, no multipliers."""
    (n, k), batch = game.scores.unary.shape, game.scores.batch
    p = game.playable / np.maximum(game.playable.sum(axis=1, keepdims=True), 1)
    multipliers = np.zeros((batch.spanning_forests.rows[-1], k))
    return RelaxedGibbs(p, np.zeros((n, k)), np.zeros((batch.n_slots, k, k)), multipliers)


def improve(
    game: Game,
    temperature: float,
    allowed: np.ndarray,
    point: RelaxedGibbs,
    n_jobs: int | None,
    max_iter: int = MOST_SWEEPS,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Improve the point in place until gaps are ``allowed`` (S,).

    Returns lower bounds, upper bounds, and how many sweeps over a sample's nodes it took. Without
    costs, or with one answer only, p stays as it is.
    """
    batch = game.scores.batch
    lower, upper = np.empty(batch.n_samples), np.empty(batch.n_samples)
    n_iter, exhausted = np.zeros(batch.n_samples, np.intp), np.zeros(batch.n_samples, bool)
    effort = Effort(allowed, max_iter, SWEEPS, n_iter, exhausted)
    settings = SmoothSettings(float(temperature), 0.0, FREE if np.ptp(game.cost) > 0 else NOBODY)
    forests = batch.spanning_forests
    games = SmoothGames(batch.structure, game.scores.arrays, game.cost, game.weight)
    over_samples(
        lambda first, last: solve_reweighted(
            first, last, games, forests, settings, effort, point, lower, upper
        ),
        batch.node_offsets,
        n_jobs,
    )
    # Scores are divided by the share of forests that an edge is in, and enter all of these.
    copies = np.diff(forests.rows) / np.diff(batch.node_offsets)
    size = temperature * np.diff(batch.node_offsets) * np.log(game.scores.n_labels + 1.0)
    rounding = copies * (game.most_rounding() + 1e-12 * size)
    lower, upper = certified(lower, upper, rounding, "relaxed smooth game")
    return lower, upper, n_iter


def play_relaxed_smooth(
    game: Game, temperature: float, tol: float, n_jobs: int | None = -1
) -> tuple[Play, np.ndarray, np.ndarray]:
    """(strategies, (S,) lower and (S,) upper bounds on V); see `play_smooth`."""
    point, allowed = first_point(game), game.allowed_gap(tol)
    if np.ptp(game.cost) == 0:  # no range to measure a gap against
        allowed = tol * temperature * np.diff(game.scores.batch.node_offsets) + game.rounding()
    lower, upper, n_iter = improve(game, temperature, allowed, point, n_jobs)
    play = Play(point.p, point.r, point.q, n_iter, upper - lower > allowed, "relaxed")
    play.relaxed_bounds = lower, upper
    return play, lower, upper


def relaxed_marginals(scores: Scores, n_jobs: int | None = -1) -> np.ndarray:
    """(N, k) node marginals of the relaxed Gibbs distribution of the scores, T = 1."""
    game = Game(scores, np.zeros((scores.n_labels,) * 2), np.zeros(scores.batch.n_nodes))
    play, _, _ = play_relaxed_smooth(game, 1.0, MARGINALS_TOL, n_jobs)
    return play.r
