"""Sum-product and max-product over batches of chains and trees, as tensor operations.

A batch holds B samples of up to n nodes with k labels. Unary scores are (B, n, k); pairwise scores
are one table (k, k) that all edges share, or (B, n, k, k) with the table of the edge into each
node. Tables are [label of the parent, label of the node]; in a chain the parent is the node before.

Scores are float64 where the device has it; messages are logarithms. A table that all edges share is
exponentiated once, and messages are matrix products; where scores are too far apart for that,
messages are log-sum-exps over pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from robustruct.errors import InvalidInputError


def working_dtype(device: torch.device) -> torch.dtype:
    """Return the floating-point type of messages: float64, or float32 on mps, which lacks it."""
    return torch.float32 if device.type == "mps" else torch.float64


def exponentials_fit(unary: Tensor, pairwise: Tensor) -> bool:
    """Return whether exponentials relative to the largest score neither underflow nor overflow.

    The entries of a message differ by no more than the scores of its last node and table do.
    """
    # Twice: a label that one message loses may be raised by the next; 0.8 leaves room for sums.
    reach = 2 * (_spread(unary) + _spread(pairwise.reshape(1, -1)))
    return bool(reach < 0.8 * math.log(torch.finfo(unary.dtype).max))


def _spread(rows: Tensor) -> Tensor:
    """Return the largest range of the finite numbers of any row."""
    top = rows.amax(-1, keepdim=True)
    low = torch.where(rows > -torch.inf, rows, top).amin(-1, keepdim=True)
    return torch.where(top > -torch.inf, top - low, 0.0).max()


@dataclass(frozen=True, eq=False)
class Beliefs:
    """The Gibbs distribution exp(score) / Z of every sample."""

    log_partition: Tensor
    """(B,) log Z."""
    nodes: Tensor
    """(B, n, k) node marginals; zeros where there is no node."""
    edges: Tensor | None
    """Edge marginals: (B, k, k), summed over edges that share a table, or (B, n, k, k); None unless
    asked for."""


class TensorStructure(Protocol):
    """TensorStructure of the samples of a batch: `Chains` or `Forests`."""

    def sum_product(self, unary: Tensor, pairwise: Tensor, *, edges: bool = False) -> Beliefs:
        """Return log-partition functions and marginals under these scores."""


def structure_of(parents: Tensor | None, alive: Tensor, pairwise: Tensor) -> TensorStructure:
    """Return the structure of samples; ``parents`` None stands for chains, nodes first."""
    if parents is None and pairwise.dim() == 2:
        return Chains(alive)
    return Forests(parents_of(parents, alive), alive)


def parents_of(parents: Tensor | None, alive: Tensor) -> Tensor:
    """(B, n) index of each node's parent, -1 at roots; in chains the node before."""
    if parents is not None:
        return parents
    before = torch.arange(alive.shape[1], device=alive.device) - 1
    return before.expand(alive.shape)


# ----------------------------------------------------------------------------------------- chains


@dataclass(frozen=True, eq=False)
class _Factor:
    """Exponential of a table, each row relative to its largest entry."""

    factor: Tensor
    """(..., k, k)"""
    top: Tensor
    """(..., 1, k) largest entry of each row; 0 where all are -inf."""

    @classmethod
    def of(cls, table: Tensor) -> _Factor:
        top = table.amax(-1, keepdim=True)
        top = torch.where(top > -torch.inf, top, 0.0)
        return cls((table - top).exp(), top.transpose(-1, -2))

    def log_product(self, rows: Tensor) -> Tensor:
        """Return log(exp(rows) @ exp(table))."""
        shifted = rows + self.top
        largest = shifted.amax(-1, keepdim=True)
        return torch.matmul(shifted.sub_(largest).exp_(), self.factor).log_().add_(largest)


