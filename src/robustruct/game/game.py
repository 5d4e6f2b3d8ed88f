"""The inner problem. For one sample with scores ψ, cost matrix L and node weights w,

    V(ψ) = max over q in M   min over p   Σ_i w_i p_i' L r_i(q)  +  <ψ, q>

p_i is the predictor's distribution on node i, over the labels that the adversary may play there:
what cannot occur is not predicted. q holds the adversary's node marginals r_i and edge
marginals, M the marginal polytope (local consistency is exact on a forest). Any p bounds V from
above by one max-product pass over unary_i + w_i L'p_i, any q from below by a minimum per node.
Whatever a solver did inside, what is reported are these bounds, recomputed from feasible p and q.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robustruct._lazy import cached_property
from robustruct.core.games import (
    add_chords,
    augmented_unary,
    game_lower,
    game_upper,
    make_feasible,
    normalise_predictors,
    sum_largest,
)
from robustruct.core.structs import GameArrays, Strategies
from robustruct.game.certified import certified, in_order, rounding_of
from robustruct.game.rectangular import padded, with_twins
from robustruct.inference import best_labelling, over_kinds
from robustruct.parallel import over_samples
from robustruct.scores import Scores


@dataclass(frozen=True, eq=False)
class Game:
    """A batch of games, one per sample of ``scores.batch``."""

    scores: Scores
    """A label that no allowed labelling has at a node scores -inf there by itself, and neither
    player plays it: see `without_impossible`."""
    cost: np.ndarray
    """(m, k) finite L of the equation, [predicted label, adversary's label]: the transpose of what
    users give. Rows behind the k labels are further actions of the predictor, open to it at every
    node; solvers and kernels take the `square` game."""
    weight: np.ndarray
    """(N,) non-negative node weights, in the order of the batch."""

    @cached_property
    def square(self) -> Game:
        """The same game with as many labels as actions; the game itself where there are."""
        if len(self.cost) == self.scores.n_labels:
            return self
        return Game(*with_twins(self.scores, self.cost), self.weight)

    @property
    def playable(self) -> np.ndarray:
        """(N, m) what the predictor may play."""
        labels: np.ndarray = self.scores.unary > -np.inf
        more = len(self.cost) - self.scores.n_labels
        return np.pad(labels, ((0, 0), (0, more)), constant_values=True) if more else labels

    @cached_property
    def arrays(self) -> GameArrays:
        """What the core takes."""
        return GameArrays(self.scores.batch.structure, self.scores.arrays, self.cost, self.weight)

    def scale(self) -> np.ndarray:
        """(S,) the range of the expected cost: what a gap is measured against."""
        return self._measures[1]

    def rounding(self) -> np.ndarray:
        """(S,) how far the bounds are off through rounding alone, as a rule."""
        return 1e-14 * self.sizes()

    def most_rounding(self) -> np.ndarray:
        """(S,) how far the bounds can be off through rounding alone, were it always one way."""
        b, k = self.scores.batch, self.scores.n_labels
        terms = 2 * k * b.node_offsets + k * k * b.edge_offsets
        return rounding_of(terms[1:] - terms[:-1], self.sizes())

    def sizes(self) -> np.ndarray:
        """(S,) the largest score and cost of every node and edge, added up."""
        return self._measures[0]

    @cached_property
    def _measures(self) -> tuple[np.ndarray, np.ndarray]:
        sizes, starts = np.empty(self.scores.batch.n_samples), self.scores.batch.node_offsets[:-1]
        sum_largest(self.square.arrays, sizes)
        return sizes, np.add.reduceat(self.weight, starts) * self.cost_range[1]

    @cached_property
    def cost_range(self) -> tuple[float, float]:
        """The least cost, and how much more the dearest is."""
        least = float(self.cost.min())
        return least, float(self.cost.max()) - least

    def allowed_gap(self, tol: float) -> np.ndarray:
        """(S,) the gap at which a game counts as solved: tol relative to the scale of the cost."""
        return tol * self.scale() + self.rounding()


@dataclass(eq=False)
class Play:
    """Strategies for a batch of games, in the order of the batch; feasible after ``repair``."""

    p: np.ndarray
    """(N, m) the predictor."""
    r: np.ndarray
    """(N, k) the adversary's node marginals."""
    q: np.ndarray
    """(slots, k, k) its edge marginals [child, parent]; zero where a slot holds no edge."""
    n_iter: np.ndarray
    """(S,) iterations spent on each game."""
    exhausted: np.ndarray
    """(S,) bool, True where the iterations ran out."""
    solver: str
    relaxed_bounds: tuple[np.ndarray, np.ndarray] | None = None
    """(S,) lower and upper bounds if q belongs to the relaxed game: they hold for that game."""
    feasible: bool = False
    """Whether ``repair`` has seen the strategies as they are."""
    certificate: tuple[np.ndarray, np.ndarray] | None = None
    """The bounds of the strategies as they are, once asked for; whoever changes these resets it."""

    @classmethod
    def empty(cls, game: Game, solver: str) -> Play:
        """Room for the strategies of a solver that writes them in place."""
        n, k = game.scores.unary.shape
        n_samples, n_slots = game.scores.batch.n_samples, game.scores.batch.n_slots
        p, r, q = np.zeros((n, k)), np.zeros((n, k)), np.zeros((n_slots, k, k))
        return cls(p, r, q, np.zeros(n_samples, np.intp), np.zeros(n_samples, bool), solver)

    @property
    def strategies(self) -> Strategies:
        """What the core takes."""
        return Strategies(self.p, self.r, self.q)

    def repair(self, game: Game, n_jobs: int | None = -1) -> None:
        """Make p, r and q feasible in place; a point that is already feasible does not move.

        With cycles, only p: which edge marginals are feasible is not known from edges alone, so a
        solver must return r and q of a distribution over labellings.
        """
        if self.feasible or self.relaxed_bounds is not None:
            return
        s, b = game.scores, game.scores.batch

        def forests(first: int, last: int) -> None:
            make_feasible(first, last, b.structure, s.arrays, self.strategies)

        def cliques(first: int, last: int) -> None:
            normalise_predictors(b.node_offsets[first], b.node_offsets[last], s.arrays, self.p)

        over_samples(over_kinds(b, forests, cliques), b.node_offsets, n_jobs)
        self.feasible = True

    def bounds(self, game: Game, n_jobs: int | None = -1) -> tuple[np.ndarray, np.ndarray]:
        """(S,) lower and (S,) upper bound on the value, valid because p and q are feasible."""
        if self.relaxed_bounds is not None:
            return self.relaxed_bounds
        if self.certificate is None:
            lower = lower_bounds(game, self.r, self.q, n_jobs)
            upper = upper_bounds(game, self.p, n_jobs)
            if not in_order(lower, upper):
                lower, upper = certified(lower, upper, game.most_rounding(), "game")
            self.certificate = lower, upper
        return self.certificate


def upper_bounds(game: Game, p: np.ndarray, n_jobs: int | None = -1) -> np.ndarray:
    """(S,) the most an adversary can make of each predictor p."""
    s, b = game.scores, game.scores.batch
    if game.square is not game:
        return upper_bounds(game.square, p, n_jobs)
    if b.n_chords:
        augmented = np.empty_like(s.unary)
        augmented_unary(game.arrays, p, augmented)
        return best_labelling(s.with_unary(augmented), n_jobs)[1]
    upper = np.empty(b.n_samples)
    over_samples(game_upper, b.node_offsets, n_jobs, game.arrays, p, upper)
    return upper


def lower_bounds(game: Game, r: np.ndarray, q: np.ndarray, n_jobs: int | None = -1) -> np.ndarray:
    """(S,) the least a predictor can be held to by each adversary (r, q)."""
    batch = game.scores.batch
    if game.square is not game:
        return lower_bounds(game.square, *padded(r, q, len(game.cost)), n_jobs)
    lower = np.empty(batch.n_samples)
    over_samples(game_lower, batch.node_offsets, n_jobs, game.arrays, r, q, lower)
    if batch.n_chords:
        add_chords(game.arrays, q, lower)
    return lower
