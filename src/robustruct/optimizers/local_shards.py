"""What one process does for a fit, on the samples that it holds.

Training needs four sums over samples: of steps, of moments, of bounds, and for the CRF of
gradients. `LocalShards` adds up over the samples of this process. An engine that spreads samples
over many processes offers the same methods (`Shards`), with `LocalShards` in each, so an optimizer
does not know where samples are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol, cast

import numpy as np

from robustruct._lazy import cached_property
from robustruct.core.structs import KeptRows, Rows
from robustruct.core.vectors import follow_centre, mark_columns, take_changes
from robustruct.features import SparseRows
from robustruct.objectives.adversarial import Outline, Problem, fingerprint_of
from robustruct.objectives.likelihood import Likelihood
from robustruct.objectives.partial import filled
from robustruct.objectives.relaxed import RelaxedLikelihood
from robustruct.optimizers.certificates import inside
from robustruct.optimizers.dual_variables import DualVariables
from robustruct.optimizers.shards import CentreUpdate, PassSpec, PassStats
from robustruct.optimizers.tuning import Tuning, tuning_for
from robustruct.parallel import over_ranges

PARTS = 4  # of a pass, where a process has several shards


class Variables(Protocol):
    """The dual variables of a shard, whatever adversaries are kept as."""

    gap: np.ndarray
    """(S,) as the last visits saw it."""

    def working(self, theta: np.ndarray, rows: np.ndarray | None) -> Any:
        """θ as visits take it: itself, or a copy of other numbers, of these rows or of all."""

    def put_back(self, weights: Any, theta: np.ndarray, rows: np.ndarray | None) -> None:
        """Into the same rows of θ: what visits have made of its working copy."""

    def visit(self, order: np.ndarray, weights: Any, spec: PassSpec) -> None:
        """Improve those of the samples in ``order``, and the working copy of θ with them."""

    def move_predictors(self, mu: float) -> None:
        """The centres p0 go to where the predictor is."""

    def shared_gap(self) -> float:
        """The samples' part of the duality gap, as the last visits saw it."""

    def predictor_gap(self) -> float:
        """The part of it that predictors give away."""

    def shared_regret(self) -> float:
        """The part of the primal that is not the penalty, as the last visits saw it."""

    def moments(self, out: np.ndarray) -> None:
        """Into ``out``: G(q), recomputed."""

    def begin_at(self, theta: np.ndarray) -> None:
        """Begin where these weights put the adversaries."""

    def rebased(self, problem: Problem) -> None:
        """Go on with another distribution in the truth's place."""

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
    def likelihood(self) -> Likelihood | RelaxedLikelihood:
        return RelaxedLikelihood(self.problem) if self.problem.relaxed else Likelihood(self.problem)

    def rebase(self, problem: Problem) -> None:
        """Go on with another distribution in the truth's place."""
        self.given, self.problem = problem, self.tuning.scales.scaled(problem)
        self.__dict__.pop("likelihood", None)
        if "dual" in self.__dict__:
            self.dual.rebased(self.problem)

    def order(self, number: int, spec: PassSpec) -> np.ndarray:
        """The samples to visit; their order depends on the seed, the pass and the shard alone."""
        rng = np.random.default_rng([spec.seed, spec.number, number])
        order = rng.permutation(len(self.dual.gap))[spec.part :: spec.parts]
        if spec.skip_below > -np.inf:
            order = order[self.dual.gap[order] >= spec.skip_below]
        return order

    def mark_columns(self, order: np.ndarray, marks: np.ndarray) -> None:
        """Mark the columns of the nodes' features that some samples have."""
        design = self.problem.design
        if isinstance(design.nodes, SparseRows):
            x = design.nodes
            features = Rows(x.indptr, x.indices, x.data)
            mark_columns(order, design.batch.node_offsets, features, marks)
        else:
            marks[:] = True


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
        """Reset the dual variables and use other settings."""
        self.tuning = tuning
        self.shards = {n: ShardState(shard.given, tuning) for n, shard in self.shards.items()}

    @property
    def fills_in(self) -> bool:
        """Whether some labels are filled in by the model."""
        partial = [shard.given.partial for shard in self.shards.values()]
        return any(one is not None and one.fills_in for one in partial)

    @property
    def conjugate(self) -> float:
        """V*(μ) of the labels filled in; with the primal, the value that training lowers."""
        partial = [shard.given.partial for shard in self.shards.values()]
        return sum(one.conjugate for one in partial if one is not None)

    def surplus_score(self, theta: np.ndarray) -> float:
        """See `Problem.surplus_score`; of all shards."""
        return sum(shard.given.surplus_score(theta) for shard in self.shards.values())

    def begin_at(self, theta: np.ndarray) -> None:
        """Let adversaries begin where these weights put them, if they can begin anywhere."""
        for shard in self.shards.values():
            if self.tuning.natural:
                shard.dual.begin_at(theta)

    def fill_in(self, theta: np.ndarray) -> None:
        """Fill labels in under these weights; adversaries stay where they are."""
        self.rebase({n: filled(shard.given, theta) for n, shard in self.shards.items()})

    def rebase(self, problems: Mapping[int, Problem]) -> None:
        """Go on with other distributions in the truth's place; adversaries stay where they are."""
        for number, problem in problems.items():
            self.shards[number].rebase(problem)

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

    def column_counts(self) -> np.ndarray:
        """(d,) how many nodes have each feature."""
        counts = np.zeros(self.first.problem.design.nodes.shape[1])
        for shard in self.shards.values():
            nodes = shard.problem.design.nodes
            if isinstance(nodes, SparseRows):
                counts += np.diff(nodes.column_offsets)
            else:
                counts += np.count_nonzero(nodes, axis=0)
        return counts

    def changes(
        self, theta: np.ndarray, spec: PassSpec, pace: np.ndarray
    ) -> tuple[PassStats, np.ndarray, np.ndarray]:
        """What `round` would do, with each row of θ taken to move ``pace`` times as far.

        Returns what visits saw, entries of θ and their changes, which are not multiplied; θ is as
        before. A row is as long as there are labels, and only those that visits change are looked
        at: of all weights they are few. ``pace`` is (rows,), or (1,) where it is the same for all.
        """
        problem = self.first.problem
        by_row, n_columns = theta.reshape(-1, problem.n_labels), problem.design.nodes.shape[1]
        edges = np.arange(n_columns, len(by_row))
        of_edges = by_row[edges]
        if len(pace) == 1:  # then the steps of all are so much longer
            spec = replace(spec, penalty=spec.penalty / pace[0])
        if self.tuning.natural:  # visits change a copy of θ, and all rows that they ask for
            marks = np.zeros(n_columns, np.bool_)
            for number, shard in self.shards.items():
                shard.mark_columns(shard.order(number, spec), marks)
            rows = np.flatnonzero(marks)
            kept, place = by_row[rows], np.arange(len(rows))
            seen = self.round(theta, spec, np.concatenate([rows, edges]))
        else:
            with self._keeping(pace) as found:
                seen = self.round(theta, spec)
            rows = np.flatnonzero(found.place >= 0)
            kept, place = found.values, found.place[rows]
        nodes = _taken(by_row, rows, kept, place, pace)
        edge = _taken(by_row, edges, of_edges, np.arange(len(edges)), pace)
        index, value = (np.concatenate(both) for both in zip(nodes, edge, strict=True))
        return seen, index, value

    @contextmanager
    def _keeping(self, pace: np.ndarray) -> Iterator[KeptRows]:
        """Have visits keep the rows that they change, and move them at a pace, meanwhile."""
        self._kept.place[:] = -1
        self._kept.count[:] = 0
        # Only natural variables are others, and they change a copy of θ.
        changing = [cast(DualVariables, shard.dual) for shard in self.shards.values()]
        for dual in changing:
            dual.kept = self._kept
            dual.pace = pace if len(pace) > 1 else None
        try:
            yield self._kept
        finally:
            for dual in changing:
                dual.kept = dual.pace = None

    @cached_property
    def _kept(self) -> KeptRows:
        """For all shards, as they change the same θ."""
        problem = self.first.problem
        return KeptRows.none(problem.design.nodes.shape[1], problem.n_labels)

    def round(
        self,
        theta: np.ndarray,
        spec: PassSpec,
        rows: np.ndarray | None = None,
    ) -> PassStats:
        """Visit every sample that is not skipped; θ moves in place, in ``rows`` if given."""
        weights = self.first.dual.working(theta, rows)
        for number, some in self._visits(spec):
            shard = self.shards[number]
            shard.dual.visit(shard.order(number, some), weights, some)
        self.first.dual.put_back(weights, theta, rows)
        dual = [shard.dual for shard in self.shards.values()]
        return PassStats(
            sum(b.shared_gap() for b in dual),
            float(sum(b.gap.sum() for b in dual)),
            sum(b.shared_regret() for b in dual),
            sum(b.predictor_gap() for b in dual),
        )

    def _visits(self, spec: PassSpec) -> list[tuple[int, PassSpec]]:
        """Which shard is visited when; several are in several parts each.

        Samples of one shard visited in a row, and always in the same place of a pass, would draw
        the centres to and fro without end.
        """
        if len(self.shards) == 1:
            return [(number, spec) for number in self.shards]
        rng = np.random.default_rng([spec.seed, spec.number, spec.part])
        return [
            (number, replace(spec, part=spec.part + spec.parts * part, parts=spec.parts * PARTS))
            for part in range(PARTS)
            for number in rng.permutation(list(self.shards))
        ]

    def follow(self, theta: np.ndarray, centre: np.ndarray, spec: CentreUpdate) -> None:
        """All centres follow, and θ with them."""
        for shard in self.shards.values():
            shard.dual.move_predictors(spec.mu)
        scales, settings = self.tuning.scales, (spec.alpha, spec.kappa, spec.new_kappa)
        k, n_jobs = self.first.problem.n_labels, self.first.problem.n_jobs

        def move(some: slice) -> None:
            rows = slice(some.start // k, some.stop // k)
            own = scales.squares if scales.trivial else scales.squares[rows]
            part = slice(rows.start * k, rows.stop * k)
            follow_centre(theta[part], centre[part], own, *settings)

        over_ranges(move, len(theta), n_jobs)

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
        regret = gain = 0.0
        for shard in self.shards.values():
            regret += shard.dual.regret(theta)
            gain += shard.dual.gain()
        return regret, gain

    def plain_bounds(self, theta: np.ndarray) -> tuple[float, float]:
        """The same with the adversary at the truth."""
        regret = gain = 0.0
        for shard in self.shards.values():
            regret += shard.dual.regret(theta)
            gain += shard.problem.gain(shard.problem.truth)
        return regret, gain

    def likelihood(
        self, theta: np.ndarray, slack: float = 0.0, anew: bool = False
    ) -> tuple[float, np.ndarray, float]:
        """(regret at θ, its gradient, lower regret)."""
        regret, gradient, least = self.first.likelihood(theta, slack, anew)
        for shard in list(self.shards.values())[1:]:
            value, slope, low = shard.likelihood(theta, slack, anew)
            regret += value
            gradient += slope
            least += low
        return regret, gradient, least

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

    def restore(self, state: dict[str, np.ndarray]) -> bool:
        """Go on from an earlier `state`, unless it is empty."""
        if not state:
            return False
        for number, shard in self.shards.items():
            shard.dual.restore(inside(str(number), state))
        return True


def _taken(
    theta: np.ndarray, rows: np.ndarray, kept: np.ndarray, place: np.ndarray, pace: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Entries of rows of θ that have changed, and their changes over their pace; undoes these."""
    most = len(rows) * theta.shape[1]
    index = np.empty(most, np.int32 if theta.size < 2**31 else np.int64)
    value = np.empty(most, np.float32)
    own = pace[rows] if len(pace) > 1 else np.broadcast_to(pace, len(rows)).copy()
    count = take_changes(theta, rows, kept, place, own, index, value)
    return index[:count], value[:count]
