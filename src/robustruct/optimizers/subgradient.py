"""The paper's way to train (Fathony et al. 2018, section 3.2): stochastic subgradients.

It solves games by game/dual_decomposition.py, or by any other solver; names are the same in both
files, p and r for the players on nodes, q for the paper's Q. They are two, not one, because games
are below optimizers: `solve_game` has the solver without any training.

A step solves the games of a few samples at the current θ; with their adversaries Q*, a subgradient
of the objective is alpha θ + Σ_s share_s (Φ_s(Q*_s) − Φ_s(y_s)). The method has no gap of its own,
so one is made: averages over the passes, in which pass n weighs as much as n, give

* weights θ̄, for which all games are solved now and then: the primal bound;
* marginals q̄, feasible because the feasible ones are a convex set: the dual bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from robustruct.features import adjoint, labelling_features, scores, sum_over_tables
from robustruct.game.game import Game, Play
from robustruct.game.solve import solve_batch
from robustruct.game.solver import GameSolver, check_options
from robustruct.game.solvers import as_solver
from robustruct.inference import without_impossible
from robustruct.objectives.adversarial import Problem
from robustruct.optimizers.certificates import Progress
from robustruct.optimizers.optimizer import Optimizer, Task
from robustruct.optimizers.shards import SamplesOutline
from robustruct.scores import Scores

COUNTS = ("n_passes", "n_steps", "next_check")
AVERAGES = ("theta", "squares", "mean_theta", "r", "moments")
AT_ONCE = 256  # samples whose games are solved together for a certificate


@dataclass(frozen=True, kw_only=True)
class Subgradient(Optimizer):
    """The paper's optimizer, for ``AGM(optimizer=Subgradient(...))``.

    To repeat the paper in full: ``Subgradient(solver="dual_decomposition", game_tol=1e-2,
    batch_size=1)``. Whatever the options, the gap reported is certified; it cannot become smaller
    than what the games are solved to.
    """

    solver: str | GameSolver = "auto"
    """Who solves the games, by name or with options of its own, as in `solve_game`."""
    game_tol: float = 1e-6
    """Gap to which games are solved, relative to the range of the cost."""
    rule: Literal["adagrad", "sgd"] = "adagrad"
    """"adagrad" scales steps by the gradients seen so far, as the paper's experiments do; "sgd"
    takes steps of 1 / (alpha t)."""
    step: float = 0.1
    """AdaGrad only: size of its steps."""
    batch_size: int = 10
    """Samples whose games are solved for one step."""
    name: ClassVar[str] = "subgradient"
    objectives: ClassVar[frozenset[str]] = frozenset({"game"})

    def __post_init__(self) -> None:
        as_solver(self.solver)
        check_options(
            self,
            counts=("batch_size",),
            positive=("game_tol", "step"),
            rule=("adagrad", "sgd"),
        )

    def refusal(self, shards: SamplesOutline) -> str | None:
        """It visits games one by one, here and exactly."""
        local = shards.local_problem
        if local is None:
            return "the subgradient method works on samples in the memory of one process"
        return "the subgradient method needs exact games" if local.relaxed else None

    def minimise(self, task: Task) -> None:
        """See `fit_subgradient`."""
        local = task.shards.local_problem
        assert local is not None  # see `refusal`
        fit_subgradient(local, task.progress, task.max_iter, task.seed, task.start, self)


class SubgradientDescent:
    """Weights, and the averages that certify them."""

    def __init__(self, problem: Problem, options: Subgradient, start: np.ndarray | None) -> None:
        self.problem, self.options = problem, options
        self.theta = np.zeros(problem.n_weights) if start is None else start.copy()
        self.n_passes, self.n_steps, self.next_check = 0, 0, 1
        self.squares = np.zeros_like(self.theta)
        self.mean_theta = self.theta.copy()
        self.r = problem.truth
        self.moments = np.zeros_like(self.theta)

    def play(self, part: Scores, nodes: np.ndarray | slice) -> Play:
        """Both players' strategies for part of the samples."""
        possible = without_impossible(part, self.problem.n_jobs)
        game = Game(possible, self.problem.cost, self.problem.node_weight[nodes])
        options = self.options
        return solve_batch(game, options.solver, options.game_tol, n_jobs=self.problem.n_jobs)

    def visit(self, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One step; return (r, Σ_s share_s (Φ_s(y_s) − Φ_s(q_s))) of the samples."""
        problem = self.problem
        design, nodes = problem.design.take(samples), problem.design.batch.nodes_of(samples)
        plain = scores(design, self.theta, problem.n_labels, problem.n_jobs)
        play = self.play(problem.constraints.apply(plain, design), nodes)
        share = problem.node_share[nodes]
        moments = labelling_features(
            design, problem.labels[nodes], problem.n_labels, problem.share[samples]
        )
        sums = sum_over_tables(design, share[design.batch.child, None, None] * play.q)
        moments -= adjoint(design, share[:, None] * play.r, sums, problem.n_jobs)
        part = len(samples) / problem.design.batch.n_samples
        self.descend(problem.alpha * self.theta - moments / part)
        return play.r, moments

    def descend(self, gradient: np.ndarray) -> None:
        """θ against the gradient, by the rule's step sizes."""
        self.n_steps += 1
        if self.options.rule == "sgd":
            self.theta -= gradient / (self.problem.alpha * self.n_steps)
            return
        self.squares += gradient**2
        # 1e-300 only where no gradient was: 0 / 0.
        self.theta -= self.options.step * gradient / np.sqrt(np.maximum(self.squares, 1e-300))

    def run_pass(self, seed: int) -> None:
        """Steps over all samples, then one more term in the averages."""
        problem, number, batch_size = self.problem, self.n_passes + 1, self.options.batch_size
        rng = np.random.default_rng([seed, number])
        order = rng.permutation(problem.design.batch.n_samples)
        r, moments = np.empty_like(self.r), np.zeros_like(self.moments)
        theta = np.zeros_like(self.theta)
        for first in range(0, len(order), batch_size):
            samples = order[first : first + batch_size]
            found, part = self.visit(samples)
            r[problem.design.batch.nodes_of(samples)] = found
            moments += part
            theta += len(samples) / len(order) * self.theta
        # Means in which pass n weighs as much as n: those of 1 .. n have n (n + 1) / 2 in all.
        weight = 2.0 / (number + 1)
        for mean, value in ((self.r, r), (self.moments, moments), (self.mean_theta, theta)):
            mean += weight * (value - mean)
        self.n_passes = number

    def state(self) -> dict[str, np.ndarray]:
        """All that the passes to come depend on; `restore` takes it back."""
        return {name: np.asarray(getattr(self, name)) for name in COUNTS + AVERAGES}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from an earlier `state`."""
        for name in COUNTS:
            setattr(self, name, state[name].item())
        for name in AVERAGES:
            setattr(self, name, state[name])

    def bounds(self) -> tuple[float, float]:
        """(primal at θ̄, dual at q̄)."""
        problem, batch = self.problem, self.problem.design.batch
        found, p = problem.scores(self.mean_theta), np.empty_like(self.r)
        for first in range(0, batch.n_samples, AT_ONCE):
            last = min(first + AT_ONCE, batch.n_samples)
            nodes = slice(batch.node_offsets[first], batch.node_offsets[last])
            p[nodes] = self.play(found.part(first, last), nodes).p
        dual = problem.dual(self.moments / problem.alpha, self.r)
        return problem.primal(self.mean_theta, p), dual


def fit_subgradient(
    problem: Problem,
    progress: Progress,
    max_iter: int,
    seed: int,
    start: np.ndarray | None = None,
    options: Subgradient | None = None,
) -> None:
    """Passes over the samples until the tolerance is met or ``max_iter`` is reached.

    A certificate costs about a pass, so there is one after passes 1, 2, 4, 8, ... only.
    """
    descent = SubgradientDescent(problem, options or Subgradient(), start)
    progress.resume(descent)
    while descent.n_passes < max_iter and not progress.finished:
        descent.run_pass(seed)
        number = descent.n_passes
        progress.passed(number, progress.gap)  # steps see no gap: that of the last certificate
        if number in (descent.next_check, max_iter):
            descent.next_check = number + min(number, progress.check_every or number)
            progress.report(number, descent.mean_theta, *descent.bounds())
        if progress.finished or number >= max_iter or progress.due(number):
            progress.keep(descent)
    if progress.n_iter < descent.n_passes:  # max_iter was higher before, or the time is up
        progress.report(descent.n_passes, descent.mean_theta, *descent.bounds())
