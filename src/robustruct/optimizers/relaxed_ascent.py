"""Training with games relaxed to the local polytope, for graphs too wide to be solved exactly.

The edges of a sample are split into forests; each forest is a sample of its own, with the features
and weights of the nodes divided by the number of forests. Marginals that are exact on each forest
and equal on the nodes they share make up the local polytope. That they are equal is a moment like
any other: node i has a feature that is 1 in one copy of it and -1 in the last, its weights are the
multipliers of the constraint. They carry no penalty: where weights are drawn to 0 by alpha, these
are drawn to where they were after the last pass (method of multipliers).

The primal bound needs no agreement between copies. For the dual bound the copies' node marginals
are averaged, and edges changed as little as need be to agree with them: of all edge marginals that
score best, only some have the moments that the weights call for.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from robustruct.core.elimination import peel_forests
from robustruct.core.relaxation import adjust_edges
from robustruct.core.vectors import centre_gap, dual_penalty, penalty
from robustruct.errors import IncompatibleError
from robustruct.features import Design, adjoint, labelling_features, sum_over_tables
from robustruct.features.matrix import SparseRows, sparse_rows, take_rows
from robustruct.graphs import Batch
from robustruct.objectives.adversarial import Problem
from robustruct.optimizers.dual_ascent import CentredAscent
from robustruct.optimizers.dual_variables import DualVariables
from robustruct.optimizers.local_shards import LocalShards
from robustruct.optimizers.mixed_bounds import MixedBounds
from robustruct.optimizers.tuning import UNSCALED, tuning_for

AGREEMENT = 5.0  # 3 to 10 took 42 to 54 passes to a gap of 1 % on grids, 0.3 took 170 to 260

UNPLACED = 1e-9  # mass that forbidden pairs may keep from edges for a dual bound to be taken


class ForestCopies:
    """Every sample of a batch as forests that share its nodes."""

    def __init__(self, problem: Problem, penalty: float) -> None:
        """``penalty``: alpha + kappa at the start."""
        self.whole, self.penalty = problem, penalty
        batch = problem.design.batch
        structures, edge_of, sample_of, copy_of = [], [], [], []
        for s in range(batch.n_samples):
            first, last = batch.edge_offsets[s : s + 2]
            edges = np.ascontiguousarray(batch.user_edges[first:last] - batch.node_offsets[s])
            n_nodes = int(batch.node_offsets[s + 1] - batch.node_offsets[s])
            forest = np.empty(len(edges), np.intp)
            for t in range(max(peel_forests(n_nodes, len(edges), edges, forest), 1)):
                chosen = np.flatnonzero(forest == t)
                structures.append((n_nodes, np.ascontiguousarray(edges[chosen])))
                edge_of.append(first + chosen)
                sample_of.append(s)
                copy_of.append(t)
        self.batch = Batch.build(structures)
        self.sample_of = np.array(sample_of, np.intp)
        self.edge_of = np.concatenate(edge_of)
        sizes = np.diff(self.batch.node_offsets)
        shift = np.repeat(batch.node_offsets[self.sample_of] - self.batch.node_offsets[:-1], sizes)
        position = np.empty(batch.n_nodes, np.intp)
        position[batch.node_of] = np.arange(batch.n_nodes)
        self.node_of = position[self.batch.node_of + shift]
        """(copied nodes,) the position of each in the batch of the whole samples."""
        self.copy = np.repeat(copy_of, sizes)
        """(copied nodes,) which copy of its node it is."""
        self.n_copies = np.bincount(self.node_of, minlength=batch.n_nodes)
        """(N,) in how many copies each node comes."""

    def problem(self) -> Problem:
        """Training on the copies; its weights are those of the whole, then the multipliers."""
        whole, design, part = self.whole, self.whole.design, 1.0 / self.n_copies[self.node_of]
        rows = sparse_rows(take_rows(design.nodes, self.node_of))
        shape = (self.batch.n_nodes, design.n_node_features)
        real = sp.csr_array((rows.data, rows.indices, rows.indptr), shape=shape)
        joined = sp.hstack([sp.diags_array(part) @ real, self._agreement()], format="csr")
        nodes = SparseRows(
            joined.indptr.astype(np.intp),
            joined.indices.astype(np.int32),
            joined.data,
            (joined.shape[0], joined.shape[1]),
        )
        slots = design.batch.slot_of_edge[self.edge_of]
        row_of = design.table_row[design.table_of[slots]]
        return replace(
            whole,
            design=Design.build(
                self.batch, nodes, design.edges, row_of, design.type_of[self.node_of]
            ),
            labels=whole.labels[self.node_of],
            node_weight=whole.node_weight[self.node_of] * part,
            share=whole.share[self.sample_of],
        )

    def _agreement(self) -> sp.csr_array:
        """Columns that are 1 in one copy of a node and -1 in its last copy."""
        more = self.n_copies - 1
        first_column = np.cumsum(more) - more
        last = self.copy == more[self.node_of]
        others = np.flatnonzero(~last)
        plus = first_column[self.node_of[others]] + self.copy[others]
        ends = np.flatnonzero(last)
        count = more[self.node_of[ends]]
        before = np.cumsum(count) - count
        minus = np.repeat(first_column[self.node_of[ends]] - before, count) + np.arange(count.sum())
        rows = np.concatenate([others, np.repeat(ends, count)])
        values = np.concatenate([np.ones(len(others)), -np.ones(len(minus))])
        # A step of the multipliers should change scores by about the disagreement times the cost,
        # however the penalty and the samples' shares scale the other steps.
        scale = AGREEMENT * np.ptp(self.whole.cost) * self.penalty
        share = self.whole.share[self.sample_of]
        size = np.sqrt(scale / np.where(share > 0, share, 1.0))
        values *= np.repeat(size, np.diff(self.batch.node_offsets))[rows]
        shape = (self.batch.n_nodes, int(more.sum()))
        return sp.csr_array((values, (rows, np.concatenate([plus, minus]))), shape=shape)

    def mean(self, values: np.ndarray) -> np.ndarray:
        """(N, k) means over the copies of each node."""
        total = np.zeros((len(self.n_copies), values.shape[1]))
        np.add.at(total, self.node_of, values)
        return total / self.n_copies[:, None]

    def edges(self, values: np.ndarray) -> np.ndarray:
        """(slots, k, k) of the whole, from those of the copies, where each edge is in one."""
        batch = self.whole.design.batch
        by_edge = np.empty((batch.n_edges, *values.shape[1:]))
        by_edge[self.edge_of] = self.batch.edges_to_user(values)
        return batch.edges_from_user(by_edge)


class RelaxedAscent(CentredAscent):
    """Pairwise ascent over forests whose nodes must agree."""

    def __init__(self, problem: Problem, *, centre: np.ndarray | None = None) -> None:
        rules = problem.constraints
        if np.isinf(rules.starts).any() or np.isinf(rules.ends).any():
            raise IncompatibleError(
                "rules about the ends of sequences cannot be kept by inference='relaxed'; leave "
                "`constraints` out, or list transitions: constraints=[(label, next label), ...]."
            )
        tuning = tuning_for(problem)
        self.whole = tuning.scales.scaled(problem)
        self.whole_scales = tuning.scales
        self.copies = ForestCopies(self.whole, problem.alpha + tuning.pull)
        inside = self.copies.problem()
        cut = problem.design.n_node_features * problem.n_labels
        end = inside.design.n_node_features * problem.n_labels
        self.real = np.ones(inside.n_weights, bool)
        """(weights,) False for multipliers."""
        self.real[cut:end] = False
        self.origin = np.zeros(inside.n_weights)
        """Where the penalty draws the weights."""
        shards = LocalShards([inside], replace(tuning, scales=UNSCALED))
        super().__init__(shards)
        if not tuning.scales.trivial:
            self.squares = np.ones(inside.n_weights // problem.n_labels)
            self.squares[self.real[:: problem.n_labels]] = tuning.scales.squares
        if centre is not None:
            self.centre[self.real] = tuning.scales.divided(centre)
            self._settle()
        dual = shards.shards[0].dual
        assert isinstance(dual, DualVariables)
        self.dual = dual

    def _mixed_bounds(self) -> MixedBounds:
        whole = self.whole
        given = self.whole_scales.squares, whole.alpha, whole.unavoidable, whole.n_weights
        return MixedBounds(*given)

    @property
    def weights(self) -> np.ndarray:
        return self.whole_scales.unscaled(self.theta[self.real])

    def gap_parts(self) -> tuple[float, float]:
        theta, centre = self.theta[self.real], self.centre[self.real]
        squares = self.whole_scales.squares
        return self.seen.gap, centre_gap(theta, centre, squares, self.alpha, self.kappa)

    def moments(self) -> np.ndarray:
        return super().moments() - self.alpha * self.origin

    def _settle(self) -> float:
        self.theta += self.alpha * self.origin
        return super()._settle()

    def move_centres(self) -> None:
        multipliers = self.theta[~self.real]
        super().move_centres()
        self.theta[:] = self.moments()
        self.origin[~self.real] = multipliers
        self._settle()

    def state(self) -> dict[str, np.ndarray]:
        return {**super().state(), "origin": self.origin}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        self.origin[:] = state["origin"]
        super().restore(state)

    def bounds(self) -> tuple[float, float]:
        self.follow()
        problem, design, k = self.whole, self.whole.design, self.whole.n_labels
        weights, batch = self.theta[self.real], self.whole.design.batch
        primal = penalty(weights, self.whole_scales.squares, self.alpha)
        primal += self.dual.problem.regret(self.theta, self.dual.p0)
        ψ, r = problem.scores(weights), self.copies.mean(self.dual.q.r)
        q = self.copies.edges(self.dual.q.dense_edges())
        slots = np.flatnonzero(batch.parent >= 0)
        unplaced = np.empty(1)
        adjust_edges(len(slots), slots, batch.structure, ψ.arrays, r, q, unplaced)
        missing = float(unplaced[0])
        if missing > UNPLACED:
            return primal, -np.inf  # some pair of labels is forbidden, and margins ask for it
        share = problem.node_share
        moments = labelling_features(design, problem.labels, k, problem.share)
        sums = sum_over_tables(design, share[batch.child, None, None] * q)
        moments -= adjoint(design, share[:, None] * r, sums, problem.n_jobs)
        held_down = dual_penalty(moments, self.whole_scales.squares, self.alpha)
        # What forbidden pairs keep from being placed is charged at the most that it can earn.
        dearest = np.abs(problem.cost).max() * problem.node_weight.max()
        earned = dearest + max(np.abs(x[np.isfinite(x)]).max() for x in (ψ.unary, ψ.tables))
        gain = problem.gain(r) - missing * float(earned)
        return primal, self._dual(gain, held_down, lambda: moments)
