"""``robustruct train``: from labelled files to a model file."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robustruct.cli import errors
from robustruct.cli.options import (
    AUTO,
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
from robustruct.cli.scale import (
    CheckpointEveryOption,
    CheckpointOption,
    EngineName,
    EngineOption,
    HashedOption,
    MinCountOption,
    ResumeOption,
    Scale,
    SchedulerOption,
    ShardsOption,
)
from robustruct.cli.tables import finite_or_word, number, table
from robustruct.errors import InvalidInputError, errors_at_lines
from robustruct.status import Status

if TYPE_CHECKING:
    from robustruct.cli.loss import ChosenLoss
    from robustruct.formats.corpus import Corpus
    from robustruct.formats.sample import Format
    from robustruct.models.base import StructuredModel


class ModelName(StrEnum):
    """Models that can be trained."""

    auto = "auto"
    agm = "agm"
    crf = "crf"
    ssvm = "ssvm"


def train_cli(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="File to write.")],
    data: Annotated[
        list[str] | None,  # one, but who forgets the quotes of --shards gives more
        typer.Argument(metavar="DATA", help="Labelled file, plain or .gz; - is stdin."),
    ] = None,
    shards: ShardsOption = None,
    model: Annotated[
        ModelName | None,
        typer.Option(
            help="agm and ssvm are trained for the costs, crf decides by them; auto takes what "
            "costs least on held-out samples, of these and what lies between them.  [default: "
            "auto; for shards and engines, agm]",
        ),
    ] = None,
    loss: LossOption = "hamming",
    cost: CostOption = None,
    order: OrderOption = None,
    alpha: AlphaOption = None,
    temperature: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER|auto",
            help="Weight of the log loss beside the cost, for agm and ssvm; auto finds it on "
            "held-out samples.  [default: 0]",
        ),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            min=2, help="Folds of held-out samples.  [default: 5, of which large data need one]"
        ),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            min=0.001, metavar="SECONDS", help="For training, with all that is chosen in it."
        ),
    ] = None,
    tol: Annotated[
        float | None,
        typer.Option(help="Certified relative gap to stop at: by default 0.01, for crf 0.001."),
    ] = None,
    max_iter: MaxIterOption = 1000,
    dev: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Labelled file: stop when its loss stops falling."),
    ] = None,
    decision: DecisionOption = None,
    constraints: ConstraintsOption = None,
    bad_labels: BadLabelsOption = BadLabelsChoice.repair,
    form: FormatOption = None,
    template: TemplateOption = None,
    label_column: LabelColumnOption = None,
    columns: ColumnsOption = None,
    weights: Annotated[
        int | None,
        typer.Option(metavar="COLUMN", help="Column with the weight of each token's cost."),
    ] = None,
    separator: SeparatorOption = None,
    encoding: EncodingOption = "utf-8",
    min_count: MinCountOption = None,
    hashed: HashedOption = None,
    engine: EngineOption = EngineName.here,
    scheduler: SchedulerOption = None,
    checkpoint: CheckpointOption = None,
    checkpoint_every: CheckpointEveryOption = None,
    resume: ResumeOption = False,
    jobs: JobsOption = -1,
    seed: Annotated[int, typer.Option(min=0, help="Equal seeds give equal models.")] = 0,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train a model on a labelled file, or on many.

    The format is recognised: columns as in CoNLL files and CRF++ (a token a line, an empty line
    after each sentence, the label in the last column), CRFsuite's attributes, or graphs as JSON
    lines. The model remembers how its input becomes features, so that predict needs only the model
    and a file.

    Example: robustruct train train.conll -o chunks.model --cost "B-NP>O=5"

    Data in several files, training on several machines, and training that may be stopped at any
    time: robustruct train --shards 'part-*.gz' -o chunks.model --engine dask --scheduler
    tcp://host:8786 --checkpoint kept
    """
    scale = Scale(
        shards=shards,
        min_count=min_count,
        hashed=hashed,
        engine=engine.value,
        scheduler=scheduler,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        resume=resume,
    )
    alphas = alphas_of(alpha or ())
    scale.check(data or (), alphas)
    with errors.ready(quiet):
        result = train(
            data[0] if data else None,
            str(output),
            model=model.value if model else None,
            loss=loss or "hamming",
            costs=cost or (),
            order=listed(order),
            alphas=alphas,
            temperature=_temperature(temperature),
            folds=folds,
            time_limit=time_limit,
            tol=tol,
            max_iter=max_iter,
            dev=dev,
            decision=decision.value if decision else None,
            constraints=constraints.value if constraints else None,
            bad_labels=bad_labels.value,
            layout=Layout(
                form=form.value if form else None,
                template=None if template is None else str(template),
                label_column=label_column,
                columns=listed_numbers(columns, "--columns"),
                weight_column=weights,
                separator=separator.value if separator else None,
                encoding=encoding,
            ),
            scale=scale,
            jobs=jobs,
            seed=seed,
            progress_wanted=not quiet,
        )
    for note in result["notes"]:
        print(f"robustruct: note: {note}", file=sys.stderr)
    print(json.dumps(result, indent=2) if as_json else _summary(result))


