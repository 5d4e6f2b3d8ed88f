"""Models trained on the same samples for the same cost, and measured on the same others."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from robustruct.comparison import significance
from robustruct.comparison.examples import Example, disagreements
from robustruct.comparison.samples import Samples, Split, splits
from robustruct.errors import InvalidInputError
from robustruct.guarantees.certificate import Certificate, Observed, certified_cost
from robustruct.labels import as_labels, encode_labels, sorted_labels
from robustruct.losses import LossLike, as_loss
from robustruct.metrics import ComparedLabels, confusion, is_span_labelling, span_scores
from robustruct.models import AGM, CRF, SSVM, AutoModel
from robustruct.models.base import StructuredModel
from robustruct.models.fitting.selection import CutShort, trustworthy
from robustruct.models.fitting.splitting import group_codes
from robustruct.models.fitting.targets import Target, TargetLike, in_lists
from robustruct.models.parameters import check_parameters
from robustruct.progress import duration, note
from robustruct.status import Status
from robustruct.validation import are_lists

KINDS: dict[str, type[StructuredModel]] = {
    "auto": AutoModel,
    "AGM": AGM,
    "CRF": CRF,
    "SSVM": SSVM,
}
"""What is compared: the family with all that is chosen on training samples, and its corners."""
SHARES = {"CRF": 0.2, "SSVM": 0.2, "AGM": 0.2, "auto": 0.4}
"""Of the time, in the order of training: what one leaves of its share is for those after it."""
FITS = 60
"""Of a CRF, which take as long as all other models with their choices, on most data: for a first
word on how long that will be."""
FEWEST = 5  # training samples: alpha is chosen on five folds of them


@dataclass(frozen=True, eq=False)
class SplitFit:
    """One model, trained on the training samples of one split."""

    model: StructuredModel
    seconds: float
    """Of the minimisation, all being chosen."""
    seconds_in_all: float
    """Of the fit, the choice included."""
    cut_short: bool = False
    """Whether ``max_time`` ended the choice before all settings were tried."""


@dataclass(frozen=True, eq=False)
class Method:
    """How one kind of model did on all test samples."""

    name: str
    fits: Sequence[SplitFit]
    """One per split."""
    predicted: Sequence[np.ndarray]
    """Labels of every test sample."""
    costs: np.ndarray
    """(n_samples,) total cost of each test sample."""
    cost: float
    """Mean cost per node (per unit of weight, where nodes have weights)."""
    low: float
    high: float
    """Ends of the 95 % interval of ``cost``."""
    accuracy: float
    """Share of nodes with the right label."""
    confusion: np.ndarray
    """(k, k) number of nodes, [true, predicted]."""
    label_costs: np.ndarray
    """(k,) part of ``cost`` due to nodes where each label is true."""
    span_f1: float | None
    """F1 of spans, where labels are BIO or BIOES."""

    @property
    def seconds(self) -> float:
        return sum(fit.seconds for fit in self.fits)

    @property
    def seconds_in_all(self) -> float:
        return sum(fit.seconds_in_all for fit in self.fits)

    @property
    def gap(self) -> float:
        """The largest certified gap of the fits."""
        return max(fit.model.duality_gap_ for fit in self.fits)

    @property
    def trained(self) -> bool:
        """Whether all fits came close to their optimum; else their costs are those of no method."""
        return all(trustworthy(fit.model) for fit in self.fits)

    @property
    def cut_short(self) -> int | None:
        """How many settings were tried where ``max_time`` ended the choice; None if it did not."""
        cut = [fit for fit in self.fits if fit.cut_short]
        return min((len({t.setting for t in fit.model.trials_}) for fit in cut), default=None)

    @property
    def alphas(self) -> list[float]:
        """The penalty chosen in each split."""
        return [float(fit.model.alpha_) for fit in self.fits]

    @property
    def model(self) -> StructuredModel:
        """That of the first split."""
        return self.fits[0].model

    @property
    def forecast(self) -> dict[str, Any] | None:
        """What its choice in the first split expected of new samples."""
        expected = getattr(self.model, "forecast_", None)
        return None if expected is None else expected._asdict()

    @property
    def chosen(self) -> str:
        """What was chosen in the first split, in words."""
        model = self.model
        member = getattr(model, "member_", type(model).__name__)
        hot = f" at temperature {model.temperature_:g}" if 0 < model.temperature_ < np.inf else ""
        missed = "" if self.trained else f", not trained: gap {self.gap:.2g}"
        scale = model.decision_scale_
        scaled = "" if scale == 1.0 else f" of scores times {scale:.2g}"
        return f"{member}{hot}, decision {model.decision_}{scaled}{missed}"


@dataclass(frozen=True)
class Difference:
    """Mean cost of one method minus that of another, on the same samples."""

    first: str
    second: str
    mean: float
    low: float
    high: float
    """Ends of its 95 % interval."""
    p_value: float
    """Of the paired sign-flip test, corrected for the number of pairs."""
    not_trained: Sequence[str] = ()
    """Those of the two whose training did not come close to the optimum: they are not judged."""

    @property
    def significant(self) -> bool:
        return not self.not_trained and self.p_value < 1 - significance.LEVEL

    def __str__(self) -> str:
        if self.not_trained:
            missed = " and ".join(self.not_trained)
            verb = "was" if len(self.not_trained) == 1 else "were"
            return f"{self.first} and {self.second}: not compared, as {missed} {verb} not trained"
        names = (self.first, self.second) if self.mean <= 0 else (self.second, self.first)
        shown = "p < 0.001" if self.p_value < 1e-3 else f"p = {self.p_value:.2g}"
        if not self.significant:
            return f"{self.first} and {self.second}: no significant difference ({shown})"
        low, high = sorted((abs(self.low), abs(self.high)))
        if self.low < 0 < self.high:
            low = 0.0
        return (
            f"{names[0]} costs less than {names[1]}: by {abs(self.mean):.3g} "
            f"({low:.3g} to {high:.3g}, {shown})"
        )


@dataclass(frozen=True)
class Recommendation:
    """Which model to take, and how sure that is."""

    model: str
    """A method's name."""
    options: Mapping[str, Any]
    """Of ``robustruct train``: what was chosen, so that it need not be chosen again; with a
    ``decision_scale_`` other than 1, which no option gives, alpha is."""
    why: str
    """In words."""