class Chains:
    """Sequences whose edges share one table; ``alive`` (B, n) is True up to the end of each."""

    def __init__(self, alive: Tensor) -> None:
        self.alive = alive
        steps = torch.arange(alive.shape[1], device=alive.device)
        self.lengths = alive.sum(1)
        last = self.lengths[:, None] - 1 - steps
        self.backwards = torch.where(last >= 0, last, steps)
        """(B, n) the permutation that reverses each sequence; its own inverse."""

    def sum_product(self, unary: Tensor, pairwise: Tensor, *, edges: bool = False) -> Beliefs:
        """Run forward and backward recursions in one loop over time."""
        if not exponentials_fit(unary, pairwise):
            forests = Forests(parents_of(None, self.alive), self.alive)
            return forests.sum_product(unary, pairwise, edges=edges)
        n_samples, n, k = unary.shape
        index = self.backwards[:, :, None].expand_as(unary)
        both = unary.new_empty((n, 2, n_samples, k))
        both[:, 0] = unary.transpose(0, 1)
        both[:, 1] = unary.gather(1, index).transpose(0, 1)
        table = _Factor.of(torch.stack([pairwise, pairwise.T]))
        steps = both.unbind()
        for t in range(1, n):
            steps[t].add_(table.log_product(steps[t - 1]))
        forward = both[:, 0].transpose(0, 1)  # (B, n, k), with the node's own scores
        backward = both[:, 1].transpose(0, 1).gather(1, index)
        last = (self.lengths - 1)[:, None, None].expand(-1, 1, k)
        log_partition = forward.gather(1, last)[:, 0].logsumexp(-1)
        pairs = self._edges(forward, backward, log_partition, pairwise) if edges else None
        possible = self.alive[:, :, None] & (unary > -torch.inf)
        logs = backward.add_(forward).sub_(unary).sub_(log_partition[:, None, None])
        return Beliefs(log_partition, _normalised(logs, possible), pairs)

    def _edges(
        self, forward: Tensor, backward: Tensor, log_partition: Tensor, pairwise: Tensor
    ) -> Tensor:
        """(B, k, k) edge marginals, summed over the edges of each sequence."""
        table, joined = _Factor.of(pairwise), self.alive[:, 1:, None]
        before = forward[:, :-1] + table.top
        largest = before.amax(-1, keepdim=True)
        before = before.sub_(largest).masked_fill_(~joined, -torch.inf).exp_()
        after = backward[:, 1:] + (largest - log_partition[:, None, None])
        most = 0.99 * math.log(
            torch.finfo(after.dtype).max
        )  # no overflow: the product is at most 1
        after = after.clamp_max_(most).masked_fill_(~joined, -torch.inf).exp_()
        return torch.bmm(before.transpose(1, 2), after).mul_(table.factor)


def _normalised(logs: Tensor, possible: Tensor) -> Tensor:
    """Exponentiate and normalise rows (..., k) in place; zeros where not ``possible``."""
    rows = logs.masked_fill_(~possible, -torch.inf).exp_()
    return rows.div_(rows.sum(-1, keepdim=True).clamp_min_(torch.finfo(rows.dtype).tiny))


# ---------------------------------------------------------------------------------------- forests


