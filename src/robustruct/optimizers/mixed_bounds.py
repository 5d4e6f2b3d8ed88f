"""Lower bounds from mixtures of the adversaries that an ascent has met.

    dual(q)  =  gain(q) − Σ_j G_j(q)² / (2 alpha s_j)

G is linear and the gain concave, so the mixture Σ_t c_t q_t has the moments Σ_t c_t G_t and gains
at least Σ_t c_t gain_t. The truth, which has no moments, takes what is left of Σ_t c_t <= 1. Where
the penalty on some weights is weak, such as on those of a column that was scaled down, moments that
are off by next to nothing cost more than all else. They differ from pass to pass, so that a mixture
has hardly any: with a column of 1e4 among chains of dense features a hinge loss had a gap of 80
after 320 passes by its last adversary, and of 1 % by a mixture of eight.
"""

from __future__ import annotations

import numpy as np

from robustruct.core.vectors import dual_penalty

MOST = 8  # adversaries that are mixed: those of as many passes, one after the other


class MixedBounds:
    """Gains and moments of the last adversaries, and what a mixture of them proves."""

    def __init__(self, squares: np.ndarray, alpha: float, least: float, n_weights: int) -> None:
        """``squares`` of rows of weights; ``least`` is the gain of the truth."""
        self.squares, self.alpha, self.least = squares, alpha, least
        self.gains = np.zeros(0)
        self.moments = np.zeros((0, n_weights))
        self.n_added = 0

    @property
    def wants_more(self) -> bool:
        """Whether the next passes should be looked at too: a few in a row differ enough."""
        return self.n_added % MOST != 0

    def add(self, gain: float, moments: np.ndarray) -> None:
        """Take note of an adversary; the oldest is forgotten."""
        self.gains = np.append(self.gains, gain)[-MOST:]
        self.moments = np.concatenate([self.moments, moments[None]])[-MOST:]
        self.n_added += 1

    def best(self) -> float:
        """The dual of the best mixture at hand."""
        mixture = self._mixture()
        held_down = dual_penalty(mixture @ self.moments, self.squares, self.alpha)
        return float(self.least + mixture @ (self.gains - self.least)) - held_down

    def _mixture(self) -> np.ndarray:
        """(t,) c: argmax of c'g − c'Kc / 2 where c >= 0 and Σ c <= 1; any such c is a bound."""
        from scipy.optimize import LinearConstraint, minimize

        # At most MOST variables: SLSQP finds the optimum in less time than a certificate takes.
        gains, n = self.gains - self.least, len(self.gains)
        by_row = self.moments.reshape(n, len(self.squares), -1)
        held = by_row / (self.alpha * self.squares)[:, None]
        products = held.reshape(n, -1) @ self.moments.T
        size = max(float(np.abs(gains).max()), 1e-300)

        def loss(c: np.ndarray) -> float:
            return float(0.5 * c @ products @ c - c @ gains) / size

        def slope(c: np.ndarray) -> np.ndarray:
            return np.asarray((products @ c - gains) / size)

        found = minimize(
            loss,
            np.full(n, 1.0 / n),
            method="SLSQP",
            jac=slope,
            bounds=[(0.0, 1.0)] * n,
            constraints=LinearConstraint(np.ones((1, n)), -np.inf, 1.0),
            options={"maxiter": 500, "ftol": 1e-9},
        ).x
        # Whatever came out, made feasible: any such c is a bound.
        found = np.where(np.isfinite(found), np.maximum(found, 0.0), 0.0)
        return found / max(1.0, float(found.sum()))
