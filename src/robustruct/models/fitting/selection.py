"""Choosing objective, temperature, alpha and decision together, on held-out training samples.

One fit serves all decisions. The search goes along alpha first, then over the members of the family
at the best strength of penalty, then along alpha again for the best of them; each fit starts from
the one before it. The same folds, encoded once, serve all. Where samples are few the choice is
noisy: there the best few settings are compared once more, on other folds. Settings that cost the
same are told apart by a rule: the strongest penalty, then the member that is tried first.
"""

from __future__ import annotations

import copy
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from robustruct.engines.local import MemoryShards
from robustruct.errors import InvalidInputError, warn
from robustruct.features.matrix import SparseRows
from robustruct.losses import as_loss, equal_costs
from robustruct.models.fitting.choice import Choice, Setting, Tried
from robustruct.models.prediction import HeldOut
from robustruct.objectives.adversarial import Problem
from robustruct.objectives.build import Plan, relaxes
from robustruct.optimizers.optimizer import Progress
from robustruct.progress import Pace, progress
from robustruct.validation import check_some_weight

if TYPE_CHECKING:
    from robustruct.models.base import StructuredModel

CORNERS = (("game", math.inf), ("game", 0.0), ("hinge", 0.0))
BETWEEN = (("game", 0.3), ("game", 3.0), ("hinge", 1.0))
MIDDLE = ("game", 1.0)
"""Objectives with their temperatures: the search starts in the middle, looks into every corner
(CRF, AGM, SSVM), then between them."""
COLD = 0.3  # temperatures below take weights of the same size
FIRST = 10.0  # times 1 / n_samples: a CRF's alpha where the walk starts; for others `unit_of_alpha`
STEP = 10.0**0.5
PATIENCE = 2  # steps without a clear improvement after which the walk ends
FARTHEST = 14  # steps in either direction: seven orders of magnitude
UNFELT = 0.01  # of the mean square of a feature: a penalty that no longer holds its weights back
SHARE_OF_PASSES = 0.5  # of max_iter: a fold is smaller, and starts from the weights of another fit
TRIAL_TOL = 0.03  # trials are trained to this gap, or to ``tol`` if that is larger
FOLDS = 5
LARGE = 20_000  # nodes from which one part held out says enough
REPEATS = 4  # of the folds at most, the later ones for the best settings only; fewer where all of
# them together would hold out more than LARGE nodes
FINALISTS = 8  # settings that are compared once more, at most


class Place(NamedTuple):
    """A point of the search."""

    objective: str
    temperature: float
    step: int
    """How many steps the penalty is weaker than the first; or its number among those listed."""


@dataclass(frozen=True, eq=False)
class Trial:
    """How the models of all folds did with one setting, on samples they had not seen."""

    costs: np.ndarray
    """(n,) total cost of each held-out sample."""
    weights: np.ndarray
    """(n,) total weight of its nodes."""
    trusted: bool
    """Whether training reached its tolerance in every fold."""

    @property
    def score(self) -> float:
        """Minus the mean cost per unit of weight; what rounding tells apart is equal."""
        return -float(f"{self.costs.sum() / self.weights.sum():.9g}")

    def better(self, other: Trial) -> bool:
        """Whether it is to be preferred; one that is not trusted never is to one that is."""
        if self.trusted != other.trusted:
            return self.trusted
        return self.score > other.score

    def clearly_better(self, other: Trial) -> bool:
        """Whether the scores differ by more than the standard error of their difference.

        Both are about the same samples: the comparison is paired, and samples are its units. A
        trial that is not trusted is worse than any that is.
        """
        if not (self.trusted and other.trusted):
            return self.trusted and not other.trusted
        gain = self.score - other.score
        deviations = other.costs - self.costs - gain * self.weights
        n = len(deviations)
        variance = n / max(n - 1, 1) * np.sum(deviations**2)
        # Where one sample alone differs and all weigh the same, the two are equal but for rounding.
        return bool(gain > (1.0 + 1e-6) * np.sqrt(variance) / self.weights.sum())

    def of(self, samples: np.ndarray) -> Trial:
        """The same for some samples only."""
        return replace(self, costs=self.costs[samples], weights=self.weights[samples])


class CutShort(UserWarning):
    """``max_time`` ended a choice before all settings were tried."""


def trustworthy(model: StructuredModel) -> bool:
    """Whether a fitted model is as close to its optimum as a setting must be to be compared."""
    return model.duality_gap_ <= _trial_tol(model)


