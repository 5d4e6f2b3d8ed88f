"""The dual variables of smooth training: natural parameters of a Gibbs distribution per sample.

kernels/natural.py says how a sample moves. Some samples are visited under the same θ, by all
threads, before θ moves by their changes in order: what comes out does not depend on the number of
threads.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from robustruct._lazy import cached_property
from robustruct.kernels.natural import from_single, move_predictors, natural_visits, to_single
from robustruct.kernels.natural_grams import natural_grams
from robustruct.kernels.structs import (
    FREE,
    NOBODY,
    GibbsAdversary,
    GibbsChanges,
    Grams,
    PaddedWeights,
    VisitStats,
)
from robustruct.objectives.adversarial import Problem, even_predictor
from robustruct.objectives.smooth import SmoothObjective, padded
from robustruct.optimizers.optimizer import PassSpec
from robustruct.optimizers.tuning import Tuning
from robustruct.parallel import n_threads, over_ranges, over_samples, together

AT_ONCE = 8  # samples visited under the same θ: costs nothing, 32 cost two passes of 8
BATCHES_A_CALL = 64  # in one call of a kernel: between calls an interruption is noticed
SMALL = 64  # nodes of a sample whose rows are always multiplied with each other beforehand
CERTAIN = 20.0  # natural parameter of the truth at the start


class NaturalVariables:
    """Natural parameters of the adversary and centres p0 of the predictor, for every sample."""

    def __init__(self, problem: Problem, tuning: Tuning) -> None:
        self.problem = problem
        self.objective = SmoothObjective(problem)
        batch = problem.design.batch
        samples, rules = self.objective.samples, self.objective.rules
        mu = tuning.mu * np.ptp(problem.cost)
        self.inv_mu = 1.0 / mu if self.objective.player == FREE else 0.0
        self.p0 = padded(even_predictor(problem)[: batch.n_nodes if self.inv_mu else 0], 0.0)
        r = np.zeros((batch.n_nodes, self.objective.width), np.float32)
        psi = rules.unary_mask[rules.node_kind]
        r[np.arange(batch.n_nodes), problem.labels] = 1.0
        psi[np.arange(batch.n_nodes), problem.labels] = CERTAIN
        tables = np.repeat(rules.pair_mask[None], samples.table_start[-1], axis=0)
        sums = np.zeros_like(tables)
        self.adversary = GibbsAdversary(psi, tables, r, sums, np.zeros(batch.n_samples))
        self._count_truth()
        self.gap = np.full(batch.n_samples, np.inf)
        self.predictor_regret = np.zeros(batch.n_samples)
        self.regrets = np.full(batch.n_samples, np.inf)
        self._gain: float | None = None

    def _count_truth(self) -> None:
        """Into the sums: the edges of the truth."""
        samples, labels = self.objective.samples, self.problem.labels
        slots = np.flatnonzero(samples.parent >= 0)
        x, y = labels[samples.child[slots]], labels[samples.parent[slots]]
        transposed = samples.transposed[slots] == 1
        x, y = np.where(transposed, y, x), np.where(transposed, x, y)
        offsets = samples.offsets
        sample = np.searchsorted(offsets, samples.child[slots], side="right") - 1
        at = samples.table_start[sample] + samples.table[slots]
        np.add.at(self.adversary.sums, (at, x, y), np.float32(1))

    @cached_property
    def grams(self) -> Grams:
        samples = self.objective.samples
        starts = []
        sizes = np.diff(samples.offsets)
        entries = np.diff(self.objective.nodes.indptr[samples.offsets])
        large = (sizes > SMALL) & (sizes**2 > 4 * entries)
        for numbers in (np.where(large, 0, sizes**2), np.diff(samples.table_start) ** 2):
            start = np.zeros(len(numbers) + 1, np.intp)
            np.cumsum(numbers, out=start[1:])
            starts.append(start)
        nodes, tables = (np.empty(start[-1], np.float32) for start in starts)
        n_local = len(self.objective.nodes.data) if large.any() else 0
        local, n_columns = np.empty(n_local, np.int32), np.zeros(len(sizes), np.intp)
        grams = Grams(starts[0], nodes, starts[1], tables, local, n_columns)
        widths = self.objective.nodes.shape[1], self.objective.edges.shape[1]
        natural_grams(samples, self.objective.features, widths, grams)
        return grams

    @cached_property
    def _changes(self) -> GibbsChanges:
        n, m = self.objective.longest
        at_once = min(AT_ONCE, max(1, self.problem.design.batch.n_samples // 100))
        k, width = self.problem.n_labels, self.objective.width
        return GibbsChanges(
            np.zeros((at_once, n, width), np.float32),
            np.zeros((at_once, m, k, width), np.float32),
            np.zeros(at_once, np.bool_),
        )

    # ------------------------------------------------------------------------------------- visits

    def working(self, theta: np.ndarray, rows: np.ndarray | None) -> PaddedWeights:
        """θ as visits take it; `put_back` returns it."""
        objective, k = self.objective, self.problem.n_labels
        weights = PaddedWeights(
            np.zeros((objective.nodes.shape[1], objective.width), np.float32),
            np.zeros((objective.edges.shape[1], k * objective.width), np.float32),
        )
        self._convert(to_single, weights, theta, rows)
        return weights

    def put_back(self, weights: PaddedWeights, theta: np.ndarray, rows: np.ndarray | None) -> None:
        """θ as visits have left it."""
        self._convert(from_single, weights, theta, rows)

    def _convert(
        self,
        convert: Callable[..., None],
        weights: PaddedWeights,
        theta: np.ndarray,
        rows: np.ndarray | None,
    ) -> None:
        full = self.objective.weights(theta)
        given = full.node, full.edge.reshape(-1, self.problem.n_labels)
        single = weights.node, weights.edge.reshape(-1, self.objective.width)
        n_nodes, n_edges = map(len, given)
        every = np.arange(n_nodes + n_edges) if rows is None else rows
        of_edges = int(np.searchsorted(every, n_nodes))
        parts = every[:of_edges], every[of_edges:] - n_nodes
        for one, other, own in zip(given, single, parts, strict=True):

            def some(
                part: slice,
                one: np.ndarray = one,
                other: np.ndarray = other,
                own: np.ndarray = own,
            ) -> None:
                convert(one, other, own[part])

            over_ranges(some, len(own), self.problem.n_jobs)

    def visit(self, order: np.ndarray, weights: PaddedWeights, spec: PassSpec) -> None:
        """Improve the variables of the samples in ``order``, and θ with them.

        A visit is one step, however many are asked for: its length is searched for.
        """
        self._gain = None
        objective, problem = self.objective, self.problem
        settings = objective.settings(self._temperature(spec.number), self.inv_mu)
        game = objective.costs(self.p0, np.float32), settings, problem.share / spec.penalty
        at_once = len(self._changes.moved)
        given = objective.samples, objective.trees, objective.features, weights
        own = objective.rules, game, self.adversary, self.grams
        found = self._changes, VisitStats(self.gap, self.predictor_regret, self.regrets)
        threads = range(min(n_threads(problem.n_jobs), at_once))
        for first in range(0, len(order), BATCHES_A_CALL * at_once):
            some = order[first : first + BATCHES_A_CALL * at_once]
            counters = np.array([0, 0, min(at_once, len(some))], np.int64)
            together(
                natural_visits, [(t == 0, counters, some, *given, *own, found) for t in threads]
            )

    def _temperature(self, number: int) -> float:
        """T for the visits of a pass: small temperatures are reached from above, by halves."""
        if self.objective.player == NOBODY:
            return self.problem.temperature
        return max(self.problem.temperature, self.problem.cost_scale * 0.5 ** (number - 1))

    # ------------------------------------------------------------------------- what they amount to

    def move_predictors(self) -> None:
        """The centres p0 go to where the predictor is."""
        if self.inv_mu == 0.0:
            return
        costs, offsets = self.objective.costs(self.p0, np.float32), self.objective.samples.offsets
        rules = self.objective.rules
        over_samples(
            lambda first, last: move_predictors(
                offsets[first], offsets[last], costs, rules, self.inv_mu, self.adversary.r
            ),
            offsets,
            self.problem.n_jobs,
        )

    def shared_gap(self) -> float:
        """The samples' part of the duality gap, as the last visits saw it."""
        return float(self.problem.share @ (self.gap + self.predictor_regret))

    def shared_regret(self) -> float:
        """The part of the primal that is not the penalty, as the last visits saw it."""
        return float(self.problem.share @ self.regrets)

    def moments(self, out: np.ndarray) -> None:
        """Into ``out``: G(q), recomputed from the natural parameters."""
        self._gain = self.objective.moments(self.adversary, out)

    def gain(self) -> float:
        """The part of the dual that is not the penalty."""
        if self._gain is None:
            self.moments(np.empty(self.problem.n_weights))
        assert self._gain is not None
        return self._gain

    def regret(self, theta: np.ndarray) -> float:
        """The part of the primal that is not the penalty, at p0."""
        return self.objective.regret(theta, self.p0)

    # ------------------------------------------------------------------------------- keeping them

    def state(self) -> dict[str, np.ndarray]:
        """What visits have changed; `restore` takes it back."""
        return {
            "p0": self.p0,
            "gap": self.gap,
            "given": self.predictor_regret,
            "regrets": self.regrets,
            **self.adversary._asdict(),
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from an earlier `state`."""
        for name, value in self.state().items():
            value[:] = state[name]
        self._gain = None
