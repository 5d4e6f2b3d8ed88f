"""``robustruct control``: a rule that keeps misses below a target, kept in a model's file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from robustruct.cli import errors
from robustruct.cli.model_input import held_out_file, load_model
from robustruct.cli.options import (
    EncodingOption,
    JobsOption,
    JsonOption,
    ModelArgument,
    QuietOption,
)


@dataclass(frozen=True, kw_only=True)
class ControlOptions:
    """Options of ``robustruct control``."""

    model: ModelArgument
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="Labelled samples that had no part in making the model."
        ),
    ]
    miss: Annotated[
        float,
        typer.Option(help="Largest share of nodes of other labels to be answered LABEL."),
    ]
    most: Annotated[
        int, typer.Option(help="The most nodes of other labels that any sample can have.")
    ]
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="The model with its rule.")
    ]
    label: Annotated[
        str, typer.Option(help="The label that must not be answered where another is true.")
    ] = "O"
    encoding: EncodingOption = "utf-8"
    jobs: JobsOption = -1
    quiet: QuietOption = False
    as_json: JsonOption = False


def control_cli(options: ControlOptions) -> None:
    """Calibrate a rule that misses at most a share of what matters, in expectation.

    The label is then answered only where it is safe. Prints what that costs in false alarms, and
    writes the model with the rule, which `robustruct predict --rule LABEL` uses.

    Example: robustruct control pii.model held-out.conll --miss 0.02 --most 40 -o safe.model
    """
    with errors.ready(options.quiet):
        result = control(options)
    print(json.dumps(result, indent=2) if options.as_json else result["sentence"])


def control(options: ControlOptions) -> dict[str, Any]:
    """Calibrate the rule and write the model; return the rule, ready for JSON."""
    from robustruct.evaluation.evaluate import known_labels

    model = load_model(options.model)
    model.set_params(n_jobs=options.jobs)
    (label,) = known_labels(model.classes_)([options.label])
    model._code_of(label)
    held_out = held_out_file(model, options.data, options.encoding)
    with errors.blamed_on_input():
        rule = model.control(held_out.X, held_out.y, options.miss, label, options.most)
    model.save(options.output)
    found = {name: value for name, value in vars(rule).items() if name != "digests"}
    return {"model": options.output, "data": options.data, "sentence": str(rule), **found}
