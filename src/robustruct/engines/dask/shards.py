"""The samples of a fit on the workers of a Dask cluster: CoCoA rounds and other sums.

In a round every worker visits its samples, starting from the same θ, and the changes of θ are added
up (CoCoA, Smith et al. 2018). K workers might all push a weight the same way, and the sum overshoot
by a factor of K. A worker therefore takes each of its changes δ for σ times as large as it is,
which makes the sum an ascent as long as |Σδ|² <= σ Σ|δ|². That holds for σ = K whatever the data
are, but workers with different features hardly meet: σ follows the ratio that the last round has
seen, with a margin.

θ is kept on every worker. What travels is the entries that steps have changed, θ in full to a
worker that is new, and for a certificate θ and the moments.

A worker that fails takes the dual variables of its shards with it. The shards are read and built
again by another worker, with the adversary back at the truth; θ then is put in line by recomputed
moments, and certificates are never made of parts from before and after (`generation`).
"""

from __future__ import annotations

import logging
import pickle
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
from distributed import Client, Future

from robustruct.engines.dask import worker
from robustruct.engines.dask.worker import Extent, Missing, Replicas, SparseVector, Steps, Update
from robustruct.engines.dask.worker_pool import WorkerPool
from robustruct.errors import EngineError, InvalidInputError
from robustruct.formats.shards import ShardedData
from robustruct.kernels.weight_vectors import follow_centre
from robustruct.objectives.adversarial import Outline, fingerprint_of
from robustruct.objectives.build import Plan, Settings, Summary, plan_of
from robustruct.optimizers.optimizer import CentreUpdate, PassSpec, PassStats
from robustruct.optimizers.tuning import Density, Tuning

LOG = logging.getLogger(__name__)
LOG_LIMIT = 64  # updates that are remembered for workers that lag behind
MARGIN = 3.0  # of the damping; 2 was no better and less steady
REBUILDS = 20  # of one shard: more failures than that are the shard's fault