def choose(
    model: StructuredModel, shards: MemoryShards, plan: Plan, cv: Any, max_time: float | None
) -> Choice:
    """The setting and the decision that cost least on held-out samples; options as of ``fit``.

    ``plan`` and ``shards`` are of all samples, encoded, for any member.

    What was not trained to its tolerance is not chosen, unless there is nothing else.
    """
    search = _Search(model, shards, plan, cv)
    name, clock, pace = type(model).__name__, _Clock(max_time), Pace()
    with progress(f"{name} choosing {model._to_choose}", bool(model.verbose)) as show:
        for place, folds in search.steps():
            if not clock.has_time:
                break
            setting, found = search.setting(place), []
            for f, fold in enumerate(folds):
                done = (search.n_steps + f / len(folds)) / search.expected
                show(f"{setting}, fold {f + 1} of {len(folds)}", pace.left(done))
                found.append(fold.trial(setting, search.decisions(place)))
            search.take(place, found)
            clock.lap()
    clock.warn(name, len(search.trials))
    tried = search.tried()
    _warn_of_missed(model, tried)
    return Choice.of(tried)


class _Clock:
    """What is left of ``max_time``, with room for the fit that follows the choice."""

    def __init__(self, max_time: float | None) -> None:
        self.limit, self.started = max_time, time.perf_counter()
        self.longest, self.last, self.cut = 0.0, self.started, False

    @property
    def has_time(self) -> bool:
        """Whether another trial and the fit on all samples should end in time."""
        if self.limit is None or not self.longest:
            return True
        self.cut = time.perf_counter() - self.started + 3 * self.longest > self.limit
        return not self.cut

    def lap(self) -> None:
        """A trial is over."""
        now = time.perf_counter()
        self.longest, self.last = max(self.longest, now - self.last), now

    def warn(self, name: str, n_trials: int) -> None:
        """Say that the choice was cut short, if it was."""
        if self.cut:
            warn(
                f"{name}: max_time={self.limit:g} seconds ended the choice after {n_trials} "
                "settings were tried; the best of them is taken. With more time it may find a "
                "better one.",
                CutShort,
            )


