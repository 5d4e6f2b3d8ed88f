"""What the setting that was chosen will cost, corrected for having been the best of many.

The least of many held-out costs is too low: it was chosen for being low. Held-out samples (groups,
where they are known) are drawn again, the choice is repeated on each draw, and what it takes is
priced by the samples that the draw has left out (Tsamardinos, Greasidou and Borboudakis 2018,
"Bootstrapping the out-of-sample predictions"). To first order the cost on those is 2 T - T*, with T
the cost on all samples and T* that on the draw, which needs no sample to be left out; so settings
that ran on the first folds only take part as well, by how far they are behind the best on these.
The forecast is for samples of the same kind as the held-out ones, for nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from robustruct.models.fitting.choice import is_number

LEVEL = 0.95
DRAWS = 1000  # of which 25 lie beyond either end of the interval
UNSEEN = 3.0  # times 1 / n: the 95 % bound on how often something happens that n nodes never showed
AT_ONCE = 2**21  # numbers drawn


class Forecast(NamedTuple):
    """The mean cost per node (per unit of weight) that a choice expects of new samples."""

    mean: float
    lower: float
    """With ``upper`` the 95 % interval of the mean over very many new samples."""
    upper: float
    n_samples: int
    """Held-out samples behind it."""

    def around(self, n_samples: int) -> tuple[float, float]:
        """Return the interval of the mean over some new samples, which are a draw themselves."""
        wider = np.sqrt(1.0 + self.n_samples / n_samples)
        below, above = self.mean - self.lower, self.upper - self.mean
        return max(self.mean - wider * below, 0.0), self.mean + wider * above

    def contradicted(self, cost: float, n_samples: int) -> str | None:
        """Return a sentence if the cost of new samples is not what was forecast."""
        low, high = self.around(n_samples)
        if low <= cost <= high:
            return None
        how, why = "less", "they are easier than those, or among them."
        if cost > high:
            how = "more"
            why = (
                "they are not like those, or the choice held out single samples of groups that "
                "belong together."
            )
        return (
            f"These samples cost {how} per node ({cost:.4g}) than held-out training samples let "
            f"expect ({self.mean:.4g}, {low:.4g} to {high:.4g} for {n_samples} samples): {why}"
        )

    @property
    def is_sound(self) -> bool:
        """Whether a choice could have made it; for those that were read from a file."""
        numbers = all(map(is_number, self[:3])) and self.lower <= self.mean <= self.upper
        return numbers and type(self.n_samples) is int and 0 < self.n_samples < 2**63


@dataclass(frozen=True, eq=False)
class Candidates:
    """What could have been chosen, of those that ran on equally many folds."""

    costs: np.ndarray
    """(candidates, units) cost of each unit in these folds."""
    best: np.ndarray
    """(units,) that of the setting which was chosen, there."""
    weights: np.ndarray
    """(units,) weight of their nodes, there."""


def forecast(
    best: np.ndarray,
    weights: np.ndarray,
    candidates: Sequence[Candidates],
    n: int,
    one_mistake: float = 0.0,
) -> Forecast | None:
    """Return the forecast, or None for a single unit, which has no spread.

    Parameters
    ----------
    best, weights : ndarray of shape (units,)
        Cost of the chosen setting in all its folds, and weight, of each unit.
    candidates : sequence of Candidates
        With the chosen setting among them.
    n : int
        Held-out samples.
    one_mistake : float
        What the dearest mistake on one held-out node adds to the mean cost. Mistakes that were
        not seen on n nodes can still be as frequent as 3 / n, whatever draws say.
    """
    n_units = len(weights)
    if n_units < 2:
        return None
    rng = np.random.default_rng(0)
    ones = np.ones((1, n_units))
    (plain,) = _costs(ones, best, weights, candidates)
    cost = float(best.sum() / weights.sum())
    kept = plain >= cost * (1.0 - 1e-9)  # others lost by rule, such as a scale not clearly better
    means, corrected = [], []
    for size in _sizes(DRAWS, n_units):
        counts = rng.multinomial(n_units, np.full(n_units, 1.0 / n_units), size=size).astype(float)
        drawn = _costs(counts, best, weights, candidates)
        taken = np.where(kept, drawn, np.inf).argmin(axis=1)
        corrected.append(2.0 * plain[taken] - drawn[np.arange(size), taken])
        means.append(_mean(counts, best, weights))
    moved = np.concatenate(means) - cost
    mean = max(float(np.concatenate(corrected).mean()), 0.0)
    low, high = interval(moved, n_units)
    # How large the correction should be is uncertain too: the lower end goes without it.
    lower = max(min(cost, mean) + min(low, 0.0), 0.0)
    return Forecast(mean, lower, mean + max(high, UNSEEN * one_mistake), n)


def _costs(
    counts: np.ndarray, best: np.ndarray, weights: np.ndarray, candidates: Sequence[Candidates]
) -> np.ndarray:
    """(draws, candidates) mean cost of each, if it had run on all folds."""
    whole = _mean(counts, best, weights)[:, None]
    parts = [
        whole
        + _mean(counts, one.costs.T, one.weights)
        - _mean(counts, one.best, one.weights)[:, None]
        for one in candidates
    ]
    return np.concatenate(parts, axis=1)


def _mean(counts: np.ndarray, costs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Mean cost in each draw; a draw without any weight has that of all."""
    total = counts @ weights
    drawn = (counts @ costs).T / np.where(total > 0, total, 1.0)
    return np.where(total > 0, drawn, (costs.T.sum(axis=-1) / weights.sum())[..., None]).T


def _sizes(total: int, width: int) -> list[int]:
    size = max(1, AT_ONCE // width)
    return [min(size, total - first) for first in range(0, total, size)]


def interval(resampled: np.ndarray, n_units: int, level: float = LEVEL) -> tuple[float, float]:
    """Percentile interval of resampled values, widened as Student's t asks for few units.

    A plain percentile interval is too narrow by the factor sqrt((n - 1) / n), and ignores that the
    spread is itself uncertain; Hesterberg's expanded percentiles correct for both.
    """
    from scipy.special import ndtr, stdtrit  # takes long to load

    t = stdtrit(n_units - 1, (1 + level) / 2) * np.sqrt(n_units / (n_units - 1))
    low, high = np.quantile(resampled, [ndtr(-t), ndtr(t)])
    return float(low), float(high)
