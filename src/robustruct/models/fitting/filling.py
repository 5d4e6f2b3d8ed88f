"""Training with labels that are filled in: fill in, fit, and again (objectives/partial.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from robustruct.objectives.partial import filled
from robustruct.optimizers.local_shards import LocalShards
from robustruct.optimizers.natural_ascent import NaturalAscent
from robustruct.optimizers.optimizer import Progress, Task
from robustruct.optimizers.tuning import tuning_for

MOST_ROUNDS = 30
FALL = 0.5
"""Rounds end when the objective falls by less than this part of the tolerance: what is still to be
gained is then about what the certificate leaves open anyway."""


FIRST_TOL, FIRST_PASSES = 0.1, 20


def first_weights(shards: LocalShards, seed: int) -> np.ndarray | None:
    """Return the weights under which labels are first filled in; None: all are alike at first.

    At T = 0 labels that are all alike hold weights down to next to nothing, and the labels that
    these fill in say nothing. With the log loss beside the cost they do not, so training comes
    from there.
    """
    first = shards.first.given
    if first.temperature > 0.0:
        return None
    warm = {
        number: filled(replace(shard.given, temperature=shard.given.cost_scale))
        for number, shard in shards.shards.items()
    }
    smooth = LocalShards(warm, tuning_for(next(iter(warm.values()))))
    progress = Progress(smooth.outline, FIRST_TOL)
    NaturalAscent().minimise(Task(smooth, progress, FIRST_PASSES, seed))
    return progress.theta


def fill_in(
    shards: LocalShards,
    progress: Progress,
    minimise: Callable[[Progress, np.ndarray], None],
) -> list[float]:
    """Fill labels in under the weights of ``progress`` and train on, until the value rests.

    ``minimise`` trains from some weights and reports to the progress it is given. ``progress`` in
    the end is that of the last round. Return the value after each round; it never rises.
    """
    values = [progress.primal + shards.conjugate]
    while len(values) < MOST_ROUNDS and not (
        progress.interrupted or progress.stopped or progress.out_of_time
    ):
        theta, before = progress.theta, shards.surplus_score(progress.theta)
        shards.fill_in(theta)
        primal = progress.primal + before - shards.surplus_score(theta)
        later = progress.next_round(shards.outline)
        minimise(later, theta)
        if later.primal > primal:  # within the tolerance, these weights were the best already
            later.primal, later.theta = primal, theta
        progress.__dict__.update(later.__dict__)
        values.append(progress.primal + shards.conjugate)
        if values[-2] - values[-1] <= FALL * progress.tol * progress.scale(progress.primal):
            break
    return values