class _Search:
    """Where to look next, given what was found so far."""

    def __init__(self, model: StructuredModel, shards: MemoryShards, plan: Plan, cv: Any) -> None:
        self.model = model
        problem = shards.first.given
        batch, n_labels = problem.design.batch, problem.n_labels
        relaxed = relaxes(model.objective, model.inference, batch, n_labels)
        self.plan, self.members = plan, _members(model, relaxed)
        self.alphas = listed_alphas(model)
        first, *others = _splits(model, batch.n_samples, batch.n_nodes, cv)
        self.folds = [_Fold(model, shards, plan, *split) for split in first]
        self.others = [(shards, plan, *split) for repeat in others for split in repeat]
        self.tests = [test for repeat in (first, *others) for _, test in repeat]
        self.found: dict[Place, list[dict[str, Trial]]] = {}
        self.trials: dict[Place, dict[str, Trial]] = {}
        self.first = FIRST / plan.weight
        self.enough = steps_to_unfelt(problem, self.first)
        self.baseline = best_constant(plan, problem).of(np.unique(np.concatenate(self.tests)))

    @property
    def n_steps(self) -> int:
        """How many settings were tried, those that were compared once more counted twice."""
        return sum(1 + (len(found) > len(self.folds)) for found in self.found.values())

    @property
    def expected(self) -> int:
        """How many steps there will be in the end, as far as one can say now."""
        known = len(self.alphas) * len(self.members) or 4 + 2 * len(self.members)
        return max(known + FINALISTS * bool(self.others), self.n_steps + 1)

    def steps(self) -> Iterator[tuple[Place, list[_Fold]]]:
        """The points to try, each with its folds, once all before it have been tried."""
        for place in self.places():
            yield place, self.folds
        if not self.others or len(self.contenders()) == 1:
            return
        others = [_Fold(self.model, *given) for given in self.others]
        for _ in range(FINALISTS):
            left = [
                place for place in self.contenders() if len(self.found[place]) < len(self.tests)
            ]
            if not left:
                return
            yield left[0], others

    def contenders(self) -> list[Place]:
        """The places that are not clearly worse than the best, the best first.

        The best of many is better by luck too. Once it has been tried in other folds it may cost
        more, and others come into question that did not before.
        """
        ranked = sorted(self.trials, key=self.rank, reverse=True)
        best = self.best_of(ranked[0])
        return [place for place in ranked if not best.clearly_better(self.best_of(place))]

    def take(self, place: Place, found: Sequence[dict[str, Trial]]) -> None:
        """Take note of how a place did in some more folds."""
        every = self.found.setdefault(place, [])
        every += found
        self.trials[place] = _pooled(every, self.tests)

    def setting(self, place: Place) -> Setting:
        """The parameters of a model."""
        if self.alphas:
            return Setting(*place[:2], self.alphas[place.step])
        unit = unit_of_alpha(place.temperature, self.plan.unit)
        return Setting(*place[:2], self.first / STEP**place.step / unit)

    def decisions(self, place: Place) -> tuple[str, ...]:
        """Those to compare; with equal costs the predictor's is much like these, but slow."""
        if self.model.decision != "auto":
            return (self.model.decision,)
        if place.objective == "likelihood":
            return ("bayes", "map")
        if place.temperature == math.inf:
            return ("bayes",)
        smooth = ("bayes",) if place.temperature > 0 else ()
        if place.objective == "hinge" or equal_costs(self.plan.cost):
            return ("map", *smooth)
        return ("predictor", "map", *smooth)

    def best_of(self, place: Place) -> Trial:
        """The trial with the best decision."""
        first, *others = self.trials[place].values()
        for other in others:
            first = other if other.better(first) else first
        return first

    def places(self) -> Iterator[Place]:
        """The points to try; each is given once all before it have been tried."""
        if self.alphas:
            for member in self.members:
                yield from (Place(*member, number) for number in range(len(self.alphas)))
            return
        middle, *others = self.members

        def trial(step: int) -> Trial:
            return self.best_of(Place(*middle, step))

        for step in walk(trial, self.baseline, self.enough):
            yield Place(*middle, step)
        best = self.ranking()[0]
        for member in others:
            yield Place(*member, best.step)
        if others:
            yield from self._refined(self.ranking())

    def _refined(self, ranking: Sequence[Place]) -> Iterator[Place]:
        """Along alpha from the best place, and from the corners.

        So the choice is as good as that of each corner alone, which goes along alpha from its own
        best place. Where there is one fold, as samples are many, corners are left out that are
        clearly worse.
        """
        corners = [place for place in ranking[1:] if place[:2] in CORNERS]
        for place in (ranking[0], *corners):
            best = self.best_of(self.ranking()[0])
            skipped = len(self.folds) == 1 and best.clearly_better(self.best_of(place))
            for direction in () if skipped else (1, -1):
                yield from self._slide(place, direction)

    def _slide(self, place: Place, direction: int) -> Iterator[Place]:
        """On from a place along alpha, while that helps."""
        for _ in range(PATIENCE + 1):
            following = place._replace(step=place.step + direction)
            if abs(following.step) > FARTHEST:
                return
            if following not in self.trials:
                yield following
            if not self.best_of(following).better(self.best_of(place)):
                return
            place = following

    def rank(self, place: Place) -> tuple[bool, float, int, int]:
        """What the best place has most of; of equals the strongest penalty, then the member that
        is tried first.
        """
        found = self.best_of(place)
        return found.trusted, found.score, -place.step, -self.members.index(place[:2])

    def ranking(self) -> list[Place]:
        """One place for each member of the family, the best first."""
        best: dict[tuple[str, float], Place] = {}
        for place in sorted(self.trials, key=self.rank, reverse=True):
            best.setdefault(place[:2], place)
        return list(best.values())

    def tried(self) -> list[Tried]:
        """All that was tried; of equals the one to take stands first (see `rank`)."""
        return [
            Tried(
                *self.setting(place), decision, trial.score, trial.trusted, len(self.found[place])
            )
            for place in sorted(self.trials, key=self.rank, reverse=True)
            for decision, trial in self.trials[place].items()
        ]


def unit_of_alpha(temperature: float, unit: float) -> float:
    """By what alpha is to be divided so that the penalty is as strong as a CRF's.

    With T above 0 the objective is T times that of a CRF with weights θ / T and the penalty
    alpha T, apart from the cost; ``unit`` is what a temperature of 1 comes to. Where the cost
    prevails, weights no longer shrink with T.
    """
    return 1.0 if temperature == math.inf else max(temperature, COLD) * unit


