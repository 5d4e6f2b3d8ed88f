"""``robustruct compare``: the models side by side on the same data and the same cost."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robustruct.cli import errors
from robustruct.cli.options import (
    AlphaOption,
    BadLabelsChoice,
    BadLabelsOption,
    ColumnsOption,
    ConstraintsOption,
    CostOption,
    DecisionOption,
    EncodingOption,
    FormatOption,
    JobsOption,
    JsonOption,
    LabelColumnOption,
    LossOption,
    MaxIterOption,
    OrderOption,
    QuietOption,
    SeparatorOption,
    TemplateOption,
    alphas_of,
    listed,
    listed_numbers,
)
from robustruct.cli.output import check_writable
from robustruct.cli.reading import Layout
from robustruct.cli.tables import table
from robustruct.errors import InvalidInputError

if TYPE_CHECKING:
    from robustruct.comparison import Samples
    from robustruct.formats.corpus import Corpus

N_TRAIN, N_TEST = 100, 400  # sequences of 12 digits, where no data are given
POSITION = "position"
TIME_LIMIT = 240.0  # seconds: with reading, testing and the report a large file takes 5 minutes


def compare_cli(
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="[DATA]",
            help="Labelled file, plain or .gz; by default sequences of handwritten digits that "
            "come with the package.",
        ),
    ] = None,
    test: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Labelled file to test on; by default a third of DATA."),
    ] = None,
    loss: LossOption = None,
    cost: CostOption = None,
    order: OrderOption = None,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="position|COLUMN",
            help="Weight of each node's cost: growing with its position, or from a column.",
        ),
    ] = None,
    cv: Annotated[
        int | None,
        typer.Option(min=2, metavar="FOLDS", help="Test every sample once, in so many folds."),
    ] = None,
    alpha: AlphaOption = None,
    decision: DecisionOption = None,
    constraints: ConstraintsOption = None,
    bad_labels: BadLabelsOption = BadLabelsChoice.repair,
    max_iter: MaxIterOption = 1000,
    time_limit: Annotated[
        float,
        typer.Option(
            min=0.0,
            metavar="SECONDS",
            help="For training all models. What is cut short is said; 0 sets no limit.",
        ),
    ] = TIME_LIMIT,
    report: Annotated[Path, typer.Option(metavar="FILE", help="Report to write.")] = Path(
        "report.html"
    ),
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
    form: FormatOption = None,
    template: TemplateOption = None,
    label_column: LabelColumnOption = None,
    columns: ColumnsOption = None,
    separator: SeparatorOption = None,
    encoding: EncodingOption = "utf-8",
    jobs: JobsOption = -1,
    seed: Annotated[
        int, typer.Option(min=0, help="Of the split, of training and of the default data.")
    ] = 0,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train AGM, CRF, SSVM and the family they belong to, and compare what their mistakes cost.

    Each model makes its choices on the training samples; all are judged on the same test samples.
    Prints the mean cost with a confidence interval, which differences are significant, accuracy,
    training time and certified gap, and which model to train with what command; writes a report
    with charts and examples.

    Example: robustruct compare train.conll --test test.conll --cost "B-NP>O=5"
    """
    try:
        with errors.ready(quiet):
            result = compare(
                data,
                test=test,
                loss=loss,
                costs=cost or (),
                order=listed(order),
                by_position=weights == POSITION,
                folds=cv,
                alphas=alphas_of(alpha or ()) or "auto",
                decision=decision.value if decision else "auto",
                constraints=constraints.value if constraints else None,
                bad_labels=bad_labels.value,
                max_iter=max_iter,
                time_limit=time_limit or None,
                report=None if no_report else str(report),
                layout=Layout(
                    form=form.value if form else None,
                    template=None if template is None else str(template),
                    label_column=label_column,
                    columns=listed_numbers(columns, "--columns"),
                    weight_column=_weight_column(weights),
                    separator=separator.value if separator else None,
                    encoding=encoding,
                ),
                jobs=jobs,
                seed=seed,
                progress_wanted=not quiet,
            )
    except KeyboardInterrupt:
        print("robustruct: interrupted; nothing was compared.", file=sys.stderr)
        raise typer.Exit(errors.INTERRUPTED) from None
    for note in result["notes"]:
        print(f"robustruct: note: {note}", file=sys.stderr)
    print(json.dumps(result, indent=2) if as_json else _summary(result))


