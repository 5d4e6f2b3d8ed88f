"""``robustruct compare``: AGM, CRF and SSVM side by side on the same data and the same cost."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robustruct.cli import errors
from robustruct.cli.loss import chosen_loss
from robustruct.cli.options import (
    CostOption,
    EncodingOption,
    FormatName,
    JobsOption,
    JsonOption,
    LossOption,
    OrderOption,
    QuietOption,
    Separator,
    listed_numbers,
)
from robustruct.cli.output import check_writable
from robustruct.cli.reading import read_data, read_template
from robustruct.cli.tables import table

if TYPE_CHECKING:
    from robustruct.comparison import Samples

N_TRAIN, N_TEST = 100, 400  # sequences of 12 digits, where no data are given
POSITION = "position"


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
    report: Annotated[Path, typer.Option(metavar="FILE", help="Report to write.")] = Path(
        "report.html"
    ),
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
    form: Annotated[
        FormatName | None,
        typer.Option("--format", help="Format of the data; by default it is recognised."),
    ] = None,
    template: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Features of columns, in the syntax of CRF++."),
    ] = None,
    label_column: Annotated[
        int | None,
        typer.Option(help="Column of the labels, from 0; negative: from the last.  [default: -1]"),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="0,1,...",
            help="Columns that the default template reads, words first; by default all others.",
        ),
    ] = None,
    separator: Annotated[
        Separator | None,
        typer.Option(help="Columns are separated by blanks and tabs alike, or by each tab."),
    ] = None,
    encoding: EncodingOption = "utf-8",
    jobs: JobsOption = -1,
    seed: Annotated[
        int, typer.Option(min=0, help="Of the split, of training and of the default data.")
    ] = 0,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train AGM, CRF and SSVM and compare what their mistakes cost.

    Each model chooses its penalty on the training samples; all are judged on the same test samples.
    Prints the mean cost with a confidence interval, which differences are significant, accuracy,
    training time and certified gap, and writes a report with charts and examples.

    Example: robustruct compare train.conll --test test.conll --cost "B-NP>O=5"
    """
    try:
        result = compare(
            data,
            test=test,
            loss=loss,
            costs=cost or (),
            order=None if order is None else [label.strip() for label in order.split(",")],
            weights=weights,
            folds=cv,
            report=None if no_report else str(report),
            form=form.value if form else None,
            template=None if template is None else str(template),
            encoding=encoding,
            jobs=jobs,
            seed=seed,
            progress_wanted=not quiet,
            label_column=label_column,
            columns=listed_numbers(columns, "--columns"),
            separator=separator.value if separator else None,
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
    weights: str | None = None,
    folds: int | None = None,
    report: str | None = None,
    form: str | None = None,
    template: str | None = None,
    encoding: str = "utf-8",
    jobs: int = -1,
    seed: int = 0,
    progress_wanted: bool = False,
    **columns: Any,
) -> dict[str, Any]:
    """Read, train, test, and write the report.

    Parameters
    ----------
    data : str, optional
        Labelled file; by default the embedded digits.
    test : str, optional
        Labelled file to test on.
    loss, costs, order
        As for `chosen_loss`; by default "absolute" for the digits and "hamming" for files.
    weights : str, optional
        "position", or the number of a column.
    folds : int, optional
        Test every sample once, in so many folds.
    report : str, optional
        File to write.
    form : str, optional
        Name of the format.
    template : str, optional
        File with a template.
    encoding : str
    jobs, seed : int
    progress_wanted : bool
    **columns
        Options of ``ConllFormat.found``; None stands for its default.

    Returns
    -------
    dict
        Ready for JSON.
    """
    _check_usage(data, test, folds, form, template, columns)
    if report is not None:
        check_writable(report)
    if data is None:
        samples, others = _digits(seed)
    else:
        columns["weight_column"] = _weight_column(weights)
        columns["template"] = read_template(template, encoding)
        corpus = read_data(data, form, encoding, progress_wanted, captions=True, **columns)
        samples, others = _samples(corpus), None
        if test is not None:
            tested = read_data(test, corpus.format, encoding, progress_wanted, captions=True)
            others = _samples(tested)
    if weights == POSITION:
        samples, others = _weighted(samples), None if others is None else _weighted(others)
    return _compared(
        samples,
        others if folds is None else None,
        data,
        (loss or ("hamming" if data else "absolute"), costs, order, encoding),
        folds=folds,
        n_jobs=jobs,
        seed=seed,
        progress_wanted=progress_wanted,
        report=report,
    )


def _check_usage(
    data: str | None,
    test: str | None,
    folds: int | None,
    form: str | None,
    template: str | None,
    columns: dict[str, Any],
) -> None:
    from robustruct.errors import InvalidInputError

    if test is not None and folds is not None:
        raise InvalidInputError("--test and --cv are two ways to test; give one of both.")
    if template is not None and columns.get("columns") is not None:
        raise InvalidInputError("a template names its own columns; leave out --columns.")
    given = [test, form, template, *columns.values()]
    if data is None and any(option is not None for option in given):
        raise InvalidInputError("options about files need a file: robustruct compare DATA ...")


def _weight_column(weights: str | None) -> int | None:
    from robustruct.errors import InvalidInputError

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


def _samples(corpus: Any) -> Samples:
    from robustruct.comparison import Samples

    return Samples(corpus.X, corpus.y, corpus.sample_weight, corpus.node_weight, corpus.captions)


def _weighted(samples: Samples) -> Samples:
    from dataclasses import replace

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
    from robustruct.comparison import compare as compare_models
    from robustruct.losses import sorted_labels

    name, costs, order, encoding = loss
    classes = sorted_labels([*samples.y, *([] if others is None else others.y)])
    chosen = chosen_loss(name, costs, order, classes, encoding)
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
    return {**comparison.as_dict(), "report": report}


def _summary(result: dict[str, Any]) -> str:
    head = (
        f"{result['data']}, {result['loss']} loss: trained on {result['n_train']} samples,\n"
        f"tested on {result['split']} ({result['n_test_nodes']} labels).\n"
    )
    rows = [["", "cost", "95 % interval", "accuracy", "training", "in all", "gap", "alpha"]]
    for entry in result["models"]:
        alphas = entry["alpha"] if isinstance(entry["alpha"], list) else [entry["alpha"]]
        shown = sorted({f"{alpha:.2g}": alpha for alpha in alphas}, key=float)
        rows.append(
            [
                entry["model"],
                f"{entry['cost']:.4g}",
                f"{entry['cost_low']:.4g} to {entry['cost_high']:.4g}",
                f"{entry['accuracy']:.1%}",
                f"{entry['seconds']:.1f} s",
                f"{entry['seconds_with_choice_of_alpha']:.1f} s",
                f"{entry['gap']:.2%}",
                shown[0] if len(shown) == 1 else f"{shown[0]}..{shown[-1]}",
            ]
        )
    unit = "unit of weight" if result["weighted"] else "label"
    legend = (
        f"\n  cost: mean per {unit}; training: the last fit, in all: with the choice of alpha;\n"
        "  gap: certified distance to the best objective at most\n"
    )
    differences = [f"  {difference['in_words']}" for difference in result["differences"]]
    written = [] if result["report"] is None else ["", f"Charts and examples: {result['report']}"]
    return "\n".join([head, table(rows), legend, *differences, *written])
