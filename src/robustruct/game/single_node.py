"""The game on a single node, exactly: closed forms for the usual losses, simplex for any other.

    max over r   min over p    scores·r + weight p' cost r

Recognised up to a positive factor and a constant per column:

| cost[a, b]                           | method                       | time       |
|--------------------------------------|------------------------------|------------|
| 1 if a != b else 0                   | sort                         | O(k log²k) |
| abs(x_a - x_b), x places on a line   | two maxima                   | O(k)       |
| (x_a - x_b)^2                        | a walk along an envelope     | O(k)       |
| anything else                        | simplex on the k x k payoffs | O(k^3)     |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from robustruct.core.node_games import ABSOLUTE, ANY, SQUARED, ZERO_ONE, node_equilibria
from robustruct.core.structs import CostArrays
from robustruct.errors import InvalidInputError
from robustruct.losses import predicted_first

_NAMES = {ZERO_ONE: "zero-one", ABSOLUTE: "absolute", SQUARED: "squared", ANY: "any"}


@dataclass(frozen=True, eq=False)
class CostForm:
    """A cost matrix together with the closed form that fits it, as the core takes them."""

    kind: int
    place: np.ndarray
    """(k,) places on a line (absolute, squared)."""
    order: np.ndarray
    """(k,) intp, labels by place."""
    unit: float
    """Cost of a mistake (zero-one)."""
    offset: np.ndarray
    """(k,) what each column has been lowered by; it belongs to the scores."""
    cost: np.ndarray
    """(k, k) the matrix itself, [predicted, true]."""

    @property
    def name(self) -> str:
        return _NAMES[self.kind]

    @property
    def arrays(self) -> CostArrays:
        """What the core takes."""
        return CostArrays(self.kind, self.place, self.order, self.unit, self.offset, self.cost)

    @classmethod
    def of(cls, cost: np.ndarray) -> CostForm:
        """Recognise the form of a (k, k) matrix [predicted, true] of finite numbers."""
        cost = np.ascontiguousarray(cost, dtype=float)
        k = len(cost)
        offset = np.diag(cost).copy()
        excess = cost - offset
        slack = 1e-12 * np.abs(excess).max()
        kind, place, unit = ANY, np.zeros(k), 0.0
        if k == 1 or _near(excess, excess[0, -1] * (1 - np.eye(k)), slack):
            kind, unit = ZERO_ONE, float(excess[0, -1]) if k > 1 else 0.0
        if unit < 0 or kind == ANY:
            kind = ANY
            # On a line, the label farthest from any other is an end of it.
            reach = np.maximum(excess[np.argmax(excess[0])], 0.0)
            if _near(excess, np.abs(reach[:, None] - reach), slack):
                kind, place = ABSOLUTE, reach
            elif _near(excess, np.subtract.outer(np.sqrt(reach), np.sqrt(reach)) ** 2, slack):
                kind, place = SQUARED, np.sqrt(reach)
        if kind == ANY:
            offset = np.zeros(k)
        return cls(kind, place, np.argsort(place, kind="stable"), unit, offset, cost)


@dataclass(frozen=True, eq=False)
class NodeGame:
    """Equilibrium of a game on one node."""

    value: float
    predictor: np.ndarray
    """(k,) what the predictor plays; zero where the score is -inf."""
    adversary: np.ndarray
    """(k,) what the adversary plays; zero where the score is -inf."""


def node_game(scores: Any, cost: Any, weight: float = 1.0) -> NodeGame:
    """Solve the game on a single node exactly, up to rounding.

    Parameters
    ----------
    scores : array-like of shape (k,)
        What the adversary earns by each label; -inf forbids a label, to both players.
    cost : array-like of shape (k, k)
        Rows: true label, which is the adversary's, columns: predicted label.
    weight : float
        Factor of the cost, >= 0.

    Examples
    --------
    >>> game = node_game([0.0, 0.0, -5.0], [[0, 1, 1], [1, 0, 1], [1, 1, 0]])
    >>> game.value, game.predictor.tolist(), game.adversary.tolist()
    (0.5, [0.5, 0.5, 0.0], [0.5, 0.5, 0.0])
    """
    try:
        scores, cost = np.asarray(scores, dtype=float), np.asarray(cost, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInputError("scores and cost must be arrays of numbers.") from error
    k = scores.size
    if scores.ndim != 1 or k == 0 or cost.shape != (k, k):
        raise InvalidInputError(
            f"scores has shape {scores.shape} and cost {cost.shape}; expected (k,) and (k, k)."
        )
    if not np.isfinite(cost).all():
        raise InvalidInputError("cost must be finite; forbid a label by a score of -inf.")
    if np.isnan(scores).any() or not np.isfinite(scores.max()):
        raise InvalidInputError(
            "scores must be finite, or -inf to forbid a label, and at least one label must be "
            "allowed."
        )
    if not (np.isfinite(weight) and weight >= 0):
        raise InvalidInputError(f"weight = {weight}; it must be a finite number >= 0.")
    p, r, value = np.empty((1, k)), np.empty((1, k)), np.empty(1)
    weights = np.array([float(weight)])
    form = CostForm.of(predicted_first(cost)).arrays
    node_equilibria(0, 1, form, weights, np.ascontiguousarray(scores), p, r, value)
    return NodeGame(float(value[0]), p[0], r[0])


def _near(one: np.ndarray, other: np.ndarray, slack: float) -> bool:
    return bool((np.abs(one - other) <= slack).all())