def recommendation(methods: Sequence[Method], differences: Sequence[Difference]) -> Recommendation:
    """The method of least cost; "auto" if that is level with it, as it is what train does.

    A method that was not trained is neither better nor worse than another.
    """
    judged = [method for method in methods if method.trained] or methods
    best = min(judged, key=lambda method: method.cost)
    p = {frozenset((d.first, d.second)): d for d in differences}

    def level(one: Method, other: Method) -> bool:
        return one is other or not p[frozenset((one.name, other.name))].significant

    auto = methods[0]
    taken = auto if auto in judged and level(auto, best) else best
    model = taken.model
    member = getattr(model, "member_", type(model).__name__).lower()
    alpha = f"{model.alpha_:.3g}" if model.decision_scale_ == 1.0 else "auto"
    options: dict[str, Any] = {"model": member, "alpha": alpha}
    if member != "crf" and model.temperature_ > 0:
        options["temperature"] = f"{model.temperature_:g}"
    options["decision"] = model.decision_
    why = [f"{taken.name} ({taken.chosen}), at a cost of {taken.cost:.4g}"]
    if not taken.trained:
        why.append("no method was trained, so none can be said to be better; give more time")
        return Recommendation(taken.name, options, f"{'; '.join(why)}.")
    others = [method for method in judged if method is not taken]
    beaten = [m.name for m in others if not level(taken, m) and taken.cost < m.cost]
    even = [m.name for m in others if level(taken, m)]
    if beaten:
        why.append(f"significantly less than {' and '.join(beaten)}")
    if even:
        why.append(f"level with {' and '.join(even)} as far as these test samples can tell")
    return Recommendation(taken.name, options, f"{'; '.join(why)}.{_caveats(methods)}")


