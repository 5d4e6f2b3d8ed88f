"""How often promises hold: bounds on costs, rules against misses, label sets, reviews.

Needs the environment variable ROBUSTRUCT_DATA. One CRF per data set is trained on samples for a
cost at which an entity taken for O costs 5 (letters: 1), its penalty and scale of scores chosen on
these. The other samples are a population whose mean costs are known. Samples are drawn from it,
with replacement for bounds and as splits for rules, and each draw promises something about the
population: what is counted is how often that is wrong. Nothing was tuned on these populations.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from corpora import load_conll2000, load_ocr, load_wnut17
from corpora.conll2000 import chunking_attributes
from corpora.pii import load_pii
from corpora.wnut17 import name_attributes
from protocol import Experiment, Key, Result, options
from robustruct import CRF
from robustruct.evaluation.actions import action_costs
from robustruct.guarantees.certificate import Observed, certified_cost
from robustruct.guarantees.risk_control import Calibration
from robustruct.losses import CostMatrix, Hamming, Loss
from robustruct.models.prediction import HeldOut, safety
from tables import Table

DATA = ("wnut17", "CoNLL-2000", "OCR", "pii")
SIZES = (100, 300, 1000)
DRAWS, SPLITS = 1000, 300
TARGETS = (0.2, 0.1, 0.05, 0.02)
CALIBRATION = {"wnut17": 1000, "CoNLL-2000": 1000, "OCR": 1000, "pii": 300}
UNCOVERED = 0.1
PRICES = (0.05, 0.1, 0.3)
N_TRAIN = 800
ALPHAS = [0.0003, 0.001, 0.003]


def samples_of(data: str) -> tuple[list[Any], list[Any], np.ndarray | None]:
    """(X, y, groups) of all samples, those for training first."""
    if data == "pii":
        parts = [load_pii(split) for split in ("train", "dev", "test")]
        X, y = ([one for part in parts for one in values(part)] for values in (_X, _y))
        return X, y, np.concatenate([part.groups for part in parts])
    if data == "OCR":
        words = load_ocr()
        X, y = [np.asarray(x, float) for x in words.X], list(words.y)
    elif data == "wnut17":
        parts = [load_wnut17(split) for split in ("train", "dev", "test")]
        X = [name_attributes(words) for part in parts for words in part.X]
        y = [labels for part in parts for labels in part.y]
    else:
        train = load_conll2000("train")
        X, y = [chunking_attributes(one) for one in train.X[:5000]], list(train.y[:5000])
    order = np.random.default_rng(0).permutation(len(X))
    return [X[i] for i in order], [y[i] for i in order], None


def _X(part: Any) -> Any:
    return part.X


def _y(part: Any) -> Any:
    return part.y


def loss_of(data: str, labels: np.ndarray) -> Loss:
    """An entity that is taken for O costs 5; letters have no O."""
    if data == "OCR":
        return Hamming()
    cost = 1 - np.eye(len(labels))
    cost[:, labels == "O"] *= 5
    return CostMatrix(cost, labels)


def solve(settings: dict[str, Any], key: Key) -> Result:
    """One data set: a model, and all that is promised with it."""
    X, y, groups = samples_of(key["data"])
    n = 893 if key["data"] == "pii" else N_TRAIN
    if settings["limit"]:
        X, y, n = X[: 4 * settings["limit"]], y[: 4 * settings["limit"]], settings["limit"]
        groups = None if groups is None else groups[: len(X)]
    labels = np.unique(np.concatenate(y))
    model = CRF(loss_of(key["data"], labels), alpha=ALPHAS, decision="bayes", random_state=0)
    model.fit(X[:n], y[:n], groups=None if groups is None else groups[:n])
    held_out = HeldOut.of(model, X[n:], y[n:])
    costs, weights = held_out.costs(held_out.decided(model)), held_out.weights
    observed = Observed(costs, weights, float(held_out.cost.min()), float(held_out.cost.max()))
    sizes = [size for size in SIZES if size <= len(costs)]
    draws = settings["draws"]
    found: Result = {
        "n": len(costs),
        "cost": float((costs / weights).mean()),
        "bounds": {size: coverage(observed, size, "sample", draws) for size in sizes},
        "per node": coverage(observed, sizes[-1], "node", draws),
        "reviews": reviews(model, X[n:], y[n:]),
    }
    if groups is not None:
        found["groups"] = grouped_coverage(observed, groups[n:], draws)
    if key["data"] != "OCR":
        n_calibration = min(CALIBRATION[key["data"]], len(costs) // 2)
        found["rules"] = rules(model, held_out, n_calibration, settings["splits"])
    found["sets"] = sets(model, held_out, len(costs) // 2, settings["splits"])
    return found


def coverage(observed: Observed, size: int, per: str, draws: int) -> dict[str, float]:
    """How often draws of ``size`` samples are violated, and how wide their bounds are."""
    rng, n = np.random.default_rng(0), len(observed.costs)
    true = float((observed.costs / observed.weights).mean())
    if per == "node":
        true = float(observed.costs.sum() / observed.weights.sum())
    longest = float(observed.weights.max())
    bounds = []
    for _ in range(draws):
        some = rng.integers(n, size=size)
        drawn = Observed(
            observed.costs[some], observed.weights[some], observed.least, observed.most,
            longest=longest,
        )  # fmt: skip
        bounds.append(certified_cost(drawn, per=per))
    upper = np.array([one.upper for one in bounds])
    return {
        "violated": float(np.mean(upper < true)),
        "violated below": float(np.mean([one.lower > true for one in bounds])),
        "width": float(np.median(upper) / true),
        "warned": float(np.mean([len(one.warnings) > 0 for one in bounds])),
    }


def grouped_coverage(observed: Observed, groups: np.ndarray, draws: int) -> dict[str, float]:
    """The same for whole groups, and for their samples taken for independent."""
    rng = np.random.default_rng(0)
    names, number = np.unique(groups, return_inverse=True)
    members = [np.flatnonzero(number == g) for g in range(len(names))]
    per_sample = observed.costs / observed.weights
    true = float(np.mean([per_sample[some].mean() for some in members]))
    pooled, violated = [], {"groups": 0, "samples": 0}
    widths = []
    for _ in range(draws):
        chosen = rng.integers(len(members), size=len(members))
        some = np.concatenate([members[g] for g in chosen])
        which = np.repeat(np.arange(len(chosen)), [len(members[g]) for g in chosen])
        ends = observed.least, observed.most
        by_group = certified_cost(
            Observed(observed.costs[some], observed.weights[some], *ends, groups=which)
        )
        alone = certified_cost(Observed(observed.costs[some], observed.weights[some], *ends))
        pooled.append(len(alone.warnings) > 0)
        violated["groups"] += by_group.upper < true
        # Of these the truth is the mean over samples of a drawn group, weighted by its size.
        violated["samples"] += alone.upper < float(per_sample.mean())
        widths.append(by_group.upper / true)
    return {
        "n": len(names),
        "violated": violated["groups"] / draws,
        "violated as samples": violated["samples"] / draws,
        "width": float(np.median(widths)),
        "warned": float(np.mean(pooled)),
    }


def rules(model: CRF, held_out: HeldOut, n: int, splits: int) -> dict[str, dict[str, Any]]:
    """What share of entities a rule misses on the samples that did not calibrate it."""
    probabilities = model._probabilities(model._feasible(model._scores(held_out.design)))
    assert held_out.known is not None
    code = model._code_of("O")
    entity = held_out.known[held_out.truth] != "O"
    level, of = safety(probabilities, code), _owners(held_out)
    counted = np.bincount(of, entity).astype(np.intp)
    most, found = int(counted.max()), {}
    for target in TARGETS:
        shares, alarms, needed, refused = [], [], 0, 0
        rng = np.random.default_rng(0)
        for _ in range(splits):
            first = np.zeros(len(counted), bool)
            first[rng.permutation(len(counted))[:n]] = True
            inside = first[of]
            try:
                threshold, needed = Calibration(level[inside & entity], counted[first]).controlled(
                    target, most
                )
            except ValueError:
                refused += 1
                continue
            new = ~inside
            flagged = level <= threshold
            shares.append(float((~flagged)[new & entity].mean()))
            alarms.append(float((flagged & ~entity)[new].mean()))
        found[str(target)] = {
            "n": n, "most": most, "refused": refused, "needed": needed,
            "missed": float(np.mean(shares)) if shares else None,
            "alarms": float(np.mean(alarms)) if alarms else None,
        }  # fmt: skip
    return found


def sets(model: CRF, held_out: HeldOut, n: int, splits: int) -> dict[str, float]:
    """What share of nodes has its label in its set, and how large sets are."""
    probabilities = model._probabilities(model._feasible(model._scores(held_out.design)))
    assert held_out.known is not None
    place = {name: a for a, name in enumerate(model.classes_.tolist())}
    truth = np.array([place.get(name, -1) for name in held_out.known.tolist()])[held_out.truth]
    level = 1.0 - probabilities[np.arange(len(truth)), truth]
    level[truth < 0] = np.inf
    of = _owners(held_out)
    sizes, rng = np.bincount(of), np.random.default_rng(0)
    covered, labels = [], []
    for _ in range(splits):
        first = np.zeros(len(sizes), bool)
        first[rng.permutation(len(sizes))[:n]] = True
        calibration = Calibration(level[first[of]], sizes[first])
        threshold, _ = calibration.controlled(UNCOVERED, int(sizes.max()))
        new = ~first[of]
        covered.append(float((level[new] <= threshold).mean()))
        labels.append(float((1.0 - probabilities[new] <= threshold).sum(axis=1).mean()))
    return {"covered": float(np.mean(covered)), "labels": float(np.mean(labels))}


def reviews(model: CRF, X: Sequence[Any], y: Sequence[Any]) -> dict[str, dict[str, float]]:
    """What reviewing costs at each price."""
    found = {}
    for price in PRICES:
        costs = action_costs(model, X, y, {"review": price})
        found[str(price)] = {
            "cost": costs.cost, "share": costs.shares["review"], "never": costs.never,
        }  # fmt: skip
    return found


def _owners(held_out: HeldOut) -> np.ndarray:
    """(N,) the sample of each node."""
    sizes = np.diff(held_out.design.batch.node_offsets)
    return np.repeat(np.arange(len(sizes)), sizes)


def tables(results: Sequence[Result]) -> list[Table]:
    """Bounds, groups, rules, sets and reviews."""
    bounds, controlled, sets_of, reviewed = [], [], [], []
    for r in results:
        name = r["data"]
        sizes = sorted(r["bounds"], key=int)  # JSON keeps them as text
        rows = [(f"{size} samples", r["bounds"][size]) for size in sizes]
        rows.append((f"{sizes[-1]} samples, per node", r["per node"]))
        for what, found in rows:
            bounds.append([
                f"{name}, {what}", f"{r['cost']:.4f}", f"{found['violated']:.3f}",
                f"{found['violated below']:.3f}", f"{found['width']:.2f}", f"{found['warned']:.3f}",
            ])  # fmt: skip
        if "groups" in r:
            g = r["groups"]
            bounds.append([
                f"{name}, {g['n']} templates", f"{r['cost']:.4f}", f"{g['violated']:.3f}", "",
                f"{g['width']:.2f}", "",
            ])  # fmt: skip
            bounds.append([
                f"{name}, the same as independent texts", f"{r['cost']:.4f}",
                f"{g['violated as samples']:.3f}", "", "", f"{g['warned']:.3f}",
            ])  # fmt: skip
        for target, rule in r.get("rules", {}).items():
            reached = rule["missed"] is not None
            controlled.append([
                f"{name}, {rule['n']} samples, most {rule['most']}", target,
                f"{rule['missed']:.3f}" if reached else "impossible",
                f"{100 * rule['alarms']:.1f} %" if reached else "",
                f"{rule['refused']}",
            ])  # fmt: skip
        sets_of.append([name, f"{r['sets']['covered']:.3f}", f"{r['sets']['labels']:.2f}"])
        for price, found in r["reviews"].items():
            reviewed.append([
                f"{name}, review at {price}", f"{found['cost']:.4f}", f"{found['share']:.1%}",
                price, f"{found['never']:.4f}",
            ])  # fmt: skip
    return [
        Table(
            "Upper bounds at 95 %",
            ["drawn", "true cost", "violated", "lower bound violated", "median bound / true",
             "warned of neighbours"],
            bounds,
            f"Of {DRAWS} draws; at most .05 may be violated.",
        ),
        Table(
            "Entities missed under a rule",
            ["calibrated on", "target", "missed, mean", "false alarms", "refused"],
            controlled,
            f"Means over {SPLITS} splits; refused: splits whose samples cannot promise the target.",
        ),
        Table("Sets of labels at 90 %", ["data", "covered", "labels per node"], sets_of),
        Table(
            "Reviews", ["", "cost", "reviewed", "review all", "review nothing"], reviewed
        ),
    ]  # fmt: skip


def main() -> None:
    parser = options("promises", __doc__)
    parser.add_argument("--data", nargs="+", choices=DATA, default=DATA, help="data sets (all)")
    args = parser.parse_args()
    settings = {"limit": args.limit, "draws": DRAWS, "splits": SPLITS}
    experiment = Experiment(args, settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        keys: list[Key] = [{"data": data} for data in args.data]
        results = experiment.run(functools.partial(solve, settings), keys, "data sets")
    experiment.report(tables(results), results)


if __name__ == "__main__":
    main()
