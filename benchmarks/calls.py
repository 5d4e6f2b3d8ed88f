"""What does a call of a public function cost beside the compiled code that does the work?

Run: python benchmarks/calls.py [--only "solve_game"] [--games 5] [--json]

First table: labelling one sentence, and a game on a tree of 18 nodes with 3 labels. Total and
kernels are the best of many calls each; kernels are timed where the library calls them, in calls of
their own, so that the clock is not part of the total. What is left is Python's. All times are of
the processor.

Second table: `solve_game` on random trees with random costs, to a gap of 1e-6, beside HiGHS through
scipy.optimize.linprog on the plain linear program, that call alone. Medians over games of the best
times.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
from scipy.optimize import linprog

from corpora import chunking_attributes
from game_solvers import SIZES, plain_program, random_game
from robustruct import AGM, CRF, SSVM, solve_game
from robustruct.core.library import Function
from timing import machine, rounded, show

BAR = 0.15  # ms outside kernels
RATIO_BARS = {(18, 3): 15, (20, 9): 20, (8, 26): 30, (24, 22): 40}
REPEATS = 1000


def tree(n: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Arguments of `solve_game`: the tree of `random_game` with the same scores and costs."""
    game = random_game(n, k, "tree", seed)
    batch = game.scores.batch
    tables = game.scores.tables[game.scores.table_of[batch.slot_of_edge]]
    swapped = batch.flipped[batch.slot_of_edge]
    tables = np.where(swapped[:, None, None], tables.transpose(0, 2, 1), tables)
    return batch.to_user(game.scores.unary), batch.user_edges, tables, game.cost.T


def sentences() -> tuple[list, list]:
    draw = np.random.default_rng(0)
    tags = ["O", *(f"{begin}-{kind}" for kind in ("NP", "VP", "PP", "ADVP") for begin in "BI")]
    y = [draw.choice(tags, 12).tolist() for _ in range(20)]
    X = [chunking_attributes([(f"{tag}{draw.integers(9)}", tag[-2:]) for tag in s]) for s in y]
    return X, y


def calls() -> Iterator[tuple[str, Callable[[], object]]]:
    X, y = sentences()
    one = [[[name for name, _ in zip(node, range(3), strict=False)] for node in X[0]]]
    for kind, decisions in (
        (AGM, ("map", "predictor")),
        (SSVM, ("map",)),
        (CRF, ("map", "bayes")),
    ):
        for decision in decisions:
            model = kind(alpha=0.01, tol=0.2, decision=decision, random_state=0).fit(X, y)
            yield f"predict, {kind.__name__}, {decision}", lambda model=model: model.predict(one)
    game = tree(18, 3, 0)
    yield "solve_game", lambda: solve_game(*game)


def best(call: Callable[[], object], repeats: int) -> float:
    """Seconds of the best of so many calls."""
    times = []
    for _ in range(repeats):
        started = time.process_time()
        call()
        times.append(time.process_time() - started)
    return min(times)


class _Timed:
    """A kernel that keeps the time spent in it, that of all together."""

    spent = 0.0

    def __init__(self, kernel: Callable[..., object]) -> None:
        self.kernel = kernel

    def __call__(self, *arguments: object) -> object:
        started = time.process_time()
        try:
            return self.kernel(*arguments)
        finally:
            _Timed.spent += time.process_time() - started


def in_kernels(call: Callable[[], object]) -> float:
    """Seconds of the best of many calls that are spent in compiled functions."""
    found = [
        (vars(module), name, value)
        for module in list(sys.modules.values())
        if module.__name__.startswith("robustruct.")
        and not module.__name__.startswith("robustruct.core.")
        for name, value in vars(module).items()
        if isinstance(value, Function)
    ]
    for names, name, kernel in found:
        names[name] = _Timed(kernel)
    try:
        least = np.inf
        for _ in range(REPEATS):
            _Timed.spent = 0.0
            call()
            least = min(least, _Timed.spent)
    finally:
        for names, name, kernel in found:
            names[name] = kernel
    return least


def overhead(name: str, call: Callable[[], object]) -> dict[str, object]:
    total, kernels = best(call, REPEATS), in_kernels(call)
    return {
        "call": name,
        "total, ms": rounded(1e3 * total, 3),
        "kernels, ms": rounded(1e3 * kernels, 3),
        "outside, ms": rounded(1e3 * (total - kernels), 3),
        "bar": BAR,
    }


def against_highs(n: int, k: int, n_games: int) -> dict[str, object]:
    ours, theirs = [], []
    for seed in range(n_games):
        arguments, program = tree(n, k, seed), plain_program(random_game(n, k, "tree", seed))
        value, found = -linprog(**program).fun, solve_game(*arguments)
        if not found.lower - 1e-7 <= value <= found.upper + 1e-7:
            raise SystemExit(f"bounds {found.lower}, {found.upper} do not enclose {value}")
        ours.append(best(lambda a=arguments: solve_game(*a), 200))
        theirs.append(best(lambda p=program: linprog(**p), 10))
    mine, other = float(np.median(ours)), float(np.median(theirs))
    return {
        "nodes": n,
        "labels": k,
        "solve_game, ms": rounded(1e3 * mine, 3),
        "HiGHS, ms": rounded(1e3 * other, 3),
        "times": rounded(other / mine, 2),
        "bar": RATIO_BARS[n, k],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", metavar="TEXT", default="", help="calls with this in their name")
    parser.add_argument("--games", type=int, default=5, help="random games per size; 0: no HiGHS")
    parser.add_argument("--json", action="store_true", help="JSON lines, not tables")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    about = machine("scipy")
    rows = [overhead(*one) for one in calls() if options.only in one[0]]
    if rows:
        show(rows, about, options.json)
    if options.games:
        show([against_highs(*size, options.games) for size in SIZES], about, options.json)


if __name__ == "__main__":
    main()
