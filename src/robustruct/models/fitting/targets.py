"""What a choice judges by instead of the cost: F1 of spans or labels, recall, any score.

Comparisons are about costs of samples. A score that is not a sum over samples is given some: minus
its pseudo-values of the jackknife, whose mean is minus the score, and whose differences from it are
what each sample does to it. So two answers are compared in pairs, by samples or groups, as they are
by costs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from numbers import Real
from typing import Any

import numpy as np

from robustruct.errors import IncompatibleError, InvalidInputError, shown
from robustruct.metrics import ComparedLabels, SpanCost, is_span_labelling
from robustruct.spans import SpanLabels, SpanRule

TargetLike = str | SpanCost | Callable[[Any, Any], float]
"""What users may pass."""
Costs = tuple[np.ndarray, np.ndarray]
"""((n_samples,) costs, (n_samples,) weights)."""

Form = Callable[[Sequence[np.ndarray]], Any]
"""From arrays of labels to what a function is given."""


def in_lists(labels: Sequence[np.ndarray]) -> list[list[Any]]:
    """The form of labels that were given as lists."""
    return [one.tolist() for one in labels]


PARTS = 20
"""Parts of the samples that a function is asked about, each left out once: one call for each."""
THRESHOLDS = (0.01, 0.02, *(n / 20 for n in range(1, 20)), 0.98)
"""Least probabilities of spans that are tried."""
_COUNTED = re.compile(r"(?P<of>span_)?(?P<what>f1|recall@(?P<precision>[0-9.]+))(:(?P<kind>.+))?")
NAMES = "'span_f1', 'f1', 'recall@PRECISION', 'span_recall@PRECISION'"


def complaint(target: Any) -> str | None:
    """What is wrong with a target, whatever the labels; None if nothing is."""
    if target is None or isinstance(target, SpanCost) or callable(target):
        return None
    parts = _COUNTED.fullmatch(target) if isinstance(target, str) else None
    if parts is None:
        close = get_close_matches(str(target), ["span_f1", "f1", "recall@0.9"], 1)
        hint = f"did you mean {close[0]!r}? Use" if close else "use"
        return (
            f"target={shown(target)} is not known; {hint} {NAMES} (one label or type of span after "
            "a colon, such as 'f1:B-PER'), a SpanCost, or a function score(y_true, y_pred)."
        )
    if parts["precision"] is not None and not _is_share(parts["precision"]):
        return f"target={shown(target)}: a precision is a number above 0, and 1 at most."
    return None


def _is_share(text: str) -> bool:
    try:
        return 0 < float(text) <= 1
    except ValueError:
        return False


def implied(target: TargetLike | None, decision: Any) -> TargetLike | None:
    """The target that is meant where none is given: decisions by spans are judged by spans."""
    if target is not None:
        return target
    if isinstance(decision, SpanCost):
        return decision
    return "span_f1" if decision == "spans" else None


@dataclass(frozen=True, eq=False)
class Target:
    """What answers on held-out samples are worth."""

    costs: Callable[[ComparedLabels, np.ndarray], Costs]
    """Of true and predicted labels and (n_samples,) weights of samples."""
    rules: Sequence[SpanRule]
    """Those to compare for the decision by spans; none if labels follow no scheme."""

    @classmethod
    def of(
        cls,
        target: TargetLike,
        classes: np.ndarray,
        decision: Any = "auto",
        form: Form = list,
    ) -> Target:
        """For these labels; refuse what they lack. A function gets labels in a form."""
        spans = _of_spans(target) or isinstance(decision, SpanCost) or decision == "spans"
        if spans:
            SpanLabels.of(classes)
        rules: Sequence[SpanRule] = THRESHOLDS if is_span_labelling(classes) else ()
        if isinstance(target, SpanCost):
            rules = [target, *map(target.at, THRESHOLDS)]
        if isinstance(decision, SpanCost):
            rules = [decision]
        if isinstance(target, SpanCost):
            return cls(partial(_span_costs, target), rules)
        if callable(target):
            return cls(partial(_function_costs, target, form), rules)
        return cls(_counted(target, classes), rules)


def _of_spans(target: TargetLike) -> bool:
    return isinstance(target, SpanCost) or (isinstance(target, str) and target.startswith("span_"))


def _span_costs(cost: SpanCost, compared: ComparedLabels, share: np.ndarray) -> Costs:
    """A cost of spans is a sum over samples by itself."""
    return share * cost.of(compared), share


def _counted(target: str, classes: np.ndarray) -> Callable[..., Costs]:
    """A target that depends on what is right, true and predicted, and how often."""
    parts = _COUNTED.fullmatch(target)
    assert parts is not None  # see `complaint`
    kind: Any = parts["kind"]
    labels = classes.tolist()
    if parts["of"]:
        count: Callable[..., np.ndarray] = ComparedLabels.span_counts
        known = {one: one for one in SpanLabels.of(classes).types}
    else:
        count, known = ComparedLabels.label_counts, {str(one): one for one in labels}
    if kind is not None:
        if kind not in known:
            what = "type of span" if parts["of"] else "label"
            raise IncompatibleError(
                f"target={shown(target)}: there is no {what} {shown(kind)}; there are "
                f"{', '.join(list(known)[:20])}."
            )
        kind = known[kind]
    precision = None if parts["precision"] is None else float(parts["precision"])

    def costs(compared: ComparedLabels, share: np.ndarray) -> Costs:
        counts = share * count(compared, kind)
        total = counts.sum(axis=1)
        score = partial(_f1 if precision is None else _recall, precision)
        left_out = score(*(total[:, None] - counts))
        return _as_costs(float(score(*total[:, None])[0]), left_out, np.arange(len(left_out)))

    return costs


def _f1(_: float | None, right: np.ndarray, true: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    both = true + predicted
    return np.divide(2 * right, both, out=np.zeros_like(both), where=both > 0)


def _recall(
    least: float | None, right: np.ndarray, true: np.ndarray, predicted: np.ndarray
) -> np.ndarray:
    """Recall, if the precision is high enough; else minus what the precision falls short."""
    assert least is not None
    recall = np.divide(right, true, out=np.zeros_like(true), where=true > 0)
    precision = np.divide(right, predicted, out=np.ones_like(true), where=predicted > 0)
    return np.where(precision >= least - 1e-12, recall, precision - least)


def _function_costs(
    function: Callable[[Any, Any], float], form: Form, compared: ComparedLabels, _: np.ndarray
) -> Costs:
    """A function of all labels: parts of the samples are left out in turn."""
    cuts, classes = np.cumsum(compared.n_nodes)[:-1], compared.classes
    true, predicted = (
        np.split(classes[codes], cuts) for codes in (compared.true, compared.predicted)
    )
    n = len(true)
    part_of = np.arange(n) % min(PARTS, n)

    def score(samples: np.ndarray) -> float:
        return _called(function, *(form([one[s] for s in samples]) for one in (true, predicted)))

    every = score(np.arange(n))
    numbers = range(min(PARTS, n)) if n > 1 else ()
    left_out = [score(np.flatnonzero(part_of != part)) for part in numbers]
    return _as_costs(every, np.array(left_out or [every]), part_of)


def _called(function: Callable[[Any, Any], float], true: Any, predicted: Any) -> float:
    score = function(true, predicted)
    if not isinstance(score, Real) or isinstance(score, bool) or not np.isfinite(score):
        name = getattr(function, "__name__", type(function).__name__)
        raise InvalidInputError(
            f"target: {name}(y_true, y_pred) returned {shown(score)}; a score is a finite number, "
            "and larger is better.",
            field="target",
        )
    return float(score)


def _as_costs(score: float, left_out: np.ndarray, part_of: np.ndarray) -> Costs:
    """Minus the pseudo-values, so that their mean is minus the score.

    ``left_out`` holds the score without each part, ``part_of`` (n,) the part of each sample. What a
    part of several samples does is shared out so that the error of the mean stays what it is.
    """
    n, n_parts = len(part_of), len(left_out)
    effect = -(n_parts - 1) * np.sqrt(n / n_parts) * left_out[part_of]
    return -(score + effect - effect.mean()), np.ones(n)
