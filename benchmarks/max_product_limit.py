"""How close does max-product come to a plain loop in C that does nothing but add and compare?

Run: python benchmarks/max_product_limit.py

Chains with one transition table and 3, 9, 22 and 50 labels, one thread on both sides. The limit is
the sweep up a chain, message[a] = max(message[a], score[b] + table[b][a]) over contiguous rows,
compiled here with ``cc -O3 -march=native``. Ours is timed twice: "up", the same sweep of the
kernel, and "labelling", with the sweep down that reads off the best labels. Both work on the same
arrays, and their sums must be equal to the last bit before a time is printed. Additions are nodes
times labels squared. Bar: the labelling runs at half the additions a second of the loop in C.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported

import argparse
import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from robustruct.graphs import Batch
from robustruct.inference import score_of
from robustruct.kernels.max_product import max_product, max_product_up
from robustruct.scores import Scores
from timing import best_time, machine, rounded, show

BAR = 0.5
FLAGS = ("-O3", "-march=native", "-shared", "-fPIC")
SOURCE = r"""
#include <stddef.h>

/* best[i][a] = unary[i][a] + max over b of best[i - 1][b] + table[b][a], chain by chain. */
void sweep_up(ptrdiff_t n_chains, ptrdiff_t length, ptrdiff_t k, const double *restrict unary,
              const double *restrict table, double *restrict best, double *restrict message)
{
    for (ptrdiff_t s = 0; s < n_chains; s++) {
        for (ptrdiff_t a = 0; a < k; a++)
            best[a] = unary[a];
        for (ptrdiff_t i = 1; i < length; i++) {
            for (ptrdiff_t a = 0; a < k; a++)
                message[a] = best[0] + table[a];
            for (ptrdiff_t b = 1; b < k; b++) {
                const double score = best[b];
                const double *row = table + b * k;
                for (ptrdiff_t a = 0; a < k; a++) {
                    const double value = score + row[a];
                    message[a] = value > message[a] ? value : message[a];
                }
            }
            best += k;
            unary += k;
            for (ptrdiff_t a = 0; a < k; a++)
                best[a] = unary[a] + message[a];
        }
        best += k;
        unary += k;
    }
}
"""


def compiled(compiler: str, folder: str) -> Callable[..., None]:
    """The loop, as a function of numbers and addresses."""
    source, library = Path(folder) / "limit.c", Path(folder) / "limit.so"
    source.write_text(SOURCE)
    subprocess.run([compiler, *FLAGS, "-o", str(library), str(source)], check=True)
    sweep = ctypes.CDLL(str(library)).sweep_up
    sweep.restype = None
    sweep.argtypes = [ctypes.c_ssize_t] * 3 + [ctypes.c_void_p] * 4
    return sweep


def measure(sweep: Callable[..., None], n_nodes: int, length: int, k: int, repeat: int) -> dict:
    rng = np.random.default_rng(k)
    n_chains = max(n_nodes // length, 1)
    batch = Batch.build([(length, None)] * n_chains)
    table_of = np.zeros(batch.n_nodes, np.intp)
    unary, table = rng.normal(size=(batch.n_nodes, k)), rng.normal(size=(1, k, k))
    limit, best, message = np.empty_like(unary), np.empty_like(unary), np.empty(k)
    labels, values = np.empty(batch.n_nodes, np.intp), np.empty(n_chains)
    scores = Scores(batch, unary, table, table_of)
    addresses = [array.ctypes.data for array in (unary, table, limit, message)]
    work = {
        "C": lambda: sweep(n_chains, length, k, *addresses),
        "up": lambda: max_product_up(0, batch.n_nodes, batch.parent, unary, table, table_of, best),
        "labelling": lambda: max_product(
            0, n_chains, batch.structure, scores.arrays, best, labels, values
        ),
    }
    for call in work.values():
        call()
        if call is not work["C"]:
            np.testing.assert_array_equal(best, limit)
    found = score_of(Scores(batch, unary, table, table_of), labels)
    np.testing.assert_allclose(found, limit[length - 1 :: length].max(axis=1), rtol=1e-10)
    # Taken in turns, so that a busy machine slows all of them.
    runs = [{name: best_time(call, 1) for name, call in work.items()} for _ in range(repeat)]
    rates = {name: batch.n_nodes * k**2 / min(run[name] for run in runs) for name in work}
    row: dict[str, Any] = {"labels": k, "nodes": batch.n_nodes, "threads": 1}
    row |= {f"{name}, 1e9 / s": rounded(rate / 1e9, 3) for name, rate in rates.items()}
    row |= {f"{name} / C": rounded(rates[name] / rates["C"], 3) for name in ("up", "labelling")}
    return row | {"bar": BAR}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--labels", type=int, nargs="+", default=[3, 9, 22, 50])
    parser.add_argument("--nodes", type=int, default=20_000, help="few enough to stay in cache")
    parser.add_argument("--length", type=int, default=25, help="nodes of a chain")
    parser.add_argument("--repeat", type=int, default=200, help="runs of each, the fastest counts")
    parser.add_argument("--compiler", default="cc")
    parser.add_argument("--json", action="store_true", help="JSON lines instead of a table")
    args = parser.parse_args()
    if shutil.which(args.compiler) is None:
        raise SystemExit(f"no C compiler {args.compiler!r}; name yours with --compiler")
    told = subprocess.run([args.compiler, "--version"], capture_output=True, text=True, check=True)
    about = {**machine(), "compiler": told.stdout.splitlines()[0]}
    with tempfile.TemporaryDirectory() as folder:
        sweep = compiled(args.compiler, folder)
        rows = [measure(sweep, args.nodes, args.length, k, args.repeat) for k in args.labels]
    show(rows, about, args.json)


if __name__ == "__main__":
    main()