def _caveats(methods: Sequence[Method]) -> str:
    """What was cut, as sentences: it limits what the comparison can say."""
    said = ""
    missed = [f"{m.name} (gap {m.gap:.2g})" for m in methods if not m.trained]
    if missed:
        said += f" Not trained, hence not judged: {', '.join(missed)}."
    cut = [f"{m.name} after {m.cut_short}" for m in methods if m.cut_short is not None]
    if cut:
        said += f" Time ended the choice of settings: {', '.join(cut)}."
    return f"{said} With more time this may change." if said else ""


@dataclass(frozen=True, eq=False)
class Comparison:
    """What `compare` found."""

    data: str
    loss: str
    how: str
    """What the methods were tested on, in words."""
    classes: np.ndarray
    """All labels, of training and test samples."""
    cost_matrix: np.ndarray
    """(k, k) without node weights; rows: true label, columns: predicted label."""
    n_train: int
    n_test: int
    n_test_nodes: int
    weighted: bool
    truth: Sequence[np.ndarray]
    methods: Sequence[Method]
    """One per model: its ``name``, ``cost`` with the ends ``low`` and ``high`` of its interval,
    ``costs`` of the samples, ``accuracy``, ``span_f1``, ``confusion``, ``label_costs``,
    ``predicted`` labels, ``chosen`` (settings, in words), ``alphas``, ``model`` (of the first
    split), ``gap``, ``trained``, ``seconds``, and ``fits``, one per split."""
    differences: Sequence[Difference]
    """One per pair of methods: ``first``, ``second``, the ``mean`` of cost minus cost with the ends
    ``low`` and ``high`` of its interval, ``p_value`` and ``significant``; printed as a sentence."""
    examples: Sequence[Example]
    """Test samples on which methods disagree: ``place`` among the test samples, ``truth``,
    ``predicted`` and ``costs`` by method, ``predictor`` and ``adversary`` of the AGM's game."""
    notes: Sequence[str]
    """Warnings of the fits."""
    certificates: Sequence[Certificate] = ()
    """What test samples prove about the cost of each method on new ones; empty with several splits,
    each of which has its own models."""

    @property
    def recommendation(self) -> Recommendation:
        """Which ``model`` to take, with which ``options`` of the command, and ``why``, in words."""
        return recommendation(self.methods, self.differences)

    def as_dict(self) -> dict[str, Any]:
        """What was measured, ready for JSON."""
        return {
            "data": self.data,
            "loss": self.loss,
            "split": self.how,
            "labels": self.classes.tolist(),
            "n_train": self.n_train,
            "n_test": self.n_test,
            "n_test_nodes": self.n_test_nodes,
            "weighted": self.weighted,
            "models": [
                {
                    "model": method.name,
                    "cost": method.cost,
                    "cost_low": method.low,
                    "cost_high": method.high,
                    "accuracy": method.accuracy,
                    "span_f1": method.span_f1,
                    "chosen": method.chosen,
                    "forecast": method.forecast,
                    "trained": method.trained,
                    "seconds": method.seconds,
                    "seconds_with_choice": method.seconds_in_all,
                    "gap": method.gap,
                    "alpha": method.alphas[0] if len(method.fits) == 1 else method.alphas,
                }
                for method in self.methods
            ],
            "differences": [
                {
                    "first": difference.first,
                    "second": difference.second,
                    "mean": difference.mean,
                    "low": difference.low,
                    "high": difference.high,
                    "p_value": difference.p_value,
                    "significant": difference.significant,
                    "in_words": str(difference),
                }
                for difference in self.differences
            ],
            "recommendation": asdict(self.recommendation),
            "notes": list(self.notes),
        }


