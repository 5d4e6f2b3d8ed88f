"""The dual variables of smooth training: natural parameters of a Gibbs distribution per sample.

core/smooth.c says how a sample moves. Some samples are visited under the same θ, by all
threads, before θ moves by their changes in order: what comes out does not depend on the number of
threads.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from robustruct._lazy import cached_property
from robustruct.core.smooth import (
    from_single,
    move_predictors,
    natural_visits,
    sample_grams,
    to_single,
)
from robustruct.core.structs import (
    FREE,
    NOBODY,
    GibbsAdversary,
    GibbsChanges,
    Grams,
    PaddedWeights,
    SmoothCall,
    VisitStats,
)
from robustruct.features import scores, split_weights
from robustruct.features.matrix import product
from robustruct.objectives.adversarial import Problem, even_predictor
from robustruct.objectives.smooth import SmoothObjective, padded
from robustruct.optimizers.shards import PassSpec
from robustruct.optimizers.tuning import Tuning
from robustruct.parallel import n_threads, over_ranges, over_samples, together

AT_ONCE = 8  # samples visited under the same θ at first: 32 cost two passes of 8
SLOW = 0.7  # of the last pass's gap: where more is left, half as many samples are visited at once
BATCHES_A_CALL = 64  # in one call of a kernel: between calls an interruption is noticed
SMALL = 64  # nodes of a sample whose rows are always multiplied with each other beforehand
CERTAIN = 20.0  # natural parameter of the truth at the start; e^-20 beside 1 is lost in float32


class NaturalVariables:
    """Natural parameters of the adversary and centres p0 of the predictor, for every sample."""

    def __init__(self, problem: Problem, tuning: Tuning) -> None:
        self.problem = problem
        self.objective = SmoothObjective(problem)
        batch = problem.design.batch
        rules = self.objective.rules
        mu = tuning.mu * np.ptp(problem.cost)
        plays = self.objective.player == FREE and not problem.truth_is_predictor
        self.inv_mu = 1.0 / mu if plays else 0.0
        self.last_gap, self.temperature = np.inf, np.inf
        # Of few samples eight would be so many that θ moves too far under all of them.
        self.at_once = min(AT_ONCE, max(1, batch.n_samples // 100))
        if self.objective.player == FREE and not plays:
            self.p0 = padded(problem.held, 0.0)
        else:  # only a free predictor has a centre
            self.p0 = padded(even_predictor(problem)[: batch.n_nodes if self.inv_mu else 0], 0.0)
        nodes, tables, truth = self.objective.node_rows, self.objective.table_rows, problem.labels
        natural = np.empty((len(nodes) + len(tables), self.objective.width), np.float32)
        one_kind = len(rules.unary_mask) == 1
        natural[nodes] = rules.unary_mask[0 if one_kind else rules.node_kind]
        natural[nodes, truth] = CERTAIN
        if problem.partial is not None:
            self._open(natural, rules.unary_mask)
        natural[tables.reshape(-1, problem.n_labels)] = rules.pair_mask
        marginals = np.zeros_like(natural)
        marginals[nodes, truth] = 1.0
        gamma = np.ones(batch.n_samples, np.float32)
        self.adversary = GibbsAdversary(natural, marginals, np.zeros(batch.n_samples), gamma)
        self._count_truth()
        if problem.partial is not None:  # marginals of what takes the truth's place
            self.objective.moments(self.adversary, np.empty(problem.n_weights))
        self.gap = np.full(batch.n_samples, np.inf)
        self.predictor_regret = np.zeros(batch.n_samples)
        self.regrets = np.full(batch.n_samples, np.inf)
        self._gain: float | None = None

    def _open(self, natural: np.ndarray, masks: np.ndarray) -> None:
        """Into ``natural``: the labels that are possible, where these are known in part."""
        partial, k = self.problem.partial, self.problem.n_labels
        assert partial is not None
        rows = self.objective.node_rows[partial.nodes]
        kind = self.objective.rules.node_kind[partial.nodes]
        start = np.log(np.maximum(partial.weights, np.exp(-CERTAIN)))
        natural[rows] = masks[0 if len(masks) == 1 else kind]
        natural[rows[:, None], np.arange(k)] += start

    def begin_at(self, theta: np.ndarray) -> None:
        """Let every adversary be the best one against p0 under these weights."""
        problem, adversary, k = self.problem, self.adversary, self.problem.n_labels
        T, rules = problem.temperature, self.objective.rules
        nodes = scores(problem.design, theta, k, problem.n_jobs).unary
        if self.objective.player == FREE:
            p0 = self.p0[:, :k].astype(float)
            nodes += problem.node_weight[:, None] * (p0 @ problem.cost)
        elif problem.truth_is_predictor:
            nodes += problem.node_weight[:, None] * problem.cost[problem.labels]
        nodes = (nodes - nodes.max(axis=1, keepdims=True)) / T
        _, edges = split_weights(problem.design, theta, k)
        tables = product(problem.design.edges, edges.reshape(-1, k * k), problem.n_jobs)
        tables = (tables - tables.max(axis=1, keepdims=True)) / T
        own = tables.reshape(-1, k, k)[self.objective.samples.row]
        kind = rules.node_kind if len(rules.unary_mask) > 1 else np.zeros(1, np.intp)
        adversary.natural[self.objective.node_rows] = padded(nodes, 0.0) + rules.unary_mask[kind]
        at = self.objective.table_rows.reshape(-1, k)
        adversary.natural[at] = padded(own, 0.0) + rules.pair_mask
        self.objective.moments(adversary, np.empty(problem.n_weights))

    def rebased(self, problem: Problem) -> None:
        """Go on with another distribution in the truth's place."""
        self.problem = self.objective.problem = problem
        self._gain = None

    def _count_truth(self) -> None:
        """Into the sums: the edges of the truth."""
        samples, labels = self.objective.samples, self.problem.labels
        slots = np.flatnonzero(samples.parent >= 0)
        x, y = labels[samples.child[slots]], labels[samples.parent[slots]]
        transposed = samples.transposed[slots] == 1
        x, y = np.where(transposed, y, x), np.where(transposed, x, y)
        after = samples.offsets[1:]
        sample = np.searchsorted(after, samples.child[slots], side="right")
        at = samples.table_start[sample] + samples.table[slots]
        np.add.at(
            self.adversary.marginals, (after[sample] + self.problem.n_labels * at + x, y), 1.0
        )

    @cached_property
    def grams(self) -> Grams:
        samples = self.objective.samples
        starts = []
        sizes = np.diff(samples.offsets)
        entries = np.diff(self.objective.nodes.indptr[samples.offsets])
        # Products of all pairs of rows must not take far more memory than the rows.
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
        sample_grams(samples, self.objective.features, *widths, grams)
        return grams

    @cached_property
    def _changes(self) -> GibbsChanges:
        n, m = self.objective.longest
        rows = AT_ONCE * (n + m * self.problem.n_labels)
        return GibbsChanges(
            np.zeros((rows, self.objective.width), np.float32), np.zeros(AT_ONCE, np.bool_)
        )

    # ------------------------------------------------------------------------------------- visits

    @cached_property
    def _weights(self) -> PaddedWeights:
        d, e = self.objective.nodes.shape[1], self.objective.edges.shape[1]
        shape = d + e * self.problem.n_labels, self.objective.width
        return PaddedWeights(np.zeros(shape, np.float32), d)

    def working(self, theta: np.ndarray, rows: np.ndarray | None) -> PaddedWeights:
        """θ as visits take it, or the rows of it that they touch; `put_back` returns it."""
        self._convert(to_single, self._weights, theta, rows)
        return self._weights

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
        full, single = self.objective.rows(theta), weights.rows
        every = np.arange(len(full)) if rows is None else rows
        k, width = full.shape[1], single.shape[1]
        over_ranges(
            lambda part: convert(len(every[part]), every[part], k, width, full, single),
            len(every),
            self.problem.n_jobs,
        )

    def visit(self, order: np.ndarray, weights: PaddedWeights, spec: PassSpec) -> None:
        """Improve the variables of the samples in ``order``, and θ with them.

        A visit is one step, however many are asked for: its length is searched for.
        """
        self._gain = None  # it was about the adversaries before this visit
        objective, problem, at_once = self.objective, self.problem, self.at_once
        temperature = self._temperature(spec.number)
        if temperature != self.temperature:
            # Gaps at another temperature say nothing about this one.
            self.temperature, self.last_gap = temperature, np.inf
        settings = objective.settings(temperature, self.inv_mu / spec.mu)
        call = SmoothCall(
            objective.arrays,
            weights,
            objective.costs(self.p0),
            settings,
            problem.share / spec.penalty,
            self.adversary,
            self.grams,
            GibbsChanges(*(part[: len(part) // AT_ONCE * at_once] for part in self._changes)),
            VisitStats(self.gap, self.predictor_regret, self.regrets),
        )
        threads = range(min(n_threads(problem.n_jobs), at_once))
        for first in range(0, len(order), BATCHES_A_CALL * at_once):
            some = np.ascontiguousarray(order[first : first + BATCHES_A_CALL * at_once])
            counters = np.array([0, 0, min(at_once, len(some)), 0], np.int64)
            together(natural_visits, [(t == 0, counters, len(some), some, call) for t in threads])
        if problem.truth_is_predictor:  # held, it gives nothing away
            self.predictor_regret[:] = 0.0

    def _temperature(self, number: int) -> float:
        """T for the visits of a pass: small temperatures are reached from above, by halves."""
        if self.objective.player == NOBODY:
            return self.problem.temperature
        return max(self.problem.temperature, self.problem.cost_scale * 0.5 ** (number - 1))

    # ------------------------------------------------------------------------- what they amount to

    def move_predictors(self, mu: float) -> None:
        """The centres p0 go to where the predictor is, once a pass."""
        if self.inv_mu > 0.0:
            samples, rules = self.objective.samples, self.objective.rules
            given = samples, self.objective.costs(self.p0), rules, self.inv_mu / mu
            arguments = *given, self.adversary.marginals
            over_samples(move_predictors, samples.offsets, self.problem.n_jobs, *arguments)
        # Samples that are visited under the same θ push it too far together where the penalty is
        # weak for the costs.
        gap = float(self.problem.share @ self.gap)
        if gap > SLOW * self.last_gap:
            self.at_once = max(1, self.at_once // 2)
        self.last_gap = gap

    def shared_gap(self) -> float:
        """The samples' part of the duality gap, as the last visits saw it."""
        return float(self.problem.share @ (self.gap + self.predictor_regret))

    def predictor_gap(self) -> float:
        """The part of it that predictors give away."""
        return float(self.problem.share @ self.predictor_regret)

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
            "last_gap": np.array(self.last_gap),
            "last_temperature": np.array(self.temperature),
            "at_once": np.array(self.at_once),
            **self.adversary._asdict(),
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from an earlier `state`."""
        for name, value in self.state().items():
            value[...] = state[name]
        self.last_gap, self.temperature = state["last_gap"].item(), state["last_temperature"].item()
        self.at_once, self._gain = state["at_once"].item(), None
