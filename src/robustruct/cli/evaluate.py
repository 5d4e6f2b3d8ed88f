"""``robustruct evaluate``: counts and costs of the mistakes on a labelled file."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robustruct.cli import errors
from robustruct.cli.model_input import format_for, load_model
from robustruct.cli.options import (
    CostOptions,
    DecisionOption,
    EncodingOption,
    JobsOption,
    JsonOption,
    ModelArgument,
    QuietOption,
    TableOptions,
)
from robustruct.cli.tables import number, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robustruct.evaluation.evaluate import Evaluation, Tally
    from robustruct.metrics import Detection
    from robustruct.models.base import StructuredModel


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """Options of ``robustruct evaluate``."""

    model: ModelArgument
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Labelled file, plain or .gz; - is stdin.")
    ]
    costs: CostOptions = field(default_factory=CostOptions)
    decision: DecisionOption = None
    encoding: EncodingOption = "utf-8"
    table: TableOptions = field(default_factory=TableOptions)
    jobs: JobsOption = -1
    quiet: QuietOption = False
    as_json: JsonOption = False


def evaluate_cli(options: EvaluateOptions) -> None:
    """Compare a model's labels with those of a file.

    Prints the mean loss, precision, recall and F1 of every label, of spans where labels are BIO or
    BIOES, and the matrices of confusion and costs, whose rows are true and columns predicted
    labels.
    """
    with errors.ready(options.quiet):
        result = evaluate(options)
    for note in result["notes"]:
        print(f"robustruct: note: {note}", file=sys.stderr)
    print(json.dumps(result, indent=2) if options.as_json else _report(result))


def evaluate(options: EvaluateOptions) -> dict[str, Any]:
    """Predict labels for a file and compare them with its own.

    The result is ready for JSON; matrices are [true, predicted] in the order of ``labels``.
    """
    from robustruct.cli.loss import loss_name
    from robustruct.losses import CostMatrix

    estimator = load_model(options.model, options.decision)
    estimator.set_params(n_jobs=options.jobs)
    trained_for = estimator.loss_
    if isinstance(trained_for, CostMatrix) and trained_for.labels is trained_for.single is None:
        # Costs without names are in the order of the model's labels; data may have others.
        trained_for = CostMatrix(trained_for.costs, estimator.classes_)
    loss = options.costs.chosen(trained_for, options.encoding)
    counted = _tally(estimator, options)
    chosen = loss.of(counted.labels)
    evaluation = counted.evaluated(chosen, estimator.classes_)
    spans = None
    if evaluation.spans is not None:
        spans = {
            "all": _scores(evaluation.spans),
            "by_type": _all_scores(evaluation.spans_by_type or {}),
        }
    return {
        "model": type(estimator).__name__,
        "data": options.data,
        "n_samples": evaluation.n_samples,
        "n_nodes": evaluation.n_nodes,
        "loss": evaluation.loss,
        "loss_name": loss_name(chosen),
        "accuracy": evaluation.accuracy,
        "whole_samples": evaluation.whole_samples,
        "spans": spans,
        "labels": evaluation.labels.tolist(),
        "by_label": _all_scores(evaluation.by_label),
        "confusion": evaluation.confusion.tolist(),
        "costs": evaluation.costs.tolist(),
        "notes": _notes(evaluation, estimator.classes_.tolist()),
    }


def _tally(estimator: StructuredModel, options: EvaluateOptions) -> Tally:
    from robustruct.errors import FileFormatError
    from robustruct.evaluation.evaluate import compared_file, tally
    from robustruct.formats.text import Lines
    from robustruct.progress import Pace, progress

    with (
        Lines(options.data, options.encoding) as lines,
        progress(f"labelling {lines.name}", not options.quiet) as show,
    ):
        pace = Pace()
        if lines.is_empty:
            raise FileFormatError(lines.name, None, "the file is empty: it has no samples.")
        form = format_for(estimator, lines, options.table)
        pairs = compared_file(
            estimator,
            form,
            lines,
            lambda n: show(f"{n:,} samples", pace.left(lines.fraction)),
        )
        counted = tally(estimator.classes_, pairs)
    if not counted.n_samples:
        raise FileFormatError(lines.name, None, "the file is empty: it has no samples.")
    return counted


def _notes(evaluation: Evaluation, known: list[Any]) -> list[str]:
    """Return a note for each label of the data that training never saw."""
    counts = dict(
        zip(evaluation.labels.tolist(), evaluation.confusion.sum(axis=1).tolist(), strict=True)
    )
    return [
        f"{count} nodes have the label {label!r}, which training never saw; they count as mistakes."
        for label, count in counts.items()
        if label not in known and count
    ]


def _scores(detection: Detection) -> dict[str, float]:
    return {
        "precision": detection.precision,
        "recall": detection.recall,
        "f1": detection.f1,
        "n_true": detection.n_true,
        "n_predicted": detection.n_predicted,
    }


def _all_scores(detections: Mapping[Any, Detection]) -> dict[str, dict[str, float]]:
    return {str(name): _scores(detection) for name, detection in detections.items()}


# ------------------------------------------------------------------------- for people


def _report(result: dict[str, Any]) -> str:
    head = [
        [f"{result['loss_name']} per node", f"{result['loss']:.5g}"],
        ["accuracy", f"{result['accuracy']:.2%}"],
        ["samples all right", f"{result['whole_samples']:.2%}"],
    ]
    # Labels that are neither true nor predicted anywhere would only widen the tables.
    scores = result["by_label"]
    names = [name for name, counts in scores.items() if counts["n_true"] or counts["n_predicted"]]
    places = [list(scores).index(name) for name in names]
    size = f"{result['n_samples']:,} samples, {result['n_nodes']:,} nodes"
    parts = [f"{result['model']} on {result['data']}: {size}\n{table(head)}"]
    if result["spans"] is not None:
        spans = {**result["spans"]["by_type"], "all spans": result["spans"]["all"]}
        parts.append("Spans\n" + _score_table("type", spans))
    parts.append("Labels\n" + _score_table("label", {name: scores[name] for name in names}))
    for title, key in (("Confusion", "confusion"), ("Costs", "costs")):
        rows = [["", *names]]
        for name, a in zip(names, places, strict=True):
            values = [result[key][a][b] for b in places]
            rows.append([name, *("-" if value is None else number(value) for value in values)])
        parts.append(f"{title} (rows: true, columns: predicted)\n{table(rows)}")
    return "\n\n".join(parts)


def _score_table(title: str, scores: dict[str, dict[str, float]]) -> str:
    rows = [[title, "precision", "recall", "F1", "true", "predicted"]]
    for name, values in scores.items():
        rates = [f"{values[key]:.2%}" for key in ("precision", "recall", "f1")]
        rows.append([name, *rates, str(values["n_true"]), str(values["n_predicted"])])
    return table(rows)
