"""``robustruct evaluate``: what the mistakes on a labelled file cost, and which they are."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robustruct.cli.loss import chosen_loss, loss_name
from robustruct.cli.model_input import answered, input_format, load_model
from robustruct.cli.options import (
    CostOption,
    EncodingOption,
    JobsOption,
    JsonOption,
    LossOption,
    ModelArgument,
    OrderOption,
    QuietOption,
)
from robustruct.cli.tables import number, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from robustruct.losses import Loss
    from robustruct.metrics import Detection


def evaluate_cli(
    model: ModelArgument,
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Labelled file, plain or .gz; - is stdin.")
    ],
    loss: LossOption = None,
    cost: CostOption = None,
    order: OrderOption = None,
    encoding: EncodingOption = "utf-8",
    jobs: JobsOption = -1,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare a model's labels with those of a file.

    Prints the mean loss, precision, recall and F1 of every label, of spans where labels are BIO or
    BIOES, and the matrices of confusion and costs, whose rows are true and columns predicted
    labels.
    """
    result = evaluate(
        str(model),
        data,
        loss=loss,
        costs=cost or (),
        order=None if order is None else [label.strip() for label in order.split(",")],
        encoding=encoding,
        jobs=jobs,
        progress_wanted=not quiet,
    )
    for note in result["notes"]:
        print(f"robustruct: note: {note}", file=sys.stderr)
    print(json.dumps(result, indent=2) if as_json else _report(result))


def evaluate(
    model: str,
    data: str,
    *,
    loss: str | None = None,
    costs: Any = (),
    order: Any = None,
    encoding: str = "utf-8",
    jobs: int = -1,
    progress_wanted: bool = False,
) -> dict[str, Any]:
    """Label a file and compare.

    Parameters
    ----------
    model, data : str
        Files.
    loss, costs, order
        As for `chosen_loss`; by default the loss that the model was trained for.
    encoding : str
    jobs : int
    progress_wanted : bool

    Returns
    -------
    dict
        Ready for JSON. Matrices are [true, predicted] in the order of ``labels``.
    """
    import numpy as np

    from robustruct.losses import as_loss, sorted_labels
    from robustruct.metrics import confusion, is_span_labelling, label_scores, span_scores

    estimator = load_model(model)
    estimator.set_params(n_jobs=jobs)
    truth, found, weights = _labelled(estimator, data, encoding, progress_wanted)
    labels = sorted_labels([estimator.classes_, *truth])
    chosen = chosen_loss(loss or as_loss(estimator.loss), costs, order, labels, encoding)
    matrix, notes = _costs(chosen, labels, np.concatenate(truth))
    counts = confusion(truth, found, labels)
    spans = None
    if is_span_labelling(labels):
        overall, by_type = span_scores(truth, found)
        spans = {"all": _scores(overall), "by_type": _all_scores(by_type)}
    return {
        "model": type(estimator).__name__,
        "data": data,
        "n_samples": len(truth),
        "n_nodes": int(counts.sum()),
        "loss": _mean_cost(matrix, labels, truth, found, weights),
        "loss_name": loss_name(chosen),
        "accuracy": float(np.trace(counts) / counts.sum()),
        "whole_samples": float(
            np.mean([bool((a == b).all()) for a, b in zip(truth, found, strict=True)])
        ),
        "spans": spans,
        "labels": labels.tolist(),
        "by_label": _all_scores(label_scores(truth, found, labels)),
        "confusion": counts.tolist(),
        "costs": [[None if np.isnan(c) else c for c in row] for row in matrix.T.tolist()],
        "notes": notes,
    }


def _labelled(
    estimator: Any, data: str, encoding: str, wanted: bool
) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """True labels, predicted labels and weights of the nodes of every sample."""
    import numpy as np

    from robustruct.errors import FileFormatError
    from robustruct.formats.text import Lines
    from robustruct.losses import as_labels
    from robustruct.progress import Pace, progress

    known = {str(label): label for label in estimator.classes_.tolist()}
    numbers = estimator.classes_.dtype.kind in "iuf"
    truth, found, weights = [], [], []
    with Lines(data, encoding) as lines, progress(f"labelling {lines.name}", wanted) as show:
        pace = Pace()
        if not lines.head(1):
            raise FileFormatError(lines.name, None, "the file is empty: it has no samples.")
        form = input_format(estimator, lines)
        pairs = answered(
            estimator,
            form,
            lines,
            labelled=True,
            watch=lambda n: show(f"{n:,} samples", pace.left(lines.fraction)),
        )
        for sample, answer in pairs:
            labels = [known.get(str(label), label) for label in sample.labels or ()]
            if numbers:
                labels = [_as_number(label) for label in labels]
            truth.append(as_labels(labels))
            found.append(as_labels(answer.labels))
            given = np.ones(len(labels)) if sample.node_weight is None else sample.node_weight
            weights.append(np.asarray(given, float) * sample.weight)
    if not truth:
        raise FileFormatError(lines.name, None, "the file is empty: it has no samples.")
    return truth, found, weights


