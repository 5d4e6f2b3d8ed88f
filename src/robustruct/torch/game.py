"""The inner problem: values of the smooth game, of hinges and likelihoods, and of the exact game.

    V_T(ψ) = min over p   T log Z((ψ + w L'p) / T)              T > 0

p is improved by spectral projected gradients (a step of the length that the last change of the
gradient suggests, back to the simplex, and a line search that lets the value rise for a moment) in
a diagonal metric that knows how much each label's costs vary. It is good enough when what p gives
away against the adversary q that it meets, Σ_i w_i (p_i'L r_i - min_a (L r_i)_a), is small: that
bounds the distance to V_T. By the envelope theorem the gradient of V_T is q.

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
"""Steps over which the value may rise."""
FIRST_CURVATURE = 0.25
"""Of the bound on the curvature that the costs give: a label's variance is at most 1/4."""


@dataclass(frozen=True, eq=False)
class TensorScores:
    """A batch of samples in the numbers that are computed with."""

    unary: Tensor
    """(B, n, k); 0 where there is no node."""
    pairwise: Tensor
    """(k, k) or (B, n, k, k), [label of the parent, label of the node]."""
    parents: Tensor | None
    """(B, n), or None for chains whose nodes are at the front."""
    alive: Tensor
    """(B, n) bool."""

    def structure(self) -> TensorStructure:
        """The forests with their tables of pairs."""
        return structure_of(self.parents, self.alive, self.pairwise)

    def forests(self) -> Forests:
        """The forests alone."""
        return Forests(parents_of(self.parents, self.alive), self.alive)


@dataclass(frozen=True, eq=False)
class Costs:
    """What mistakes cost."""

    matrix: Tensor
    """(k, k), rows true labels, columns predicted ones."""
    weight: Tensor
    """(B, n); 0 where there is no node."""

    def tilt(self, p: Tensor) -> Tensor:
        """(B, n, k) w L'p: what each of the adversary's labels costs the predictor."""
        return (p @ self.matrix.T) * self.weight[:, :, None]

    def answers(self, r: Tensor) -> Tensor:
        """(B, n, k) w L r: what each of the predictor's labels costs."""
        return (r @ self.matrix) * self.weight[:, :, None]

    def scale(self) -> Tensor:
        """(B,) the range of the cost."""
        return (self.matrix.max() - self.matrix.min()) * self.weight.sum(1)


def gibbs(
    scores: TensorScores, temperature: float, tilt: Tensor | None = None, *, edges: bool = False
) -> Beliefs:
    """The distribution exp((ψ + tilt) / T) / Z."""
    unary = scores.unary / temperature if tilt is None else (scores.unary + tilt) / temperature
    return scores.structure().sum_product(unary, scores.pairwise / temperature, edges=edges)


def possible_labels(scores: TensorScores) -> Tensor:
    """(B, n, k) bool, the labels that some labelling has without a score of -inf."""
    everything = torch.ones_like(scores.unary, dtype=torch.bool)
    if not bool(torch.isneginf(scores.unary).any() | torch.isneginf(scores.pairwise).any()):
        return everything
    unary, pairwise = (
        torch.where(torch.isneginf(values), -torch.inf, 0.0).to(values.dtype)
        for values in (scores.unary, scores.pairwise)
    )
    found = scores.structure().sum_product(unary, pairwise)
    check_feasible(found.log_partition)
    return (found.nodes > 0) | ~scores.alive[:, :, None]


def check_feasible(values: Tensor) -> None:
    """(B,) values must be finite: where no labelling is allowed they are not."""
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
    """The nearest distributions to rows (..., k), Σ_a metric_a (x_a - y_a)² being their distance.

    Labels that would be negative leave until none is.
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
    found = (rows - level * inverse).masked_fill_(~active, 0.0)
    return found.div_(found.sum(-1, keepdim=True))


@dataclass(eq=False)
class _Point:
    """A predictor, and the adversary's answer to it."""

    p: Tensor
    value: Tensor
    """(B,) T log Z, an upper bound on V_T."""
    slope: Tensor
    """(B, n, k) w L r."""
    gap: Tensor
    """(B,) what p gives away."""

    def move(self, to: _Point, where: Tensor) -> None:
        """To the other point, in some samples (B,)."""
        wide = where[:, None, None]
        torch.where(wide, to.p, self.p, out=self.p)
        torch.where(wide, to.slope, self.slope, out=self.slope)
        self.value = torch.where(where, to.value, self.value)
        self.gap = torch.where(where, to.gap, self.gap)


