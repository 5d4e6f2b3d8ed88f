"""Parameters of models: a table says what each may be, and one check reads it before a fit."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from numbers import Integral, Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from robustruct.arrays import LARGEST, SMALLEST, as_array
from robustruct.constraints import Constraints
from robustruct.engines.engine import Engine
from robustruct.errors import InvalidInputError, InvalidTypeError, shown
from robustruct.metrics import SpanCost
from robustruct.models.fitting import targets
from robustruct.models.fitting.targets import TargetLike
from robustruct.optimizers.checkpoints import Checkpoint
from robustruct.optimizers.optimizer import Optimizer
from robustruct.optimizers.tuning import COLDEST

if TYPE_CHECKING:
    from robustruct.models.base import StructuredModel


Decision = Literal["auto", "map", "predictor", "bayes", "spans"] | SpanCost
Inference = Literal["auto", "exact", "relaxed"]
OptimizerName = Literal["auto", "dual_ascent", "lbfgs", "natural_ascent", "subgradient"]
ClassWeight = Mapping[Any, float] | Literal["balanced"]
Alpha = float | Sequence[float] | Literal["auto"]

LEAST_ALPHA, MOST_ALPHA = 1e-30, 1e30


def is_real(value: Any) -> bool:
    """Whether it is a number that a float can hold; an integer may be too large."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    try:
        return not math.isnan(value)
    except OverflowError:
        return False


class Accepted(Protocol):
    """What a parameter may be."""

    def complaint(self, name: str, value: Any) -> str | None:
        """What is wrong with a value, and what to give instead; None if nothing is."""


@dataclass(frozen=True)
class Positive(Accepted):
    """A finite number > 0."""

    meaning: str

    def complaint(self, name: str, value: Any) -> str | None:
        if is_real(value) and 0 < value < math.inf:
            return None
        return f"{name}={shown(value)}; {name} is {self.meaning} and must be > 0."


@dataclass(frozen=True)
class Strength(Positive):
    """A strength of the penalty; beyond the limits bounds are lost to rounding."""

    def complaint(self, name: str, value: Any) -> str | None:
        found = super().complaint(name, value)
        if found is not None or LEAST_ALPHA <= value <= MOST_ALPHA:
            return found
        return (
            f"{name}={shown(value)}; {name} is {self.meaning} and must be from {LEAST_ALPHA:g} to "
            f"{MOST_ALPHA:g}: beyond, bounds are lost to rounding."
        )


@dataclass(frozen=True)
class Temperature(Accepted):
    """0, a number of ordinary size, infinity, or "auto"."""

    def complaint(self, name: str, value: Any) -> str | None:
        if isinstance(value, str) and value == "auto":
            return None
        if is_real(value) and value >= 0:
            if value in (0, math.inf) or SMALLEST <= value <= LARGEST:
                return None
            return (
                f"{name}={shown(value)}; {name} must be 0, inf or between {SMALLEST:g} and "
                f"{LARGEST:g}. Use {name}={'0' if value < 1 else 'inf'}, which is as good as that."
            )
        return (
            f"{name}={shown(value)}; {name} weighs the log loss against the cost and must be a "
            "number >= 0 (0: the cost alone), inf (the log loss alone) or 'auto'."
        )


@dataclass(frozen=True)
class NotNegative(Accepted):
    """A finite number >= 0."""

    meaning: str

    def complaint(self, name: str, value: Any) -> str | None:
        if is_real(value) and 0 <= value < math.inf:
            return None
        return f"{name}={shown(value)}; {name} is {self.meaning} and must be a number >= 0."


@dataclass(frozen=True)
class Count(Accepted):
    """An integer > 0."""

    meaning: str

    def complaint(self, name: str, value: Any) -> str | None:
        if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1:
            return None
        return f"{name}={shown(value)}; {name} is {self.meaning} and must be an integer > 0."


@dataclass(frozen=True, init=False)
class OneOf(Accepted):
    """One of a few names."""

    choices: tuple[str, ...]

    def __init__(self, *choices: str) -> None:
        object.__setattr__(self, "choices", choices)

    def complaint(self, name: str, value: Any) -> str | None:
        if isinstance(value, str) and value in self.choices:
            return None
        close = get_close_matches(value, self.choices, 1) if isinstance(value, str) else []
        hint = f"did you mean {close[0]!r}? Use" if close else "use"
        known = ", ".join(map(repr, self.choices))
        return f"{name}={shown(value)} is not known; {hint} one of {known}."


class DecisionOf(OneOf):
    """One of a few names, or the cost of spans to decide by."""

    def complaint(self, name: str, value: Any) -> str | None:
        if isinstance(value, SpanCost):
            return None
        found = super().complaint(name, value)
        return found and f"{found.removesuffix('.')}, or a SpanCost."


