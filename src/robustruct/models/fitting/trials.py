"""One setting on one fold: trained on a part of the samples, judged on another."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from robustruct.engines.local import MemoryShards
from robustruct.losses import as_loss
from robustruct.metrics import ComparedLabels
from robustruct.models.fitting.choice import Setting
from robustruct.models.fitting.targets import Target
from robustruct.models.prediction import HeldOut
from robustruct.models.spans import candidates
from robustruct.objectives.adversarial import Problem
from robustruct.objectives.build import Plan
from robustruct.optimizers.certificates import Progress
from robustruct.scores import Scores
from robustruct.spans import SpanCandidates, SpanRule, least_probability
from robustruct.status import Status
from robustruct.validation import check_some_weight

if TYPE_CHECKING:
    from robustruct.models.base import StructuredModel

TRIAL_TOL = 0.03  # trials are trained to this gap, or to ``tol`` if that is larger
COLD = 0.3  # temperatures below take weights of the same size
SCALE_STEP = 10.0 ** (1 / 12)  # where a miss is dear, costs are steep
SCALES = 10  # steps to either side of 1 at most


class Variant(NamedTuple):
    """What one fit can be asked beside its setting: how to decide, and at which scale of scores."""

    decision: str
    scale: float = 1.0
    rule: SpanRule | None = None
    """Of the decision "spans"."""


@dataclass(frozen=True, eq=False)
class Trial:
    """What decisions cost on samples that training had not seen."""

    costs: np.ndarray
    """(n,) total cost of each held-out sample."""
    weights: np.ndarray
    """(n,) total weight of its nodes."""
    groups: np.ndarray | None = None
    """(n,) the group of each sample, by number; None where each is its own."""

    @property
    def score(self) -> float:
        """Minus the mean cost per unit of weight; what rounding tells apart is equal."""
        return -float(f"{self.costs.sum() / self.weights.sum():.9g}")

    def better(self, other: Trial, errors: float = 0.0) -> bool:
        """Whether it costs less, by more than so many standard errors of the difference.

        Both are about the same samples: the comparison is paired. Its units are the groups, as
        samples of one group are wrong together.
        """
        gain = self.score - other.score
        if not errors:
            return gain > 0
        deviations = other.costs - self.costs - gain * self.weights
        if self.groups is not None:
            _, unit_of = np.unique(self.groups, return_inverse=True)
            deviations = np.bincount(unit_of, deviations)
        n = len(deviations)
        variance = n / max(n - 1, 1) * np.sum(deviations**2)
        # Where one sample alone differs and all weigh the same, the two are equal but for rounding.
        return bool(gain > (1.0 + 1e-6) * errors * np.sqrt(variance) / self.weights.sum())

    def of(self, samples: np.ndarray) -> Trial:
        """The same for some samples only."""
        groups = None if self.groups is None else self.groups[samples]
        return Trial(self.costs[samples], self.weights[samples], groups)


def pooled(trials: Sequence[Trial], tests: Sequence[np.ndarray]) -> Trial:
    """The held-out samples ``tests`` of some folds as one trial.

    A sample that was held out several times counts once, with the mean of its costs.
    """
    _, first, sample_of = np.unique(np.concatenate(tests), return_index=True, return_inverse=True)
    times = np.bincount(sample_of)

    def mean(parts: list[np.ndarray]) -> np.ndarray:
        return np.bincount(sample_of, np.concatenate(parts)) / times

    weights = mean([trial.weights for trial in trials])
    check_some_weight(weights.sum(), "weight", "held-out node")
    groups = [trial.groups for trial in trials if trial.groups is not None]
    of_samples = np.concatenate(groups)[first] if groups else None
    return Trial(mean([trial.costs for trial in trials]), weights, of_samples)


def best_constant(plan: Plan, problem: Problem) -> Trial:
    """What every sample would cost if all nodes got the one label that is best for all."""
    starts = problem.design.batch.node_offsets[:-1]
    per_sample = problem.share * plan.weight
    costs = [
        per_sample * np.add.reduceat(problem.known_weight * of_label[problem.labels], starts)
        for of_label in plan.cost.T
    ]
    weights = per_sample * np.add.reduceat(problem.known_weight, starts)
    return Trial(min(costs, key=np.sum), weights)


def trial_tol(model: StructuredModel) -> float:
    """The gap to which trials are trained."""
    return max(model.tol, TRIAL_TOL)


def unit_of_alpha(temperature: float, unit: float) -> float:
    """By what alpha is to be divided so that the penalty is as strong as a CRF's.

    With T above 0 the objective is T times that of a CRF with weights θ / T and the penalty
    alpha T, apart from the cost; ``unit`` is what a temperature of 1 comes to. Where the cost
    prevails, weights no longer shrink with T.
    """
    return 1.0 if temperature == np.inf else max(temperature, COLD) * unit


@dataclass(eq=False)
class Fit:
    """What training has found for a setting."""

    theta: np.ndarray
    state: Any
    """Of the optimizer, for a warm start."""


class Fold:
    """A part to train on, a part to judge by, and the last fit of each member of the family.

    Samples are encoded once, for all folds and for the fit that follows them: features that only
    held-out samples have get no weight, and dense columns are standardised as in that fit.
    """

    def __init__(
        self,
        model: StructuredModel,
        shards: MemoryShards,
        plan: Plan,
        train: np.ndarray,
        test: np.ndarray,
        groups: np.ndarray | None = None,
        target: Target | None = None,
    ) -> None:
        """``target`` is what answers are judged by, instead of their cost."""
        self.model, self.plan, self.test = copy.copy(model), plan, test
        self.groups = None if groups is None else groups[test]
        self.model.verbose, self.model.tol = 0, trial_tol(model)
        given = shards.first.given
        check_some_weight(given.share[train].sum(), "sample_weight", "sample")
        self.shards, held = shards.part(train), given.take(test)
        cost = as_loss(model.loss).matrix(plan.classes)
        weight = given.share[test] * plan.weight
        self.held_out = HeldOut(held.design, held.labels, cost, held.known_weight, weight)
        self.target = target
        self.fits: dict[Setting, Fit] = {}
        self.scores: Scores
        self.spans: SpanCandidates | None
        self.seconds = 0.0
        """How long the last fit took."""

    def train(self, setting: Setting, passes: int, max_time: float | None) -> Status:
        """Train, for so many passes and seconds at most."""
        started, model = time.perf_counter(), self.model
        plan, model.max_iter = self.plan.at(*setting), passes
        start = self._start(setting)
        self.shards.again(plan)
        progress = Progress(self.shards.outline, model.tol, max_time=max_time)
        with warnings.catch_warnings():  # the final fit says what there is to say
            warnings.simplefilter("ignore", UserWarning)
            optimizer = model._chosen_optimizer(self.shards, plan)
            given = (None, None) if start is None else (start.theta, start.state)
            state = model._minimise(self.shards, optimizer, progress, *given)
        if progress.interrupted:
            raise KeyboardInterrupt("interrupted while choosing; no model was trained")
        self.fits = {one: fit for one, fit in self.fits.items() if one[:2] != setting[:2]}
        self.fits[setting] = Fit(progress.theta, state)
        for name, value in plan.learnt().items():
            setattr(model, name, value)
        self.scores, self.spans = model._scores(self.held_out.design, progress.theta), None
        self.seconds = time.perf_counter() - started
        return progress.status(passes)

    def _start(self, setting: Setting) -> Fit | None:
        """Where to begin: at the fit with the nearest penalty, if none is weaker; else afresh.

        Weights are made as large as they would be at the new temperature. Too large ones, of a
        weaker penalty, take longer to shrink than small ones to grow.
        """

        def strength(one: Setting) -> float:
            return one.alpha * unit_of_alpha(one.temperature, self.plan.unit)

        own = [one for one in self.fits if one[:2] == setting[:2]]
        others = [one for one in self.fits if one.temperature > 0 and one[:2] != setting[:2]]
        for known in (own, others):
            stronger = [one for one in known if strength(one) >= 0.99 * strength(setting)]
            if stronger:
                nearest = min(stronger, key=strength)
                fit = self.fits[nearest]
                heats = setting.temperature, nearest.temperature
                new, old = (unit_of_alpha(heat, self.plan.unit) for heat in heats)
                return Fit(fit.theta * (new / old), fit.state if known is own else None)
        return None

    def start(self, setting: Setting) -> np.ndarray | None:
        """Weights from which to train a setting, of this or of a stronger penalty."""
        fit = self._start(setting)
        return None if fit is None else fit.theta

    def cost(self, variant: Variant) -> Trial:
        """What decisions after the last fit cost."""
        model = self.model
        model.decision = model.decision_ = variant.decision
        model.decision_scale_ = variant.scale
        if variant.rule is None:
            return self.judged(model._decide(self.scores, self.held_out.node_weight))
        return self.judged(model._by_spans(self.scores, self._candidates(), variant.rule))

    def judged(self, decided: np.ndarray) -> Trial:
        """What answers (N,) cost, or are worth by the target."""
        held_out = self.held_out
        if self.target is None:
            return Trial(held_out.costs(decided), held_out.weights, self.groups)
        batch = held_out.design.batch
        true, predicted = batch.to_user(held_out.truth), batch.to_user(decided)
        sizes = np.diff(batch.node_offsets)
        compared = ComparedLabels(true, predicted, sizes, self.plan.classes)
        return Trial(*self.target.costs(compared, held_out.sample_weight), self.groups)

    def _candidates(self) -> SpanCandidates:
        """All spans that a rule of the target may predict, after the last fit."""
        if self.spans is None:
            assert self.target is not None
            self.scores = self.model._feasible(self.scores)
            least = min(map(least_probability, self.target.rules))
            self.spans = candidates(self.model, self.scores, least)
        return self.spans

    def by_spans(self) -> dict[Variant, Trial]:
        """What the decision by spans is worth under each rule."""
        assert self.target is not None
        variants = [Variant("spans", rule=rule) for rule in self.target.rules]
        return {one: self.cost(one) for one in variants}

    def constant(self) -> Trial:
        """What the commonest label is worth, predicted everywhere."""
        truth = self.held_out.truth
        return self.judged(np.full_like(truth, np.bincount(truth).argmax()))

    def explored(self, decision: str, scaled: bool) -> dict[Variant, Trial]:
        """What a decision costs, at a scale of 1 and on from there while that does not cost more.

        ``scaled`` tells whether other scales are to be looked at.
        """
        found = {Variant(decision): self.cost(Variant(decision))}
        for direction in (1, -1) if scaled else ():
            last = found[Variant(decision)]
            for step in range(1, SCALES + 1):
                variant = Variant(decision, SCALE_STEP ** (direction * step))
                found[variant] = self.cost(variant)
                if last.better(found[variant]):
                    break
                last = found[variant]
        return found
