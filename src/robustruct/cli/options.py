"""Options that several subcommands share, and commands made of objects of options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from robustruct.errors import InvalidInputError

if TYPE_CHECKING:
    from robustruct.cli.loss import ChosenLoss
    from robustruct.formats.rows import Roles
    from robustruct.losses import Loss
    from robustruct.models.fitting.targets import TargetLike

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
    Literal["auto", "map", "predictor", "bayes", "spans"] | None,
    typer.Option(
        help="Predict the best-scoring labelling (map), the likeliest labels of the predictor's "
        "strategy (predictor), those of least expected cost (bayes), or spans from a probability "
        "on that is chosen on held-out samples (spans).  [default: what costs least on held-out "
        "samples, or suits the model]",
    ),
]
ActionsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--actions",
        metavar="NAME=PRICE",
        help="What may be answered instead of a label, such as review=0.1: it is taken where it "
        "costs less than any label. May be repeated.",
    ),
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Choose by this instead of the cost: span_f1, f1 (all labels but O), recall@0.9 or "
        "span_recall@0.9 (at that precision), each also of one label or type of span after a "
        "colon, or span_cost:MISS,FALSE,WRONG_TYPE.",
    ),
]
ConstraintsOption = Annotated[
    Literal["BIO", "BIOES"] | None,
    typer.Option(help="Predict only what the rules of this scheme allow."),
]
BadLabelsOption = Annotated[
    Literal["repair", "error", "drop"],
    typer.Option(
        help="What to do about training labels that break --constraints: read them as the CoNLL "
        "scorer does, refuse them, or leave their samples out."
    ),
]
MaxIterOption = Annotated[int, typer.Option(min=1, help="Most passes over the data.")]
EncodingOption = Annotated[str, typer.Option(help="Encoding of text files.")]
JobsOption = Annotated[int, typer.Option(help="Threads; -1 is one for each core.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="File that `robustruct train` wrote.")
]


@dataclass(frozen=True, kw_only=True)
class CostOptions:
    """Options that describe the cost of mistakes."""

    loss: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE.csv",
            help="What a mistake costs: hamming, absolute, squared, or a CSV file with label "
            "names, rows: true label, columns: predicted label.  [default: that of the model; "
            "in training hamming]",
        ),
    ] = None
    cost: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TRUE>PREDICTED=COST",
            help='Change one cost: "B-PER>O=5" says that predicting O where B-PER is true costs '
            "5. A star stands for every label. May be repeated; later ones win.",
        ),
    ] = None
    label_order: Annotated[
        str | None,
        typer.Option(
            metavar="LABEL,LABEL,...",
            help="Order of labels that are not numbers, for the losses absolute and squared.",
        ),
    ] = None

    def chosen(self, default: str | Loss, encoding: str) -> ChosenLoss:
        """Return the loss, for labels that are read later."""
        from robustruct.cli.loss import ChosenLoss

        given = self.label_order
        order = None if given is None else [part.strip() for part in given.split(",")]
        return ChosenLoss(self.loss or default, self.cost or (), order, encoding)

    def name(self, default: str) -> str:
        """Return the name of the loss, with its changes."""
        changes = [", ".join(self.cost)] if self.cost else []
        return " with ".join([self.loss or default, *changes])

    def as_arguments(self, default: str) -> list[str]:
        """Return these options as arguments of ``train``; its default loss is left out."""
        loss = self.loss or default
        arguments = [] if loss == "hamming" else ["--loss", loss]
        for cost in self.cost or ():
            arguments += ["--cost", cost]
        return arguments + ([] if self.label_order is None else ["--label-order", self.label_order])


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Options that say what the columns of a table mean."""

    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN[,...]",
            help="The data are a table, CSV or Parquet, with a row for each node: the column, or "
            "columns, that tell samples apart, such as subject,night.",
        ),
    ] = None
    order: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of a table that orders the rows of a sample, such as a time.  [default: "
            "as they come]",
        ),
    ] = None
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of a table that holds labels.")
    ] = None
    features: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN,...",
            help="Columns of a table that hold features.  [default: all others]",
        ),
    ] = None

    def __post_init__(self) -> None:
        given = {"order": self.order, "label": self.label, "features": self.features}
        alone = [name for name, value in given.items() if value is not None]
        if self.by is None and alone:
            hint = " The order of labels is --label-order." if "order" in alone else ""
            raise InvalidInputError(
                f"--{alone[0]} is about tables, and needs the column that tells samples apart "
                f"(--by COLUMN).{hint}"
            )

    def roles(self, weight: str | None = None) -> Roles | None:
        """Return what the columns mean; None if the data are no table."""
        from robustruct.formats.rows import Roles

        if self.by is None:
            return None
        listed = None if self.features is None else tuple(self.features.split(","))
        return Roles(tuple(self.by.split(",")), self.order, self.label, weight, listed)


def command(run: Callable[[Any], None], options: type[Any]) -> Callable[..., None]:
    """Return a function for typer, with one parameter per field of the dataclass ``options``.

    A field that is a dataclass itself is replaced by its own fields.
    """

    def call(**values: Any) -> None:
        run(_instance(options, values))

    parameters = list(_parameters(options))
    call.__doc__ = run.__doc__
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _parameters(options: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(options, include_extras=True)
    parameters = list[inspect.Parameter]()
    for field in fields(options):
        hint = hints[field.name]
        if is_dataclass(hint):
            parameters += _parameters(hint)  # type: ignore[arg-type]
        else:
            default = inspect.Parameter.empty if field.default is MISSING else field.default
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(inspect.Parameter(field.name, kind, default=default, annotation=hint))
    return parameters


def _instance(options: type[Any], values: dict[str, Any]) -> Any:
    hints = get_type_hints(options)
    return options(
        **{
            field.name: _instance(hints[field.name], values)
            if is_dataclass(hints[field.name])
            else values[field.name]
            for field in fields(options)
        }
    )


def target_of(text: str | None) -> TargetLike | None:
    """Parse --target: costs of spans, or a name that the models know."""
    name, _, costs = (text or "").partition(":")
    if name != "span_cost":
        return text
    from robustruct.metrics import SpanCost

    try:
        return SpanCost(*(float(cost) for cost in costs.split(",")))
    except (TypeError, ValueError) as error:
        raise typer.BadParameter(
            f"{error}; give the cost of a miss, of a false span and, if it is not their sum, of a "
            "wrong type, such as span_cost:5,1,2",
            param_hint="--target",
        ) from None


def alphas_of(texts: Sequence[str]) -> list[float] | str:
    """Parse the values of --alpha: numbers, or "auto" alone."""
    if list(texts) == [AUTO]:
        return AUTO
    try:
        return [float(text) for text in texts]
    except ValueError as error:
        raise typer.BadParameter(
            f"{error}; give numbers such as 0.01, or {AUTO} once", param_hint="--alpha"
        ) from None


def actions_of(texts: Sequence[str] | None) -> dict[str, float]:
    """Parse the values of --actions."""
    actions = dict[str, float]()
    for text in texts or ():
        name, sign, price = text.partition("=")
        try:
            actions[name] = float(price)
        except ValueError:
            sign = ""
        if not (sign and name):
            raise typer.BadParameter(
                f"{text!r} is no action with a price; write NAME=PRICE, such as review=0.1",
                param_hint="--actions",
            )
    return actions
