"""``robustruct compare``: the models side by side on the same data and the same cost."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robustruct.cli import errors
from robustruct.cli.options import (
    AUTO,
    AlphaOption,
    BadLabelsOption,
    ConstraintsOption,
    CostOptions,
    DecisionOption,
    JobsOption,
    JsonOption,
    MaxIterOption,
    QuietOption,
    TargetOption,
    alphas_of,
    target_of,
)
from robustruct.cli.output import check_writable
from robustruct.cli.reading import Layout
from robustruct.cli.tables import table
from robustruct.errors import InvalidInputError

if TYPE_CHECKING:
    from robustruct.comparison import Samples
    from robustruct.formats.corpus import Corpus

# Sequences of the default data: few to train on, so that models differ, many to test on, so that
# intervals are narrow.
N_TRAIN, N_TEST = 100, 400
MAX_TIME = 240.0  # seconds of training; with reading, testing and the report about 5 minutes


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """Options of ``robustruct compare``."""

    data: Annotated[
        str | None,
        typer.Argument(
            metavar="[DATA]",
            help="Labelled file, plain or .gz; by default sequences of handwritten digits that "
            "come with the package.",
        ),
    ] = None
    test: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Labelled file to test on; by default a third of DATA."),
    ] = None
    folds: Annotated[
        int | None, typer.Option(min=2, help="Test every sample once, in so many folds.")
    ] = None
    costs: CostOptions = field(default_factory=CostOptions)
    alpha: AlphaOption = None
    decision: DecisionOption = None
    target: TargetOption = None
    constraints: ConstraintsOption = None
    bad_labels: BadLabelsOption = "repair"
    max_iter: MaxIterOption = 1000
    max_time: Annotated[
        float,
        typer.Option(
            min=0.0,
            metavar="SECONDS",
            help="For training all models. What is cut short is said; 0 sets no limit.",
        ),
    ] = MAX_TIME
    report: Annotated[str, typer.Option(metavar="FILE", help="Report to write.")] = "report.html"
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False
    layout: Layout = field(default_factory=Layout)
    jobs: JobsOption = -1
    seed: Annotated[
        int, typer.Option(min=0, help="Of the split, of training and of the default data.")
    ] = 0
    quiet: QuietOption = False
    as_json: JsonOption = False

    def __post_init__(self) -> None:
        if self.test is not None and self.folds is not None:
            raise InvalidInputError("--test and --folds are two ways to test; give one of both.")
        # The encoding is also that of --loss, and weights by position need no file.
        layout = replace(self.layout, encoding=Layout.encoding)
        if self.layout.by_position:
            layout = replace(layout, weights=None)
        if self.data is None and (self.test is not None or layout != Layout()):
            raise InvalidInputError("options about files need a file: robustruct compare DATA ...")

    @property
    def default_loss(self) -> str:
        """Name of the loss where none is given: digits have distances, other labels may not."""
        return "absolute" if self.data is None else "hamming"


def compare_cli(options: CompareOptions) -> None:
    """Train AGM, CRF, SSVM and the family they belong to, and compare what their mistakes cost.

    Each model makes its choices on the training samples; all are judged on the same test samples.
    Prints the mean cost with a confidence interval, which differences are significant, accuracy,
    training time and certified gap, and which model to train with what command; writes a report
    with charts and examples.

    Example: robustruct compare train.conll --test test.conll --cost "B-NP>O=5"
    """
    try:
        with errors.ready(options.quiet):
            result = compare(options)
    except KeyboardInterrupt:
        print("robustruct: interrupted; nothing was compared.", file=sys.stderr)
        raise typer.Exit(errors.INTERRUPTED) from None
    for note in result["notes"]:
        print(f"robustruct: note: {note}", file=sys.stderr)
    print(json.dumps(result, indent=2) if options.as_json else _summary(result))


def compare(options: CompareOptions) -> dict[str, Any]:
    """Read, train, test, and write the report; return the result, ready for JSON."""
    if not options.no_report:
        check_writable(options.report)
    samples, others = _digits(options) if options.data is None else _read(options, options.data)
    return _compared(samples, others if options.folds is None else None, options)


def _digits(options: CompareOptions) -> tuple[Samples, Samples]:
    from robustruct.comparison import Samples
    from robustruct.datasets import load_counter, position_weights

    splits = []
    for split, n in (("train", N_TRAIN), ("test", N_TEST)):
        digits = load_counter(split, n_sequences=n, seed=options.seed)
        weights = position_weights(digits.y) if options.layout.by_position else None
        splits.append(Samples(list(digits.X), list(digits.y), node_weight=weights))
    return splits[0], splits[1]


def _read(options: CompareOptions, data: str) -> tuple[Samples, Samples | None]:
    corpus = options.layout.read(data, options.quiet, captions=True)
    if options.test is None:
        return _samples(corpus), None
    tested = options.layout.read_alike(options.test, corpus.format, options.quiet, captions=True)
    return _samples(corpus), _samples(tested)


def _samples(corpus: Corpus) -> Samples:
    from robustruct.comparison import Samples

    weights = corpus.sample_weight, corpus.node_weight
    return Samples(corpus.X, corpus.y, *weights, corpus.captions, corpus.groups)


def _compared(samples: Samples, others: Samples | None, options: CompareOptions) -> dict[str, Any]:
    from robustruct.comparison import compare as compare_models
    from robustruct.constraints import Constraints
    from robustruct.labels import sorted_labels

    data, default = options.data, options.default_loss
    classes = sorted_labels([*samples.y, *([] if others is None else others.y)])
    chosen = options.costs.chosen(default, options.layout.encoding).of(classes)
    with errors.blamed_on_input() if data else nullcontext():
        comparison = compare_models(
            samples,
            others,
            chosen,
            data=Path(data).name if data else "handwritten digits that count",
            loss_name=_judged_by(options, default),
            folds=options.folds,
            alpha=alphas_of(options.alpha or ()) or AUTO,
            decision=options.decision or AUTO,
            target=target_of(options.target),
            constraints=Constraints(options.constraints, bad_labels=options.bad_labels),
            max_iter=options.max_iter,
            max_time=options.max_time or None,
            n_jobs=options.jobs,
            seed=options.seed,
            verbose=int(not options.quiet),
        )
    report = None if options.no_report else options.report
    if report is not None:
        from robustruct.report import write

        write(comparison, report)
    result = {**comparison.as_dict(), "report": report}
    if data is not None:
        arguments = {**comparison.recommendation.options, "constraints": options.constraints}
        if options.bad_labels != "repair":
            arguments["bad-labels"] = options.bad_labels
        if "auto" in arguments.values() or arguments["decision"] == "spans":
            arguments["target"] = options.target
        command = ["robustruct", "train", data, "-o", "MODEL"]
        for option, value in arguments.items():
            command += [] if value is None else [f"--{option}", value]
        command += options.costs.as_arguments(default)
        result["recommendation"]["command"] = shlex.join(command)
    return result


def _judged_by(options: CompareOptions, default: str) -> str:
    """Return what models are compared by, in words."""
    target = options.target
    if target is None:
        return options.costs.name(default)
    return target if target.startswith("span_cost") else f"1 - {target}"


def _summary(result: dict[str, Any]) -> str:
    head = (
        f"{result['data']}, {result['loss']} loss: trained on {result['n_train']} samples,\n"
        f"tested on {result['split']} ({result['n_test_nodes']} labels).\n"
    )
    spans = result["models"][0]["span_f1"] is not None
    forecasts = any(entry["forecast"] is not None for entry in result["models"])
    rows = [
        [
            "",
            "cost",
            "95 % interval",
            *(["expected"] if forecasts else []),
            "accuracy",
            *(["span F1"] if spans else []),
        ]
    ]
    rows[0] += ["training", "in all", "gap", "alpha"]
    for entry in result["models"]:
        alphas = entry["alpha"] if isinstance(entry["alpha"], list) else [entry["alpha"]]
        shown = sorted({f"{alpha:.2g}": alpha for alpha in alphas}, key=float)
        rows.append(
            [
                entry["model"],
                f"{entry['cost']:.4g}",
                f"{entry['cost_low']:.4g} to {entry['cost_high']:.4g}",
                *([_mean(entry["forecast"])] if forecasts else []),
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
    if forecasts:
        legend = (
            "\n  expected: by held-out training samples, corrected for the choice among settings;"
            f"{legend}"
        )
    differences = [f"  {difference['in_words']}" for difference in result["differences"]]
    advice = ["", f"Recommended: {result['recommendation']['why']}"]
    if "command" in result["recommendation"]:
        advice.append(f"  {result['recommendation']['command']}")
    written = [] if result["report"] is None else ["", f"Charts and examples: {result['report']}"]
    return "\n".join([head, table(rows), legend, *differences, *advice, *written])


def _mean(forecast: dict[str, Any] | None) -> str:
    return "" if forecast is None else f"{forecast['mean']:.4g}"
