"""The inner problem: values and strategies of the smooth and of the exact game.

    V_T(ψ) = min over p   T log Z((ψ + w L'p) / T)              T > 0

Spectral projected gradients (Birgin, Martinez and Raydan, 2000: Barzilai-Borwein steps, projection
on the simplex, a nonmonotone line search) find p, in a diagonal metric that bounds the curvature of
each label's costs. They stop when the regret of p against its adversary q, Σ_i w_i (p_i'L r_i -
min_a (L r_i)_a), is small: it bounds the distance to V_T. By the envelope theorem the gradient of
V_T is q.

Costs here are as users give them: rows true labels, columns predicted ones, so L is the transpose.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from robustruct.errors import InvalidInputError
from robustruct.torch.message_passing import (
    Beliefs,
    Forests,
    TensorStructure,
    parents_of,
    structure_of,
)

MEMORY = 5
"""Last values whose maximum a step must not exceed. 1 would be a monotone line search, which cuts
Barzilai-Borwein steps short."""
FIRST_CURVATURE = 0.25
"""First curvature, relative to the bound by the costs: the variance of a label is at most 1/4."""


@dataclass(frozen=True, eq=False)
class TensorScores:
    """TensorScores of a batch in working precision."""

    unary: Tensor
    """(B, n, k); 0 where there is no node."""
    pairwise: Tensor
    """(k, k) or (B, n, k, k), [label of the parent, label of the node]."""
    parents: Tensor | None
    """(B, n), or None for chains whose nodes come first."""
    alive: Tensor
    """(B, n) bool."""

    def structure(self) -> TensorStructure:
        """Return chains or forests, whichever is faster."""
        return structure_of(self.parents, self.alive, self.pairwise)

    def forests(self) -> Forests:
        """Return the samples as forests."""
        return Forests(parents_of(self.parents, self.alive), self.alive)


@dataclass(frozen=True, eq=False)
class Costs:
    """Costs of mistakes."""

    matrix: Tensor
    """(k, k), rows true labels, columns predicted ones."""
    weight: Tensor
    """(B, n); 0 where there is no node."""

    def margins(self, p: Tensor) -> Tensor:
        """(B, n, k) w L'p: expected cost of each of the adversary's labels."""
        return (p @ self.matrix.T) * self.weight[:, :, None]

    def answers(self, r: Tensor) -> Tensor:
        """(B, n, k) w L r: expected cost of each of the predictor's labels."""
        return (r @ self.matrix) * self.weight[:, :, None]

    def scale(self) -> Tensor:
        """(B,) the range of the cost."""
        return (self.matrix.max() - self.matrix.min()) * self.weight.sum(1)


def gibbs(
    scores: TensorScores, temperature: float, margin: Tensor | None = None, *, edges: bool = False
) -> Beliefs:
    """Return the distribution exp((ψ + margin) / T) / Z."""
    unary = scores.unary / temperature if margin is None else (scores.unary + margin) / temperature
    return scores.structure().sum_product(unary, scores.pairwise / temperature, edges=edges)


def possible_labels(scores: TensorScores) -> Tensor:
    """(B, n, k) bool, labels that occur in some labelling of finite score."""
    everything = torch.ones_like(scores.unary, dtype=torch.bool)
    if not bool(torch.isneginf(scores.unary).any() | torch.isneginf(scores.pairwise).any()):
        return everything
    unary, pairwise = (
        torch.where(torch.isneginf(values), -torch.inf, 0.0).to(values.dtype)
        for values in (scores.unary, scores.pairwise)
    )
    beliefs = scores.structure().sum_product(unary, pairwise)
    check_feasible(beliefs.log_partition)
    return (beliefs.nodes > 0) | ~scores.alive[:, :, None]


def check_feasible(values: Tensor) -> None:
    """Refuse values (B,) that are not finite: no labelling is allowed there."""
    wrong = ~torch.isfinite(values)
    if bool(wrong.any()):
        sample = int(torch.nonzero(wrong)[0])
        raise InvalidInputError(
            f"sample {sample}: no labelling of it keeps the rules, or its scores are not finite; "
            "allow at least one labelling.",
            sample=sample,
        )


# ------------------------------------------------------------------------------- the smooth game


