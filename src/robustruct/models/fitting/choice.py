"""What was tried to choose a model's parameters, and what was chosen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from robustruct.metrics import SpanCost
from robustruct.spans import SpanRule

if TYPE_CHECKING:
    from robustruct.models.fitting.forecast import Forecast

MEMBERS = {"game": "AGM", "hinge": "SSVM", "likelihood": "CRF"}
"""The model that each objective belongs to."""
DECISIONS = ("map", "predictor", "bayes", "spans")


def is_number(value: Any) -> bool:
    """Whether it is a number that has a place among the floats; NaN is none."""
    if type(value) is int:
        return abs(value) < 2**1000
    return type(value) is float and not math.isnan(value)


def is_span_rule(value: Any) -> bool:
    """Whether a decision by spans can be made by it."""
    return isinstance(value, SpanCost) or (is_number(value) and 0 <= value <= 1)


class Setting(NamedTuple):
    """What a fit is made with."""

    objective: str
    temperature: float
    alpha: float

    def __str__(self) -> str:
        hot = "" if self.objective == "likelihood" else f"temperature {self.temperature:g}, "
        return f"{MEMBERS[self.objective]}, {hot}alpha {self.alpha:.2g}"


class Tried(NamedTuple):
    """How one setting did on held-out samples, with one way to decide."""

    objective: str
    """"game" (AGM), "hinge" (SSVM) or "likelihood" (CRF)."""
    temperature: float
    alpha: float
    decision: str
    scale: float
    """What scores are multiplied with before the decision."""
    score: float
    """Minus the mean cost per node, or the score that was the target; of what ran on fewer folds
    than the best, estimated by how far it was behind it on these."""
    trusted: bool
    """Whether training reached its tolerance in every fold; else this is what it had reached."""
    n_folds: int
    """In how many folds; the best settings are compared in more than others."""
    rule: SpanRule | None = None
    """With the decision "spans", by which threshold or costs."""

    @property
    def setting(self) -> Setting:
        """What the fit was made with."""
        return Setting(*self[:3])

    @property
    def is_sound(self) -> bool:
        """Whether a fit could have written it; for those that were read from a file."""
        return (
            self.objective in MEMBERS
            and self.decision in DECISIONS
            and all(map(is_number, self[1:3]))
            and is_number(self.score)
            and is_number(self.scale)
            and 0 < self.scale < math.inf
            and self.temperature >= 0
            and 0 < self.alpha < math.inf
            and isinstance(self.trusted, bool)
            and type(self.n_folds) is int
            and 0 < self.n_folds < 2**31
            and (self.rule is None or is_span_rule(self.rule))
        )


@dataclass(frozen=True)
class Choice:
    """The best of what was tried."""

    best: Tried
    tried: Sequence[Tried]
    start: np.ndarray | None = None
    """Weights for training to start from, where it has to be quick."""
    forecast: Forecast | None = None
    """What it will cost."""

    @classmethod
    def of(cls, tried: Sequence[Tried]) -> Choice:
        """What is not trusted is chosen only where nothing is; of equals the one that is first."""
        best = max(tried, key=lambda one: (one.trusted, one.score))
        return cls(best, tuple(tried))

    def alpha_scores(self) -> dict[float, float]:
        """For each alpha the best score of what was chosen else, of those that are trusted."""
        at = [one for one in self.tried if one.setting[:2] == self.best.setting[:2]]
        kept = [one for one in at if one.trusted] or at
        scores: dict[float, float] = {}
        for one in sorted(kept, key=lambda one: -one.alpha):
            scores[one.alpha] = max(scores.get(one.alpha, one.score), one.score)
        return scores
