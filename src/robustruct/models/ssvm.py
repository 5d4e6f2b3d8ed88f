"""The structured support vector machine."""

from __future__ import annotations

import numpy as np

from robustruct.models.agm import train_natural, train_pairwise
from robustruct.models.base import StructuredModel
from robustruct.training.fit import Progress
from robustruct.training.site import Sites


class SSVM(StructuredModel):
    """Structured support vector machine with margin rescaling by any cost matrix.

    The structured hinge loss is the AGM's game with the predictor held at the truth, so both share
    the optimizer and its certificate; with a ``temperature`` it becomes the softmax margin.
    Parameters and attributes as for `AGM`, but for ``optimizer="subgradient"``.
    """

    def _problem_cost(self, cost: np.ndarray) -> tuple[np.ndarray, bool]:
        # The hinge prices predicting b where y is true; the game, p where the adversary plays b.
        return np.ascontiguousarray(cost.T), True

    def _minimise(
        self, sites: Sites, progress: Progress, start: np.ndarray | None, seed: int
    ) -> None:
        natural = self._chosen_optimizer(sites) == "natural"
        (train_natural if natural else train_pairwise)(self, sites, progress, start, seed)
