"""Label noise and few data: the test loss of AGM, CRF and SSVM as training data get worse.

Needs the environment variable ROBUSTRUCT_DATA. Emotion intensity (the paper's splits, node weights
of sum 1) and handwritten words (OCR: train on a part of one fold, test on the nine others). A
share of the training labels is replaced by other labels drawn at random; test labels stay clean.
Noise is nested: what is flipped at 10 % is flipped at 20 % too, and all models see the same.

In every condition each model chooses its penalty from the same grid by cross-validation on the
(noisy) training data of the first fold alone. Decisions: MAP for AGM and SSVM, Bayes for the CRF.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from corpora import emotion_splits, load_ocr
from emotion import data as emotion_data
from emotion import node_weights
from protocol import (
    KINDS,
    Experiment,
    Key,
    Result,
    best_or_as_good,
    certificate,
    mean_and_error,
    options,
    worst_gaps,
)
from robustruct.datasets import Dataset
from robustruct.losses import CostMatrix
from robustruct.metrics import mean_loss
from tables import LOOK, MODELS, Table, bold, new_figure, save

TOL = {"AGM": 0.01, "CRF": 1e-4, "SSVM": 0.01}
MAX_ITER = 3000
N_CV = 3
NOISE = (0.0, 0.1, 0.2, 0.4)

LETTERS = "abcdefghijklmnopqrstuvwxyz"
LOOK_ALIKE = ("aceo", "bdhk", "fijlt", "gpqy", "mnruvw", "szx")  # shapes of handwritten letters
CHEAP = 0.2  # a mistake among letters that look alike; any other costs 1


def look_alike_costs() -> CostMatrix:
    """Mistakes that a reader hardly notices are cheap."""
    costs = 1.0 - np.eye(len(LETTERS))
    for group in LOOK_ALIKE:
        places = [LETTERS.index(letter) for letter in group]
        costs[np.ix_(places, places)] *= CHEAP
    return CostMatrix(costs, labels=list(LETTERS))


@dataclass(frozen=True)
class Source:
    """A data set in folds, and the conditions it is tried under."""

    losses: dict[str, Any]
    alphas: Sequence[float]
    sizes: Sequence[int]
    """Training samples, without noise."""
    noisy_size: int
    """Training samples of the noisy conditions."""
    n_folds: int
    equal_samples: bool
    """Whether each sample has the same weight, whatever its length."""


def half_decades(first: int, last: int) -> tuple[float, ...]:
    """10 ** (n / 2) from n = first to last, rounded to one digit."""
    return tuple(float(f"{10 ** (n / 2):.1g}") for n in range(first, last + 1))


SOURCES = {
    "emotion": Source(
        {"hamming": "hamming", "absolute": "absolute"},
        half_decades(-2, 5),
        (30, 60, 120),
        120,
        10,
        equal_samples=True,
    ),
    "ocr": Source(
        {"hamming": "hamming", "look-alike": look_alike_costs()},
        half_decades(-6, 1),
        (50, 100, 200, 400),
        200,
        10,
        equal_samples=False,
    ),
}


@functools.cache
def data(name: str) -> Dataset:
    """All samples, loaded once in each process."""
    return emotion_data() if name == "emotion" else load_ocr()


def split(name: str, fold: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and test samples of a fold, in random order."""
    if name == "emotion":
        return emotion_splits()[fold]
    # The file has all writings of a word together: the first samples would be a few words.
    order = np.random.default_rng(fold).permutation(len(data("ocr")))
    in_fold = data("ocr").groups[order] == fold
    return order[in_fold], order[~in_fold]


def noisy(part: Dataset, share: float, seed: Sequence[int]) -> list[np.ndarray]:
    """Labels of which a share has been replaced by others, all equally likely."""
    classes = np.unique(np.concatenate(part.y))
    rng = np.random.default_rng(seed)
    labels = []
    for y in part.y:
        chance, shift = rng.random(len(y)), rng.integers(1, len(classes), len(y))
        other = classes[(np.searchsorted(classes, y) + shift) % len(classes)]
        labels.append(np.where(chance < share, other, y))
    return labels


