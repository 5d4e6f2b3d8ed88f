"""The smooth game: cost plus temperature times log loss.

    V_T(ψ) = max over q   min over p   Σ_i w_i p_i' L r_i(q) + <ψ, q> + T H(q)
           = min over p   T log Z((ψ + w L'p) / T)

Any p bounds V_T from above by one sum-product pass. The adversary that it finds, the Gibbs
distribution q of (ψ + w L'p) / T, bounds it from below, and the two bounds differ by what p gives
away against q: Σ_i w_i (p_i' L r_i − min_a (L r_i)_a). So p is improved until that is small, by
spectral projected gradients (Birgin, Martínez and Raydan 2000): a step along w L r, back to the
simplex, as long as the last change of the gradient suggests; a line search lets the value rise for
a moment. Distances are in a metric that knows how much each label's costs vary. Where that takes
many steps, as with low temperatures and neighbours that are tied strongly, accelerated projected
gradients go on, each game with steps and restarts of its own: they are slower at first and less
often stuck.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from robustruct.game.game import Game, Play
from robustruct.inference import NodeMarginals, marginals
from robustruct.scores import Scores

MOST_STEPS = 2300  # SPECTRAL of them, then 2000 accelerated ones, whose convergence is proved
SPECTRAL = 300
"""How many of them are spectral. Chains of 12 nodes and 6 labels, costs of four kinds, sum-product
passes to a gap of 1e-4 against those of accelerated steps alone: T = 3, neighbours free, 5 to 13
against 78 to 118; T = 0.3, neighbours tied by 3, 211 to 707 against 314 to 832."""
MEMORY = 5  # steps over which the value may rise
FIRST_CURVATURE = 0.25
"""Of the bound on the curvature that the costs give: a label's variance is at most 1/4."""
COLD = 0.05
"""Temperatures below this share of the cost's range begin at the equilibrium of T = 0."""


@dataclass(eq=False)
class _Answer:
    """The adversary's answer to a predictor p, in every game of a batch."""

    p: np.ndarray
    slope: np.ndarray
    """(N, m) w L r."""
    upper: np.ndarray
    """(S,) T log Z."""
    gap: np.ndarray
    """(S,) what p gives away."""
    r: np.ndarray

    def of(self, games: np.ndarray, nodes: np.ndarray) -> _Answer:
        """In some of the games, which have these nodes."""
        cut = self.p[nodes], self.slope[nodes], self.upper[games], self.gap[games], self.r[nodes]
        return _Answer(*cut)


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
) -> NodeMarginals:
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


def _answer(game: Game, p: np.ndarray, temperature: float, found: NodeMarginals) -> _Answer:
    starts = game.scores.batch.node_offsets[:-1]
    expected = found.nodes @ game.cost.T
    least = np.where(game.playable, expected, np.inf).min(axis=1)
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
    state: _Spectral | _Accelerated = _Spectral.begin(game, p, temperature, n_jobs)
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
        if step == SPECTRAL:
            state = _Accelerated.following(state, temperature)
        state.advance(temperature, n_jobs)
    p[batch.nodes_of(played[left])] = state.best_predictors(left)
    return p, n_iter, unsolved


def _start(game: Game, temperature: float, n_jobs: int | None) -> np.ndarray:
    allowed = game.playable
    spread = np.ptp(game.cost) * float(game.weight.max(initial=0.0))
    # When it is cold the predictor jumps between labels, and descents from an even one take long.
    if temperature >= COLD * spread:
        return allowed / allowed.sum(axis=1, keepdims=True)
    from robustruct.game.solve import solve_batch

    return solve_batch(game, tol=1e-6, n_jobs=n_jobs).p