def nearest_in_simplex(rows: Tensor, allowed: Tensor, metric: Tensor) -> Tensor:
    """Project rows (..., k) on the simplex in the norm Σ_a metric_a x_a².

    The active set shrinks by the labels that would be negative until none is.
    """
    inverse = metric.reciprocal()
    active = allowed
    for _ in range(rows.shape[-1]):
        sums = torch.where(active, rows, 0.0).sum(-1, keepdim=True)
        level = (sums - 1) / (active.to(rows.dtype) @ inverse)[..., None]
        fewer = active & (rows > level * inverse)
        if torch.equal(fewer, active):
            break
        active = fewer
    nearest = (rows - level * inverse).masked_fill_(~active, 0.0)
    # Sums are 1 up to rounding; make them exact.
    return nearest.div_(nearest.sum(-1, keepdim=True))


@dataclass(eq=False)
class _Point:
    """A predictor, with value and gradient of the game there."""

    p: Tensor
    value: Tensor
    """(B,) T log Z, an upper bound on V_T."""
    slope: Tensor
    """(B, n, k) gradient w L r."""
    gap: Tensor
    """(B,) regret of p."""

    def move(self, to: _Point, where: Tensor) -> None:
        """Replace this point by another in the samples ``where`` (B,)."""
        wide = where[:, None, None]
        torch.where(wide, to.p, self.p, out=self.p)
        torch.where(wide, to.slope, self.slope, out=self.slope)
        self.value = torch.where(where, to.value, self.value)
        self.gap = torch.where(where, to.gap, self.gap)


class SmoothGame:
    """Games of temperature T > 0, one per sample of a batch."""

    def __init__(self, scores: TensorScores, costs: Costs, temperature: float) -> None:
        self.scores, self.costs, self.temperature = scores, costs, temperature
        self.structure = scores.structure()
        self.allowed = possible_labels(scores)
        matrix = costs.matrix
        # Constants of rows and columns cancel, as strategies sum to 1.
        centred = matrix - matrix.mean(0) - matrix.mean(1, keepdim=True) + matrix.mean()
        bend = (centred.T @ centred).abs().sum(1)
        # A label whose costs do not vary would have curvature 0, and infinite steps.
        self.metric = bend.clamp_min(1e-6 * float(bend.max())) + torch.finfo(bend.dtype).tiny
        """(k,) diagonal upper bound on the curvature of the costs, for any adversary."""

    def adversary(self, p: Tensor, *, edges: bool = False) -> Beliefs:
        """Return the adversary's best answer to p."""
        unary = self.costs.margins(p).add_(self.scores.unary).div_(self.temperature)
        pairwise = self.scores.pairwise / self.temperature
        return self.structure.sum_product(unary, pairwise, edges=edges)

    def _point(self, p: Tensor) -> _Point:
        beliefs = self.adversary(p)
        slope = self.costs.answers(beliefs.nodes)
        least = slope.masked_fill(~self.allowed, torch.inf).amin(-1)
        gap = ((p * slope).sum(-1) - least).sum(-1)
        return _Point(p, self.temperature * beliefs.log_partition, slope, gap)

    def solve(self, tol: float, max_iter: int) -> Tensor:
        """(B, n, k) a predictor whose regret is at most ``tol`` times the range of the cost."""
        allowed = self.allowed
        here = self._point(allowed / allowed.sum(-1, keepdim=True, dtype=self.metric.dtype))
        check_feasible(here.value)
        weight = self.costs.weight[:, :, None]
        # Times the metric, a bound on the curvature.
        bend = torch.where(weight > 0, weight, 1.0) ** 2 / self.temperature
        curvature = torch.full_like(here.gap, FIRST_CURVATURE)
        highest = here.value.repeat(MEMORY, 1)
        allowance = tol * self.costs.scale()
        for step in range(max_iter):
            # Samples are independent; solved ones wait while the others go on.
            open_ = here.gap > allowance
            if not bool(open_.any()):
                break
            curvature = self._advance(here, open_, bend, curvature, highest.amax(0))
            highest[step % MEMORY] = here.value
        return here.p

    def _advance(
        self, here: _Point, open_: Tensor, bend: Tensor, curvature: Tensor, highest: Tensor
    ) -> Tensor:
        """Step in the ``open_`` samples where it is accepted; (B,) curvature for the next."""
        new = self._point(self._step(here, bend * curvature[:, None, None]))
        change = new.p - here.p
        foreseen = (change * here.slope).sum((1, 2))
        bent = (change * new.slope).sum((1, 2)) - foreseen
        length = (change.square_() @ self.metric * bend[:, :, 0]).sum(1)
        # Armijo's condition with the usual 1e-4, on the maximum of the last values.
        rounding = 1e-12 * new.value.abs()
        falls = new.value <= highest + 1e-4 * foreseen + rounding
        # Barzilai-Borwein curvature, with the usual safeguards against extreme steps.
        seen = (bent / length.clamp_min(torch.finfo(length.dtype).tiny)).clamp(1e-4, 1e4)
        here.move(new, falls & open_)
        # A rejected step is tried again at a quarter of its length.
        return torch.where(falls, seen, 4 * curvature)

    def _step(self, here: _Point, bend: Tensor) -> Tensor:
        """Return the projected gradient step of length 1 / bend (B, n, 1) in the metric."""
        towards = (here.slope / self.metric).div_(bend).neg_().add_(here.p)
        return nearest_in_simplex(towards, self.allowed, self.metric)