def training_data(key: Key, fold: int) -> Dataset:
    """The first samples of a fold's training part, with noise in their labels."""
    whole = data(key["data"]).subset(split(key["data"], fold)[0])
    labels = noisy(whole, key["noise"], [fold])
    return Dataset(whole.name, whole.X[: key["size"]], labels[: key["size"]])


def new_model(key: Key, **options: Any) -> Any:
    """A model of the key's kind and loss."""
    name = key["model"]
    options |= {"tol": TOL[name], "max_iter": MAX_ITER, "random_state": 0, "standardize": False}
    return KINDS[name](SOURCES[key["data"]].losses[key["loss"]], **options)


def fit_and_test(model: Any, key: Key, train: Dataset, test: Dataset) -> Result:
    """One fit, from the last one if there is any: its certificate and its test loss."""
    equal = SOURCES[key["data"]].equal_samples
    weight = node_weights(train.y, "equal") if equal else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the report counts them
        model.fit(train.X, train.y, node_weight=weight, warm_start=True)
    average = "sample" if equal else "node"
    value = mean_loss(test.y, model.predict(test.X), model.loss, average=average)
    return {"value": value} | certificate(model)


def validated(key: Key) -> Result:
    """Losses of a fold of the first training part for all penalties, from strong to weak."""
    train = training_data(key, 0)
    part = np.arange(len(train)) % N_CV
    parts = train.subset(part != key["part"]), train.subset(part == key["part"])
    model = new_model(key)
    alphas = sorted(SOURCES[key["data"]].alphas, reverse=True)
    return {"path": [fit_and_test(model.set_params(alpha=a), key, *parts) for a in alphas]}


def chosen_alpha(paths: list[Result]) -> float:
    """The penalty of least loss over all folds; the larger among equals."""
    total: dict[float, float] = {}
    for fit in (fit for path in paths for fit in path["path"]):
        total[fit["alpha"]] = total.get(fit["alpha"], 0.0) + fit["value"]
    return min(total, key=lambda alpha: (total[alpha], -alpha))


def tested(key: Key) -> Result:
    """Test loss on the clean samples of one fold; with a limit, on ten times as many."""
    samples = split(key["data"], key["fold"])[1]
    test = data(key["data"]).subset(samples[: 10 * (key["limit"] or len(samples))])
    train = training_data(key, key["fold"])
    return fit_and_test(new_model(key, alpha=key["alpha"]), key, train, test)


# --------------------------------------------------------------------------------------- report


def conditions(name: str, limit: int | None, shares: Sequence[float]) -> list[tuple[int, float]]:
    """(size, noise) without repetitions: a row of sizes without noise, a row of noise."""
    source = SOURCES[name]
    sizes = sorted({min(size, limit or size) for size in source.sizes})
    noisy_size = min(source.noisy_size, limit or source.noisy_size)
    pairs = [(size, 0.0) for size in sizes] + [(noisy_size, share) for share in shares]
    return list(dict.fromkeys(pairs))


def table_of_losses(losses: dict, caption: str) -> Table:
    """A row for each data set, loss and condition."""
    rows = []
    for (name, loss, size, share), values in losses.items():
        winners = best_or_as_good(values)
        cells = []
        for model in MODELS:
            mean, error = mean_and_error(values[model])
            cells.append(bold(f"{mean:.3f} ± {error:.3f}", model in winners))
        rows.append([f"{name}, {loss}", str(size), f"{share:.0%}", *cells])
    columns = ["data, loss", "samples", "flipped labels", *MODELS]
    return Table("Mean test loss ± standard error over folds", columns, rows, caption)


