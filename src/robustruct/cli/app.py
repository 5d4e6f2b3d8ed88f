"""Entry of the command ``robustruct``; heavy imports wait until a subcommand runs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from robustruct._version import __version__
from robustruct.cli import errors
from robustruct.cli.certify import CertifyOptions, certify_cli
from robustruct.cli.compare import CompareOptions, compare_cli
from robustruct.cli.control import ControlOptions, control_cli
from robustruct.cli.evaluate import EvaluateOptions, evaluate_cli
from robustruct.cli.export import export_cli
from robustruct.cli.inspect import inspect_cli
from robustruct.cli.options import command
from robustruct.cli.predict import PredictOptions, predict_cli
from robustruct.cli.train import TrainOptions, train_cli
from robustruct.errors import RobustructError

app = typer.Typer(
    name="robustruct",
    no_args_is_help=True,
    epilog=errors.HELP,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # drawing boxes would double the time to show help
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"robustruct {__version__}")
        raise typer.Exit


@app.callback()
def robustruct(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Label sequences, trees and small graphs with models trained for the cost that matters."""


for name, called in (
    ("train", command(train_cli, TrainOptions)),
    ("predict", command(predict_cli, PredictOptions)),
    ("evaluate", command(evaluate_cli, EvaluateOptions)),
    ("certify", command(certify_cli, CertifyOptions)),
    ("control", command(control_cli, ControlOptions)),
    ("inspect", inspect_cli),
    ("export", export_cli),
    ("compare", command(compare_cli, CompareOptions)),
):
    app.command(name, epilog=errors.HELP)(called)


def main() -> None:
    """Run the command; errors of the library become a message on stderr and an exit code."""
    try:
        app()
    except RobustructError as error:
        print(f"robustruct: {error}", file=sys.stderr)
        sys.exit(errors.exit_code(error))
    except OSError as error:
        print(f"robustruct: {error}", file=sys.stderr)
        sys.exit(errors.FAILED)