def compare(
    samples: Samples,
    test: Samples | None = None,
    loss: LossLike = "hamming",
    *,
    data: str = "data",
    loss_name: str | None = None,
    folds: int | None = None,
    alpha: Any = "auto",
    decision: str = "auto",
    target: TargetLike | None = None,
    max_time: float | None = None,
    n_examples: int = 8,
    n_jobs: int | None = None,
    seed: int = 0,
    verbose: int = 0,
    **parameters: Any,
) -> Comparison:
    """Train the family and its corners AGM, CRF and SSVM for a cost, and compare their mistakes.

    Each chooses what there is to choose on held-out training samples, by the same rule.

    Parameters
    ----------
    samples : Samples
        To train on; also to test on, unless ``test`` is given.
    test : Samples, optional
        By default a third of ``samples`` is held out.
    loss : "hamming", "absolute", "squared", (k, k) array, dict or Loss
        What a mistake costs; rows: true label, columns: predicted label.
    data, loss_name : str
        What to call them.
    folds : int, optional
        Test every sample once, in this many folds; alpha is chosen in each.
    alpha : "auto", sequence of float, or float
        Penalties to choose from, or the one to take.
    decision : "auto", "map", "predictor" or "bayes"
        How labels are chosen, for those models that can.
    target : str, SpanCost or function, optional
        What each choice is made by and all are compared by in place of the cost, as for `AGM.fit`:
        "cost" is then 1 minus an F1 or a recall, and minus the score of a function. Costs by label
        stay those of ``loss``.
    max_time : float, optional
        Seconds that all training together may take; what is cut short is noted.
    n_examples : int
        How many samples to keep on which the methods disagree most.
    n_jobs : int, optional
        Threads.
    seed : int
        Of the splits, of training and of the resampling.
    verbose : int
        1 shows progress.
    **parameters
        Of all models, such as ``constraints``.

    Returns
    -------
    Comparison
    """
    parts, how = splits(samples, test, folds, seed)
    _check_sizes(parts)
    truth = [as_labels(labels) for part in parts for labels in part.test.y]
    classes = sorted_labels([*truth, *(as_labels(y) for part in parts for y in part.train.y)])
    matrix = as_loss(loss).matrix(classes)
    options = {
        "loss": loss,
        "alpha": alpha,
        "n_jobs": n_jobs,
        "random_state": seed,
        "verbose": verbose,
        **parameters,
    }
    fits, notes = _all_trained(parts, decision, max_time, options, target)
    predicted = {
        name: [
            as_labels(labels)
            for f, p in zip(of, parts, strict=True)
            for labels in f.model.predict(p.test.X)
        ]
        for name, of in fits.items()
    }
    weights = _node_weights(parts, truth)
    node_costs = {
        name: np.concatenate(weights)
        * as_loss(loss).evaluate(np.concatenate(truth), np.concatenate(found), classes)
        for name, found in predicted.items()
    }
    starts = np.cumsum([0, *map(len, truth[:-1])])
    costs = {name: np.add.reduceat(found, starts) for name, found in node_costs.items()}
    groups = _groups(parts)
    if len(parts) == 1:  # else all samples have their turn in training
        notes += _surprises(fits, costs, weights, parts[0].test)
    if target is not None:
        costs, weights = _by_target(target, truth, predicted, parts, classes)
    methods, differences = _measured(
        fits, predicted, node_costs, costs, truth, weights, groups, classes, seed
    )
    certificates = []
    if len(parts) == 1:  # else each part has another model
        weight = np.array([w.sum() for w in weights])
        ends, drawn = (float(matrix.min()), float(matrix.max())), len(np.unique(groups))
        grouped = groups if drawn < len(truth) else None
        certificates = [
            certified_cost(Observed(method.costs, weight, *ends, groups=grouped))
            for method in methods
        ]
    return Comparison(
        data=data,
        loss=loss_name or (loss if isinstance(loss, str) else type(as_loss(loss)).__name__),
        how=how,
        classes=classes,
        cost_matrix=matrix,
        certificates=certificates,
        n_train=len(samples) if test is not None or folds is not None else len(parts[0].train),
        n_test=len(truth),
        n_test_nodes=sum(map(len, truth)),
        weighted=any(
            part.test.node_weight is not None or part.test.sample_weight is not None
            for part in parts
        ),
        truth=truth,
        methods=methods,
        differences=differences,
        examples=disagreements(parts, fits["AGM"], predicted, costs, truth, n_examples),
        notes=notes,
    )


def _check_sizes(parts: Sequence[Split]) -> None:
    n_train = min(len(part.train) for part in parts)
    n_test = sum(len(part.test) for part in parts)
    if n_train < FEWEST or n_test < 2:
        raise InvalidInputError(
            f"{n_train} samples to train on and {n_test} to test; a comparison needs at least "
            f"{FEWEST} to train on, to choose alpha, and 2 to test, to say how sure it is."
        )


