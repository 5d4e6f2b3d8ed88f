"""``robustruct export``: a model for programs without robustruct."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from robustruct.cli import errors
from robustruct.cli.model_input import load_model
from robustruct.cli.options import DecisionOption, ModelArgument
from robustruct.cli.output import check_writable


def export_cli(
    model: ModelArgument,
    output: Annotated[
        str,
        typer.Argument(metavar="FILE", help="NAME.py or NAME.crfsuite."),
    ],
    decision: DecisionOption = None,
) -> None:
    """Write a model of sequences for programs in which robustruct is not installed.

    NAME.py is a module that needs numpy alone, with its weights in NAME.npz; NAME.crfsuite a model
    file of CRFsuite, which its taggers (python-crfsuite and others) read.

    Example: robustruct export names.model tagger.py
    """
    with errors.ready(quiet=True):
        check_writable(output)
        load_model(model, decision).export(output)
    weights = f"{output.removesuffix('.py')}.npz"
    files = [output, weights] if output.endswith(".py") else [output]
    sizes = [f"{name} ({os.path.getsize(name) / 1e6:.2f} MB)" for name in files]
    print(f"Written: {', '.join(sizes)}.")
