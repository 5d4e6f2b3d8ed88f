"""Certificates of a fit: what they say, when training may stop, and what is kept of them.

An optimizer reports bounds to `Progress`, which decides when to stop. Where checkpoints are wanted
a `Keeper` takes the state of `Progress` and of a `Resumable` optimizer after whole passes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import astuple, dataclass, field
from typing import Any, Protocol

import numpy as np

from robustruct.errors import InternalError, InvalidInputError, shown
from robustruct.game.certified import certified
from robustruct.objectives.adversarial import Outline, Problem
from robustruct.status import Status

IDLE, FEWEST = 0.01, 20  # see `Progress.idle`
NOTHING = 1e-9  # of the costs: what is less can be rounding, so no gap is measured against it


def seconds() -> float:
    """Since any moment: the clock of this process."""
    return time.perf_counter()


@dataclass(frozen=True)
class Record:
    """One line of a model's ``history_``: bounds recomputed from feasible points after a pass."""

    n_iter: int
    time: float
    """Seconds since the fit began."""
    primal: float
    dual: float
    gap: float
    """Of the best bounds so far, relative: see `Progress`."""


ROUNDING = 1e-6  # by which bounds may cross in a file, relative to their size


def records(rows: np.ndarray) -> list[Record]:
    """From rows as `astuple` makes them, read from a file; refuses what no fit has reported."""
    if rows.dtype != np.float64 or rows.ndim != 2 or rows.shape[1] != 5:
        raise InvalidInputError("its history holds no records.")
    number, time, primal, dual, gap = rows.T
    sound = (number >= 0) & (number < 2**31) & (number == np.floor(number))
    sound &= (time >= 0) & (time < 2**31) & (gap >= -ROUNDING)
    sound &= ordered(dual, primal)
    if not sound.all():
        wrong = rows[int(np.argmin(sound))].tolist()
        raise InvalidInputError(f"its history holds {shown(wrong)}, which no fit has reported.")
    return [Record(int(row[0]), *row[1:]) for row in rows.tolist()]


def ordered(dual: Any, primal: Any) -> Any:
    """Whether lower bounds are below upper ones but for rounding; NaN is no bound."""
    with np.errstate(invalid="ignore"):  # what is infinite on both sides
        size = np.where(np.isfinite(primal), np.abs(primal), 0.0)
    return (dual <= primal + ROUNDING * size) & (dual < np.inf) & (primal > -np.inf)


class Resumable(Protocol):
    """Where an optimizer has got to: it can be kept after each pass."""

    n_passes: int

    def state(self) -> dict[str, np.ndarray]:
        """All that the passes to come depend on; `restore` takes it back."""

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from an earlier `state`."""


def inside(title: str, state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The entries whose names begin with ``title`` and a point, without these."""
    start = f"{title}."
    return {name[len(start) :]: value for name, value in state.items() if name.startswith(start)}


class Keeper(Protocol):
    """Who keeps checkpoints of a fit."""

    def restore(self, reached: Resumable) -> None:
        """Put it into the state that was kept last, if there is one."""

    def due(self, n_passes: int) -> bool:
        """Whether it is time to keep the state."""

    def keep(self, reached: Resumable) -> None:
        """Keep the state after a whole pass."""


