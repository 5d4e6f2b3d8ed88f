"""Settings of the ascents, decided by how large features are and how much samples share them.

Columns that differ in size by orders of magnitude are brought to one size. Optimizers look for
θ' = θ / s, with one power of two s_f <= 1 for each row f of θ, and see features x'_f = s_f x_f:
scores, moments times s and bounds are the same, and the penalty on a weight is alpha s_f² instead
of alpha. The objective does not change, only the metric of its steps. Powers of two round nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from robustruct._lazy import cached_property
from robustruct.features import Design, FeatureMatrix, SparseRows
from robustruct.objectives.adversarial import Problem

MANY_EDGES = 10_000  # by which density is judged: more do not change the picture
COLDEST = 1e-4
"""Temperatures below, in units of a mean mistake, are trained as 0."""
PULL = 3.0  # kappa / alpha at the start
STRIDE = 10.0
"""By how many times the cost of a mistake a sample's first step may change its own scores: with 0.7
to 70 chains with dense features took about as many passes. Where features are about 1, alpha alone
keeps steps that short."""
SMALL = 3.0
"""Columns are not scaled below this many times the size at which alpha alone would do: kappa cannot
fall further. Features times 10, gap after 1000 passes on emotion: 36 % with 1, 1 % with 3; a column
of 1e4 among others took 400 and 440 passes on dense chains, and 580 with 10."""
FREQUENT = 0.125  # nodes that have a feature, over samples, from which on its column is scaled
STIFFEST = 0.25
"""The least factor of such a column. CoNLL-2000, 16 workers: see benchmarks/README.md for both."""


@dataclass(frozen=True, eq=False)
class Columns:
    """How large the features are, column by column; columns of nodes first, then those of edges."""

    squares: np.ndarray
    """Sum of squares of each."""
    entries: np.ndarray
    """Values that are not zero."""
    n_nodes: int
    """Nodes that both are summed over."""

    @classmethod
    def of(cls, design: Design) -> Columns:
        """The columns of a design; an edge feature counts as often as edges have it."""
        slots = np.flatnonzero(design.batch.parent >= 0)
        rows = design.table_row[design.table_of[slots]]
        uses = np.bincount(rows, minlength=design.edges.shape[0]).astype(float)
        parts = [_sums(design.nodes), _sums(design.edges, uses)]
        squares, entries = (np.concatenate(both) for both in zip(*parts, strict=True))
        return cls(squares, entries, design.batch.n_nodes)

    @classmethod
    def of_all(cls, parts: Iterable[Columns]) -> Columns:
        """The columns of shards together."""
        all_parts = list(parts)
        return cls(
            np.sum([part.squares for part in all_parts], axis=0),
            np.sum([part.entries for part in all_parts], axis=0),
            sum(part.n_nodes for part in all_parts),
        )

    def scales(self, least: float) -> np.ndarray:
        """s of each column; those whose values are below ``least`` count as if they were as large.

        Values are a column's root mean square where it is not zero, so columns of zeros and ones
        are of one size, however rare the ones.
        """
        with np.errstate(over="ignore"):
            size = np.sqrt(np.minimum(self.squares, 1e300) / np.maximum(self.entries, 1.0))
        if not size.any():
            return np.ones(len(size))
        least = max(least, float(size[size > 0].min()))
        return np.exp2(-np.round(np.log2(np.maximum(size, least) / least)))

    def stiffness(self, frequent: float, least: float) -> np.ndarray:
        """What columns are multiplied with if at least ``frequent`` nodes have them: 1/2, 1/4, ...

        A quarter for four times as many, and so on; ``least`` at least.
        """
        often = np.maximum(self.entries / frequent, 0.5)
        return np.maximum(np.exp2(-np.floor(np.log2(often) / 2 + 1.0)), least)


def _sums(matrix: FeatureMatrix, times: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(d,) sums of squares of the columns, and of entries that are not zero.

    Each row counts once, or ``times``.
    """
    with np.errstate(over="ignore"):
        if not isinstance(matrix, SparseRows):
            times = np.ones(len(matrix)) if times is None else times
            return times @ matrix**2, times @ (matrix != 0)
        width = matrix.shape[1]
        if times is None:
            entries = np.diff(matrix.column_offsets).astype(float)
            if (matrix.data == 1.0).all():  # as in most text
                return entries, entries
            return np.bincount(matrix.indices, matrix.data**2, width), entries
        each = np.repeat(times, np.diff(matrix.indptr))
        return (
            np.bincount(matrix.indices, each * matrix.data**2, width),
            np.bincount(matrix.indices, each, width),
        )


