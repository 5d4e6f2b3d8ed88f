"""The structured support vector machine."""

from __future__ import annotations

from robustruct.models.base import StructuredModel


class SSVM(StructuredModel):
    """Structured support vector machine with margin rescaling by any cost matrix.

    The structured hinge loss is the AGM's game with the predictor held at the truth, so both share
    the optimizer and its certificate; with a ``temperature`` it becomes the softmax margin.
    Parameters and attributes as for `AGM`, but for ``optimizer="subgradient"``.
    """

    objective = "hinge"
