"""Checks labels and weights that users pass; errors name the sample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robustruct._lazy import cached_property
from robustruct.arrays import LARGEST, SMALLEST, as_floats, is_sparse, length
from robustruct.errors import InvalidInputError, shown, warn
from robustruct.graphs import Batch
from robustruct.labels import (
    Options,
    as_labels,
    encode_labels,
    exactly_comparable,
    is_missing,
    sorted_labels,
    split_options,
)


def is_flat(X: Any) -> bool:
    """Return whether X is a 2-D array or sparse matrix, whose rows are samples of one node."""
    if is_sparse(X):
        return True
    if not hasattr(X, "__array__"):
        return False
    # A 1-D array of numbers is no list of samples either: scikit-learn's message fits it best.
    n_dimensions = getattr(X, "ndim", 2)
    return n_dimensions == 2 or (n_dimensions < 2 and X.dtype.kind != "O")


def as_listed(values: Any) -> Any:
    """Convert an iterator, which can be read only once, to a list."""
    return list(values) if isinstance(values, Iterator) else values


def are_lists(y: Any) -> bool:
    """Return whether labels are lists, one per sample; predictions then are lists too."""
    return isinstance(y, Iterable) and all(isinstance(labels, list | tuple) for labels in y)


def nonempty(X: Any) -> np.ndarray | None:
    """Return the indices of samples with nodes; None if all have some or X is no list."""
    if not isinstance(X, list | tuple):
        return None
    sizes = [_size(sample) for sample in X]
    return np.flatnonzero(sizes) if 0 in sizes else None


def _size(sample: Any) -> int:
    """Return the number of nodes of a sample; 1 if it is not obvious, as that is not empty."""
    shape = getattr(sample, "shape", None)
    if shape is not None:
        return int(shape[0]) if shape else 1
    return len(sample) if isinstance(sample, list | tuple) else 1


def label_arrays(y: Any, sizes: np.ndarray, flat: bool) -> list[np.ndarray]:
    """Return one label array per sample, of length ``sizes`` (one for all, if flat)."""
    if flat:
        return [_row_labels(y, len(sizes))]
    arrays = []
    for s, labels in enumerate(_of_samples(y, len(sizes))):
        array = _sample_labels(labels, s)
        _check_length(len(array), s, sizes)
        refuse_missing(array, f"y[{s}]: ", s)
        arrays.append(array)
    return arrays


@dataclass(frozen=True, eq=False)
class KnownLabels:
    """The labels that are known, and what is known of those that are not."""

    arrays: list[np.ndarray]
    """The known labels, sample by sample; samples without any are left out."""
    known: np.ndarray
    """(N,) bool, whether a node's label is known, in the user's order."""
    options: dict[int, Options]
    """Of the other nodes, by their place in the same order."""

    @classmethod
    def of(cls, y: Any, sizes: np.ndarray, flat: bool, field: str = "y") -> KnownLabels:
        """Check labels, some of which may be unknown; rows of an array need one each."""
        known, options = np.ones(sizes.sum(), bool), dict[int, Options]()
        if flat and field == "y":
            return cls([_row_labels(y, len(sizes))], known, {})
        arrays, start = [], 0
        for s, labels in enumerate([y] if flat else _of_samples(y, len(sizes), field)):
            given = [None] * int(sizes[s]) if labels is None and not flat else labels
            try:
                values, found = split_options(given)
            except InvalidInputError as error:
                raise error.at(f"{field}[{s}]", sample=s, field=field) from None
            array = _sample_labels(values, s, field)
            total = np.array([sizes.sum()]) if flat else sizes
            _check_length(len(array) + len(found), s, total, field)
            if len(array):
                arrays.append(array)
            options |= {start + i: one for i, one in found.items()}
            start += int(total[s])
        known[list(options)] = False
        return cls(arrays, known, options)

    @cached_property
    def unknown(self) -> np.ndarray:
        """(N,) bool, nodes of which nothing is known."""
        unknown = np.zeros(len(self.known), bool)
        unknown[[node for node, options in self.options.items() if options.unknown]] = True
        return unknown

    def classes(self) -> np.ndarray:
        """Return the labels that some node is known to have, or to have with a weight."""
        weighed = [label for one in self.options.values() if one.weights for label in one.labels]
        arrays = [*self.arrays, as_labels(weighed)] if weighed else self.arrays
        if not arrays:
            raise InvalidInputError("y holds no label that is known; training needs some.")
        return sorted_labels(arrays)

    def codes(self, classes: np.ndarray) -> np.ndarray:
        """(N,) index of each known label in ``classes``; -1 where it is not known."""
        codes = np.full(len(self.known), -1, np.intp)
        if self.arrays:
            codes[self.known] = codes_of(self.arrays, classes)
        return codes


def _row_labels(y: Any, n_rows: int) -> np.ndarray:
    """Return the labels of samples that are the rows of an array."""
    _check_given(y)
    rows = as_labels(as_listed(y))
    if len(rows) != n_rows:
        raise InvalidInputError(f"X has {n_rows} rows but y has {len(rows)} labels.")
    refuse_missing(rows, "")
    return rows


def _check_given(y: Any) -> None:
    if y is None:
        raise InvalidInputError("y is missing; training needs the labels of the nodes.")


def _of_samples(y: Any, n_samples: int, field: str = "y") -> Any:
    """Check that there is an item for every sample."""
    _check_given(y)
    y = as_listed(y)
    if length(y) != n_samples:
        given = f"is a {type(y).__name__}" if length(y) is None else f"has {length(y)}"
        raise InvalidInputError(
            f"X has {n_samples} samples but {field} {given}; give one label list each."
        )
    return y


def _sample_labels(labels: Any, s: int, field: str = "y") -> np.ndarray:
    if isinstance(labels, str) or length(labels) is None:
        raise InvalidInputError(
            f"{field}[{s}] is {shown(labels)}; expected the list of labels of sample {s}, one per "
            "node.",
            sample=s,
            field=field,
        )
    try:
        return as_labels(labels)
    except InvalidInputError as error:
        raise error.at(f"{field}[{s}]", sample=s, field=field) from None


def _check_length(n_labels: int, s: int, sizes: np.ndarray, field: str = "y") -> None:
    if n_labels != sizes[s]:
        raise InvalidInputError(
            f"{field}[{s}] has {n_labels} labels but sample {s} has {sizes[s]} nodes.",
            sample=s,
            field=field,
        )


def refuse_missing(labels: np.ndarray, where: str, sample: int | None = None) -> None:
    """Refuse labels that are None or NaN; the error names the first."""
    if labels.dtype.kind != "O":
        return
    missing = [i for i, label in enumerate(labels) if is_missing(label)]
    if missing:
        raise InvalidInputError(
            f"{where}the label of node {missing[0]} is missing ({shown(labels[missing[0]])}); "
            "here every node needs a label.",
            sample=sample,
            node=missing[0],
            field="y",
        )


def codes_of(arrays: list[np.ndarray], classes: np.ndarray) -> np.ndarray:
    """(N,) index of every label in ``classes``, in the user's order."""
    if exactly_comparable(arrays):
        return encode_labels(np.concatenate(arrays), classes, "y")
    codes = []
    for s, array in enumerate(arrays):
        try:
            codes.append(encode_labels(array, classes, f"y[{s}]"))
        except InvalidInputError as error:
            error.sample, error.field = s, "y"
            raise
    return np.concatenate(codes)


