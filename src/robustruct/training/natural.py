"""Dual ascent in natural parameters: training of the smooth objectives (training/smooth.py).

The dual is maximised over one Gibbs distribution a sample; kernels/natural.py says how it moves.
The centres of the predictors and of the weights follow once a pass, as for T = 0
(training/pairwise.py), and so does the certificate.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from robustruct.training.pairwise import PairwiseAscent
from robustruct.training.site import Site, Sites
from robustruct.training.smooth import SmoothObjective, padded
from robustruct.training.tuning import Density

COLDEST = 1e-4
"""Temperatures below, in units of a mean mistake, are trained as 0."""


class NaturalAscent(PairwiseAscent):
    """Both centres and the weights that the Gibbs distributions of all samples imply.

    Visits see the gap before the weights have moved on: with all samples revisited in every pass
    the certified gap is about half of it, so no certificate is needed to know when to make one.
    """

    first_check = 20
    first_optimism = 0.6


class ColdAscent(PairwiseAscent):
    """For a temperature so small that T times any entropy is within the tolerance.

    Then the ascent for T = 0 does, with the primal for T; its dual is a bound for T as well, as the
    entropy that it leaves out is not negative.
    """

    def __init__(self, site: Site, *, centre: np.ndarray | None = None) -> None:
        smooth = {number: shard.problem for number, shard in site.shards.items()}
        cold = {number: replace(problem, temperature=0.0) for number, problem in smooth.items()}
        tuning = Density.of_all(map(Density.of, cold.values())).tuning()
        self.cold = Site(cold, tuning)
        self.objectives = {number: SmoothObjective(problem) for number, problem in smooth.items()}
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
        for number, objective in self.objectives.items():
            p0 = padded(self.cold.shards[number].blocks.p0, 0.0)
            regret += objective.regret(self.theta, p0)
        return regret + self._penalty(self.theta)


def natural_ascent(sites: Sites, centre: np.ndarray | None = None) -> PairwiseAscent:
    """The ascent for the temperature that the samples' problems have."""
    if isinstance(sites, Site):
        problem = sites.first.problem
        if problem.cost.any() and problem.temperature < COLDEST * problem.cost_scale:
            return ColdAscent(sites, centre=centre)
    return NaturalAscent(sites, centre=centre)
