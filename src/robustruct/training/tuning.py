"""Settings of pairwise ascent, and what of the data decides on them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from robustruct.training.problem import Problem

MANY_EDGES = 10_000


@dataclass(frozen=True)
class Tuning:
    """Settings for one of two regimes; each optimum is flat (benchmarks/README.md)."""

    inner: int
    """Steps per visit."""
    skip: float
    """Between full passes, samples with less than this share of the mean gap may rest."""
    balance: float
    """Wanted ratio of the two parts of the gap."""
    mu: float
    """Weight of the predictor's centre, relative to the range of the cost."""


SPARSE = Tuning(inner=1, skip=0.3, balance=0.02, mu=1.0)
DENSE = Tuning(inner=4, skip=0.0, balance=0.2, mu=0.5)
SMOOTH = Tuning(inner=1, skip=0.0, balance=0.2, mu=1.0)
"""For T > 0, whatever the data are like."""


@dataclass(frozen=True)
class Density:
    """How much samples, and the nodes of a sample, have to do with each other."""

    n_samples: int
    n_features: int
    entries: float
    """Feature values that are not zero; infinite for dense features."""
    common: float
    """Sum of 2 x·x' over the edges (x, x') of samples, of which the first tell enough."""
    sizes: float
    """Sum of |x|² + |x'|² over the same."""

    @classmethod
    def of(cls, problem: Problem) -> Density:
        """The density of a problem's features."""
        nodes, batch = problem.design.nodes, problem.design.batch
        if isinstance(nodes, np.ndarray):
            return cls(batch.n_samples, nodes.shape[1], np.inf, 0.0, 0.0)
        rows = nodes.to_scipy()
        slots = np.flatnonzero(batch.parent >= 0)[:MANY_EDGES]
        child, parent = rows[batch.child[slots]], rows[batch.parent[slots]]
        common = 2 * float(child.multiply(parent).sum())
        sizes = float(np.sum(child.data**2) + np.sum(parent.data**2))
        return cls(batch.n_samples, nodes.shape[1], len(nodes.data), common, sizes)

    @classmethod
    def of_all(cls, parts: Iterable[Density]) -> Density:
        """The density of shards together."""
        total: Density | None = None
        for part in parts:
            total = (
                part
                if total is None
                else cls(
                    total.n_samples + part.n_samples,
                    total.n_features,
                    total.entries + part.entries,
                    total.common + part.common,
                    total.sizes + part.sizes,
                )
            )
        if total is None:
            raise ValueError("nothing to add up")
        return total

    def tuning(self) -> Tuning:
        """SPARSE when weights are shared little, among samples and among the nodes of one.

        A sample that touches few of the weights hardly disturbs the others, but neighbours that
        have most features in common disturb each other. Words of a sentence have a third in
        common, candidates for a role 0.4, nested phrases 0.6 to 0.7: on these SPARSE took more
        than six times as long to a gap of 2 % where it was worst, on the others DENSE took at most
        twice as long.
        """
        few = self.entries < 0.1 * self.n_features * self.n_samples
        return SPARSE if few and self.common <= 0.5 * self.sizes else DENSE


def tuning_for(problem: Problem) -> Tuning:
    """The settings for a problem that is all in one place."""
    if problem.temperature > 0.0:
        return SMOOTH
    return Density.of(problem).tuning()