@dataclass(frozen=True, eq=False)
class Scales:
    """s, for the columns where it is not 1."""

    index: np.ndarray
    """Columns of the nodes' features, then of the edges'."""
    factor: np.ndarray
    n_columns: tuple[int, int]
    n_labels: int

    @classmethod
    def of(cls, scales: np.ndarray, n_columns: tuple[int, int], n_labels: int) -> Scales:
        """From s of every column."""
        index = np.flatnonzero(scales != 1.0)
        return cls(index, scales[index], n_columns, n_labels)

    @property
    def trivial(self) -> bool:
        """Whether nothing is scaled."""
        return len(self.index) == 0

    @cached_property
    def of_rows(self) -> np.ndarray:
        """s of every row of θ, as long as there are labels; (1,) where it is 1 for all."""
        if self.trivial:
            return np.ones(1)
        d, scales = self.n_columns[0], self._of_columns
        return np.concatenate([scales[:d], np.repeat(scales[d:], self.n_labels)])

    @property
    def _of_columns(self) -> np.ndarray:
        scales = np.ones(sum(self.n_columns))
        scales[self.index] = self.factor
        return scales

    @cached_property
    def squares(self) -> np.ndarray:
        """The square of `of_rows`: the penalty on a row's weights relative to alpha."""
        return self.of_rows**2

    def unscaled(self, theta: np.ndarray) -> np.ndarray:
        """The weights behind θ / s; the same array where nothing is scaled."""
        return theta if self.trivial else self._times(theta, self.of_rows)

    def divided(self, weights: np.ndarray) -> np.ndarray:
        """θ / s; the same array where nothing is scaled. Powers of two have exact inverses."""
        return weights if self.trivial else self._times(weights, 1.0 / self.of_rows)

    def _times(self, vector: np.ndarray, factors: np.ndarray) -> np.ndarray:
        return (vector.reshape(len(factors), -1) * factors[:, None]).ravel()

    def scaled_l1(self, l1: float) -> np.ndarray:
        """The penalty on each |θ / s| that is ``l1`` on |θ|; (1,) where it is the same for all."""
        return l1 * (self.of_rows if self.trivial else np.repeat(self.of_rows, self.n_labels))

    def scaled(self, problem: Problem) -> Problem:
        """The same problem, about θ / s."""
        if self.trivial:
            return problem
        d = self.n_columns[0]
        scales, design = self._of_columns, problem.design
        nodes, edges = _times(design.nodes, scales[:d]), _times(design.edges, scales[d:])
        partial = problem.partial
        if partial is not None:
            partial = partial.scaled(self.of_rows)
        return replace(problem, design=replace(design, nodes=nodes, edges=edges), partial=partial)


UNSCALED = Scales(np.zeros(0, np.intp), np.zeros(0), (0, 0), 0)


def _times(matrix: FeatureMatrix, factor: np.ndarray) -> FeatureMatrix:
    """The columns of a matrix, each times its factor."""
    if isinstance(matrix, SparseRows):
        data = matrix.data * factor[matrix.indices]
        return SparseRows(matrix.indptr, matrix.indices, data, matrix.shape)
    return np.ascontiguousarray(matrix * factor)


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
        if per_node == 0.0 or columns.n_nodes == 0:  # nothing to learn: no size to compare with
            return replace(self.regime(), pull=pull)
        least = SMALL * np.sqrt(self.alpha * per_node / row_entries)
        scales = columns.scales(float(least))
        even = bool(np.all(scales == 1.0))
        if spread and self.regime().sparse:
            scales *= columns.stiffness(FREQUENT * self.n_samples, STIFFEST)
        # Sums of squares may be infinite where features are huge, and kappa must not.
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
        # Below a tenth of all possible entries: dense features have all of them.
        few = self.entries < 0.1 * self.n_features * self.n_samples
        return SPARSE if few and self.common <= 0.5 * self.sizes else DENSE


def tuning_for(problem: Problem) -> Tuning:
    """The settings for a problem that is all in one place."""
    return Density.of(problem).tuning()