def walk(trial: Callable[[int], Trial], baseline: Trial, enough: int) -> Iterator[int]:
    """Steps to weaker penalties (or, below 0, stronger ones); ``trial(step)`` tells how one did.

    Down from the first until two steps have brought no clear improvement, or training misses its
    tolerance, as it would for weaker penalties too; up as well if none was clearly better than
    the first and that was trained to its tolerance. While none is clearly better than ``baseline``,
    penalties may be too strong for anything to be learnt, and the walk goes on, as far as
    ``enough`` steps (`steps_to_unfelt`). So the walk passes the best on both sides, however
    features and costs are scaled (unless it lies beyond seven orders of magnitude), and noise does
    not lengthen it.
    """
    yield 0
    best = 0  # the step of the last clear improvement
    for direction in (1, -1):
        step = idle = 0
        while idle < PATIENCE and abs(step) < FARTHEST and trial(step).trusted:
            step += direction
            yield step
            if trial(step).clearly_better(trial(best)):
                best, idle = step, 0
            elif direction < 0 or step >= enough:
                idle += 1
            else:
                idle += trial(best).clearly_better(baseline)
        if best > 0:
            return


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


def listed_alphas(model: StructuredModel) -> list[float]:
    """The penalties to compare, strongest first; none if they are to be found."""
    if model.alpha is None or isinstance(model.alpha, str):
        return []
    return sorted({float(a) for a in np.ravel(np.asarray(model.alpha))}, reverse=True)


def _members(model: StructuredModel, relaxed: bool) -> list[tuple[str, float]]:
    """(objective, temperature) of the members to compare; the first is where to start."""
    objectives = model._objectives
    if objectives == ("likelihood",):
        return [("likelihood", math.inf)]
    if not isinstance(model.temperature, str):
        return [(objective, float(model.temperature)) for objective in objectives]
    if relaxed:  # a relaxed adversary has no entropy
        return [(objective, 0.0) for objective in objectives]
    members = [MIDDLE, *CORNERS, *BETWEEN]
    if objectives == ("hinge",):
        members = [("hinge", temperature) for temperature in (1.0, 0.0, 0.3, 3.0)]
    if model.decision == "bayes":  # needs probabilities
        members = [member for member in members if member[1] > 0]
    return [member for member in members if member[0] in objectives]


def best_constant(plan: Plan, problem: Problem) -> Trial:
    """What every sample would cost if all nodes got the one label that is best for all."""
    starts = problem.design.batch.node_offsets[:-1]
    per_sample = problem.share * plan.weight
    costs = [
        per_sample * np.add.reduceat(problem.node_weight * of_label[problem.labels], starts)
        for of_label in plan.cost.T
    ]
    weights = per_sample * np.add.reduceat(problem.node_weight, starts)
    return Trial(min(costs, key=np.sum), weights, trusted=True)


def _pooled(folds: Sequence[dict[str, Trial]], tests: Sequence[np.ndarray]) -> dict[str, Trial]:
    """For each decision the held-out samples of some folds as one trial.

    A sample that was held out several times counts once, with the mean of its costs.
    """
    _, sample_of = np.unique(np.concatenate(tests[: len(folds)]), return_inverse=True)
    times = np.bincount(sample_of)

    def mean(parts: list[np.ndarray]) -> np.ndarray:
        return np.bincount(sample_of, np.concatenate(parts)) / times

    pooled = {}
    for decision in folds[0]:
        trials = [found[decision] for found in folds]
        weights = mean([trial.weights for trial in trials])
        check_some_weight(weights.sum(), "weight", "held-out node")
        pooled[decision] = Trial(
            mean([trial.costs for trial in trials]),
            weights,
            all(trial.trusted for trial in trials),
        )
    return pooled


def _warn_of_missed(model: StructuredModel, tried: Sequence[Tried]) -> None:
    """Say which penalties could not be compared: a better one may lie there."""
    missed = [one.alpha for one in tried if not one.trusted]
    if missed:
        from sklearn.exceptions import ConvergenceWarning  # takes long to load

        warn(
            f"{type(model).__name__}: with alpha={max(missed):.2g} training missed a gap of "
            f"{_trial_tol(model):g} within the {_passes(model)} passes that a fold of the choice "
            "may take; it and weaker penalties are not compared. To try them, raise max_iter or "
            "tol, or scale the features alike.",
            ConvergenceWarning,
        )


def _passes(model: StructuredModel) -> int:
    return int(np.ceil(SHARE_OF_PASSES * model.max_iter))


def _trial_tol(model: StructuredModel) -> float:
    return max(model.tol, TRIAL_TOL)


