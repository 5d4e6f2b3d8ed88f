"""The smooth objectives: cost plus temperature times log loss.

    min over θ, p   (alpha/2)|θ|²  +  Σ_s share_s [ T log Z_s((θ·Φ_s + w L'p_s) / T) − θ·Φ_s(y_s) ]

With L = 0 and T = 1 that is the CRF, with p held at the truth the softmax margin, with p free the
smooth AGM. For any θ and p, and for any distribution q over labellings with node marginals r,

    primal(θ, p) = alpha/2 |θ|² + Σ_s share_s [ T log Z_s(...) − θ·Φ_s(y_s) ]
    dual(q)      = Σ_s share_s [ Σ_i w_i min_a (L r_i)_a + T H(q_s) ]  −  |G(q)|² / (2 alpha)

bracket the optimum, with the moments G(q) = Σ_s share_s (Φ_s(y_s) − Φ_s(q_s)). Without
the penalties both are sums over samples, so those of shards add up.
"""

from __future__ import annotations

import numpy as np

from robustruct._lazy import cached_property
from robustruct.core.smooth import smooth_moments, smooth_regrets
from robustruct.core.structs import (
    FORBIDDEN,
    FREE,
    NOBODY,
    TRUTH,
    ExactCosts,
    Features,
    GibbsAdversary,
    JunctionTrees,
    LabelledGraphs,
    PaddedCosts,
    PaddedRules,
    Rows,
    SmoothProblem,
    SmoothSettings,
)
from robustruct.features import SparseRows, split_weights
from robustruct.features.matrix import sparse_rows, transposed_product
from robustruct.objectives.adversarial import Excess, Problem
from robustruct.parallel import over_samples

LANES = 8  # float32 numbers in 256 bits: the core takes rows of labels padded to a multiple


def padded(rows: np.ndarray, fill: float, dtype: type = np.float32) -> np.ndarray:
    """Pad rows (..., k) with ``fill`` to the next multiple of LANES."""
    k = rows.shape[-1]
    out = np.full((*rows.shape[:-1], k + -k % LANES), fill, dtype)
    out[..., :k] = rows
    return out


def forbidding(mask: np.ndarray) -> np.ndarray:
    """Convert masks (..., k) of 0 and -inf to padded ones of 0 and FORBIDDEN."""
    return padded(np.where(np.isneginf(mask), FORBIDDEN, 0.0), FORBIDDEN)


