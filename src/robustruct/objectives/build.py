"""From samples and labels to the problem that training solves, whole or shard by shard.

`summarise` each shard, merge the summaries, and `plan_of` decides what all shards share: classes,
feature space, costs, penalty. `Plan.assembled` then makes a `Problem` of each shard where it lies;
the objectives of shards add up to that of all samples. Samples in memory are the case of one shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from robustruct.bad_labels import NONE_BAD, BadLabels, CleanCorpus
from robustruct.constraints import Constraints, TransitionMasks
from robustruct.errors import IncompatibleError, errors_at_lines, warn
from robustruct.features import (
    Design,
    FeatureSpace,
    FeatureSummary,
    Moments,
    Parts,
    Standardization,
    sorted_types,
)
from robustruct.features.digests import sample_digests
from robustruct.formats.corpus import Corpus, as_numbers
from robustruct.graphs import Batch
from robustruct.labels import as_labels, encode_labels, sorted_labels
from robustruct.losses import as_loss, check_costs, class_weighted, predicted_first
from robustruct.objectives.adversarial import Problem, unit_of_temperature
from robustruct.objectives.memory import Sizes, check_memory, need_of
from robustruct.objectives.partial import filled, with_known
from robustruct.validation import (
    KnownLabels,
    check_dearest,
    check_some_weight,
    class_weights,
    is_flat,
    node_weights,
    sample_weights,
)


@dataclass(frozen=True, eq=False)
class Truth:
    """Labels and weights of samples, checked, in the user's order."""

    classes: np.ndarray
    """(k,) the different labels, sorted."""
    codes: np.ndarray
    """(N,) intp, index into ``classes``."""
    sizes: np.ndarray
    """(S,) number of nodes."""
    sample_weight: np.ndarray
    """(S,)"""
    node_weight: np.ndarray
    """(N,)"""
    as_written: bool
    """Whether labels are text of a file, whose digits may mean numbers."""
    known: KnownLabels
    """The labels with what is known of those in ``codes`` that are -1."""

    @classmethod
    def of(
        cls,
        y: Any,
        sizes: np.ndarray,
        sample_weight: Any = None,
        node_weight: Any = None,
        *,
        flat: bool = False,
        as_written: bool = False,
    ) -> Truth:
        """Check labels and weights that users pass for samples with ``sizes`` nodes.

        ``flat`` samples are rows, for which y is one array.
        """
        known = KnownLabels.of(y, sizes, flat)
        classes = known.classes()
        own = sample_weights(sample_weight, len(sizes))
        weights = node_weights(node_weight, sizes, flat)
        if known.options:
            weights[known.unknown] = 0.0
            sample_of = np.repeat(np.arange(len(sizes)), sizes)
            own = own * (np.bincount(sample_of, ~known.unknown, len(sizes)) > 0)
        return cls(classes, known.codes(classes), sizes, own, weights, as_written, known)

    @property
    def n_unlabelled(self) -> int:
        """Number of samples of which no label is known."""
        if not self.known.options:
            return 0
        sample_of = np.repeat(np.arange(len(self.sizes)), self.sizes)
        return int((np.bincount(sample_of, ~self.known.unknown, len(self.sizes)) == 0).sum())

    def label_counts(self) -> np.ndarray:
        """(k,) total weight of the nodes with each label; a set counts in equal parts."""
        weight = np.repeat(self.sample_weight, self.sizes) * self.node_weight
        known, k = self.codes >= 0, len(self.classes)
        counts = np.bincount(self.codes[known], weights=weight[known], minlength=k)
        place = {label: a for a, label in enumerate(self.classes.tolist())}
        for node, options in self.known.options.items():
            n = len(options.labels)
            parts = options.weights or (1.0 / max(n, 1),) * n
            for label, part in zip(options.labels, parts, strict=True):
                if label in place:  # else an error that names the node follows
                    counts[place[label]] += weight[node] * part
        return counts

    @property
    def n_judged(self) -> float:
        """Number of nodes of which something is known, each with the weight of its sample."""
        return float(np.repeat(self.sample_weight, self.sizes) @ ~self.known.unknown)


