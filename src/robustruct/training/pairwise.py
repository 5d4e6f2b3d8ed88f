"""Doubly proximal block-coordinate ascent with pairwise steps: training at the price of an SSVM.

The dual is maximised over the adversary's marginals q_s, one sample at a time; kernels/pairwise.py
says how a sample moves. Two centres follow once a pass, as in the method of multipliers:

* p0, the predictor's: p = Proj(p0 − L r / mu), so that the dual is smooth although a game is not;
* z, the weights': the objective gets (kappa/2)|θ − z|² more, so that a small alpha is no harder
  than a large one. Then θ = (G(q) + kappa z) / (alpha + kappa), with the moments
  G(q) = Σ_s share_s (Φ_s(y_s) − Φ_s(q_s)).

With p0 and z where they are, the duality gap falls into two parts that are known at every moment:

    primal(θ, p) − dual(q)  =  Σ_s share_s gap_s  +  kappa²/(2 alpha) |θ − z|²

kappa is steered to keep the second part a fixed, small share of the first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from robustruct.constraints import node_kinds
from robustruct.features import FeatureMatrix, SparseRows, adjoint, split_weights
from robustruct.game.atoms import Atoms
from robustruct.game.blocks import Blocks
from robustruct.graphs import Batch
from robustruct.kernels.atoms import atom_visits
from robustruct.kernels.gram import gram_matrices, gram_sizes
from robustruct.kernels.pairwise import pairwise_visits
from robustruct.kernels.predictor import move_centres
from robustruct.kernels.proximal import follow_centre, squared_distance
from robustruct.parallel import over_samples
from robustruct.training.fit import Progress
from robustruct.training.problem import Problem

GRAM_LIMIT = 2**24  # numbers, 128 MiB
PULL = 3.0  # kappa / alpha at the start
RISE, FALL = 1.2, 1.02  # by how much kappa changes in a pass; fast falls make the end unsteady
FULL_PASS_EVERY = 5
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


def tuning_for(problem: Problem) -> Tuning:
    """Sparse when weights are shared little, among samples and among the nodes of one.

    A sample that touches few of the weights hardly disturbs the others, but neighbours that have
    most features in common disturb each other. Words of a sentence have a third in common,
    candidates for a role 0.4, nested phrases 0.6 to 0.7: on these SPARSE took more than six times
    as long to a gap of 2 % where it was worst, on the others DENSE took at most twice as long.
    """
    nodes, batch = problem.design.nodes, problem.design.batch
    if isinstance(nodes, np.ndarray):
        return DENSE
    touched = len(nodes.data) / batch.n_samples
    few = touched < 0.1 * nodes.shape[1]
    return SPARSE if few and in_common(nodes, batch) < 0.5 else DENSE


def in_common(nodes: SparseRows, batch: Batch) -> float:
    """What neighbours share of their features: 0 nothing, 1 when they are alike.

    Sum of 2 x·x' over sum of |x|² + |x'|² for the edges (x, x'), of which the first tell enough.
    """
    rows = nodes.to_scipy()
    slots = np.flatnonzero(batch.parent >= 0)[:MANY_EDGES]
    child, parent = rows[batch.child[slots]], rows[batch.parent[slots]]
    sizes = float(np.sum(child.data**2) + np.sum(parent.data**2))
    return 2 * float(child.multiply(parent).sum()) / sizes if sizes else 0.0


class PairwiseAscent:
    """Dual blocks (r, q) of all samples, both centres, and the weights they imply."""

    def __init__(self, problem: Problem, *, centre: np.ndarray | None = None) -> None:
        self.problem = problem
        batch, k = problem.design.batch, problem.n_labels
        self.tuning = tuning_for(problem)
        mu = self.tuning.mu * np.ptp(problem.cost)
        self.inv_mu = 0.0 if problem.truth_is_predictor or mu == 0 else 1.0 / mu
        self.nodes = sparse_rows(problem.design.nodes)
        self.edges = sparse_rows(problem.design.edges)
        self.kinds = node_kinds(problem.design)
        self.turned = problem.design.table_turned.astype(np.intp)
        self.kappa = PULL * problem.alpha
        self.n_passes, self.last_fall, self.least_gap, self.eagerness = 0, 0, np.inf, 1.0
        self.centre = np.zeros(problem.n_weights) if centre is None else centre.copy()
        self.theta = self.kappa / (problem.alpha + self.kappa) * self.centre
        self.change = np.zeros_like(self.theta)
        self.q: Blocks | Atoms
        if batch.n_chords:
            batch.buckets.check_memory(k)
            self.q = Atoms(batch, problem.labels, k)
        else:
            self.q = Blocks.at(batch, problem.labels, k)
        self.p0 = problem.truth.copy()
        if not problem.truth_is_predictor:
            self.p0[:] = 1.0 / k
        self.node_start, self.table_start, self.node_gram, self.table_gram = self._grams()
        self.gap = np.full(batch.n_samples, np.inf)
        self.given = np.zeros(batch.n_samples)

    def _grams(self) -> tuple[np.ndarray, ...]:
        """Gram matrices of all samples, or empty ones where a visit is a single step anyway."""
        design, batch = self.problem.design, self.problem.design.batch
        node_start, table_start = (np.zeros(batch.n_samples + 1, np.intp) for _ in range(2))
        gram_sizes(
            batch.node_offsets, batch.parent, design.table_of, design.n_tables,
            node_start, table_start,
        )  # fmt: skip
        too_large = node_start[-1] + table_start[-1] > GRAM_LIMIT
        if self.tuning.inner == 1 or too_large or batch.n_chords:
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
        nodes, edges, q = self.nodes, self.edges, self.q
        masks = problem.constraints.unary_masks(), problem.constraints.pair_masks()
        rate = problem.share / (problem.alpha + self.kappa)
        if isinstance(q, Atoms):
            atom_visits(
                order, batch.node_offsets, batch.chord_offsets, batch.child, batch.parent,
                batch.buckets.arrays, (nodes.indptr, nodes.indices, nodes.data, edges.indptr,
                edges.indices, edges.data), node_theta, edge_theta.reshape(-1, k * k),
                (design.table_of, design.table_row, self.turned), (self.kinds, *masks),
                problem.cost, problem.node_weight, rate, self.inv_mu, self.tuning.inner, self.p0,
                q.r, *q.lists, node_change, edge_change.reshape(-1, k * k), self.gap, self.given,
            )  # fmt: skip
        else:
            pairwise_visits(
                order, batch.node_offsets, batch.parent, nodes.indptr, nodes.indices, nodes.data,
                node_theta, edges.indptr, edges.indices, edges.data, edge_theta.reshape(-1, k * k),
                design.table_of, design.table_row, self.turned, self.kinds, *masks, problem.cost,
                problem.node_weight, rate, self.inv_mu, self.tuning.inner, self.p0, q.r, q.pair,
                q.mass, q.count, node_change, edge_change.reshape(-1, k * k), self.node_start,
                self.table_start, self.node_gram, self.table_gram, self.gap, self.given,
            )  # fmt: skip
        q.grow()

    def gap_parts(self) -> tuple[float, float]:
        """(of the samples, of the centre): what the last visits say about the duality gap."""
        away = squared_distance(self.theta, self.centre)
        outer = self.kappa**2 / (2 * self.problem.alpha) * away
        return float(self.problem.share @ (self.gap + self.given)), outer

    def move_centres(self) -> None:
        """Both centres follow; kappa is steered by the balance of the two parts of the gap."""
        if self.inv_mu > 0.0:
            offsets = self.problem.design.batch.node_offsets
            cost_t = np.ascontiguousarray(self.problem.cost.T)
            over_samples(
                lambda first, last: move_centres(
                    offsets[first], offsets[last], self.p0, self.q.r, cost_t, self.inv_mu
                ),
                offsets,
                self.problem.n_jobs,
            )
        kappa = self._steered(*self.gap_parts())
        follow_centre(self.theta, self.centre, self.problem.alpha, self.kappa, kappa)
        self.kappa = kappa

    def _steered(self, samples: float, outer: float) -> float:
        """The next kappa, given the two parts of the gap.

        A large kappa leaves the predictor and the adversary alone with each other, and these then
        go round in circles. So when the gap stops falling, kappa is halved, and from then on
        steered more gently: in the end it rests, and with kappa at rest the gap closes.
        """
        self.n_passes += 1
        if samples < 0.9 * self.least_gap:
            self.least_gap, self.last_fall = samples, self.n_passes
        elif self.n_passes - self.last_fall > max(8, 0.1 * self.n_passes):
            self.least_gap, self.last_fall = samples, self.n_passes
            self.eagerness /= 2
            return max(self.kappa / 2, min(self.kappa, PULL * self.problem.alpha))
        wanted = self.tuning.balance * samples
        if outer > 2 * wanted:
            return self.kappa / FALL**self.eagerness
        if outer < wanted / 2:
            return self.kappa * RISE**self.eagerness
        return self.kappa

    @property
    def weights(self) -> np.ndarray:
        """What has been learnt so far."""
        return self.theta

    def moments(self) -> np.ndarray:
        """G(q), as tracked by the steps taken."""
        return (self.problem.alpha + self.kappa) * self.theta - self.kappa * self.centre

    def follow(self, moments: np.ndarray) -> None:
        """θ from G(q) and the centre."""
        self.theta[:] = (moments + self.kappa * self.centre) / (self.problem.alpha + self.kappa)

    def recomputed_moments(self) -> np.ndarray:
        """G(q) from the marginals themselves, after these were made exactly consistent."""
        problem, design = self.problem, self.problem.design
        batch, k = design.batch, problem.n_labels
        q = self.q
        q.repair()
        sums = np.zeros((design.n_tables, k, k))
        share, truth = problem.node_share, problem.labels
        q.table_sums(design.table_of, -share, sums)
        slots = np.flatnonzero(batch.parent >= 0)
        child, parent = batch.child[slots], batch.parent[slots]
        np.add.at(sums, (design.table_of[slots], truth[child], truth[parent]), share[child])
        return adjoint(design, share[:, None] * (problem.truth - q.r), sums, problem.n_jobs)

    def plain_bounds(self) -> tuple[float, float]:
        """(primal at θ and p0, dual at the truth): valid even if a visit was interrupted.

        The blocks q may then be half grown, and no kernel may look at them.
        """
        nothing = np.zeros_like(self.theta)
        dual = self.problem.dual(nothing, self.problem.truth)
        return self.problem.primal(self.theta, self.p0), dual

    def bounds(self) -> tuple[float, float]:
        """(primal at θ and p0, dual at q), both recomputed from feasible points."""
        moments = self.recomputed_moments()
        self.follow(moments)
        dual = self.problem.dual(moments / self.problem.alpha, self.q.r)
        return self.problem.primal(self.theta, self.p0), dual


def sparse_rows(matrix: FeatureMatrix) -> SparseRows:
    """The same rows in compressed form."""
    if isinstance(matrix, SparseRows):
        return matrix
    rows = sp.csr_array(matrix)
    indptr, indices = rows.indptr.astype(np.intp), rows.indices.astype(np.int32)
    return SparseRows(indptr, indices, rows.data, (matrix.shape[0], matrix.shape[1]))


def fit_pairwise(
    problem: Problem,
    progress: Progress,
    max_iter: int,
    rng: np.random.Generator,
    ascent: PairwiseAscent | None = None,
) -> PairwiseAscent:
    """Passes over the samples until ``progress`` is content or ``max_iter`` is reached.

    Certificates cost two passes each: the first is made after the first pass that revisits every
    sample, later ones when the gap seen by the visits says that they should succeed, and else when
    the number of passes has doubled.
    """
    ascent = PairwiseAscent(problem) if ascent is None else ascent
    before = ascent.n_passes
    try:
        _passes(ascent, progress, max_iter, rng)
    except KeyboardInterrupt:
        if ascent.n_passes > before and not progress.history:  # keep what whole passes have found
            progress.report(ascent.n_passes - before, ascent.weights, *ascent.plain_bounds())
        raise
    return ascent


def _passes(
    ascent: PairwiseAscent, progress: Progress, max_iter: int, rng: np.random.Generator
) -> None:
    n_samples = ascent.problem.design.batch.n_samples
    next_check, optimism = progress.check_every or FULL_PASS_EVERY, 1.0
    for n_iter in range(1, max_iter + 1):
        order = rng.permutation(n_samples)
        if n_iter % FULL_PASS_EVERY and n_iter > 1:
            order = order[ascent.gap[order] >= ascent.tuning.skip * ascent.gap.mean()]
        ascent.visit(order)
        estimate = sum(ascent.gap_parts())
        scale = progress.scale(min(progress.primal, progress.problem.untrained))
        progress.passed(n_iter, optimism * estimate / scale)
        promising = bool(progress.history) and optimism * estimate <= progress.tol * scale
        if promising or n_iter in (next_check, max_iter):
            next_check = max(next_check, n_iter + min(n_iter, progress.check_every or n_iter))
            primal, dual = ascent.bounds()
            if progress.report(n_iter, ascent.weights, primal, dual):
                break
            optimism = max((progress.primal - progress.dual) / max(estimate, 1e-300), 0.5)
        ascent.move_centres()
