"""How far can probabilities be trusted? Log loss and reliability of the family on two data sets.

Needs the environment variable ROBUSTRUCT_DATA. CRF, smooth AGM and softmax margin at three
temperatures with the zero-one cost, each with alpha chosen on training data; probabilities of the
labels of test nodes are held against what is true. The calibration error is the mean distance of
the ten points of a reliability plot from its diagonal.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from family import log_loss, names, ocr
from protocol import Experiment, Key, Result, options
from robustruct import AGM, CRF, SSVM, charts
from tables import Table, bold, new_figure, save

DATA = {
    "OCR": (functools.partial(ocr, "hamming"), 400),
    "names": (functools.partial(names, "1"), 3394),
}
MODELS: dict[str, Any] = {
    "CRF": CRF(),
    "AGM, T = 1": AGM(temperature=1.0),
    "AGM, T = 0.3": AGM(temperature=0.3),
    "softmax margin, T = 1": SSVM(temperature=1.0),
}


def solve(settings: dict[str, Any], key: Key) -> Result:
    """One model on one data set."""
    make, n = DATA[key["data"]]
    train, test, cost = make(settings["limit"] or n)
    model = MODELS[key["model"]].set_params(loss=cost, alphas="auto", random_state=0, n_jobs=1)
    model.fit(train.X, train.y)
    line = charts.reliability({key["model"]: model}, test.X, test.y).lines[1]
    said, found = np.array(line.x), np.array(line.y)
    return {
        "log_loss": log_loss(model, test),
        "error": float(np.abs(said - found).mean()),
        "overconfidence": float((said - found).mean()),
        "said": said.tolist(),
        "found": found.tolist(),
        "alpha": model.alpha_,
    }


def tables(results: Sequence[Result]) -> list[Table]:
    """Log loss and calibration error."""
    rows = []
    for data in DATA:
        some = [r for r in results if r["data"] == data]
        for r in some:
            rows.append(
                [
                    data,
                    r["model"],
                    bold(f"{r['log_loss']:.4f}", r["log_loss"] == min(s["log_loss"] for s in some)),
                    bold(f"{r['error']:.3f}", r["error"] == min(s["error"] for s in some)),
                    f"{r['overconfidence']:+.3f}",
                ]
            )
    head = ["data", "model", "log loss", "calibration error", "sure less right"]
    return [Table("Probabilities of test labels", head, rows)]


def draw(results: Sequence[Result], file: Path) -> None:
    """A reliability plot for each data set."""
    figure, axes = new_figure(1, len(DATA))
    for ax, data in zip(axes.flat, DATA, strict=True):
        ax.plot([0, 1], [0, 1], color="0.6", linestyle="--", label="as sure as right")
        for r in results:
            if r["data"] == data:
                ax.plot(r["said"], r["found"], marker=".", label=r["model"])
        ax.set(title=data, xlabel="probability of the label", ylabel="share that is right")
        ax.legend(fontsize=7)
    save(figure, file)


def main() -> None:
    args = options("calibration", __doc__).parse_args()
    keys: list[Key] = [{"data": data, "model": model} for data in DATA for model in MODELS]
    settings = {"limit": args.limit}
    experiment = Experiment(args, settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = experiment.run(functools.partial(solve, settings), keys, "models")
    experiment.report(tables(results), results)
    draw(results, experiment.figure_file)


if __name__ == "__main__":
    main()
