"""Do more cores and more processes pay, on a corpus that needs them?

Run: python benchmarks/grown_corpus.py FOLDER, then
     python benchmarks/large_corpus.py FOLDER [--models crf agm smooth]

Public `fit` on the shards of FOLDER (features of the CRF++ chunking template) to a certified gap,
each row in a process of its own:

1 thread, 2 threads  this process
side by side         two fits of one thread each at the same time: what memory lets two cores do
1 worker, 2 workers  Dask workers, processes of one thread, which read the shards themselves
16 workers           passes only: workers are threads of one process, so times mean nothing

``training`` is what is left of ``fit`` once samples are encoded, by the clock; ``cpu`` the
processor seconds of training, of the process that had most; ``MiB`` the most memory of a process.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported

import argparse
import json
import logging
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from reading import template_text
from robustruct import AGM, CRF
from robustruct.engines import DaskEngine, ShardedData
from robustruct.formats.templates import Template
from several_processes import Clock, processor_seconds
from timing import machine, rounded, show

MODELS = {"crf": CRF(), "agm": AGM(), "smooth": AGM(temperature=1.0)}
ROWS = ("1 thread", "2 threads", "side by side", "1 worker", "2 workers", "16 workers")


def corpus(folder: Path) -> ShardedData:
    """The shards, with the attributes of the CRF++ template."""
    paths = sorted(folder.glob("part-*.conll.gz"))
    return ShardedData.from_files(paths, template=Template.parse(template_text()))


def peak() -> float:
    """MiB that this process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def fit(where: str, args: argparse.Namespace) -> dict[str, Any]:
    """Fit in this process, or on Dask workers that it starts."""
    count = int(where.split()[0]) if where[0].isdigit() else 1
    model = MODELS[args.model].set_params(tol=args.tol, random_state=0, alpha=args.alpha)
    clock, engine, most = Clock(), None, peak
    if "worker" in where:
        from distributed import Client, LocalCluster

        processes = count <= 2
        cluster = LocalCluster(
            n_workers=count, threads_per_worker=1, processes=processes, dashboard_address=None
        )
        client = Client(cluster)
        engine = DaskEngine(client)

        def most() -> float:
            return max(client.run(peak).values())

    else:
        model.set_params(n_jobs=count)
    started = time.perf_counter()
    model.fit(corpus(args.folder), engine=engine)
    ended = time.perf_counter()
    assert model.duality_gap_ <= model.tol, model.duality_gap_
    used = processor_seconds(None if engine is None else client)
    return {
        "model": args.model,
        "where": where,
        "passes": model.n_iter_,
        "seconds": rounded(ended - started),
        "training": rounded(ended - clock.ready),
        "cpu": rounded(max(used[one] - clock.used[one] for one in used)),
        "MiB": rounded(most(), 3),
        "bytes a token": rounded(most() * 2**20 / model.n_nodes_, 3),
    }


def apart(where: str, model: str, args: argparse.Namespace) -> dict[str, Any]:
    """Fit in a new process; of two that run side by side return the slower."""
    command = [sys.executable, __file__, str(args.folder), "--model", model, "--only", where]
    command += ["--tol", str(args.tol), "--alpha", str(args.alpha)]
    copies = 2 if where == "side by side" else 1
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(copies)]
    rows = [json.loads(one.communicate()[0].splitlines()[-1]) for one in running]
    return max(rows, key=lambda row: row["training"])


def main() -> None:
    """Run every row, or the one that ``--only`` names in this process."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", choices=MODELS, nargs="+", default=list(MODELS))
    parser.add_argument("--rows", choices=ROWS, nargs="+", default=ROWS)
    parser.add_argument("--tol", type=float, default=0.02)
    parser.add_argument("--alpha", type=float, default=1e-5)
    parser.add_argument("--json", action="store_true", help="JSON lines instead of a table")
    parser.add_argument("--model", choices=MODELS, help=argparse.SUPPRESS)
    parser.add_argument("--only", help=argparse.SUPPRESS)
    args = parser.parse_args()
    logging.getLogger("distributed").setLevel(logging.ERROR)
    if args.only:
        print(json.dumps(fit(args.only, args)))
        return
    lines = [apart(where, model, args) for model in args.models for where in args.rows]
    about = {**machine("distributed"), "tol": args.tol, "alpha": args.alpha}
    show(lines, about, args.json)


if __name__ == "__main__":
    main()
