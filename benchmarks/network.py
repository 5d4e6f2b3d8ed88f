"""How long does a round take when the network is a network?

Run as root on Linux: ROBUSTRUCT_DATA=... python benchmarks/network.py [--sentences 2000]

Workers live in network namespaces of this machine, each behind a link of its own whose bandwidth is
limited both ways (``tc tbf``); so do the scheduler and the process that calls ``fit``. Messages
between workers wait for ``--latency`` before they are sent, as not every kernel can delay packets.
CoNLL-2000 chunking, AGM, as in several_processes.py; each worker reads a file of its own.

For every bandwidth and number of workers: rounds, seconds of training up to the last certificate,
by the clock of the workers, and of a round; what a worker sent in a round, certificates included;
and what went over the link of the process that calls ``fit``, by the counters of its interface: in
all of training, and without the model at its end.

Workers share the cores of the machine, so the work of a round takes longer the more there are. The
last column is what a round should take: its seconds on links without limit, and the bytes of a
worker over the bandwidth.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported

import argparse
import contextlib
import json
import logging
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from timing import machine, rounded, show

NAME = "robustruct"
NETWORK = "10.77.0"


def ip(*arguments: object) -> None:
    subprocess.run(["ip", *map(str, arguments)], check=True)


@contextlib.contextmanager
def namespaces(count: int, mbit: int | None) -> Iterator[list[str]]:
    """Names of namespaces that reach each other through a bridge."""
    names = [f"{NAME}{i}" for i in range(count)]
    try:
        ip("link", "add", NAME, "type", "bridge")
        ip("link", "set", NAME, "up")
        for i, name in enumerate(names):
            outside = f"{NAME[:6]}{i}o"
            ip("netns", "add", name)
            ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", outside, "master", NAME, "up")
            ip("-n", name, "addr", "add", f"{NETWORK}.{i + 1}/24", "dev", "eth0")
            for device in ("eth0", "lo"):
                ip("-n", name, "link", "set", device, "up")
            if mbit is not None:
                rate = ["root", "tbf", "rate", f"{mbit}mbit", "burst", "256k", "latency", "400ms"]
                limit = ["tc", "qdisc", "add", "dev"]
                subprocess.run([*limit, outside, *rate], check=True)
                subprocess.run(["ip", "netns", "exec", name, *limit, "eth0", *rate], check=True)
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False)
        subprocess.run(["ip", "link", "del", NAME], check=False)


@contextlib.contextmanager
def inside(name: str, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a namespace, ended with it."""
    with subprocess.Popen(
        ["ip", "netns", "exec", name, sys.executable, *command], stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def link_bytes() -> int:
    """What has gone over the link of this namespace, both ways."""
    found = Path("/proc/net/dev").read_text().split("eth0:")[1].split()
    return int(found[0]) + int(found[8])


def delay(seconds: float) -> None:
    """Have messages to other workers wait; runs on a worker."""
    import asyncio

    from robustruct.engines.dask.collective import DaskCollective

    plain = DaskCollective._send_one

    async def send(collective: Any, rank: int, message: Any) -> None:
        await asyncio.sleep(seconds)
        await plain(collective, rank, message)

    DaskCollective._send_one = send


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Of one fit; runs in the first namespace."""
    from distributed import Client

    from robustruct import AGM
    from robustruct.engines import DaskEngine, ShardedData
    from robustruct.engines.dask.supervisor import OnWorkers

    found: dict[str, int] = {}
    minimise = OnWorkers.minimise

    def counted(*arguments: Any) -> None:
        before = link_bytes()
        minimise(*arguments)
        found["bytes"] = link_bytes() - before

    with Client(f"tcp://{NETWORK}.1:8786", timeout=60) as client:
        client.wait_for_workers(args.inside, timeout=120)
        client.run(delay, args.latency)
        engine = DaskEngine(client, rounds_per_pass=args.rounds or "auto")
        model = AGM(tol=0.5, random_state=0, n_jobs=1)
        data = ShardedData.from_files(f"{args.folder}/part-*.jsonl")
        model.set_params(max_iter=3).fit(data, engine=engine)  # compiles
        OnWorkers.minimise = counted
        model.set_params(alpha=1e-3, tol=args.tol, max_iter=1000).fit(data, engine=engine)
    last, weights, seconds = engine.last_, model.coef_.nbytes, model.history_[-1].time
    return {
        "passes": model.n_iter_,
        "rounds": last.n_rounds,
        "training, s": seconds,
        "a round, s": seconds / last.n_rounds,
        "a worker sent a round, MB": last.bytes_sent / last.n_rounds / args.inside / 1e6,
        "link of fit, MB": found["bytes"] / 1e6,
        "without the model, a round": (found["bytes"] - weights) / last.n_rounds / 1e6,
        "weights, MB": weights / 1e6,
    }


def one_run(args: argparse.Namespace, mbit: int | None, n_workers: int) -> dict[str, Any]:
    """Make the network and the cluster, and measure there."""
    scheduler = "-m", "distributed.cli.dask_scheduler", "--no-dashboard", "--port", "8786"
    worker = "-m", "distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny"
    address = f"tcp://{NETWORK}.1:8786"
    with namespaces(n_workers + 1, mbit) as names, contextlib.ExitStack() as stack:
        stack.enter_context(inside(names[0], *scheduler))
        for i, name in enumerate(names[1:], 2):
            where = "--host", f"{NETWORK}.{i}", "--no-dashboard", address
            stack.enter_context(inside(name, *worker, *where))
        command = [
            *("ip", "netns", "exec", names[0], sys.executable, __file__),
            *("--inside", str(n_workers), "--folder", args.folder, "--tol", str(args.tol)),
            *("--latency", str(args.latency)),
            *([] if args.rounds is None else ["--rounds", str(args.rounds)]),
        ]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return {"workers": n_workers, "Mbit/s": mbit or "no limit", **json.loads(done.stdout)}


def write_shards(folder: str, sentences: int, count: int) -> None:
    """The sentences in files, with the attributes that several_processes.py has."""
    from corpora import chunking_attributes, load_conll2000

    data = load_conll2000("train").subset(slice(sentences))
    lines = [
        json.dumps({"nodes": chunking_attributes(X), "labels": [str(label) for label in y]})
        for X, y in zip(data.X, data.y, strict=True)
    ]
    for i in range(count):
        Path(folder, f"part-{i}.jsonl").write_text("\n".join(lines[i::count]) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--tol", type=float, default=0.05)
    parser.add_argument("--rounds", type=int, help="of a pass; the engine's default if not given")
    parser.add_argument("--latency", type=float, default=1e-3, help="seconds")
    parser.add_argument("--mbit", type=int, nargs="+", default=[0, 1000, 100])
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--json", action="store_true", help="JSON lines instead of a table")
    parser.add_argument("--inside", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args()
    logging.getLogger("distributed").setLevel(logging.ERROR)
    if args.inside:
        print(json.dumps(measure(args)))
        return
    lines = []
    for n in args.workers:
        free = None
        for mbit in args.mbit:
            with tempfile.TemporaryDirectory() as args.folder:
                write_shards(args.folder, args.sentences, n)
                line = one_run(args, mbit or None, n)
            free = line["a round, s"] if free is None else free
            travel = 8 * line["a worker sent a round, MB"] / mbit if mbit else 0.0
            line["model, s"] = free + travel
            lines.append({k: rounded(v) if isinstance(v, float) else v for k, v in line.items()})
            print(json.dumps(lines[-1]), file=sys.stderr, flush=True)  # a later run may fail
    show(lines, {**machine("distributed"), "sentences": args.sentences}, args.json)


if __name__ == "__main__":
    main()
