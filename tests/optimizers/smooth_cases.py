"""Optima of the smooth objectives straight from the definitions, by enumeration and SLSQP."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp
from training_cases import CASES, Case, Enumerated

PLAYERS = ("nobody", "truth", "free")


class SmoothEnumerated:
    """T log Z of every sample, with all its labellings listed."""

    def __init__(self, case: Case, player: str, temperature: float) -> None:
        self.case, self.player, self.T = case, player, temperature
        self.all = Enumerated(case)
        self.sizes = [len(labels) for labels in case.y]
        seen = [
            [np.isin(np.arange(case.n_labels), column) for column in np.asarray(some).T]
            for some in self.all.labellings
        ]
        self.possible = np.concatenate([np.array(one) for one in seen])
        """(N, k) whether any allowed labelling has the label: no other is predicted."""

    def _split(self, p: np.ndarray) -> list[np.ndarray]:
        return np.split(p, np.cumsum(self.sizes)[:-1])

    def _costs(self, s: int, p: list[np.ndarray]) -> np.ndarray:
        if self.player == "nobody":
            return np.zeros(len(self.all.labellings[s]))
        return self.all.hinge_costs(s) if self.player == "truth" else self.all.costs(s, p[s])

    def primal(self, theta: np.ndarray, p: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """(value, gradient in θ, gradient in p (N, k))."""
        case, players = self.case, self._split(p)
        value, slope = 0.5 * case.alpha * theta @ theta, case.alpha * theta
        slopes = []
        for s, share in enumerate(case.share):
            x = (
                (self.all.features[s] - self.all.truth[s]) @ theta + self._costs(s, players)
            ) / self.T
            log_z = logsumexp(x)
            q = np.exp(x - log_z)
            value += share * self.T * log_z
            slope = slope + share * (q @ self.all.features[s] - self.all.truth[s])
            r = self.all.marginals(s, q)
            slopes.append(share * case.weights[s][:, None] * (r @ case.cost))
        return float(value), slope, np.concatenate(slopes)

    def dual(self, theta: np.ndarray, p: np.ndarray) -> float:
        """What the Gibbs distributions at (θ, p) prove from below."""
        case, players, mixtures, gain = self.case, self._split(p), [], 0.0
        for s, share in enumerate(case.share):
            costs = self._costs(s, players)
            x = (self.all.features[s] @ theta + costs) / self.T
            q = np.exp(x - logsumexp(x))
            mixtures.append(q)
            entropy = -float(np.sum(q[q > 0] * np.log(q[q > 0])))
            if self.player == "free":
                r = self.all.marginals(s, q)
                answers = np.where(self._split(self.possible)[s], r @ case.cost, np.inf)
                gained = float(case.weights[s] @ answers.min(axis=1))
            else:
                gained = float(q @ costs)
            gain += share * (gained + self.T * entropy)
        moments = self.all.moments(mixtures)
        return gain - float(moments @ moments) / (2 * case.alpha)

    def optimum(self) -> tuple[float, float, np.ndarray, np.ndarray]:
        """(lower, upper, θ, p)."""
        d, k, n = self.all.n_weights, self.case.n_labels, sum(self.sizes)
        free = self.player == "free"

        def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
            p = x[d:].reshape(n, k) if free else np.full((n, k), 1.0 / k)
            value, slope, slopes = self.primal(x[:d], p)
            return value, np.concatenate([slope, slopes.ravel()]) if free else slope

        even = self.possible / self.possible.sum(axis=1, keepdims=True)
        start = np.concatenate([np.zeros(d), even.ravel() if free else []])
        if not free:
            found = minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-10})
            p = np.full((n, k), 1.0 / k)
        else:
            sums = np.zeros((n, len(start)))
            for i in range(n):
                sums[i, d + i * k : d + (i + 1) * k] = 1.0
            found = minimize(
                objective, start, jac=True, method="SLSQP",
                bounds=[(None, None)] * d + [(0.0, float(one)) for one in self.possible.ravel()],
                constraints={"type": "eq", "fun": lambda x: sums @ x - 1.0, "jac": lambda x: sums},
                options={"ftol": 1e-14, "maxiter": 2000},
            )  # fmt: skip
            p = np.maximum(found.x[d:].reshape(n, k), 0.0)
            p /= p.sum(axis=1, keepdims=True)
        theta = found.x[:d]
        return self.dual(theta, p), self.primal(theta, p)[0], theta, p


@cache
def smooth_optimum(name: str, player: str, temperature: float) -> tuple[float, float, np.ndarray]:
    """(lower, upper, θ); the bounds agree, or the test that asks may not trust them."""
    lower, upper, theta, _ = SmoothEnumerated(CASES[name], player, temperature).optimum()
    assert lower <= upper + 1e-12
    assert upper - lower <= 1e-6 * upper, (lower, upper)
    return lower, upper, theta