SINGLE = (1e-20, 1e20)  # costs in float32, whose squares stay within its 1e-45 .. 3e38 this far


def node_weights(node_weight: Any, sizes: np.ndarray, flat: bool) -> np.ndarray:
    """(N,) weights of nodes, in the user's order."""
    if node_weight is None:
        return np.ones(sizes.sum())
    if flat:
        weights = _weights(node_weight, len(sizes), "node_weight", "row of X")
    else:
        n_given = length(node_weight)
        if n_given != len(sizes):
            given = shown(node_weight) if n_given is None else f"{n_given} items"
            raise InvalidInputError(
                f"node_weight: got {given}, but X has {len(sizes)} samples; give one array of "
                "weights per sample."
            )
        weights = np.concatenate(
            [
                _weights(weight, size, f"node_weight[{s}]", "node")
                for s, (weight, size) in enumerate(zip(node_weight, sizes.tolist(), strict=True))
            ]
        )
    return weights


def sample_weights(sample_weight: Any, n_samples: int) -> np.ndarray:
    """(S,) weights of samples."""
    if sample_weight is None:
        return np.ones(n_samples)
    return _weights(sample_weight, n_samples, "sample_weight", "sample")


def check_some_weight(total: float, field: str, unit: str) -> None:
    """Refuse weights whose total is zero or tiny."""
    if not total > 0:
        raise InvalidInputError(
            f"{field} is zero for every {unit}; give some {unit} a positive weight."
        )
    if total < SMALLEST:
        raise InvalidInputError(
            f"{field} adds up to {total:.3g}; weights of all {unit}s together must be at least "
            f"{SMALLEST:g}. Multiply them all by the same number."
        )


