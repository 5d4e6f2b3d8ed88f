"""Proximal block-coordinate ascent with pairwise steps: training at the price of an SSVM."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from robustruct.constraints import node_kinds
from robustruct.features import FeatureMatrix, SparseRows, adjoint, split_weights
from robustruct.kernels.pairwise import (
    gram_matrices,
    gram_sizes,
    move_centres,
    pair_sums,
    pairwise_visits,
    repair_pairs,
    truth_pairs,
)
from robustruct.parallel import over_samples
from robustruct.training.problem import Problem


GRAM_LIMIT = 2**24  # numbers, 128 MiB


class PairwiseAscent:
    """Dual blocks (r, q) of all samples, the predictor's centre p0, and the weights they imply."""

    def __init__(self, problem: Problem, *, mu: float = 1.0, inner: int = 1) -> None:
        self.problem = problem
        batch, k = problem.design.batch, problem.n_labels
        self.inv_mu = 0.0 if problem.truth_is_predictor else 1.0 / (mu * max(np.ptp(problem.cost), 1e-300))
        self.inner = inner
        self.nodes = sparse_rows(problem.design.nodes)
        self.edges = sparse_rows(problem.design.edges)
        self.kinds = node_kinds(batch)
        self.turned = problem.design.table_turned.astype(np.intp)
        self.theta = np.zeros(problem.n_weights)
        self.change = np.zeros_like(self.theta)
        self.r = problem.truth.copy()
        self.p0 = problem.truth.copy() if problem.truth_is_predictor else np.full_like(self.r, 1.0 / k)
        slots = min(k * k, 8)
        self.pair = np.zeros((batch.n_nodes, slots), np.int32)
        self.mass = np.zeros((batch.n_nodes, slots))
        self.count = np.zeros(batch.n_nodes, np.int32)
        truth_pairs(batch.parent, problem.labels, k, self.pair, self.mass, self.count)
        self.node_start, self.table_start, self.node_gram, self.table_gram = self._grams()
        self.gap = np.full(batch.n_samples, np.inf)
        self.given = np.zeros(batch.n_samples)

    def _grams(self) -> tuple[np.ndarray, ...]:
        """Gram matrices of all samples, or empty ones where a visit is a single step anyway."""
        design, batch = self.problem.design, self.problem.design.batch
        node_start, table_start = (np.zeros(batch.n_samples + 1, np.intp) for _ in range(2))
        gram_sizes(
            batch.node_offsets, batch.parent, design.table_of, design.n_tables, node_start, table_start
        )
        size = node_start[-1] + table_start[-1]
        if self.inner == 1 or size > GRAM_LIMIT:
            return node_start, table_start, np.empty(0), np.empty(0)
        node_gram, table_gram = np.empty(node_start[-1]), np.empty(table_start[-1])
        nodes, edges = self.nodes, self.edges
        gram_matrices(
            batch.node_offsets, batch.parent, design.table_of, design.table_row,
            nodes.indptr, nodes.indices, nodes.data, nodes.shape[1],
            edges.indptr, edges.indices, edges.data, edges.shape[1],
            node_start, table_start, node_gram, table_gram,
        )  # fmt: skip
        return node_start, table_start, node_gram, table_gram

    def visit(self, order: np.ndarray) -> None:
        """Improve the blocks of the samples in ``order``, one after the other."""
        problem = self.problem
        design, batch, k = problem.design, problem.design.batch, problem.n_labels
        node_theta, edge_theta = split_weights(design, self.theta, k)
        node_change, edge_change = split_weights(design, self.change, k)
        nodes, edges = self.nodes, self.edges
        pairwise_visits(
            order, batch.node_offsets, batch.parent, nodes.indptr, nodes.indices, nodes.data, node_theta,
            edges.indptr, edges.indices, edges.data, edge_theta, design.table_of, design.table_row,
            self.turned, self.kinds, problem.constraints.unary_masks(), problem.constraints.pair_masks(),
            problem.cost, problem.node_weight, problem.share / problem.alpha, self.inv_mu, self.inner,
            self.p0, self.r, self.pair, self.mass, self.count, node_change, edge_change,
            self.node_start, self.table_start, self.node_gram, self.table_gram, self.gap, self.given,
        )  # fmt: skip
        if self.pair.shape[1] < k * k and (self.count == self.pair.shape[1]).any():
            room = min(2 * self.pair.shape[1], k * k) - self.pair.shape[1]
            self.pair = np.pad(self.pair, ((0, 0), (0, room)))
            self.mass = np.pad(self.mass, ((0, 0), (0, room)))

    def move_centres(self) -> None:
        """The predictor's centre follows the adversary: p0 <- Proj(p0 - L r / mu)."""
        if self.inv_mu == 0.0:
            return
        offsets = self.problem.design.batch.node_offsets
        cost_t = np.ascontiguousarray(self.problem.cost.T)
        over_samples(
            lambda first, last: move_centres(
                offsets[first], offsets[last], self.p0, self.r, cost_t, self.inv_mu
            ),
            offsets,
            self.problem.n_jobs,
        )

    def bounds(self) -> tuple[float, float]:
        """(primal, dual) at the current point, both recomputed from feasible marginals."""
        problem, design = self.problem, self.problem.design
        batch, k = design.batch, problem.n_labels
        repair_pairs(0, batch.n_samples, batch.node_offsets, batch.parent, self.r, self.pair, self.mass, self.count)
        sums = np.zeros((design.n_tables, k, k))
        pair_sums(
            batch.parent, design.table_of, -problem.node_share, self.pair, self.mass, self.count, sums
        )
        inner = np.flatnonzero(batch.parent >= 0)
        truth = problem.labels
        np.add.at(
            sums, (design.table_of[inner], truth[inner], truth[batch.parent[inner]]), problem.node_share[inner]
        )
        nodes = problem.node_share[:, None] * (problem.truth - self.r)
        self.theta[:] = adjoint(design, nodes, sums, problem.n_jobs) / problem.alpha
        return problem.primal(self.theta, self.p0), problem.dual(self.theta, self.r)


def sparse_rows(matrix: FeatureMatrix) -> SparseRows:
    """The same rows in compressed form."""
    if isinstance(matrix, SparseRows):
        return matrix
    rows = sp.csr_array(matrix)
    return SparseRows(
        rows.indptr.astype(np.intp), rows.indices.astype(np.int32), rows.data, (matrix.shape[0], matrix.shape[1])
    )
