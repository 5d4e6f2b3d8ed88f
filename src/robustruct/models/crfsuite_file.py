"""Model files of CRFsuite: chains with attributes, written for its taggers and read back.

All numbers are little-endian, of 32 bits but for weights (float64). A file is a header of 48 bytes,
then five parts, whose offsets are in the header:

    features      id "FEAT", size, number; each: kind (0: attribute, 1: transition), source, label,
                  weight. The source is the number of an attribute or of the label before.
    labels        a constant database (CQDB) of names and numbers; see `_database`
    attributes    the same
    label refs    id "LFRF", size, number; offsets of a list for each label: number of features,
                  their numbers, those of the transitions from that label
    attribute refs  the same with id "AFRF": the features of each attribute

The layout is that of CRFsuite 0.12 (N. Okazaki, www.chokkan.org/software/crfsuite).
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import numpy as np

from robustruct.errors import IncompatibleError, InvalidInputError, warn
from robustruct.features import FeatureSpace, PackedNames
from robustruct.features.columns import AttributeColumns
from robustruct.formats.output import checked_path, replaced
from robustruct.models.crf import CRF

MAGIC = b"lCRF"
KIND, VERSION = b"FOMC", 100
HEADER = struct.Struct("<4sI4s9I")
CHUNK = struct.Struct("<4sII")
FEATURE = np.dtype([("kind", "<u4"), ("source", "<u4"), ("label", "<u4"), ("weight", "<f8")])
BIAS = "(bias)"

TABLES = 256  # of a database; a name is in the one that its hash ends with
DATABASE = struct.Struct("<4s5I")
BYTE_ORDER = 0x62445371
EXTRA = 2  # lists of transitions from the labels before and behind a sequence, which are empty


def write_crfsuite(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model of chains; see ``model.export``."""
    space, labels = model._space, model.classes_.tolist()
    name = type(model).__name__
    refusal = None
    if not isinstance(space.node_columns, AttributeColumns):
        refusal = "its features are not attributes (dicts or lists of strings) with names"
    elif not all(isinstance(label, str) for label in labels):
        refusal = f"CRFsuite's labels are text, and it has {labels[0]!r}"
    elif not model._rules.empty:
        refusal = "CRFsuite knows no constraints"
    if refusal is not None:
        raise IncompatibleError(f"this {name} cannot become a file of CRFsuite: {refusal}.")
    names = space.node_columns.names
    weights = model.node_weights_
    if space.bias:
        names = [*names, BIAS]
        if np.any(weights[-1]):
            warn(
                f"CRFsuite has no bias: give each item the attribute {BIAS!r} besides its own, "
                "for the file holds the model's bias under this name."
            )
    used = np.flatnonzero(np.any(weights != 0, axis=1))
    with replaced(path) as unfinished:
        Path(unfinished).write_bytes(
            _file(labels, [names[i] for i in used], weights[used], model.transitions_)
        )


def _file(
    labels: list[str], names: list[str], weights: np.ndarray, transitions: np.ndarray
) -> bytes:
    parts = []
    for kind, block in ((0, weights), (1, transitions)):
        source, label = np.nonzero(block)
        part = np.zeros(len(source), FEATURE)
        part["kind"], part["source"], part["label"] = kind, source, label
        part["weight"] = block[source, label]
        parts.append(part)
    features = np.concatenate(parts)
    body = CHUNK.pack(b"FEAT", CHUNK.size + features.nbytes, len(features)) + features.tobytes()
    offsets = [HEADER.size]

    def add(content: bytes) -> None:
        nonlocal body
        body += bytes(-len(body) % 4)
        offsets.append(HEADER.size + len(body))
        body += content

    add(_database(labels))
    add(_database(names))
    number, cut = np.arange(len(features)), len(parts[0])
    of_labels = parts[1]["source"], number[cut:], len(labels) + EXTRA
    add(_references(b"LFRF", *of_labels, _end(body)))
    of_names = parts[0]["source"], number[:cut], len(names)
    add(_references(b"AFRF", *of_names, _end(body)))
    size = HEADER.size + len(body)
    counts = len(features), len(labels), len(names)
    return HEADER.pack(MAGIC, size, KIND, VERSION, *counts, *offsets) + body


