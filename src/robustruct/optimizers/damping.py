"""How much workers that visit samples at the same time must hold back, by kind of weights.

In a round every worker visits samples of its own, starting from the same θ, and the changes of θ
are added up (CoCoA, Smith et al. 2018). K workers might all push a weight the same way, and the sum
overshoot by a factor of K. A worker therefore takes its changes δ for σ times as large as they are.
The dual falls by a sum over weights, so σ may differ from weight to weight; the sum is an ascent as
long as, kind by kind,

    |Σ δ|²  <=  σ Σ |δ|².

That holds for σ = the number of workers whose samples have the feature. Most features are rare, and
met by one worker in a round; the few that most samples have are met by all. Weights are therefore
put together by how often their feature occurs, and σ of each kind follows the ratio of the two
sides, the clash, that rounds have seen. With one σ for all, the many rare weights hide that those
of frequent features overshoot.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robustruct._lazy import cached_property

MARGIN = 1.1
"""Of σ over the clash; see benchmarks/README.md for this and the next."""
FALL = 0.8  # of σ in a pass, at most


@dataclass(eq=False)
class Damping:
    """σ of every weight: rows of θ, as long as there are labels, are of one kind each."""

    kind: np.ndarray
    """(rows,) uint8."""
    most: np.ndarray
    """(kinds,) what σ need not exceed."""

    def __post_init__(self) -> None:
        self.sigma = self.most.copy()
        self.worst = np.zeros(len(self.most))
        """The largest clash of the pass so far."""

    @classmethod
    def of_all(cls, n_rows: int, n_workers: int) -> Damping:
        """One σ for all weights."""
        return cls(np.zeros(n_rows, np.uint8), np.array([float(n_workers)]))

    @classmethod
    def by_count(cls, counts: np.ndarray, n_edge_rows: int, n_workers: int, rounds: int) -> Damping:
        """By how many nodes have a feature, to powers of two; what edges have is a kind too.

        Each of a feature's nodes is visited in one of the rounds of a pass, at random. So with c of
        them the other workers that meet it in the same round are (K - 1) (1 - (1 - 1/R)^(c/(K-1)))
        at most, which is when they have equally many.
        """
        of_node = np.ceil(np.log2(np.maximum(counts, 1.0))).astype(np.uint8)
        highest = int(of_node.max(initial=0))
        others = n_workers - 1
        elsewhere = np.exp2(np.arange(highest + 1)) / max(others, 1)
        most = 1.0 + others * (1.0 - (1.0 - 1.0 / rounds) ** elsewhere)
        kind = np.concatenate([of_node, np.full(n_edge_rows, highest + 1, np.uint8)])
        return cls(kind, np.append(most, float(n_workers)))

    @cached_property
    def _pace(self) -> np.ndarray:
        return np.empty(len(self.kind))

    @property
    def pace(self) -> np.ndarray:
        """(rows,) σ of each row of θ, or (1,) where all have the same."""
        if len(self.sigma) == 1:
            return self.sigma
        return np.take(self.sigma, self.kind, out=self._pace)

    def see(self, sums: np.ndarray, parts: np.ndarray) -> None:
        """A round had |Σδ|² = ``sums`` and Σ|δ|² = ``parts``, by kind: σ rises at once."""
        clash = sums / np.maximum(parts, 1e-300)
        np.maximum(self.worst, clash, out=self.worst)
        self.sigma = np.minimum(np.maximum(self.sigma, MARGIN * clash), self.most)

    def end_pass(self) -> None:
        """σ falls towards what the pass has seen, where it has seen anything."""
        wanted = np.maximum(MARGIN * self.worst, FALL * self.sigma)
        self.sigma = np.where(self.worst > 0.0, np.clip(wanted, 1.0, self.most), self.sigma)
        self.worst[:] = 0.0
