"""Train on several machines with torchrun: another engine by the contract of docs/extending.md.

Every process reads and encodes every n-th shard, and all of them run the optimizer in step. Start
as many as there are machines, or cores; whoever has SLURM starts them with ``srun torchrun``:

    torchrun --standalone --nproc-per-node 2 train_with_torchrun.py part-*.conll --to ner.model

Where a process is lost, all end with an error; with torchrun's ``--max-restarts`` they start again.
"""

import argparse
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce

import torch
import torch.distributed as dist

from robustruct import AGM
from robustruct.engines import ShardedData
from robustruct.features.digests import joined_digests
from robustruct.objectives.adversarial import Outline, fingerprint_of
from robustruct.objectives.build import Summary, plan_of, summarise
from robustruct.optimizers import Collective, Optimizer
from robustruct.optimizers.collective import OutOfStep
from robustruct.optimizers.distributed_shards import DistributedShards
from robustruct.optimizers.local_shards import LocalShards
from robustruct.optimizers.tuning import Density


def of_all(own):
    """Return the objects of all processes, by rank."""
    objects = [None] * dist.get_world_size()
    dist.all_gather_object(objects, own)
    return objects


class TorchCollective(Collective):
    """All processes of the default group of torch.distributed."""

    def __init__(self):
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def allgather(self, arrays, label):
        labels, found = zip(*of_all((label, list(arrays))), strict=True)
        if any(other != label for other in labels):
            raise OutOfStep
        return list(found)

    def allreduce(self, vector, label):
        # Gloo adds up each stretch of a vector in one process, so all of them get the same bits.
        dist.all_reduce(torch.from_numpy(vector))


class TorchEngine:
    """Trains, predicts and evaluates in all processes of a group, each of which calls the same."""

    def __init__(self):
        self.collective = TorchCollective()
        self.n_workers = self.collective.size

    @contextmanager
    def shards(self, data):
        yield TorchShards(data, self.collective)

    def map(self, function, items):
        rank, size = self.collective.rank, self.collective.size
        parts = of_all([function(item) for item in list(items)[rank::size]])
        return [parts[n % size][n // size] for n in range(sum(map(len, parts)))]


class TorchShards:
    """The shards of all processes, as `fit` sees them."""

    local_problem = local_problems = None  # no process has all samples

    def __init__(self, data, collective):
        if len(data) < collective.size:
            raise ValueError(f"{len(data)} shards for {collective.size} processes: write more.")
        self.data, self.collective = data, collective

    def prepare(self, settings, tick):
        tick("reading")
        own = range(self.collective.rank, len(self.data), self.collective.size)
        corpora = {n: self.data[n].read() for n in own}
        summaries = self.by_shard(
            {n: summarise(one, hashed=self.data.hashed) for n, one in corpora.items()}
        )
        plan = plan_of(settings, reduce(Summary.merged, summaries.values()), self.data.min_count)
        tick("encoding")
        self.problems = {n: plan.assembled(one) for n, one in corpora.items()}
        extents = self.by_shard(
            {
                n: (one.outline, Density.of(one), one.digests(), one.sample_digests)
                for n, one in self.problems.items()
            }
        )
        outlines, densities, digests, self.of_samples = zip(*extents.values(), strict=True)
        self.outline = Outline.of_all(outlines)
        self.tuning = Density.of_all(densities).tuning(spread=True)
        self.digests = dict(zip(extents, digests, strict=True))
        return plan

    def by_shard(self, own):
        """Return the values of all processes, in the order of shards."""
        return dict(sorted(pair for part in of_all(own) for pair in part.items()))

    def fingerprint(self):
        return fingerprint_of(self.digests)

    def sample_digests(self):
        return joined_digests(self.of_samples)

    def placed(self, optimizer):
        return Together(optimizer, self)


class Together(Optimizer):
    """An optimizer that all processes run in step."""

    def __init__(self, optimizer, shards):
        self.optimizer, self.shards = optimizer, shards

    def minimise(self, task):
        local = LocalShards(self.shards.problems, self.shards.tuning)
        shards = DistributedShards(local, self.shards.collective, self.shards.outline)
        progress = task.progress
        progress.clock, progress.started = shards.clock, shards.clock()  # one clock for all
        self.optimizer.minimise(replace(task, shards=shards))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shards", nargs="+")
    parser.add_argument("--to", required=True, help="the model file to write")
    options = parser.parse_args()
    dist.init_process_group("gloo")
    verbose = int(dist.get_rank() == 0)
    model = AGM(random_state=0, verbose=verbose)
    model.fit(ShardedData.from_files(options.shards), engine=TorchEngine())
    if dist.get_rank() == 0:
        model.save(options.to)
        print(f"certified gap {model.duality_gap_:.2%} after {model.n_iter_} passes")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
