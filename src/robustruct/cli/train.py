"""``robustruct train``: from labelled files to a model file."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

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
from robustruct.cli.scale import Scale
from robustruct.cli.tables import expected, finite_or_word, forecast_of, number, table
from robustruct.errors import InvalidInputError, errors_at_lines
from robustruct.status import Status

if TYPE_CHECKING:
    from robustruct.cli.loss import ChosenLoss
    from robustruct.formats.corpus import Corpus
    from robustruct.formats.sample import Format
    from robustruct.models.base import StructuredModel

LOSS = "hamming"  # the default


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """Options of ``robustruct train``."""

    output: Annotated[str, typer.Option("--output", "-o", metavar="MODEL", help="File to write.")]
    data: Annotated[
        list[str] | None,  # one; without quotes the shell makes several of --shards
        typer.Argument(metavar="DATA", help="Labelled file, plain or .gz; - is stdin."),
    ] = None
    model: Annotated[
        Literal["auto", "agm", "crf", "ssvm"] | None,
        typer.Option(
            help="agm and ssvm are trained for the costs, crf decides by them; auto takes what "
            "costs least on held-out samples, of these and what lies between them.  [default: "
            "auto; for shards and engines, agm]",
        ),
    ] = None
    costs: CostOptions = field(default_factory=CostOptions)
    alpha: AlphaOption = None
    temperature: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER|auto",
            help="Weight of the log loss beside the cost, for agm and ssvm; auto finds it on "
            "held-out samples.  [default: 0]",
        ),
    ] = None
    target: TargetOption = None
    folds: Annotated[
        int | None,
        typer.Option(
            min=2, help="Folds of held-out samples.  [default: 5, of which large data need one]"
        ),
    ] = None
    max_time: Annotated[
        float | None,
        typer.Option(
            min=0.001, metavar="SECONDS", help="For training, with all that is chosen in it."
        ),
    ] = None
    tol: Annotated[
        float | None,
        typer.Option(help="Certified relative gap to stop at: by default 0.01, for crf 0.001."),
    ] = None
    max_iter: MaxIterOption = 1000
    validation: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Labelled file: stop when its loss stops falling."),
    ] = None
    decision: DecisionOption = None
    constraints: ConstraintsOption = None
    bad_labels: BadLabelsOption = "repair"
    layout: Layout = field(default_factory=Layout)
    scale: Scale = field(default_factory=Scale)
    jobs: JobsOption = -1
    seed: Annotated[int, typer.Option(min=0, help="Equal seeds give equal models.")] = 0
    quiet: QuietOption = False
    as_json: JsonOption = False

    def __post_init__(self) -> None:
        self.scale.check(self.data or (), self.alphas)

    @property
    def alphas(self) -> Sequence[float] | str:
        """Penalties to choose from: none, one, several or "auto", as where there is a target."""
        return alphas_of(self.alpha or ([] if self.target is None else [AUTO]))


def train_cli(options: TrainOptions) -> None:
    """Train a model on a labelled file, or on many.

    The format is recognised: columns as in CoNLL files and CRF++ (a token a line, an empty line
    after each sentence, the label in the last column), CRFsuite's attributes, or graphs as JSON
    lines; with --by, tables as CSV or Parquet. The model remembers how its input becomes features,
    so that predict needs only the model and a file.

    Example: robustruct train train.conll -o chunks.model --cost "B-NP>O=5"

    Data in several files, training on several machines, and training that may be stopped at any
    time: robustruct train --shards 'part-*.gz' -o chunks.model --engine dask --scheduler
    tcp://host:8786 --checkpoint kept
    """
    with errors.ready(options.quiet):
        result = train(options)
    for note in result["notes"]:
        print(f"robustruct: note: {note}", file=sys.stderr)
    print(json.dumps(result, indent=2) if options.as_json else _summary(result))


def train(options: TrainOptions) -> dict[str, Any]:
    """Read, train and write the model; return a summary, ready for JSON."""
    from robustruct.constraints import Constraints

    check_writable(options.output)
    scale, temperature = options.scale, _temperature(options.temperature)
    model = options.model
    if model is None:
        in_memory = scale.shards is None and scale.engine == "here"
        # A temperature belongs to one model, and choosing a model needs all samples in memory.
        model = "auto" if in_memory and temperature is None else "agm"
    rules = options.constraints and Constraints(options.constraints, bad_labels=options.bad_labels)
    of_choice: dict[str, Any] = {"cv": options.folds, "max_time": options.max_time}
    of_choice["target"] = target_of(options.target)
    of_choice = {name: value for name, value in of_choice.items() if value is not None}
    estimator = _untrained(
        model,
        options.alphas,
        temperature=temperature,
        max_iter=options.max_iter,
        tol=options.tol,
        decision=options.decision,
        constraints=rules,
        n_jobs=scale.threads(options.jobs),
        random_state=options.seed,
        verbose=int(not options.quiet),
        **(of_choice if model == AUTO else {}),
    )
    of_fit = {**({} if model == AUTO else of_choice), **scale.fit_options}
    chosen = options.costs.chosen(LOSS, options.layout.encoding)
    read = 0.0
    started = time.perf_counter()
    # Warnings become notes below the progress, and part of the JSON.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        with scale.connected(options.jobs) as engine:
            of_fit["engine"] = engine
            if scale.shards is not None:
                _fit_shards(estimator, options, chosen, of_fit)
            else:
                read = _fit_file(estimator, options, chosen, of_fit) - started
    if estimator.status_ is Status.INTERRUPTED:
        how = scale.after_interruption()
        print(f"robustruct: interrupted; no model was written. {how}", file=sys.stderr)
        raise typer.Exit(errors.INTERRUPTED)
    trained = time.perf_counter()
    # The file describes the model, not the circumstances of its training.
    estimator.set_params(verbose=0)
    estimator.save(options.output)
    return {
        **_described(estimator),
        "data": scale.shards or (options.data or [""])[0],
        "loss": options.costs.name(LOSS),
        "target": options.target,
        "seconds_reading": read,
        "seconds_training": trained - started - read,
        "output": options.output,
        "bytes": os.path.getsize(options.output),
        "notes": [str(warning.message) for warning in caught],
    }


def _described(estimator: StructuredModel) -> dict[str, Any]:
    """Describe a trained model, ready for JSON."""
    return {
        "model": type(estimator).__name__,
        "format": estimator.input_["format"],
        "n_samples": estimator.n_samples_,
        "n_nodes": estimator.n_nodes_,
        "n_features": estimator.node_weights_.shape[0],
        "labels": estimator.classes_.tolist(),
        "chosen": getattr(estimator, "member_", None),
        "temperature": finite_or_word(estimator.temperature_),
        "decision": estimator.decision_,
        "decision_scale": estimator.decision_scale_,
        "span_rule": _span_rule(estimator),
        "alpha": estimator.alpha_,
        "alpha_scores": getattr(estimator, "alpha_scores_", None),
        "forecast": forecast_of(estimator),
        "n_tried": len({one.setting for one in getattr(estimator, "trials_", ())}),
        "gap": estimator.duality_gap_,
        "tol": estimator.tol,
        "n_iter": estimator.n_iter_,
        "validation_loss": getattr(estimator, "validation_loss_", None),
    }


def _span_rule(estimator: StructuredModel) -> Any:
    """Return the threshold of a decision by spans, or its costs."""
    if estimator.decision_ != "spans":
        return None
    rule = estimator.span_rule_
    return rule if isinstance(rule, float) else asdict(rule)


def _temperature(text: str | None) -> float | str | None:
    """Parse --temperature."""
    if text is None or text == AUTO:
        return text
    try:
        return float(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"{error}; give a number >= 0, inf or {AUTO}", param_hint="--temperature"
        ) from None


def _untrained(model: str, alphas: Sequence[float] | str, **parameters: Any) -> StructuredModel:
    """Return the untrained model; parameters that are None keep their default."""
    from robustruct.models.parameters import check_parameters
    from robustruct.models.storage import MODELS

    kind = {name.removesuffix("Model").lower(): kind for name, kind in MODELS.items()}[model]
    if alphas:
        single = not isinstance(alphas, str) and len(alphas) == 1
        parameters["alpha"] = alphas[0] if single else alphas
    given = {name: value for name, value in parameters.items() if value is not None}
    unknown = sorted(set(given) - set(kind._parameters))
    if unknown:
        raise InvalidInputError(
            f"--{unknown[0].replace('_', '-')} does not go with --model {model}; use agm or ssvm."
        )
    estimator = kind(**given)
    check_parameters(estimator)  # before anything is read: errors here are wrong usage
    return estimator


def _fit_file(
    estimator: StructuredModel, options: TrainOptions, chosen: ChosenLoss, of_fit: dict[str, Any]
) -> float:
    """Read a file and train on it; return the time at which reading had ended."""
    import numpy as np

    from robustruct.bad_labels import clean_corpus
    from robustruct.constraints import Constraints
    from robustruct.formats.recognise import stored
    from robustruct.validation import KnownLabels

    assert options.data is not None
    data = options.data[0]
    corpus = options.layout.read(data, options.quiet)
    rules = Constraints.of(estimator.constraints)
    if rules.cleans_labels:  # here, so that the warning names lines
        corpus = clean_corpus(corpus, rules)
        corpus.bad_labels.warn(rules)
    held_out = _held_out(options, corpus.format)
    read = time.perf_counter()
    arrays = corpus.y + ([] if held_out is None else held_out.y)
    labels = KnownLabels.of(arrays, np.array([len(one) for one in arrays]), False).classes()
    estimator.set_params(loss=chosen.of(labels))
    validation = None if held_out is None else (held_out.X, held_out.y)
    lines = () if held_out is None else held_out.lines
    with (
        errors_at_lines(options.validation or "", lines, validation=True),
        errors_at_lines(data, corpus.lines),
    ):
        given = {**corpus.weights, "groups": corpus.groups, "validation": validation}
        estimator.fit(corpus.X, corpus.y, **given, **of_fit)
    estimator.input_ = stored(corpus.format)
    return read


def _fit_shards(
    estimator: StructuredModel, options: TrainOptions, chosen: ChosenLoss, of_fit: dict[str, Any]
) -> None:
    """Train on shards; the loss is bound to the labels that training finds in them."""
    scale = options.scale
    assert scale.shards is not None
    shards = options.layout.shards(
        scale.shards, min_count=scale.min_count or 1, hashed=scale.hashed
    )
    assert shards.format is not None
    held_out = _held_out(options, shards.format)
    estimator.set_params(loss=chosen)
    validation = None if held_out is None else (held_out.X, held_out.y)
    lines = () if held_out is None else held_out.lines
    with errors_at_lines(options.validation or "", lines, validation=True):
        estimator.fit(shards, validation=validation, **of_fit)
    estimator.set_params(loss=chosen.of(estimator.classes_))


def _held_out(options: TrainOptions, form: Format) -> Corpus | None:
    if options.validation is None:
        return None
    return options.layout.read_alike(options.validation, form, options.quiet)


def _decision(result: dict[str, Any]) -> str:
    rule = result["span_rule"]
    if isinstance(rule, float):
        return f"spans of probability {number(rule)} or more"
    return str(result["decision"])


def _summary(result: dict[str, Any]) -> str:
    target = result["target"]
    temperature = result["temperature"]
    hot = "" if temperature in (0, "inf") else f", temperature {number(temperature)}"
    rows = [
        ["data", f"{result['n_samples']:,} samples, {result['n_nodes']:,} nodes"],
        ["labels", f"{len(result['labels'])}"],
        ["features", f"{result['n_features']:,}"],
        ["loss", result["loss"]],
        *(
            [["chosen", f"{result['chosen']}{hot}, of {result['n_tried']} settings tried"]]
            if result["chosen"]
            else []
        ),
        ["decision", _decision(result)],
        ["alpha", number(result["alpha"])],
        ["certified gap", f"{result['gap']:.2%} after {result['n_iter']} passes"],
    ]
    if result["forecast"] is not None:
        rows.append(["expected cost", expected(result["forecast"])])
    if result["validation_loss"] is not None:
        rows.append(["validation loss", f"{result['validation_loss']:.4f}"])
    if result["alpha_scores"] is not None:
        for alpha, score in result["alpha_scores"].items():
            held_out = f"loss {-score:.4f}" if target is None else f"{target} {score:.4f}"
            rows.append([f"alpha {number(float(alpha))}", f"held-out {held_out}"])
    reading, training = result["seconds_reading"], f"training {result['seconds_training']:.1f} s"
    # Shards are read by the engine during training: there is no time of its own for it.
    before = f"reading {reading:.1f} s, " if reading else "reading and "
    rows.append(["time", before + training])
    return (
        f"{result['model']} trained on {result['data']} ({result['format']})\n"
        f"{table(rows, text_columns=2)}\n"
        f"Written to {result['output']} ({result['bytes'] / 1e6:.1f} MB). Next:\n"
        f"  robustruct evaluate {result['output']} TEST_FILE\n"
        f"  robustruct predict {result['output']} FILE"
    )