@dataclass(eq=False)
class _State:
    """Where the games of a batch have got to."""

    game: Game
    best: _Answer
    """The last point."""

    def best_predictors(self, some: np.ndarray) -> np.ndarray:
        """The p of some of the games."""
        return self.best.p[self.game.scores.batch.nodes_of(some)]

    def part(self, some: np.ndarray) -> tuple[Game, np.ndarray]:
        """Some of the games, and their nodes."""
        batch, scores = self.game.scores.batch, self.game.scores
        nodes, slots = batch.nodes_of(some), batch.slots_of(some)
        part = Scores(
            batch.take(some), scores.unary[nodes].copy(), scores.tables, scores.table_of[slots]
        )
        return Game(part, self.game.cost, self.game.weight[nodes]), nodes

    def move(self, new: _Answer, games: np.ndarray) -> None:
        """To another point, where ``games`` (S,) says so."""
        old = self.best
        nodes = np.repeat(games, np.diff(self.game.scores.batch.node_offsets))[:, None]
        self.best = _Answer(
            np.where(nodes, new.p, old.p),
            np.where(nodes, new.slope, old.slope),
            np.where(games, new.upper, old.upper),
            np.where(games, new.gap, old.gap),
            np.where(nodes, new.r, old.r),
        )


@dataclass(eq=False)
class _Spectral(_State):
    """Spectral projected gradients for a batch of games."""

    metric: np.ndarray
    """(m,) at least the curvature that costs give to each label, whatever the adversary."""
    curvature: np.ndarray
    """(S,) what the last step has seen of it."""
    last: np.ndarray
    """(MEMORY, S) the last values."""
    n_steps: int = 0

    @classmethod
    def begin(cls, game: Game, p: np.ndarray, temperature: float, n_jobs: int | None) -> _Spectral:
        answer = _answer(game, p, temperature, gibbs(game, p, temperature, n_jobs))
        # What a row or a column has in common bends nothing.
        cost = game.cost - game.cost.mean(axis=0) - game.cost.mean(axis=1, keepdims=True)
        cost += game.cost.mean()
        bend = np.abs(cost @ cost.T).sum(axis=1)
        metric = np.maximum(bend, 1e-6 * bend.max()) + np.finfo(float).tiny
        curvature = np.full(len(answer.upper), FIRST_CURVATURE)
        return cls(game, answer, metric, curvature, np.tile(answer.upper, (MEMORY, 1)))

    def take(self, some: np.ndarray) -> _Spectral:
        """The same for some of the games."""
        game, nodes = self.part(some)
        rest = self.curvature[some], self.last[:, some], self.n_steps
        return _Spectral(game, self.best.of(some, nodes), self.metric, *rest)

    def advance(self, temperature: float, n_jobs: int | None) -> None:
        """One step of every game; a game whose step was too long stays, with a shorter one."""
        game, here, batch = self.game, self.best, self.game.scores.batch
        starts, sizes = batch.node_offsets[:-1], np.diff(batch.node_offsets)
        # Beside the metric, a node's curvature is its weight squared over T.
        bend = np.where(game.weight > 0, game.weight, 1.0) ** 2 / temperature
        length = 1.0 / (bend * np.repeat(self.curvature, sizes))
        towards = here.p - length[:, None] * here.slope / self.metric
        new_p = nearest_in_simplex(towards, game.playable, self.metric)
        new = _answer(game, new_p, temperature, gibbs(game, new_p, temperature, n_jobs))
        change = new_p - here.p
        foreseen = np.add.reduceat((change * here.slope).sum(axis=1), starts)
        bent = np.add.reduceat((change * new.slope).sum(axis=1), starts) - foreseen
        square = np.add.reduceat(bend * (change**2 @ self.metric), starts)
        # Armijo's rule, against the highest of the last values (Grippo et al. 1986).
        rounding = 1e-13 * (1.0 + np.abs(here.upper))
        falls = new.upper <= self.last.max(axis=0) + 1e-4 * foreseen + rounding
        # Barzilai and Borwein's curvature, kept from 0 and from where steps would vanish.
        seen = np.clip(bent / np.maximum(square, np.finfo(float).tiny), 1e-4, 1e4)
        self.curvature = np.where(falls, seen, 4.0 * self.curvature)
        self.move(new, falls)
        self.last[self.n_steps % MEMORY] = self.best.upper
        self.n_steps += 1