def check_dearest(cost: float, smooth: bool) -> None:
    """Refuse a largest cost that would under- or overflow in training."""
    least, most = SINGLE if smooth else (SMALLEST, np.inf)
    if cost and not least <= cost <= most:
        raise InvalidInputError(
            f"the dearest mistake costs {cost:.3g} on a node of mean weight; with "
            f"{'a temperature above 0' if smooth else 'temperature 0'} costs must be at least "
            f"{least:g}{f' and at most {most:g}' if smooth else ''}. Multiply the costs or the "
            "node weights by a number: this changes no decision."
        )


def class_weights(
    class_weight: Any, classes: np.ndarray, count: np.ndarray
) -> Mapping[Any, float] | None:
    """Resolve ``class_weight``: compute "balanced", drop labels that are absent.

    ``count`` (k,) is the total weight of the nodes with each label.
    """
    names = classes.tolist()
    if isinstance(class_weight, str) and class_weight == "balanced":
        factor = np.divide(
            count.sum(), len(names) * count, out=np.ones_like(count), where=count > 0
        )
        return dict(zip(names, factor.tolist(), strict=True))
    if not isinstance(class_weight, Mapping):
        return class_weight
    absent = [label for label in class_weight if label not in names]
    if absent:  # in a fold of a cross-validation a rare label may be missing
        warn(
            f"class_weight names {shown(absent)}, which no training label equals; it has no "
            "effect.",
            UserWarning,
        )
    return {label: weight for label, weight in class_weight.items() if label not in absent}


def _weights(weight: Any, size: int, field: str, unit: str) -> np.ndarray:
    array = as_floats(weight, field)
    if array.ndim == 0:
        array = np.full(size, float(array))
    if array.shape != (size,):
        raise InvalidInputError(
            f"{field} has shape {array.shape}; expected ({size},), one per {unit}."
        )
    if not ((array >= 0) & (array <= LARGEST)).all():
        raise InvalidInputError(
            f"{field} holds a negative, NaN or infinite weight; weights are >= 0 and at most "
            f"{LARGEST:g}."
        )
    return array


def in_user_form(values: np.ndarray, batch: Batch, flat: bool) -> Any:
    """Return rows (N, ...) of the batch in the user's order: a list of arrays, or one if flat."""
    rows = batch.to_user(values)
    return rows if flat else batch.split_nodes(rows)


def chunks(batch: Batch, n_numbers: int, limit: int = 2**24) -> Sequence[tuple[int, int]]:
    """Split samples into ranges that need at most ``limit`` numbers, ``n_numbers`` per node.

    The default, 128 MB of float64, bounds the memory of a prediction.
    """
    per_chunk = max(1, limit // max(n_numbers, 1))
    ranges, first = [], 0
    while first < batch.n_samples:
        goal = batch.node_offsets[first] + per_chunk
        # A sample larger than the limit is a range of its own.
        last = max(first + 1, int(np.searchsorted(batch.node_offsets, goal, side="right")) - 1)
        ranges.append((first, last))
        first = last
    return ranges
