"""How many nodes a second do max-product and sum-product label?

Run: python benchmarks/inference.py [--json]

Chains of 25 nodes with one transition table, as in a plain sequence model, and 3, 9, 22 and 50
labels; on one thread and on all cores. Before anything is timed, the best score and the marginals
are compared with a log-space computation in numpy. Best of --repeat runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

from robustruct.graphs import Batch
from robustruct.inference import best_labelling, marginals, score_of
from robustruct.parallel import n_threads
from robustruct.scores import Scores
from timing import best_time, machine, show

LENGTH = 25
N_LABELS = (3, 9, 22, 50)


def chains(n_nodes: int, k: int) -> Scores:
    rng = np.random.default_rng(k)
    batch = Batch.build([(LENGTH, None)] * max(n_nodes // LENGTH, 1))
    table_of = np.zeros(batch.n_nodes, np.intp)
    return Scores(batch, rng.normal(size=(batch.n_nodes, k)), rng.normal(size=(1, k, k)), table_of)


def check(scores: Scores, n_samples: int = 3) -> None:
    """Forwards and backwards in numpy on a few chains; an error where the kernels differ."""
    labels, values = best_labelling(scores)
    found = marginals(scores)
    np.testing.assert_allclose(score_of(scores, labels), values, rtol=1e-10)
    table = scores.tables[0]
    for s in range(n_samples):
        span = slice(s * LENGTH, (s + 1) * LENGTH)
        unary, k = scores.unary[span], scores.n_labels
        best, forward = unary[0], [unary[0]]
        backward = [np.zeros(k)]
        for t in range(1, LENGTH):
            best = (best[:, None] + table).max(axis=0) + unary[t]
            forward.append(logsumexp(forward[-1][:, None] + table, axis=0) + unary[t])
            backward.append(logsumexp(table + unary[-t] + backward[-1], axis=1))
        log_partition = logsumexp(forward[-1])
        nodes = np.exp(np.array(forward) + np.array(backward[::-1]) - log_partition)
        np.testing.assert_allclose(values[s], best.max(), rtol=1e-10)
        np.testing.assert_allclose(found.log_partition[s], log_partition, rtol=1e-10)
        np.testing.assert_allclose(found.nodes[span], nodes, atol=1e-10)


def measure(k: int, repeat: int) -> list[dict[str, object]]:
    scores = chains(min(500_000, 20_000_000 // k**2), k)
    check(scores)
    rows: list[dict[str, object]] = []
    for threads in sorted({1, n_threads(-1)}):
        questions: dict[str, Callable[[], object]] = {
            "max-product": lambda n=threads: best_labelling(scores, n),
            "sum-product": lambda n=threads: marginals(scores, n_jobs=n),
        }
        row: dict[str, object] = {"labels": k, "threads": threads}
        for name, work in questions.items():
            row[f"{name}, nodes/s"] = round(scores.batch.n_nodes / best_time(work, repeat))
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="JSON lines, not a table")
    options = parser.parse_args()
    about = machine()
    show([row for k in N_LABELS for row in measure(k, options.repeat)], about, options.json)


if __name__ == "__main__":
    main()