def compare(
    data: str | None = None,
    *,
    test: str | None = None,
    loss: str | None = None,
    costs: Sequence[str] = (),
    order: Sequence[str] | None = None,
    by_position: bool = False,
    folds: int | None = None,
    alphas: Sequence[float] | str = "auto",
    decision: str = "auto",
    constraints: str | None = None,
    bad_labels: str = "repair",
    max_iter: int = 1000,
    time_limit: float | None = TIME_LIMIT,
    report: str | None = None,
    layout: Layout = Layout(),  # noqa: B008 (it cannot change)
    jobs: int = -1,
    seed: int = 0,
    progress_wanted: bool = False,
) -> dict[str, Any]:
    """Read, train, test, and write the report.

    Parameters
    ----------
    data : str, optional
        Labelled file; by default the embedded digits.
    test : str, optional
        Labelled file to test on.
    loss, costs, order
        As for `ChosenLoss`; by default "absolute" for the digits and "hamming" for files.
    by_position : bool
        Node weights grow with the position.
    folds : int, optional
        Test every sample once, in so many folds.
    alphas, decision, constraints, bad_labels, max_iter
        As for `robustruct.comparison.compare`.
    time_limit : float, optional
        Seconds that training may take in all.
    report : str, optional
        File to write.
    layout : Layout
        Of the files.
    jobs, seed : int
    progress_wanted : bool

    Returns
    -------
    dict
        Ready for JSON.
    """
    _check_usage(data, test, folds, layout)
    if report is not None:
        check_writable(report)
    samples, others = _digits(seed) if data is None else _read(data, test, layout, progress_wanted)
    if by_position:
        samples, others = _weighted(samples), None if others is None else _weighted(others)
    return _compared(
        samples,
        others if folds is None else None,
        data,
        (loss or ("hamming" if data else "absolute"), costs, order, layout.encoding),
        folds=folds,
        alphas=alphas,
        decision=decision,
        constraints=constraints,
        bad_labels=bad_labels,
        max_iter=max_iter,
        max_time=time_limit,
        n_jobs=jobs,
        seed=seed,
        progress_wanted=progress_wanted,
        report=report,
    )


def _check_usage(data: str | None, test: str | None, folds: int | None, layout: Layout) -> None:
    if test is not None and folds is not None:
        raise InvalidInputError("--test and --cv are two ways to test; give one of both.")
    about_files = test is not None or replace(layout, encoding=Layout.encoding) != Layout()
    if data is None and about_files:
        raise InvalidInputError("options about files need a file: robustruct compare DATA ...")


def _weight_column(weights: str | None) -> int | None:
    if weights is None or weights == POSITION:
        return None
    try:
        return int(weights)
    except ValueError:
        raise InvalidInputError(
            f"--weights {weights}: say {POSITION}, or the number of a column, from 0."
        ) from None


def _digits(seed: int) -> tuple[Samples, Samples]:
    from robustruct.comparison import Samples
    from robustruct.datasets import load_counter

    train = load_counter("train", n_sequences=N_TRAIN, seed=seed)
    test = load_counter("test", n_sequences=N_TEST, seed=seed)
    return Samples(list(train.X), list(train.y)), Samples(list(test.X), list(test.y))


def _read(
    data: str, test: str | None, layout: Layout, progress_wanted: bool
) -> tuple[Samples, Samples | None]:
    corpus = layout.read(data, progress_wanted, captions=True)
    if test is None:
        return _samples(corpus), None
    tested = layout.read_alike(test, corpus.format, progress_wanted, captions=True)
    return _samples(corpus), _samples(tested)


