"""The contract of optimizers, also of those that users write.

An `Optimizer` gets a `Task`. It asks the task's shards for sums over samples, wherever these are
(optimizers/shards.py), and reports bounds to ``task.progress`` (optimizers/certificates.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from robustruct.optimizers.certificates import Progress
from robustruct.optimizers.shards import SamplesOutline, Shards


@dataclass(eq=False)
class Task:
    """What a fit asks of an optimizer."""

    shards: Shards
    progress: Progress
    max_iter: int
    seed: int
    start: np.ndarray | None = None
    """Weights to begin with. If ``progress`` has certificates already, an earlier attempt has made
    them: passes are numbered from ``progress.n_iter`` on."""
    earlier: Any = None
    """What the optimizer of an earlier fit has left in ``kept``, for a warm start."""
    kept: Any = None
    """What this one leaves for a later fit."""


class Optimizer(ABC):
    """How an objective is minimised. Options are fields of the optimizer, the task is data."""

    name: ClassVar[str]
    objectives: ClassVar[frozenset[str]]
    """Which objectives it takes: "game" (AGM), "hinge" (SSVM), "likelihood" (CRF)."""
    takes_l1: ClassVar[bool] = False
    takes_partial: ClassVar[bool] = False
    """Whether it takes labels that are known in part: moments then are those of `Problem.truth`,
    not of ``labels``."""
    """Whether it takes a penalty on absolute weights too."""

    def refusal(self, shards: SamplesOutline) -> str | None:
        """Why it cannot take these samples, as the end of a sentence; None if it can."""
        return None

    @abstractmethod
    def minimise(self, task: Task) -> None:
        """Passes over the samples until the tolerance is met or ``max_iter`` is reached.

        Certificates go to ``task.progress``.
        """