class SmoothGame:
    """The game of temperature T > 0 in every sample of a batch."""

    def __init__(self, scores: TensorScores, costs: Costs, temperature: float) -> None:
        self.scores, self.costs, self.temperature = scores, costs, temperature
        self.structure = scores.structure()
        self.allowed = possible_labels(scores)
        matrix = costs.matrix
        centred = matrix - matrix.mean(0) - matrix.mean(1, keepdim=True) + matrix.mean()
        bend = (centred.T @ centred).abs().sum(1)
        self.metric = bend.clamp_min(1e-6 * float(bend.max())) + torch.finfo(bend.dtype).tiny
        """(k,) at least the curvature that costs give to each label, whatever the adversary."""

    def adversary(self, p: Tensor, *, edges: bool = False) -> Beliefs:
        """The best answer to p."""
        unary = self.costs.tilt(p).add_(self.scores.unary).div_(self.temperature)
        pairwise = self.scores.pairwise / self.temperature
        return self.structure.sum_product(unary, pairwise, edges=edges)

    def _point(self, p: Tensor) -> _Point:
        beliefs = self.adversary(p)
        slope = self.costs.answers(beliefs.nodes)
        least = slope.masked_fill(~self.allowed, torch.inf).amin(-1)
        gap = ((p * slope).sum(-1) - least).sum(-1)
        return _Point(p, self.temperature * beliefs.log_partition, slope, gap)

    def solve(self, tol: float, max_iter: int) -> Tensor:
        """(B, n, k) a predictor whose gap is at most ``tol`` of the range of the cost."""
        allowed = self.allowed
        here = self._point(allowed / allowed.sum(-1, keepdim=True, dtype=self.metric.dtype))
        check_feasible(here.value)
        weight = self.costs.weight[:, :, None]
        bend = torch.where(weight > 0, weight, 1.0) ** 2 / self.temperature  # beside the metric's
        curvature = torch.full_like(here.gap, FIRST_CURVATURE)
        highest = here.value.repeat(MEMORY, 1)
        allowance = tol * self.costs.scale()
        for step in range(max_iter):
            open_ = here.gap > allowance
            if not bool(open_.any()):
                break
            curvature = self._advance(here, open_, bend, curvature, highest.amax(0))
            highest[step % MEMORY] = here.value
        return here.p

    def _advance(
        self, here: _Point, open_: Tensor, bend: Tensor, curvature: Tensor, highest: Tensor
    ) -> Tensor:
        """Move where the value falls, in samples that are ``open_``; (B,) the curvature seen."""
        new = self._point(self._step(here, bend * curvature[:, None, None]))
        change = new.p - here.p
        foreseen = (change * here.slope).sum((1, 2))
        bent = (change * new.slope).sum((1, 2)) - foreseen
        length = (change.square_() @ self.metric * bend[:, :, 0]).sum(1)
        rounding = 1e-12 * new.value.abs()
        falls = new.value <= highest + 1e-4 * foreseen + rounding
        seen = (bent / length.clamp_min(torch.finfo(length.dtype).tiny)).clamp(1e-4, 1e4)
        here.move(new, falls & open_)
        return torch.where(falls, seen, 4 * curvature)

    def _step(self, here: _Point, bend: Tensor) -> Tensor:
        """Where a step leads by the slope and by how much (B, n, 1) the value bends."""
        towards = (here.slope / self.metric).div_(bend).neg_().add_(here.p)
        return nearest_in_simplex(towards, self.allowed, self.metric)


# ------------------------------------------------------------------------------- the exact game


@dataclass(frozen=True, eq=False)
class Equilibrium:
    """Of the games of temperature 0."""

    value: Tensor
    """(B,)"""
    predictor: Tensor
    """(B, n, k)"""
    nodes: Tensor
    """(B, n, k) the adversary."""
    edges: Tensor
    """As of `Beliefs`."""


def exact_game(scores: TensorScores, costs: Costs, tol: float) -> Equilibrium:
    """The equilibria that compiled code finds, on the CPU."""
    from robustruct.game.game import Game
    from robustruct.game.solve import solutions, solve_batch
    from robustruct.graphs import Batch
    from robustruct.inference import without_impossible
    from robustruct.losses import predicted_first
    from robustruct.scores import Scores as BatchScores

    forests = scores.forests()
    like, k = scores.unary, scores.unary.shape[-1]
    possible_labels(scores)  # that there is some
    kept = forests.alive.cpu().numpy()
    above = forests.above.cpu().numpy()
    sizes = scores.alive.sum(1).cpu().numpy()
    place = np.cumsum(kept) - 1  # of each node among those that there are
    first = np.concatenate([[0], np.cumsum(sizes)])
    inner = np.flatnonzero(kept & (above >= 0))
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
    unary = like.reshape(-1, k).cpu().numpy().astype(float)[kept]
    found = without_impossible(BatchScores.from_user(batch, unary, tables))
    weight = costs.weight.reshape(-1).cpu().numpy().astype(float)[kept]
    matrix = predicted_first(costs.matrix.cpu().numpy().astype(float))
    game = Game(found, matrix, np.ascontiguousarray(batch.from_user(weight)))
    solved = solutions(game, solve_batch(game, tol=tol), tol)

    def spread(parts: list[np.ndarray], where: np.ndarray) -> Tensor:
        """(N, ...) with zeros elsewhere."""
        values = np.concatenate(parts)
        out = np.zeros((len(kept), *values.shape[1:]))
        out[where] = values
        return torch.from_numpy(out).to(like)

    q = spread([one.adversary_edges for one in solved], inner)
    shape = like.shape
    if scores.pairwise.dim() == 2:
        by_sample = q.new_zeros((shape[0], k, k)).index_add_(0, forests.sample, q)
    else:
        by_sample = q.reshape(*shape[:2], k, k)
    return Equilibrium(
        torch.tensor([one.upper for one in solved]).to(like),
        spread([one.predictor for one in solved], np.flatnonzero(kept)).reshape(shape),
        spread([one.adversary_nodes for one in solved], np.flatnonzero(kept)).reshape(shape),
        by_sample,
    )