def train(
    data: str | None,
    output: str,
    *,
    model: str | None = None,
    loss: str = "hamming",
    costs: Sequence[str] = (),
    order: Sequence[str] | None = None,
    alphas: Sequence[float] | str = (),
    temperature: float | str | None = None,
    folds: int | None = None,
    time_limit: float | None = None,
    tol: float | None = None,
    max_iter: int = 1000,
    dev: str | None = None,
    decision: str | None = None,
    constraints: str | None = None,
    bad_labels: str = "repair",
    layout: Layout = Layout(),  # noqa: B008 (it cannot change)
    scale: Scale = Scale(),  # noqa: B008
    jobs: int = -1,
    seed: int = 0,
    progress_wanted: bool = False,
) -> dict[str, Any]:
    """Read, train and write; the result says what was done.

    Parameters
    ----------
    data : str, optional
        The labelled file; None if ``scale`` names shards.
    output : str
        The model file.
    model : "auto", "agm", "crf" or "ssvm", optional
        By default "auto", or for shards and engines "agm".
    loss, costs, order
        As for `ChosenLoss`.
    alphas : sequence of float, or "auto"
        None, one, or several to choose from.
    temperature : float or "auto", optional
    folds : int, optional
    time_limit : float, optional
        Seconds that training may take, with all that is chosen in it.
    tol : float, optional
    max_iter : int
    dev : str, optional
        Labelled file to stop by.
    decision : "auto", "map", "predictor" or "bayes", optional
    constraints : "BIO" or "BIOES", optional
    bad_labels : "repair", "error" or "drop"
    layout : Layout
        Of the labelled files.
    scale : Scale
        Shards, engine and checkpoints.
    jobs, seed : int
    progress_wanted : bool

    Returns
    -------
    dict
        Ready for JSON.
    """
    from robustruct.cli.loss import ChosenLoss

    check_writable(output)
    if model is None:
        in_memory = scale.shards is None and scale.engine == EngineName.here.value
        # A temperature is a matter of one model, a choice of it a matter of samples in memory.
        model = "auto" if in_memory and temperature is None else "agm"
    estimator = _untrained(
        model,
        alphas,
        temperature=temperature,
        max_time=time_limit,
        max_iter=max_iter,
        tol=tol,
        decision=decision,
        constraints=constraints,
        bad_labels=bad_labels,
        cv=folds,
        n_jobs=scale.threads(jobs),
        random_state=seed,
        verbose=int(progress_wanted),
        **scale.parameters,
    )
    chosen = ChosenLoss(loss, costs, order, layout.encoding)
    read = 0.0
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        with scale.connected(jobs) as engine:
            if engine is not None:
                estimator.set_params(engine=engine)
            if scale.shards is not None:
                _fit_shards(estimator, scale, layout, dev, chosen)
            else:
                assert data is not None
                read = _fit_file(estimator, data, layout, dev, chosen) - started
    if estimator.status_ is Status.INTERRUPTED:
        how = scale.after_interruption()
        print(f"robustruct: interrupted; no model was written. {how}", file=sys.stderr)
        raise typer.Exit(errors.INTERRUPTED)
    trained = time.perf_counter()
    # What is kept speaks of the model, not of the circumstances of its training.
    estimator.set_params(verbose=0)
    estimator.save(output)
    return {
        **_described(estimator),
        "data": scale.shards or data,
        "loss": " with changes ".join([loss, *([", ".join(costs)] if costs else [])]),
        "seconds_reading": read,
        "seconds_training": trained - started - read,
        "output": output,
        "bytes": os.path.getsize(output),
        "notes": [str(warning.message) for warning in caught],
    }


def _described(estimator: StructuredModel) -> dict[str, Any]:
    """What a trained model says of itself, ready for JSON."""
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
        "alpha": estimator.alpha_,
        "alpha_scores": getattr(estimator, "alpha_scores_", None),
        "n_tried": len({one.setting for one in getattr(estimator, "trials_", ())}),
        "gap": estimator.duality_gap_,
        "tol": estimator.tol,
        "n_iter": estimator.n_iter_,
        "dev_loss": getattr(estimator, "validation_loss_", None),
    }


