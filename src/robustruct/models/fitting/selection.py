"""Choosing objective, temperature, alpha and decision together, on held-out training samples.

A race instead of a grid. Every corner of the family runs on one fold first, at its usual penalty.
From there the search goes on along alpha and between the corners, except from members that are
surely worse than the best. The best settings then run on further folds, fewer of them on each,
while more than one can still win. One fit serves all decisions, and all scales of scores before a
decision. Whenever time is up, the best of what was tried is taken.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from robustruct.engines.local import MemoryShards
from robustruct.errors import IncompatibleError, warn
from robustruct.features.matrix import SparseRows
from robustruct.losses import equal_costs, symmetric_costs
from robustruct.models.fitting.choice import Choice, Setting, Tried
from robustruct.models.fitting.dependence import are_like_neighbours
from robustruct.models.fitting.forecast import Candidates, Forecast, forecast
from robustruct.models.fitting.splitting import group_codes, splits
from robustruct.models.fitting.targets import Form, Target, TargetLike, implied, in_lists
from robustruct.models.fitting.trials import (
    Fold,
    Trial,
    Variant,
    best_constant,
    pooled,
    trial_tol,
    unit_of_alpha,
)
from robustruct.models.parameters import needs_probabilities
from robustruct.objectives.adversarial import Problem
from robustruct.objectives.build import Plan
from robustruct.progress import Show, progress
from robustruct.spans import are_chains
from robustruct.status import Status
from robustruct.validation import are_lists, is_flat

if TYPE_CHECKING:
    from robustruct.models.base import StructuredModel

Member = tuple[str, float]
"""An objective with its temperature."""

CORNERS: tuple[Member, ...] = (("game", math.inf), ("game", 0.0), ("hinge", 0.0), ("game", 1.0))
"""CRF, AGM, SSVM, and the middle of the three; the CRF trains the fastest and is the first."""
BETWEEN: dict[Member, tuple[Member, ...]] = {
    ("hinge", 1.0): (("hinge", 0.0), ("game", math.inf)),
    ("game", 3.0): (("game", 1.0), ("game", math.inf)),
    ("game", 0.3): (("game", 0.0), ("game", 1.0)),
}
"""Members that are tried while one of their neighbours can still win."""
STEP = 10.0**0.5
FARTHEST = 14  # steps in either direction: seven orders of magnitude
UNFELT = 0.01  # of the mean square of a feature: a penalty that no longer holds its weights back
CLEAR, SURE = 1.0, 2.0
"""Standard errors by which one setting is clearly better than another, and surely better."""
FIRST_PASSES, MORE_PASSES = 15, 4
"""A first look at temperature 0, where training to the end takes the longest, and times as many
whenever it goes on. Held-out costs after 15 passes were within 3 % of those after 60."""
SHARE_OF_PASSES = 0.5  # of max_iter: a fold is smaller, and starts from the weights of another fit
FINALISTS = (8, 4, 3)
"""How many settings run on the second fold, on the third and on each that follows, at most."""
TRIALS = 12, 14
"""On the first fold, and on all others, as a rule: for a word on how long the choice will take."""
FINAL_FIT = 2.0  # times as long as on a fold: it has more samples and a smaller tolerance


DEPENDENT = (
    "X: samples are far more like those next to them than like others. If neighbours belong "
    "together (documents, subjects, recordings), say so with groups, and whole groups are held "
    "out. Else the choice is made for samples that training has as good as seen, and new ones "
    "cost more."
)


class Place(NamedTuple):
    """A point of the search."""

    objective: str
    temperature: float
    step: int
    """How many steps the penalty is weaker than the usual one; or its number among those listed."""


class Dependent(UserWarning):
    """Samples look as if they belonged to groups, and no groups were given."""


class CutShort(UserWarning):
    """``max_time`` ended a choice before all settings were tried."""


def trustworthy(model: StructuredModel) -> bool:
    """Whether a fitted model is as close to its optimum as a setting must be to be compared."""
    return model.duality_gap_ <= trial_tol(model)


def choose(
    model: StructuredModel,
    shards: MemoryShards,
    plan: Plan,
    cv: Any,
    max_time: float | None,
    target: TargetLike | None = None,
) -> Choice:
    """The setting and the decision that cost least on held-out samples; options as of ``fit``.

    ``plan`` and ``shards`` are of all samples, encoded, for any member. What was not trained to its
    tolerance is not chosen, unless there is nothing else.
    """
    race = Race(model, shards, plan, cv, max_time, target)
    name = type(model).__name__
    grouped = race.groups is not None or not isinstance(cv, str | int)
    if not grouped and are_like_neighbours(shards.first.given):
        warn(DEPENDENT, Dependent)
    with progress(f"{name} choosing {model._to_choose}", bool(model.verbose)) as race.show:
        for place in race.starts():
            race.run(place)
        for place in race.search():
            race.run(place)
        for finalists in race.rounds():
            race.run_on_next_fold(finalists)
    if race.cut:
        warn(
            f"{name}: max_time={max_time:g} seconds ended the choice after {len(race.entries)} "
            "settings were tried; the best of them is taken. With more time it may find a "
            "better one.",
            CutShort,
        )
    choice = replace(Choice.of(race.tried()), forecast=race.forecast())
    if max_time is None:  # then the model is, to the bit, that of a fit with these parameters
        return choice
    return replace(choice, start=race.folds[0].start(choice.best.setting))


@dataclass(eq=False)
class Entry:
    """A setting in the race."""

    place: Place
    found: list[dict[Variant, Trial]] = field(default_factory=list)
    """Costs in each fold that it ran on."""
    trusted: bool = True
    """Whether training reached its tolerance in every fold."""
    unfinished: bool = False
    """Whether it missed it, but had fewer passes or less time than it may have."""
    passes: int = 0
    """Of the last training on the first fold, at most."""
    seconds: float = 0.0
    """Of all training there."""
    best: Variant = field(init=False)
    trial: Trial = field(init=False)
    """Costs of the best variant in all folds."""
    by_decision: dict[str, tuple[Variant, Trial]] = field(init=False)
    scores: list[float] = field(default_factory=list)
    """What the score was after each fold."""

    def judge(self, tests: Sequence[np.ndarray]) -> None:
        """Find the best variant: the plain one, unless another one is clearly better.

        Plain is a scale of 1, and the Bayes rule for the cost of spans. No threshold is.
        """
        common = [one for one in self.found[-1] if all(one in found for found in self.found)]
        trials = {one: pooled([found[one] for found in self.found], tests) for one in common}
        self.by_decision = {}
        for plain in plain_variants(common):
            alike = [one for one in common if one.decision == plain.decision]
            best = max(alike, key=lambda one: trials[one].score)
            is_threshold = isinstance(best.rule, float)
            best = best if is_threshold or trials[best].better(trials[plain], CLEAR) else plain
            self.by_decision[plain.decision] = best, trials[best]
        self.best, self.trial = max(self.by_decision.values(), key=lambda pair: pair[1].score)
        self.scores = [*self.scores[: len(self.found) - 1], self.trial.score]

    @property
    def is_undecided(self) -> bool:
        """Whether another decision or scale may turn out to be better."""
        last = self.found[-1]
        costs = last[self.best].costs
        return any(not np.array_equal(last[one].costs, costs) for one in self.variants())

    def variants(self) -> list[Variant]:
        """Those to look at in one more fold: all but the clearly worse, and plain ones."""
        last = self.found[-1]
        best = last[self.best]
        kept = [one for one in last if not best.better(last[one], CLEAR)]
        decisions = {one.decision for one in kept}
        plain = [one for one in plain_variants(last) if one.decision in decisions]
        return list(dict.fromkeys([*plain, *kept]))


def plain_variants(variants: Iterable[Variant]) -> list[Variant]:
    """The first variant of each decision, from which the others differ."""
    first: dict[str, Variant] = {}
    for one in variants:
        first.setdefault(one.decision, one)
    return list(first.values())


class Race:
    """The settings that were tried, and which to try next."""

    def __init__(
        self,
        model: StructuredModel,
        shards: MemoryShards,
        plan: Plan,
        cv: Any,
        max_time: float | None,
        target: TargetLike | None = None,
    ) -> None:
        self.model, self.shards, self.plan = model, shards, plan
        self.started, self.max_time, self.cut = time.perf_counter(), max_time, False
        self.share = math.inf
        """Seconds that the next trial may take, whatever is left."""
        self.show: Show
        problem = shards.first.given
        batch = problem.design.batch
        self.members = members(model)
        self.alphas = listed_alphas(model, plan)
        target = implied(target, model.decision)
        self.target = None
        if target is not None:
            if problem.partial is not None:
                raise IncompatibleError(
                    "a target counts right and wrong labels of whole samples, and some labels in y "
                    "are not known; choose by the cost, which leaves these out."
                )
            form = form_of(shards.samples.X, shards.samples.y)
            self.target = Target.of(target, plan.classes, model.decision, form)
        self.chains = are_chains(batch)
        groups = group_codes(shards.samples.groups, batch.n_samples)
        self.groups = None if shards.samples.groups is None else groups
        self.splits = splits(model, groups, batch.n_nodes, cv)
        self.wants_all_folds = not isinstance(cv, str)
        self.folds = [self.fold(0)]
        self.entries: dict[Place, Entry] = {}
        if self.target is None:
            self.baseline = best_constant(plan, problem).of(np.unique(self.splits[0][1]))
        else:
            self.baseline = self.folds[0].constant()
        self.enough = steps_to_unfelt(problem, plan.usual_alpha(math.inf))

    # ------------------------------------------------------------------------------- where to look

    def starts(self) -> Iterator[Place]:
        """The corners at their usual penalty; of penalties that are listed, all with all members.

        They may take half of the time, each half of what is left of that: the first is the fastest,
        and one has to be trained to its tolerance. What is cut goes on later (see `open_places`).
        """
        corners = [one for one in self.members if one not in BETWEEN] or self.members
        places = [Place(*one, 0) for one in corners]
        if self.alphas:
            places = [Place(*one, n) for one in self.members for n in range(len(self.alphas))]
        for n, place in enumerate(places):
            if not self.has_time():
                break
            if self.max_time is not None:
                self.share = max(self.left() - 0.5 * self.max_time, 0.0) / min(len(places) - n, 2)
            yield place
        self.share = math.inf

    def search(self) -> Iterator[Place]:
        """Settings whose trial can change the choice, in view of all trials before."""
        while (place := next(self.open_places(), None)) is not None and self.has_time():
            yield place

    def open_places(self) -> Iterator[Place]:
        """Members between others, then neighbours along alpha, then what missed its tolerance.

        Members that are clearly worse than the best are left alone. Where nothing has reached its
        tolerance, something has to first.
        """
        if not any(entry.trusted for entry in self.entries.values()):
            yield from (place for place, entry in self.entries.items() if entry.unfinished)
        by_member: dict[Member, Entry] = {}
        for entry in self.ranked():
            by_member.setdefault(entry.place[:2], entry)
        best, *others = by_member.values()
        near = [best, *(one for one in others if not best.trial.better(one.trial, CLEAR))]
        unfinished = [entry.place for entry in near if entry.unfinished]
        if self.alphas:
            yield from unfinished
            return
        close = {entry.place[:2] for entry in near}
        for member, sides in BETWEEN.items():
            if member in self.members and member not in by_member and close & set(sides):
                yield self.as_strong(member, best.place)
        for entry in near:
            yield from self.neighbours(entry) if entry.trusted else ()
        yield from unfinished

    def neighbours(self, entry: Entry) -> Iterator[Place]:
        """The next stronger and the next weaker penalty, if they are open.

        From the first setting of a member one step is tried in each direction, as later folds may
        prefer it; if none follow, to weaker ones only from the member that is the best. From the
        best setting it goes on to stronger penalties, and to weaker ones only while these cost
        clearly less, or while nothing is learnt: noise must not lead to penalties that hold
        nothing back.
        """
        place, step = entry.place, entry.place.step
        stronger, weaker = (place._replace(step=step + by) for by in (-1, 1))
        before = self.entries.get(stronger)
        learnt = entry.trial.better(self.baseline, CLEAR)
        gained = before is not None and entry.trial.better(before.trial, CLEAR)
        wanted = [stronger]
        if gained or (not learnt and step < self.enough):
            wanted.append(weaker)
        if len(self.splits) > 1 or place[:2] == self.ranked()[0].place[:2]:
            first = next(one for one in self.entries if one[:2] == place[:2])
            wanted.append(first._replace(step=first.step + 1))
        for one in wanted:
            if one not in self.entries and abs(one.step) <= FARTHEST:
                yield one

    def as_strong(self, member: Member, other: Place) -> Place:
        """The place of a member whose penalty is nearest in strength to that of another place."""
        wanted, own = (self.strength(place) for place in (other, Place(*member, 0)))
        step = round(math.log(own / wanted, STEP))
        return Place(*member, max(-FARTHEST, min(step, FARTHEST)))

    def rounds(self) -> Iterator[list[Entry]]:
        """For each further fold the settings to run on it, while the choice is open."""
        for fold in range(1, len(self.splits)):
            runners = [one for one in self.ranked() if len(one.found) == fold]
            runners = runners[: FINALISTS[min(fold, len(FINALISTS)) - 1]]
            while len(runners) > 1 and runners[0].trial.better(runners[-1].trial, SURE):
                runners.pop()
            undecided = len(runners) > 1 or (runners and runners[0].is_undecided)
            if not (undecided or (runners and self.wants_all_folds)) or not self.has_time():
                return
            yield sorted(runners, key=lambda one: self.strength(one.place), reverse=True)

    def ranked(self) -> list[Entry]:
        """All settings, the best first.

        Of equals the strongest penalty, then the member that is tried first. Those that cannot be
        trained to their tolerance are last.
        """

        def rank(entry: Entry) -> tuple[bool, int, float, int, int]:
            place, runs = entry.place, entry.trusted or entry.unfinished
            member = self.members.index(place[:2])
            strength = round(math.log(self.strength(place), STEP))  # in steps, as members differ
            strength = -place.step if self.alphas else strength
            return runs, len(entry.found), entry.trial.score, strength, -member

        return sorted(self.entries.values(), key=rank, reverse=True)

    # ---------------------------------------------------------------------------------- one trial

    def run(self, place: Place) -> None:
        """Train a setting on the first fold, or go on with that, and look at its costs."""
        fold, known = self.folds[0], self.entries.get(place)
        entry = known or Entry(place)
        most = _passes(self.model)
        if place.temperature > 0.0 or entry.passes >= most:
            entry.passes = most
        else:
            entry.passes = min(MORE_PASSES * entry.passes or FIRST_PASSES, most)
        self._tell(place, 0)
        status = fold.train(self.setting(place), entry.passes, self._seconds())
        entry.seconds += fold.seconds
        entry.trusted = status is Status.CONVERGED
        entry.unfinished = status is Status.MAX_TIME or (
            status is Status.MAX_ITER and entry.passes < most
        )
        found: dict[Variant, Trial] = {}
        for decision in self.decisions(place):
            if decision == "spans":
                found |= fold.by_spans()
            else:
                found |= fold.explored(decision, entry.trusted and self.is_scaled(decision))
        entry.found = [found]
        entry.judge([fold.test])
        self.entries[place] = entry

    def fold(self, number: int) -> Fold:
        """Return one of the folds, without any fits."""
        judged_by = self.groups, self.target
        return Fold(self.model, self.shards, self.plan, *self.splits[number], *judged_by)

    def run_on_next_fold(self, entries: Sequence[Entry]) -> None:
        """Train settings on one more fold; where time ends that, it counts for none of them."""
        number = len(self.folds)
        fold = self.fold(number)
        self.folds.append(fold)
        results = []
        for entry in entries:
            if not self.has_time():
                return
            self._tell(entry.place, number)
            setting = self.setting(entry.place)
            status = fold.train(setting, _passes(self.model), self._seconds())
            results.append((status, {one: fold.cost(one) for one in entry.variants()}))
        for entry, (status, found) in zip(entries, results, strict=True):
            entry.trusted = entry.trusted and status is Status.CONVERGED
            entry.found.append(found)
            entry.judge([one.test for one in self.folds])
        fold.fits.clear()

    def setting(self, place: Place) -> Setting:
        """The parameters of a model."""
        if self.alphas:
            return Setting(*place[:2], self.alphas[place.step])
        return Setting(*place[:2], self.plan.usual_alpha(place.temperature) / STEP**place.step)

    def strength(self, place: Place) -> float:
        """The penalty in units of a CRF's."""
        return self.setting(place).alpha * unit_of_alpha(place.temperature, self.plan.unit)

    def decisions(self, place: Place) -> tuple[str, ...]:
        """Those to compare.

        Games take longer to solve than models to train. So the predictor's decision is left out
        with equal costs, where it is much like the others, and above temperature 0, where Bayes's
        at the right scale did as well or better on every data set that was tried.
        """
        if self.model.decision != "auto":
            return (self.model._decision,)
        if self.target is not None:
            return self._decisions_for_a_target(place)
        if place.temperature > 0:
            no_map = place.temperature == math.inf and place.objective != "likelihood"
            return ("bayes",) if no_map else ("bayes", "map")
        if place.objective == "hinge" or equal_costs(self.plan.cost):
            return ("map",)
        return ("predictor", "map")

    def _decisions_for_a_target(self, place: Place) -> tuple[str, ...]:
        """The likeliest labelling may do well by it whatever the costs, and spans if there are."""
        if place.temperature == 0:
            return ("map",) if place.objective == "hinge" else ("map", "predictor")
        assert self.target is not None
        return ("map", "bayes", *(["spans"] if self.target.rules and self.chains else []))

    def is_scaled(self, decision: str) -> bool:
        """Whether scales other than 1 are looked at; with equal costs they change next to nothing.

        Nor with symmetric ones for the predictor, whose games are slow.
        """
        if decision == "predictor":
            return not symmetric_costs(self.plan.cost)
        return decision == "bayes" and not equal_costs(self.plan.cost)

    def tried(self) -> list[Tried]:
        """All that was tried; of equals the one to take stands first (see `ranked`).

        Some folds are dearer than others. So what was dropped after a few folds is given the score
        of the best on all folds, less by how much it was behind it on these.
        """
        best, found = self.ranked()[0], []
        for entry in self.ranked():
            n_folds = len(entry.found)
            later = best.scores[-1] - best.scores[min(n_folds, len(best.scores)) - 1]
            found += [
                Tried(
                    *self.setting(entry.place),
                    variant.decision,
                    variant.scale,
                    trial.score + later,
                    entry.trusted,
                    n_folds,
                    variant.rule,
                )
                for variant, trial in entry.by_decision.values()
            ]
        return found

    def forecast(self) -> Forecast | None:
        """What the best setting will cost on new samples; see the module of that name."""
        if self.target is not None:  # what was measured is no cost
            return None
        trusted = [entry for entry in self.ranked() if entry.trusted]
        every = trusted or self.ranked()
        best, n_folds = every[0], len(every[0].found)
        ids = [fold.test if fold.groups is None else fold.groups for fold in self.folds[:n_folds]]
        n_units, unit_of = _numbered(ids)

        def totals(parts: Sequence[np.ndarray]) -> np.ndarray:
            placed = zip(unit_of, parts, strict=False)  # of the first folds
            return np.sum([np.bincount(at, part, n_units) for at, part in placed], axis=0)

        own = [found[best.best] for found in best.found]
        candidates = []
        for n in range(1, n_folds + 1):
            ran = [entry.found for entry in every if len(entry.found) == n]
            parts = [
                totals([of_fold[one].costs for of_fold in found])
                for found in ran
                for one in found[-1]
                if all(one in of_fold for of_fold in found)
            ]
            if parts:
                of_best = totals([trial.costs for trial in own[:n]])
                weights = totals([trial.weights for trial in own[:n]])
                candidates.append(Candidates(np.stack(parts), of_best, weights))
        weights = totals([trial.weights for trial in own])
        n_samples = len(np.unique(np.concatenate([fold.test for fold in self.folds[:n_folds]])))
        held = [fold.held_out for fold in self.folds[:n_folds]]
        one_mistake = float(held[0].cost.max()) / sum(len(part.truth) for part in held)
        costs = totals([trial.costs for trial in own])
        return forecast(costs, weights, candidates, n_samples, one_mistake)

    # ---------------------------------------------------------------------------------- time

    def left(self) -> float:
        """Seconds until the model has to be trained."""
        if self.max_time is None:
            return math.inf
        return self.max_time - (time.perf_counter() - self.started)

    def has_time(self) -> bool:
        """Whether one more trial can begin; the first always can."""
        if self.entries and self.left() <= self._final_fit():
            self.cut = True
        return not self.cut

    def _final_fit(self) -> float:
        """Seconds that the fit of the best setting on all samples may take."""
        if not self.entries:
            return 0.0
        member = self.ranked()[0].place[:2]
        alike = (one.seconds for one in self.entries.values() if one.place[:2] == member)
        return FINAL_FIT * max(alike)  # most of them had weights to start from

    def _seconds(self) -> float | None:
        """What a trial may take: it leaves enough for the last fit."""
        if self.max_time is None:
            return None
        return max(min(self.share, self.left() - self._final_fit()), 0.0)

    def _tell(self, place: Place, fold: int) -> None:
        self.show(f"{self.setting(place)}, fold {fold + 1} of {len(self.splits)}", self.expected())

    def expected(self) -> float | None:
        """Seconds until the model is trained, as the trials so far let expect."""
        if not self.entries:
            return self.max_time
        later = sum(len(one.found) - 1 for one in self.entries.values())
        first = max(TRIALS[0] - len(self.entries), 0 if later else 1)
        rest = max(TRIALS[1] - later, 0) if len(self.splits) > 1 else 0
        seconds = sum(one.seconds for one in self.entries.values()) / len(self.entries)
        return min(seconds * (first + rest) + self._final_fit(), max(self.left(), 0.0))


