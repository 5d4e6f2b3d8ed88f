"""``robustruct compare``: AGM, CRF and SSVM side by side on the same data and the same cost."""

from __future__ import annotations

import json
import sys
import time
import warnings
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from robustruct.datasets import Dataset
    from robustruct.models.base import StructuredModel

ALPHAS = (3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4)
FOLDS = 3
N_TRAIN, N_TEST = 100, 400  # sequences of 12 digits


class LossName(StrEnum):
    """Losses that go by a name."""

    hamming = "hamming"
    absolute = "absolute"
    squared = "squared"


def compare_cli(
    loss: Annotated[
        LossName, typer.Option(help="What a mistake costs; the labels are the digits 0 to 9.")
    ] = LossName.absolute,
    seed: Annotated[int, typer.Option(min=0, help="Another seed draws other data.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, not a table.")] = False,
) -> None:
    """Train AGM, CRF and SSVM on the embedded data and compare what their mistakes cost.

    The data are sequences of handwritten digits that mostly count upwards. Each model chooses its
    penalty by cross-validation on the training data; all are judged on the same test sequences.
    """
    result = compare(loss.value, seed)
    if as_json:
        print(json.dumps(result, indent=2))
    else:
        _print_table(result)


def compare(loss: str = "absolute", seed: int = 0) -> dict[str, Any]:
    """Train and test the three models on the embedded data.

    Parameters
    ----------
    loss : "hamming", "absolute" or "squared"
        What a mistake costs, in training and in the test.
    seed : int
        Draws the data and orders the samples in training.

    Returns
    -------
    dict
        Ready for JSON: what was compared, and under ``"models"`` one entry per model with ``cost``
        (mean per node), ``standard_error``, ``accuracy``, ``alpha``, ``gap`` and ``seconds``.
    """
    from robustruct.datasets import load_counter
    from robustruct.models import AGM, CRF, SSVM

    train = load_counter("train", n_sequences=N_TRAIN, seed=seed)
    test = load_counter("test", n_sequences=N_TEST, seed=seed)
    few = train.subset(slice(0, 2 * FOLDS))
    models, notes = [], []
    for kind in (AGM, CRF, SSVM):
        # Compilation, a matter of the first run only, stays out of the times.
        _train(kind(loss, alphas=[1.0], cv=FOLDS, max_iter=2, random_state=seed), few)
        model = kind(loss, alphas=ALPHAS, cv=FOLDS, random_state=seed)
        seconds, warned = _train(model, train)
        notes += warned
        models.append(_measured(model, test) | {"seconds": seconds})
    return {
        "data": "counter",
        "loss": loss,
        "seed": seed,
        "n_train": len(train),
        "n_test": len(test),
        "alphas": list(ALPHAS),
        "folds": FOLDS,
        "models": models,
        "notes": notes,
    }


def _train(model: StructuredModel, data: Dataset) -> tuple[float, list[str]]:
    """(seconds, warnings) of a fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        started = time.perf_counter()
        model.fit(data.X, data.y)
        return time.perf_counter() - started, [str(warning.message) for warning in caught]


def _measured(model: StructuredModel, test: Dataset) -> dict[str, Any]:
    import numpy as np

    from robustruct.losses import as_loss

    predicted, loss = model.predict(test.X), as_loss(model.loss)
    pairs = list(zip(test.y, predicted, strict=True))
    cost = np.array([loss.evaluate(*pair, classes=model.classes_).mean() for pair in pairs])
    right = np.mean([np.mean(true == found) for true, found in pairs])
    return {
        "model": type(model).__name__,
        # All sequences are equally long, so the mean over sequences is the mean over nodes; digits
        # of one sequence depend on each other, so the sequence is the unit of the standard error.
        "cost": float(cost.mean()),
        "standard_error": float(cost.std(ddof=1) / np.sqrt(len(cost))),
        "accuracy": float(right),
        "alpha": float(model.alpha_),
        "gap": float(model.duality_gap_),
    }


def _print_table(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title=f"Mean {result['loss']} loss per digit on {result['n_test']} test sequences",
        caption=(
            f"{result['n_train']} training sequences; alpha chosen among {len(result['alphas'])} "
            f"values by {result['folds']}-fold cross-validation, included in the time"
        ),
    )
    table.add_column("model")
    for name in ("test cost", "accuracy", "training", "certified gap", "alpha"):
        table.add_column(name, justify="right")
    best = min(entry["cost"] for entry in result["models"])
    for entry in result["models"]:
        cost = f"{entry['cost']:.3f} ± {entry['standard_error']:.3f}"
        table.add_row(
            entry["model"],
            f"[bold]{cost}[/bold]" if entry["cost"] == best else cost,
            f"{entry['accuracy']:.1%}",
            f"{entry['seconds']:.1f} s",
            f"{entry['gap']:.2%}",
            f"{entry['alpha']:g}",
        )
    Console().print(table)
    for note in result["notes"]:
        print(f"note: {note}", file=sys.stderr)
