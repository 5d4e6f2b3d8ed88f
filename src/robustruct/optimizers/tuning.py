"""Settings of pairwise ascent, and what of the data decides on them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from robustruct.objectives.adversarial import Problem
from robustruct.optimizers.scaling import UNSCALED, Columns, Scales

MANY_EDGES = 10_000
COLDEST = 1e-4
"""Temperatures below, in units of a mean mistake, are trained as 0."""
PULL = 3.0  # kappa / alpha at the start
STRIDE = 10.0
"""By how many times the cost of a mistake a sample's first step may change its own scores: with 0.7
to 70 chains with dense features took about as many passes. Where features are about 1, alpha alone
sees to it."""
SMALL = 3.0
"""Columns are not scaled below this many times the size at which alpha alone would do: kappa cannot
fall further. Features times 10, gap after 1000 passes on emotion: 36 % with 1, 1 % with 3; a column
of 1e4 among others took 400 and 440 passes on dense chains, and 580 with 10."""


FREQUENT = 0.125
"""Nodes that have a feature, over samples, from which on its column is scaled for many workers; and
STIFFEST, the least factor. CoNLL-2000, 16 workers: see benchmarks/README.md."""
STIFFEST = 0.25


@dataclass(frozen=True)
class Tuning:
    """Settings for one of two regimes; each optimum is flat (benchmarks/README.md)."""

    inner: int
    """Steps per visit."""
    skip: float
    """Between full passes, samples with less than this share of the mean gap may be skipped."""
    balance: float
    """Wanted ratio of the two parts of the gap."""
    mu: float
    """Weight of the predictor's centre, relative to the range of the cost."""
    scales: Scales = UNSCALED
    """What columns of features are multiplied with, so that none is much larger than others."""
    pull: float = 0.0
    """Where kappa starts, and how far it is lowered when the gap stops falling."""
    sparse: bool = False
    """Whether weights are shared little, among samples and among the nodes of one."""
    even: bool = True
    """Whether columns are about as large as each other, or small."""
    natural: bool = False
    """Whether adversaries are Gibbs distributions, kept by their natural parameters."""


SPARSE = Tuning(inner=1, skip=0.3, balance=0.02, mu=1.0, sparse=True)
DENSE = Tuning(inner=4, skip=0.0, balance=0.2, mu=0.5)

SMOOTH = Tuning(inner=16, skip=0.1, balance=0.2, mu=1.0, natural=True)
"""For T > 0, whatever the data are like; a visit is one step, whatever ``inner`` says, whose length
is searched for."""


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
    columns: Columns
    stake: float
    """Mean over samples of what its nodes' labels are worth in scores: range of the cost times
    weights, and T; without either it is log loss, in nats."""
    nodes: float
    """Mean over samples of their nodes; like ``stake`` weighted by shares, so that parts add up."""
    alpha: float
    n_labels: int

    @classmethod
    def of(cls, problem: Problem) -> Density:
        """The density of a problem's features."""
        nodes, batch = problem.design.nodes, problem.design.batch
        share = problem.node_share
        stake = float(np.ptp(problem.cost) * (share @ problem.node_weight))
        stake += problem.temperature * float(share.sum())
        entries, common, sizes = np.inf, 0.0, 0.0
        if not isinstance(nodes, np.ndarray):
            slots = np.flatnonzero(batch.parent >= 0)[:MANY_EDGES]
            child, parent = (nodes.take(ends[slots]) for ends in (batch.child, batch.parent))
            entries = len(nodes.data)
            common = 2 * child.inner(parent)
            sizes = float(np.sum(child.data**2) + np.sum(parent.data**2))
        return cls(
            n_samples=batch.n_samples,
            n_features=nodes.shape[1],
            entries=entries,
            common=common,
            sizes=sizes,
            columns=Columns.of(problem.design),
            stake=stake or float(share.sum()),
            nodes=float(share.sum()),
            alpha=problem.alpha,
            n_labels=problem.n_labels,
        )

    @classmethod
    def of_all(cls, parts: Iterable[Density]) -> Density:
        """The density of shards together."""
        every = list(parts)
        sums = ("n_samples", "entries", "common", "sizes", "stake", "nodes")
        return replace(
            every[0],
            columns=Columns.of_all(part.columns for part in every),
            **{name: sum(getattr(part, name) for part in every) for name in sums},
        )

    def tuning(self, *, spread: bool = False) -> Tuning:
        """The settings of the regime, with what depends on how large features are.

        Where samples are ``spread`` over workers and features are sparse, the few features that
        most samples have are scaled down. All workers move their weights in a round, none knowing
        what the others do; scaled, these move little between two updates of the centre, which all
        know, and so many samples have a say in them that they get where they should all the same.

        A step of a sample with share 1 / n changes its scores by up to |x|² / (n (alpha + kappa)).
        Where alpha alone would let that be far more than labels are worth, samples push each other
        to and fro; kappa then begins where it is STRIDE times as much. Columns so small that they
        need no kappa count as larger ones.
        """
        per_node = STRIDE * self.n_samples * self.stake / max(self.nodes, 1e-300)
        columns = self.columns
        row_entries = max(columns.entries.sum(), 1.0) / max(columns.n_nodes, 1)
        pull = PULL * self.alpha
        if per_node == 0.0 or columns.n_nodes == 0:
            return replace(self.regime(), pull=pull)
        least = SMALL * np.sqrt(self.alpha * per_node / row_entries)
        scales = columns.scales(float(least))
        even = bool(np.all(scales == 1.0))
        if spread and self.regime().sparse:
            scales *= columns.stiffness(FREQUENT * self.n_samples, STIFFEST)
        size = float(scales**2 @ np.minimum(columns.squares, 1e300)) / columns.n_nodes
        edges = len(scales) - self.n_features
        return replace(
            self.regime(),
            scales=Scales.of(scales, (self.n_features, edges), self.n_labels),
            pull=max(pull, size / per_node - self.alpha),
            even=even,
        )

    def regime(self) -> Tuning:
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
    return Density.of(problem).tuning()
