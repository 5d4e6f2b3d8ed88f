"""The outer problem, and its primal and dual bounds.

    min over θ   (alpha/2)|θ|²  +  Σ_s share_s [ V(θ·Φ_s) − θ·Φ_s(y_s) ]

V is the value of the game, or with the predictor held at the truth the structured hinge loss. For
any θ and p, and for any q with θ(q) = Σ_s share_s (Φ_s(y_s) − Φ_s(q_s)) / alpha,

    primal(θ, p) = alpha/2 |θ|²
                   + Σ_s share_s [ max_y (θ·Φ_s(y) + Σ_i w_i (L'p_i)(y_i)) − θ·Φ_s(y_s) ]
    dual(q)      = Σ_s share_s Σ_i w_i min_a (L r_i)_a  −  alpha/2 |θ(q)|²

bracket the optimum; every stopping rule uses them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from robustruct._lazy import cached_property
from robustruct.constraints import TransitionMasks, node_kinds
from robustruct.features import Design, FeatureMatrix, n_weights, scores
from robustruct.formats.container import checksum
from robustruct.game.certified import rounding_of
from robustruct.game.game import Game, upper_bounds
from robustruct.inference import score_of
from robustruct.objectives.partial import PartialTruth
from robustruct.parallel import over_samples, stretches
from robustruct.scores import Scores


@dataclass(frozen=True)
class Outline:
    """Sizes and constants of a problem: all that an optimizer knows where samples are elsewhere."""

    alpha: float
    n_weights: int
    n_samples: int
    n_nodes: int
    untrained: float
    """See `Problem.untrained`."""
    cost_size: float
    """See `Problem.cost_size`."""
    score_size: float
    """See `Problem.score_size`."""
    unavoidable: float
    """See `Problem.unavoidable`."""
    taken_off: float
    """See `Problem.taken_off`."""
    l1: float = 0.0
    """See `Problem.l1`."""
    n_labels: int = 1
    n_chords: int = 0
    """Edges beyond those of a forest; see `Batch`."""
    priced: bool = True
    """Whether training knows costs; else it is a likelihood."""

    def rounding(self, theta: np.ndarray, primal: float, dual: float) -> float:
        """Bound the rounding error of a certificate.

        Each bound is a sum of at most n_nodes + n_weights terms, whose absolute values add up to
        no more than those of costs, scores and penalty.
        """
        largest = float(max(theta.max(initial=0.0), -theta.min(initial=0.0)))
        # Twice the scores: those of the best labelling and of the truth.
        sizes = self.cost_size + 2.0 * self.score_size * largest
        sizes += sum(abs(bound) for bound in (primal, dual) if np.isfinite(bound))
        rounding: float = rounding_of(self.n_nodes + self.n_weights, sizes)
        return rounding

    @classmethod
    def of_all(cls, parts: Sequence[Outline]) -> Outline:
        """Add up the outlines of problems that share their weights."""
        return cls(
            parts[0].alpha,
            parts[0].n_weights,
            sum(part.n_samples for part in parts),
            sum(part.n_nodes for part in parts),
            sum(part.untrained for part in parts),
            sum(part.cost_size for part in parts),
            sum(part.score_size for part in parts),
            sum(part.unavoidable for part in parts),
            sum(part.taken_off for part in parts),
            parts[0].l1,
            parts[0].n_labels,
            sum(part.n_chords for part in parts),
            parts[0].priced,
        )


def arrays_of(name: str, matrix: FeatureMatrix) -> dict[str, np.ndarray]:
    """Return the arrays that make up a feature matrix, by name."""
    if isinstance(matrix, np.ndarray):
        return {name: matrix}
    return {
        f"{name}.indptr": matrix.indptr,
        f"{name}.indices": matrix.indices,
        f"{name}.data": matrix.data,
        f"{name}.shape": np.array(matrix.shape),
    }


def absolute_sums(matrix: FeatureMatrix) -> np.ndarray:
    """(rows,) sum of the absolute values of each row."""
    if isinstance(matrix, np.ndarray):
        return np.linalg.norm(matrix, 1, axis=1)
    sums = np.empty(matrix.shape[0])
    for first in range(0, len(sums), 2**16):  # in pieces: a copy of all entries may not fit
        ends = matrix.indptr[first : first + 2**16 + 1]
        total = np.concatenate([[0.0], np.cumsum(np.abs(matrix.data[ends[0] : ends[-1]]))])
        sums[first : first + 2**16] = np.diff(total[ends - ends[0]])
    return sums


def fingerprint_of(digests: Mapping[int, Mapping[str, str]]) -> dict[str, Any]:
    """Combine the `Problem.digests` of all shards, by shard number, to an identity of the data.

    Keys are aspects in users' words; values begin with "sha256".
    """
    fingerprint: dict[str, Any] = {"the number of shards": len(digests)}
    for aspect in next(iter(digests.values())):
        text = " ".join(f"{number} {digests[number][aspect]}" for number in sorted(digests))
        fingerprint[aspect] = f"sha256 {checksum(text, {})}"
    return fingerprint


def stakes(cost: np.ndarray) -> np.ndarray:
    """(k,) how much predicting each label can change the cost, max_b |L[a, b] - median(L[:, b])|.

    The median removes what all labels cost where b is true. No stake is less than a millionth of
    the largest, as they are divided by.
    """
    stake = np.abs(cost - np.median(cost, axis=0)).max(axis=1)
    return np.maximum(stake, 1e-6 * stake.max())


def unit_of_temperature(cost: np.ndarray, mean_weight: float) -> float:
    """c0 = mean node weight times mean cost of a mistake (off the diagonal, above the least cost).

    Temperatures in units of c0 are dimensionless; adding a constant to the cost does not change c0.
    Where all costs are equal, or there is one label only, a mistake counts as 1.
    """
    mistakes = cost[~np.eye(len(cost), dtype=bool)] - cost.min()
    return mean_weight * (float(mistakes.mean()) if mistakes.any() else 1.0)


@dataclass(frozen=True, eq=False)
class Problem:
    """A training problem: encoded samples, their labels, and the cost of mistakes."""

    design: Design
    labels: np.ndarray
    """(N,) intp, the truth, in the order of the batch."""
    cost: np.ndarray
    """(k, k) L[a, b], cost of predicting a when the adversary plays b; the least is 0."""
    node_weight: np.ndarray
    """(N,) w, weight of each node's cost."""
    share: np.ndarray
    """(S,) weight of each sample in the objective; sums to 1."""
    alpha: float
    constraints: TransitionMasks
    truth_is_predictor: bool = False
    """True holds p at the truth: the structured SVM (for which L is given transposed)."""
    n_jobs: int | None = 1
    relaxed: bool = False
    """True replaces every game by its relaxation to the local polytope."""
    offset: float = 0.0
    """Subtracted from every cost. It shifts the bounds by a constant only, next to which, if large,
    their difference would be lost to rounding."""
    temperature: float = 0.0
    """T, in the units of the cost; above 0 the objective is smooth: see objectives/smooth.py."""
    l1: float = 0.0
    """Strength of the penalty l1 |θ|_1 of a likelihood, beside that of alpha."""
    sample_digests: np.ndarray | None = None
    """(S,) uint64, by which samples are recognised later; None of a part of a problem."""
    partial: PartialTruth | None = None
    """What is known of labels that are known in part; ``labels`` agree with it."""

    @property
    def n_labels(self) -> int:
        return len(self.cost)

    @property
    def n_weights(self) -> int:
        return n_weights(self.design, self.n_labels)

    @cached_property
    def outline(self) -> Outline:
        """Sizes and constants of this problem."""
        batch = self.design.batch
        return Outline(
            alpha=self.alpha,
            n_weights=self.n_weights,
            n_samples=batch.n_samples,
            n_nodes=batch.n_nodes,
            untrained=self.untrained,
            unavoidable=self.unavoidable,
            cost_size=self.cost_size,
            score_size=self.score_size,
            taken_off=self.taken_off,
            l1=self.l1,
            n_labels=self.n_labels,
            n_chords=batch.n_chords,
            priced=bool(self.cost.any()),
        )

    def digests(self) -> dict[str, str]:
        """Digests of all arrays that training depends on, by aspect in users' words."""
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
                # The key enters checksums of checkpoints; another name would refuse existing ones.
                "table_turned": design.table_transposed,
                "type_of": design.type_of,
            },
            "labels": {"labels": self.labels, **self._known_in_part},
            "weights of samples or nodes": {"share": self.share, "node_weight": self.node_weight},
            "costs": {"cost": self.cost + self.offset},
            "rules about labels": {
                "pairs": rules.pairs,
                "starts": rules.starts,
                "ends": rules.ends,
                "types": rules.types,
            },
        }
        return {aspect: checksum("", arrays) for aspect, arrays in aspects.items()}

    @property
    def _known_in_part(self) -> dict[str, np.ndarray]:
        partial = self.partial
        return {} if partial is None else {"nodes": partial.nodes, "weights": partial.weights}

    def scores(self, theta: np.ndarray) -> Scores:
        """Return scores under θ; forbidden labels and pairs score -inf."""
        plain = scores(self.design, theta, self.n_labels, self.n_jobs)
        return self.constraints.apply(plain, self.design)

    @property
    def truth(self) -> np.ndarray:
        """(N, k) indicators of the labels, or the marginals of what takes their place.

        As large as scores, so not to be cached.
        """
        return self._indicators(None if self.partial is None else self.partial.r)

    @property
    def held(self) -> np.ndarray:
        """(N, k) the predictor where it is held at the truth."""
        return self._indicators(None if self.partial is None else self.partial.held)

    def _indicators(self, in_part: np.ndarray | None) -> np.ndarray:
        indicators = np.zeros((len(self.labels), self.n_labels))
        indicators[np.arange(len(self.labels)), self.labels] = 1.0
        if self.partial is not None and in_part is not None:
            indicators[self.partial.nodes] = in_part
        return indicators

    def surplus_score(self, theta: np.ndarray) -> float:
        """Return by how much what takes the truth's place scores more than ``labels``."""
        return 0.0 if self.partial is None else float(self.partial.surplus @ theta)

    def add_surplus(self, moments: np.ndarray) -> None:
        """Add to moments of ``labels`` what those of the truth have more."""
        if self.partial is not None:
            moments += self.partial.surplus

    @property
    def known_weight(self) -> np.ndarray:
        """(N,) node weights, 0 where the label is not known: only known labels judge."""
        if self.partial is None:
            return self.node_weight
        weight = self.node_weight.copy()
        weight[self.partial.nodes[(self.partial.weights > 0.0).sum(axis=1) > 1]] = 0.0
        return weight

    @cached_property
    def label_masks(self) -> tuple[np.ndarray, np.ndarray]:
        """((N,) the row of each node, (rows, k) masks): -inf for labels that neither player plays.

        See `TransitionMasks.label_masks`. The truth needs no mask; and the forests of a
        relaxed game must agree on masks, so there only a node's own rules count.
        """
        if self.truth_is_predictor or self.relaxed:
            return node_kinds(self.design), self.constraints.unary_masks()
        return self.constraints.label_masks(self.design)

    @cached_property
    def node_share(self) -> np.ndarray:
        """(N,) the share of each node's sample."""
        return np.repeat(self.share, np.diff(self.design.batch.node_offsets))

    @cached_property
    def untrained(self) -> float:
        """Primal at θ = 0, with the predictor uniform on its allowed labels (or at the truth).

        Without costs, the log loss of the uniform distribution.
        """
        if np.ptp(self.cost) == 0:
            T = self.temperature or 1.0
            return float(self.node_share.sum() * T * np.log(self.n_labels)) + self.unavoidable
        if self.temperature > 0.0:
            return self._untrained_smooth()
        if self.truth_is_predictor and self.partial is not None:
            worst = (self.held @ self.cost).max(axis=1)
        elif self.truth_is_predictor:
            worst = self.cost.max(axis=1)[self.labels]
        else:
            row_of, masks = self.label_masks
            allowed = [np.flatnonzero(mask > -np.inf) for mask in masks]
            worst = np.array([self.cost[np.ix_(a, a)].mean(axis=0).max() for a in allowed])[row_of]
        return float((self.node_share * self.node_weight) @ worst)

    def _untrained_smooth(self) -> float:
        """`untrained` for T > 0; an upper bound, as rules about pairs are ignored."""
        row_of, masks = self.label_masks
        allowed = np.isfinite(masks)
        if self.truth_is_predictor and self.partial is not None:
            costs, at = self.held @ self.cost, np.arange(len(self.labels))
        elif self.truth_is_predictor:
            costs, at = self.cost, self.labels
        else:
            costs = (allowed / allowed.sum(axis=1, keepdims=True)) @ self.cost
            at = row_of
        T, total = self.temperature, np.full(len(self.labels), -np.inf)
        for b in range(self.n_labels):
            added = np.where(allowed[row_of, b], self.node_weight * costs[at, b] / T, -np.inf)
            total = np.logaddexp(total, added)
        return T * float(self.node_share @ total)

    @cached_property
    def cost_scale(self) -> float:
        """Unit of temperatures; see `unit_of_temperature`."""
        share = self.node_share
        return unit_of_temperature(self.cost, float(share @ self.node_weight / share.sum()))

    @property
    def cost_size(self) -> float:
        """Upper bound on the expected cost plus T times the entropy, weighted by shares."""
        costs = float(self.node_share @ self.node_weight * np.abs(self.cost).max())
        return costs + self.temperature * float(self.node_share.sum() * np.log(self.n_labels))

    @cached_property
    def score_size(self) -> float:
        """Sum of |features| over nodes and edges by shares: bounds scores where |θ| <= 1."""
        design, inner = self.design, np.flatnonzero(self.design.batch.parent >= 0)
        nodes = float(self.node_share @ absolute_sums(design.nodes))
        of_row = absolute_sums(design.edges)
        of_slot = of_row[design.table_row[design.table_of[inner]]]
        return nodes + float(self.node_share[design.batch.child[inner]] @ of_slot)

    @cached_property
    def unavoidable(self) -> float:
        """Cost of the best predictions where the truth is known: dual with the adversary at it."""
        if self.partial is not None:
            return self.gain(self.truth) + self.temperature * self.partial.entropy
        least = np.diagonal(self.cost) if self.truth_is_predictor else self.cost.min(axis=0)
        return float((self.node_share * self.node_weight) @ least[self.labels])

    @property
    def taken_off(self) -> float:
        """Constant missing in the bounds because ``offset`` was subtracted from the costs."""
        return self.offset * float(self.node_share @ self.node_weight)

    def primal(self, theta: np.ndarray, p: np.ndarray) -> float:
        """Upper bound on the optimum from any weights and any predictor (N, k)."""
        return 0.5 * self.alpha * float(theta @ theta) + self.regret(theta, p)

    def regret(self, theta: np.ndarray, p: np.ndarray) -> float:
        """Primal without the penalty."""
        regrets, offsets = np.empty(len(self.share)), self.design.batch.node_offsets

        def add(first: int, last: int) -> None:
            for a, b in self._stretches(first, last):
                part = self.part(a, b)
                regrets[a:b] = part._regrets(theta, p[offsets[a] : offsets[b]])

        # In stretches whose scores fit the cache: scores of all nodes are never in memory at once.
        whole = len(stretches(offsets[-1], self.n_labels)) == 1
        if whole or self.design.batch.n_chords:  # elimination orders belong to the whole batch
            regrets = self._regrets(theta, p)
        else:
            over_samples(add, offsets, self.n_jobs)
        return float(self.share @ regrets) - self.surplus_score(theta)

    def _regrets(self, theta: np.ndarray, p: np.ndarray) -> np.ndarray:
        """(S,) regret of each sample."""
        ψ = self.scores(theta)
        upper = upper_bounds(Game(ψ, self.cost, self.node_weight), p, self.n_jobs)
        return upper - score_of(ψ, self.labels)

    def take(self, samples: np.ndarray) -> Problem:
        """The problem of some of the samples, whose shares sum to 1 again."""
        nodes, share = self.design.batch.nodes_of(samples), self.share[samples]
        taken = replace(
            self,
            design=self.design.take(samples),
            labels=self.labels[nodes],
            node_weight=self.node_weight[nodes],
            share=share / share.sum(),
            sample_digests=None,
            partial=None,
        )
        if self.partial is None:
            return taken
        return replace(taken, partial=self.partial.take(taken, samples, len(self.share)))

    def part(self, first: int, last: int) -> Problem:
        """Restrict a problem of trees to samples first .. last-1, for one thread."""
        lo, hi = self.design.batch.node_offsets[[first, last]]
        return replace(
            self,
            design=self.design.part(first, last),
            labels=self.labels[lo:hi],
            node_weight=self.node_weight[lo:hi],
            share=self.share[first:last],
            n_jobs=1,
            sample_digests=None,
            partial=None,
        )

    def _stretches(self, first: int, last: int) -> list[tuple[int, int]]:
        """Split samples first .. last-1 into ranges whose scores fit in the cache."""
        offsets = self.design.batch.node_offsets
        n_nodes = offsets[last] - offsets[first]
        starts = [offsets[first] + a for a, _ in stretches(n_nodes, self.n_labels)]
        cuts = np.unique([*np.searchsorted(offsets, starts), last])
        return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))

    def dual(self, theta_of_q: np.ndarray, r: np.ndarray) -> float:
        """Lower bound on the optimum from feasible adversary marginals and the θ(q) they imply."""
        return self.gain(r) - 0.5 * self.alpha * float(theta_of_q @ theta_of_q)

    def gain(self, r: np.ndarray) -> float:
        """Dual without the penalty: the least expected cost under the adversary's r (N, k)."""
        if not self.cost.any():
            return 0.0
        expected = np.empty(len(r))
        row_of, masks = self.label_masks
        if self.truth_is_predictor and self.partial is not None:
            return float(
                (self.node_share * self.node_weight) @ (r * (self.held @ self.cost)).sum(axis=1)
            )
        for first, last in stretches(*r.shape):
            some = slice(first, last)
            if self.truth_is_predictor:
                expected[some] = (r[some] * self.cost[self.labels[some]]).sum(axis=1)
                continue
            answers = self.cost @ r[some].T  # (k, nodes): minima along rows of nodes vectorise
            if masks.any():
                # Minus -inf: forbidden labels never are the least.
                answers -= masks.T[:, row_of[some]]
            answers.min(axis=0, out=expected[some])
        return float((self.node_share * self.node_weight) @ expected)


@dataclass(frozen=True, eq=False)
class Excess:
    """Rows share_i (e_{y_i} − r_i) of the gradient, computed by slices to save memory."""

    labels: np.ndarray
    r: np.ndarray
    share: np.ndarray

    def __getitem__(self, rows: slice, /) -> np.ndarray:
        share = self.share[rows]
        excess = self.r[rows] * -share[:, None]
        excess[np.arange(len(share)), self.labels[rows]] += share
        return excess


def even_predictor(problem: Problem) -> np.ndarray:
    """(N, k) the predictor that is uniform on the allowed labels of each node."""
    row_of, masks = problem.label_masks
    even = np.isfinite(masks) / np.isfinite(masks).sum(axis=1, keepdims=True)
    return even[row_of]