class SmoothObjective:
    """The objective on the samples of one problem, in the arrays that kernels take."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.player = TRUTH if problem.truth_is_predictor and problem.partial is None else FREE
        if not problem.cost.any():
            self.player = NOBODY
        design = problem.design
        self.nodes: SparseRows = sparse_rows(design.nodes)
        self.edges: SparseRows = sparse_rows(design.edges)
        row_of, masks = problem.label_masks
        pairs = problem.constraints.pairs
        self.rules = PaddedRules(row_of, forbidding(masks), forbidding(pairs))
        self.samples = self._own_tables()
        x, f = self.nodes, self.edges
        self.features = Features(
            Rows(x.indptr, x.indices, x.data), Rows(f.indptr, f.indices, f.data)
        )

    def _own_tables(self) -> LabelledGraphs:
        """Return the graphs, with a number for each distinct table of every sample."""
        problem, design = self.problem, self.problem.design
        batch = design.batch
        slots = np.flatnonzero(batch.parent >= 0)
        sample_of = np.searchsorted(batch.node_offsets, batch.child[slots], side="right") - 1
        n_rows = design.edges.shape[0]
        # Edges of a sample with the same row of features share a table.
        keys = sample_of * n_rows + design.table_row[design.table_of[slots]]
        own, number = np.unique(keys, return_inverse=True)
        start = np.zeros(batch.n_samples + 1, np.intp)
        np.cumsum(np.bincount(own // n_rows, minlength=batch.n_samples), out=start[1:])
        table, transposed = np.zeros(batch.n_slots, np.intp), np.zeros(batch.n_slots, np.intp)
        table[slots] = number - start[sample_of]
        transposed[slots] = design.table_transposed[design.table_of[slots]]
        row = (own % n_rows).astype(np.intp)
        return LabelledGraphs(*batch.structure, table, transposed, start, row, problem.labels)

    @cached_property
    def arrays(self) -> SmoothProblem:
        """The problem as a struct of the core."""
        return SmoothProblem(
            self.samples, self.features, self.rules, self._trees(), self.nodes.shape[1]
        )

    def _trees(self) -> JunctionTrees:
        """Return the junction trees of samples with cycles; empty without any."""
        batch, nothing = self.problem.design.batch, np.zeros(0, np.intp)
        if not batch.n_chords:
            end = np.zeros(1, np.intp)
            return JunctionTrees(nothing, nothing, end, nothing, nothing, nothing, end)
        batch.buckets.check_memory(self.problem.n_labels)
        return JunctionTrees(batch.parent, self.samples.table, *batch.buckets.arrays)

    @cached_property
    def longest(self) -> tuple[int, int]:
        """Most nodes, and most own tables, of any sample; for the size of scratch memory."""
        most = (
            int(np.diff(self.samples.offsets).max()),
            int(np.diff(self.samples.table_start).max()),
        )
        # Scratch has room for one table even if no sample has edges.
        return most[0], max(most[1], 1)

    @property
    def width(self) -> int:
        return self.rules.unary_mask.shape[1]

    def costs(self, p0: np.ndarray) -> PaddedCosts:
        """Return cost matrix, node weights and centre p0 (N, width), padded, in float32."""
        cost, weight = self.problem.cost, self.problem.node_weight.astype(np.float32)
        return PaddedCosts(padded(cost.T, 0.0), padded(cost, 0.0), weight, p0)

    def settings(self, temperature: float, inv_mu: float = 0.0) -> SmoothSettings:
        """Return the scalar settings of a pass."""
        return SmoothSettings(float(temperature), float(inv_mu), self.player)

    def rows(self, theta: np.ndarray) -> np.ndarray:
        """View θ as rows (d + k e, k): one per node feature, then k per edge feature."""
        return theta.reshape(-1, self.problem.n_labels)

    @cached_property
    def node_rows(self) -> np.ndarray:
        """(N,) row of each node in `GibbsAdversary`."""
        samples, batch = self.samples, self.problem.design.batch
        before = np.repeat(samples.table_start[:-1], np.diff(samples.offsets))
        return np.arange(batch.n_nodes) + self.problem.n_labels * before

    @cached_property
    def table_rows(self) -> np.ndarray:
        """(k tables,) rows of own tables in `GibbsAdversary`."""
        n_rows = len(self.node_rows) + self.problem.n_labels * len(self.samples.row)
        return np.delete(np.arange(n_rows), self.node_rows)

    # ------------------------------------------------------------------------------------- bounds

    def regret(self, theta: np.ndarray, p: np.ndarray) -> float:
        """Return the primal without its penalty at the predictor p (N, width)."""
        problem, regrets = self.problem, np.empty(len(self.problem.share))
        cost = padded(problem.cost, 0.0, np.float64)
        costs, settings = (
            ExactCosts(cost, problem.node_weight, p),
            self.settings(problem.temperature),
        )
        arguments = self.arrays, theta, costs, settings, regrets
        over_samples(smooth_regrets, problem.design.batch.node_offsets, problem.n_jobs, *arguments)
        return float(problem.share @ regrets) - problem.surplus_score(theta)

    def moments(self, adversary: GibbsAdversary, out: np.ndarray) -> float:
        """Write G(q) into ``out``, and return the dual without its penalty."""
        problem, design = self.problem, self.problem.design
        k, n_rows = problem.n_labels, self.problem.design.edges.shape[0]
        r = np.empty((design.batch.n_nodes, k))

        def some(first: int, last: int) -> np.ndarray:
            sums = np.zeros((n_rows, k, k))
            smooth_moments(first, last, self.arrays, problem.share, adversary, r, sums)
            return sums

        parts = over_samples(some, design.batch.node_offsets, problem.n_jobs)
        sums = parts[0]
        for part in parts[1:]:
            sums += part
        node_block, edge_block = split_weights(design, out, k)
        excess = Excess(problem.labels, r, problem.node_share)
        transposed_product(design.nodes, excess, node_block, problem.n_jobs)
        transposed_product(design.edges, sums.reshape(-1, k * k), edge_block.reshape(-1, k * k), 1)
        problem.add_surplus(out)
        return problem.gain(r) + problem.temperature * float(problem.share @ adversary.entropy)
