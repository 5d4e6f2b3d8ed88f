"""Operations on vectors as long as θ: the functions of vectors.c, with lengths filled in.

squares (rows,) hold s for rows of equally many weights; l1 is (weights,) or (1,). See vectors.c.
"""

from __future__ import annotations

import numpy as np

from robustruct.core.declare import Flags, Floats, Indices, Ints32, Ints64, Singles
from robustruct.core.library import function
from robustruct.core.structs import Rows

_add_multiple = function("add_multiple", int, Floats, float, Floats)
_penalty = function("penalty", int, Floats, int, Floats, float, gives=float)
_add_slope = function("add_slope", int, Floats, Floats, int, Floats, float)
_dual_penalty = function("dual_penalty", int, Floats, int, Floats, float, gives=float)
_centre_gap = function("centre_gap", int, Floats, Floats, int, Floats, float, float, gives=float)
_weights_from_moments = function(
    "weights_from_moments", int, Floats, Floats, int, Floats, float, float, gives=float
)
_moments_from_weights = function(
    "moments_from_weights", int, Floats, Floats, int, Floats, float, float, Floats
)
_follow_centre = function("follow_centre", int, Floats, Floats, int, Floats, float, float, float)
_absolute_penalty = function("absolute_penalty", int, Floats, int, Floats, gives=float)
_least_slopes = function("least_slopes", int, Floats, Floats, int, Floats, Floats)
_elastic_conjugate = function(
    "elastic_conjugate", int, Floats, int, Floats, float, int, Floats, float, Floats
)
_mark_columns = function("mark_columns", int, Indices, Indices, Rows, Flags)
_OF_INDEX = {np.dtype(np.int32): Ints32, np.dtype(np.int64): Ints64}
_take_changes = {
    dtype: function(
        "take_changes",
        *(int, Floats, int, Indices, Floats, Indices, Floats, bool, index, Singles),
    )
    for dtype, index in _OF_INDEX.items()
}
_merge_entries = {
    dtype: function(
        "merge_entries",
        *(bool, int, index, Singles, int, index, Singles, index, Singles),
    )
    for dtype, index in _OF_INDEX.items()
}


def add_multiple(to: np.ndarray, factor: float, vector: np.ndarray) -> None:
    """to += factor * vector."""
    _add_multiple(len(to), to, factor, vector)


def penalty(theta: np.ndarray, squares: np.ndarray, alpha: float) -> float:
    """Σ alpha s / 2 θ²."""
    return _penalty(len(theta), theta, len(squares), squares, alpha)


def add_slope(gradient: np.ndarray, theta: np.ndarray, squares: np.ndarray, alpha: float) -> None:
    """Add the gradient of `penalty`."""
    _add_slope(len(theta), gradient, theta, len(squares), squares, alpha)


def dual_penalty(moments: np.ndarray, squares: np.ndarray, alpha: float) -> float:
    """Σ moments² / (2 alpha s): the conjugate of `penalty`."""
    return _dual_penalty(len(moments), moments, len(squares), squares, alpha)


def centre_gap(
    theta: np.ndarray, centre: np.ndarray, squares: np.ndarray, alpha: float, kappa: float
) -> float:
    """The centre's part of the gap: Σ (alpha + kappa - alpha s)² (θ - z)² / (2 alpha s)."""
    return _centre_gap(len(theta), theta, centre, len(squares), squares, alpha, kappa)


def weights_from_moments(
    theta: np.ndarray, centre: np.ndarray, squares: np.ndarray, alpha: float, kappa: float
) -> float:
    """Convert moments in θ to weights in place; return the `dual_penalty` of the moments."""
    return _weights_from_moments(len(theta), theta, centre, len(squares), squares, alpha, kappa)


def moments_from_weights(
    theta: np.ndarray,
    centre: np.ndarray,
    squares: np.ndarray,
    alpha: float,
    kappa: float,
    out: np.ndarray,
) -> None:
    """Write the moments from which `weights_from_moments` made θ into ``out``."""
    _moments_from_weights(len(theta), theta, centre, len(squares), squares, alpha, kappa, out)


def follow_centre(
    theta: np.ndarray,
    centre: np.ndarray,
    squares: np.ndarray,
    alpha: float,
    kappa: float,
    new_kappa: float,
) -> None:
    """Move the centre z to θ, and θ to the weights of the same moments at the new z and kappa."""
    _follow_centre(len(theta), theta, centre, len(squares), squares, alpha, kappa, new_kappa)


def absolute_penalty(theta: np.ndarray, l1: np.ndarray) -> float:
    """Σ l1 |θ|."""
    return _absolute_penalty(len(theta), theta, len(l1), l1)


def least_slopes(theta: np.ndarray, gradient: np.ndarray, l1: np.ndarray, out: np.ndarray) -> None:
    """Write the least subgradient of objective + `absolute_penalty` into ``out``."""
    _least_slopes(len(theta), theta, gradient, len(l1), l1, out)


def elastic_conjugate(
    moments: np.ndarray, squares: np.ndarray, alpha: float, l1: np.ndarray, part: float
) -> tuple[float, float, float]:
    """Return the conjugate of both penalties at part * moments, and two derivatives by part."""
    out, rows, n_l1 = np.empty(3), len(squares), len(l1)
    _elastic_conjugate(len(moments), moments, rows, squares, alpha, n_l1, l1, part, out)
    value, slope, bend = out.tolist()
    return value, slope, bend


def mark_columns(order: np.ndarray, offsets: np.ndarray, features: Rows, marks: np.ndarray) -> None:
    """Mark the feature columns that samples ``order`` use."""
    order = np.ascontiguousarray(order)
    _mark_columns(len(order), order, offsets, features, marks)


def take_changes(
    theta: np.ndarray,
    rows: np.ndarray,
    kept: np.ndarray,
    place: np.ndarray,
    pace: np.ndarray,
    index: np.ndarray,
    value: np.ndarray,
) -> int:
    """Write the changes of rows of θ, divided by pace, as index and value; undo them in θ.

    kept: saved rows of θ; place: index of each row in kept; pace: of each row. Return the number of
    entries.
    """
    width, wide = theta.shape[1], index.dtype == np.int64
    arguments = theta, len(rows), rows, kept, np.ascontiguousarray(place, np.intp), pace
    return _take_changes[index.dtype](width, *arguments, wide, index, value)


def merge_entries(
    index_a: np.ndarray,
    value_a: np.ndarray,
    index_b: np.ndarray,
    value_b: np.ndarray,
    index: np.ndarray,
    value: np.ndarray,
) -> int:
    """Merge two sparse changes a and b into index and value; return the number of entries."""
    wide, a, b = index.dtype == np.int64, len(index_a), len(index_b)
    arguments = a, index_a, value_a, b, index_b, value_b
    return _merge_entries[index.dtype](wide, *arguments, index, value)
