"""The structured support vector machine."""

from __future__ import annotations

import numpy as np

from robustruct.models.agm import train_pairwise
from robustruct.models.base import StructuredModel
from robustruct.optimizers.optimizer import Progress, Sites


class SSVM(StructuredModel):
    """Structured support vector machine with margin rescaling by any cost matrix.

    The structured hinge loss is the AGM's game with the predictor held at the truth, so both share
    the optimizer and its certificate. Parameters and attributes as for `AGM`.
    """

    truth_is_predictor = True

    def _minimise(
        self, sites: Sites, progress: Progress, start: np.ndarray | None, seed: int
    ) -> None:
        train_pairwise(self, sites, progress, start, seed)
