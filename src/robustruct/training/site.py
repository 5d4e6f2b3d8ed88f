"""What one process does for a fit, on the samples that it holds.

Training needs four sums over samples: of steps, of moments, of bounds, and for the CRF of
gradients. A `Site` adds up over the samples of this process. An engine that spreads samples over
many processes offers the same methods (`Sites`), with a site in each, so an optimizer does not know
where samples are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from robustruct.kernels.proximal import follow_centre
from robustruct.parallel import over_ranges
from robustruct.training.dual_blocks import DualBlocks
from robustruct.training.fit import inside
from robustruct.training.likelihood import Likelihood
from robustruct.training.problem import Outline, Problem, fingerprint_of
from robustruct.training.tuning import Tuning, tuning_for

if TYPE_CHECKING:
    from robustruct.training.natural_blocks import NaturalBlocks

TURNS = 4  # in a pass, where a site has several shards


@dataclass(frozen=True)
class Round:
    """Orders for a pass of visits, or for a part of one."""

    number: int
    """Of the pass; passes count from 1."""
    seed: int
    penalty: float
    """alpha + kappa."""
    rest_below: float = -np.inf
    """Samples with a smaller gap than this rest."""
    part: int = 0
    parts: int = 1


@dataclass(frozen=True)
class Follow:
    """Orders for the centres after a pass: those of the predictors, and z of the weights."""

    alpha: float
    kappa: float
    new_kappa: float


@dataclass(frozen=True)
class Seen:
    """What visits saw."""

    gap: float
    """The samples' part of the duality gap."""
    total_gap: float
    """Sum of the samples' gaps, not weighted."""