class OptimizerFor(OneOf):
    """One of a few names, or an `Optimizer` that takes the model's objective."""

    objective: str

    def __init__(self, objective: str, *choices: str) -> None:
        super().__init__(*choices)
        object.__setattr__(self, "objective", objective)

    def complaint(self, name: str, value: Any) -> str | None:
        if isinstance(value, Optimizer):
            if self.objective in value.objectives:
                return None
            value = value.name
        return super().complaint(name, value)

    def stored(self, value: Any) -> str:
        """The name under which a file keeps it: options and classes of others do not fit in."""
        name: str = value if isinstance(value, str) else value.name
        return name if name in self.choices else "auto"


@dataclass(frozen=True)
class OrNone(Accepted):
    """What ``inner`` accepts, or None."""

    inner: Accepted

    def complaint(self, name: str, value: Any) -> str | None:
        return None if value is None else self.inner.complaint(name, value)


@dataclass(frozen=True)
class OneOrSearch(Accepted):
    """What ``each`` accepts, or several of these to choose from, or "auto"."""

    each: Accepted

    def complaint(self, name: str, value: Any) -> str | None:
        if isinstance(value, str):
            return None if value == "auto" else f"{self.each.complaint(name, value)} Or use 'auto'."
        if not isinstance(value, Iterable) or getattr(value, "ndim", 1) == 0:
            return self.each.complaint(name, value)
        values = as_array(value, name).ravel().tolist()
        if not values:
            return f"{name} is empty; list the values to choose from."
        return next(filter(None, (self.each.complaint(name, one) for one in values)), None)


@dataclass(frozen=True)
class Passing(Accepted):
    """Whatever passes a test."""

    test: Callable[[Any], bool]
    remedy: str

    def complaint(self, name: str, value: Any) -> str | None:
        return None if self.test(value) else f"{name}={shown(value)}; {self.remedy}"


@dataclass(frozen=True)
class ConstraintRules(Accepted):
    """What `Constraints.of` takes."""

    def complaint(self, name: str, value: Any) -> str | None:
        try:
            Constraints.of(value)
        except InvalidInputError as error:
            return str(error)
        return None


@dataclass(frozen=True)
class Aim(Accepted):
    """What a choice may be made by."""

    def complaint(self, name: str, value: Any) -> str | None:
        return targets.complaint(value)


@dataclass(frozen=True)
class WithTheData(Accepted):
    """Can only be judged once samples and labels are known, and is checked there."""

    def complaint(self, name: str, value: Any) -> str | None:
        return None


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool | np.bool_) or (isinstance(value, Integral) and value in (0, 1))


FLAG = Passing(_is_flag, "give True or False.")

PARAMETERS: Mapping[str, Accepted] = MappingProxyType(
    {
        "loss": WithTheData(),
        "alpha": OrNone(OneOrSearch(Strength("the strength of the penalty (None: 1 / n_samples)"))),
        "temperature": Temperature(),
        "optimizer": OptimizerFor("hinge", "auto", "dual_ascent", "natural_ascent"),
        "tol": Positive("the relative duality gap at which training stops"),
        "max_iter": Count("the largest number of passes over the data"),
        "decision": DecisionOf("auto", "map", "predictor", "bayes", "spans"),
        "standardize": FLAG,
        "class_weight": WithTheData(),
        "constraints": ConstraintRules(),
        "inference": OneOf("auto", "exact", "relaxed"),
        "n_jobs": OrNone(
            Passing(
                lambda value: isinstance(value, Integral) and value != 0,
                "give a number of threads, -1 for all cores, or None for one.",
            )
        ),
        "random_state": OrNone(
            Passing(
                lambda value: isinstance(value, Integral | np.random.RandomState),
                "give an integer, a numpy RandomState, or None.",
            )
        ),
        "verbose": Passing(
            lambda value: isinstance(value, Integral) and int(value) >= 0,
            "give 0 for silence or 1 for progress.",
        ),
    }
)
"""What AGM, CRF and SSVM accept where they do not say otherwise."""

OF_A_CHOICE: Mapping[str, Accepted] = MappingProxyType(
    {
        "cv": Passing(
            lambda value: not isinstance(value, str) or value == "auto",
            "give 'auto', a number of folds or a scikit-learn splitter.",
        ),
        "max_time": OrNone(Positive("the number of seconds that a fit may take")),
        "target": Aim(),
    }
)
"""Options of ``fit``, but parameters of `AutoModel`, which is a choice."""

OF_A_FIT: Mapping[str, Accepted] = MappingProxyType(
    {
        "patience": Count("the number of evaluations without improvement"),
        "engine": OrNone(
            Passing(
                lambda value: hasattr(type(value), "map"),
                "give a DaskEngine, or None to train in this process.",
            )
        ),
        "checkpoint": OrNone(
            Passing(
                lambda value: isinstance(value, Checkpoint | str | os.PathLike),
                "give a Checkpoint, the path of a folder, or None.",
            )
        ),
        "warm_start": FLAG,
        "groups": WithTheData(),
        **OF_A_CHOICE,
    }
)
"""What ``fit`` accepts beside the data."""

