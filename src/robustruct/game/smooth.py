"""The smooth game: cost plus temperature times log loss.

    V_T(ψ) = max over q   min over p   Σ_i w_i p_i' L r_i(q) + <ψ, q> + T H(q)
           = min over p   T log Z((ψ + w L'p) / T)

Any p bounds V_T from above by one sum-product pass. The adversary that it finds, the Gibbs
distribution q of (ψ + w L'p) / T, bounds it from below, and the two bounds differ by what p gives
away against q: Σ_i w_i (p_i' L r_i − min_a (L r_i)_a). So p is improved by accelerated projected
gradients w L r, each game with steps and restarts of its own, until that is small.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from robustruct.game.game import Game, Play
from robustruct.inference import Marginals, marginals
from robustruct.scores import Scores

MOST_STEPS = 2000
COLD = 0.05
"""Temperatures below this share of the cost's range begin at the equilibrium of T = 0."""


@dataclass(eq=False)
class _Answer:
    """The adversary's answer to a predictor p, in every game of a batch."""

    p: np.ndarray
    slope: np.ndarray
    """(N, k) w L r."""
    upper: np.ndarray
    """(S,) T log Z."""
    gap: np.ndarray
    """(S,) what p gives away."""
    r: np.ndarray


def play_smooth(
    game: Game, temperature: float, tol: float = 1e-6, n_jobs: int | None = -1
) -> tuple[Play, np.ndarray, np.ndarray]:
    """(strategies, (S,) lower and (S,) upper bounds on V_T), with edge marginals."""
    p, n_iter, exhausted = _descend(game, temperature, tol, n_jobs)
    found = gibbs(game, p, temperature, n_jobs, edges=True)
    answer = _answer(game, p, temperature, found)
    assert found.edges is not None
    play = Play(p, found.nodes, found.edges, n_iter, exhausted, "smooth")
    return play, answer.upper - answer.gap, answer.upper


def gibbs(
    game: Game, p: np.ndarray, temperature: float, n_jobs: int | None, *, edges: bool = False
) -> Marginals:
    """The best adversary against p: the Gibbs distribution of (ψ + w L'p) / T."""
    augmented = game.scores.unary + game.weight[:, None] * (p @ game.cost)
    return marginals(
        at_temperature(game.scores, temperature, augmented), edges=edges, n_jobs=n_jobs
    )


def at_temperature(scores: Scores, temperature: float, unary: np.ndarray | None = None) -> Scores:
    """ψ / T, with other unary scores if given."""
    if temperature == 1.0 and unary is None:
        return scores
    unary = scores.unary if unary is None else unary
    return replace(scores, unary=unary / temperature, tables=scores.tables / temperature)


def _answer(game: Game, p: np.ndarray, temperature: float, found: Marginals) -> _Answer:
    starts = game.scores.batch.node_offsets[:-1]
    expected = found.nodes @ game.cost.T
    least = np.where(_allowed(game), expected, np.inf).min(axis=1)
    given = game.weight * ((p * expected).sum(axis=1) - least)
    return _Answer(
        p,
        game.weight[:, None] * expected,
        temperature * found.log_partition,
        np.maximum(np.add.reduceat(given, starts), 0.0),
        found.nodes,
    )