class Sites(Protocol):
    """Where the samples of a fit are."""

    generation: int
    """Changes whenever blocks were lost and begun anew: what was summed before is then void."""

    @property
    def outline(self) -> Outline: ...

    @property
    def tuning(self) -> Tuning: ...

    def round(self, theta: np.ndarray, centre: np.ndarray, orders: Round) -> Seen:
        """Visit every sample that does not rest; θ moves in place."""

    def follow(self, theta: np.ndarray, centre: np.ndarray, orders: Follow) -> None:
        """All centres follow, and θ with them."""

    def moments(self, out: np.ndarray) -> None:
        """G(q), recomputed, into ``out``."""

    def bounds(self, theta: np.ndarray) -> tuple[float, float]:
        """(regret at θ and p0, gain of q): primal and dual but for the penalties."""

    def plain_bounds(self, theta: np.ndarray) -> tuple[float, float]:
        """The same with the adversary at the truth: valid even if a visit was interrupted."""

    def likelihood(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """(regret of the CRF at θ, its gradient), without the penalty."""

    def fingerprint(self) -> dict[str, Any]:
        """What the samples are: see `fingerprint_of`."""

    def state(self) -> dict[str, np.ndarray]:
        """What visits have changed; empty where it would have to travel."""

    def restore(self, state: dict[str, np.ndarray]) -> bool:
        """Go on from an earlier `state`, if possible; whether it was."""


class Holding:
    """The samples of one shard, and what training has made of them."""

    def __init__(self, problem: Problem, tuning: Tuning) -> None:
        self.problem, self.tuning = problem, tuning

    @cached_property
    def blocks(self) -> DualBlocks | NaturalBlocks:
        if self.problem.temperature > 0.0:
            from robustruct.training.natural_blocks import NaturalBlocks

            return NaturalBlocks(self.problem, self.tuning)
        return DualBlocks(self.problem, self.tuning)

    @cached_property
    def likelihood(self) -> Likelihood:
        return Likelihood(self.problem)

    def visit(self, number: int, theta: np.ndarray, orders: Round) -> None:
        """A round of visits; the order depends on nothing but the seed, the pass and the shard."""
        blocks = self.blocks
        rng = np.random.default_rng([orders.seed, orders.number, number])
        order = rng.permutation(len(blocks.gap))[orders.part :: orders.parts]
        if orders.rest_below > -np.inf:
            order = order[blocks.gap[order] >= orders.rest_below]
        blocks.cool(orders.number)
        blocks.visit(order, theta, orders.penalty)


class Site:
    """Samples of this process, in one or more shards."""

    generation = 0

    def __init__(self, problems: Sequence[Problem] | Mapping[int, Problem], tuning: Tuning) -> None:
        """``problems`` by the numbers of their shards."""
        numbered = problems if isinstance(problems, Mapping) else dict(enumerate(problems))
        self.tuning = tuning
        self.shards = {number: Holding(one, tuning) for number, one in numbered.items()}

    @classmethod
    def of(cls, problem: Problem) -> Site:
        """All samples in one shard."""
        return cls([problem], tuning_for(problem))

    @property
    def first(self) -> Holding:
        """The first shard: all samples, where they are in one place from the start."""
        return next(iter(self.shards.values()))

    @property
    def outline(self) -> Outline:
        """The problem without its samples."""
        return Outline.of_all([shard.problem.outline for shard in self.shards.values()])

    def round(self, theta: np.ndarray, centre: np.ndarray, orders: Round) -> Seen:
        """Visit every sample that does not rest; θ moves in place."""
        # Turn and turn about: blocks of one shard visited in a row, and always in the same place
        # of a pass, would draw the centres to and fro without end.
        parts = 1 if len(self.shards) == 1 else TURNS
        rng = np.random.default_rng([orders.seed, orders.number, orders.part])
        for turn in range(parts):
            some = replace(
                orders, part=orders.part + orders.parts * turn, parts=orders.parts * parts
            )
            for number in rng.permutation(list(self.shards)):
                self.shards[number].visit(number, theta, some)
        blocks = [shard.blocks for shard in self.shards.values()]
        return Seen(sum(b.shared_gap() for b in blocks), float(sum(b.gap.sum() for b in blocks)))

    def follow(self, theta: np.ndarray, centre: np.ndarray, orders: Follow) -> None:
        """All centres follow, and θ with them."""
        for shard in self.shards.values():
            shard.blocks.move_predictors()
        settings = orders.alpha, orders.kappa, orders.new_kappa
        over_ranges(
            lambda some: follow_centre(theta[some], centre[some], *settings),
            len(theta),
            self.first.problem.n_jobs,
        )

    def moments(self, out: np.ndarray) -> None:
        """G(q), recomputed, into ``out``."""
        first, *others = self.shards.values()
        first.blocks.moments(out)
        one = np.empty_like(out) if others else out
        for shard in others:
            shard.blocks.moments(one)
            out += one

    def bounds(self, theta: np.ndarray) -> tuple[float, float]:
        """(regret at θ and p0, gain of q)."""
        blocks = [shard.blocks for shard in self.shards.values()]
        return self._regret(theta), sum(b.gain() for b in blocks)

    def plain_bounds(self, theta: np.ndarray) -> tuple[float, float]:
        """The same with the adversary at the truth."""
        problems = [shard.problem for shard in self.shards.values()]
        return self._regret(theta), sum(problem.gain(problem.truth) for problem in problems)

    def _regret(self, theta: np.ndarray) -> float:
        return sum(shard.blocks.regret(theta) for shard in self.shards.values())

    def likelihood(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """(regret of the CRF at θ, its gradient)."""
        found = [shard.likelihood(theta) for shard in self.shards.values()]
        return sum(value for value, _ in found), _total([gradient for _, gradient in found])

    def fingerprint(self) -> dict[str, Any]:
        """What the samples are."""
        return fingerprint_of(
            {number: shard.problem.digests() for number, shard in self.shards.items()}
        )

    def state(self) -> dict[str, np.ndarray]:
        """The blocks of all shards; `restore` takes them back."""
        return {
            f"{number}.{name}": value
            for number, shard in self.shards.items()
            for name, value in shard.blocks.state().items()
        }

    def restore(self, state: dict[str, np.ndarray]) -> bool:
        """Go on from an earlier `state`; False if it is empty."""
        if not state:
            return False
        for number, shard in self.shards.items():
            shard.blocks.restore(inside(str(number), state))
        return True


def _total(vectors: Sequence[np.ndarray]) -> np.ndarray:
    total = vectors[0]
    for vector in vectors[1:]:
        total += vector
    return total