# ------------------------------------------------------------------------------- the exact game


@dataclass(frozen=True, eq=False)
class Equilibrium:
    """Equilibria of games of temperature 0."""

    value: Tensor
    """(B,) upper bound on the value, within the tolerance."""
    predictor: Tensor
    """(B, n, k)"""
    nodes: Tensor
    """(B, n, k) node marginals of the adversary."""
    edges: Tensor
    """Edge marginals of the adversary, in the shape of `Beliefs.edges`."""


def exact_game(scores: TensorScores, costs: Costs, tol: float) -> Equilibrium:
    """Solve the games by the compiled core, on the CPU."""
    from robustruct.game.game import Game
    from robustruct.game.solve import solutions, solve_batch
    from robustruct.graphs import Batch
    from robustruct.inference import without_impossible
    from robustruct.losses import predicted_first
    from robustruct.scores import Scores as BatchScores

    forests = scores.forests()
    like, k = scores.unary, scores.unary.shape[-1]
    possible_labels(scores)  # refuses samples without an allowed labelling
    living = forests.alive.cpu().numpy()
    above = forests.above.cpu().numpy()
    sizes = scores.alive.sum(1).cpu().numpy()
    place = np.cumsum(living) - 1  # index of each node among the living ones
    first = np.concatenate([[0], np.cumsum(sizes)])
    inner = np.flatnonzero(living & (above >= 0))
    pairs = np.stack([place[above[inner]], place[inner]], axis=1)
    owner = np.searchsorted(first, pairs[:, 1], side="right") - 1
    cuts = np.searchsorted(owner, np.arange(1, len(sizes)))
    edges = [part - first[s] for s, part in enumerate(np.split(pairs, cuts))]
    batch = Batch.build([(int(size), e) for size, e in zip(sizes, edges, strict=True)])
    pairwise = scores.pairwise.cpu().numpy().astype(float)
    if pairwise.ndim == 2:
        tables = np.broadcast_to(pairwise, (len(inner), k, k))
    else:
        tables = pairwise.reshape(-1, k, k)[inner]
    unary = like.reshape(-1, k).cpu().numpy().astype(float)[living]
    batch_scores = without_impossible(BatchScores.from_user(batch, unary, tables))
    weight = costs.weight.reshape(-1).cpu().numpy().astype(float)[living]
    matrix = predicted_first(costs.matrix.cpu().numpy().astype(float))
    game = Game(batch_scores, matrix, np.ascontiguousarray(batch.from_user(weight)))
    solved = solutions(game, solve_batch(game, tol=tol), tol)

    def spread(parts: list[np.ndarray], where: np.ndarray) -> Tensor:
        """Scatter values to rows ``where`` of zeros (N, ...)."""
        values = np.concatenate(parts)
        out = np.zeros((len(living), *values.shape[1:]))
        out[where] = values
        return torch.from_numpy(out).to(like)

    q = spread([solution.adversary_edges for solution in solved], inner)
    shape = like.shape
    if scores.pairwise.dim() == 2:
        by_sample = q.new_zeros((shape[0], k, k)).index_add_(0, forests.sample, q)
    else:
        by_sample = q.reshape(*shape[:2], k, k)
    return Equilibrium(
        torch.tensor([solution.upper for solution in solved]).to(like),
        spread([solution.predictor for solution in solved], np.flatnonzero(living)).reshape(shape),
        spread([solution.adversary_nodes for solution in solved], np.flatnonzero(living)).reshape(
            shape
        ),
        by_sample,
    )