def _descend(
    game: Game, temperature: float, tol: float, n_jobs: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """((N, k) p, (S,) steps, (S,) whether they ran out)."""
    batch = game.scores.batch
    p = _start(game, temperature, n_jobs)
    allowed = game.allowed_gap(tol)
    n_iter, unsolved = np.zeros(batch.n_samples, np.intp), np.ones(batch.n_samples, bool)
    played = np.arange(batch.n_samples)  # solved ones among them: taking some out has its price
    state = _State.begin(game, p, temperature, n_jobs)
    for step in range(MOST_STEPS + 1):
        now = np.flatnonzero(unsolved[played] & (state.best.gap <= allowed[played]))
        p[batch.nodes_of(played[now])] = state.best_predictors(now)
        unsolved[played[now]] = False
        left = np.flatnonzero(unsolved[played])
        if len(left) == 0 or step == MOST_STEPS:
            break
        if len(left) < 0.7 * len(played):
            played, state = played[left], state.take(left)
        n_iter[unsolved] += 1
        state.advance(temperature, n_jobs)
    p[batch.nodes_of(played[left])] = state.best_predictors(left)
    return p, n_iter, unsolved


def _start(game: Game, temperature: float, n_jobs: int | None) -> np.ndarray:
    allowed = _allowed(game)
    spread = np.ptp(game.cost) * float(game.weight.max(initial=0.0))
    if temperature >= COLD * spread:
        return allowed / allowed.sum(axis=1, keepdims=True)
    from robustruct.game.solve import solve_batch

    return solve_batch(game, tol=1e-6, n_jobs=n_jobs).p


def _allowed(game: Game) -> np.ndarray:
    """(N, k) whether a label can occur: no other is played, by either."""
    return game.scores.unary > -np.inf


@dataclass(eq=False)
class _State:
    """Accelerated projected gradients for a batch of games."""

    game: Game
    here: _Answer
    """Where the gradient is taken."""
    best: _Answer
    """The last point."""
    momentum: np.ndarray
    """(S,) the t of Nesterov's sequence."""
    length: np.ndarray
    """(S,) steps' lengths."""

    @classmethod
    def begin(cls, game: Game, p: np.ndarray, temperature: float, n_jobs: int | None) -> _State:
        answer = _answer(game, p, temperature, gibbs(game, p, temperature, n_jobs))
        starts = game.scores.batch.node_offsets[:-1]
        heaviest = np.maximum.reduceat(game.weight, starts)
        bend = (heaviest * np.linalg.norm(game.cost, 2)) ** 2 / temperature
        length = np.divide(1.0, bend, out=np.ones_like(bend), where=bend > 0)
        return cls(game, answer, answer, np.ones(len(starts)), length)

    def best_predictors(self, some: np.ndarray) -> np.ndarray:
        """The p of some of the games."""
        return self.best.p[self.game.scores.batch.nodes_of(some)]

    def take(self, some: np.ndarray) -> _State:
        """The same for some of the games."""
        batch = self.game.scores.batch
        nodes, slots = batch.nodes_of(some), batch.slots_of(some)
        scores = self.game.scores
        part = Scores(
            batch.take(some), scores.unary[nodes].copy(), scores.tables, scores.table_of[slots]
        )
        game = Game(part, self.game.cost, self.game.weight[nodes])

        def cut(answer: _Answer) -> _Answer:
            return _Answer(
                answer.p[nodes], answer.slope[nodes], answer.upper[some], answer.gap[some],
                answer.r[nodes],
            )  # fmt: skip

        return _State(game, cut(self.here), cut(self.best), self.momentum[some], self.length[some])

    def advance(self, temperature: float, n_jobs: int | None) -> None:
        """One step of every game; a game whose step was too long stays, with a shorter one."""
        batch = self.game.scores.batch
        starts, sizes = batch.node_offsets[:-1], np.diff(batch.node_offsets)
        length = np.repeat(self.length, sizes)[:, None]
        allowed = _allowed(self.game)
        new_p = nearest_in_simplex(self.here.p - length * self.here.slope, allowed)
        new = _answer(self.game, new_p, temperature, gibbs(self.game, new_p, temperature, n_jobs))
        change = new_p - self.here.p
        square = np.add.reduceat((change**2).sum(axis=1), starts)
        slope = np.add.reduceat((change * self.here.slope).sum(axis=1), starts)
        rounding = 1e-13 * (1.0 + np.abs(self.here.upper))
        fits = new.upper <= self.here.upper + slope + square / (2 * self.length) + rounding
        worse = fits & (new.upper > self.best.upper + rounding)
        t = np.where(worse, 1.0, self.momentum)
        after = np.where(fits & ~worse, (1 + np.sqrt(1 + 4 * t**2)) / 2, t)
        pull = np.where(fits & ~worse, (t - 1) / after, 0.0)
        moved = np.repeat(fits, sizes)[:, None]
        old_p = self.best.p
        take = np.repeat(fits & ~worse, sizes)[:, None]
        self._set_best(new, fits & ~worse, take)
        ahead = self.best.p + np.repeat(pull, sizes)[:, None] * (self.best.p - old_p)
        ahead = np.where(moved, nearest_in_simplex(ahead, allowed), self.here.p)
        self.momentum, self.length = after, np.where(fits, 1.1 * self.length, 0.5 * self.length)
        self.here = _answer(
            self.game, ahead, temperature, gibbs(self.game, ahead, temperature, n_jobs)
        )

    def _set_best(self, new: _Answer, games: np.ndarray, nodes: np.ndarray) -> None:
        old = self.best
        self.best = _Answer(
            np.where(nodes, new.p, old.p),
            np.where(nodes, new.slope, old.slope),
            np.where(games, new.upper, old.upper),
            np.where(games, new.gap, old.gap),
            np.where(nodes, new.r, old.r),
        )


def nearest_in_simplex(rows: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Euclidean projection of every row onto the simplex of what is allowed in it."""
    k = rows.shape[1]
    largest = np.where(allowed, rows, -np.inf).max(axis=1, keepdims=True)
    rows = np.where(allowed, rows, largest - 2.0)  # by more than 1 below the largest, hence 0
    falling = -np.sort(-rows, axis=1)
    thresholds = (np.cumsum(falling, axis=1) - 1.0) / np.arange(1, k + 1)
    kept = np.count_nonzero(falling > thresholds, axis=1)
    threshold = thresholds[np.arange(len(rows)), kept - 1]
    found = np.maximum(rows - threshold[:, None], 0.0)
    return found / found.sum(axis=1, keepdims=True)