class _Fold:
    """A part to train on, a part to judge by, and the last fit."""

    def __init__(
        self,
        model: StructuredModel,
        shards: MemoryShards,
        plan: Plan,
        train: np.ndarray,
        test: np.ndarray,
    ) -> None:
        self.model, self.plan = copy.copy(model), plan
        self.model.verbose, self.model.max_iter, self.model.tol = (
            0,
            _passes(model),
            _trial_tol(model),
        )
        given = shards.first.given
        check_some_weight(given.share[train].sum(), "sample_weight", "sample")
        self.shards, held = shards.part(train), given.take(test)
        cost = as_loss(model.loss).matrix(plan.classes)
        weight = given.share[test] * plan.weight
        self.held_out = HeldOut(held.design, held.labels, cost, held.node_weight, weight)
        self.last: Setting | None = None
        self.theta: np.ndarray
        self.state: Any = None

    def trial(self, setting: Setting, decisions: Sequence[str]) -> dict[str, Trial]:
        """Train, and look at what is held out with every decision."""
        plan, model = self.plan.at(*setting), self.model
        start = self._start(setting)
        self.shards.again(plan)
        progress = Progress(self.shards.outline, model.tol)
        with warnings.catch_warnings():  # the final fit says what there is to say
            warnings.simplefilter("ignore", UserWarning)
            optimizer = model._chosen_optimizer(self.shards, plan)
            self.state = model._minimise(self.shards, optimizer, progress, start, self.state)
        if progress.interrupted:
            raise KeyboardInterrupt("interrupted while choosing; no model was trained")
        self.last, self.theta = setting, progress.theta
        for name, value in plan.learnt().items():
            setattr(model, name, value)
        scores = model._scores(self.held_out.design, self.theta)
        found = {}
        for decision in decisions:
            model.decision = decision
            costs = self.held_out.costs(model._decide(scores, self.held_out.node_weight))
            found[decision] = Trial(costs, self.held_out.weights, progress.converged)
        return found

    def _start(self, setting: Setting) -> np.ndarray | None:
        """The weights of the last fit, as large as they would be at the new temperature.

        None to start afresh, where the last penalty was weaker.
        """
        if self.last is None:
            return None
        if setting[:2] == self.last[:2] and setting.alpha > self.last.alpha:
            return None
        units = (unit_of_alpha(one.temperature, self.plan.unit) for one in (setting, self.last))
        new, old = units
        return self.theta * (new / old)


def _splits(
    model: StructuredModel, n_samples: int, n_nodes: int, cv: Any
) -> list[list[tuple[np.ndarray, np.ndarray]]]:
    """The folds that ``cv`` asks for, and repeats of them.

    "auto" holds one fifth out where samples are many, and repeats the folds where they are few.
    """
    if not isinstance(cv, int | np.integer | str):
        from sklearn.model_selection import check_cv  # takes long to load

        return [list(check_cv(cv).split(np.arange(n_samples)))]
    n_folds = min(FOLDS, n_samples) if isinstance(cv, str) else int(cv)
    if n_samples < 2:
        raise InvalidInputError(
            f"{type(model).__name__}: there is one sample, so none can be held out to choose "
            f"{model._to_choose}; give more samples, or the values themselves."
        )
    if not 2 <= n_folds <= n_samples:
        raise InvalidInputError(
            f"{type(model).__name__}: cv={n_folds} folds, but there are {n_samples} samples; "
            f"choose between 2 and {n_samples}, or pass a scikit-learn splitter."
        )
    repeats = max(1, min(REPEATS, LARGE // n_nodes)) if isinstance(cv, str) else 1
    shuffled = _shuffler(model.random_state)
    every = [dealt_out(shuffled(n_samples), n_folds) for _ in range(repeats)]
    return [every[0][:1]] if isinstance(cv, str) and n_nodes >= LARGE else every


def _shuffler(random_state: Any) -> Callable[[int], np.ndarray]:
    """Permutes as scikit-learn would: None is numpy's global generator."""
    if random_state is None:
        return np.random.permutation
    if isinstance(random_state, np.random.RandomState):
        return random_state.permutation
    return np.random.RandomState(int(random_state)).permutation


def dealt_out(order: np.ndarray, n_folds: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(the others, those held out) of each fold of shuffled samples, as a ``KFold`` has them."""
    every, tests = np.arange(len(order)), map(np.sort, np.array_split(order, n_folds))
    return [(np.setdiff1d(every, test, assume_unique=True), test) for test in tests]
