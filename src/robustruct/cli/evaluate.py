"""``robustruct evaluate``: counts and costs of the mistakes on a labelled file."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robustruct.cli import errors
from robustruct.cli.model_input import format_for, held_out_file, load_model
from robustruct.cli.options import (
    ActionsOption,
    CostOptions,
    DecisionOption,
    EncodingOption,
    JobsOption,
    JsonOption,
    ModelArgument,
    QuietOption,
    TableOptions,
    actions_of,
)
from robustruct.cli.tables import number, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from robustruct.evaluation.evaluate import Evaluation, Tally
    from robustruct.guarantees.certificate import Certificate
    from robustruct.losses import Loss
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
    actions: ActionsOption = None
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
    labels. If the samples had no part in training there is a bound on the mean cost of new ones
    too; `robustruct certify` says more about it.
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
    from robustruct.errors import InvalidInputError
    from robustruct.losses import CostMatrix

    actions = actions_of(options.actions)
    if actions and options.data == "-":
        raise InvalidInputError("--actions reads the data twice; give a file, not stdin.")
    estimator = load_model(options.model, options.decision)
    estimator.set_params(n_jobs=options.jobs)
    trained_for = estimator.loss_
    if isinstance(trained_for, CostMatrix) and trained_for.labels is trained_for.single is None:
        # Costs without names are in the order of the model's labels; data may have others.
        trained_for = CostMatrix(trained_for.costs, estimator.classes_)
    loss = options.costs.chosen(trained_for, options.encoding)
    counted, digests, looks = _tally(estimator, options)
    chosen = loss.of(counted.labels)
    evaluation = counted.evaluated(chosen, estimator.classes_)
    certificate, doubts = _certified(estimator, evaluation, digests)
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
        "certificate": None if certificate is None else asdict(certificate),
        "actions": _action_costs(estimator, options, actions, chosen) if actions else None,
        "spans": spans,
        "labels": evaluation.labels.tolist(),
        "by_label": _all_scores(evaluation.by_label),
        "confusion": evaluation.confusion.tolist(),
        "costs": evaluation.costs.tolist(),
        "notes": [
            *_notes(evaluation, estimator.classes_.tolist()),
            *doubts,
            *_surprise(estimator, evaluation, looks, options),
        ],
    }


def _action_costs(
    estimator: StructuredModel, options: EvaluateOptions, actions: dict[str, float], loss: Loss
) -> dict[str, Any]:
    """Return what actions cost on the data, ready for JSON."""
    from robustruct.evaluation.actions import action_costs

    data = held_out_file(estimator, options.data, options.encoding)
    found = action_costs(estimator, data.X, data.y, actions, data.node_weight, loss=loss)
    return {"prices": actions, **asdict(found)}


def _certified(
    estimator: StructuredModel, evaluation: Evaluation, digests: np.ndarray
) -> tuple[Certificate | None, list[str]]:
    """Return the bound on the cost of new samples, and notes on what speaks against it."""
    from robustruct.guarantees.certificate import certified_cost

    seen = estimator._seen_before(digests)
    if seen is not None:
        return None, [f"{seen}, so nothing is said about what new ones cost."]
    if not evaluation.observed.weights.any():
        return None, []
    certificate = certified_cost(evaluation.observed)
    return certificate, [f"{warning}." for warning in certificate.warnings]


def _tally(
    estimator: StructuredModel, options: EvaluateOptions
) -> tuple[Tally, np.ndarray, np.ndarray]:
    """Return the counts, and digests and looks of the samples."""
    import numpy as np

    from robustruct.errors import FileFormatError
    from robustruct.evaluation.evaluate import compared_file, tally
    from robustruct.features.digests import joined_digests
    from robustruct.formats.text import Lines
    from robustruct.progress import Pace, progress

    with (
        Lines(options.data, options.encoding) as lines,
        progress(f"labelling {lines.name}", not options.quiet) as show,
    ):
        pace, digests, looks = Pace(), list[Any](), list[Any]()
        if lines.is_empty:
            raise FileFormatError(lines.name, None, "the file is empty: it has no samples.")
        form = format_for(estimator, lines, options.table)
        pairs = compared_file(
            estimator,
            form,
            lines,
            lambda n: show(f"{n:,} samples", pace.left(lines.fraction)),
            digests,
            looks,
        )
        counted = tally(estimator.classes_, pairs)
    if not counted.n_samples:
        raise FileFormatError(lines.name, None, "the file is empty: it has no samples.")
    return counted, joined_digests(digests), np.concatenate(looks)


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


def _surprise(
    estimator: StructuredModel, evaluation: Evaluation, looks: np.ndarray, options: EvaluateOptions
) -> list[str]:
    """Return notes if features or costs are not those that training samples let expect."""
    doubts = [estimator._doubt(looks)]
    forecast = getattr(estimator, "forecast_", None)
    as_chosen = options.costs == CostOptions() and options.decision in (None, estimator.decision_)
    if forecast is not None and as_chosen:
        doubts.append(forecast.contradicted(evaluation.loss, evaluation.n_samples))
    return [doubt for doubt in doubts if doubt is not None]


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
    if result["certificate"] is not None:
        proved = result["certificate"]
        sure = f"{100 * proved['confidence']:.4g} %"
        head.append([f"sample by sample at most ({sure} sure)", f"{proved['upper']:.5g}"])
    # Labels that are neither true nor predicted anywhere would only widen the tables.
    scores = result["by_label"]
    names = [name for name, counts in scores.items() if counts["n_true"] or counts["n_predicted"]]
    places = [list(scores).index(name) for name in names]
    size = f"{result['n_samples']:,} samples, {result['n_nodes']:,} nodes"
    parts = [f"{result['model']} on {result['data']}: {size}\n{table(head)}"]
    if result["actions"] is not None:
        parts.append("Actions\n" + _action_table(result["actions"]))
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


def _action_table(found: dict[str, Any]) -> str:
    prices, shares = found["prices"], found["shares"]
    taken = ", ".join(f"{name} at {number(price)}" for name, price in prices.items())
    rows = [["answers", "cost per node", *(f"share of {name}" for name in prices)]]
    rows.append([taken, f"{found['cost']:.5g}", *(f"{shares[name]:.2%}" for name in prices)])
    for name, cost in found["always"].items():
        rest = ("100.00%" if other == name else "0.00%" for other in prices)
        rows.append([f"{name} all", f"{cost:.5g}", *rest])
    nothing = "review nothing" if list(prices) == ["review"] else "labels alone"
    rows.append([nothing, f"{found['never']:.5g}", *("0.00%" for _ in prices)])
    return table(rows)


def _score_table(title: str, scores: dict[str, dict[str, float]]) -> str:
    rows = [[title, "precision", "recall", "F1", "true", "predicted"]]
    for name, values in scores.items():
        rates = [f"{values[key]:.2%}" for key in ("precision", "recall", "f1")]
        rows.append([name, *rates, str(values["n_true"]), str(values["n_predicted"])])
    return table(rows)
