"""Options that several subcommands share."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class FormatName(StrEnum):
    """Formats of input files."""

    conll = "conll"
    crfsuite = "crfsuite"
    json_lines = "json-lines"


class Separator(StrEnum):
    """What separates columns."""

    blanks = "blanks"
    tab = "tab"


class Decision(StrEnum):
    """How labels are chosen."""

    auto = "auto"
    map = "map"
    predictor = "predictor"
    bayes = "bayes"


class Scheme(StrEnum):
    """Tagging schemes whose rules can be enforced."""

    bio = "BIO"
    bioes = "BIOES"


class BadLabelsChoice(StrEnum):
    """What to do about training labels that break the rules."""

    repair = "repair"
    error = "error"
    drop = "drop"


AUTO = "auto"

AlphaOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NUMBER|auto",
        help="Strength of the penalty on weights. Given several times, the best on held-out "
        "samples is taken; auto finds what to try.",
    ),
]
DecisionOption = Annotated[
    Decision | None,
    typer.Option(
        help="Predict the best-scoring labelling (map), the likeliest labels of the predictor's "
        "strategy (predictor), or those of least expected cost (bayes).  [default: what costs "
        "least on held-out samples, or suits the model]",
    ),
]
ConstraintsOption = Annotated[
    Scheme | None, typer.Option(help="Predict only what the rules of this scheme allow.")
]
BadLabelsOption = Annotated[
    BadLabelsChoice,
    typer.Option(
        help="What to do about training labels that break --constraints: read them as the CoNLL "
        "scorer does, refuse them, or leave their samples out."
    ),
]
MaxIterOption = Annotated[int, typer.Option(min=1, help="Most passes over the data.")]
LossOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|FILE.csv",
        help="What a mistake costs: hamming, absolute, squared, or a CSV file with label names, "
        "rows: true label, columns: predicted label.",
    ),
]
CostOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TRUE>PREDICTED=COST",
        help='Change one cost: "B-PER>O=5" says that predicting O where B-PER is true costs 5. '
        "A star stands for every label. May be repeated; later ones win.",
    ),
]
OrderOption = Annotated[
    str | None,
    typer.Option(
        metavar="LABEL,LABEL,...",
        help="Order of labels that are not numbers, for the losses absolute and squared.",
    ),
]
FormatOption = Annotated[
    FormatName | None,
    typer.Option("--format", help="Format of the data; by default it is recognised."),
]
TemplateOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Features of columns, in the syntax of CRF++."),
]
LabelColumnOption = Annotated[
    int | None,
    typer.Option(help="Column of the labels, from 0; negative: from the last.  [default: -1]"),
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        metavar="0,1,...",
        help="Columns that the default template reads, words first; by default all others.",
    ),
]
SeparatorOption = Annotated[
    Separator | None,
    typer.Option(help="Columns are separated by blanks and tabs alike, or by each tab."),
]
EncodingOption = Annotated[str, typer.Option(help="Encoding of text files.")]
JobsOption = Annotated[int, typer.Option(help="Threads; -1 is one for each core.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="File that `robustruct train` wrote.")
]


def alphas_of(given: Sequence[str]) -> list[float] | str:
    """What --alpha says: numbers, or "auto" alone."""
    if list(given) == [AUTO]:
        return AUTO
    try:
        return [float(text) for text in given]
    except ValueError as error:
        raise typer.BadParameter(
            f"{error}; give numbers such as 0.01, or {AUTO} once", param_hint="--alpha"
        ) from None


def listed_numbers(text: str | None, option: str) -> list[int] | None:
    """The numbers in "0,2"; anything else is wrong usage."""
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a list of numbers such as 0,2", param_hint=option
        ) from None


def listed(text: str | None) -> list[str] | None:
    """The names in "low,high"."""
    return None if text is None else [part.strip() for part in text.split(",")]