@dataclass(frozen=True, eq=False)
class LabelSummary:
    """Labels and weights of a shard, summed up; summaries can be merged."""

    classes: np.ndarray
    """(k,) the different labels, sorted."""
    counts: np.ndarray
    """(k,) total weight of the nodes with each label."""
    by_type: dict[str | int, np.ndarray]
    """Labels that nodes of each type have; empty without types."""
    n_samples: int
    sample_weight: float
    """Sum of the samples' weights."""
    as_written: bool
    """Whether labels are text of a file, whose digits may mean numbers."""
    n_nodes: float
    """Number of nodes of which something is known, each counted with the weight of its sample."""
    n_unlabelled: int = 0
    """Samples of which no label is known."""
    in_part: bool = False
    """Whether labels of some nodes are known in part, or not at all."""

    @property
    def mean_node_weight(self) -> float:
        """Mean over nodes; a sample of weight 2 counts like two equal samples."""
        return float(self.counts.sum()) / self.n_nodes

    @classmethod
    def of(
        cls, truth: Truth, types: Sequence[str | int] = (), type_of: np.ndarray | None = None
    ) -> LabelSummary:
        """Sum up one shard; node i, in the user's order, is of type ``types[type_of[i]]``."""
        of_type = {
            kind: truth.classes[np.unique(truth.codes[(type_of == t) & (truth.codes >= 0)])]
            for t, kind in enumerate(types)
        }
        return cls(
            truth.classes,
            truth.label_counts(),
            of_type,
            len(truth.sizes),
            float(truth.sample_weight.sum()),
            truth.as_written,
            truth.n_judged,
            truth.n_unlabelled,
            bool(truth.known.options),
        )

    def merged(self, other: LabelSummary) -> LabelSummary:
        """Return the summary of the samples of both."""
        classes = sorted_labels([self.classes, other.classes])
        kinds = sorted_types([*self.by_type, *other.by_type])
        counts = np.zeros(len(classes))
        for one in (self, other):
            counts[encode_labels(one.classes, classes, "y")] += one.counts
        return LabelSummary(
            classes,
            counts,
            {
                kind: sorted_labels(
                    [one.by_type[kind] for one in (self, other) if kind in one.by_type]
                )
                for kind in kinds
            },
            self.n_samples + other.n_samples,
            self.sample_weight + other.sample_weight,
            self.as_written and other.as_written,
            self.n_nodes + other.n_nodes,
            self.n_unlabelled + other.n_unlabelled,
            self.in_part or other.in_part,
        )

    def with_numbers(self) -> LabelSummary:
        """Convert labels to numbers if they are text that is written like numbers throughout.

        A single label of one shard may rule that out, so it is decided after merging all.
        """
        if not self.as_written:
            return self
        texts = self.classes.tolist()
        values = as_labels(as_numbers(texts))
        value_of = dict(zip(texts, values.tolist(), strict=True))
        # As numbers, labels sort in another order than as text.
        order = np.argsort(values, kind="stable")
        return LabelSummary(
            values[order],
            self.counts[order],
            {
                kind: sorted_labels([as_labels([value_of[text] for text in labels.tolist()])])
                for kind, labels in self.by_type.items()
            },
            self.n_samples,
            self.sample_weight,
            as_written=False,
            n_nodes=self.n_nodes,
            n_unlabelled=self.n_unlabelled,
            in_part=self.in_part,
        )


@dataclass(frozen=True, eq=False)
class Summary:
    """Features and labels of a shard, summed up before any shard is encoded."""

    features: FeatureSummary
    labels: LabelSummary | None
    """None where there are no samples."""
    bad_labels: BadLabels = NONE_BAD
    """Labels that broke the tagging scheme and were repaired or dropped."""

    def merged(self, other: Summary) -> Summary:
        """Return the summary of both; an error names shards that do not fit together."""
        bad = self.bad_labels.merged(other.bad_labels)
        if self.labels is None or other.labels is None:
            return replace(other if self.labels is None else self, bad_labels=bad)
        features, labels = self.features.merged(other.features), self.labels.merged(other.labels)
        return Summary(features, labels, bad)


