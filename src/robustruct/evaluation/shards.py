"""Prediction and evaluation over shards: the engine reads and labels each where it lies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial, reduce
from itertools import islice, repeat
from typing import Any

import numpy as np

from robustruct.engines.engine import Engine
from robustruct.engines.local import LocalEngine
from robustruct.errors import InvalidInputError
from robustruct.evaluation.evaluate import Compared, Evaluation, Tally, compared_file, tally
from robustruct.evaluation.predict_files import CHUNK, answered, write_answers
from robustruct.formats.corpus import Corpus, chunks
from robustruct.formats.output import opened_output
from robustruct.formats.parquet import write_predicted
from robustruct.formats.recognise import restored
from robustruct.formats.sample import Answer, Format, Sample
from robustruct.formats.shards import FileShard, Shard, ShardedData
from robustruct.formats.text import Lines
from robustruct.labels import as_labels
from robustruct.losses import LossLike, as_loss
from robustruct.models.base import StructuredModel


def predict_shards(
    model: StructuredModel,
    data: ShardedData,
    folder: str | os.PathLike[str],
    engine: Engine | None = None,
) -> list[str]:
    """Label every shard and write one file for each into a folder, in the shard's own format.

    Files have the names they were read from, and appear when they are complete. Samples in memory
    become JSON lines with the labels alone. Labels in the data are ignored.

    Parameters
    ----------
    model : AGM, CRF or SSVM
        Fitted. Columns are read as they were in training if the model knows (``input_``), else in
        the format of the shards.
    data : ShardedData
    folder : str or path-like
        Created if missing; with several machines, one that all of them see.
    engine : optional
        Where to work; by default here, one shard after the other.

    Returns
    -------
    list of str
        The files, in the order of the shards.
    """
    folder = os.path.abspath(folder)
    targets = [os.path.join(folder, name) for name in _file_names(data)]
    for shard, target in zip(data, targets, strict=True):
        if os.path.realpath(target) == os.path.realpath(shard.name):
            raise InvalidInputError(f"{folder} holds the data themselves; name another folder.")
    (engine or LocalEngine()).map(partial(_predict, model), list(zip(data, targets, strict=True)))
    return targets


def evaluate_shards(
    model: StructuredModel,
    data: ShardedData,
    engine: Engine | None = None,
    *,
    loss: LossLike | None = None,
) -> Evaluation:
    """Compare a model's labels with those of the data; workers send back counts only.

    Parameters
    ----------
    model : AGM, CRF or SSVM
    data : ShardedData
    engine : optional
        Where to work; by default here, one shard after the other.
    loss : optional
        What mistakes cost (rows: true label, columns: predicted label); by default the loss that
        the model was trained for.

    Returns
    -------
    Evaluation
        ``loss`` (mean cost per node, by weight), ``accuracy``, ``whole_samples`` (fraction without
        a mistake), ``n_samples``, ``n_nodes``; ``labels`` with the matrices ``confusion`` and
        ``costs`` in their order; ``by_label``, ``spans`` and ``spans_by_type``, each with
        ``precision``, ``recall`` and ``f1`` (None without spans).
    """
    tallies = (engine or LocalEngine()).map(partial(_tally, model), data)
    total = reduce(Tally.merged, tallies, Tally.empty(model.classes_))
    return total.evaluated(model.loss_ if loss is None else as_loss(loss), model.classes_)


def _file_names(data: ShardedData) -> list[str]:
    """Return the output path of each shard: files keep their paths below their common folder."""
    folders = [os.path.dirname(shard.path) for shard in data if isinstance(shard, FileShard)]
    common = os.path.commonpath(folders) if folders else ""
    return [
        os.path.relpath(shard.path, common)
        if isinstance(shard, FileShard)
        else f"{shard.name.replace(' ', '-')}.jsonl"
        for shard in data
    ]


def _format(model: StructuredModel, shard: FileShard) -> Format:
    state: dict[str, Any] | None = getattr(model, "input_", None)
    return shard.format if state is None else restored(state)


def _predict(model: StructuredModel, item: tuple[Shard, str]) -> None:
    """Label one shard into its file, on the worker that is given the pair."""
    shard, target = item
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if not isinstance(shard, FileShard):
        pairs = _answered_samples(model, shard.read())
        with opened_output(target) as stream:
            write_answers(pairs, None, stream)  # no format of their own: JSON lines
        return
    form = _format(model, shard)
    with Lines(shard.path, shard.encoding) as lines, opened_output(target) as stream:
        pairs = answered(model, form, lines, labelled=False)
        # A Parquet file is copied with one more column; its lines are JSON made of rows.
        if lines.is_parquet:
            labels = (answer.labels for _, answer in pairs)
            with open(shard.path, "rb") as source:
                write_predicted(source, shard.path, stream, labels, model.classes_)
        else:
            write_answers(pairs, form, stream, shard.encoding)


def _answered_samples(model: StructuredModel, corpus: Corpus) -> Iterator[tuple[Sample, Answer]]:
    weights = repeat(1.0) if corpus.node_weight is None else iter(corpus.node_weight)
    for X in chunks(iter(corpus.X), CHUNK):
        node_weight = list(islice(weights, len(X)))
        for sample, labels in zip(X, model.predict(X, node_weight), strict=True):
            yield Sample(0, sample, None), Answer(as_labels(labels).tolist())


def _tally(model: StructuredModel, shard: Shard) -> Tally:
    if not isinstance(shard, FileShard):
        return tally(model.classes_, _compared_samples(model, shard.read()))
    with Lines(shard.path, shard.encoding) as lines:
        return tally(model.classes_, compared_file(model, _format(model, shard), lines))


def _compared_samples(model: StructuredModel, corpus: Corpus) -> Iterator[Compared]:
    predicted = (answer.labels for _, answer in _answered_samples(model, corpus))
    for s, (y, labels) in enumerate(zip(corpus.y, predicted, strict=True)):
        truth = as_labels(y)
        if len(truth) != len(labels):
            raise InvalidInputError(
                f"{corpus.name}: y[{s}] has {len(truth)} labels but sample {s} has {len(labels)} "
                "nodes.",
                sample=s,
                field="y",
            )
        weight = np.ones(len(truth))
        if corpus.node_weight is not None:
            weight = np.asarray(corpus.node_weight[s], float)
        if corpus.sample_weight is not None:
            weight = weight * corpus.sample_weight[s]
        yield truth, as_labels(labels), weight
