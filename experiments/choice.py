"""What a choice costs: test cost and processor time of the family beside a CRF with its scale.

Needs the environment variable ROBUSTRUCT_DATA. The CRF chooses alpha, decision and the scale of
scores; the family (`AutoModel`) also member and temperature; both on held-out training samples, of
whole templates where a cell says so. The unit of time is one fit of a CRF to 1 %, by the optimizer
for many nodes. Test samples are used once; the difference is tested by sign flips over test
samples, or over templates.
"""

from __future__ import annotations

import functools
import time
import warnings
from typing import Any

import numpy as np

from corpora import emotion_splits, load_citations, load_emotion, name_attributes
from corpora.pii import load_pii
from family import Cell, digits, names
from protocol import Experiment, Key, Result, options
from robustruct import CRF, AutoModel
from robustruct.comparison import Samples
from robustruct.comparison.significance import sign_flip_p_value
from robustruct.losses import CostMatrix, as_loss
from tables import Table, bold

OPTIONS: dict[str, Any] = {"random_state": 0, "n_jobs": 1}


def pii(miss: str, *, grouped: bool) -> Cell:
    """Personal data; the loss is what a token costs that is taken for none."""
    parts = [load_pii(split) for split in ("train", "test")]
    labels = np.unique(np.concatenate([*parts[0].y, *parts[1].y]))
    cost = 1 - np.eye(len(labels))
    cost[:, labels == "O"] *= float(miss)
    train, test = (Samples(part.X, part.y, groups=part.groups.tolist()) for part in parts)
    if not grouped:
        train = Samples(train.X, train.y)
    return train, test, CostMatrix(cost, labels)


def citations() -> Cell:
    """Fields of references."""
    parts = (load_citations(split) for split in ("train", "test"))
    train, test = (Samples([name_attributes(one) for one in p.X], list(p.y)) for p in parts)
    return train, test, "hamming"


def emotion(loss: str) -> Cell:
    """The first of the twenty splits."""
    data, (split, *_) = load_emotion(), emotion_splits()
    train, test = (Samples([data.X[i] for i in p], [data.y[i] for i in p]) for p in split)
    return train, test, loss


CELLS = {
    "digits, absolute": lambda: digits("absolute", 100),
    "emotion, absolute": lambda: emotion("absolute"),
    "names, 5, 300 samples": lambda: names("5", 300),
    "names, 5": lambda: names("5", 3394),
    "names, 20": lambda: names("20", 3394),
    "citations, hamming": citations,
    "personal data, 5": lambda: pii("5", grouped=False),
    "personal data, 5, by template": lambda: pii("5", grouped=True),
    "personal data, 20": lambda: pii("20", grouped=False),
    "personal data, 20, by template": lambda: pii("20", grouped=True),
}


def solve(settings: dict[str, Any], key: Key) -> Result:
    """One cell: a fit for the unit of time, then both choices."""
    train, test, cost = CELLS[key["cell"]]()
    ascent = {"optimizer": "natural_ascent", "tol": 0.01}
    unit, _ = timed(CRF(cost, **ascent, **OPTIONS), train)
    found: Result = {"unit": unit}
    totals = {}
    for name, model in (
        ("CRF", CRF(cost, alpha="auto", **ascent, **OPTIONS)),
        ("family", AutoModel(cost, **OPTIONS)),
    ):
        seconds, fitted = timed(model, train)
        totals[name] = costs(fitted, test, cost)
        expected = fitted.forecast_
        found[name] = {
            "cost": float(totals[name].sum() / sum(map(len, test.y))),
            "fits": seconds / unit,
            "expected": list(expected[:3]),
            "chosen": chosen(fitted),
        }
    difference = totals["family"] - totals["CRF"]
    if test.groups is not None:
        _, unit_of = np.unique(test.groups, return_inverse=True)
        difference = np.bincount(unit_of, difference)
    found["p"] = sign_flip_p_value(difference, np.random.default_rng(0))
    return found


def timed(model: Any, train: Samples) -> tuple[float, Any]:
    """(processor time of a fit, the model)."""
    start = time.process_time()
    model.fit(train.X, train.y, groups=train.groups)
    return time.process_time() - start, model


def costs(model: Any, test: Samples, cost: Any) -> np.ndarray:
    """Total cost of each test sample."""
    classes = np.unique(np.concatenate([model.classes_, *test.y]))
    loss = as_loss(cost)
    pairs = zip(test.y, model.predict(test.X), strict=True)
    return np.array([loss.evaluate(true, labels, classes).sum() for true, labels in pairs])


def chosen(model: Any) -> str:
    member = getattr(model, "member_", "CRF")
    hot = f" at {model.temperature_:g}" if 0 < model.temperature_ < np.inf else ""
    return f"{member}{hot}, {model.decision_}, scale {model.decision_scale_:.2g}"


def tables(results: list[Result]) -> list[Table]:
    rows = []
    for r in results:
        crf, family = r["CRF"], r["family"]
        mean, low, high = family["expected"]
        rows.append(
            [
                r["cell"],
                bold(f"{crf['cost']:.4f}", crf["cost"] <= family["cost"]),
                bold(f"{family['cost']:.4f}", family["cost"] <= crf["cost"]),
                f"{r['p']:.2g}",
                f"{mean:.3f} ({low:.3f} to {high:.3f})",
                f"{crf['fits']:.0f}",
                f"{family['fits']:.0f}",
                family["chosen"],
            ]
        )
    heads = ["data, cost", "CRF with scale", "family", "p", "family expected"]
    heads += ["fits, CRF", "fits, family", "what the family chose"]
    caption = "Mean test cost. Fits: processor time of the choice and the last fit, in CRF fits."
    return [Table("The family beside a CRF with its scale", heads, rows, caption)]


def main() -> None:
    parser = options("choice", __doc__)
    parser.add_argument("--only", nargs="+", help="cells")
    args = parser.parse_args()
    keys: list[Key] = [{"cell": name} for name in CELLS if not args.only or name in args.only]
    settings: dict[str, Any] = {}
    experiment = Experiment(args, settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = experiment.run(functools.partial(solve, settings), keys, "cells")
    experiment.report(tables(results), results)


if __name__ == "__main__":
    main()
