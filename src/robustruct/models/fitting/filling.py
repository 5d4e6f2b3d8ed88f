"""Training with labels that are filled in: fill in, fit, and again (objectives/partial.py)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from robustruct.objectives.partial import known_only
from robustruct.optimizers.certificates import Progress
from robustruct.optimizers.local_shards import LocalShards
from robustruct.optimizers.tuning import Density

MOST_ROUNDS = 50
LOOSE = 5.0  # times the tolerance: to this gap rounds are trained, but for the last one
SETTLED = 3.0
"""Times the tolerance: when a round lowers the objective by less, the last one follows. More rounds
lower it by a few per cent and take as long as all before."""
FIRST_TOL = 0.05  # of what labels are first filled in by: it is only a start


def first_weights(
    shards: LocalShards, tol: float, minimise: Callable[[LocalShards, Progress], None]
) -> np.ndarray:
    """Train on the nodes whose labels are known, cut out of their samples.

    From labels that are all alike at first, filling in takes many times as many rounds, and at
    T = 0 they hold the weights down for good.
    """
    known = {number: known_only(shard.given) for number, shard in shards.shards.items()}
    tuning = Density.of_all(map(Density.of, known.values())).tuning()
    pieces = LocalShards(known, tuning)
    progress = Progress(pieces.outline, max(tol, FIRST_TOL))
    minimise(pieces, progress)
    return progress.theta


def fill_in(
    shards: LocalShards,
    progress: Progress,
    tol: float,
    minimise: Callable[[LocalShards, Progress, np.ndarray], None],
) -> list[float]:
    """Fill labels in under the weights of ``progress`` and train on, until the value rests.

    When a round hardly lowers it, the last one follows, which is trained to a gap of ``tol``.
    ``minimise`` trains from some weights and reports to the progress it is given; ``progress`` in
    the end is that of the last round. Return the value after each round; it never rises.
    """
    values, last = [progress.primal + shards.conjugate], False
    while not (last or progress.interrupted or progress.stopped or progress.out_of_time):
        fall = values[-2] - values[-1] if len(values) > 1 else np.inf
        last = fall <= SETTLED * tol * progress.scale(progress.primal) or len(values) >= MOST_ROUNDS
        theta, earlier = progress.theta, shards.local_problems
        primal = progress.primal + shards.surplus_score(theta)
        shards.fill_in(theta)
        if primal - shards.surplus_score(theta) + shards.conjugate > values[-1]:
            # Games are solved to a tolerance: within it, what was filled in was the best already.
            shards.rebase(earlier)
            last = True
        primal -= shards.surplus_score(theta)
        later = progress.next_round(shards.outline, tol if last else progress.tol)
        minimise(shards, later, theta)
        if later.primal > primal:  # within the tolerance, these weights were the best already
            later.primal, later.theta = primal, theta
        progress.__dict__.update(later.__dict__)
        values.append(progress.primal + shards.conjugate)
    progress.tol = tol
    return values
