"""Doubly proximal block-coordinate ascent with pairwise steps: training at the price of an SSVM.

The dual is maximised over the adversary's marginals q_s, one sample at a time; core/ascent.c says
how a sample moves. Two centres follow once a pass, as in the method of multipliers:

* p0, the predictor's: p = Proj(p0 − L r / mu), so that the dual is smooth although a game is not;
* z, the weights': the objective gets (kappa/2)|θ − z|² more, so that a small alpha is no harder
  than a large one. Then θ = (G(q) + kappa z) / (alpha + kappa), with the moments
  G(q) = Σ_s share_s (Φ_s(y_s) − Φ_s(q_s)).

With p0 and z where they are, the duality gap falls into two parts that are known at every moment:

    primal(θ, p) − dual(q)  =  Σ_s share_s gap_s  +  kappa²/(2 alpha) |θ − z|²

kappa is steered to keep the second part a fixed, small share of the first.

Where columns of features are scaled (optimizers/tuning.py) all of this is about θ / s: the penalty
on a weight is then alpha s², and its centre has what is missing to alpha + kappa. Where the penalty
is weak for what moments are, adversaries are mixed (optimizers/mixed_bounds.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from typing import ClassVar

import numpy as np

from robustruct.core.vectors import (
    centre_gap,
    moments_from_weights,
    penalty,
    weights_from_moments,
)
from robustruct.objectives.adversarial import Problem
from robustruct.optimizers.certificates import Progress, inside
from robustruct.optimizers.mixed_bounds import MOST, MixedBounds
from robustruct.optimizers.optimizer import Optimizer, Task
from robustruct.optimizers.shards import CentreUpdate, PassSpec, PassStats, Shards
from robustruct.optimizers.tuning import PULL

RISE, FALL = 1.2, 1.02  # by how much kappa changes in a pass; fast falls make the end unsteady
FULL_PASS_EVERY = 5  # passes: skipped samples are seen again before their gaps are far off
MU_STEP, LEAST_MU = 2.0, 0.01  # by how much mu changes in a pass at first; how far it may fall
LITTLE, MUCH = 0.1, 3.0
"""Times the adversaries' gap: predictors that give away less may follow more slowly, and must
follow faster if they give away more."""
REST = 3  # passes between moves of the centres while predictors must hurry, at temperature 0
WEAK_PENALTY = (
    "Raise max_iter or tol, or use a larger alpha or smaller features: the penalty is weak for "
    "features of this size, and a stronger one converges faster."
)
TOO_COLD = (
    "Relaxed games without an entropy are slow on large graphs: use temperature=1, which trains by "
    "L-BFGS on the same graphs, or raise max_iter or tol, or use a larger alpha."
)
MOST_STEPS = 16  # in a visit, once the gap has stopped falling with fewer
FIRST_MIXED = 40  # the first pass whose adversary may be mixed with others: earlier ones say little

# Of an ascent, what checkpoints keep beside its arrays.
SCALARS = (
    "kappa",
    "n_passes",
    "last_fall",
    "least_gap",
    "eagerness",
    "next_check",
    "optimism",
    "inner",
    "mu",
    "mu_step",
)


class CentredAscent:
    """Both centres and the weights that the dual variables of all samples imply."""

    first_check = FULL_PASS_EVERY
    """The pass after which the first certificate is made."""
    first_optimism: float | None = None
    """What to multiply the gap that visits see with, before a certificate tells; None: wait."""
    mixes = True
    """Whether lower bounds may come from mixtures of adversaries."""

    def __init__(self, shards: Shards, *, centre: np.ndarray | None = None) -> None:
        self.shards, self.outline = shards, shards.outline
        self.alpha = self.outline.alpha
        self.scales = shards.tuning.scales
        self.squares = self.scales.squares
        self.kappa = shards.tuning.pull
        self.n_passes, self.last_fall, self.least_gap, self.eagerness = 0, 0, np.inf, 1.0
        self.next_check, self.optimism = 0, self.first_optimism or 1.0
        # mu begins as large as it gets, so the first step is downwards.
        self.inner, self.mu, self.mu_step = shards.tuning.inner, 1.0, 1.0 / MU_STEP
        self.seen = PassStats(np.inf, np.inf)
        self._outer: float | None = None
        """The centre's part of the gap, once it is known."""
        self.following = False
        """Whether θ is being recomputed."""
        self.centre = np.zeros(self.outline.n_weights)
        self.theta = np.zeros(self.outline.n_weights)
        self.mixed = self._mixed_bounds()
        if centre is not None:
            self.centre[:] = self.scales.divided(centre)
        if any(one.partial for one in (shards.local_problems or {}).values()):
            self._place()
        elif centre is not None:
            self._settle()

    def _place(self) -> None:
        """Begin at the weights in ``centre`` whatever the moments are, which need not be 0.

        Adversaries cannot begin at every distribution that takes the truth's place, and after it
        has been filled in they are where they were. The centre makes up for their moments.
        """
        start, scale = self.centre.copy(), self.alpha + self.kappa
        self.shards.moments(self.theta)
        left = np.repeat(scale - self.alpha * self.squares, len(start) // len(self.squares))
        self.centre[:] = (scale * start - self.theta) / left
        self.theta[:] = start

    def _mixed_bounds(self) -> MixedBounds:
        outline = self.outline
        return MixedBounds(self.squares, self.alpha, outline.unavoidable, outline.n_weights)

    def run_pass(self, seed: int) -> None:
        """Visit the samples once; those with a small gap may be skipped."""
        number = self.n_passes + 1
        spec = PassSpec(number, seed, self.alpha + self.kappa, self.inner, mu=self.mu)
        if number % FULL_PASS_EVERY and self.has_seen:
            mean = self.seen.total_gap / self.outline.n_samples
            spec = replace(spec, skip_below=self.shards.tuning.skip * mean)
        self._outer = None
        self.seen = self.shards.round(self.theta, spec)

    @property
    def has_seen(self) -> bool:
        """Whether the samples' gaps are known: not before the first pass over them."""
        return self.seen.gap < np.inf

    def gap_parts(self) -> tuple[float, float]:
        """(of the samples, of the centre): what the last visits say about the duality gap."""
        if self._outer is None:
            self._outer = centre_gap(self.theta, self.centre, self.squares, self.alpha, self.kappa)
        return self.seen.gap, self._outer

    def primal_estimate(self) -> float:
        """What the last visits say about the primal; infinite where they do not know."""
        if self.seen.regret == np.inf:
            return np.inf
        return self.seen.regret + penalty(self.theta, self.squares, self.alpha)

    def move_centres(self) -> None:
        """Both centres follow; kappa is steered by the balance of the two parts of the gap."""
        kappa = self._steered(*self.gap_parts())
        update = CentreUpdate(self.alpha, self.kappa, kappa, self.mu)
        self.shards.follow(self.theta, self.centre, update)
        self.kappa, self.mu, self._outer = kappa, self._steered_mu(), None

    @property
    def centres_rest(self) -> bool:
        """Whether they stay for a pass: else quick predictors and adversaries go round in circles.

        At temperature 0 adversaries move in small steps.
        """
        return self.mu < 1.0 and self.shards.tuning.sparse and self.n_passes % REST > 0

    def _steered_mu(self) -> float:
        """The next mu, given what predictors and adversaries give away.

        mu is in units of the dearest mistakes. Where most are far cheaper, predictors that are held
        so strongly follow too slowly, and give away more than the adversaries do. Every time that
        mu turns its steps become smaller: in the end it rests.
        """
        tuning = self.shards.tuning
        adversaries = self.seen.gap - self.seen.predictor_gap
        hurry = self.seen.predictor_gap > MUCH * adversaries
        if not (hurry or self.seen.predictor_gap < LITTLE * adversaries):
            return self.mu
        if not (tuning.sparse or tuning.natural) or (self.mu == 1.0 and not hurry):
            return self.mu
        if hurry != (self.mu_step < 1.0):  # it turns: the square root of the last factor, inverted
            self.mu_step = self.mu_step**-0.5
        return min(max(self.mu * self.mu_step, LEAST_MU), 1.0)

    def _steered(self, samples: float, outer: float) -> float:
        """The next kappa, given the two parts of the gap.

        A large kappa leaves the predictor and the adversary alone with each other, and these then
        go round in circles. So when the gap stops falling although visits are many steps, kappa is
        halved, and from then on steered more gently: in the end it rests, and with kappa at rest
        the gap closes.
        """
        if samples < 0.9 * self.least_gap:  # a tenth less: noise is no fall
            self.least_gap, self.last_fall = samples, self.n_passes
        elif self.n_passes - self.last_fall > max(8, 0.1 * self.n_passes):
            self.least_gap, self.last_fall = samples, self.n_passes
            if self.inner < MOST_STEPS:
                # More steps in a visit come first; kappa is halved when they have not helped.
                self.inner = min(4 * self.inner, MOST_STEPS)
                return self.kappa
            self.eagerness /= 2
            return max(self.kappa / 2, min(self.kappa, self.shards.tuning.pull))
        # Within a factor of two of what is wanted kappa stays: each change disturbs the weights.
        wanted = self.shards.tuning.balance * samples
        if outer > 2 * wanted:
            return self.kappa / FALL**self.eagerness
        if outer < wanted / 2:
            return self.kappa * RISE**self.eagerness
        return self.kappa

    @property
    def weights(self) -> np.ndarray:
        """What has been learnt so far."""
        return self.scales.unscaled(self.theta)

    def moments(self) -> np.ndarray:
        """G(q), as tracked by the steps taken."""
        found, settings = np.empty_like(self.theta), (self.squares, self.alpha, self.kappa)
        moments_from_weights(self.theta, self.centre, *settings, found)
        return found

    def follow(self) -> float:
        """θ from G(q), recomputed, and the centre; return the dual's penalty, |G(q)|² / 2 alpha."""
        self.following, self._outer = True, None
        self.shards.moments(self.theta)
        held_down = self._settle()
        self.following = False
        return held_down

    def _settle(self) -> float:
        """θ holds G(q) and becomes the weights; return the dual's penalty."""
        return weights_from_moments(self.theta, self.centre, self.squares, self.alpha, self.kappa)

    def state(self) -> dict[str, np.ndarray]:
        """All that the passes to come depend on; `restore` takes it back."""
        return {
            "theta": self.theta,
            "centre": self.centre,
            "seen": np.array(astuple(self.seen)),
            **{name: np.array(getattr(self, name)) for name in SCALARS},
            "mixed_gains": self.mixed.gains,
            "mixed_moments": self.mixed.moments,
            "n_mixed": np.array(self.mixed.n_added),
            **{f"shards.{name}": value for name, value in self.shards.state().items()},
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from an earlier `state`.

        Where dual variables were not kept, they are as at the start, and θ follows them. The
        weights learnt are not lost, as they become the centre.
        """
        for name in SCALARS:
            setattr(self, name, state[name].item())
        self.theta[:], self.centre[:] = state["theta"], state["centre"]
        self.mixed.gains, self.mixed.moments = state["mixed_gains"], state["mixed_moments"]
        self.mixed.n_added = state["n_mixed"].item()
        self._outer = None
        self.seen = PassStats(*state["seen"].tolist())
        if self.shards.restore(inside("shards", state)):
            return
        self.seen = PassStats(np.inf, np.inf)
        self.least_gap, self.last_fall = np.inf, self.n_passes
        self.centre[:] = self.theta  # before θ follows the adversaries at the truth
        self.follow()

    def count_from(self, n_passes: int) -> None:
        """Number the passes from here on, as those before were lost but for their weights."""
        self.n_passes = self.last_fall = n_passes
        self.next_check = n_passes + self.first_check

    def plain_bounds(self) -> tuple[float, float]:
        """(primal at θ and p0, dual at the truth): valid even if a visit was interrupted.

        The adversaries q may then be half grown, and no kernel may read them. If it was θ that was
        half recomputed, they are whole.
        """
        if self.following:
            self.follow()
        regret, gain = self.shards.plain_bounds(self.theta)
        return regret + penalty(self.theta, self.squares, self.alpha), gain

    def bounds(self) -> tuple[float, float]:
        """(primal at θ and p0, dual at q or a mixture), recomputed from feasible points."""
        held_down = self.follow()
        regret, gain = self.shards.bounds(self.theta)
        primal = regret + penalty(self.theta, self.squares, self.alpha)
        return primal, self._dual(gain, held_down, self.moments)

    def _dual(self, gain: float, held_down: float, moments: Callable[[], np.ndarray]) -> float:
        """The dual at q; where q with more of the truth in it had a larger one, at a mixture."""
        plain = gain - held_down
        off = held_down > 0.75 * (gain - self.mixed.least)  # 0.5 is where it begins to pay
        begun = self.mixed.n_added > 0 or (off and self.n_passes + 1 >= FIRST_MIXED)
        if not (self.mixes and begun and np.isfinite(plain)):
            return plain
        self.mixed.add(gain, moments())
        return max(plain, self.mixed.best())


def fit_ascent(ascent: CentredAscent, progress: Progress, max_iter: int, seed: int) -> None:
    """Passes over the samples until the tolerance is met or ``max_iter`` is reached.

    Certificates cost two passes each: the first is made after the first pass that revisits every
    sample, later ones when the gap seen by the visits says that they should succeed, and else when
    the number of passes has doubled; one is always made after the last pass, and then none shortly
    before.
    """
    try:
        progress.resume(ascent)
        if progress.n_iter > ascent.n_passes:
            ascent.count_from(progress.n_iter)
        while ascent.n_passes < max_iter and not progress.finished:
            if ascent.has_seen and not ascent.centres_rest:
                ascent.move_centres()
            ascent.run_pass(seed)
            _end_pass(ascent, progress, max_iter)
            last = progress.finished or ascent.n_passes >= max_iter
            if last or progress.due(ascent.n_passes):
                progress.keep(ascent)
        if progress.n_iter < ascent.n_passes:
            # Resumed with a lower max_iter, or out of time: what is there has no certificate yet.
            progress.report(ascent.n_passes, ascent.weights, *ascent.bounds())
        if ascent.kappa > PULL * ascent.alpha:
            progress.advice = WEAK_PENALTY
    except KeyboardInterrupt:
        if ascent.n_passes and not progress.history:  # keep what whole passes have found
            progress.report(ascent.n_passes, ascent.weights, *ascent.plain_bounds())
        raise


def _end_pass(ascent: CentredAscent, progress: Progress, max_iter: int) -> None:
    """Count a pass, and make a certificate where one is due."""
    number = ascent.n_passes + 1
    estimate = sum(ascent.gap_parts())
    # Before a certificate the best primal is not known; any of these three is an upper estimate.
    scale = progress.scale(min(progress.primal, ascent.outline.untrained, ascent.primal_estimate()))
    progress.passed(number, ascent.optimism * estimate / scale)
    known = bool(progress.history) or ascent.first_optimism is not None
    promising = known and ascent.optimism * estimate <= progress.tol * scale
    if ascent.mixed.n_added:  # what mixtures prove does not follow the estimate from pass to pass
        promising = promising and number >= progress.n_iter + MOST
    next_check = ascent.next_check or progress.check_every or ascent.first_check
    # The last pass has a certificate anyway: one shortly before it would be for nothing.
    useful = ascent.mixed.wants_more or max_iter - number >= number
    due = number == next_check and (progress.check_every or useful)
    if promising or due or number == max_iter:
        bounds = ascent.bounds()
        later = max(next_check, number + min(number, progress.check_every or number))
        ascent.next_check = number + 1 if ascent.mixed.wants_more else later
        met = bounds[0] - bounds[1] <= progress.tol * progress.scale(bounds[0])  # no pass follows
        weights = ascent.weights
        # Weights that no pass will change, or that are a copy, need not be copied again.
        final = met or number == max_iter or weights is not ascent.theta
        progress.report(number, weights, *bounds, may_keep=final)
        ascent.optimism = (progress.primal - progress.dual) / max(estimate, 1e-300)
        if not ascent.mixed.n_added:  # visits see what the last adversary proves
            ascent.optimism = max(ascent.optimism, 0.5)
    ascent.n_passes = number


@dataclass(frozen=True)
class DualAscent(Optimizer):
    """Ascends the dual sample by sample, with a certificate; what "auto" is for AGM and SSVM."""

    name: ClassVar[str] = "dual_ascent"
    objectives: ClassVar[frozenset[str]] = frozenset({"game", "hinge"})
    takes_partial: ClassVar[bool] = True

    def minimise(self, task: Task) -> None:
        """See `fit_ascent`; a warm start goes on from the strategies of the earlier fit too."""
        local = task.shards.local_problem
        if local is not None and local.relaxed:
            from robustruct.optimizers.relaxed_ascent import RelaxedAscent

            ascent: CentredAscent = RelaxedAscent(local, centre=task.start)
        else:
            ascent = CentredAscent(task.shards, centre=task.start)
        dual = task.kept = ascent.shards.dual
        earlier = None if task.start is None else task.earlier
        if dual is not None and earlier is not None and _same_games(dual.problem, earlier.problem):
            # Weights alone would say little to the dual.
            dual.q, dual.p0 = earlier.q, earlier.p0
            ascent.follow()
        fit_ascent(ascent, task.progress, task.max_iter, task.seed)
        if local is not None and local.relaxed:
            task.progress.advice = TOO_COLD


def _same_games(problem: Problem, last: Problem) -> bool:
    """Whether the adversary may play in one problem what it played in the other."""
    a, b = problem.design.batch, last.design.batch
    return (
        problem.truth_is_predictor == last.truth_is_predictor
        and np.array_equal(a.node_offsets, b.node_offsets)
        and np.array_equal(a.child, b.child)
        and np.array_equal(a.parent, b.parent)
        and np.array_equal(a.flipped, b.flipped)
        and np.array_equal(problem.labels, last.labels)
        and np.array_equal(problem.constraints.pairs, last.constraints.pairs)
        and np.array_equal(problem.constraints.unary_masks(), last.constraints.unary_masks())
    )
