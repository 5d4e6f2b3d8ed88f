"""From two computed numbers to bounds that hold: the only place where lower and upper may cross.

Weak duality puts every lower bound below every upper one. Computed ones may cross by what rounding
does to them: adding up ``n_terms`` numbers in floating point, in whatever order, is off by at most
``n_terms`` times eps times the sum of their sizes. More than that is a defect somewhere, and no
bound may be reported.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from robustruct.errors import InternalError

EPS = float(np.finfo(float).eps)


def rounding_of(n_terms: Any, sizes: Any) -> Any:
    """How far two sums of ``n_terms`` numbers may be off, whose sizes add up to ``sizes``."""
    return 2.0 * EPS * (n_terms + 10.0) * sizes


def in_order(lower: np.ndarray, upper: np.ndarray) -> bool:
    """Whether all are bounds as they are, whatever rounding did: `certified` would not touch them.

    NaN is in no order.
    """
    return bool((lower <= upper).all() and lower.max() < np.inf and upper.min() > -np.inf)


def certified(lower: Any, upper: Any, rounding: Any, of: str) -> tuple[np.ndarray, np.ndarray]:
    """(lower, upper) in order; refuses numbers that cannot both be bounds.

    Where the two cross by no more than ``rounding``, each is as good a bound on either side.
    """
    lower, upper = np.asarray(lower, float), np.asarray(upper, float)
    # Written so that NaN does not pass; a lower bound of -inf and an upper one of inf say nothing.
    fine = (lower <= upper + rounding) & (lower < np.inf) & (upper > -np.inf)
    if not fine.all():
        at = int(np.argmin(np.atleast_1d(fine)))
        low, high, slack = (
            float(np.atleast_1d(np.broadcast_to(x, fine.shape))[at])
            for x in (lower, upper, rounding)
        )
        raise InternalError(
            f"the bounds of {of}{f' {at}' if fine.ndim else ''} contradict each other: lower = "
            f"{low!r}, upper = {high!r}, and rounding explains {slack:.3g} at most. This is a "
            "defect of robustruct; please report it with what led to it."
        )
    return np.minimum(lower, upper), np.maximum(lower, upper)