class DaskShards:
    """Shards on workers (`WorkerPool`); see `robustruct.optimizers.optimizer.Shards`."""

    local_problem = None
    local_problems = None
    dual = None

    def __init__(
        self, client: Client, data: ShardedData, rounds: int, patience: float, give_up: float
    ) -> None:
        self.pool, self.data = WorkerPool(client, give_up), data
        self.rounds, self.patience = rounds, patience
        self.generation = 0
        self.extents: dict[int, Extent | None] = {}
        self.plan: Plan | None = None
        self.tuning: Tuning
        self.version = 0
        self.updates: list[Update] = []
        self.known: dict[str, int] = {}
        """The version of θ that each worker has."""
        self.centre: np.ndarray | None = None
        self.theta: np.ndarray | None = None
        self.new_theta = False
        """Whether θ was put in line with moments since workers have seen it."""
        self.damping = np.inf
        """σ"""
        self.ratio = 0.0
        """The largest |Σδ|² / Σ|δ|² of this pass."""
        self.typical = 0.0
        """Seconds that a round takes most workers."""
        self.rebuilt = 0
        self.moved = 0
        self.n_rounds = 0
        self.bytes_sent = 0
        self.bytes_received = 0

    # --------------------------------------------------------------------------- data to workers

    def prepare(self, settings: Settings, tick: Callable[[str], None]) -> Plan:
        """Have the workers read and encode the shards."""
        tick("reading")
        plan = plan_of(settings, self.summary(), self.data.min_count)
        tick("encoding")
        self.assemble(plan)
        return plan

    def summary(self) -> Summary:
        """Have every shard read, where it will stay, and summed up."""
        self.pool.assign(range(len(self.data)))
        wanted = {n: (self.data[n], self.data.hashed) for n in range(len(self.data))}
        found = self.pool.each(worker.read_summary, wanted)
        return reduce(Summary.merged, (found[n] for n in range(len(self.data))))

    def assemble(self, plan: Plan) -> None:
        """Have every shard encoded."""
        self.plan = plan
        self._build(range(len(self.data)))
        extents = [extent for extent in self.extents.values() if extent is not None]
        if not extents:
            raise InvalidInputError("no shard has a sample with a weight; nothing can be learnt.")
        self.outline = Outline.of_all([extent.outline for extent in extents])
        self.tuning = Density.of_all([extent.density for extent in extents]).tuning()

    def _build(self, numbers: Sequence[int]) -> None:
        """Encode shards on the workers they are assigned to."""
        plan = pickle.dumps(self.plan)
        wanted = {number: (self.data[number], plan) for number in numbers}
        self.extents.update(self.pool.each(worker.assemble, wanted))

    # ------------------------------------------------------------------------- workers and shards

    def _settle(self) -> None:
        """Shards of workers that are gone are built by others; new workers get shards."""
        addresses = self.pool.workers()
        alive = set(addresses)
        for address in [address for address in self.pool.late if address not in alive]:
            del self.pool.late[address]
        lost = [number for number, address in self.pool.place.items() if address not in alive]
        self._rebuild(lost)
        load = self.pool.load(addresses)
        idle = [address for address in addresses if not load[address]]
        for address in idle:
            giver = max(load, key=lambda one: (one not in self.pool.late, len(load[one])))
            if len(load[giver]) < 2 or giver in self.pool.late:
                break
            number = load[giver].pop()
            self._move(number, giver, address)
            load[address].append(number)

    def _rebuild(self, numbers: Sequence[int]) -> None:
        """Build shards whose dual variables are lost, on the workers that have the fewest."""
        if not numbers:
            return
        self.rebuilt += len(numbers)
        if self.rebuilt > REBUILDS * len(self.data):
            raise EngineError(
                f"shards were lost {self.rebuilt} times because their workers died, so something "
                "about them kills workers; most often memory. Use more and smaller shards, or "
                "workers with more memory."
            )
        LOG.warning("shards %s were lost with their worker and are read again", list(numbers))
        self.pool.assign(numbers)
        self._build(numbers)
        self.generation += 1

    def _move(self, number: int, giver: str, taker: str) -> None:
        """Hand a shard over with its dual variables, from worker to worker."""
        given = self.pool.submit(worker.give_away, giver, number)
        taken = self.pool.submit(worker.take_over, taker, number, given)
        answer = self.pool.answers({taker: taken}, self.pool.give_up).get(taker, False)
        if answer is True:
            self.pool.place[number] = taker
            self.moved += 1
        else:
            self._rebuild([number])

    def _pending(self, address: str) -> list[Update]:
        """The updates that a worker lacks; θ in full if that is less."""
        known = self.known.get(address, -1)
        lacking = [update for update in self.updates if update.version > known]
        complete = known >= 0 and len(lacking) == self.version - known
        assert self.theta is not None
        in_full = self.theta.nbytes + (0 if self.centre is None else self.centre.nbytes)
        if not complete or sum(update.nbytes for update in lacking) > in_full:
            # Copies: Dask may send an array after it has returned.
            centre = None if self.centre is None else self.centre.copy()
            lacking = [Update(self.version, Replicas(self.theta.copy(), centre))]
        self.bytes_sent += sum(update.nbytes for update in lacking)
        return lacking

    def _record(self, change: SparseVector | CentreUpdate | Replicas) -> None:
        self.version += 1
        self.updates.append(Update(self.version, change))
        del self.updates[:-LOG_LIMIT]

    def _renew(self, theta: np.ndarray) -> None:
        """Send θ in full if it was put in line with moments."""
        if self.new_theta:
            self._record(Replicas(theta.copy(), None))
            self.new_theta = False

    def _ask(self, task: Callable[..., Any], address: str, *arguments: Any) -> Future:
        """Send a worker a task about all of its shards."""
        numbers = self.pool.load([address])[address]
        updates = self._pending(address)
        self.known[address] = self.version
        return self.pool.submit(task, address, numbers, self.tuning, updates, *arguments)

    def _lost(self, address: str, answer: Missing) -> None:
        """Take note that a worker does not hold what it should."""
        self.known.pop(address, None)
        self._rebuild(answer.numbers)

    def retune(self, tuning: Tuning) -> None:
        """Begin anew with other settings, which workers get with every task."""
        self.tuning = tuning

    # ------------------------------------------------------------------------------ the four sums

    def round(self, theta: np.ndarray, centre: np.ndarray, spec: PassSpec) -> PassStats:
        """Some rounds of visits, which together make a pass."""
        self.theta, self.centre = theta, centre
        self._renew(theta)
        seen: dict[str, PassStats] = {}
        for part in range(self.rounds):
            self._one_round(theta, replace(spec, part=part, parts=self.rounds), seen)
        if self.ratio > 0.0:  # workers have met in this pass, so it tells how hard they clash
            self.damping = max(1.0, MARGIN * self.ratio, 0.8 * self.damping)
            self.ratio = 0.0
        return PassStats(
            sum(one.gap for one in seen.values()),
            sum(one.total_gap for one in seen.values()),
            sum(one.regret for one in seen.values()),
        )

    def _one_round(self, theta: np.ndarray, spec: PassSpec, seen: dict[str, PassStats]) -> None:
        self._settle()
        self.n_rounds += 1
        load = self.pool.load(self.pool.workers())
        working = [one for one, numbers in load.items() if numbers and one not in self.pool.late]
        self.damping = min(self.damping, float(len(working) + len(self.pool.late)))
        started = time.monotonic()
        arguments = spec, self.damping
        tasks = {address: self._ask(worker.take_round, address, *arguments) for address in working}
        asked = {**tasks, **self.pool.late}
        answers = self._most_answers(tasks or self.pool.late, started)
        answers |= self.pool.answers(
            {one: asked[one] for one in self.pool.late if one not in answers}, 0.0
        )
        self.pool.late = {
            address: task for address, task in asked.items() if address not in answers
        }
        steps: list[Steps] = []
        for address in sorted(answers):
            answer = answers[address]
            if isinstance(answer, Missing):
                self._lost(address, answer)
                continue
            steps.append(answer)
            seen[address] = answer.seen
        self._add(theta, steps)

    def _most_answers(self, asked: dict[str, Future], started: float) -> dict[str, Any]:
        """All answers, or those that came while the others take many times as long as usual."""
        usual = self.patience * self.typical + 1.0 if self.typical else self.pool.give_up
        answers = self.pool.answers(asked, usual)
        while not answers:
            silent = all(self.pool.overdue(task, one, started) for one, task in asked.items())
            # If it was this process that was held up, answers are about to come in.
            answers = self.pool.answers(asked, 1.0 if silent else usual)
            if silent and not answers:
                raise self.pool.silence()
        if len(answers) == len(asked):
            took = time.monotonic() - started
            self.typical = took if self.typical == 0.0 else 0.7 * self.typical + 0.3 * took
        return answers

    def _add(self, theta: np.ndarray, steps: Sequence[Steps]) -> None:
        if not steps:
            return
        self.bytes_received += sum(step.delta.nbytes for step in steps)
        total = np.zeros_like(theta)
        for step in steps:
            total[step.delta.index] += step.delta.value
        squares = [step.square for step in steps if step.square > 0.0]
        if len(squares) > 1:
            self.ratio = max(self.ratio, float(total @ total) / sum(squares))
            self.damping = max(self.damping, MARGIN * self.ratio)
        change = SparseVector.of(total)
        theta[change.index] += change.value
        self._record(change)

    def follow(self, theta: np.ndarray, centre: np.ndarray, spec: CentreUpdate) -> None:
        """All centres follow, here at once and on the workers with their next task."""
        self._renew(theta)  # before it becomes the centre
        follow_centre(
            theta, centre, self.tuning.scales.squares, spec.alpha, spec.kappa, spec.new_kappa
        )
        self._record(spec)

    def _sum(self, method: str) -> list[Any]:
        """The answers of all workers, about dual variables of one generation."""
        for address, answer in self._patiently(self.pool.late).items():
            self.pool.late.pop(address)  # a straggler's steps count, unless it takes too long
            if isinstance(answer, Missing):
                self._lost(address, answer)
            else:
                assert self.theta is not None
                self._add(self.theta, [answer])
        while True:
            self._settle()
            generation = self.generation
            load = self.pool.load(self.pool.workers())
            tasks = {
                address: self._ask(worker.take_sum, address, method)
                for address, numbers in load.items()
                if numbers
            }
            answers = []
            for address, answer in self._patiently(tasks).items():
                if isinstance(answer, Missing):
                    self._lost(address, answer)
                elif answer is not None:
                    answers.append(answer)
            if self.generation == generation:
                return answers

    def _patiently(self, asked: dict[str, Future]) -> dict[str, Any]:
        """Everybody's answer; `Missing` from those who take longer than anyone would wait."""
        started, answers = time.monotonic(), dict[str, Any]()
        silent = list(asked)
        while silent:
            pending = {one: asked[one] for one in silent}
            answers |= self.pool.answers(pending, min(self.pool.give_up, 2.0))
            silent = [address for address in asked if address not in answers]
            if time.monotonic() - started > self.patience * self.typical and all(
                self.pool.overdue(asked[one], one, started) for one in silent
            ):
                break
        if silent:
            self.pool.do_without(silent)
        for address in silent:
            asked[address].cancel()
            answers[address] = Missing(tuple(self.pool.load([address])[address]))
        return dict(sorted(answers.items()))

    def moments(self, out: np.ndarray) -> None:
        """G(q) into ``out``; what follows is a new θ, which workers get in full."""
        if self.theta is None:  # no round yet: every adversary is at the truth
            out[:] = 0.0
            return
        answers = self._sum("moments")
        self.bytes_received += sum(answer.nbytes for answer in answers)
        self.new_theta = True
        np.sum(answers, axis=0, out=out)

    def _at(self, theta: np.ndarray, method: str) -> list[Any]:
        self.theta, self.new_theta = theta, False
        self._record(Replicas(theta.copy(), None))
        return self._sum(method)

    def bounds(self, theta: np.ndarray) -> tuple[float, float]:
        """(regret at θ and p0, gain of q)."""
        answers = self._at(theta, "bounds")
        return sum(regret for regret, _ in answers), sum(gain for _, gain in answers)

    def plain_bounds(self, theta: np.ndarray) -> tuple[float, float]:
        """The same with the adversary at the truth."""
        answers = self._at(theta, "plain_bounds")
        return sum(regret for regret, _ in answers), sum(gain for _, gain in answers)

    def likelihood(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """(regret of the CRF at θ, its gradient)."""
        answers = self._at(theta, "likelihood")
        self.bytes_received += sum(gradient.nbytes for _, gradient in answers)
        return sum(value for value, _ in answers), np.sum([g for _, g in answers], axis=0)

    def fingerprint(self) -> dict[str, Any]:
        """What the samples on all workers are."""
        extents = {n: extent for n, extent in self.extents.items() if extent is not None}
        return fingerprint_of({n: extent.digests for n, extent in extents.items()})

    def state(self) -> dict[str, np.ndarray]:
        """Nothing: dual variables are as large as the data, and do not travel."""
        return {}

    def restore(self, state: dict[str, np.ndarray]) -> bool:
        """Dual variables begin anew."""
        return False