def summarise(corpus: Corpus, *, hashed: int | None = None) -> Summary:
    """Sum up one shard, which may be empty; ``hashed`` as for `FeatureSummary.of`."""
    bad = corpus.bad_labels if isinstance(corpus, CleanCorpus) else NONE_BAD
    if not len(corpus):  # its samples may all have been dropped, which is still to be told
        return Summary(FeatureSummary(), None, bad)
    with errors_at_lines(corpus.name, corpus.lines):
        parts = Parts.of(corpus.X)
        truth = _truth(corpus, np.diff(parts.nodes.offsets))
        types = sorted_types(parts.types or ())
        place = {kind: t for t, kind in enumerate(types)}
        type_of = np.array([place[kind] for kind in parts.types or ()], np.intp)
        return Summary(
            FeatureSummary.of_parts(
                parts, hashed=hashed, source=corpus.name, weight=truth.sample_weight
            ),
            LabelSummary.of(truth, types, type_of),
            bad,
        )


def _truth(corpus: Corpus, sizes: np.ndarray) -> Truth:
    weights = corpus.sample_weight, corpus.node_weight
    return Truth.of(corpus.y, sizes, *weights, as_written=corpus.labels_as_written)


@dataclass(frozen=True, eq=False)
class Plan:
    """Decisions that all shards share; makes a `Problem` of each shard."""

    space: FeatureSpace
    classes: np.ndarray
    type_labels: dict[str | int, np.ndarray]
    """Labels that nodes of each type may get; empty without types."""
    rules: TransitionMasks
    cost: np.ndarray
    """(k, k) costs [true, predicted], class weights included."""
    objective: str
    """See `Settings`."""
    unit: float
    """Cost that a temperature of 1 stands for; see `unit_of_temperature`."""
    temperature: float
    """Dimensionless; infinite for a likelihood."""
    alpha: float
    stake: float
    """What the dearest mistake costs on a node of mean weight; that weight if all are free."""
    weight: float
    """Sum of all samples' weights; a sample's share is its own weight divided by it."""
    inference: str
    n_jobs: int | None
    l1: float = 0.0
    standardization: Standardization = field(default_factory=Standardization)
    """Standardization of dense features in training."""
    in_part: bool = False
    """Whether labels of some nodes are known in part, or not at all."""

    def at(self, objective: str, temperature: float, alpha: float) -> Plan:
        """Return the plan for another objective, temperature and penalty."""
        return replace(self, objective=objective, temperature=temperature, alpha=alpha)

    def usual_alpha(self, temperature: float) -> float:
        """The penalty where none is given: scores must differ by what the dearest mistake costs."""
        return 1.0 / self.weight / (1.0 if temperature == np.inf else self.stake)

    def relaxes(self, batch: Batch) -> bool:
        """Whether games on these samples are to be relaxed."""
        return relaxes(self.inference, batch, len(self.classes))

    @property
    def absolute_temperature(self) -> float:
        """T of the training problem in units of the cost; 1 without costs, which have no unit."""
        return 1.0 if self.temperature == np.inf else self.temperature * self.unit

    @property
    def _game_cost(self) -> np.ndarray:
        """(k, k) costs of training, [predictor's label, adversary's label].

        In a hinge the predictor plays the truth y and the adversary the prediction b, so rows are
        true labels, as users give them.
        """
        if self.temperature == np.inf:
            return np.zeros_like(self.cost)
        return self.cost if self.objective == "hinge" else predicted_first(self.cost)

    def retuned(self, problem: Problem) -> Problem:
        """Return the problem of the same samples with this objective, temperature and penalty."""
        relaxed = self.relaxes(problem.design.batch)
        return filled(replace(problem, **self._of_objective, relaxed=relaxed))

    @property
    def _of_objective(self) -> dict[str, Any]:
        """Fields of a `Problem` that depend on objective, temperature and penalty.

        Costs and temperature change here from the user's form to that of the equations, and
        nowhere else.
        """
        cost = self._game_cost
        offset = float(cost.min())  # afterwards the least cost is 0
        return {
            "truth_is_predictor": self.objective == "hinge",
            "cost": np.ascontiguousarray(cost - offset),
            "offset": offset,
            "alpha": self.alpha,
            "temperature": self.absolute_temperature,
        }

    def learnt(self) -> dict[str, Any]:
        """Return the attributes that a model gets before it is trained."""
        attributes: dict[str, Any] = {
            "classes_": self.classes,
            "cost_": self.cost,
            "alpha_": self.alpha,
            "temperature_": self.temperature,
            "absolute_temperature_": self.absolute_temperature,
            "_space": self.space,
            "_rules": self.rules,
        }
        return {**attributes, "type_labels_": self.type_labels} if self.type_labels else attributes

    def weights_for_given(self, theta: np.ndarray) -> np.ndarray:
        """Map weights of standardised columns to weights of columns as given."""
        return self.standardization.weights_for_given(self.space, theta, len(self.classes))

    def weights_for_training(self, coef: np.ndarray) -> np.ndarray:
        """Map weights of columns as given to weights of standardised columns, for warm starts."""
        return self.standardization.weights_for_training(self.space, coef, len(self.classes))

    def assembled(self, corpus: Corpus) -> Problem | None:
        """Return the problem of one shard; None if it has no samples with a positive weight."""
        if not len(corpus):
            return None
        with errors_at_lines(corpus.name, corpus.lines):
            design = self.space.encode(corpus.X)
            digests = sample_digests(design)  # standardising changes columns in place
            self.standardization.applied(design)
            if self.inference == "relaxed" and design.batch.n_chords:
                raise IncompatibleError(
                    f"{corpus.name} holds graphs with cycles, and shards are trained with exact "
                    "games: leave inference='relaxed' out, or fit all samples in memory."
                )
            truth = _truth(corpus, np.diff(design.batch.node_offsets))
            if not truth.sample_weight.any():
                return None
            return replace(self.problem(design, truth), sample_digests=digests)

    def problem(self, design: Design, truth: Truth, relaxed: bool = False) -> Problem:
        """Return the problem of samples that are encoded in ``space``."""
        names = self.classes
        if truth.as_written:  # numbers are read only where they are spelt as Python spells them
            names = as_labels([str(label) for label in names.tolist()])
        codes = encode_labels(truth.classes, names, "y")[truth.codes]
        labels = np.ascontiguousarray(design.batch.from_user(codes))
        if not truth.known.options:
            self.rules.check_truth(design, labels, self.classes)
        problem = Problem(
            design=design,
            labels=labels,
            node_weight=np.ascontiguousarray(design.batch.from_user(truth.node_weight)),
            share=truth.sample_weight / self.weight,
            constraints=self.rules,
            n_jobs=self.n_jobs,
            relaxed=relaxed,
            l1=self.l1,
            **self._of_objective,
        )
        if truth.known.options:
            if relaxed:
                raise IncompatibleError(
                    "labels that are known in part need exact inference, and these graphs are too "
                    "wide for it; leave inference='relaxed' out, or give every node a label."
                )
            problem = with_known(problem, truth.known, names)
            self.rules.check_truth(design, problem.labels, self.classes)
        return filled(problem)


