"""Bounds on a mean by betting against it (Waudby-Smith and Ramdas, JRSS B 2024).

Somebody who believes that the mean is m is offered bets on one value after the other, which are
fair if m is right. Whoever bets against a wrong m gets rich; by Ville's inequality the chance of
ever having 1/δ times the first stake against a right one is at most δ. So every m that such a
gambler would have become rich against is given up. Nothing is assumed about values but their range,
and that they are independent draws; rare and dear costs, for which intervals by Student's t fail,
are no exception.

The mean may be one per unit of size, Σ values / Σ sizes: then the bets are on value - m size.
"""

from __future__ import annotations

import numpy as np

MOST_STAKE = 0.75
"""Share of the fortune that one value can lose at most: with all of it, one value would end it."""
FINE_ENOUGH = 1e-9  # of the range: far below what the bound is worth
SEED = 0  # of the order of the values, which must not depend on them


def mean_bounds(
    values: np.ndarray, sizes: np.ndarray | None = None, *, confidence: float
) -> tuple[float, float]:
    """Return (lower, upper) on the mean; each by itself holds with ``confidence``.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Independent draws, from 0 to their size.
    sizes : ndarray of shape (n,), optional
        From 0 to 1; the mean is that of values per unit of size. By default all are 1.
    confidence : float
        In (0, 1).
    """
    sizes = np.ones(len(values)) if sizes is None else sizes
    order = np.random.default_rng(SEED).permutation(len(values))
    values, sizes = values[order], sizes[order]
    lower = 1.0 - _upper(sizes - values, sizes, confidence)
    return lower, _upper(values, sizes, confidence)


def _upper(values: np.ndarray, sizes: np.ndarray, confidence: float) -> float:
    """The smallest mean that bets on smaller values refute; larger ones they refute as well."""
    target = -np.log1p(-confidence)  # log(1/δ)
    stakes = _stakes(values, sizes, target)

    def refuted(mean: float) -> bool:
        capped = np.minimum(stakes, MOST_STAKE / (1.0 - mean))
        return bool(np.cumsum(np.log1p(-capped * (values - mean * sizes))).max() >= target)

    low, high = 0.0, 1.0  # no mean above 1 exists; 1 itself needs no bets
    while high - low > FINE_ENOUGH:
        middle = (low + high) / 2
        if refuted(middle):
            high = middle
        else:
            low = middle
    return high


def _stakes(values: np.ndarray, sizes: np.ndarray, target: float) -> np.ndarray:
    """(n,) what to stake on each value, by the spread of those before it.

    The mean and its spread start from one imagined value, 1/2, of spread 1/4.
    """
    count = np.arange(1, len(values) + 1)
    mean = (0.5 + np.cumsum(values)) / (1.0 + np.cumsum(sizes))
    spread = (0.25 + np.cumsum((values - mean * sizes) ** 2)) / (count + 1)
    before = np.concatenate([[0.25], spread[:-1]])
    stakes: np.ndarray = np.sqrt(2.0 * target / (len(values) * before))
    return stakes