def _all_trained(
    parts: Sequence[Split],
    decision: str,
    max_time: float | None,
    options: dict[str, Any],
    target: TargetLike | None = None,
) -> tuple[dict[str, list[SplitFit]], list[str]]:
    """(for each kind of model a fit per split, the warnings they gave)."""
    fits: dict[str, list[SplitFit]] = {name: [] for name in KINDS}
    notes: list[str] = []
    started, waiting = time.perf_counter(), len(parts) * sum(SHARES.values())
    for name, share in SHARES.items():
        kind, given = KINDS[name], {**options, "decision": decision}
        try:
            check_parameters(kind(**given))
        except InvalidInputError as error:
            if error.field not in ("decision", "temperature"):
                raise
            given["decision"] = "auto"
            notes.append(f"{name} cannot decide by {decision!r}; it took what suits it.")
        for part in parts:
            spent = time.perf_counter() - started
            limit = None if max_time is None else max(max_time - spent, 1e-3) * share / waiting
            waiting = max(waiting - share, share)  # never 0 for what rounding leaves
            fit, warned = _trained(kind(**given), part.train, limit, target)
            if options["verbose"] and not any(fits.values()):
                _announce(fit, len(parts), max_time)
            fits[name].append(fit)
            notes += [_note(name, warning) for warning in warned]
    return fits, list(dict.fromkeys(notes))


def _announce(first: SplitFit, n_splits: int, max_time: float | None) -> None:
    """Say how long training will take, after the first fit."""
    expected = n_splits * (FITS * first.seconds + first.seconds_in_all)
    most = "" if max_time is None else f", {duration(max_time)} at most"
    shown = expected if max_time is None else min(expected, max_time)
    note(f"training all models will take about {duration(shown)}{most}.")


def _note(name: str, warning: str) -> str:
    """A warning of a fit; what it says of the data is the same for all models."""
    return (
        warning if warning.startswith(("X: ", "y: ")) else f"{name}: {warning.partition(': ')[2]}"
    )


def _trained(
    model: StructuredModel,
    train: Samples,
    max_time: float | None = None,
    target: TargetLike | None = None,
) -> tuple[SplitFit, list[str]]:
    """A fit and the warnings it gave."""
    given: dict[str, Any] = {"groups": train.groups}
    if isinstance(model, AutoModel):  # whose parameters they are
        model.set_params(max_time=max_time, target=target)
    else:
        given["max_time"] = max_time
        given["target"] = target if model._to_choose else None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        started = time.perf_counter()
        model.fit(train.X, train.y, train.sample_weight, train.node_weight, **given)
        elapsed = time.perf_counter() - started
    if model.status_ is Status.INTERRUPTED:
        raise KeyboardInterrupt("interrupted while training; nothing was compared")
    last = model.history_[-1].time if model.history_ else elapsed
    cut = any(issubclass(warning.category, CutShort) for warning in caught)
    return SplitFit(model, last, elapsed, cut), [str(warning.message) for warning in caught]


