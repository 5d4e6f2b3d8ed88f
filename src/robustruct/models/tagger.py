"""A tagger of sequences that robustruct wrote; it needs numpy alone.

    import tagger

    tagger.predict([[{"word": "Ada"}, {"word": "met"}], ...])   # a list of labels for each sequence
    tagger.predict_proba(sequences)                             # arrays (n, labels), if it has them

A sequence has an item for each node, in the form that the model was trained on: dicts, lists of
strings or strings, or rows of numbers. The weights are in the file of the same name that ends with
.npz. Copy both wherever they are needed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np


@cache
def _model() -> dict[str, Any]:
    """The weights beside this file, read when they are first needed."""
    with np.load(os.path.splitext(os.path.abspath(__file__))[0] + ".npz") as stored:
        model: dict[str, Any] = dict(stored)
    model.update(json.loads(model.pop("settings").tobytes()))
    weights = np.zeros((model["n_rows"], len(model["labels"])))
    weights.ravel()[model["places"]] = model["values"]
    model["weights"] = weights
    names = model.pop("names").tobytes()
    cuts = model.pop("name_offsets").tolist()
    model["row_of"] = {names[lo:hi].decode(): i for i, (lo, hi) in enumerate(pairwise(cuts))}
    return model


def labels() -> list[Any]:
    """All labels, in the order of the columns of `predict_proba`."""
    return list(_model()["labels"])


def predict(sequences: Sequence[Any]) -> list[list[Any]]:
    """The label of every node: a list for each sequence.

    Decided as the model did: the best labelling ("map"), or the labels of least expected cost.
    """
    names = _model()["labels"]
    return [[names[a] for a in _decided(sequence)] for sequence in sequences]


def predict_proba(sequences: Sequence[Any]) -> list[np.ndarray]:
    """The probability of each label on every node: an array (n, labels) for each sequence."""
    model = _model()
    if not model["has_probabilities"]:
        raise ValueError(
            "this model has no probabilities that numpy alone can compute: they solve a game for "
            "each sequence; use robustruct itself, or export a CRF."
        )
    return [
        _marginals(*_scores(sequence), 1 / model["temperature"]) if len(sequence) else _nothing()
        for sequence in sequences
    ]


# ---------------------------------------------------------------------------- features to scores


def _nothing() -> np.ndarray:
    return np.zeros((0, len(_model()["labels"])))


def _scores(sequence: Any) -> tuple[np.ndarray, np.ndarray]:
    """(n, k) scores of labels, and (k, k) of [label, next label]; -inf is forbidden."""
    model = _model()
    unary = _numbers(sequence) if model["kind"] == "numeric" else _attributes(sequence)
    unary = unary + model["bias"]
    unary[0] += model["starts"]
    unary[-1] += model["ends"]
    pairs = model["transitions"]
    if not model["has_rules"]:
        return unary, pairs
    return _possible(unary, pairs), pairs


def _numbers(sequence: Any) -> np.ndarray:
    weights: np.ndarray = _model()["weights"]
    rows = np.asarray(sequence, dtype=float)
    if rows.ndim != 2 or rows.shape[1] != len(weights):
        raise ValueError(
            f"a sequence has shape {rows.shape}; expected (n, {len(weights)}), a row of numbers "
            "for each node."
        )
    if not np.isfinite(rows).all():
        raise ValueError("a sequence holds NaN or infinity; features must be finite.")
    return rows @ weights


def _attributes(sequence: Any) -> np.ndarray:
    model = _model()
    weights, row_of, hashed = model["weights"], model["row_of"], model["hashed"]
    rows, nodes, values = [], [], []
    for i, item in enumerate(sequence):
        for name, value in _named(item):
            row = crc32(name.encode()) % hashed if hashed else row_of.get(name)
            if row is not None:  # training knew it
                rows.append(row)
                nodes.append(i)
                values.append(value)
    unary = np.zeros((len(sequence), weights.shape[1]))
    if not np.isfinite(values).all():
        raise ValueError("an attribute has the value NaN or infinity; values must be finite.")
    np.add.at(unary, nodes, np.array(values)[:, None] * weights[rows])
    return unary


def _named(item: Any) -> Iterator[tuple[str, float]]:
    """Name and value of each attribute of a node: {"w": "a", "n": 2} is ("w:a", 1), ("n", 2)."""
    if isinstance(item, str | bytes):
        yield _text(item), 1.0
    elif isinstance(item, Mapping):
        for key, value in item.items():
            if isinstance(value, str | bytes):
                yield f"{_text(key)}:{_text(value)}", 1.0
            elif isinstance(value, Mapping | list | tuple | set | frozenset):
                for inner, number in _named(value):
                    yield f"{_text(key)}:{inner}", number
            else:
                yield _text(key), float(value)
    elif isinstance(item, list | tuple | set | frozenset):
        for name in item:
            yield _text(name), 1.0
    else:
        raise ValueError(
            f"a node is a {type(item).__name__}; expected a dict, a list of strings or a string."
        )


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else name


# --------------------------------------------------------------------------- scores to decisions


def _decided(sequence: Any) -> list[int]:
    """Label codes of a sequence."""
    if not len(sequence):
        return []
    model = _model()
    unary, pairs = _scores(sequence)
    if model["decision"] == "map":
        return _best(unary, pairs)
    gain = -(_marginals(unary, pairs, model["scale"] / model["temperature"]) @ model["cost"])
    if not model["has_rules"]:
        return list(gain.argmax(axis=1).tolist())
    # Node by node the choice could break a rule: the best choice that keeps them all.
    kept = np.where(np.isneginf(unary), -np.inf, gain)
    return _best(kept, np.where(np.isneginf(pairs), -np.inf, 0.0))


def _best(unary: np.ndarray, pairs: np.ndarray) -> list[int]:
    """The labelling of the highest score (Viterbi)."""
    score, back = unary[0], []
    for own in unary[1:]:
        through = score[:, None] + pairs
        before = through.argmax(axis=0)
        back.append(before)
        score = through[before, np.arange(len(before))] + own
    path = [int(score.argmax())]
    if score[path[0]] == -np.inf:
        raise ValueError("no labelling of a sequence keeps the rules that the model was given.")
    for before in reversed(back):
        path.append(int(before[path[-1]]))
    return path[::-1]


def _marginals(unary: np.ndarray, pairs: np.ndarray, scale: float) -> np.ndarray:
    """(n, k) probabilities under exp(scale * score) / Z, by passes forward and backward."""
    unary, pairs = unary * scale, pairs * scale
    most = max(float(pairs.max()), -1e300)
    weights = np.exp(pairs - most)
    forward, backward = np.empty_like(unary), np.zeros_like(unary)
    forward[0] = unary[0]
    for i in range(1, len(unary)):
        forward[i] = unary[i] + _log_product(forward[i - 1], weights, pairs)
    for i in range(len(unary) - 2, -1, -1):
        backward[i] = _log_product(unary[i + 1] + backward[i + 1], weights.T, pairs.T)
    joint = forward + backward
    share = np.exp(joint - joint.max(axis=1, keepdims=True))
    return np.asarray(share / share.sum(axis=1, keepdims=True))


def _log_product(logs: np.ndarray, weights: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """log Σ_a exp(logs[a] + pairs[a, b]) up to a constant; ``weights`` are exp(pairs - max)."""
    with np.errstate(divide="ignore"):
        found = np.log(np.exp(logs - logs.max()) @ weights)
    if found.min() > -600:  # nothing that counts has underflowed
        return np.asarray(found)
    sums = logs[:, None] + pairs - float(pairs.max())  # terms that underflowed, or are forbidden
    top = sums.max(axis=0)
    finite = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        return np.asarray(finite + np.log(np.exp(sums - finite).sum(axis=0)) - logs.max())


def _possible(unary: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """The scores with -inf at labels that no labelling which keeps the rules has there."""
    free, allowed = np.isfinite(pairs), np.isfinite(unary)
    for i in range(1, len(allowed)):
        allowed[i] &= (allowed[i - 1][:, None] & free).any(axis=0)
    for i in range(len(allowed) - 2, -1, -1):
        allowed[i] &= (allowed[i + 1][None, :] & free).any(axis=1)
    if not allowed.any(axis=1).all():
        raise ValueError("no labelling of a sequence keeps the rules that the model was given.")
    return np.where(allowed, unary, -np.inf)
