"""Thresholds that keep a risk below a target (conformal risk control, Angelopoulos et al. 2022).

A decision misses fewer nodes the higher its threshold λ is. On n calibration samples and one more,
all drawn alike, the expected excess of misses over their allowed share, miss(λ) - a counted, is at
most 0 for the smallest λ with

    Σ_s (miss_s(λ) - a counted_s) + (1 - a) most <= 0,

where (1 - a) most is what the one more can add at most: it has no more than ``most`` counted nodes.
The share, misses over counted nodes, is then at most a in expectation over both draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from robustruct.errors import InvalidInputError, shown


@dataclass(frozen=True, eq=False)
class Rule:
    """A decision rule with a controlled share of misses; ``str`` says it in words."""

    label: Any
    """The label that is answered only where it is safe; None for sets of labels."""
    miss: float
    """The target: the expected share of misses is at most this."""
    threshold: float
    """A label is answered if it is safer than this (`models.prediction.safety`); sets hold the
    labels of probability at least 1 minus it."""
    most: int
    """The most nodes of a sample that can be missed: what the user has stated."""
    n: int
    """Number of calibration samples."""
    n_needed: int
    """How many like them the target needs at all; with more, its price falls."""
    missed: float
    """Share of misses on the calibration samples."""
    price: float
    """There, the share of all nodes that are false alarms; of sets, how many labels they have."""
    digests: np.ndarray = field(repr=False)
    """(n,) of the calibration samples, by which they are recognised."""

    def __str__(self) -> str:
        given = (
            f"if samples come from where the {self.n:,} calibration samples came from and none has "
            f"more than {self.most} nodes"
        )
        if self.label is None:
            return (
                f"At most {self.miss:.4g} of all nodes in expectation have a true label outside "
                f"their set, {given}; sets have {self.price:.3g} labels on average."
            )
        return (
            f"At most {self.miss:.4g} in expectation of the nodes with another true label are "
            f"answered {self.label!s}, {given} of these; {100 * self.price:.3g} % of all nodes are "
            "false alarms."
        )


@dataclass(frozen=True, eq=False)
class Calibration:
    """What calibration samples say about misses."""

    levels: np.ndarray
    """(m,) for each counted node the threshold below which it is missed."""
    counted: np.ndarray
    """(S,) counted nodes of each sample."""

    def controlled(self, miss: float, most: int) -> tuple[float, int]:
        """Return (the smallest threshold that keeps the share at ``miss``, samples needed)."""
        n, total = len(self.counted), int(self.counted.sum())
        needed = math.ceil((1 - miss) * most / (miss * total / n) - 1e-9)
        # Misses that are affordable; rounding must not cost one.
        allowed = math.floor(miss * total - (1 - miss) * most + 1e-9)
        never = int(np.isposinf(self.levels).sum())
        if allowed < 0:
            raise InvalidInputError(
                f"miss={miss:g} cannot be promised by {n:,} samples with {total:,} nodes that can "
                f"be missed: it takes about {needed:,} samples like these (most={most}). Give more "
                "samples, a larger target, or a smaller `most` if none can have so many.",
                field="miss",
            )
        if never > allowed:
            raise InvalidInputError(
                f"miss={miss:g} cannot be reached: {never:,} of {total:,} nodes are missed at any "
                "threshold, as their labels are unknown to the model or impossible by its "
                "rules.",
                field="miss",
            )
        if allowed >= len(self.levels):
            return -math.inf, needed
        return float(np.sort(self.levels)[::-1][allowed]), needed


def check_target(miss: Any, most: Any, counted: np.ndarray, what: str) -> None:
    """Refuse targets and limits that make no sense for samples with ``counted`` nodes each."""
    number = isinstance(miss, int | float | np.number) and not isinstance(miss, bool)
    if not (number and 0 < miss < 1):
        raise InvalidInputError(
            f"miss={shown(miss)}; it is the share of misses to allow and must be above 0 and "
            "below 1, such as 0.02.",
            field="miss",
        )
    if not counted.any():
        raise InvalidInputError(
            f"no calibration sample has a node {what}, so nothing can be missed; give others.",
            field="y",
        )
    whole = isinstance(most, int | np.integer) and not isinstance(most, bool)
    if not whole or most < counted.max():
        raise InvalidInputError(
            f"most={shown(most)}; it is the most nodes {what} that any sample can have, and a "
            f"calibration sample has {int(counted.max())}. Without such a limit nothing can be "
            "promised.",
            field="most",
        )
