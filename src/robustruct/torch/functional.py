"""Losses of structured predictors for chains, trees and batches of graphs without cycles.

All take the same arguments:

unary : Tensor of shape (B, n, k)
    Score of each tag of each node.
pairwise : Tensor of shape (k, k) or (B, n, k, k)
    Score of [tag of the parent, tag of the node]: one table for all edges, or that of the edge into
    each node (of roots it has no meaning).
parents : Tensor of shape (B, n) or (n,), or None
    Index of each node's parent, -1 at roots; None for chains, where it is the node before.
tags : Tensor of shape (B, n)
    The true tags.
cost : "hamming", "absolute", "squared" or (k, k) matrix
    What a mistake costs; rows are true tags, columns predicted ones.
node_weight : Tensor of shape (B, n), optional
    Weight of each node's cost; 1 by default.
mask : bool Tensor of shape (B, n), optional
    False where there is no node. The rest of a chain is a chain; children of a masked node of a
    tree become children of its nearest living ancestor.
temperature : float
    Weight of the log loss beside the cost, in units of a mean mistake (of weight 1).
reduction : "sum", "mean", "token_mean" or "none"
    Over the batch; "token_mean" divides by the number of nodes.

Scores of -inf in ``pairwise`` forbid pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from robustruct.errors import InvalidInputError
from robustruct.objectives.adversarial import unit_of_temperature
from robustruct.torch.checks import (
    REDUCTIONS,
    check_one_of,
    check_scores,
    check_tags_type,
    check_temperature,
    check_values,
    check_weight_type,
    checked_cost,
    checked_mask,
    shape_of,
    values_known,
)
from robustruct.torch.loss import structured_loss

TOL, MAX_ITER = 1e-3, 100
"""Tolerance and most steps of games in training; smaller tolerances take more steps."""


def adversarial_loss(
    unary: Tensor,
    pairwise: Tensor,
    parents: Tensor | None,
    tags: Tensor,
    cost: Any = "hamming",
    node_weight: Tensor | None = None,
    mask: Tensor | None = None,
    temperature: float = 1.0,
    *,
    reduction: str = "sum",
    tol: float = TOL,
    max_iter: int = MAX_ITER,
) -> Tensor:
    """The adversarial surrogate of the cost, to be minimised; arguments as of the module.

    At temperatures above 0 it is smooth. At 0 it is the paper's: the exact game is solved by
    compiled code on the CPU, and the gradient is a subgradient. At infinity it is the CRF's.

    Parameters
    ----------
    unary, pairwise, parents, tags, cost, node_weight, mask, temperature, reduction
        See `robustruct.torch.functional`.
    tol : float
        Regret that the predictor may have in the game, relative to the range of the cost. The loss
        is too large by at most this.
    max_iter : int
        Most steps of the predictor, each of which passes messages once.
    """
    samples = TensorSamples.checked(unary, pairwise, parents, tags, node_weight, mask)
    matrix, t = scaled(cost, unary, temperature)
    kind = "likelihood" if temperature == float("inf") else "game"
    return samples.loss(kind, matrix, t, reduction, tol, max_iter)


def ssvm_loss(
    unary: Tensor,
    pairwise: Tensor,
    parents: Tensor | None,
    tags: Tensor,
    cost: Any = "hamming",
    node_weight: Tensor | None = None,
    mask: Tensor | None = None,
    temperature: float = 0.0,
    *,
    reduction: str = "sum",
) -> Tensor:
    """The hinge of a structured SVM; at temperatures above 0 the softmax margin.

    Parameters
    ----------
    unary, pairwise, parents, tags, cost, node_weight, mask, temperature, reduction
        See `robustruct.torch.functional`.
    """
    samples = TensorSamples.checked(unary, pairwise, parents, tags, node_weight, mask)
    matrix, t = scaled(cost, unary, temperature)
    kind = "likelihood" if temperature == float("inf") else "hinge"
    return samples.loss(kind, matrix, t, reduction)


def crf_loss(
    unary: Tensor,
    pairwise: Tensor,
    parents: Tensor | None,
    tags: Tensor,
    cost: Any = None,
    node_weight: Tensor | None = None,
    mask: Tensor | None = None,
    temperature: float = 1.0,
    *,
    reduction: str = "sum",
) -> Tensor:
    """The negative log-likelihood of a CRF, times ``temperature``, of the scores divided by it.

    Parameters
    ----------
    unary, pairwise, parents, tags, mask, reduction
        See `robustruct.torch.functional`.
    cost, node_weight
        Play no part; they are taken so that the three losses can be exchanged for each other.
    temperature : float
    """
    samples = TensorSamples.checked(unary, pairwise, parents, tags, node_weight, mask)
    check_temperature(temperature)
    if not 0 < temperature < float("inf"):
        raise InvalidInputError(
            f"temperature={temperature}; that of a CRF only scales the scores and is a finite "
            "number above 0.",
            field="temperature",
        )
    matrix = unary.new_zeros(unary.shape[-1:] * 2)
    return samples.loss("likelihood", matrix, float(temperature), reduction)


def scaled(cost: Any, unary: Tensor, temperature: float) -> tuple[Tensor, float]:
    """Return costs (k, k) on the device of the scores, and T in their units (1 at infinity)."""
    check_temperature(temperature)
    k = unary.shape[-1]
    matrix = checked_cost(cost, range(k))
    t = 1.0 if temperature == float("inf") else temperature * unit_of_temperature(matrix, 1.0)
    # Half precision would round costs.
    dtype = torch.promote_types(unary.dtype, torch.float32)
    return torch.as_tensor(matrix, dtype=dtype, device=unary.device), t


@dataclass(frozen=True, eq=False)
class TensorSamples:
    """A checked batch; the nodes of chains come first, without gaps."""

    unary: Tensor
    pairwise: Tensor
    parents: Tensor | None
    tags: Tensor
    alive: Tensor
    weight: Tensor

    @classmethod
    def checked(
        cls,
        unary: Tensor,
        pairwise: Tensor,
        parents: Tensor | None,
        tags: Tensor,
        node_weight: Tensor | None,
        mask: Tensor | None,
    ) -> TensorSamples:
        """Check the arguments of a loss."""
        check_scores(unary, "unary", None, layout="n_samples, n_nodes")
        check_tags_type(tags, unary)
        check_weight_type(node_weight, unary)
        alive = checked_mask(mask, unary)
        if alive is None:
            alive = torch.ones_like(tags, dtype=torch.bool)
        check_values(unary, "unary", alive, tags, node_weight)
        _check_pairwise(pairwise, unary)
        if parents is not None:
            parents = _checked_parents(parents, unary)
        samples = cls(unary, pairwise, parents, tags, alive, weights(node_weight, unary))
        return samples.cleared() if mask is None or parents is not None else samples.compressed()

    def compressed(self) -> TensorSamples:
        """Move the nodes of chains to the front, over the gaps of masks."""
        order = front_first(self.alive)
        pairwise = self.pairwise
        if pairwise.dim() == 4:
            # A table belongs to the edge into its node, so it moves with the node.
            pairwise = pairwise.gather(1, order[:, :, None, None].expand_as(pairwise))
        return TensorSamples(
            self.unary.gather(1, order[:, :, None].expand_as(self.unary)),
            pairwise,
            None,
            self.tags.gather(1, order),
            self.alive.gather(1, order),
            self.weight.gather(1, order),
        ).cleared()

    def cleared(self) -> TensorSamples:
        """Zero scores, tags and weights where there is no node."""
        return TensorSamples(
            torch.where(self.alive[:, :, None], self.unary, 0.0),
            self.pairwise,
            self.parents,
            torch.where(self.alive, self.tags, 0).long(),
            self.alive,
            torch.where(self.alive, self.weight, 0.0),
        )

    def loss(
        self,
        kind: str,
        cost: Tensor,
        temperature: float,
        reduction: str,
        tol: float = TOL,
        max_iter: int = MAX_ITER,
    ) -> Tensor:
        """Return the losses (B,), reduced; ``temperature`` is in units of the cost."""
        check_one_of("reduction", reduction, REDUCTIONS)
        losses, _, _ = structured_loss(
            self.unary, self.pairwise, self.parents, self.alive, self.tags, cost, self.weight, kind,
            temperature, tol, max_iter,
        )  # fmt: skip
        if reduction == "none":
            return losses
        if reduction == "mean":
            return losses.mean()
        return losses.sum() if reduction == "sum" else losses.sum() / self.alive.sum()


def weights(node_weight: Tensor | None, unary: Tensor) -> Tensor:
    """(B, n) weights of nodes."""
    dtype = torch.promote_types(unary.dtype, torch.float32)
    if node_weight is None:
        return torch.ones(unary.shape[:2], dtype=dtype, device=unary.device)
    # Weights are data: no gradient flows into them.
    return node_weight.detach().to(dtype)


def front_first(alive: Tensor) -> Tensor:
    """(B, n) stable order of positions in which those with nodes come first."""
    return (~alive).to(torch.uint8).argsort(dim=1, stable=True)


def _check_pairwise(pairwise: Tensor, unary: Tensor) -> None:
    n_samples, n, k = unary.shape
    if not isinstance(pairwise, Tensor) or tuple(pairwise.shape) not in (
        (k, k),
        (n_samples, n, k, k),
    ):
        shape = shape_of(pairwise) if isinstance(pairwise, Tensor) else type(pairwise).__name__
        raise InvalidInputError(
            f"pairwise has shape {shape}; expected ({k}, {k}) or ({n_samples}, {n}, {k}, {k}), as "
            f"unary has shape {shape_of(unary)}.",
            field="pairwise",
        )
    if values_known(pairwise):
        held = pairwise.detach()
        if bool((torch.isnan(held) | torch.isposinf(held)).any()):
            raise InvalidInputError(
                f"pairwise of shape {shape_of(pairwise)} holds NaN or +inf; scores are finite, or "
                "-inf to forbid a pair.",
                field="pairwise",
            )


def _checked_parents(parents: Tensor, unary: Tensor) -> Tensor:
    n_samples, n, _ = unary.shape
    wrong_type = not isinstance(parents, Tensor) or parents.dtype not in (torch.int64, torch.int32)
    if wrong_type or tuple(parents.shape) not in ((n,), (n_samples, n)):
        shape = shape_of(parents) if isinstance(parents, Tensor) else type(parents).__name__
        raise InvalidInputError(
            f"parents has shape {shape}; expected integers of shape ({n_samples}, {n}) or ({n},): "
            "the index of each node's parent, -1 at roots.",
            field="parents",
        )
    if values_known(parents) and bool(((parents < -1) | (parents >= n)).any()):
        raise InvalidInputError(
            f"parents of shape {shape_of(parents)} holds numbers from {int(parents.min())} to "
            f"{int(parents.max())}; expected the index of a node, 0..{n - 1}, or -1 at roots.",
            field="parents",
        )
    return parents.long().expand(n_samples, n)