class Settings(Protocol):
    """Parameters of a model that define its objective."""

    loss: Any
    alpha: float | None
    class_weight: Any
    constraints: Any
    inference: str
    n_jobs: int | None
    bias: bool
    standardize: bool
    temperature: float
    l1: float
    objective: str
    """"game" (AGM), "hinge" (SSVM: the predictor is held at the truth) or "likelihood" (CRF: costs
    play a part in decisions only)."""


def relaxes(inference: str, batch: Batch, n_labels: int) -> bool:
    """Return whether to relax the games of these samples."""
    if batch.n_chords == 0 or inference == "exact":
        return False
    return inference == "relaxed" or not batch.buckets.fit(n_labels).all()


def plan_of(settings: Settings, summary: Summary, min_count: int = 1) -> Plan:
    """Return the plan for all shards that ``summary`` sums up.

    Attributes that occur fewer than ``min_count`` times get no weight.
    """
    space = FeatureSpace.of_summary(summary.features, bias=settings.bias, min_count=min_count)
    assert summary.labels is not None  # where there are features there are labels
    summary.bad_labels.warn(Constraints.of(settings.constraints))
    plan = planned(
        settings, space, summary.labels
    )  # nodes may be in other processes: none are counted
    if not settings.standardize:
        return plan
    sides = summary.features.nodes, summary.features.edges
    moments = [None if side is None else side.moments for side in sides]
    return replace(plan, standardization=Standardization.of(space, *moments))


