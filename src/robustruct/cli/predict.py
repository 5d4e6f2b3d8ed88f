"""``robustruct predict``: labels for a file, in its own format."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from robustruct.cli import errors
from robustruct.cli.model_input import format_for, load_model
from robustruct.cli.options import (
    DecisionOption,
    EncodingOption,
    JobsOption,
    JsonOption,
    ModelArgument,
    QuietOption,
)


def predict_cli(
    model: ModelArgument,
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="File to label, plain or .gz; - is stdin.")
    ] = "-",
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="By default standard output."),
    ] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Add the probability of every label.")
    ] = False,
    k_best: Annotated[
        int, typer.Option(min=0, help="Add the K best labellings (fewer if there are fewer).")
    ] = 0,
    decision: DecisionOption = None,
    encoding: EncodingOption = "utf-8",
    jobs: JobsOption = -1,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Label a file with a trained model.

    Columns get the predicted label as one more column, then the K best labellings, then
    label/probability for every label; files for CRFsuite become what `crfsuite tag` prints; JSON
    lines get the fields predicted, best and probabilities. Labels in the file are not looked at.
    With --json every format becomes JSON lines.

    Large files are no problem: a few hundred samples are in memory at once.
    """
    with errors.ready(quiet):
        predict(
            str(model),
            data,
            output,
            proba=proba,
            k_best=k_best,
            decision=decision.value if decision else None,
            encoding=encoding,
            jobs=jobs,
            progress_wanted=not quiet and _room_for_progress(output),
            as_json=as_json,
        )


def _room_for_progress(output: str | None) -> bool:
    """Progress must not mix with labels on a terminal, nor fill the log of a pipe."""
    to_file = output not in (None, "-")
    elsewhere = sys.stdout is None or not sys.stdout.isatty()
    return to_file or (sys.stderr.isatty() and elsewhere)


def predict(
    model: str,
    data: str,
    output: str | None = None,
    *,
    proba: bool = False,
    k_best: int = 0,
    decision: str | None = None,
    encoding: str = "utf-8",
    jobs: int = -1,
    progress_wanted: bool = False,
    as_json: bool = False,
) -> dict[str, Any]:
    """Write the samples of a file with their predicted labels.

    Parameters
    ----------
    model, data : str
        Files; "-" is standard input.
    output : str, optional
        By default standard output.
    proba : bool
    k_best : int
    decision : "auto", "map", "predictor" or "bayes", optional
        By default that of the model.
    encoding : str
        Of the data and of the output.
    jobs : int
    progress_wanted : bool
    as_json : bool
        Write JSON lines whatever the format of the data.

    Returns
    -------
    dict
        ``n_samples``: how many were labelled.
    """
    from robustruct.evaluation.predict_files import answered, write_answers
    from robustruct.formats.output import opened_output
    from robustruct.formats.text import Lines
    from robustruct.progress import Pace, progress

    estimator = load_model(model, decision)
    estimator.set_params(n_jobs=jobs)
    with (
        Lines(data, encoding) as lines,
        progress(f"labelling {lines.name}", progress_wanted) as show,
        opened_output(output) as stream,
    ):
        pace = Pace()

        def watch(done: int) -> None:
            stream.flush()
            show(f"{done:,} samples", pace.left(lines.fraction))

        if not lines.head(1):
            print(f"robustruct: note: {lines.name} is empty.", file=sys.stderr)
            return {"n_samples": 0}
        form = format_for(estimator, lines)
        pairs = answered(
            estimator, form, lines, labelled=False, proba=proba, k_best=k_best, watch=watch
        )
        n_samples = write_answers(pairs, None if as_json else form, stream, encoding)
    return {"n_samples": n_samples}
