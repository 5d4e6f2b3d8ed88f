"""How to decide above temperature 0 where costs are symmetric: three ways, on held-out samples.

Needs the environment variable ROBUSTRUCT_DATA. The data sets and costs are those of family.py whose
costs are symmetric, training samples only: three folds, each held out once. AGM and SSVM are
trained at three temperatures with the usual penalty and another, ten times weaker (of emotion,
where that is too weak, ten times stronger). Each fit is asked by all three decisions, so nothing
but these differs. Differences are tested by paired sign flips over held-out samples.
"""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from corpora import emotion_splits, load_emotion
from family import CELLS, EMOTION
from protocol import SIGNIFICANCE, Experiment, Key, Result, options
from robustruct import AGM, SSVM
from robustruct.comparison.samples import Samples
from robustruct.comparison.significance import sign_flip_p_value
from robustruct.datasets import position_weights
from robustruct.losses import as_loss
from tables import Table

SYMMETRIC = (
    ("digits", "absolute", 100),
    ("digits", "squared", 100),
    ("OCR", "hamming", 200),
    ("OCR", "look-alike", 200),
    ("names", "1", 300),
    ("roles", "1", 150),
    ("sentiment", "absolute", 100),
    ("sentiment", "squared", 100),
    ("scene", "1", 250),
    *(("emotion", f"{weights}, {loss}", 0) for weights, loss in EMOTION),
)
KINDS = {"AGM": AGM, "SSVM": SSVM}
TEMPERATURES = (0.3, 1.0, 3.0)
DECISIONS = ("map", "predictor", "bayes")
FOLDS = 3


@functools.lru_cache(maxsize=1)  # most of the time goes into reading them
def samples_of(data: str, loss: str, n: int) -> tuple[Samples, Any]:
    """(the training samples, the cost)."""
    if data != "emotion":
        train, _, cost = CELLS[data][0](loss, n)
        return train, cost
    weighting, cost = loss.split(", ")
    every, (train, _) = load_emotion(), emotion_splits()[0]
    by_position = position_weights(every.y)
    weights = (
        by_position if weighting == "position" else [np.full(len(y), 1 / len(y)) for y in every.y]
    )
    X, y, weight = ([values[i] for i in train] for values in (every.X, every.y, weights))
    return Samples(X, y, node_weight=weight), cost


def solve(settings: dict[str, Any], key: Key) -> Result:
    """One data set, cost, model, temperature and penalty: mean held-out costs, and p-values."""
    samples, loss = samples_of(key["data"], key["loss"], settings["limit"] or key["n"])
    order = np.random.default_rng(0).permutation(len(samples))
    if settings["limit"]:
        order = order[: settings["limit"]]
    costs: dict[str, list[float]] = {decision: [] for decision in DECISIONS}
    total, gap = 0.0, 0.0
    for held_out in np.array_split(order, FOLDS):
        train, test = samples.take(np.setdiff1d(order, held_out)), samples.take(held_out)
        model = KINDS[key["model"]](loss, temperature=key["temperature"], random_state=0, tol=0.02)
        given = {"node_weight": train.node_weight}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one pass is enough to know the usual penalty
            usual = model.set_params(max_iter=1).fit(train.X, train.y, **given).alpha_
        model.set_params(max_iter=200, alpha=usual * key["penalty"]).fit(train.X, train.y, **given)
        gap = max(gap, model.duality_gap_)
        weights = test.node_weight or [np.ones(len(y)) for y in test.y]
        total += sum(weight.sum() for weight in weights)
        labels = np.unique(np.concatenate([*samples.y]))
        for decision in DECISIONS:
            found = model.set_params(decision=decision).predict(test.X, test.node_weight)
            costs[decision] += [
                float(weight @ as_loss(loss).evaluate(np.asarray(y), np.asarray(p), labels))
                for weight, y, p in zip(weights, test.y, found, strict=True)
            ]
    rng = np.random.default_rng(0)
    against = {d: np.subtract(costs[d], costs["map"]) for d in DECISIONS[1:]}
    return {
        "costs": {decision: sum(values) / total for decision, values in costs.items()},
        "p": {d: sign_flip_p_value(difference, rng) for d, difference in against.items()},
        "gap": gap,
    }


def tables(results: Sequence[Result]) -> list[Table]:
    """By model and kind of cost: how often each decision costs less or more than "map"."""
    rows = []
    for model, equal in itertools.product(KINDS, (True, False)):
        some = [r for r in results if r["model"] == model and is_equal(r["loss"]) == equal]
        row = [f"{model}, {'all mistakes cost the same' if equal else 'other symmetric costs'}"]
        for decision in DECISIONS[1:]:
            change = [r["costs"][decision] / r["costs"]["map"] - 1 for r in some]
            sure = [r["p"][decision] < SIGNIFICANCE for r in some]
            less = sum(s and c < 0 for s, c in zip(sure, change, strict=True))
            more = sum(s and c > 0 for s, c in zip(sure, change, strict=True))
            row += [f"{100 * np.mean(change):+.1f} %", f"{less} / {more} of {len(some)}"]
        rows.append(row)
    heads = [f"{d}: {what}" for d in DECISIONS[1:] for what in ("mean change", "less / more")]
    caption = (
        "Held-out cost against that of the best labelling; how often it is significantly less or "
        f"more (sign flips, {SIGNIFICANCE}). Largest gap {max(r['gap'] for r in results):.2g}."
    )
    return [Table("Decisions above temperature 0, symmetric costs", ["", *heads], rows, caption)]


def is_equal(loss: str) -> bool:
    """Whether all mistakes cost the same."""
    return loss == "1" or "hamming" in loss


def main() -> None:
    args = options("decisions", __doc__).parse_args()
    keys: list[Key] = [
        {"data": d, "loss": loss, "n": n, "model": model, "temperature": t, "penalty": penalty}
        for (d, loss, n), model, t in itertools.product(SYMMETRIC, KINDS, TEMPERATURES)
        for penalty in (1.0, 10.0 if d == "emotion" else 0.1)
    ]
    settings = {"limit": args.limit}
    experiment = Experiment(args, settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = experiment.run(functools.partial(solve, settings), keys, "fits")
    experiment.report(tables(results), results)


if __name__ == "__main__":
    main()