def _samples(corpus: Corpus) -> Samples:
    from robustruct.comparison import Samples

    return Samples(corpus.X, corpus.y, corpus.sample_weight, corpus.node_weight, corpus.captions)


def _weighted(samples: Samples) -> Samples:
    from robustruct.datasets import position_weights

    return replace(samples, node_weight=position_weights(samples.y))


def _compared(
    samples: Samples,
    others: Samples | None,
    data: str | None,
    loss: tuple[str, Sequence[str], Sequence[str] | None, str],
    *,
    progress_wanted: bool,
    report: str | None,
    **options: Any,
) -> dict[str, Any]:
    from robustruct.cli.loss import ChosenLoss
    from robustruct.comparison import compare as compare_models
    from robustruct.labels import sorted_labels

    name, costs, order, encoding = loss
    classes = sorted_labels([*samples.y, *([] if others is None else others.y)])
    chosen = ChosenLoss(name, costs, order, encoding).of(classes)
    with errors.blamed_on_input() if data else nullcontext():
        comparison = compare_models(
            samples,
            others,
            chosen,
            data=Path(data).name if data else "handwritten digits that count",
            loss_name=" with ".join([name, *([", ".join(costs)] if costs else [])]),
            verbose=int(progress_wanted),
            **options,
        )
    if report is not None:
        from robustruct.report import write

        write(comparison, report)
    result = {**comparison.as_dict(), "report": report}
    if data is not None:
        given = {**comparison.recommendation.options, "constraints": options["constraints"]}
        if options["bad_labels"] != "repair":
            given["bad-labels"] = options["bad_labels"]
        command = ["robustruct", "train", data, "-o", "MODEL"]
        for option, value in given.items():
            command += [] if value is None else [f"--{option}", value]
        command += [] if name == "hamming" else ["--loss", name]
        for cost in costs:
            command += ["--cost", cost]
        command += ["--order", ",".join(order)] if order else []
        result["recommendation"]["command"] = shlex.join(command)
    return result


def _summary(result: dict[str, Any]) -> str:
    head = (
        f"{result['data']}, {result['loss']} loss: trained on {result['n_train']} samples,\n"
        f"tested on {result['split']} ({result['n_test_nodes']} labels).\n"
    )
    spans = result["models"][0]["span_f1"] is not None
    rows = [["", "cost", "95 % interval", "accuracy", *(["span F1"] if spans else [])]]
    rows[0] += ["training", "in all", "gap", "alpha"]
    for entry in result["models"]:
        alphas = entry["alpha"] if isinstance(entry["alpha"], list) else [entry["alpha"]]
        shown = sorted({f"{alpha:.2g}": alpha for alpha in alphas}, key=float)
        rows.append(
            [
                entry["model"],
                f"{entry['cost']:.4g}",
                f"{entry['cost_low']:.4g} to {entry['cost_high']:.4g}",
                f"{entry['accuracy']:.1%}",
                *([f"{entry['span_f1']:.1%}"] if spans else []),
                f"{entry['seconds']:.1f} s",
                f"{entry['seconds_with_choice']:.1f} s",
                f"{entry['gap']:.2%}",
                shown[0] if len(shown) == 1 else f"{shown[0]}..{shown[-1]}",
            ]
        )
    unit = "unit of weight" if result["weighted"] else "label"
    legend = (
        f"\n  cost: mean per {unit}; training: the last fit, in all: with the choice before it;\n"
        "  gap: certified distance to the best objective at most\n"
    )
    differences = [f"  {difference['in_words']}" for difference in result["differences"]]
    advice = ["", f"Recommended: {result['recommendation']['why']}"]
    if "command" in result["recommendation"]:
        advice.append(f"  {result['recommendation']['command']}")
    written = [] if result["report"] is None else ["", f"Charts and examples: {result['report']}"]
    return "\n".join([head, table(rows), legend, *differences, *advice, *written])
