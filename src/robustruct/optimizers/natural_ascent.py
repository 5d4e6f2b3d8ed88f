"""Dual ascent in natural parameters: training of the smooth objectives (objectives/smooth.py).

The dual is maximised over one Gibbs distribution a sample; core/smooth.c says how it moves.
The centres of the predictors and of the weights follow once a pass, as for T = 0
(optimizers/dual_ascent.py), and so does the certificate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from robustruct.core.vectors import penalty
from robustruct.objectives.adversarial import Problem
from robustruct.objectives.smooth import SmoothObjective, padded
from robustruct.optimizers.dual_ascent import CentredAscent, fit_ascent
from robustruct.optimizers.dual_variables import DualVariables
from robustruct.optimizers.lbfgs import fit_likelihood
from robustruct.optimizers.local_shards import LocalShards
from robustruct.optimizers.optimizer import Optimizer, Task
from robustruct.optimizers.shards import SamplesOutline, Shards
from robustruct.optimizers.tuning import COLDEST, SMOOTH, Density

GIBBS_PULL = 2.0  # kappa / alpha at the start: 1.5 to 3 are alike, 2 is a pass ahead of 3 at times
LEAST_FALL = 0.5
"""Part of a likelihood's gap that must be gone when passes have doubled; else L-BFGS takes over."""


class GibbsAscent(CentredAscent):
    """Both centres and the weights that the Gibbs distributions of all samples imply.

    Visits see the gap before the weights have moved on: with all samples revisited in every pass
    the certified gap is about half of it, so no certificate is needed to know when to make one.
    """

    first_check = 20
    first_optimism = 0.45


class ColdAscent(CentredAscent):
    """For a temperature so small that T times any entropy is within the tolerance.

    Then the ascent for T = 0 does, with the primal for T; its dual is a bound for T as well, as the
    entropy that it leaves out is not negative.
    """

    def __init__(
        self, problems: Mapping[int, Problem], *, centre: np.ndarray | None = None
    ) -> None:
        cold = {number: replace(problem, temperature=0.0) for number, problem in problems.items()}
        tuning = Density.of_all(map(Density.of, cold.values())).tuning()
        self.cold = LocalShards(cold, tuning)
        self.smooth = {number: SmoothObjective(problem) for number, problem in problems.items()}
        super().__init__(self.cold, centre=centre)

    def bounds(self) -> tuple[float, float]:
        """(primal for T at θ and p0, dual for T = 0 at q), both recomputed."""
        _, dual = super().bounds()
        return self._primal(), dual

    def plain_bounds(self) -> tuple[float, float]:
        """The same with the adversary at the truth."""
        _, dual = super().plain_bounds()
        return self._primal(), dual

    def _primal(self) -> float:
        regret = 0.0
        for number, objective in self.smooth.items():
            dual = self.cold.shards[number].dual
            assert isinstance(dual, DualVariables)
            regret += objective.regret(self.weights, padded(dual.p0, 0.0))
        return regret + penalty(self.theta, self.squares, self.alpha)


def smooth_ascent(shards: Shards, centre: np.ndarray | None = None) -> CentredAscent:
    """The ascent for the temperature that the samples' problems have."""
    problems = shards.local_problems
    if problems is not None:
        first = next(iter(problems.values()))
        if first.cost.any() and first.temperature < COLDEST * first.cost_scale:
            return ColdAscent(problems, centre=centre)
    pull = GIBBS_PULL * shards.outline.alpha
    if not shards.tuning.natural:  # else labels were filled in since adversaries were trained
        shards.retune(replace(SMOOTH, scales=shards.tuning.scales, pull=pull))
        if centre is not None and any(one.partial for one in (problems or {}).values()):
            assert isinstance(shards, LocalShards)
            shards.begin_at(shards.tuning.scales.divided(centre))
    return GibbsAscent(shards, centre=centre)


@dataclass(frozen=True)
class NaturalAscent(Optimizer):
    """Ascends the dual of a smooth objective sample by sample, with a certificate.

    What "auto" is for temperatures above 0, and for the CRF where features are sparse. Where many
    nodes share features under a weak penalty the gap stops falling; L-BFGS then takes a likelihood
    over.
    """

    name: ClassVar[str] = "natural_ascent"
    objectives: ClassVar[frozenset[str]] = frozenset({"game", "hinge", "likelihood"})
    takes_partial: ClassVar[bool] = True

    def refusal(self, shards: SamplesOutline) -> str | None:
        """Relaxed games have no single Gibbs distribution."""
        local = shards.local_problem
        if local is None or not local.relaxed:
            return None
        return "natural ascent needs exact inference"

    def minimise(self, task: Task) -> None:
        """See `fit_ascent`."""
        outline, progress = task.shards.outline, task.progress
        if outline.untrained <= outline.unavoidable:  # one label: weights of 0 cannot be improved
            zeros = np.zeros(outline.n_weights)
            progress.report(0, zeros, outline.untrained, outline.unavoidable)
            return
        tuning = task.shards.tuning
        ascent = smooth_ascent(task.shards, task.start)
        # A checkpoint holds the state of one optimizer, so with checkpoints this one goes on.
        gives_way = not outline.priced and progress.keeper is None
        progress.least_fall = LEAST_FALL if gives_way else 0.0
        fit_ascent(ascent, progress, task.max_iter, task.seed)
        stalled, progress.least_fall, progress.stalled = progress.stalled, 0.0, False
        if stalled and not progress.finished:
            task.shards.retune(tuning)
            fit_likelihood(task.shards, progress, task.max_iter, progress.theta, ascent.n_passes)
