"""Whether samples that stand next to each other in a file are alike."""

from __future__ import annotations

import numpy as np

REACH = 5
"""How far apart two samples count as neighbours: texts have a dozen sentences or more, and one lag
alone would see too little of what these share."""
N_ORDERS = 399
MOST_SAMPLES = 10_000  # of a long file the first ones tell as much, and take no more than 0.1 s
LEVEL = 0.005
"""Of `look_dependent`. A warning that comes for nothing once in 200 times can be trusted."""


def neighbours_p_value(values: np.ndarray, seed: int = 0) -> float:
    """Return the p-value of a permutation test that neighbouring values are no more alike.

    The statistic adds up the products of deviations from the mean over pairs up to `REACH` apart.
    Independent samples might as well stand in any other order, whatever their distribution, so the
    test is exact. Dependent samples that were shuffled are not detected.

    Parameters
    ----------
    values : ndarray of shape (n,)
        One value of each sample, in the order of the file: what a decision costs, say.
    seed : int
        Of the random orders.
    """
    values = values[:MOST_SAMPLES] - values[:MOST_SAMPLES].mean()
    if len(values) <= REACH or not values.any():
        return 1.0
    rng = np.random.default_rng(seed)
    observed = _alike(values)
    # Equal up to rounding counts as equal, as of values of which nearly all are the same.
    reached = observed - 1e-9 * float(values @ values)
    as_alike = sum(_alike(rng.permutation(values)) >= reached for _ in range(N_ORDERS))
    return (1 + as_alike) / (1 + N_ORDERS)


def look_dependent(values: np.ndarray) -> bool:
    """Return whether neighbouring samples are alike beyond doubt."""
    return neighbours_p_value(values) <= LEVEL


def _alike(values: np.ndarray) -> float:
    # In a circle, so that no place has fewer neighbours than another.
    ring = np.concatenate([values, values[:REACH]])
    near = np.cumsum(ring)  # sums of the next REACH values are differences of these
    return float(values @ (near[REACH:] - near[:-REACH]))
