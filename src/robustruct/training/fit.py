"""What a fit reports, how it stops, and who watches it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import astuple, dataclass, field
from typing import Protocol

import numpy as np

from robustruct.training.problem import Outline, Problem


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


class Optimizer(Protocol):
    """What minimises an objective in passes, and can be kept after each."""

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

    def restore(self, optimizer: Optimizer) -> None:
        """Put the optimizer into the state that was kept last, if there is one."""

    def due(self, n_passes: int) -> bool:
        """Whether it is time to keep the state."""

    def keep(self, optimizer: Optimizer) -> None:
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
    tick: Callable[[int, float], None] | None = None
    """Called after every pass with its number and an estimate of the relative gap."""
    check_every: int | None = None
    """Passes between certificates at most; None leaves it to the optimizer."""
    keeper: Keeper | None = None
    """Offered the state after every pass."""
    theta: np.ndarray = field(init=False)
    primal: float = field(init=False, default=np.inf)
    dual: float = field(init=False, default=-np.inf)
    history: list[Record] = field(init=False, default_factory=list)
    stopped: bool = field(init=False, default=False)
    interrupted: bool = field(init=False, default=False)
    advice: str = field(init=False, default="Raise max_iter or tol.")
    """What to do where the tolerance was missed."""

    def __post_init__(self) -> None:
        self.started = time.perf_counter()
        self.theta = np.zeros(self.problem.n_weights)

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
        return max(primal - least, 0.01 * (self.problem.untrained - least), 1e-300)

    def passed(self, n_iter: int, estimate: float) -> None:
        """Tell whoever watches that a pass is over."""
        if self.tick is not None:
            self.tick(n_iter, estimate)

    def resume(self, optimizer: Optimizer) -> None:
        """Go on from a checkpoint, if there is one."""
        if self.keeper is not None:
            self.keeper.restore(optimizer)

    def due(self, n_passes: int) -> bool:
        """Whether a checkpoint should be made now."""
        return self.keeper is not None and self.keeper.due(n_passes)

    def keep(self, optimizer: Optimizer) -> None:
        """Make a checkpoint, if any are wanted."""
        if self.keeper is not None:
            self.keeper.keep(optimizer)

    @property
    def converged(self) -> bool:
        return self.gap <= self.tol

    @property
    def finished(self) -> bool:
        """Whether training should stop."""
        return self.converged or self.stopped

    def report(
        self, n_iter: int, theta: np.ndarray, primal: float, dual: float, may_keep: bool = False
    ) -> bool:
        """Take note of a certificate; True when training should stop.

        θ is copied, unless we ``may_keep`` it because the caller will not change it any more.
        """
        if primal < self.primal:
            if may_keep:
                self.theta = theta
            else:
                if np.isinf(self.primal):  # what is there may be an earlier model's
                    self.theta = np.empty_like(theta)
                self.theta[:] = theta
            self.primal = primal
        self.dual = max(self.dual, dual)
        elapsed = time.perf_counter() - self.started
        taken_off = self.problem.taken_off
        record = Record(n_iter, elapsed, primal + taken_off, dual + taken_off, self.gap)
        self.history.append(record)
        if self.watch is not None and self.watch(record, theta):
            self.stopped = True
        return self.finished

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
            "seconds": np.array(time.perf_counter() - self.started),
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from an earlier `state`; the clock goes on as well."""
        self.theta = state["theta"]
        self.primal, self.dual = state["primal"].item(), state["dual"].item()
        self.history = [Record(int(row[0]), *row[1:]) for row in state["history"].tolist()]
        self.stopped = state["stopped"].item()
        self.started = time.perf_counter() - state["seconds"].item()