@dataclass(eq=False)
class _Accelerated(_State):
    """Accelerated projected gradients for a batch of games."""

    here: _Answer
    """Where the gradient is taken."""
    momentum: np.ndarray
    """(S,) the t of Nesterov's sequence."""
    length: np.ndarray
    """(S,) steps' lengths."""

    @classmethod
    def following(cls, other: _State, temperature: float) -> _Accelerated:
        """On from where other steps have got to."""
        game = other.game
        heaviest = np.maximum.reduceat(game.weight, game.scores.batch.node_offsets[:-1])
        bend = (heaviest * np.linalg.norm(game.cost, 2)) ** 2 / temperature
        length = np.divide(1.0, bend, out=np.ones_like(bend), where=bend > 0)
        return cls(game, other.best, other.best, np.ones(len(bend)), length)

    def take(self, some: np.ndarray) -> _Accelerated:
        """The same for some of the games."""
        game, nodes = self.part(some)
        both = self.best.of(some, nodes), self.here.of(some, nodes)
        return _Accelerated(game, *both, self.momentum[some], self.length[some])

    def advance(self, temperature: float, n_jobs: int | None) -> None:
        """One step of every game; a game whose step was too long stays, with a shorter one."""
        batch = self.game.scores.batch
        starts, sizes = batch.node_offsets[:-1], np.diff(batch.node_offsets)
        length = np.repeat(self.length, sizes)[:, None]
        allowed, even = self.game.playable, np.ones(len(self.game.cost))
        new_p = nearest_in_simplex(self.here.p - length * self.here.slope, allowed, even)
        new = _answer(self.game, new_p, temperature, gibbs(self.game, new_p, temperature, n_jobs))
        change = new_p - self.here.p
        square = np.add.reduceat((change**2).sum(axis=1), starts)
        slope = np.add.reduceat((change * self.here.slope).sum(axis=1), starts)
        rounding = 1e-13 * (1.0 + np.abs(self.here.upper))
        # The step was short enough if the quadratic bound holds that its length stands for.
        fits = new.upper <= self.here.upper + slope + square / (2 * self.length) + rounding
        worse = fits & (new.upper > self.best.upper + rounding)
        # Where momentum has carried too far it starts again (O'Donoghue and Candès 2015).
        t = np.where(worse, 1.0, self.momentum)
        after = np.where(fits & ~worse, (1 + np.sqrt(1 + 4 * t**2)) / 2, t)
        pull = np.where(fits & ~worse, (t - 1) / after, 0.0)
        moved = np.repeat(fits, sizes)[:, None]
        old_p = self.best.p
        self.move(new, fits & ~worse)
        ahead = self.best.p + np.repeat(pull, sizes)[:, None] * (self.best.p - old_p)
        ahead = np.where(moved, nearest_in_simplex(ahead, allowed, even), self.here.p)
        # Lengths begin at what the worst curvature allows; most games bend far less.
        self.momentum, self.length = after, np.where(fits, 1.1 * self.length, 0.5 * self.length)
        self.here = _answer(
            self.game, ahead, temperature, gibbs(self.game, ahead, temperature, n_jobs)
        )


def nearest_in_simplex(rows: np.ndarray, allowed: np.ndarray, metric: np.ndarray) -> np.ndarray:
    """The nearest distributions to rows (N, k), Σ_a metric_a (x_a - y_a)² being their distance.

    Labels that would be negative leave until none is.
    """
    inverse, active = 1.0 / metric, allowed
    while True:
        level = (np.where(active, rows, 0.0).sum(axis=1) - 1.0) / (active @ inverse)
        moved = rows - level[:, None] * inverse
        fewer = active & (moved > 0.0)
        if (fewer == active).all():
            break
        active = fewer
    found = np.where(active, moved, 0.0)
    return found / found.sum(axis=1, keepdims=True)
