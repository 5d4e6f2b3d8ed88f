"""What do several processes cost and gain: passes, bytes on the wire, time to a certified gap?

Run: ROBUSTRUCT_DATA=... python benchmarks/several_processes.py [--sentences 2000]

CoNLL-2000 chunking, AGM (Hamming), the attributes of the CRF++ template. Two questions:

time    this process, one Dask worker process and two of them, one thread each, to the same
        certified gap. Workers have compiled before. ``training`` begins when all samples are
        encoded where they are worked on, and ends with the model in this process; ``seconds`` is
        all of ``fit``, ``processor`` the processor seconds of training, of the worker that had
        most: what counts where others use the machine too. ``MB here`` is what passed through this
        process in training, but for the model at its end.
shards  passes, rounds and bytes to the gap against the number of workers that share the data, all
        of them threads of one process: their times mean nothing, so none are shown.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported

import argparse
import logging
import time
from collections.abc import Sequence
from typing import Any

from distributed import Client, LocalCluster

from corpora import chunking_attributes, load_conll2000
from robustruct import AGM, CRF
from robustruct.engines import DaskEngine, ShardedData
from robustruct.engines.dask.shards import DaskShards
from robustruct.engines.local import FileShards, MemoryShards
from timing import machine, rounded, show

MODELS = {
    "agm": AGM(),
    "smooth agm": AGM(temperature=1.0),
    "crf": CRF(optimizer="lbfgs"),
}


class Clock:
    """When samples began to be made ready, and when they were."""

    def __init__(self) -> None:
        self.started = self.ready = 0.0
        self.used: dict[str, float] = {}
        """Processor seconds of each worker when samples were ready."""
        for shards in (MemoryShards, FileShards, DaskShards):
            self.wrap(shards)

    def wrap(self, shards: Any) -> None:
        """Take note of the time whenever shards were prepared."""
        prepare = shards.prepare

        def timed(found: Any, *arguments: Any) -> Any:
            self.started = time.perf_counter()
            plan = prepare(found, *arguments)
            self.used = processor_seconds(found.pool.client if shards is DaskShards else None)
            self.ready = time.perf_counter()
            return plan

        shards.prepare = timed


def processor_seconds(client: Client | None) -> dict[str, float]:
    """Of each worker so far, or of this process."""
    return {"here": time.process_time()} if client is None else client.run(time.process_time)


def fitted(
    X: Sequence[Any], y: Sequence[Any], settings: dict[str, Any], engine: Any, n_shards: int
) -> tuple[Any, float]:
    """A model, and the seconds it took."""
    model = MODELS[settings["model"]].set_params(
        alpha=settings["alpha"], tol=settings["tol"], random_state=0, n_jobs=1
    )
    started = time.perf_counter()
    if engine is None:
        model.fit(X, y)
    else:
        model.fit(ShardedData.from_samples(X, y, n_shards), engine=engine)
    seconds = time.perf_counter() - started
    assert model.duality_gap_ <= model.tol, model.duality_gap_
    return model, seconds


def row(name: str, model: Any, engine: Any) -> dict[str, Any]:
    """Figures of one fit."""
    line = {"where": name, "passes": model.n_iter_, "gap": rounded(model.duality_gap_, 2)}
    if engine is not None:
        last = engine.last_
        through_here = last.bytes_through_here - model.coef_.nbytes
        line |= {
            "rounds": last.n_rounds,
            "MB between workers": rounded(last.bytes_sent / 1e6, 3),
            "MB here": rounded(through_here / 1e6, 3),
        }
    return line


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--model", choices=MODELS, default="agm")
    parser.add_argument("--alpha", type=float, default=1e-3)
    parser.add_argument("--tol", type=float, default=0.05)
    parser.add_argument("--rounds", type=int, nargs="+", default=["auto"])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--parts", nargs="+", default=["time", "shards"])
    parser.add_argument("--json", action="store_true", help="JSON lines instead of a table")
    args = parser.parse_args()
    logging.getLogger("distributed").setLevel(logging.ERROR)
    data = load_conll2000("train").subset(slice(args.sentences))
    X, y = [chunking_attributes(s) for s in data.X], data.y
    settings = {"model": args.model, "alpha": args.alpha, "tol": args.tol}
    about = {**machine("distributed"), "sentences": len(X), **settings}
    lines: list[dict[str, Any]] = []
    few = X[:300], y[:300], {**settings, "tol": 0.5}
    clock = Clock()

    def timed(name: str, engine: Any, n_shards: int) -> None:
        model, seconds = fitted(X, y, settings, engine, n_shards)
        training = seconds - (clock.ready - clock.started)
        used = processor_seconds(None if engine is None else engine.client)
        most = max(used[worker] - clock.used[worker] for worker in clock.used)
        times = {"training": training, "processor": most, "seconds": seconds}
        times = {name: rounded(value) for name, value in times.items()}
        lines.append({**row(name, model, engine), **times})

    if "time" in args.parts:
        fitted(*few, None, 1)
        timed("this process", None, 1)
        for n in (1, 2):
            with (
                LocalCluster(n_workers=n, threads_per_worker=1, dashboard_address=None) as cluster,
                Client(cluster) as client,
            ):
                for rounds in args.rounds:
                    engine = DaskEngine(client, rounds_per_pass=rounds)
                    fitted(*few, engine, n)
                    timed(f"{n} worker(s)", engine, n)
    if "shards" in args.parts:
        for n in args.workers:
            with (
                LocalCluster(
                    n_workers=n, threads_per_worker=1, processes=False, dashboard_address=None
                ) as cluster,
                Client(cluster) as client,
            ):
                for rounds in args.rounds:
                    engine = DaskEngine(client, rounds_per_pass=rounds)
                    model, _ = fitted(X, y, settings, engine, n)
                    lines.append(row(f"{n} shard(s)", model, engine))
    show(lines, about, args.json)


if __name__ == "__main__":
    main()