def draw(losses: dict, file: Any) -> None:
    """Against noise on the left, against size on the right; a row for each data set."""
    names = list(dict.fromkeys(name for name, *_ in losses))
    figure, axes = new_figure(len(names), 4)
    for row, name in zip(axes, names, strict=True):
        source = SOURCES[name]
        for place, loss in enumerate(source.losses):
            of_loss = {k[2:]: v for k, v in losses.items() if k[:2] == (name, loss)}
            noisy_size = max(size for size, share in of_loss if share > 0)
            by_noise = {share: v for (size, share), v in of_loss.items() if size == noisy_size}
            by_size = {size: v for (size, share), v in of_loss.items() if share == 0}
            _curves(row[place], by_noise)
            row[place].set_title(f"{name}, {loss}, {noisy_size} samples", fontsize=8)
            row[place].set_xlabel("share of flipped labels", fontsize=8)
            _curves(row[2 + place], by_size)
            row[2 + place].set_title(f"{name}, {loss}, no noise", fontsize=8)
            row[2 + place].set_xlabel("training samples", fontsize=8)
            row[2 + place].set_xscale("log")
            row[2 + place].set_xticks(sorted(by_size), [str(size) for size in sorted(by_size)])
            row[2 + place].minorticks_off()
        row[0].set_ylabel("test loss", fontsize=8)
    axes[0, 0].legend(fontsize=8, frameon=False)
    save(figure, file)


def _curves(panel: Any, by_x: dict[float, dict[str, list[float]]]) -> None:
    xs = sorted(by_x)
    for model in MODELS:
        means, errors = np.array([mean_and_error(by_x[x][model]) for x in xs]).T
        panel.errorbar(xs, means, errors, label=model, markersize=4, linewidth=1, **LOOK[model])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options("noise", __doc__)
    parser.add_argument("--data", nargs="+", choices=list(SOURCES), default=list(SOURCES))
    parser.add_argument("--folds", type=int, default=10, help="the first N folds (or splits)")
    parser.add_argument("--noise", type=float, nargs="+", default=NOISE, help="shares of labels")
    args = parser.parse_args(arguments)
    grids = {name: SOURCES[name].alphas for name in SOURCES}
    experiment = Experiment(
        args, {"tol": TOL, "max_iter": MAX_ITER, "cv": N_CV, "alphas": grids, "order": "random"}
    )

    tasks = [
        {"data": name, "loss": loss, "size": size, "noise": share, "model": model}
        | {"limit": args.limit}
        for name in args.data
        for loss in SOURCES[name].losses
        for size, share in conditions(name, args.limit, args.noise)
        for model in MODELS
    ]
    validation = experiment.run(
        validated,
        [task | {"task": "choose", "part": part} for task in tasks for part in range(N_CV)],
        "choosing alpha",
    )
    chosen = [
        task | {"alpha": chosen_alpha(validation[t * N_CV : (t + 1) * N_CV])}
        for t, task in enumerate(tasks)
    ]
    tests = experiment.run(
        tested,
        [task | {"task": "test", "fold": fold} for task in chosen for fold in range(args.folds)],
        "training and testing",
    )

    losses: dict[tuple, dict[str, list[float]]] = {}
    for r in tests:
        place = r["data"], r["loss"], r["size"], r["noise"]
        losses.setdefault(place, {}).setdefault(r["model"], []).append(r["value"])
    at_edge = [
        task
        for task in chosen
        if task["alpha"] in (SOURCES[task["data"]].alphas[0], SOURCES[task["data"]].alphas[-1])
    ]
    draw(losses, experiment.figure_file)
    caption = (
        "In bold: the best and what is not significantly worse (Wilcoxon, 0.05, over folds). "
        f"Certified, final fits: {worst_gaps(tests)}. "
        f"Penalty at an edge of the grid: {len(at_edge)} of {len(chosen)} choices."
    )
    experiment.report(
        [table_of_losses(losses, caption)],
        {"chosen": chosen, "at_edge": at_edge, "tests": tests, "validation": validation},
    )


if __name__ == "__main__":
    main()