def _temperature(text: str | None) -> float | str | None:
    """What --temperature says."""
    if text is None or text == AUTO:
        return text
    try:
        return float(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"{error}; give a number >= 0, inf or {AUTO}", param_hint="--temperature"
        ) from None


def _untrained(model: str, alphas: Sequence[float] | str, **parameters: Any) -> StructuredModel:
    """The model that the options describe; parameters that are None keep their default."""
    from robustruct.models.parameters import check_parameters
    from robustruct.models.storage import MODELS

    kind = {name.removesuffix("Model").lower(): kind for name, kind in MODELS.items()}[model]
    if alphas:
        single = not isinstance(alphas, str) and len(alphas) == 1 and model != AUTO
        parameters |= {"alpha": alphas[0]} if single else {"alphas": alphas}
    given = {name: value for name, value in parameters.items() if value is not None}
    unknown = sorted(set(given) - set(kind._parameters))
    if unknown:
        raise InvalidInputError(
            f"--{unknown[0].replace('_', '-')} does not go with --model {model}; use agm or ssvm."
        )
    estimator = kind(**given)
    check_parameters(estimator)  # before anything is read: what is wrong here is the usage
    return estimator


def _fit_file(
    estimator: StructuredModel, data: str, layout: Layout, dev: str | None, chosen: ChosenLoss
) -> float:
    """Read a file and train on it; returns when the first was done."""
    from robustruct.bad_labels import Rules, clean_corpus
    from robustruct.formats.recognise import stored
    from robustruct.labels import sorted_labels

    corpus = layout.read(data, bool(estimator.verbose))
    rules = Rules.of(estimator.constraints, estimator.bad_labels)
    if rules is not None:  # here, so that the warning names lines
        corpus = clean_corpus(corpus, rules)
        corpus.bad_labels.warn(rules)
    held_out = _read_dev(estimator, dev, layout, corpus.format)
    read = time.perf_counter()
    labels = sorted_labels(corpus.y + ([] if held_out is None else held_out.y))
    estimator.set_params(loss=chosen.of(labels))
    validation = None if held_out is None else (held_out.X, held_out.y)
    dev_lines = () if held_out is None else held_out.lines
    with (
        errors_at_lines(dev or "", dev_lines, validation=True),
        errors_at_lines(data, corpus.lines),
    ):
        estimator.fit(corpus.X, corpus.y, **corpus.weights, validation=validation)
    estimator.input_ = stored(corpus.format)
    return read


def _fit_shards(
    estimator: StructuredModel, scale: Scale, layout: Layout, dev: str | None, chosen: ChosenLoss
) -> None:
    """Train on shards, which are read where they are worked on, and only then tell their labels."""
    assert scale.shards is not None
    shards = layout.shards(scale.shards, min_count=scale.min_count or 1, hashed=scale.hashed)
    assert shards.format is not None
    held_out = _read_dev(estimator, dev, layout, shards.format)
    estimator.set_params(loss=chosen)
    validation = None if held_out is None else (held_out.X, held_out.y)
    with errors_at_lines(dev or "", () if held_out is None else held_out.lines, validation=True):
        estimator.fit(shards, validation=validation)
    estimator.set_params(loss=chosen.of(estimator.classes_))


def _read_dev(
    estimator: StructuredModel, dev: str | None, layout: Layout, form: Format
) -> Corpus | None:
    return None if dev is None else layout.read_alike(dev, form, bool(estimator.verbose))


def _summary(result: dict[str, Any]) -> str:
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
        ["decision", result["decision"]],
        ["alpha", number(result["alpha"])],
        ["certified gap", f"{result['gap']:.2%} after {result['n_iter']} passes"],
    ]
    if result["dev_loss"] is not None:
        rows.append(["loss on dev", f"{result['dev_loss']:.4f}"])
    if result["alpha_scores"] is not None:
        for alpha, score in result["alpha_scores"].items():
            rows.append([f"alpha {number(float(alpha))}", f"held-out loss {-score:.4f}"])
    reading, training = result["seconds_reading"], f"training {result['seconds_training']:.1f} s"
    # Where shards are read is not known here, and neither is how long it took.
    before = f"reading {reading:.1f} s, " if reading else "reading and "
    rows.append(["time", before + training])
    return (
        f"{result['model']} trained on {result['data']} ({result['format']})\n"
        f"{table(rows, text_columns=2)}\n"
        f"Written to {result['output']} ({result['bytes'] / 1e6:.1f} MB). Next:\n"
        f"  robustruct evaluate {result['output']} TEST_FILE\n"
        f"  robustruct predict {result['output']} FILE"
    )
