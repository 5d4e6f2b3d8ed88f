"""Labels that are known in part: what is possible, and a distribution in the truth's place.

The truth of a sample enters an objective by its score alone, so a distribution μ over labellings
can take its place: V(ψ) − <ψ, μ>, convex in the weights. Weights of labels that users give are such
a distribution: the product over nodes, of the labellings that keep the rules. Where labels are
unknown or one of several, the objective is a difference of two games, the second of which is played
among the labellings K that agree with what is known:

    V(ψ) − V_K(ψ)  =  min over μ in K of  V(ψ) − <ψ, μ> + V*(μ)
    V*(μ)          =  −(least expected cost of μ) − T H(μ)

Training alternates: `filled` makes μ the adversary of the second game (at T = 0 the best labelling,
with V* = 0), then the weights are trained. Neither step raises the value. Without costs it is the
marginal likelihood, and this is the EM algorithm. A hinge holds its predictor at the mean over the
labels that are possible, and fills in by scores alone. Beside labels that are filled in, weights
are evidence: their logarithm is added to the scores.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from robustruct._lazy import cached_property
from robustruct.errors import InvalidInputError, shown
from robustruct.features import Design, adjoint, labelling_features
from robustruct.game.game import Game
from robustruct.graphs import Batch
from robustruct.inference import best_labelling, marginals
from robustruct.labels import shortened
from robustruct.scores import Scores
from robustruct.validation import KnownLabels

if TYPE_CHECKING:
    from robustruct.objectives.adversarial import Problem

FILL_TOL = 1e-4  # of games among labellings that agree: what they miss, the next round fills in


def label_weights(known: KnownLabels, batch: Batch, classes: np.ndarray, field: str) -> np.ndarray:
    """(N, k) weight of every label at every node, in the order of the batch; 0 is impossible."""
    place = {label: a for a, label in enumerate(classes.tolist())}
    weights = np.zeros((len(known.known), len(classes)))
    single = [label for array in known.arrays for label in array.tolist()]
    named = zip(np.flatnonzero(known.known).tolist(), [(label,) for label in single], strict=True)
    some = {node: options.labels for node, options in known.options.items()}
    for node, labels in sorted([*named, *some.items()], key=lambda one: one[0]):
        wrong = [label for label in labels if label not in place]
        if wrong:
            _refuse_label(wrong[0], node, batch, classes, field)
        options = known.options.get(node)
        given = options.weights if options is not None and options.weights else 1.0
        weights[node, [place[label] for label in labels] if labels else slice(None)] = given
    return np.ascontiguousarray(batch.from_user(weights))


def _refuse_label(label: Any, node: int, batch: Batch, classes: np.ndarray, field: str) -> None:
    sample = int(np.searchsorted(batch.node_offsets, node, side="right")) - 1
    own = int(node - batch.node_offsets[sample])
    raise InvalidInputError(
        f"{field}[{sample}], node {own}: {shown(label)} is not among the labels that nodes are "
        f"known to have, {shortened(classes.tolist())}.",
        sample=sample,
        node=own,
        field=field,
    )


def log_weights(weights: np.ndarray) -> np.ndarray:
    """Return log weights, with -inf where a weight is 0."""
    with np.errstate(divide="ignore"):
        return np.log(weights)


def narrowed(scores: Scores, weights: np.ndarray) -> Scores:
    """The same scores with -inf for labels of weight 0."""
    return scores.with_unary(np.where(weights > 0.0, scores.unary, -np.inf))


def check_agreement(scores: Scores, weights: np.ndarray, field: str, numbers: np.ndarray) -> None:
    """Refuse known labels that no labelling agrees with; the error names sample and node.

    ``scores`` hold the rules as -inf, ``numbers`` (S,) are the user's numbers of the samples.
    """
    batch = scores.batch
    _, values = best_labelling(narrowed(scores, weights))
    bad = np.flatnonzero(np.isneginf(values))
    if not len(bad):
        return
    sample = int(bad[0])
    lo, hi = batch.node_offsets[sample : sample + 2]
    place = batch.node_of[lo:hi] - lo  # of each node in the user's order

    def fits(n: int) -> bool:
        """Whether some labelling agrees with the first n nodes of the sample."""
        some = np.ones_like(weights)
        some[lo:hi][place < n] = weights[lo:hi][place < n]
        return bool(np.isfinite(best_labelling(narrowed(scores, some))[1][sample]))

    least, most = 0, int(hi - lo)
    while most - least > 1:  # nodes up to ``least`` agree, those up to ``most`` do not
        middle = (least + most) // 2
        least, most = (middle, most) if fits(middle) else (least, middle)
    number = int(numbers[sample])
    raise InvalidInputError(
        f"{field}: sample {number}, node {most - 1}: no labelling that keeps the rules agrees with "
        f"what is known of this node and those before it. Correct {field}, or drop a rule from "
        "`constraints`.",
        sample=number,
        node=most - 1,
        field=field,
    )


@dataclass(frozen=True, eq=False)
class PartOfTruth:
    """Samples whose labels are known in part, and the distribution μ that takes their place."""

    samples: np.ndarray
    """(P,) their numbers."""
    nodes: np.ndarray
    """(n,) places of their nodes in the batch."""
    design: Design
    """Of these samples alone."""
    weights: np.ndarray
    """(n, k) weight of each label at the nodes; 0 is impossible."""
    r: np.ndarray
    """(n, k) node marginals of μ."""
    surplus: np.ndarray
    """(n_weights,) Σ share (E_μ Φ − Φ(labels of the problem))."""
    entropy: float = 0.0
    """Σ share H(μ)."""
    conjugate: float = 0.0
    """Σ share V*(μ)."""

    @classmethod
    def of(cls, problem: Problem, samples: np.ndarray, weights: np.ndarray) -> PartOfTruth:
        """Make the part of some samples of a problem, whose labels agree with it."""
        nodes, nothing = problem.design.batch.nodes_of(samples), np.zeros(problem.n_weights)
        return cls(samples, nodes, problem.design.take(samples), weights, weights, nothing)

    def problem(self, whole: Problem) -> Problem:
        """Return the problem of these samples alone, with the shares that they have."""
        return replace(
            whole,
            design=self.design,
            labels=whole.labels[self.nodes],
            node_weight=whole.node_weight[self.nodes],
            share=whole.share[self.samples],
            partial=None,
        )

    def filled(self, whole: Problem, theta: np.ndarray | None) -> PartOfTruth:
        """Return the part with μ under these weights; without any, all that agree are alike."""
        own = self.problem(whole)
        plain = own.scores(np.zeros(own.n_weights) if theta is None else theta)
        scores = narrowed(plain, self.weights)
        reference = labelling_features(self.design, own.labels, own.n_labels, own.share)
        T = own.temperature if theta is not None else 1.0
        unary = scores.unary if theta is None else self._with_costs(own, scores)
        evidence = np.where(self.weights > 0.0, log_weights(self.weights), 0.0)
        gibbs = Scores(scores.batch, unary / T + evidence, scores.tables / T, scores.table_of)
        found = marginals(gibbs, share=own.share, n_jobs=own.n_jobs)
        mass = own.node_share[:, None] * found.nodes
        features = adjoint(self.design, mass, found.table_sums, own.n_jobs)
        inner = _product(mass, gibbs.unary) + _product(found.table_sums, gibbs.tables)
        entropy = max(float(own.share @ found.log_partition) - inner, 0.0)
        T = own.temperature
        conjugate = -T * (entropy + _product(mass, evidence)) if T > 0.0 else 0.0
        if T > 0.0 and not own.truth_is_predictor:
            conjugate -= own.gain(found.nodes)
        return replace(
            self, r=found.nodes, surplus=features - reference, entropy=entropy, conjugate=conjugate
        )

    def _with_costs(self, own: Problem, scores: Scores) -> np.ndarray:
        """Unary scores with what the predictor of the game among these labellings adds.

        Where each node's label is known or has no cost, it adds the same to all of them.
        """
        several = (self.weights > 0.0).sum(axis=1) > 1
        if own.truth_is_predictor or not own.cost.any() or not own.node_weight[several].any():
            return scores.unary
        from robustruct.game.smooth import play_smooth

        game = Game(scores, own.cost, own.node_weight)
        play, _, _ = play_smooth(game, own.temperature, FILL_TOL, own.n_jobs)
        return np.asarray(scores.unary + own.node_weight[:, None] * (play.p @ own.cost))


def _product(mass: np.ndarray, values: np.ndarray) -> float:
    """Inner product in which labels without mass count nothing, also if their value is -inf."""
    return float((mass * np.where(mass > 0.0, values, 0.0)).sum())


@dataclass(frozen=True, eq=False)
class PartialTruth:
    """Labels of a problem that are known in part."""

    parts: tuple[PartOfTruth, ...]
    open: int | None
    """The part that the model fills in, if any; others hold weights that users gave."""

    @property
    def fills_in(self) -> bool:
        """Whether the model fills in some labels."""
        return self.open is not None

    @cached_property
    def nodes(self) -> np.ndarray:
        """Places of the nodes of all parts."""
        return np.concatenate([part.nodes for part in self.parts])

    @cached_property
    def weights(self) -> np.ndarray:
        """Weight of each label at them."""
        return np.concatenate([part.weights for part in self.parts])

    @cached_property
    def r(self) -> np.ndarray:
        """Their marginals."""
        return np.concatenate([part.r for part in self.parts])

    @property
    def held(self) -> np.ndarray:
        """Where a hinge holds its predictor at them."""
        return np.asarray(self.weights / self.weights.sum(axis=1, keepdims=True))

    @cached_property
    def surplus(self) -> np.ndarray:
        """See `PartOfTruth.surplus`."""
        return np.asarray(sum(part.surplus for part in self.parts))

    @property
    def entropy(self) -> float:
        """See `PartOfTruth.entropy`."""
        return sum(part.entropy for part in self.parts)

    @property
    def conjugate(self) -> float:
        """V*(μ) of what is filled in."""
        return 0.0 if self.open is None else self.parts[self.open].conjugate

    def take(self, taken: Problem, samples: np.ndarray, n_samples: int) -> PartialTruth | None:
        """Restrict to some samples, of which ``taken`` is the problem; yet to be filled in."""
        place = np.full(n_samples, -1)
        parts: list[PartOfTruth] = []
        open_part: int | None = None
        for number, part in enumerate(self.parts):
            place[:] = -1
            place[part.samples] = np.arange(len(part.samples))
            new = np.flatnonzero(place[samples] >= 0)
            if len(new):
                rows = part.design.batch.nodes_of(place[samples[new]])
                open_part = len(parts) if number == self.open else open_part
                parts.append(PartOfTruth.of(taken, new, part.weights[rows]))
        return PartialTruth(tuple(parts), open_part) if parts else None

    def scaled(self, factors: np.ndarray) -> PartialTruth:
        """The same for weights divided by ``factors``, one for each row."""
        parts = []
        for part in self.parts:
            rows = part.surplus.reshape(len(factors), -1) * factors[:, None]
            parts.append(replace(part, surplus=rows.ravel()))
        return PartialTruth(tuple(parts), self.open)


def with_known(problem: Problem, known: KnownLabels, classes: np.ndarray) -> Problem:
    """Return the problem with labels that agree with what is known, and that truth in part."""
    batch, rules = problem.design.batch, problem.constraints
    weights = label_weights(known, batch, classes, "y")
    several = (weights > 0.0).sum(axis=1) > 1
    given = np.zeros(batch.n_nodes, bool)
    given[[node for node, options in known.options.items() if options.weights]] = True
    starts = batch.node_offsets[:-1]
    partly = np.logical_or.reduceat(several, starts)
    is_open = np.logical_or.reduceat(several & ~batch.from_user(given), starts)
    samples = np.flatnonzero(partly)
    design, nodes = problem.design.take(samples), batch.nodes_of(samples)
    k = weights.shape[1]
    tables = np.zeros((design.n_tables, k, k))
    even = Scores(design.batch, np.zeros((len(nodes), k)), tables, design.table_of)
    scores = rules.apply(even, design)
    check_agreement(scores, weights[nodes], "y", samples)
    labels = weights.argmax(axis=1)
    labels[nodes] = best_labelling(narrowed(scores, weights[nodes]))[0]
    problem = replace(problem, labels=np.ascontiguousarray(labels))
    parts: list[PartOfTruth] = []
    open_part: int | None = None
    for some, filled_in in ((partly & ~is_open, False), (is_open, True)):
        members = np.flatnonzero(some & (problem.share > 0.0))
        if len(members):
            open_part = len(parts) if filled_in else open_part
            parts.append(PartOfTruth.of(problem, members, weights[batch.nodes_of(members)]))
    return replace(problem, partial=PartialTruth(tuple(parts), open_part) if parts else None)


def known_only(problem: Problem) -> Problem:
    """Return the problem of the nodes whose labels are known, and the edges among them.

    Rules about where sequences start and end are not for the pieces of a sequence.
    """
    partial, rules = problem.partial, problem.constraints
    assert partial is not None
    kept = np.repeat(problem.share > 0.0, np.diff(problem.design.batch.node_offsets))
    kept[partial.nodes[(partial.weights > 0.0).sum(axis=1) > 1]] = False
    design, places, samples = problem.design.induced(kept)
    anywhere = np.zeros_like(rules.starts)
    return replace(
        problem,
        design=design,
        labels=problem.labels[places],
        node_weight=problem.node_weight[places],
        share=problem.share[samples],
        constraints=replace(rules, starts=anywhere, ends=anywhere),
        sample_digests=None,
        partial=None,
    )


def filled(problem: Problem, theta: np.ndarray | None = None) -> Problem:
    """Return the problem with its labels filled in under these weights.

    Without weights, all that users gave is filled in, too.
    """
    partial = problem.partial
    if partial is None:
        return problem
    if theta is not None and problem.temperature == 0.0:
        return _labelled(problem, theta)
    parts = tuple(
        part.filled(problem, theta) if theta is None or number == partial.open else part
        for number, part in enumerate(partial.parts)
    )
    return replace(problem, partial=PartialTruth(parts, partial.open))


def _labelled(problem: Problem, theta: np.ndarray) -> Problem:
    """Return the problem with the best labelling that agrees with what is known."""
    partial = problem.partial
    if partial is None or partial.open is None:
        return problem
    part = partial.parts[partial.open]
    own = part.problem(problem)
    best, _ = best_labelling(narrowed(own.scores(theta), part.weights), own.n_jobs)
    labels, parts = problem.labels.copy(), list(partial.parts)
    labels[part.nodes] = best
    # They are the labels of the problem, so nothing exceeds them.
    nothing = np.zeros(problem.n_weights)
    parts[partial.open] = replace(
        part, r=np.eye(own.n_labels)[best], surplus=nothing, entropy=0.0, conjugate=0.0
    )
    return replace(problem, labels=labels, partial=PartialTruth(tuple(parts), partial.open))
