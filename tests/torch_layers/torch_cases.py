"""Batches for the tests of robustruct.torch, and slow answers to hold fast ones against."""

from __future__ import annotations

import numpy as np
import torch

from robustruct import GameSolution, solve_game
from robustruct.testing.oracles import all_labellings, labelling_score

ASYMMETRIC = np.array([[0.0, 1.0, 1.0], [5.0, 0.0, 2.0], [4.0, 1.0, 0.0]])
"""Rows true tags, columns predicted ones: to miss tag 1 or 2 is dear."""


def chain_edges(n: int) -> list[tuple[int, int]]:
    return [(i, i + 1) for i in range(n - 1)]


def tree_edges(parents: list[int]) -> list[tuple[int, int]]:
    return [(parent, i) for i, parent in enumerate(parents) if parent >= 0]


def gibbs_by_enumeration(unary, edges, pairwise) -> tuple[float, np.ndarray, np.ndarray]:
    """(log Z, node marginals, edge marginals) of exp(score)."""
    n, k = np.shape(unary)
    y = all_labellings(n, k)
    scores = np.array([labelling_score(unary, edges, pairwise, labels) for labels in y])
    top = scores.max()
    weights = np.exp(scores - top)
    nodes, pairs = np.zeros((n, k)), np.zeros((len(edges), k, k))
    for labels, weight in zip(y, weights / weights.sum(), strict=True):
        nodes[np.arange(n), labels] += weight
        for e, (i, j) in enumerate(edges):
            pairs[e, labels[i], labels[j]] += weight
    return float(top + np.log(weights.sum())), nodes, pairs


def game(unary, edges, pairwise, cost, temperature, weight=None) -> GameSolution:
    """The certified solution of one game; costs [true, predicted], T in their units."""
    return solve_game(unary, edges, pairwise, cost, weight, tol=1e-9, temperature=temperature)


def random_chain(seed: int, n: int = 5, k: int = 3, scale: float = 2.0):
    """(unary (n, k), table (k, k), tags (n,)) in float64."""
    generator = torch.Generator().manual_seed(seed)
    unary = scale * torch.randn(n, k, generator=generator, dtype=torch.float64)
    table = torch.randn(k, k, generator=generator, dtype=torch.float64)
    return unary, table, torch.randint(0, k, (n,), generator=generator)


def mean_mistake(cost: np.ndarray) -> float:
    """The unit of temperature."""
    return float(cost[~np.eye(len(cost), dtype=bool)].mean())
