"""A bound on what decisions cost, with all that one must know to trust it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robustruct.errors import InvalidInputError, shown
from robustruct.guarantees.betting import mean_bounds
from robustruct.guarantees.dependence import look_dependent

METHOD = "betting"


@dataclass(frozen=True)
class Certificate:
    """Bounds on the expected cost of decisions on new samples; ``str`` says them in words."""

    lower: float
    """Holds with ``confidence``, by itself."""
    mean: float
    """The cost of the held-out samples."""
    upper: float
    """Holds with ``confidence``, by itself."""
    confidence: float
    n: int
    """Number of independent draws: held-out samples, or groups of them."""
    method: str
    per: str
    """"sample": the cost per node, averaged over samples (or over groups); "node": over nodes."""
    grouped: bool
    """Whether groups were the independent draws."""
    assumptions: tuple[str, ...]
    """What has to be true for the bounds to hold."""
    warnings: tuple[str, ...] = ()
    """What speaks against that."""

    def __str__(self) -> str:
        per = "sample by sample" if self.per == "sample" else "over all nodes"
        draws = f"{self.n:,} held-out {'groups' if self.grouped else 'samples'}"
        return (
            f"With {100 * self.confidence:.4g} % confidence a node costs at most "
            f"{self.upper:.4g} on average {per} ({self.mean:.4g} on {draws}), if "
            f"{', and '.join(self.assumptions)}."
        )


@dataclass(frozen=True, eq=False)
class Observed:
    """What held-out samples cost."""

    costs: np.ndarray
    """(S,) total cost of each sample."""
    weights: np.ndarray
    """(S,) total weight of its nodes."""
    least: float
    """What a node of weight 1 can cost at least."""
    most: float
    """What it can cost at most."""
    groups: np.ndarray | None = None
    """(S,) number of the group of each sample; None if samples are independent."""
    longest: float | None = None
    """The most weight that a sample, or a group, can have; by default that of the heaviest here."""


def check_confidence(confidence: float) -> None:
    """Refuse what is no probability, or one that nothing can have."""
    number = isinstance(confidence, int | float) and not isinstance(confidence, bool)
    if not (number and 0 < confidence < 1):
        raise InvalidInputError(
            f"confidence={shown(confidence)}; it is the chance that the bound holds and must be "
            "above 0 and below 1, such as 0.95.",
            field="confidence",
        )


def certified_cost(
    observed: Observed, confidence: float = 0.95, per: str = "sample"
) -> Certificate:
    """Return the bounds that held-out samples prove."""
    check_confidence(confidence)
    if per not in ("sample", "node"):
        raise InvalidInputError(
            f"per={shown(per)}; use 'sample' (the cost per node, averaged over samples) or 'node'.",
            field="per",
        )
    some = observed.weights > 0
    if not some.any():
        raise InvalidInputError(
            "all node weights are 0, so nothing costs anything; give some node a weight.",
            field="node_weight",
        )
    costs, weights = observed.costs[some], observed.weights[some]
    groups = None if observed.groups is None else observed.groups[some]
    assumptions, warnings = _assumptions(costs / weights, groups)
    spread = observed.most - observed.least
    excess = np.maximum(costs - observed.least * weights, 0.0)
    if per == "sample":
        values, sizes = _group_means(excess / weights, groups), None
        largest, mean = 1.0, float(values.mean())
    else:
        values, sizes = _group_sums(excess, groups), _group_sums(weights, groups)
        largest = _largest(sizes, observed.longest, groups is not None)
        mean = float(values.sum() / sizes.sum())
        assumptions.append(f"none of them has more than {largest:g} nodes (by weight)")
        sizes = sizes / largest
    n = len(values)
    if spread > 0:
        scaled = np.clip(values / (spread * largest), 0.0, 1.0 if sizes is None else sizes)
        low, high = mean_bounds(scaled, sizes, confidence=confidence)
    else:
        low = high = 0.0
    return Certificate(
        lower=observed.least + spread * low,
        mean=observed.least + mean,
        upper=observed.least + spread * high,
        confidence=float(confidence),
        n=n,
        method=METHOD,
        per=per,
        grouped=groups is not None,
        assumptions=tuple(assumptions),
        warnings=tuple(warnings),
    )


def _largest(sizes: np.ndarray, longest: float | None, grouped: bool) -> float:
    heaviest = float(sizes.max())
    if longest is None:
        return heaviest
    if not heaviest <= longest < np.inf:
        raise InvalidInputError(
            f"longest={shown(longest)}, but a held-out {'group' if grouped else 'sample'} has "
            f"{heaviest:g} nodes (by weight); give the most that any can have.",
            field="longest",
        )
    return float(longest)


def _assumptions(costs: np.ndarray, groups: np.ndarray | None) -> tuple[list[str], list[str]]:
    """What is to be believed about the samples, and what speaks against it."""
    rest = "played no part in making the model"
    if groups is not None:
        return [f"groups are independent draws of the same kind as those to come, and {rest}"], []
    found = []
    if look_dependent(costs):
        found.append(
            "neighbouring samples cost alike, so they are hardly independent and the bounds are "
            "too tight: say with groups what they belong to (documents, persons, templates)"
        )
    return [f"samples are independent draws of the same kind as those to come, and {rest}"], found


def _group_means(values: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    if groups is None:
        return values
    _, number = np.unique(groups, return_inverse=True)
    means: np.ndarray = np.bincount(number, values) / np.bincount(number)
    return means


def _group_sums(values: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    if groups is None:
        return values
    _, number = np.unique(groups, return_inverse=True)
    return np.bincount(number, values)