def _node_weights(parts: Sequence[Split], truth: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Weight of every node of every test sample, those of the samples included."""
    weights: list[np.ndarray] = []
    for part in parts:
        test = part.test
        given = test.node_weight or [np.ones(len(labels)) for labels in test.y]
        factors = np.ones(len(test)) if test.sample_weight is None else test.sample_weight
        weights += [f * np.asarray(w, float) for f, w in zip(factors, given, strict=True)]
    if any(len(w) != len(labels) for w, labels in zip(weights, truth, strict=True)):
        raise InvalidInputError("node_weight of a test sample does not have one weight per node.")
    return weights


def _surprises(
    fits: Mapping[str, Sequence[SplitFit]],
    costs: Mapping[str, np.ndarray],
    weights: Sequence[np.ndarray],
    test: Samples,
) -> list[str]:
    """What test samples look like and cost, against what training samples let expect."""
    total = sum(part.sum() for part in weights)
    if not total > 0:
        return []
    (model, *_) = (fit.model for (fit,) in fits.values())
    doubt = model._doubt(model._looks(test.X))  # of the features, which are the same for all
    found = [] if doubt is None else [doubt]
    for name, (fit,) in fits.items():
        forecast = getattr(fit.model, "forecast_", None)
        if forecast is not None:
            said = forecast.contradicted(costs[name].sum() / total, len(weights))
            found += [] if said is None else [f"{name}: {said}"]
    return found


def _by_target(
    target: TargetLike,
    truth: Sequence[np.ndarray],
    predicted: Mapping[str, Sequence[np.ndarray]],
    parts: Sequence[Split],
    classes: np.ndarray,
) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    """(costs of test samples under each method, a list with the weight of each) by a target."""
    share = np.concatenate(
        [
            np.ones(len(test)) if test.sample_weight is None else np.asarray(test.sample_weight)
            for test in (part.test for part in parts)
        ]
    )
    lists = all(are_lists(part.test.y) for part in parts)
    judge = Target.of(target, classes, form=in_lists if lists else list)
    costs, weights = {}, np.ones(len(truth))
    for name, labels in predicted.items():
        found, weights = judge.costs(ComparedLabels.of(truth, labels), share)
        costs[name] = found + weights if isinstance(target, str) else found
    return costs, list(weights[:, None])


def _groups(parts: Sequence[Split]) -> np.ndarray:
    """(n_samples,) the group of each test sample, by number; each its own where none are given."""
    tests = [part.test for part in parts]
    if any(test.groups is None for test in tests):
        return np.arange(sum(map(len, tests)))
    every = [group for test in tests for group in test.groups or ()]
    return group_codes(every, len(every))


def _measured(
    fits: dict[str, list[SplitFit]],
    predicted: dict[str, list[np.ndarray]],
    node_costs: dict[str, np.ndarray],
    costs: dict[str, np.ndarray],
    truth: list[np.ndarray],
    weights: list[np.ndarray],
    groups: np.ndarray,
    classes: np.ndarray,
    seed: int,
) -> tuple[list[Method], list[Difference]]:
    names = list(fits)
    weight = np.array([w.sum() for w in weights])
    counted = weight > 0  # a sample without weight costs nothing and says nothing
    if counted.sum() < 2:
        raise InvalidInputError("fewer than two test samples have a node of positive weight.")
    table = np.column_stack([costs[name] for name in names])
    rng = np.random.default_rng(seed)
    # Samples of one group are wrong together: groups are what is drawn again.
    _, unit_of = np.unique(groups[counted], return_inverse=True)
    of_units = [np.bincount(unit_of, column) for column in table[counted].T]
    units = np.column_stack(of_units)
    drawn = significance.resampled_means(units, np.bincount(unit_of, weight[counted]), rng)
    n = len(units)
    if n < 2:
        raise InvalidInputError("all test samples are of one group; give samples of others.")
    right = np.concatenate(truth)
    codes = encode_labels(right, classes, "y")
    spans = is_span_labelling(classes)
    methods = []
    for m, name in enumerate(names):
        low, high = significance.interval(drawn[:, m], n)
        found = np.concatenate(predicted[name])
        methods.append(
            Method(
                name=name,
                fits=fits[name],
                predicted=predicted[name],
                costs=costs[name],
                cost=float(table[:, m].sum() / weight.sum()),
                low=low,
                high=high,
                accuracy=float(np.mean(found == right)),
                confusion=confusion(right, found, classes),
                label_costs=np.bincount(codes, node_costs[name], len(classes)) / weight.sum(),
                span_f1=span_scores(truth, predicted[name])[0].f1 if spans else None,
            )
        )
    pairs = list(combinations(range(len(names)), 2))
    p_values = significance.holm(
        [significance.sign_flip_p_value(units[:, a] - units[:, b], rng) for a, b in pairs]
    )
    differences = []
    for (a, b), p_value in zip(pairs, p_values, strict=True):
        low, high = significance.interval(drawn[:, a] - drawn[:, b], n)
        mean = methods[a].cost - methods[b].cost
        missed = [names[m] for m in (a, b) if not methods[m].trained]
        differences.append(Difference(names[a], names[b], mean, low, high, p_value, missed))
    return methods, differences
