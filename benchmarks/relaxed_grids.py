"""How far is the relaxation from the exact answer, and is it worth having where there is none?

    python benchmarks/relaxed_grids.py

Narrow grids, where exact inference is possible: score of the rounded labelling and value of the
relaxed game against the exact ones. Then training on small grids and testing on large ones, too
wide for exact inference, against the same model without edges. Edges attract equal labels.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from robustruct import AGM, Graph, solve_game
from robustruct.datasets import make_grids
from robustruct.datasets.synthetic import grid_edges
from robustruct.game.relaxed import relaxed_labelling
from robustruct.graphs import Batch
from robustruct.inference import best_labelling
from robustruct.scores import Scores


def narrow(height: int, width: int, k: int, seed: int, attract: bool) -> dict[str, float]:
    """Exact and relaxed answers on one grid with random scores."""
    rng = np.random.default_rng(seed)
    n, edges = height * width, grid_edges(height, width)
    unary, pairwise = rng.normal(size=(n, k)), 0.7 * rng.normal(size=(len(edges), k, k))
    if attract:
        pairwise = np.broadcast_to(0.7 * np.eye(k), pairwise.shape)
    scores = Scores.from_user(Batch.build([(n, edges)]), unary, pairwise)
    _, rounded, upper = relaxed_labelling(scores, n_jobs=1)
    exact = best_labelling(scores, 1)[1]
    cost = 1.0 - np.eye(k)
    started = time.process_time()
    game = solve_game(unary, edges, pairwise, cost, solver="pairwise", tol=1e-3)
    middle = time.process_time()
    relaxed = solve_game(unary, edges, pairwise, cost, solver="relaxed", tol=1e-3)
    return {
        "map_short_%": 100 * float(1 - rounded[0] / exact[0]),
        "map_bound_over_%": 100 * float(upper[0] / exact[0] - 1),
        "game_over_%": 100 * (relaxed.value / game.value - 1),
        "exact_cpu_s": middle - started,
        "relaxed_cpu_s": time.process_time() - middle,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--size", type=int, default=30)
    parser.add_argument("--train", type=int, default=10, help="grids to train on")
    parser.add_argument("--test", type=int, default=5, help="grids to test on")
    args = parser.parse_args()
    narrow(2, 2, 2, 0, True)  # compiles
    for height, width, k in ((3, 20, 4), (4, 20, 4), (5, 12, 4)):
        for attract in (False, True):
            found = [narrow(height, width, k, seed, attract) for seed in range(args.seeds)]
            mean = {key: round(float(np.mean([f[key] for f in found])), 4) for key in found[0]}
            worst = round(max(f["map_short_%"] for f in found), 4)
            shape = {"grid": f"{height} x {width}", "k": k, "attract": attract}
            print(json.dumps({**shape, **mean, "worst_map_short_%": worst}), flush=True)
    n_samples = args.train + args.test
    data = make_grids(
        n_samples=n_samples, shape=(args.size, args.size), n_labels=4, noise=2.0, coupling=1.0
    )
    train, test = slice(0, args.train), slice(args.train, None)
    alone = [Graph(x.node_features, []) for x in data.X]
    for name, X in (("independent nodes", alone), ("relaxed grid", data.X)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            started = time.process_time()
            model = AGM(alpha=0.01 * args.size**2, tol=0.02, max_iter=500, random_state=0)
            model.fit(X[train], data.y[train])
        fitted = time.process_time() - started
        row = {
            "grid": f"{args.size} x {args.size}, 4 labels",
            "model": name,
            "inference": model.inference_,
            "test_error": -model.score(X[test], data.y[test]),
            "gap": model.duality_gap_,
            "passes": model.n_iter_,
            "fit_cpu_s": fitted,
        }
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