def _end(body: bytes) -> int:
    """Where the next part begins in the file."""
    return HEADER.size + len(body) + -len(body) % 4


def _references(kind: bytes, source: np.ndarray, numbers: np.ndarray, n: int, start: int) -> bytes:
    """For each of n sources the numbers of its features; they are sorted by source."""
    cuts = np.searchsorted(source, np.arange(n + 1))
    offsets, pieces, at = [], [], start + CHUNK.size + 4 * n
    for lo, hi in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        offsets.append(at)
        pieces.append(np.concatenate([[hi - lo], numbers[lo:hi]]).astype("<u4").tobytes())
        at += len(pieces[-1])
    lists = b"".join(pieces)
    head = CHUNK.pack(kind, CHUNK.size + 4 * n + len(lists), n)
    return head + np.array(offsets, "<u4").tobytes() + lists


def _database(names: list[str]) -> bytes:
    """Names and their numbers, which are those of the list.

    A header, the offset and size of each table, and records (number, length, name, 0). A table has
    twice as many places as names, each (hash, offset of the record); a name is at the place that
    its hash says, or at the next one that is free. At the end stand the offsets by number.
    """
    records, at = [], DATABASE.size + 8 * TABLES
    backward, tables = [], [list[tuple[int, int]]() for _ in range(TABLES)]
    for number, name in enumerate(names):
        key = name.encode() + b"\0"
        value = hash_of(key)
        tables[value % TABLES].append((value, at))
        backward.append(at)
        records.append(struct.pack("<II", number, len(key)) + key)
        at += len(records[-1])
    heads, places = [], []
    for entries in tables:
        n = 2 * len(entries)
        heads.append(struct.pack("<II", at if n else 0, n))
        table = [(0, 0)] * n
        for value, offset in entries:
            place = (value >> 8) % n
            while table[place][1]:
                place = (place + 1) % n
            table[place] = value, offset
        places += [struct.pack("<II", *entry) for entry in table]
        at += 8 * n
    size = at + 4 * len(backward)
    head = DATABASE.pack(b"CQDB", size, 0, BYTE_ORDER, len(names), at)
    return b"".join([head, *heads, *records, *places, np.array(backward, "<u4").tobytes()])


MASK = 0xFFFFFFFF


def hash_of(key: bytes) -> int:
    """Return the hash of 32 bits by which a database finds a name (B. Jenkins, lookup3, 2006)."""
    a = b = c = (0xDEADBEEF + len(key)) & MASK
    words = struct.unpack(f"<{-(-len(key) // 12) * 3}I", key + bytes(-len(key) % 12))
    for i in range(0, len(words) - 3, 3):
        a, b, c = (a + words[i]) & MASK, (b + words[i + 1]) & MASK, (c + words[i + 2]) & MASK
        a = ((a - c) & MASK) ^ _turned(c, 4)
        c = (c + b) & MASK
        b = ((b - a) & MASK) ^ _turned(a, 6)
        a = (a + c) & MASK
        c = ((c - b) & MASK) ^ _turned(b, 8)
        b = (b + a) & MASK
        a = ((a - c) & MASK) ^ _turned(c, 16)
        c = (c + b) & MASK
        b = ((b - a) & MASK) ^ _turned(a, 19)
        a = (a + c) & MASK
        c = ((c - b) & MASK) ^ _turned(b, 4)
        b = (b + a) & MASK
    if not words:
        return c
    a, b, c = (a + words[-3]) & MASK, (b + words[-2]) & MASK, (c + words[-1]) & MASK
    c = ((c ^ b) - _turned(b, 14)) & MASK
    a = ((a ^ c) - _turned(c, 11)) & MASK
    b = ((b ^ a) - _turned(a, 25)) & MASK
    c = ((c ^ b) - _turned(b, 16)) & MASK
    a = ((a ^ c) - _turned(c, 4)) & MASK
    b = ((b ^ a) - _turned(a, 14)) & MASK
    return ((c ^ b) - _turned(b, 24)) & MASK


