"""``robustruct certify``: a bound on the cost of a model's labels, from held-out samples."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import typer

from robustruct.cli import errors
from robustruct.cli.model_input import held_out_file, load_model
from robustruct.cli.options import (
    DecisionOption,
    EncodingOption,
    JobsOption,
    JsonOption,
    ModelArgument,
    QuietOption,
)


@dataclass(frozen=True, kw_only=True)
class CertifyOptions:
    """Options of ``robustruct certify``."""

    model: ModelArgument
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="Labelled samples that had no part in making the model."
        ),
    ]
    confidence: Annotated[
        float, typer.Option(help="Chance that the bound holds, above 0 and below 1.")
    ] = 0.95
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column (from 0, or from -1 backwards), or field of JSON lines, that says what a "
            "sample belongs to: its document, person or template.",
        ),
    ] = None
    per: Annotated[
        Literal["sample", "node"],
        typer.Option(help="Average the cost per node over samples (or groups), or over nodes."),
    ] = "sample"
    longest: Annotated[
        float | None,
        typer.Option(help="For --per node, the most nodes that a sample (or group) can have."),
    ] = None
    decision: DecisionOption = None
    encoding: EncodingOption = "utf-8"
    jobs: JobsOption = -1
    quiet: QuietOption = False
    as_json: JsonOption = False


def certify_cli(options: CertifyOptions) -> None:
    """Bound what a model's labels cost on new samples, with a stated confidence.

    The cost is that for which the model was trained. Samples that trained it are recognised and
    refused.

    Example: robustruct certify pii.model held-out.conll --groups 1
    """
    with errors.ready(options.quiet):
        result = certify(options)
    for note in result["warnings"]:
        print(f"robustruct: note: {note}.", file=sys.stderr)
    print(json.dumps(result, indent=2) if options.as_json else result["sentence"])


def certify(options: CertifyOptions) -> dict[str, Any]:
    """Return the certificate, ready for JSON, with its sentence."""
    import warnings

    from robustruct.guarantees.certificate import check_confidence

    check_confidence(options.confidence)
    model = load_model(options.model, options.decision)
    model.set_params(n_jobs=options.jobs)
    held_out = held_out_file(model, options.data, options.encoding, options.groups)
    with errors.blamed_on_input(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the certificate has them too
        certificate = model.certify(
            held_out.X,
            held_out.y,
            options.confidence,
            held_out.groups,
            options.per,
            held_out.node_weight,
            longest=options.longest,
        )
    return {"data": options.data, "sentence": str(certificate), **asdict(certificate)}