def _numbered(ids: Sequence[np.ndarray]) -> tuple[int, list[np.ndarray]]:
    """(how many different ids there are, their numbers in the place of each)."""
    known, numbers = np.unique(np.concatenate(ids), return_inverse=True)
    return len(known), np.split(numbers, np.cumsum([len(part) for part in ids])[:-1])


def steps_to_unfelt(problem: Problem, first: float) -> int:
    """How many steps from a CRF's penalty ``first`` until no weight is held back by it any more.

    The log loss curves by the mean square of a feature, times at most a quarter. The feature that
    varies least decides, as it may be the one that says something.
    """
    nodes, share = problem.design.nodes, problem.node_share
    if isinstance(nodes, SparseRows):
        per_entry = np.repeat(share, np.diff(nodes.indptr)) * nodes.data**2
        squares = np.bincount(nodes.indices, per_entry, nodes.shape[1])
    else:
        squares = share @ np.square(nodes)
    least = min(squares[squares > 0], default=first)
    return min(max(math.ceil(math.log(first / (UNFELT * least), STEP)), 0), FARTHEST)


def form_of(X: Any, y: Any) -> Form:
    """Puts labels of samples into the form in which ``fit`` was given them."""
    if is_flat(X):
        return np.concatenate
    return in_lists if are_lists(y) else list


def listed_alphas(model: StructuredModel, plan: Plan) -> list[float]:
    """The penalties to compare, strongest first; none if they are to be found."""
    if model.alpha is None and "alpha" not in model._to_choose:
        return [plan.usual_alpha(plan.temperature)]
    if model.alpha is None or isinstance(model.alpha, str):
        return []
    return sorted({float(a) for a in np.ravel(np.asarray(model.alpha))}, reverse=True)


def members(model: StructuredModel) -> list[Member]:
    """The members of the family to compare, in the order in which they are tried."""
    objectives = model._objectives
    if objectives == ("likelihood",):
        return [("likelihood", math.inf)]
    if not isinstance(model.temperature, str):
        return [(objective, float(model.temperature)) for objective in objectives]
    every = [*CORNERS, *BETWEEN]
    if objectives == ("hinge",):
        every = [("hinge", temperature) for temperature in (1.0, 0.0, 0.3, 3.0)]
    if needs_probabilities(model.decision):
        every = [member for member in every if member[1] > 0]
    return [member for member in every if member[0] in objectives]


def _passes(model: StructuredModel) -> int:
    return int(np.ceil(SHARE_OF_PASSES * model.max_iter))
