"""The outer problem, and what any point proves about it.

    min over θ   (alpha/2)|θ|²  +  Σ_s share_s [ V(θ·Φ_s) − θ·Φ_s(y_s) ]

V is the value of the game, or with the predictor held at the truth the structured hinge loss. For
any θ and p, and for any q with θ(q) = Σ_s share_s (Φ_s(y_s) − Φ_s(q_s)) / alpha,

    primal(θ, p) = alpha/2 |θ|²
                   + Σ_s share_s [ max_y (θ·Φ_s(y) + Σ_i w_i (L'p_i)(y_i)) − θ·Φ_s(y_s) ]
    dual(q)      = Σ_s share_s Σ_i w_i min_a (L r_i)_a  −  alpha/2 |θ(q)|²

bracket the optimum. No stopping rule without them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from robustruct.constraints import Constraints
from robustruct.features import Design, FeatureMatrix, n_weights, scores
from robustruct.formats.container import checksum
from robustruct.game.game import Game, upper_bounds
from robustruct.inference import score_of
from robustruct.parallel import over_samples, stretches
from robustruct.scores import Scores


@dataclass(frozen=True)
class Outline:
    """What an optimizer must know of a problem whose samples may be elsewhere."""

    alpha: float
    n_weights: int
    n_samples: int
    n_nodes: int
    untrained: float
    """See `Problem.untrained`."""

    @classmethod
    def of_all(cls, parts: Sequence[Outline]) -> Outline:
        """The outline of problems that share their weights and add up."""
        return cls(
            parts[0].alpha,
            parts[0].n_weights,
            sum(part.n_samples for part in parts),
            sum(part.n_nodes for part in parts),
            sum(part.untrained for part in parts),
        )


def arrays_of(name: str, matrix: FeatureMatrix) -> dict[str, np.ndarray]:
    """The arrays that a matrix of features is made of."""
    if isinstance(matrix, np.ndarray):
        return {name: matrix}
    return {
        f"{name}.indptr": matrix.indptr,
        f"{name}.indices": matrix.indices,
        f"{name}.data": matrix.data,
        f"{name}.shape": np.array(matrix.shape),
    }


def fingerprint_of(digests: Mapping[int, Mapping[str, str]]) -> dict[str, Any]:
    """What all samples are, given the `Problem.digests` of every shard by its number.

    By aspects, in users' words; digests begin with sha256.
    """
    found: dict[str, Any] = {"the number of shards": len(digests)}
    for aspect in next(iter(digests.values())):
        text = " ".join(f"{number} {digests[number][aspect]}" for number in sorted(digests))
        found[aspect] = f"sha256 {checksum(text, {})}"
    return found


def unit_of_temperature(cost: np.ndarray, mean_weight: float) -> float:
    """c0 = mean node weight times mean cost of a mistake (off the diagonal, above the least cost).

    With c0 temperatures are free of units; adding a constant to the cost does not change it.
    """
    k = len(cost)
    if k == 1:
        return mean_weight
    mistakes = cost[~np.eye(k, dtype=bool)] - cost.min()
    return mean_weight * float(mistakes.mean())


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be learnt: encoded samples, their labels, and the cost of mistakes."""

    design: Design
    labels: np.ndarray
    """(N,) intp, the truth, in the order of the batch."""
    cost: np.ndarray
    """(k, k) L[a, b], cost of predicting a when the adversary plays b."""
    node_weight: np.ndarray
    """(N,)"""
    share: np.ndarray
    """(S,) weight of each sample in the objective; sums to 1."""
    alpha: float
    constraints: Constraints
    truth_is_predictor: bool = False
    """True holds p at the truth: the structured SVM (for which L is given transposed)."""
    n_jobs: int | None = 1
    relaxed: bool = False
    """True replaces every game by its relaxation to the local polytope."""
    temperature: float = 0.0
    """T, in the units of the cost; above 0 the objective is smooth (training/smooth.py)."""

    @property
    def n_labels(self) -> int:
        return len(self.cost)

    @property
    def n_weights(self) -> int:
        return n_weights(self.design, self.n_labels)

    @property
    def outline(self) -> Outline:
        """The problem without its samples."""
        batch = self.design.batch
        return Outline(self.alpha, self.n_weights, batch.n_samples, batch.n_nodes, self.untrained)

    def with_alpha(self, alpha: float) -> Problem:
        """The same problem under another penalty."""
        return replace(self, alpha=alpha)

    def digests(self) -> dict[str, str]:
        """Digests of all arrays that training depends on, by what they mean to users."""
        design, rules = self.design, self.constraints
        batch = design.batch
        aspects: dict[str, dict[str, np.ndarray]] = {
            "features": {**arrays_of("nodes", design.nodes), **arrays_of("edges", design.edges)},
            "graphs": {
                "offsets": batch.node_offsets,
                "child": batch.child,
                "parent": batch.parent,
                "table_of": design.table_of,
                "table_row": design.table_row,
                "table_turned": design.table_turned,
                "type_of": design.type_of,
            },
            "labels": {"labels": self.labels},
            "weights of samples or nodes": {"share": self.share, "node_weight": self.node_weight},
            "costs": {"cost": self.cost},
            "rules about labels": {
                "pairs": rules.pairs,
                "starts": rules.starts,
                "ends": rules.ends,
                "types": rules.types,
            },
        }
        return {aspect: checksum("", arrays) for aspect, arrays in aspects.items()}

    def scores(self, theta: np.ndarray) -> Scores:
        """Scores under θ, with what the rules forbid at -inf."""
        plain = scores(self.design, theta, self.n_labels, self.n_jobs)
        return self.constraints.apply(plain, self.design)

    @property
    def truth(self) -> np.ndarray:
        """(N, k) indicators of the labels; as large as scores, so nobody should keep them."""
        indicators = np.zeros((len(self.labels), self.n_labels))
        indicators[np.arange(len(self.labels)), self.labels] = 1.0
        return indicators

    @cached_property
    def node_share(self) -> np.ndarray:
        """(N,) the share of each node's sample."""
        return np.repeat(self.share, np.diff(self.design.batch.node_offsets))

    @cached_property
    def untrained(self) -> float:
        """What knowing nothing costs: primal at θ = 0, the predictor uniform (or at the truth)."""
        if self.temperature > 0.0:
            return self._untrained_smooth()
        worst = self.cost.max(axis=1)[self.labels]
        if not self.truth_is_predictor:
            worst = np.full(len(self.labels), self.cost.mean(axis=0).max())
        return float((self.node_share * self.node_weight) @ worst)

    @cached_property
    def cost_scale(self) -> float:
        """c0 = mean node weight times mean cost of a mistake: the unit of temperatures."""
        return unit_of_temperature(self.cost, float(self.node_weight.mean()))

    def _untrained_smooth(self) -> float:
        """The same for T > 0, whatever the rules forbid."""
        tilt = self.cost if self.truth_is_predictor else self.cost.mean(axis=0)[None]
        at = self.labels if self.truth_is_predictor else np.zeros_like(self.labels)
        T, total = self.temperature, np.full(len(self.labels), -np.inf)
        for b in range(self.n_labels):
            total = np.logaddexp(total, self.node_weight * tilt[at, b] / T)
        return T * float(self.node_share @ total)

    def primal(self, theta: np.ndarray, p: np.ndarray) -> float:
        """Upper bound on the optimum from any weights and any predictor (N, k)."""
        return 0.5 * self.alpha * float(theta @ theta) + self.regret(theta, p)

    def regret(self, theta: np.ndarray, p: np.ndarray) -> float:
        """The part of the primal that is not the penalty."""
        regrets, offsets = np.empty(len(self.share)), self.design.batch.node_offsets

        def add(first: int, last: int) -> None:
            for a, b in self._stretches(first, last):
                part = self.part(a, b)
                regrets[a:b] = part._regrets(theta, p[offsets[a] : offsets[b]])

        whole = len(stretches(offsets[-1], self.n_labels)) == 1
        if whole or self.design.batch.n_chords:  # elimination orders are for the whole batch
            regrets = self._regrets(theta, p)
        else:
            over_samples(add, offsets, self.n_jobs)
        return float(self.share @ regrets)

    def _regrets(self, theta: np.ndarray, p: np.ndarray) -> np.ndarray:
        """(S,)"""
        ψ = self.scores(theta)
        upper = upper_bounds(Game(ψ, self.cost, self.node_weight), p, self.n_jobs)
        return upper - score_of(ψ, self.labels)

    def part(self, first: int, last: int) -> Problem:
        """Samples first .. last-1, for one thread; only for trees."""
        lo, hi = self.design.batch.node_offsets[[first, last]]
        return replace(
            self,
            design=self.design.part(first, last),
            labels=self.labels[lo:hi],
            node_weight=self.node_weight[lo:hi],
            share=self.share[first:last],
            n_jobs=1,
        )

    def _stretches(self, first: int, last: int) -> list[tuple[int, int]]:
        """Samples first .. last-1 in ranges whose scores are small enough for the cache."""
        offsets = self.design.batch.node_offsets
        n_nodes = offsets[last] - offsets[first]
        starts = [offsets[first] + a for a, _ in stretches(n_nodes, self.n_labels)]
        cuts = np.unique([*np.searchsorted(offsets, starts), last])
        return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))

    def dual(self, theta_of_q: np.ndarray, r: np.ndarray) -> float:
        """Lower bound on the optimum from feasible adversary marginals and the θ(q) they imply."""
        return self.gain(r) - 0.5 * self.alpha * float(theta_of_q @ theta_of_q)

    def gain(self, r: np.ndarray) -> float:
        """The part of the dual that is not the penalty: what the adversary's r cost at least."""
        expected = np.empty(len(r))
        for first, last in stretches(*r.shape):
            some = slice(first, last)
            if self.truth_is_predictor:
                expected[some] = (r[some] * self.cost[self.labels[some]]).sum(axis=1)
            else:
                expected[some] = (r[some] @ self.cost.T).min(axis=1)
        return float((self.node_share * self.node_weight) @ expected)
