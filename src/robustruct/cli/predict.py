"""``robustruct predict``: labels for a file, in its own format."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from robustruct.cli import errors
from robustruct.cli.model_input import format_for, load_model
from robustruct.cli.options import (
    AUTO,
    ActionsOption,
    DecisionOption,
    EncodingOption,
    JobsOption,
    JsonOption,
    ModelArgument,
    QuietOption,
    TableOptions,
    actions_of,
)


@dataclass(frozen=True, kw_only=True)
class PredictOptions:
    """Options of ``robustruct predict``."""

    model: ModelArgument
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="File to label, plain or .gz; - is stdin.")
    ] = "-"
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="By default standard output."),
    ] = None
    proba: Annotated[bool, typer.Option("--proba", help="Add the probability of every label.")] = (
        False
    )
    k_best: Annotated[
        int, typer.Option(min=0, help="Add the K best labellings (fewer if there are fewer).")
    ] = 0
    known: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column (a number, -1 is the last) or JSON field of labels that are known already "
            "and that predictions must agree with: ? or nothing where unknown, A|B where either.",
        ),
    ] = None
    actions: ActionsOption = None
    rule: Annotated[
        str | None,
        typer.Option(
            metavar="LABEL",
            help="Answer LABEL only where the rule allows it that `robustruct control` calibrated.",
        ),
    ] = None
    spans: Annotated[
        bool, typer.Option("--spans", help="Add the spans with their probabilities.")
    ] = False
    threshold: Annotated[
        str,
        typer.Option(
            metavar="NUMBER|auto",
            help="Least probability of a span, from 0 to 1; auto takes that of the model's "
            "decision, or 0.5.",
        ),
    ] = AUTO
    decision: DecisionOption = None
    encoding: EncodingOption = "utf-8"
    table: TableOptions = field(default_factory=TableOptions)
    jobs: JobsOption = -1
    quiet: QuietOption = False
    as_json: JsonOption = False

    @property
    def least_probability(self) -> float | str | None:
        """Of a span that is listed; None if none are."""
        if not self.spans:
            return None
        try:
            return self.threshold if self.threshold == AUTO else float(self.threshold)
        except ValueError as error:
            raise typer.BadParameter(
                f"{error}; give a number from 0 to 1, or {AUTO}", param_hint="--threshold"
            ) from None

    @property
    def shows_progress(self) -> bool:
        """Whether to show progress: not among labels on a terminal, nor in the log of a pipe."""
        to_file = self.output not in (None, "-")
        elsewhere = sys.stdout is None or not sys.stdout.isatty()
        return not self.quiet and (to_file or (sys.stderr.isatty() and elsewhere))


def predict_cli(options: PredictOptions) -> None:
    """Label a file with a trained model.

    Columns get the predicted label as one more column, then the K best labellings, then
    label/probability for every label; files for CRFsuite become what `crfsuite tag` prints; JSON
    lines get the fields predicted, best and probabilities; tables become CSV with more columns.
    Labels in the file are not looked at, unless --known says that they are known.
    With --json or --spans every format becomes JSON lines; there a span has its first node, the
    node after its last, its type and its probability.

    Large files are no problem: a few hundred samples are in memory at once, tables excepted.
    """
    with errors.ready(options.quiet):
        predict(options)


def predict(options: PredictOptions) -> dict[str, Any]:
    """Write the samples of a file with their predicted labels; return their number."""
    from robustruct.evaluation.predict_files import answered, write_answers
    from robustruct.formats.json_lines import JsonLinesFormat
    from robustruct.formats.output import opened_output
    from robustruct.formats.text import Lines
    from robustruct.progress import Pace, progress

    actions = actions_of(options.actions)
    estimator = load_model(options.model, options.decision)
    estimator.set_params(n_jobs=options.jobs)
    with (
        Lines(options.data, options.encoding) as lines,
        progress(f"labelling {lines.name}", options.shows_progress) as show,
        opened_output(options.output) as stream,
    ):
        pace = Pace()

        def watch(done: int) -> None:
            # A reader at the other end of a pipe gets labels as they come.
            stream.flush()
            show(f"{done:,} samples", pace.left(lines.fraction))

        if lines.is_empty:
            print(f"robustruct: note: {lines.name} is empty.", file=sys.stderr)
            return {"n_samples": 0}
        form = format_for(estimator, lines, options.table)
        pairs = answered(
            estimator,
            form,
            lines,
            labelled=False,
            proba=options.proba,
            k_best=options.k_best,
            known=options.known,
            spans=options.least_probability,
            watch=watch,
            actions=actions or None,
            rule=options.rule,
        )
        in_json = options.as_json or (options.spans and not isinstance(form, JsonLinesFormat))
        written_as = None if in_json else form  # None is JSON lines
        n_samples = write_answers(pairs, written_as, stream, options.encoding)
    return {"n_samples": n_samples}
