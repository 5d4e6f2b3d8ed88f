"""How long would training take on many machines? A simulation, event by event.

Run: python benchmarks/cluster_simulation.py [--nodes 1e9 --workers 10 100 1000]

Every worker visits its samples, then sends a message to each other worker through its own link, one
after the other, and receives theirs through it; it goes on when it has all of them, twice a round
(optimizers/collective.py). Certificates send the moments in float64. Some workers are slow in some
rounds, and some die: then all stop, the shards are read again, and all start from the weights of
the last certificate. What it assumes is in `World`, with what was measured and what is a guess.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from timing import rounded, show


@dataclass(frozen=True)
class World:
    """Machines, network and task."""

    nodes: float = 1e9
    weights: float = 92e6
    """2²² columns of hashed attributes, 22 labels."""
    workers: int = 100
    threads: float = 3.3
    """What eight threads are worth: a fifth of a visit is not parallel."""
    a_node: float = 1.2e-6
    """Seconds to visit a node, on one core."""
    a_weight: float = 4e-9
    """Seconds a pass for each weight: centres follow, changes are looked for."""
    passes_alone: float = 100
    """A guess; CoNLL-2000 takes 18."""
    growth: float = 0.083
    """Passes grow by this part each time workers double: measured on CoNLL-2000 up to 16 workers,
    and extrapolated beyond."""
    rounds: int = 16
    """Of a pass; as many as workers where these are fewer."""
    entries_a_node: float = 5.2
    """Weights that a worker changes in a round for each of its nodes, as measured on CoNLL-2000
    with 16 workers, the mean of all passes; more nodes in a round have more of them in common."""
    certificates: int = 6
    bandwidth: float = 1.25e9
    """Bytes a second of each link, each way."""
    latency: float = 1e-3
    a_message: float = 1.5e-3
    """Seconds of work to send one and receive one, as measured between two workers of Dask."""
    slow: float = 0.01
    """Part of the rounds in which a worker takes three times as long; a guess."""
    days_to_death: float = 30.0
    """Of a worker, on average; a guess."""
    to_notice: float = 5.0
    to_read: float = 2e-6
    """Seconds to read and encode a node again, on one core."""
    passes_lost: float = 3.0
    """Passes more that all make when adversaries begin anew, though θ does not, beside those since
    the last certificate; a guess."""


class Cluster:
    """Workers with clocks of their own."""

    def __init__(self, world: World, seed: int = 0) -> None:
        self.world, self.rng = world, np.random.default_rng(seed)
        self.now = np.zeros(world.workers)
        self.next_death = self.rng.exponential(world.days_to_death * 86400, world.workers)
        self.deaths, self.waited = 0, 0.0

    def exchange(self, each: float) -> None:
        """Every worker sends ``each`` bytes to each other one."""
        world, n = self.world, self.world.workers
        travel = each / world.bandwidth
        leaves, free = self.now.copy(), self.now.copy()
        last = self.now.copy()
        together = max(1, n // 100)  # messages that count as one, so that a thousand take no hour
        for step in range(1, n, together):
            some = min(together, n - step)
            leaves += some * max(travel, world.a_message)
            arrives = np.roll(leaves, step) + world.latency  # worker k sends to k + step
            free = np.maximum(free, arrives - some * travel) + some * travel
            last = np.maximum(last, free)
        last += world.a_message * (n > 1)
        self.waited += float(np.mean(last - self.now))
        self.now = np.maximum(last, leaves)

    def work(self, seconds: float) -> None:
        """Every worker works for so long, or three times as long."""
        slow = self.rng.random(self.world.workers) < self.world.slow
        self.now += seconds * np.where(slow, 3.0, 1.0)

    def bury(self) -> bool:
        """Whether a worker has died; the others wait until its shards are read again."""
        world = self.world
        dead = np.flatnonzero(self.next_death < self.now)
        if not len(dead):
            return False
        self.deaths += len(dead)
        until = self.now.max() + world.to_notice
        until += world.to_read * world.nodes / world.workers / world.threads
        self.now[:] = until
        self.next_death[dead] = until + self.rng.exponential(world.days_to_death * 86400, len(dead))
        return True

    def sum_up(self, bytes_a_weight: float, part: float = 1.0) -> None:
        """Two exchanges of a vector, or of parts of it."""
        world = self.world
        each = bytes_a_weight * world.weights / world.workers
        self.exchange(part * each)
        # Owners send what anybody has changed.
        anybody = 1.0 - (1.0 - min(part, 1.0)) ** min(world.workers, 3)
        self.exchange(anybody * each)


def simulated(world: World, seed: int = 0) -> dict[str, Any]:
    """A fit, from samples in memory to the last certificate."""
    cluster = Cluster(world, seed)
    passes = world.passes_alone * (1 + world.growth * np.log2(world.workers))
    visits = world.nodes / world.workers * world.a_node / world.threads
    vectors = world.weights * world.a_weight
    rounds = min(world.rounds, max(2, world.workers))
    changed = world.entries_a_node * world.nodes / world.workers / rounds / world.weights
    # An entry is four bytes of index and four of value, or all values travel.
    part, size = (changed, 8.0) if changed < 0.5 else (1.0, 4.0)
    done, certified, certificates, working = 0.0, 0.0, 0, 0.0
    alike = min(max(1, world.workers // 12), 20)  # passes that take as long as the one simulated
    while done < passes:
        before = cluster.now.max()
        for _ in range(rounds):
            cluster.work((visits + vectors) / rounds)
            cluster.sum_up(size, part)
        cluster.now += (alike - 1) * (cluster.now.max() - before)
        working += alike * (visits + vectors)
        done += alike
        if done >= passes * (certificates + 1) / world.certificates:
            certificates, certified = certificates + 1, done
            cluster.work(visits)
            cluster.sum_up(8.0)
            working += visits
        if cluster.bury():
            passes += world.passes_lost + done - certified
            certified = done
    total = float(cluster.now.max())
    return {
        "workers": world.workers,
        "passes": round(passes),
        "a pass of work, s": rounded(visits + vectors),
        "hours": rounded(total / 3600),
        "at work": f"{working / total:.0%}",
        "deaths": cluster.deaths,
        "speed-up": rounded(
            world.passes_alone * world.nodes * world.a_node / world.threads / total, 3
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=float, default=1e9)
    parser.add_argument("--workers", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--gbit", type=float, nargs="+", default=[10.0, 1.0])
    parser.add_argument("--json", action="store_true", help="JSON lines instead of a table")
    args = parser.parse_args()
    lines = []
    for gbit in args.gbit:
        for workers in args.workers:
            plain = World(nodes=args.nodes, workers=workers, bandwidth=gbit * 1.25e8)
            worlds = {
                "nothing happens": replace(plain, slow=0.0, days_to_death=1e9),
                "stragglers": replace(plain, days_to_death=1e9),
                "stragglers and deaths": plain,
            }
            for name, world in worlds.items():
                lines.append({"Gbit/s": gbit, "and": name, **simulated(world)})
    show(lines, {"nodes": args.nodes}, args.json)


if __name__ == "__main__":
    main()
