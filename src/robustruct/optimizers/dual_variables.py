"""The dual variables (r_s, q_s) of the samples of a problem, and how visits improve them.

core/ascent.c says how a sample moves. The moves of some samples are found together, by
all threads, before they step one after the other: a step has the best length under the weights as
they are, so what other samples did in between costs little, and the result does not depend on the
number of threads.
"""

from __future__ import annotations

import numpy as np

from robustruct._lazy import cached_property
from robustruct.core.ascent import (
    move_centres,
    row_products,
    visit_cyclic_samples,
    visit_samples,
)
from robustruct.core.structs import (
    Ascent,
    Design,
    Features,
    JunctionTrees,
    KeptRows,
    PendingMoves,
    Predictor,
    Products,
    Rows,
    Rules,
    SampleScores,
    TableRows,
    Visits,
    WeightChange,
    WeightChanges,
    Weights,
)
from robustruct.features import SparseRows, adjoint, split_weights
from robustruct.features.matrix import sparse_rows
from robustruct.game.adversaries import EdgePairs, LabellingMixtures
from robustruct.objectives.adversarial import Excess, Problem, even_predictor, stakes
from robustruct.optimizers.shards import PassSpec
from robustruct.optimizers.tuning import Tuning
from robustruct.parallel import n_threads, over_samples, together

PRODUCTS_LIMIT = 2**24  # numbers, 128 MiB
TOGETHER = 32  # samples whose moves are found together: of 9000 it costs a twentieth more passes
SAMPLES_A_CALL = 512  # of a kernel, about: between calls an interruption is noticed
THREAD_PAYS = 50_000  # additions for the samples whose moves are found together