class Forests:
    """Rooted forests: ``parents`` (B, n) holds the index of each node's parent, -1 at roots.

    Nodes that are not ``alive`` (B, n) are left out; their children become children of the nearest
    living ancestor. Nodes of equal depth are processed together.
    """

    def __init__(self, parents: Tensor, alive: Tensor) -> None:
        self.shape = tuple(alive.shape)
        n_samples, n = self.shape
        device = alive.device
        offset = torch.arange(n_samples, device=device)[:, None] * n
        own = torch.arange(n_samples * n, device=device)
        self.alive = alive.reshape(-1)
        above = torch.where(parents >= 0, parents + offset, -1).reshape(-1)
        self.above = self._living(above, own)
        """(N,) flat index of the parent, -1 at roots."""
        self.sample = own // max(n, 1)
        depth = self._depths(own)
        self.roots = torch.nonzero(self.alive & (self.above < 0))[:, 0]
        inner = torch.nonzero(self.alive & (depth > 0))[:, 0]
        inner = inner[depth[inner].argsort(stable=True)]
        sizes = torch.bincount(depth[inner])[1:].tolist() if len(inner) else []
        self.levels: list[Tensor] = list(inner.split(sizes)) if sizes else []
        """Nodes with a parent by depth, from the roots down."""

    def _rounds(self) -> int:
        return max(self.shape[1], 2).bit_length() + 1

    def _living(self, above: Tensor, own: Tensor) -> Tensor:
        """(N,) nearest living ancestors, by pointer jumping."""
        end = len(own)  # sentinel: no node
        climb = torch.where(self.alive, own, torch.where(above >= 0, above, end))
        climb = torch.cat([climb, climb.new_tensor([end])])
        # Each round doubles the number of masked nodes that a pointer skips.
        for _ in range(self._rounds()):
            climb = climb[climb]
        nearest = climb[torch.where(above >= 0, above, end)]
        return torch.where(nearest < end, nearest, -1)

    def _depths(self, own: Tensor) -> Tensor:
        climb = torch.where(self.above >= 0, self.above, own)
        depth = (self.above >= 0).long()
        for _ in range(self._rounds()):
            depth = depth + depth[climb]
            climb = climb[climb]
        # After these rounds every pointer is at a root, unless it runs in a cycle.
        astray = self.alive & (self.above[climb] >= 0)
        if bool(astray.any()):
            sample = int(self.sample[astray][0])
            raise InvalidInputError(
                f"parents: those of sample {sample} form a cycle; parents lead from every node to "
                "a root, whose parent is -1.",
                sample=sample,
                field="parents",
            )
        return depth

    def sum_product(self, unary: Tensor, pairwise: Tensor, *, edges: bool = False) -> Beliefs:
        """Pass messages up the levels, then down."""
        k = unary.shape[-1]
        scores = unary.reshape(-1, k)
        quick = pairwise.dim() == 2 and exponentials_fit(unary, pairwise)
        tables = _Tables(pairwise, quick)
        below, sent = scores.clone(), torch.zeros_like(scores)
        for nodes in reversed(self.levels):
            sent[nodes] = tables.up(nodes, below[nodes])
            below.index_add_(0, self.above[nodes], sent[nodes])
        whole, cavity = below.clone(), torch.zeros_like(scores)
        of_tree = below.logsumexp(-1)
        for nodes in self.levels:
            parents = self.above[nodes]
            full, came = whole[parents], sent[nodes]
            # -inf minus -inf would be NaN: forbidden labels stay forbidden.
            cavity[nodes] = torch.where(full > -torch.inf, full - came, -torch.inf)
            whole[nodes] = below[nodes] + tables.down(nodes, cavity[nodes])
            of_tree[nodes] = of_tree[parents]
        log_partition = scores.new_zeros(self.shape[0])
        log_partition.index_add_(0, self.sample[self.roots], of_tree[self.roots])
        cavity -= of_tree[:, None]
        pairs = self._edges(tables, cavity, below) if edges else None
        logs = whole.sub_(of_tree[:, None])
        nodes_of = _normalised(logs, self.alive[:, None]).reshape(unary.shape)
        return Beliefs(log_partition, nodes_of, pairs)

    def _edges(self, tables: _Tables, cavity: Tensor, below: Tensor) -> Tensor:
        """Edge marginals from messages (N, k): ``cavity`` is the parent's belief without the node's
        subtree, ``below`` the belief of the subtree."""
        (n_samples, n), k = self.shape, below.shape[-1]
        sums = below.new_zeros((n_samples if tables.shared else n_samples * n, k, k))
        for nodes in self.levels:
            logs = cavity[nodes][:, :, None] + below[nodes][:, None, :]
            marginals = logs.add_(tables.of(nodes)).exp_()
            sums.index_add_(0, self.sample[nodes] if tables.shared else nodes, marginals)
        return sums if tables.shared else sums.reshape(n_samples, n, k, k)

    def max_product(self, unary: Tensor, pairwise: Tensor) -> tuple[Tensor, Tensor]:
        """Return the best labelling (B, n), 0 where there is no node, and its score (B,)."""
        k = unary.shape[-1]
        best, tables = unary.reshape(-1, k).clone(), _Tables(pairwise, False)
        choices = []
        for nodes in reversed(self.levels):
            value, choice = (tables.of(nodes) + best[nodes][:, None, :]).max(-1)
            best.index_add_(0, self.above[nodes], value)
            choices.append(choice)
        value, choice = best[self.roots].max(-1)
        labels = torch.zeros(len(best), dtype=torch.long, device=unary.device)
        labels[self.roots] = choice
        for nodes, choice in zip(self.levels, reversed(choices), strict=True):
            labels[nodes] = choice.gather(1, labels[self.above[nodes]][:, None])[:, 0]
        values = best.new_zeros(self.shape[0]).index_add_(0, self.sample[self.roots], value)
        return labels.reshape(self.shape), values


class _Tables:
    """Pairwise scores for messages: one table for all edges, or one for each.

    With ``quick`` the one table is exponentiated, and messages are matrix products.
    """

    def __init__(self, pairwise: Tensor, quick: bool) -> None:
        self.pairwise, self.shared, self.quick = pairwise, pairwise.dim() == 2, quick
        if quick:
            self.over_nodes, self.over_parents = _Factor.of(pairwise.T), _Factor.of(pairwise)
        if not self.shared:
            self.flat = pairwise.reshape(-1, *pairwise.shape[-2:])

    def of(self, nodes: Tensor) -> Tensor:
        """(m, k, k) or (k, k), [parent's label, node's label]."""
        return self.pairwise if self.shared else self.flat[nodes]

    def up(self, nodes: Tensor, rows: Tensor) -> Tensor:
        """Return messages (m, k) to the parents."""
        if self.quick:
            return self.over_nodes.log_product(rows)
        return (self.of(nodes) + rows[:, None, :]).logsumexp(2)

    def down(self, nodes: Tensor, rows: Tensor) -> Tensor:
        """Return messages (m, k) from the parents."""
        if self.quick:
            return self.over_parents.log_product(rows)
        return (self.of(nodes) + rows[:, :, None]).logsumexp(1)
