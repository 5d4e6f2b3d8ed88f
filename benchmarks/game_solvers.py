"""How long does each solver of the game take to a certified gap of 1e-2, 1e-4 and 1e-6?

    python benchmarks/game_solvers.py                      all solvers, the table and JSON lines
    python benchmarks/game_solvers.py --solvers interior_point linear_program --plot times.png

Random chains and trees with a random cost matrix, one thread each. A time is the median over games
of the best of a few runs of ``solver.play`` on a prepared game; compilation is timed apart. Before
a time counts, the answer is checked: its bounds, recomputed from feasible strategies, must enclose
what HiGHS finds, and the gap must be within the tolerance; otherwise a dash is printed. Besides the
registered solvers, "highs" is HiGHS through scipy.optimize.linprog on the plain linear program, the
call alone: what one would use without this library.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from robustruct.game.game import Game
from robustruct.game.solver import GameSolver
from robustruct.game.solvers import SOLVERS
from robustruct.graphs import Batch
from robustruct.scores import Scores
from timing import best_time, machine

SIZES = ((18, 3), (20, 9), (8, 26), (24, 22))
TOLERANCES = (1e-2, 1e-4, 1e-6)
PLAIN = "highs"


def random_game(n: int, k: int, shape: str, seed: int) -> Game:
    rng = np.random.default_rng([n, k, seed])
    child = np.arange(1, n)
    parent = child - 1 if shape == "chain" else rng.integers(0, child)
    batch = Batch.build([(n, np.stack([parent, child], axis=1).astype(np.intp))])
    scores = Scores.from_user(batch, rng.normal(size=(n, k)), rng.normal(size=(n - 1, k, k)))
    cost = rng.random((k, k))
    np.fill_diagonal(cost, 0)
    return Game(scores, cost, np.ones(n))


def plain_program(game: Game) -> dict:
    """The adversary's linear program, max <ψ, q> + Σ v with v_i <= L r_i, for linprog."""
    scores, parent = game.scores, game.scores.batch.parent
    n, k = scores.unary.shape
    inner = np.flatnonzero(parent >= 0)
    m = len(inner)
    r = np.arange(n * k).reshape(n, k)
    q = n * k + np.arange(m * k * k).reshape(m, k, k)
    v = n * k + m * k * k + np.arange(n)
    size = v[-1] + 1
    ones, e = np.ones(k), np.arange(m)[:, None, None]
    labels = np.arange(k)[None, :, None]
    # Σ_a q(b, a) = r_child(b), Σ_b q(b, a) = r_parent(a), Σ_b r(b) = 1.
    rows_child = np.broadcast_to(e * k + labels, (m, k, k)).ravel()
    rows_parent = m * k + rows_child
    equal = sp.csr_array(
        (
            np.concatenate([np.ones(2 * m * k * k), -np.ones(2 * m * k), np.ones(n * k)]),
            (
                np.concatenate(
                    [
                        rows_child,
                        rows_parent,
                        np.arange(2 * m * k),
                        2 * m * k + np.repeat(np.arange(n), k),
                    ]
                ),
                np.concatenate(
                    [
                        q.ravel(),
                        q.transpose(0, 2, 1).ravel(),
                        r[inner].ravel(),
                        r[parent[inner]].ravel(),
                        r.ravel(),
                    ]
                ),
            ),
        ),
        shape=(2 * m * k + n, size),
    )
    below = sp.hstack(
        [
            sp.kron(sp.eye_array(n), -game.cost),
            sp.csr_array((n * k, m * k * k)),
            sp.kron(sp.eye_array(n), ones[:, None]),
        ],
        format="csr",
    )
    gain = np.concatenate(
        [scores.unary.ravel(), scores.tables[scores.table_of[inner]].ravel(), game.weight]
    )
    bounds = np.array([(0.0, np.inf)] * (size - n) + [(-np.inf, np.inf)] * n)
    right = np.concatenate([np.zeros(2 * m * k), np.ones(n)])
    return {
        "c": -gain,
        "A_ub": below,
        "b_ub": np.zeros(n * k),
        "A_eq": equal,
        "b_eq": right,
        "bounds": bounds,
        "method": "highs",
    }


def certified(game: Game, solver: GameSolver, tol: float, value: float) -> tuple[bool, int, float]:
    """Whether the bounds are close enough and enclose the value; iterations; relative gap."""
    play = solver.play(game, tol, None, 1)
    play.repair(game, 1)
    lower, upper = play.bounds(game, 1)
    gap, slack = upper[0] - lower[0], 1e-7 * (1 + abs(value))
    right = lower[0] - slack <= value <= upper[0] + slack
    if not right:
        raise SystemExit(f"{solver.name}: bounds {lower[0]}, {upper[0]} do not enclose {value}")
    return bool(gap <= game.allowed_gap(tol)[0]), int(play.n_iter[0]), float(gap / game.scale()[0])