class DualVariables:
    """Marginals (r, q) of the adversary and centres p0 of the predictor, for every sample."""

    def __init__(self, problem: Problem, tuning: Tuning) -> None:
        self.problem, self.tuning = problem, tuning
        batch, k = problem.design.batch, problem.n_labels
        stake = stakes(problem.cost)
        held = problem.truth_is_predictor or not stake.any()  # then no answer is better
        # Labels that can change the cost more are held more strongly, so that all move alike.
        self.inv_mu = np.zeros(k) if held else 1.0 / (tuning.mu * stake)
        self.q: EdgePairs | LabellingMixtures
        if batch.n_chords:
            batch.buckets.check_memory(k)
            self.q = LabellingMixtures(batch, problem.labels, k)
        else:
            self.q = EdgePairs.at(batch, problem.labels, k)
        self.p0 = problem.held if problem.truth_is_predictor else even_predictor(problem)
        self.gap = np.full(batch.n_samples, np.inf)
        self.predictor_regret = np.zeros(batch.n_samples)
        self.kept: KeptRows | None = None
        """Where visits keep the rows of node features' weights that they change, if anywhere."""
        self._held: tuple[float, Predictor] | None = None
        """mu, and what the predictor is with it."""
        self.pace: np.ndarray | None = None
        """How many times as far as a step says each row of θ moves, where that is not once."""

    @cached_property
    def nodes(self) -> SparseRows:
        return sparse_rows(self.problem.design.nodes)

    @cached_property
    def edges(self) -> SparseRows:
        return sparse_rows(self.problem.design.edges)

    @cached_property
    def _design(self) -> Design:
        """What scores the samples, as the kernels take it."""
        design, rules, x, f = self.problem.design, self.problem.constraints, self.nodes, self.edges
        return Design(
            Features(Rows(x.indptr, x.indices, x.data), Rows(f.indptr, f.indices, f.data)),
            TableRows(design.table_of, design.table_row, design.table_transposed.astype(np.intp)),
            Rules(*self.problem.label_masks, rules.pairs.flatten()),
        )

    def begin_at(self, theta: np.ndarray) -> None:
        """Adversaries of single labellings stay at the truth, as the best ones have no moments."""

    def rebased(self, problem: Problem) -> None:
        """Go on with another distribution in the truth's place."""
        self.problem = problem

    def _predictor(self, mu: float) -> Predictor:
        if self._held is None or self._held[0] != mu:
            problem = self.problem
            given = problem.cost, self.inv_mu / mu, problem.node_weight, self.p0
            self._held = mu, Predictor.of(*given)
        return self._held[1]._replace(centre=self.p0)

    @cached_property
    def products(self) -> Products:
        """Products of the feature rows of every sample; none if they are too many.

        Made when visits first take several steps: fewer have no use for them.
        """
        design, batch = self.problem.design, self.problem.design.batch
        node_start, table_start = (np.zeros(batch.n_samples + 1, np.intp) for _ in range(2))
        sizes, slots = np.diff(batch.node_offsets), np.flatnonzero(batch.parent >= 0)
        sample_of = np.repeat(np.arange(batch.n_samples), sizes)[slots]
        pairs = np.unique(sample_of * design.n_tables + design.table_of[slots])
        distinct = np.bincount(pairs // design.n_tables, minlength=batch.n_samples)
        np.cumsum(sizes**2, out=node_start[1:])
        np.cumsum(distinct**2, out=table_start[1:])
        if node_start[-1] + table_start[-1] > PRODUCTS_LIMIT:
            return Products.none(batch.n_samples)
        nodes, tables = np.empty(node_start[-1]), np.empty(table_start[-1])
        products = Products(node_start, table_start, nodes, tables)
        width = max(self.nodes.shape[1], self.edges.shape[1])
        row_products(batch.structure, self._design.features, self._design.tables, width, products)
        return products

    # ------------------------------------------------------------------------------------- visits

    def working(self, theta: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
        """Visits take θ as it is."""
        return theta

    def put_back(self, weights: np.ndarray, theta: np.ndarray, rows: np.ndarray | None) -> None:
        """They have moved θ itself."""

    def visit(self, order: np.ndarray, theta: np.ndarray, spec: PassSpec) -> None:
        """Improve the adversaries of samples ``order``, and θ with them."""
        problem, batch, q = self.problem, self.problem.design.batch, self.q
        # Products of features know nothing of paces.
        several = spec.steps > 1 and not batch.n_chords and self.pace is None
        products = self.products if several else Products.none(batch.n_samples)
        rate = problem.share / spec.penalty
        visits = Visits(spec.steps, rate, products, self.gap, self.predictor_regret)
        design, weights = self._design, _by_kind(problem, theta)
        predictor = self._predictor(spec.mu)
        changes = self._changes
        if self.kept is not None:
            changes = changes._replace(node=changes.node._replace(kept=self.kept))
        if self.pace is not None:
            d = self.nodes.shape[1]
            of_edges = self.pace[d :: problem.n_labels].copy()  # which have a row for each label
            node = changes.node._replace(pace=self.pace[:d])
            changes = changes._replace(node=node, edge=changes.edge._replace(pace=of_edges))
        shared = self._pending, self._buffers, changes
        given = Ascent(batch.structure, design, weights, predictor, visits, *shared)
        order = np.ascontiguousarray(order)
        # Whole groups only: another grouping of the samples would give other weights.
        a_call = self._at_once * (SAMPLES_A_CALL // self._at_once)
        for first in range(0, len(order), a_call):
            some = order[first : first + a_call]
            if isinstance(q, LabellingMixtures):
                visit_cyclic_samples(some, len(some), given, self._trees, q.arrays)
                continue
            self._pending.begin(len(some))
            threads = range(self._n_threads(len(some)))
            together(visit_samples, [(t, some, len(some), given, q.arrays) for t in threads])
        q.grow()  # here, as kernels cannot allocate what outlives them

    @cached_property
    def _at_once(self) -> int:
        """How many samples are worked on together."""
        # One in a hundred at most: the others' moves are found under weights that are still right.
        return min(TOGETHER, max(1, self.problem.design.batch.n_samples // 100))

    def _n_threads(self, n_samples: int) -> int:
        """How many threads are worth it for some samples."""
        k, batch = self.problem.n_labels, self.problem.design.batch
        additions = (k * len(self.nodes.data) + k * k * batch.n_nodes) / batch.n_samples
        at_once = min(self._at_once, n_samples)
        wanted = min(at_once, 1 + int(at_once * additions // THREAD_PAYS))
        return min(wanted, n_threads(self.problem.n_jobs))

    @cached_property
    def _pending(self) -> PendingMoves:
        """What threads share about the samples that are worked on together."""
        return PendingMoves.empty(self._at_once, self.problem.design.batch.largest[0])

    @cached_property
    def _buffers(self) -> SampleScores:
        """For the scores of these samples, or of every thread's if a visit is one step."""
        n = max(n_threads(self.problem.n_jobs), self._at_once)
        problem = self.problem
        return SampleScores.empty(
            n, *self.problem.design.batch.largest, problem.design.n_tables, problem.n_labels
        )

    @cached_property
    def _trees(self) -> JunctionTrees:
        """Over which samples with cycles are solved."""
        design = self.problem.design
        return JunctionTrees(design.batch.parent, design.table_of, *design.batch.buckets.arrays)

    @cached_property
    def _changes(self) -> WeightChanges:
        batch, k = self.problem.design.batch, self.problem.n_labels
        entries = np.diff(self.nodes.indptr[batch.node_offsets]).max()
        edges = batch.largest[1] * np.diff(self.edges.indptr).max()
        return WeightChanges(
            WeightChange.none(self.nodes.shape[1], entries, k),
            WeightChange.none(self.edges.shape[1], edges, k * k),
        )

    # ------------------------------------------------------------------------- what they amount to

    def move_predictors(self, mu: float) -> None:
        """The centres p0 go to where the predictor is."""
        if not self.inv_mu.any():
            return
        offsets, predictor = self.problem.design.batch.node_offsets, self._predictor(mu)
        rules = self._design.rules
        over_samples(
            lambda first, last: move_centres(
                offsets[first], offsets[last], predictor, rules, self.q.r
            ),
            offsets,
            self.problem.n_jobs,
        )

    def shared_gap(self) -> float:
        """The samples' part of the duality gap, as the last visits saw it."""
        return float(self.problem.share @ (self.gap + self.predictor_regret))

    def predictor_gap(self) -> float:
        """The part of it that predictors give away."""
        return float(self.problem.share @ self.predictor_regret)

    def shared_regret(self) -> float:
        """Visits do not see the primal."""
        return np.inf

    def moments(self, out: np.ndarray) -> None:
        """Into ``out``: G(q) from the marginals, after these were made exactly consistent."""
        problem, design = self.problem, self.problem.design
        batch, k = design.batch, problem.n_labels
        q = self.q
        q.repair()
        sums = np.zeros((design.n_tables, k, k))
        share, truth = problem.node_share, problem.labels
        q.table_sums(design.table_of, -share, sums)
        # The truth minus q: on edges here, on nodes in `Excess`, row by row to save memory.
        slots = np.flatnonzero(batch.parent >= 0)
        child, parent = batch.child[slots], batch.parent[slots]
        np.add.at(sums, (design.table_of[slots], truth[child], truth[parent]), share[child])
        adjoint(design, Excess(truth, q.r, share), sums, problem.n_jobs, out)
        problem.add_surplus(out)

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
        return {"p0": self.p0, "gap": self.gap, "given": self.predictor_regret, **q}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from an earlier `state`."""
        self.p0[:], self.gap[:] = state["p0"], state["gap"]
        self.predictor_regret[:] = state["given"]
        self.q.restore(state)


def _by_kind(problem: Problem, theta: np.ndarray) -> Weights:
    """θ as the kernels take it."""
    nodes, edges = split_weights(problem.design, theta, problem.n_labels)
    return Weights(nodes, edges.reshape(-1, problem.n_labels**2))
