"""Status of a solved game or a fit."""

from __future__ import annotations

from enum import Enum


class Status(Enum):
    """How a solver or a fit ended; each value says what happened, then what to do."""

    CONVERGED = "The certified gap is within the tolerance."
    LOCAL_OPTIMUM = (
        "Labels that are known in part were filled in until the objective stopped falling: the "
        "certified gap is that of the last convex step, and the whole is a local optimum."
    )
    MAX_ITER = (
        "The iterations ran out before the gap closed. Raise max_iter or tol; for a game, use "
        "solver='auto'."
    )
    MAX_TIME = (
        "The time was up before the gap closed. Raise max_time or tol, or use a larger alpha, "
        "which converges faster."
    )
    STALLED = (
        "Progress ended before the gap closed; the bounds are still valid. Raise tol, use a larger "
        "alpha, or rescale features or scores that dwarf the costs."
    )
    INTERRUPTED = (
        "Training was interrupted; the best model so far is kept. Fit again with warm_start=True "
        "to go on from its weights, or with a Checkpoint to lose nothing."
    )
    STOPPED_EARLY = (
        "The loss on the validation samples stopped falling; the weights that did best on them are "
        "kept."
    )

    @property
    def remedy(self) -> str:
        """The sentences that say what to do; "" if there is nothing."""
        return self.value.partition(". ")[2]