def _as_number(label: Any) -> Any:
    try:
        return float(label)
    except (TypeError, ValueError):
        return label


def _costs(loss: Loss, labels: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Costs [predicted, true] of all labels, NaN where the loss does not know them."""
    import numpy as np

    from robustruct.losses import CostMatrix

    known = np.ones(len(labels), bool)
    if isinstance(loss, CostMatrix) and loss.labels is not None:
        known = np.isin(labels, loss.labels)
    matrix = np.full((len(labels), len(labels)), np.nan)
    matrix[np.ix_(known, known)] = loss.matrix(labels[known])
    notes = []
    for label in labels[~known].tolist():
        n = int((truth == label).sum())
        notes.append(
            f"{n} nodes have the label {label!r}, for which no cost is given; they are left out of "
            "the loss."
        )
    return matrix, notes


def _mean_cost(
    matrix: np.ndarray,
    labels: np.ndarray,
    truth: list[np.ndarray],
    found: list[np.ndarray],
    weights: list[np.ndarray],
) -> float:
    import numpy as np

    from robustruct.losses import encode_labels

    a = encode_labels(np.concatenate(found), labels, "the prediction")
    b = encode_labels(np.concatenate(truth), labels, "the data")
    cost, weight = matrix[a, b], np.concatenate(weights)
    counted = ~np.isnan(cost)
    total = weight[counted].sum()
    return float(cost[counted] @ weight[counted] / total) if total > 0 else 0.0


def _scores(found: Detection) -> dict[str, float]:
    return {
        "precision": found.precision,
        "recall": found.recall,
        "f1": found.f1,
        "n_true": found.n_true,
        "n_predicted": found.n_predicted,
    }


def _all_scores(found: Mapping[Any, Detection]) -> dict[str, dict[str, float]]:
    return {str(name): _scores(detection) for name, detection in found.items()}


# ------------------------------------------------------------------------- for people


def _report(result: dict[str, Any]) -> str:
    head = [
        [f"{result['loss_name']} per node", f"{result['loss']:.5g}"],
        ["accuracy", f"{result['accuracy']:.2%}"],
        ["samples all right", f"{result['whole_samples']:.2%}"],
    ]
    # Labels that nobody used would only make the tables hard to read.
    scores = result["by_label"]
    names = [name for name, found in scores.items() if found["n_true"] or found["n_predicted"]]
    kept = [list(scores).index(name) for name in names]
    size = f"{result['n_samples']:,} samples, {result['n_nodes']:,} nodes"
    parts = [f"{result['model']} on {result['data']}: {size}\n{table(head)}"]
    if result["spans"] is not None:
        spans = {**result["spans"]["by_type"], "all spans": result["spans"]["all"]}
        parts.append("Spans\n" + _score_table("type", spans))
    parts.append("Labels\n" + _score_table("label", {name: scores[name] for name in names}))
    for title, key in (("Confusion", "confusion"), ("Costs", "costs")):
        rows = [["", *names]]
        for name, a in zip(names, kept, strict=True):
            values = [result[key][a][b] for b in kept]
            rows.append([name, *("-" if value is None else number(value) for value in values)])
        parts.append(f"{title} (rows: true, columns: predicted)\n{table(rows)}")
    return "\n\n".join(parts)


def _score_table(title: str, scores: dict[str, dict[str, float]]) -> str:
    rows = [[title, "precision", "recall", "F1", "true", "predicted"]]
    for name, found in scores.items():
        rates = [f"{found[key]:.2%}" for key in ("precision", "recall", "f1")]
        rows.append([name, *rates, str(found["n_true"]), str(found["n_predicted"])])
    return table(rows)
