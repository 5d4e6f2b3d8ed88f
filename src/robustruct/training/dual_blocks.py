"""The dual blocks (r_s, q_s) of the samples of a problem, and how visits improve them.

kernels/pairwise.py says how a sample moves. Where a visit is a single step, some samples are looked
at together, by all threads, before they step one after the other: a step has the best length under
the weights as they are, so what other samples did in between costs little, and the result does not
depend on the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from robustruct.constraints import node_kinds
from robustruct.features import FeatureMatrix, SparseRows, adjoint, split_weights
from robustruct.game.atoms import Atoms
from robustruct.game.blocks import Blocks
from robustruct.kernels.atoms import atom_visits
from robustruct.kernels.changes import no_change
from robustruct.kernels.gram import gram_matrices, gram_sizes
from robustruct.kernels.pairwise import pairwise_turns, pairwise_visits
from robustruct.kernels.predictor import move_centres
from robustruct.parallel import n_threads, over_samples, together
from robustruct.training.problem import Problem
from robustruct.training.tuning import Tuning

GRAM_LIMIT = 2**24  # numbers, 128 MiB
LOOKS = 32  # samples looked at together: of 9000 it costs a twentieth more passes, 64 a tenth
TURNS_AT_ONCE = 16  # in one call of a kernel: between calls an interruption is noticed
THREAD_PAYS = 50_000  # additions between two turns


class DualBlocks:
    """Marginals (r, q) of the adversary and centres p0 of the predictor, for every sample."""

    def __init__(self, problem: Problem, tuning: Tuning) -> None:
        self.problem, self.tuning = problem, tuning
        batch, k = problem.design.batch, problem.n_labels
        mu = tuning.mu * np.ptp(problem.cost)
        self.inv_mu = 0.0 if problem.truth_is_predictor or mu == 0 else 1.0 / mu
        self.q: Blocks | Atoms
        if batch.n_chords:
            batch.buckets.check_memory(k)
            self.q = Atoms(batch, problem.labels, k)
        else:
            self.q = Blocks.at(batch, problem.labels, k)
        uniform = np.full((batch.n_nodes, k), 1.0 / k)
        self.p0 = problem.truth if problem.truth_is_predictor else uniform
        self.gap = np.full(batch.n_samples, np.inf)
        self.given = np.zeros(batch.n_samples)

    @cached_property
    def nodes(self) -> SparseRows:
        return sparse_rows(self.problem.design.nodes)

    @cached_property
    def edges(self) -> SparseRows:
        return sparse_rows(self.problem.design.edges)

    @cached_property
    def _layout(self) -> tuple[tuple[np.ndarray, ...], ...]:
        """(feature rows, tables, rules) as the kernels take them."""
        design, rules, x, f = self.problem.design, self.problem.constraints, self.nodes, self.edges
        return (
            (x.indptr, x.indices, x.data, f.indptr, f.indices, f.data),
            (design.table_of, design.table_row, design.table_turned.astype(np.intp)),
            (node_kinds(design), rules.unary_masks(), rules.pair_masks()),
        )

    @cached_property
    def grams(self) -> tuple[np.ndarray, ...]:
        """Gram matrices of all samples, or empty ones where a visit is a single step anyway."""
        design, batch = self.problem.design, self.problem.design.batch
        node_start, table_start = (np.zeros(batch.n_samples + 1, np.intp) for _ in range(2))
        gram_sizes(
            batch.node_offsets, batch.parent, design.table_of, design.n_tables,
            node_start, table_start,
        )  # fmt: skip
        too_large = node_start[-1] + table_start[-1] > GRAM_LIMIT
        if too_large or batch.n_chords:
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

    # ------------------------------------------------------------------------------------- visits

    def cool(self, number: int) -> None:
        """Nothing: the temperature is 0 in every pass."""

    def visit(self, order: np.ndarray, theta: np.ndarray, penalty: float) -> None:
        """Improve the blocks of the samples in ``order``, and θ with them.

        ``penalty``: what (penalty / 2) |θ|² holds θ down by.
        """
        problem, batch = self.problem, self.problem.design.batch
        weights = _by_kind(problem, theta)
        rate = problem.share / penalty
        features, tables, rules = self._layout
        q = self.q
        if isinstance(q, Atoms):
            atom_visits(
                order, batch.node_offsets, batch.chord_offsets, batch.child, batch.parent,
                batch.buckets.arrays, features, *weights, tables, rules, problem.cost,
                problem.node_weight, rate, self.inv_mu, self.tuning.inner, self.p0,
                q.r, *q.lists, self._changes, self.gap, self.given,
            )  # fmt: skip
        elif self.tuning.inner > 1:
            pairwise_visits(
                order, batch.node_offsets, batch.parent, features, *weights, tables, rules,
                problem.cost, problem.node_weight, rate, self.inv_mu, self.tuning.inner, self.p0,
                q.r, q.pair, q.mass, q.count, self._changes, *self.grams, self.gap, self.given,
            )  # fmt: skip
        else:
            at_once = min(LOOKS, max(1, batch.n_samples // 100))
            for first in range(0, len(order), TURNS_AT_ONCE * at_once):
                some = order[first : first + TURNS_AT_ONCE * at_once]
                self._turns(some, at_once, weights, rate)
        q.grow()

    def _turns(
        self,
        order: np.ndarray,
        at_once: int,
        weights: tuple[np.ndarray, np.ndarray],
        rate: np.ndarray,
    ) -> None:
        problem, batch, q = self.problem, self.problem.design.batch, self.q
        assert isinstance(q, Blocks)
        features, tables, rules = self._layout
        counters = np.array([0, 0, min(at_once, len(order))], np.int64)

        def visit(leads: bool, slot_of_table: np.ndarray) -> None:
            pairwise_turns(
                leads, counters, order, at_once, batch.node_offsets, batch.parent, features,
                *weights, tables, rules, problem.cost, problem.node_weight, rate, self.inv_mu,
                self.p0, q.r, q.pair, q.mass, q.count, self._changes, slot_of_table, *self._found,
                self.gap, self.given,
            )  # fmt: skip

        spare = self._spare_slots
        work = min(at_once, len(order)) * self._additions_per_sample
        threads = min(len(spare), at_once, 1 + int(work // THREAD_PAYS))
        together(visit, [(t == 0, spare[t]) for t in range(threads)])

    @cached_property
    def _found(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(N,) y, w and tilt of the samples last looked at."""
        n = self.problem.design.batch.n_nodes
        return np.empty(n, np.intp), np.empty(n, np.intp), np.empty(n)

    @cached_property
    def _changes(self) -> tuple[tuple[np.ndarray, ...], ...]:
        """Scratch of a step: how it changes node and edge weights."""
        batch, k = self.problem.design.batch, self.problem.n_labels
        entries = np.diff(self.nodes.indptr[batch.node_offsets]).max()
        edges = (np.diff(batch.node_offsets) + np.diff(batch.chord_offsets)).max()
        edges *= np.diff(self.edges.indptr).max()
        return (
            no_change(self.nodes.shape[1], entries, k),
            no_change(self.edges.shape[1], edges, k * k),
        )

    @cached_property
    def _spare_slots(self) -> list[np.ndarray]:
        """Scratch of each thread."""
        n_tables = self.problem.design.n_tables
        return [np.full(n_tables, -1, np.intp) for _ in range(n_threads(self.problem.n_jobs))]

    @cached_property
    def _additions_per_sample(self) -> float:
        k, batch = self.problem.n_labels, self.problem.design.batch
        return (k * len(self.nodes.data) + k * k * batch.n_nodes) / batch.n_samples

    # ------------------------------------------------------------------------- what they amount to

    def move_predictors(self) -> None:
        """The centres p0 go to where the predictor is."""
        if self.inv_mu == 0.0:
            return
        offsets = self.problem.design.batch.node_offsets
        cost_t = np.ascontiguousarray(self.problem.cost.T)
        over_samples(
            lambda first, last: move_centres(
                offsets[first], offsets[last], self.p0, self.q.r, cost_t, self.inv_mu
            ),
            offsets,
            self.problem.n_jobs,
        )

    def shared_gap(self) -> float:
        """The samples' part of the duality gap, as the last visits saw it."""
        return float(self.problem.share @ (self.gap + self.given))

    def moments(self, out: np.ndarray) -> None:
        """Into ``out``: G(q) from the marginals, after these were made exactly consistent."""
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
        adjoint(design, Excess(truth, q.r, share), sums, problem.n_jobs, out)

    def gain(self) -> float:
        """The part of the dual that is not the penalty."""
        return self.problem.gain(self.q.r)

    def regret(self, theta: np.ndarray) -> float:
        """The part of the primal that is not the penalty, at p0."""
        return self.problem.regret(theta, self.p0)

    # ------------------------------------------------------------------------------- keeping them

    def state(self) -> dict[str, np.ndarray]:
        """What visits have changed; `restore` takes it back."""
        q = self.q.state()
        return {"p0": self.p0, "gap": self.gap, "given": self.given, **q}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from an earlier `state`."""
        self.p0[:], self.gap[:], self.given[:] = state["p0"], state["gap"], state["given"]
        self.q.restore(state)


@dataclass(frozen=True, eq=False)
class Excess:
    """share_i (e_{y_i} − r_i), some rows at a time."""

    labels: np.ndarray
    r: np.ndarray
    share: np.ndarray

    def __getitem__(self, rows: slice, /) -> np.ndarray:
        share = self.share[rows]
        excess = self.r[rows] * -share[:, None]
        excess[np.arange(len(share)), self.labels[rows]] += share
        return excess


def _by_kind(problem: Problem, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Node weights (d, k) and edge weights (d_e, k²)."""
    nodes, edges = split_weights(problem.design, theta, problem.n_labels)
    return nodes, edges.reshape(-1, problem.n_labels**2)


def sparse_rows(matrix: FeatureMatrix) -> SparseRows:
    """The same rows in compressed form."""
    if isinstance(matrix, SparseRows):
        return matrix
    rows = sp.csr_array(matrix)
    indptr, indices = rows.indptr.astype(np.intp), rows.indices.astype(np.int32)
    return SparseRows(indptr, indices, rows.data, (matrix.shape[0], matrix.shape[1]))
