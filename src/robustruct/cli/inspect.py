"""``robustruct inspect``: what a model has learnt, and why a node got its label."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robustruct.cli import errors
from robustruct.cli.errors import BadInputError
from robustruct.cli.model_input import format_for, load_model
from robustruct.cli.options import EncodingOption, JsonOption, ModelArgument
from robustruct.cli.tables import expected, finite_or_word, forecast_of, number, table
from robustruct.errors import errors_at_lines

if TYPE_CHECKING:
    from robustruct.models.base import StructuredModel
    from robustruct.models.inspection import Explanation

HISTORY = 12  # lines of the history that are printed: a screen shows them with all the rest


def inspect_cli(
    model: ModelArgument,
    top: Annotated[int, typer.Option("--top", "-n", min=1, help="Features per label.")] = 5,
    label: Annotated[
        list[str] | None, typer.Option(help="Only features of this label; may be repeated.")
    ] = None,
    why: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Explain a label the model gives in this file instead."),
    ] = None,
    sample: Annotated[int, typer.Option(min=0, help="With --why: which sample, from 0.")] = 0,
    node: Annotated[
        int, typer.Option("--node", "--token", min=0, help="With --why: which node, from 0.")
    ] = 0,
    against: Annotated[
        str | None,
        typer.Option(metavar="LABEL", help="With --why: the label to compare it with."),
    ] = None,
    encoding: EncodingOption = "utf-8",
    as_json: JsonOption = False,
) -> None:
    """Show what a model has learnt: top features, transitions, costs and training history.

    Example: robustruct inspect chunks.model --why test.conll --sample 3 --token 7
    """
    with errors.ready():
        estimator = load_model(model)
        if why is not None:
            text, explanation = explain(estimator, why, sample, node, against, encoding)
            if as_json:
                print(json.dumps({"text": text, **_as_dict(explanation)}, indent=2))
            else:
                print(f"{why}, sample {sample}, node {node}: {text}".rstrip(": "))
                print(explanation)
            return
        result = inspect(estimator, top, label)
        print(json.dumps(result, indent=2) if as_json else _report(result))


def inspect(
    model: StructuredModel, top: int = 5, labels: list[str] | None = None
) -> dict[str, Any]:
    """Describe what a model has learnt: features, transitions, costs, history.

    Parameters
    ----------
    model : StructuredModel
    top : int
        Features per label, for it and against it; and transitions.
    labels : list of str, optional
        By default all.

    Returns
    -------
    dict
        Ready for JSON. Costs are [true, predicted] in the order of ``labels``.
    """
    from robustruct.cli.loss import loss_name
    from robustruct.constraints import Constraints

    label_of = {str(label): label for label in model.classes_.tolist()}
    wanted = list(label_of) if labels is None else labels
    for label in wanted:
        if label not in label_of:
            raise typer.BadParameter(
                f"the model has no label {label!r}; there are {', '.join(label_of)}",
                param_hint="--label",
            )
    form = getattr(model, "input_", None)
    return {
        "model": type(model).__name__,
        "parameters": {
            "loss": loss_name(model.loss_),
            "alpha": model.alpha_,
            "tol": model.tol,
            "temperature": finite_or_word(model.temperature_),
            "decision": model._decision,
            "decision_scale": model._scale,
            "constraints": Constraints.of(model.constraints).scheme,
        },
        "input": form,
        "n_features": model.node_weights_.shape[0],
        "forecast": forecast_of(model),
        "gap": model.duality_gap_,
        "n_iter": model.n_iter_,
        "labels": list(label_of.values()),
        "features": {
            label: {
                "for": model.top_features(label_of[label], top),
                "against": model.top_features(label_of[label], top, negative=True),
            }
            for label in wanted
        },
        "transitions": {
            "for": [[*pair, weight] for pair, weight in model.top_transitions(2 * top)],
            "against": [
                [*pair, weight] for pair, weight in model.top_transitions(2 * top, negative=True)
            ],
        },
        "costs": model.cost_.tolist(),
        "history": [asdict(record) for record in model.history_],
    }


def explain(
    model: StructuredModel,
    data: str,
    sample: int = 0,
    node: int = 0,
    against: str | None = None,
    encoding: str = "utf-8",
) -> tuple[str, Explanation]:
    """Return the text of a node in a file, and the explanation of its predicted label.

    Parameters
    ----------
    model : StructuredModel
    data : str
        The file.
    sample, node : int
        Which node of which sample.
    against : str, optional
        The label to compare with.
    encoding : str
    """
    from robustruct.formats.text import Lines

    label_of = {str(label): label for label in model.classes_.tolist()}
    if against is not None and against not in label_of:
        raise typer.BadParameter(
            f"the model has no label {against!r}; there are {', '.join(label_of)}",
            param_hint="--against",
        )
    with Lines(data, encoding) as lines:
        form = format_for(model, lines)
        samples = list(islice(form.samples(lines, labelled=False), sample + 1))
        if len(samples) <= sample:
            raise BadInputError(
                f"{lines.name}: there is no sample {sample}; it has {len(samples)}, counted from 0."
            )
        (x,) = form.features(samples[-1:])
        with errors_at_lines(lines.name, [samples[-1].line]):
            explanation = model.explain(
                x, node, against=None if against is None else label_of[against]
            )
    return form.node_text(samples[-1], node), explanation


def _as_dict(explanation: Explanation) -> dict[str, Any]:
    fields = {**asdict(explanation), "margin": explanation.margin}
    for key in ("scores", "probabilities", "expected_cost"):
        fields[key] = {str(label): value for label, value in fields[key].items()}
    for key in ("features", "transitions"):
        fields[key] = [{"name": part["name"], "amount": part["amount"]} for part in fields[key]]
    return fields


# ------------------------------------------------------------------------- for people


def _report(result: dict[str, Any]) -> str:
    parameters = result["parameters"]
    head = [
        ["loss", parameters["loss"]],
        ["alpha", number(parameters["alpha"])],
        ["temperature", f"{parameters['temperature']}"],
        ["decision", parameters["decision"]],
        ["features", f"{result['n_features']:,}"],
        ["labels", ", ".join(map(str, result["labels"]))],
        ["certified gap", f"{result['gap']:.2%} after {result['n_iter']} passes"],
    ]
    if result["forecast"] is not None:
        head.append(["expected cost", expected(result["forecast"])])
    if parameters["constraints"] is not None:
        head.append(["constraints", parameters["constraints"]])
    if result["input"] is not None:
        head.append(["input", result["input"]["format"]])
    parts = [f"{result['model']}\n{table(head, text_columns=2)}"]
    for label, features in result["features"].items():
        rows = [
            [f"{weight:+.4f}", name]
            for name, weight in [*features["for"], *reversed(features["against"])]
        ]
        parts.append(f"Features of {label}\n{table(rows, text_columns=2)}")
    shown = [*result["transitions"]["for"], *reversed(result["transitions"]["against"])]
    distinct = {(first, second): weight for first, second, weight in shown}
    rows = [[f"{w:+.4f}", f"{first} -> {second}"] for (first, second), w in distinct.items()]
    parts.append(f"Transitions\n{table(rows, text_columns=2)}")
    names = [str(label) for label in result["labels"]]
    costs = [[name, *map(number, row)] for name, row in zip(names, result["costs"], strict=True)]
    parts.append(f"Costs (rows: true, columns: predicted)\n{table([['', *names], *costs])}")
    parts.append(f"Training history\n{_history(result['history'])}")
    if result["input"] is not None and "template" in result["input"]:
        parts.append(
            "Template\n"
            + "\n".join(f"  {line}" for line in result["input"]["template"].splitlines())
        )
    return "\n\n".join(parts)


def _history(records: list[dict[str, Any]]) -> str:
    """Format a table of at most HISTORY passes, the last one among them."""
    step = max(1, -(-len(records) // HISTORY))
    shown = [records[i] for i in range(len(records) - 1, -1, -step)][::-1]
    rows = [["pass", "seconds", "objective", "lower bound", "gap"]]
    for record in shown:
        rows.append(
            [
                str(record["n_iter"]),
                f"{record['time']:.2f}",
                f"{record['primal']:.6g}",
                f"{record['dual']:.6g}",
                f"{record['gap']:.2%}",
            ]
        )
    return table(rows, text_columns=0)
