"""Does the time of the interior point grow linearly with the number of nodes?

    python benchmarks/game_growth.py --labels 5 --largest 10000

One random chain and one random tree per size, one thread. Checked before a time is printed: the
gap, recomputed from feasible strategies. Prints JSON lines, then time per node and iteration: that
it stays level is what linear means; iterations themselves grow a little.
"""

from __future__ import annotations

import argparse
import json
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from game_solvers import random_game
from robustruct.game.solvers import SOLVERS
from timing import best_time


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--solver", default="interior_point", choices=list(SOLVERS))
    parser.add_argument("--labels", type=int, default=5)
    parser.add_argument("--largest", type=int, default=10_000)
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--budget", type=float, default=2.0, help="seconds of repeats per size")
    args = parser.parse_args()
    solver = SOLVERS[args.solver]()
    solver.play(random_game(4, 2, "tree", 0), 1e-2, None, 1)  # compiles
    rows = []
    for n in np.unique(np.geomspace(10, args.largest, 7).round().astype(int)).tolist():
        for shape in ("chain", "tree"):
            game = random_game(n, args.labels, shape, 0)
            play = solver.play(game, args.tol, None, 1)
            play.repair(game, 1)
            lower, upper = play.bounds(game, 1)
            if upper[0] - lower[0] > game.allowed_gap(args.tol)[0]:
                raise SystemExit(
                    f"{shape}, n = {n}: gap {upper[0] - lower[0]} not within tolerance"
                )
            seconds = best_time(
                lambda g=game: solver.play(g, args.tol, None, 1), budget=args.budget
            )
            rows.append((shape, n, seconds, int(play.n_iter[0])))
            record = dict(zip(("shape", "n", "seconds", "iterations"), rows[-1], strict=True))
            print(json.dumps({"solver": args.solver, "k": args.labels, "tol": args.tol, **record}))
    print(
        f"\n{'shape':8}{'n':>8}{'ms':>12}{'iterations':>12}{'us per node':>14}{'and iteration':>15}"
    )
    for shape, n, seconds, steps in rows:
        each = 1e6 * seconds / n
        print(f"{shape:8}{n:8}{1e3 * seconds:12.3f}{steps:12}{each:14.2f}{each / steps:15.3f}")
    for shape in ("chain", "tree"):
        sizes, times = np.array([(n, t) for s, n, t, _ in rows if s == shape and n >= 100]).T
        slope = np.polyfit(np.log(sizes), np.log(times), 1)[0]
        print(f"{shape}: time grows as n^{slope:.2f} from n = {int(sizes[0])} on")


if __name__ == "__main__":
    main()