def _turned(value: int, by: int) -> int:
    return ((value << by) | (value >> (32 - by))) & MASK


# ----------------------------------------------------------------------------------- reading


def is_crfsuite(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as CRFsuite's do."""
    name = checked_path(path)
    if not os.path.isfile(name):  # reading from a pipe would take what a reader of it needs
        return False
    with open(name, "rb") as file:
        return file.read(4) == MAGIC


def read_crfsuite(path: str | os.PathLike[str]) -> CRF:
    """Return a model of CRFsuite as a `CRF` that predicts its labels."""
    data = Path(path).read_bytes()
    try:
        return _restored(data)
    except (struct.error, ValueError, IndexError, OverflowError) as error:
        raise InvalidInputError(
            f"cannot load {os.fspath(path)!r}: it begins like a model of CRFsuite, but is damaged "
            f"({error})."
        ) from None


def _restored(data: bytes) -> CRF:
    _, size, kind, version, _, n_labels, n_names, *offsets = HEADER.unpack_from(data)
    if size != len(data) or kind != KIND or version != VERSION:
        raise ValueError(f"{len(data)} bytes of kind {kind!r}, version {version}")
    labels, names = (
        _names(data, at, n) for at, n in zip(offsets[1:3], (n_labels, n_names), strict=True)
    )
    mark, _, n = CHUNK.unpack_from(data, offsets[0])
    if mark != b"FEAT" or not n_labels:
        raise ValueError("no features, or no labels")
    features = np.frombuffer(data, FEATURE, n, offsets[0] + CHUNK.size)
    if not np.isfinite(features["weight"]).all():
        raise ValueError("weights that are not finite")
    order = np.argsort(labels)  # classes are sorted, as after a fit
    place = np.argsort(order)
    weights = np.zeros((len(names), n_labels))
    transitions = np.zeros((n_labels, n_labels))
    own = features[features["kind"] == 0]
    weights[own["source"], place[own["label"]]] = own["weight"]
    pairs = features[features["kind"] == 1]
    transitions[place[pairs["source"]], place[pairs["label"]]] = pairs["weight"]
    return _model(np.array(labels)[order], names, weights, transitions)


def _names(data: bytes, start: int, n: int) -> list[str]:
    """The names of a database by number."""
    mark, _, _, order, n_names, backward = DATABASE.unpack_from(data, start)
    if mark != b"CQDB" or order != BYTE_ORDER or n_names < n:
        raise ValueError("no database of names")
    names = []
    for at in np.frombuffer(data, "<u4", n, start + backward).tolist():
        _, length = struct.unpack_from("<II", data, start + at)
        names.append(data[start + at + 8 : start + at + 7 + length].decode())
    if len(set(names)) < n:
        raise ValueError("a name twice")
    return names


def _model(
    labels: np.ndarray, names: list[str], weights: np.ndarray, transitions: np.ndarray
) -> CRF:
    from robustruct.constraints import TransitionMasks
    from robustruct.features.names import Vocabulary

    model = CRF(decision="map")
    model.classes_ = labels
    model._space = FeatureSpace(AttributeColumns(Vocabulary.of(PackedNames.of(names))), None, False)
    model.coef_ = np.concatenate([weights.ravel(), transitions.ravel()])
    model.cost_ = 1.0 - np.eye(len(labels))
    model.temperature_, model.absolute_temperature_ = np.inf, 1.0
    model.decision_, model.labels_as_lists_ = "map", True
    model.alpha_, model.duality_gap_, model.n_iter_ = 1.0, np.inf, 0
    model.history_ = []
    model._rules = TransitionMasks.build(labels, None, None)
    return model
