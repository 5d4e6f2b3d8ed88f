"""Does exact inference take the time and memory that the treewidth predicts?

    python benchmarks/treewidth.py --nodes 60 --plot treewidth.png

Random graphs of treewidth exactly w: every node is joined to a clique of w nodes among those
before. One thread. Checked before a time is printed: the score of the best labelling is that of its
labels, and marginals of the nodes sum to 1. Predicted are n k^(w+1) steps, and 2 n k^w + k^(w+1)
numbers kept (MiB below); the time per step should stay level where tables are large, and the peak
of the whole process should grow by what is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from robustruct.graphs import Batch, treewidth
from robustruct.inference import best_labelling, marginals, score_of
from robustruct.scores import Scores


def k_tree(n_nodes: int, width: int, seed: int = 0) -> np.ndarray:
    """Edges of a random graph whose treewidth is ``width``."""
    rng = np.random.default_rng(seed)
    start = list(range(width + 1))
    edges = [(i, j) for i in start for j in range(i)]
    cliques = [[i for i in start if i != left] for left in start]
    for node in range(width + 1, n_nodes):
        clique = cliques[rng.integers(len(cliques))]
        edges += [(node, i) for i in clique]
        cliques += [[*(i for i in clique if i != left), node] for left in clique]
    return np.array(edges, np.intp)


def best_time(work: object, budget: float) -> float:
    """Least CPU seconds of some repeats."""
    times: list[float] = []
    while sum(times) < budget and len(times) < 20:
        started = time.process_time()
        work()  # type: ignore[operator]
        times.append(time.process_time() - started)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=60)
    parser.add_argument("--widths", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--labels", type=int, nargs="+", default=[2, 5, 10])
    parser.add_argument("--budget", type=float, default=0.5, help="CPU seconds of repeats")
    parser.add_argument("--plot", help="file for a plot")
    args = parser.parse_args()
    rng, rows = np.random.default_rng(0), []
    for k in args.labels:
        for width in args.widths:
            edges = k_tree(args.nodes, width)
            assert treewidth(args.nodes, edges)[1] == width
            batch = Batch.build([(args.nodes, edges)])
            scores = Scores.from_user(
                batch, rng.normal(size=(args.nodes, k)), rng.normal(size=(len(edges), k, k))
            )
            labels, value = best_labelling(scores, 1)
            assert np.allclose(score_of(scores, labels), value)
            assert np.allclose(marginals(scores, n_jobs=1).nodes.sum(axis=1), 1.0)
            rows.append(
                {
                    "k": k,
                    "width": width,
                    "map_s": best_time(lambda s=scores: best_labelling(s, 1), args.budget),
                    "marginals_s": best_time(lambda s=scores: marginals(s, n_jobs=1), args.budget),
                    "mib": 8 * float(batch.buckets.table_sizes(k)[0]) / 2**20,
                    "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                }
            )
            print(json.dumps(rows[-1]), flush=True)
    print(
        f"\n{'k':>3}{'w':>3}{'MAP, ms':>12}{'marginals, ms':>16}{'MiB':>10}{'peak MiB':>11}"
        f"{'MAP ns/step':>14}{'marginals ns/step':>20}"
    )
    for row in rows:
        steps = args.nodes * float(row["k"]) ** (row["width"] + 1)
        print(
            f"{row['k']:3}{row['width']:3}{1e3 * row['map_s']:12.3f}"
            f"{1e3 * row['marginals_s']:16.3f}{row['mib']:10.3f}{row['peak_mib']:11.1f}"
            f"{1e9 * row['map_s'] / steps:14.2f}{1e9 * row['marginals_s'] / steps:20.2f}"
        )
    if args.plot:
        draw(rows, args.plot)


def draw(rows: list[dict[str, float]], file: str) -> None:
    """Time against treewidth, one line per number of labels; dotted, what is predicted."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6))
    for axis, key, title in zip(axes, ("map_s", "mib"), ("best labelling, s", "MiB"), strict=True):
        for k in sorted({row["k"] for row in rows}):
            some = [row for row in rows if row["k"] == k]
            widths = np.array([row["width"] for row in some])
            (line,) = axis.plot(widths, [row[key] for row in some], "o-", label=f"k = {k}")
            power = float(k) ** (widths - widths[-1])
            axis.plot(widths, some[-1][key] * power, ":", color=line.get_color())
        axis.set(xlabel="treewidth", ylabel=title, yscale="log", xticks=widths)
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(file, dpi=150)


if __name__ == "__main__":
    main()
