"""Which differences are real: intervals and tests over samples, never over single nodes.

Nodes of one sample depend on each other, so the sample is what is drawn again (bootstrap) or turned
round (sign-flip test). Both speak of other test samples, not of other training samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from robustruct.models.fitting.forecast import LEVEL, interval

__all__ = ["LEVEL", "holm", "interval", "resampled_means", "sign_flip_p_value"]

N_RESAMPLES = 4000  # 100 beyond each end, so ends vary by 2 % of half the width of an interval
N_FLIPS = 9999  # with the one that was observed 10,000: p-values down to 1e-4
CHUNK = 2**22  # random numbers at a time


def resampled_means(
    costs: np.ndarray, weight: np.ndarray, rng: np.random.Generator, n_resamples: int = N_RESAMPLES
) -> np.ndarray:
    """(n_resamples, m) mean costs per unit of weight, of samples drawn again with replacement.

    Parameters
    ----------
    costs : ndarray of shape (n_samples, m)
        Total cost of each sample under each of m methods.
    weight : ndarray of shape (n_samples,)
        Total weight of the nodes of each sample.
    rng : numpy.random.Generator
    n_resamples : int
    """
    n = len(weight)
    totals = np.column_stack([costs, weight])
    parts = []
    for size in _chunks(n_resamples, n):
        drawn = rng.multinomial(n, np.full(n, 1.0 / n), size=size) @ totals
        # A draw of samples without any weight has no mean; all weights being positive, none is.
        parts.append(drawn[:, :-1] / drawn[:, -1:])
    return np.concatenate(parts)


def sign_flip_p_value(
    difference: np.ndarray, rng: np.random.Generator, n_flips: int = N_FLIPS
) -> float:
    """Two-sided p-value of a paired randomisation test of the total difference.

    If two methods are equally good, each sample's difference might as well have had the other
    sign: the p-value is the share of random signs that make the total at least as large.
    """
    moved = difference[difference != 0]
    if not len(moved):
        return 1.0
    observed = abs(moved.sum()) * (1 - 1e-12)  # equal totals, summed in another order, must count
    beyond = 0
    for size in _chunks(n_flips, len(moved)):
        signs = 2.0 * rng.integers(0, 2, size=(size, len(moved)), dtype=np.int8) - 1.0
        beyond += int((np.abs(signs @ moved) >= observed).sum())
    return (1 + beyond) / (1 + n_flips)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values, raised so that testing several differences invites no false alarm (Holm)."""
    adjusted = np.empty(len(p_values))
    largest = 0.0
    for rank, i in enumerate(np.argsort(p_values, kind="stable")):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted.tolist()


def _chunks(total: int, width: int) -> Iterator[int]:
    size = max(1, CHUNK // max(width, 1))
    for first in range(0, total, size):
        yield min(size, total - first)