def measurements(args: argparse.Namespace) -> Iterator[dict]:
    for n, k in SIZES:
        for shape in ("chain", "tree"):
            games = [random_game(n, k, shape, seed) for seed in range(args.games)]
            programs = [plain_program(game) for game in games]
            values = [-linprog(**program).fun for program in programs]
            common = {"n": n, "k": k, "shape": shape}
            if PLAIN in args.solvers:
                times = [best_time(lambda p=p: linprog(**p), budget=args.budget) for p in programs]
                for tol in args.tol:
                    yield {
                        **common,
                        "solver": PLAIN,
                        "tol": tol,
                        "seconds": float(np.median(times)),
                    }
            for name in args.solvers:
                if name not in SOLVERS or SOLVERS[name]().refusal(games[0]) is not None:
                    continue
                solver = SOLVERS[name]()
                given_up = False
                for tol in args.tol:
                    row = {**common, "solver": name, "tol": tol, "seconds": None}
                    if not given_up:
                        checks = [
                            certified(g, solver, tol, v) for g, v in zip(games, values, strict=True)
                        ]
                        given_up = not all(ok for ok, _, _ in checks)
                        row["iterations"] = float(np.median([steps for _, steps, _ in checks]))
                        row["largest_gap"] = max(gap for _, _, gap in checks)
                    if not given_up:
                        times = [
                            best_time(
                                lambda g=g, s=solver, t=tol: s.play(g, t, None, 1),
                                budget=args.budget,
                            )
                            for g in games
                        ]
                        row["seconds"] = float(np.median(times))
                    yield row


def compile_all(names: list[str]) -> dict[str, float]:
    """Seconds of each solver's first call, compilation (or reading its cache) and all."""
    game = random_game(4, 2, "tree", 0)
    seconds = {}
    for name in names:
        if name in SOLVERS and SOLVERS[name]().refusal(game) is None:
            start = time.perf_counter()
            SOLVERS[name]().play(game, 1e-2, None, 1)
            seconds[name] = time.perf_counter() - start
    return seconds


def print_table(rows: list[dict], solvers: list[str], tolerances: list[float]) -> None:
    by_key = {(r["n"], r["k"], r["shape"], r["solver"], r["tol"]): r["seconds"] for r in rows}
    print(f"\n{'milliseconds':26}" + "".join(f"{tol:>12.0e}" for tol in tolerances))
    for n, k in SIZES:
        for shape in ("chain", "tree"):
            print(f"{shape}, n = {n}, k = {k}")
            for name in solvers:
                times = [by_key.get((n, k, shape, name, tol)) for tol in tolerances]
                if any(key[:4] == (n, k, shape, name) for key in by_key):
                    cells = "".join(f"{'-' if t is None else f'{1e3 * t:.3f}':>12}" for t in times)
                    print(f"    {name:22}{cells}")
    fast = "auto" if "auto" in solvers else "interior_point"
    print(f"\nhow many times faster {fast} is")
    for other, tol in ((PLAIN, 1e-6), ("linear_program", 1e-6)):
        ratios = []
        for n, k in SIZES:
            for shape in ("chain", "tree"):
                slow = by_key.get((n, k, shape, other, tol))
                quick = by_key.get((n, k, shape, fast, tol))
                ratios.append("-" if not slow or not quick else f"{slow / quick:.0f}")
        print(f"    than {other:16} at {tol:.0e}: {'  '.join(ratios)}")


def plot(rows: list[dict], solvers: list[str], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        2, len(SIZES), figsize=(3.2 * len(SIZES), 6), sharex=True, sharey=True
    )
    for column, (n, k) in enumerate(SIZES):
        for line, shape in enumerate(("chain", "tree")):
            axis = axes[line, column]
            for name in solvers:
                points = [
                    (r["tol"], r["seconds"])
                    for r in rows
                    if (r["n"], r["k"], r["shape"], r["solver"]) == (n, k, shape, name)
                    and r["seconds"]
                ]
                if points:
                    axis.loglog(*zip(*points, strict=True), marker="o", label=name)
            axis.set_title(f"{shape}, n = {n}, k = {k}", fontsize=9)
    for axis in axes[1]:
        axis.set_xlabel("certified relative gap")
    for axis in axes[:, 0]:
        axis.set_ylabel("seconds")
    axes[0, 0].invert_xaxis()
    axes[0, -1].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [*SOLVERS, PLAIN]
    parser.add_argument("--solvers", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--tol", nargs="+", type=float, default=list(TOLERANCES))
    parser.add_argument("--games", type=int, default=5, help="random games per size and shape")
    parser.add_argument("--budget", type=float, default=0.5, help="seconds of repeats per game")
    parser.add_argument("--json", metavar="FILE", help="write JSON lines here, default: to stderr")
    parser.add_argument("--plot", metavar="FILE", help="write a plot (needs matplotlib)")
    args = parser.parse_args()
    about = machine("scipy")
    out = open(args.json, "w") if args.json else sys.stderr  # noqa: SIM115
    print(json.dumps({"first_call_seconds": compile_all(args.solvers), **about}), file=out)
    rows = []
    for row in measurements(args):
        rows.append(row)
        print(json.dumps(row), file=out, flush=True)
    print_table(rows, args.solvers, args.tol)
    if args.plot:
        plot(rows, args.solvers, args.plot)


if __name__ == "__main__":
    main()