MOVED: Mapping[str, str] = MappingProxyType(
    {
        "alphas": "alpha='auto' or alpha=[...]",
        "forbidden": "constraints=[(label, next label), ...]",
        "bad_labels": "constraints=Constraints(..., bad_labels=...)",
        **{name: f"fit(..., {name}=...)" for name in OF_A_FIT},
    }
)
"""Names that are no parameters of a model, and what to use instead."""


def refuse_moved(kind: type, names: Iterable[str]) -> None:
    """Say what to use instead of names that ``kind`` does not take, where that is known."""
    for name in names:
        if name in MOVED and name not in inspect.signature(kind).parameters:
            raise InvalidTypeError(
                f"{kind.__name__}() has no parameter {name!r}: use {MOVED[name]}.", field=name
            )


@dataclass(frozen=True, eq=False)
class FitOptions:
    """What one call of ``fit`` is asked beside the data; see there."""

    validation: tuple[Any, Any] | None = None
    patience: int = 5
    engine: Engine | None = None
    checkpoint: Checkpoint | str | os.PathLike[str] | None = None
    cv: Any = "auto"
    max_time: float | None = None
    warm_start: bool = False
    groups: Any = None
    target: TargetLike | None = None


def is_search(alpha: Any) -> bool:
    """Whether a model's ``alpha`` is to be chosen, from several or from all."""
    return alpha is not None and not isinstance(alpha, Real)


def needs_probabilities(decision: Any) -> bool:
    """Whether a decision cannot be made at temperature 0."""
    return isinstance(decision, SpanCost) or decision in ("bayes", "spans")


def with_choices(without: Sequence[str] = (), **choices: Accepted) -> Mapping[str, Accepted]:
    """The table of a model that differs in some choices, and may lack parameters."""
    table = {**PARAMETERS, **choices}
    return MappingProxyType({name: table[name] for name in table if name not in without})


def check_parameters(model: StructuredModel) -> None:
    """Refuse values that no fit can use; what depends on the data is checked where it is used."""
    _check_each(model, model._parameters, model)
    if "temperature" in model._parameters:
        complaint = _temperature_complaint(model)
        if complaint is not None:
            raise InvalidInputError(f"{type(model).__name__}: {complaint}", field="temperature")


def _temperature_complaint(model: StructuredModel) -> str | None:
    """What does not go with the temperature, and what to give instead; None if all does."""
    value, optimizer = model.temperature, optimizer_name(model.optimizer)
    if isinstance(value, str):
        if optimizer != "auto":
            return f"temperature='auto' needs optimizer='auto'; optimizer={optimizer!r} is not."
        return None
    if value == 0:
        if optimizer == "natural_ascent":
            return f"optimizer={optimizer!r} needs a temperature > 0; use optimizer='auto'."
        if needs_probabilities(model.decision):
            return (
                f"decision={shown(model.decision)} needs probabilities, hence a temperature > 0; "
                "use decision='map' or 'predictor', or a CRF."
            )
        return None
    with_it = f"temperature={shown(value)}"
    if optimizer not in ("auto", "natural_ascent"):
        return f"optimizer={optimizer!r} is for temperature=0; use optimizer='auto' with {with_it}."
    if value == math.inf and model.decision == "map":
        return (
            f"with {with_it} the cost plays a part in the decision alone, and decision='map' "
            "ignores it; use decision='bayes'."
        )
    return None


def check_fit_options(model: StructuredModel, options: FitOptions) -> None:
    """Refuse options of ``fit`` that it cannot use, or not with the model's parameters."""
    _check_each(model, OF_A_FIT, options)
    if options.target is not None and not model._to_choose:
        raise InvalidInputError(
            f"{type(model).__name__}: target={shown(options.target)} is what a choice is made by, "
            "and nothing is chosen; use alpha='auto', temperature='auto' or decision='spans'.",
            field="target",
        )
    heat = getattr(model, "temperature", 0.0)
    if options.engine is not None and not isinstance(heat, str) and 0 < heat < COLDEST:
        raise InvalidInputError(
            f"{type(model).__name__}: an engine trains with temperature=0 or at least "
            f"{COLDEST:g}, not temperature={shown(heat)}.",
            field="temperature",
        )


def _check_each(model: StructuredModel, table: Mapping[str, Accepted], given: object) -> None:
    for name, accepted in table.items():
        complaint = accepted.complaint(name, getattr(given, name))
        if complaint is not None:
            raise InvalidInputError(f"{type(model).__name__}: {complaint}", field=name)


def optimizer_name(optimizer: Any) -> Any:
    """The name of an optimizer, which is given by it or as an object that has options."""
    return optimizer if isinstance(optimizer, str) else getattr(optimizer, "name", optimizer)