def in_memory(
    settings: Settings, X: Any, y: Any, sample_weight: Any = None, node_weight: Any = None
) -> tuple[Plan, Problem]:
    """Return plan and problem of samples in memory, which are encoded in one pass."""
    parts = Parts.of(X)
    space, design = FeatureSpace.fit(parts, bias=settings.bias)
    batch, digests = design.batch, sample_digests(design)
    sizes = np.diff(batch.node_offsets)
    truth = Truth.of(y, sizes, sample_weight, node_weight, flat=is_flat(X))
    labels = LabelSummary.of(truth, space.types, batch.to_user(design.type_of))
    with_edges = int((np.diff(batch.edge_offsets) > 0).sum())
    plan = planned(settings, space, labels, batch.n_nodes, with_edges)
    if settings.standardize:
        moments = [
            None if blocks is None else Moments.of(blocks, truth.sample_weight)
            for blocks in (parts.nodes, parts.edges)
        ]
        plan = replace(plan, standardization=Standardization.of(space, *moments))
        plan.standardization.applied(design)
    problem = plan.problem(design, truth, plan.relaxes(batch))
    return plan, replace(problem, sample_digests=digests)


def planned(
    settings: Settings,
    space: FeatureSpace,
    labels: LabelSummary,
    n_nodes: int = 0,
    n_with_edges: int = 0,
) -> Plan:
    """Return the plan for these features and labels; refuse a fit that memory cannot hold.

    ``n_nodes`` and ``n_with_edges`` count nodes, and samples with edges, in this process.
    """
    labels = labels.with_numbers()
    if labels.n_unlabelled:
        warn(
            f"y: no label is known in {labels.n_unlabelled} of {labels.n_samples} samples; they "
            "are left out, as nothing can be learnt from them.",
            UserWarning,
        )
    check_some_weight(labels.sample_weight, "sample_weight", "sample")
    mean_weight = labels.mean_node_weight
    check_some_weight(mean_weight, "node_weight", "node")
    classes, total = labels.classes, labels.sample_weight
    types = {kind: labels.by_type[kind] for kind in space.types}
    temperature = np.inf if settings.objective == "likelihood" else float(settings.temperature)
    # Before the first array of that size: transitions need k² weights for each edge feature.
    k, d = len(classes), space.n_node_features
    sizes = Sizes(k, d, d * k + space.n_edge_features * k * k, n_nodes, n_with_edges)
    check_memory(sizes, need_of(settings.objective, temperature, settings.l1))
    rules = TransitionMasks.build(classes, settings.constraints, types)
    factors = class_weights(settings.class_weight, classes, labels.counts)
    cost = as_loss(settings.loss).matrix(classes)
    check_costs(cost, classes)  # a user's own Loss may give any matrix
    cost = class_weighted(cost, classes, factors)
    unit = unit_of_temperature(cost, mean_weight)
    stake = mean_weight * float(np.ptp(cost))
    if temperature < np.inf:
        check_dearest(stake, smooth=temperature > 0.0)
    plan = Plan(
        space=space,
        classes=classes,
        type_labels=types,
        rules=rules,
        cost=cost,
        objective=settings.objective,
        unit=unit,
        temperature=temperature,
        alpha=0.0,
        stake=stake or mean_weight,
        weight=total,
        inference=settings.inference,
        n_jobs=settings.n_jobs,
        l1=float(settings.l1),
        in_part=labels.in_part,
    )
    alpha = plan.usual_alpha(temperature) if settings.alpha is None else settings.alpha
    return replace(plan, alpha=float(alpha))
