"""What do several processes cost and gain: rounds, bytes on the wire, time to a certified gap?

Run: ROBUSTRUCT_DATA=... python benchmarks/several_processes.py [--sentences 2000]

CoNLL-2000 chunking, AGM (Hamming), the attributes of the CRF++ template. Two questions:

time    this process, one Dask worker process and two of them, one thread each, to the same
        certified gap. Workers have compiled before; reading and encoding count.
shards  rounds and bytes to the gap against the number of workers that share the data, all of them
        threads of one process: their times mean nothing, so none are shown.
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

from robustruct import AGM
from robustruct.datasets import chunking_attributes, load_conll2000
from robustruct.engines import DaskEngine, ShardedData
from timing import machine, rounded, show


def fitted(
    X: Sequence[Any], y: Sequence[Any], alpha: float, tol: float, engine: Any, n_shards: int
) -> tuple[AGM, float]:
    """A model, and the seconds it took."""
    model = AGM(alpha=alpha, tol=tol, random_state=0, engine=engine)
    started = time.perf_counter()
    if engine is None:
        model.fit(X, y)
    else:
        model.fit(ShardedData.from_samples(X, y, n_shards))
    seconds = time.perf_counter() - started
    assert model.duality_gap_ <= tol, model.duality_gap_
    return model, seconds


def row(name: str, model: AGM, engine: Any, rounds: int) -> dict[str, Any]:
    """Figures of one fit."""
    line = {"where": name, "passes": model.n_iter_, "gap": rounded(model.duality_gap_, 2)}
    if engine is not None:
        last = engine.last_
        per_round = (last.bytes_sent + last.bytes_received) / last.n_rounds
        line |= {
            "rounds a pass": rounds,
            "rounds": last.n_rounds,
            "MB a round": rounded(per_round / 1e6, 3),
            "MB": rounded((last.bytes_sent + last.bytes_received) / 1e6, 3),
        }
    return line


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--alpha", type=float, default=1e-3)
    parser.add_argument("--tol", type=float, default=0.05)
    parser.add_argument("--rounds", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--parts", nargs="+", default=["time", "shards"])
    parser.add_argument("--json", action="store_true", help="JSON lines instead of a table")
    args = parser.parse_args()
    logging.getLogger("distributed").setLevel(logging.ERROR)
    data = load_conll2000("train").subset(slice(args.sentences))
    X, y = [chunking_attributes(s) for s in data.X], data.y
    about = {**machine("distributed"), "sentences": len(X), "alpha": args.alpha, "tol": args.tol}
    goal = args.alpha, args.tol
    lines: list[dict[str, Any]] = []
    if "time" in args.parts:
        AGM(tol=0.5).fit(X[:300], y[:300])
        model, seconds = fitted(X, y, *goal, None, 1)
        lines.append({**row("this process", model, None, 1), "seconds": rounded(seconds)})
        for n in (1, 2):
            with (
                LocalCluster(n_workers=n, threads_per_worker=1, dashboard_address=None) as cluster,
                Client(cluster) as client,
            ):
                AGM(tol=0.5, engine=DaskEngine(client)).fit(X[:300], y[:300])
                for rounds in args.rounds:
                    engine = DaskEngine(client, rounds_per_pass=rounds)
                    model, seconds = fitted(X, y, *goal, engine, n)
                    lines.append(
                        {
                            **row(f"{n} worker(s)", model, engine, rounds),
                            "seconds": rounded(seconds),
                        }
                    )
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
                    model, _ = fitted(X, y, *goal, engine, n)
                    lines.append(row(f"{n} shard(s)", model, engine, rounds))
    show(lines, about, args.json)


if __name__ == "__main__":
    main()
