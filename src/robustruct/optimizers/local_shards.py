"""What one process does for a fit, on the samples that it holds.

Training needs four sums over samples: of steps, of moments, of bounds, and for the CRF of
gradients. `LocalShards` adds up over the samples of this process. An engine that spreads samples
over many processes offers the same methods (`Shards`), with `LocalShards` in each, so an optimizer
does not know where samples are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from robustruct._lazy import cached_property
from robustruct.kernels.weight_vectors import follow_centre
from robustruct.objectives.adversarial import Outline, Problem, fingerprint_of
from robustruct.objectives.likelihood import Likelihood
from robustruct.optimizers.dual_variables import DualVariables
from robustruct.optimizers.optimizer import CentreUpdate, Kept, PassSpec, PassStats, inside
from robustruct.optimizers.tuning import Tuning, tuning_for
from robustruct.parallel import over_ranges

PARTS = 4  # of a pass, where a process has several shards


class Variables(Protocol):
    """The dual variables of a shard, whatever adversaries are kept as."""

    gap: np.ndarray
    """(S,) as the last visits saw it."""

    def working(self, theta: np.ndarray) -> Any:
        """θ as visits take it: itself, or a copy of other numbers."""

    def put_back(self, weights: Any, theta: np.ndarray) -> None:
        """Into θ: what visits have made of its working copy."""

    def visit(self, order: np.ndarray, weights: Any, spec: PassSpec) -> None:
        """Improve those of the samples in ``order``, and the working copy of θ with them."""

    def move_predictors(self) -> None:
        """The centres p0 go to where the predictor is."""

    def shared_gap(self) -> float:
        """The samples' part of the duality gap, as the last visits saw it."""

    def shared_regret(self) -> float:
        """The part of the primal that is not the penalty, as the last visits saw it."""

    def moments(self, out: np.ndarray) -> None:
        """Into ``out``: G(q), recomputed."""

    def gain(self) -> float:
        """The part of the dual that is not the penalty."""

    def regret(self, theta: np.ndarray) -> float:
        """The part of the primal that is not the penalty, at p0."""

    def state(self) -> dict[str, np.ndarray]:
        """What visits have changed; `restore` takes it back."""

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from an earlier `state`."""


class ShardState:
    """The samples of one shard, and what training has made of them."""

    def __init__(self, problem: Problem, tuning: Tuning) -> None:
        self.given, self.tuning = problem, tuning
        self.problem = tuning.scales.scaled(problem)
        """About the weights divided by their scales."""

    @cached_property
    def dual(self) -> Variables:
        if self.tuning.natural:
            # They bring compiled code of their own.
            from robustruct.optimizers.natural_variables import NaturalVariables

            return NaturalVariables(self.problem, self.tuning)
        return DualVariables(self.problem, self.tuning)

    @cached_property
    def likelihood(self) -> Likelihood:
        return Likelihood(self.problem)

    def order(self, number: int, spec: PassSpec) -> np.ndarray:
        """The samples to visit; their order depends on the seed, the pass and the shard alone."""
        rng = np.random.default_rng([spec.seed, spec.number, number])
        order = rng.permutation(len(self.dual.gap))[spec.part :: spec.parts]
        if spec.skip_below > -np.inf:
            order = order[self.dual.gap[order] >= spec.skip_below]
        return order


class LocalShards:
    """Samples of this process, in one or more shards."""

    def __init__(self, problems: Sequence[Problem] | Mapping[int, Problem], tuning: Tuning) -> None:
        """``problems`` by the numbers of their shards."""
        numbered = problems if isinstance(problems, Mapping) else dict(enumerate(problems))
        self.tuning = tuning
        self.shards = {number: ShardState(one, tuning) for number, one in numbered.items()}

    @classmethod
    def of(cls, problem: Problem) -> LocalShards:
        """All samples in one shard."""
        return cls([problem], tuning_for(problem))

    def retune(self, tuning: Tuning) -> None:
        """Begin anew with other settings."""
        self.tuning = tuning
        self.shards = {n: ShardState(shard.given, tuning) for n, shard in self.shards.items()}

    @property
    def first(self) -> ShardState:
        """The first shard."""
        return next(iter(self.shards.values()))

    @property
    def local_problems(self) -> dict[int, Problem]:
        """The samples of all shards as they were given."""
        return {number: shard.given for number, shard in self.shards.items()}

    @property
    def local_problem(self) -> Problem | None:
        """All samples as they were given, if they are one shard."""
        return self.first.given if len(self.shards) == 1 else None

    @property
    def dual(self) -> DualVariables | None:
        """The dual variables of all samples, if they are one shard."""
        dual = self.first.dual if len(self.shards) == 1 else None
        return dual if isinstance(dual, DualVariables) else None

    @property
    def outline(self) -> Outline:
        """The problem without its samples."""
        return Outline.of_all([shard.problem.outline for shard in self.shards.values()])

    def round(self, theta: np.ndarray, centre: np.ndarray, spec: PassSpec) -> PassStats:
        """Visit every sample that is not skipped; θ moves in place."""
        # In several parts: samples of one shard visited in a row, and always in the same place of
        # a pass, would draw the centres to and fro without end.
        parts = 1 if len(self.shards) == 1 else PARTS
        rng = np.random.default_rng([spec.seed, spec.number, spec.part])
        weights = self.first.dual.working(theta) if self.shards else None
        for part in range(parts):
            some = replace(spec, part=spec.part + spec.parts * part, parts=spec.parts * parts)
            for number in rng.permutation(list(self.shards)):
                shard = self.shards[number]
                shard.dual.visit(shard.order(number, some), weights, some)
        if self.shards:
            self.first.dual.put_back(weights, theta)
        dual = [shard.dual for shard in self.shards.values()]
        return PassStats(
            sum(b.shared_gap() for b in dual),
            float(sum(b.gap.sum() for b in dual)),
            sum(b.shared_regret() for b in dual),
        )

    def follow(self, theta: np.ndarray, centre: np.ndarray, spec: CentreUpdate) -> None:
        """All centres follow, and θ with them."""
        for shard in self.shards.values():
            shard.dual.move_predictors()
        squares, trivial = self.tuning.scales.squares, self.tuning.scales.trivial
        settings = spec.alpha, spec.kappa, spec.new_kappa

        def move(some: slice) -> None:
            own = squares if trivial else squares[some]
            follow_centre(theta[some], centre[some], own, *settings)

        over_ranges(move, len(theta), self.first.problem.n_jobs if self.shards else 1)

    def moments(self, out: np.ndarray) -> None:
        """G(q), recomputed, into ``out``."""
        first, *others = self.shards.values()
        first.dual.moments(out)
        one = np.empty_like(out) if others else out
        for shard in others:
            shard.dual.moments(one)
            out += one

    def bounds(self, theta: np.ndarray) -> tuple[float, float]:
        """(regret at θ and p0, gain of q)."""
        dual = [shard.dual for shard in self.shards.values()]
        return self._regret(theta), sum(b.gain() for b in dual)

    def plain_bounds(self, theta: np.ndarray) -> tuple[float, float]:
        """The same with the adversary at the truth."""
        problems = [shard.problem for shard in self.shards.values()]
        return self._regret(theta), sum(problem.gain(problem.truth) for problem in problems)

    def _regret(self, theta: np.ndarray) -> float:
        return sum(shard.dual.regret(theta) for shard in self.shards.values())

    def likelihood(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """(regret of the CRF at θ, its gradient)."""
        found = [shard.likelihood(theta) for shard in self.shards.values()]
        return sum(value for value, _ in found), _total([gradient for _, gradient in found])

    def fingerprint(self) -> dict[str, Any]:
        """What the samples are."""
        return fingerprint_of(
            {number: shard.given.digests() for number, shard in self.shards.items()}
        )

    def state(self) -> dict[str, np.ndarray]:
        """The dual variables of all shards; `restore` takes them back."""
        return {
            f"{number}.{name}": value
            for number, shard in self.shards.items()
            for name, value in shard.dual.state().items()
        }

    def restore(self, state: dict[str, np.ndarray]) -> Kept:
        """Go on from an earlier `state`, unless it is empty."""
        if not state:
            return Kept.NONE
        for number, shard in self.shards.items():
            shard.dual.restore(inside(str(number), state))
        return Kept.ALL


def _total(vectors: Sequence[np.ndarray]) -> np.ndarray:
    total = vectors[0]
    for vector in vectors[1:]:
        total += vector
    return total
