"""The training losses as one custom operator of torch, whose gradient is q - truth.

Iterations inside are not differentiated: by the envelope theorem the gradient of V(ψ) is the
adversary's marginals at the solution. A custom operator, with a rule for shapes and one for
gradients, passes through ``torch.compile`` in one piece.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from robustruct.torch.game import Costs, SmoothGame, TensorScores, check_feasible, exact_game, gibbs
from robustruct.torch.message_passing import Beliefs, parents_of, working_dtype

EXACT_TOL = 1e-6
"""Tolerance of games at temperature 0, relative to the range of the cost: a subgradient
is as exact as the strategies are."""

Value = tuple[Tensor, Tensor, Tensor]
"""(B,) V(ψ), and gradients by unary (B, n, k) and pairwise scores (shape of `Beliefs.edges`)."""


# One function for each objective, with the same arguments; only the SSVM needs the tags here.


def _game(
    scores: TensorScores, costs: Costs, tags: Tensor, t: float, tol: float, steps: int
) -> Value:
    """AGM: the predictor plays an equilibrium."""
    if t == 0:
        equilibrium = exact_game(scores, costs, EXACT_TOL)
        return equilibrium.value, equilibrium.nodes, equilibrium.edges
    game = SmoothGame(scores, costs, t)
    return _value(t, game.adversary(game.solve(tol, steps), edges=True))


def _hinge(
    scores: TensorScores, costs: Costs, tags: Tensor, t: float, tol: float, steps: int
) -> Value:
    """SSVM: the predictor plays the truth."""
    margin = costs.matrix[tags] * costs.weight[:, :, None]
    if t > 0:
        return _value(t, gibbs(scores, t, margin, edges=True))
    labels, value = scores.forests().max_product(scores.unary + margin, scores.pairwise)
    nodes, edges = torch.zeros_like(scores.unary), _no_edges(scores)
    _add_labelling(scores, labels, 1.0, nodes, edges)
    return value, nodes, edges


def _likelihood(
    scores: TensorScores, costs: Costs, tags: Tensor, t: float, tol: float, steps: int
) -> Value:
    """CRF: costs are ignored."""
    return _value(t, gibbs(scores, t, edges=True))


def _value(t: float, beliefs: Beliefs) -> Value:
    assert beliefs.edges is not None
    return t * beliefs.log_partition, beliefs.nodes, beliefs.edges


_VALUES: dict[str, Callable[..., Value]] = {
    "game": _game,
    "hinge": _hinge,
    "likelihood": _likelihood,
}


def _no_edges(scores: TensorScores) -> Tensor:
    (n_samples, n, k), shared = scores.unary.shape, scores.pairwise.dim() == 2
    return scores.unary.new_zeros((n_samples, k, k) if shared else (n_samples, n, k, k))


def _add_labelling(
    scores: TensorScores, labels: Tensor, amount: float, nodes: Tensor, edges: Tensor
) -> Tensor:
    """Add ``amount`` to the nodes and edges of a labelling (B, n); return its scores (B,)."""
    (n_samples, n, k), alive = scores.unary.shape, scores.alive
    there = alive.to(nodes.dtype)
    index = labels[:, :, None]
    nodes.scatter_add_(2, index, amount * there[:, :, None])
    score = scores.unary.gather(2, index)[:, :, 0] * there
    if scores.parents is None:
        above = parents_of(None, alive)
    else:
        flat = scores.forests().above.reshape(n_samples, n)
        above = torch.where(flat >= 0, flat % max(n, 1), -1)
    joined = alive & (above >= 0)
    first = labels.gather(1, above.clamp_min(0))
    pair = first * k + labels
    there = joined.to(nodes.dtype)
    if scores.pairwise.dim() == 2:
        edges.view(n_samples, k * k).scatter_add_(1, pair, amount * there)
        tables = scores.pairwise.reshape(k * k)[pair]
    else:
        edges.view(n_samples, n, k * k).scatter_add_(
            2, pair[:, :, None], amount * there[:, :, None]
        )
        tables = scores.pairwise.reshape(n_samples, n, k * k).gather(2, pair[:, :, None])[:, :, 0]
    return (score + torch.where(joined, tables, 0.0)).sum(1)


@torch.library.custom_op("robustruct::structured_loss", mutates_args=())
def structured_loss(
    unary: Tensor,
    pairwise: Tensor,
    parents: Tensor | None,
    alive: Tensor,
    tags: Tensor,
    cost: Tensor,
    weight: Tensor,
    kind: str,
    temperature: float,
    tol: float,
    max_iter: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return V(ψ) - ψ(tags) (B,), and its gradients by unary and pairwise scores.

    ``kind`` names V: "game", "hinge" or "likelihood"; ``temperature`` is T, in units of the cost.
    """
    dtype, like = working_dtype(unary.device), _output_dtype(unary)
    scores = TensorScores(unary.to(dtype), pairwise.to(dtype), parents, alive)
    costs = Costs(cost.to(dtype), weight.to(dtype))
    value, nodes, edges = _VALUES[kind](scores, costs, tags, temperature, tol, max_iter)
    # Subtracts the truth from the marginals in place: they become the gradient.
    loss = value - _add_labelling(scores, tags, -1.0, nodes, edges)
    check_feasible(loss)
    return loss.to(like), nodes.to(like), edges.to(like)


def _output_dtype(unary: Tensor) -> torch.dtype:
    return torch.promote_types(unary.dtype, torch.float32)


@structured_loss.register_fake
def _(
    unary: Tensor, pairwise: Tensor, parents: Tensor | None, alive: Tensor, *_rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    (n_samples, n, k), dtype = unary.shape, _output_dtype(unary)
    edges = (n_samples, k, k) if pairwise.dim() == 2 else (n_samples, n, k, k)
    return (
        unary.new_empty((n_samples,), dtype=dtype),
        unary.new_empty((n_samples, n, k), dtype=dtype),
        unary.new_empty(edges, dtype=dtype),
    )


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    unary, pairwise, *_ = inputs
    _, nodes, edges = output
    ctx.save_for_backward(nodes, edges)
    ctx.shared, ctx.types = pairwise.dim() == 2, (unary.dtype, pairwise.dtype)


def _gradient(ctx: Any, by_loss: Tensor, by_nodes: Tensor, by_edges: Tensor) -> tuple[Any, ...]:
    # Gradients by the outputs nodes and edges are ignored: there is no second derivative.
    nodes, edges = ctx.saved_tensors
    unary = (by_loss[:, None, None] * nodes).to(ctx.types[0])
    if ctx.shared:
        pairwise = torch.tensordot(by_loss, edges, 1)
    else:
        pairwise = by_loss[:, None, None, None] * edges
    # The other nine arguments have no gradient.
    return unary, pairwise.to(ctx.types[1]), *[None] * 9


structured_loss.register_autograd(_gradient, setup_context=_keep)