@dataclass(eq=False)
class Progress:
    """Best bounds and weights so far; decides when training may stop.

    The gap is measured against the objective beyond what the best answers cost even if all is known
    (mostly nothing), so that it does not change when all costs do by a constant; but never against
    less than 1 % of what knowing nothing costs: on data that can be separated the objective itself
    goes to nothing.

    ``primal`` and ``dual`` are bounds without `Problem.taken_off`; records have it.
    """

    problem: Problem | Outline
    tol: float
    watch: Callable[[Record, np.ndarray], bool] | None = None
    """Called with every certificate and the weights it is about; True stops training."""
    tick: Callable[[int, float, str], None] | None = None
    """Called after every pass with its number, an estimate of the relative gap, and by whom."""
    check_every: int | None = None
    """Passes between certificates at most; None leaves it to the optimizer."""
    keeper: Keeper | None = None
    """Offered the state after every pass."""
    max_time: float | None = None
    """Seconds after which training stops."""
    clock: Callable[[], float] = seconds
    """Seconds since any moment."""
    theta: np.ndarray = field(init=False)
    primal: float = field(init=False, default=np.inf)
    dual: float = field(init=False, default=-np.inf)
    history: list[Record] = field(init=False, default_factory=list)
    stopped: bool = field(init=False, default=False)
    interrupted: bool = field(init=False, default=False)
    least_fall: float = field(init=False, default=0.0)
    """Part of the gap that must be gone when passes have doubled, or training has stalled."""
    stalled: bool = field(init=False, default=False)
    values: list[float] = field(init=False, default_factory=list)
    """The objective after each round, where labels are filled in."""
    _has_passed: bool = field(init=False, default=False)
    resumed: bool = field(init=False, default=False)
    """Whether bounds and variables were read from a file."""
    advice: str = field(init=False, default="Raise max_iter or tol.")
    """What to do where the tolerance was missed."""

    def __post_init__(self) -> None:
        self.started = self.clock()
        self.theta = np.zeros(self.problem.n_weights)

    def next_round(self, problem: Problem | Outline, tol: float) -> Progress:
        """Return progress with a problem that labels were filled in for, by the same clock."""
        left = None
        if self.max_time is not None:
            left = max(self.max_time - (self.clock() - self.started), 0.0)
        watch, tick, every = self.watch, self.tick, self.check_every
        return Progress(
            problem, tol, watch, tick, check_every=every, max_time=left, clock=self.clock
        )

    @property
    def n_iter(self) -> int:
        """Passes up to the last certificate."""
        return self.history[-1].n_iter if self.history else 0

    @property
    def gap(self) -> float:
        """Relative duality gap of the best bounds."""
        return self.gap_at(self.primal)

    def gap_at(self, primal: float) -> float:
        """The gap of weights with this primal bound."""
        if not np.isfinite(primal):
            return np.inf
        return (primal - self.dual) / self.scale(primal)

    def scale(self, primal: float) -> float:
        """What a gap is measured against."""
        least = self.problem.unavoidable
        # The last term keeps a gap finite where nothing can be learnt or all costs are rounding.
        nothing = max(NOTHING * self.problem.cost_size, 1e-300)
        return max(primal - least, 0.01 * (self.problem.untrained - least), nothing)

    def passed(self, n_iter: int, estimate: float, by_whom: str = "") -> None:
        """Take note that a pass is over, and tell whoever watches."""
        self._has_passed = True
        if self.tick is not None:
            self.tick(n_iter, estimate, by_whom)

    def resume(self, reached: Resumable) -> None:
        """Go on from a checkpoint, if there is one."""
        if self.keeper is not None:
            self.keeper.restore(reached)

    def due(self, n_passes: int) -> bool:
        """Whether a checkpoint should be made now."""
        return self.keeper is not None and self.keeper.due(n_passes)

    def keep(self, reached: Resumable) -> None:
        """Make a checkpoint, if any are wanted."""
        if self.keeper is not None:
            self.keeper.keep(reached)

    @property
    def converged(self) -> bool:
        return self.gap <= self.tol

    def status(self, max_iter: int) -> Status:
        """How training ended, of at most ``max_iter`` passes."""
        if self.interrupted:
            return Status.INTERRUPTED
        if self.stopped:
            return Status.STOPPED_EARLY
        if self.converged:
            return Status.CONVERGED
        if self.n_iter >= max_iter:
            return Status.MAX_ITER
        return Status.MAX_TIME if self.out_of_time else Status.STALLED

    @property
    def out_of_time(self) -> bool:
        """Whether no pass should follow; there always is one."""
        if self.max_time is None or not self._has_passed:
            return False
        return self.clock() - self.started >= self.max_time

    @property
    def finished(self) -> bool:
        """Whether training should stop."""
        return self.converged or self.stopped or self.stalled or self.out_of_time

    def idle(self, begun: int = 0) -> bool:
        """Whether a descent that has ``begun`` after that pass hardly falls any more.

        By less than IDLE times the tolerance in the last quarter of its passes, and at least
        FEWEST, while the gap has not halved: what it still gains then, no prediction shows.
        """
        until = self.n_iter - max(FEWEST, (self.n_iter - begun) // 4)
        before = [one for one in self.history if begun < one.n_iter <= until]
        if not before or self.gap <= 0.5 * before[-1].gap:
            return False
        fall = min(one.primal for one in before) - self.problem.taken_off - self.primal
        return fall < IDLE * self.tol * self.scale(self.primal)

    def report(
        self, n_iter: int, theta: np.ndarray, primal: float, dual: float, may_keep: bool = False
    ) -> bool:
        """Take note of a certificate; True when training should stop.

        θ is copied, unless we ``may_keep`` it because the caller will not change it any more.
        """
        lower, upper = self._certified(theta, primal, dual)
        if primal < self.primal:
            if may_keep:
                self.theta = theta
            else:
                if np.isinf(self.primal):  # what is there may be an earlier model's
                    self.theta = np.empty_like(theta)
                self.theta[:] = theta
        self.dual, self.primal = lower, upper
        elapsed = self.clock() - self.started
        taken_off = self.problem.taken_off
        record = Record(n_iter, elapsed, primal + taken_off, dual + taken_off, self.gap)
        self.history.append(record)
        if self.watch is not None and self.watch(record, theta):
            self.stopped = True
        if self.least_fall:
            earlier = [one.gap for one in self.history if 2 * one.n_iter <= n_iter]
            self.stalled = bool(earlier) and self.gap > (1.0 - self.least_fall) * min(earlier)
        return self.finished

    def _certified(self, theta: np.ndarray, primal: float, dual: float) -> tuple[float, float]:
        """The best (dual, primal) so far, refused if they cannot both hold; see `certified`."""
        problem = self.problem
        outline = problem if isinstance(problem, Outline) else problem.outline
        rounding = outline.rounding(theta, primal, dual)
        best = np.maximum(self.dual, dual), np.minimum(self.primal, primal)  # NaN stays NaN
        try:
            lower, upper = certified(*best, rounding, "the objective")
        except InternalError as error:
            if not self.resumed:
                raise
            raise InvalidInputError(
                f"after going on from a checkpoint bounds contradict each other: {best[0]} is not "
                f"below {best[1]}. Its numbers were changed, or are of another version: remove "
                "the checkpoint and fit again."
            ) from error
        return float(lower), float(upper)

    def report_start(self) -> None:
        """Take note of what is known without a pass: weights of 0, and nothing of others."""
        if not self.theta.any():
            self.report(0, self.theta, self.problem.untrained, self.problem.unavoidable)

    def state(self) -> dict[str, np.ndarray]:
        """What was found so far; `restore` takes it back."""
        return {
            "theta": self.theta,
            "primal": np.array(self.primal),
            "dual": np.array(self.dual),
            "history": np.array([astuple(record) for record in self.history]).reshape(-1, 5),
            "stopped": np.array(self.stopped),
            "seconds": np.array(self.clock() - self.started),
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from an earlier `state`; the clock goes on as well."""
        history = records(state["history"])
        primal, dual = state["primal"].item(), state["dual"].item()
        reported = (
            max((one.dual for one in history), default=-np.inf),
            min((one.primal for one in history), default=np.inf),
        )
        taken_off = self.problem.taken_off
        best = (dual + taken_off, primal + taken_off)
        size = ROUNDING * max(abs(x) for x in (*reported, taken_off, 0.0) if np.isfinite(x))
        if not (ordered(dual, primal) and np.allclose(best, reported, ROUNDING, size)):
            raise InvalidInputError(
                f"its bounds {dual:g} and {primal:g} are not those that its history reports."
            )
        self.theta, self.primal, self.dual, self.history = state["theta"], primal, dual, history
        self.resumed = True
        self.stopped = state["stopped"].item()
        self.started = self.clock() - state["seconds"].item()
