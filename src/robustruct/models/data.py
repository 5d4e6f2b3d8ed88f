"""From what users pass to what training needs, with errors that name the sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from robustruct.errors import InvalidInputError
from robustruct.graphs import Batch
from robustruct.losses import as_labels, encode_labels, sorted_labels


def is_flat(X: Any) -> bool:
    """True for a 2-D array or sparse matrix, whose rows are samples of one node each."""
    if sp.issparse(X):
        return True
    return hasattr(X, "__array__") and not (getattr(X, "dtype", None) == object and X.ndim == 1)


def label_arrays(y: Any, batch: Batch, flat: bool) -> list[np.ndarray]:
    """One label array per sample, each as long as its sample has nodes."""
    if y is None:
        raise InvalidInputError("y is missing; training needs the labels of every node.")
    if flat:
        rows = as_labels(y)
        if len(rows) != batch.n_samples:
            raise InvalidInputError(f"X has {batch.n_samples} rows but y has {len(rows)} labels.")
        _no_missing(rows, "")
        return [rows]
    if not hasattr(y, "__len__") or len(y) != batch.n_samples:
        given = len(y) if hasattr(y, "__len__") else type(y).__name__
        raise InvalidInputError(f"X has {batch.n_samples} samples but y has {given}.")
    sizes = np.diff(batch.node_offsets).tolist()
    arrays = []
    for s, labels in enumerate(y):
        if isinstance(labels, str) or not hasattr(labels, "__len__"):
            raise InvalidInputError(
                f"y[{s}] is {labels!r}; expected the list of labels of sample {s}, one per node."
            )
        try:
            array = as_labels(labels)
        except InvalidInputError as error:
            raise InvalidInputError(f"y[{s}]: {error}") from None
        if len(array) != sizes[s]:
            raise InvalidInputError(
                f"y[{s}] has {len(array)} labels but sample {s} has {sizes[s]} nodes."
            )
        _no_missing(array, f"y[{s}]: ")
        arrays.append(array)
    return arrays


def _no_missing(labels: np.ndarray, where: str) -> None:
    if labels.dtype == object and any(label is None for label in labels):
        raise InvalidInputError(
            f"{where}a label is missing (None); partly labelled samples are not supported yet. Leave "
            "the sample out, or cut it at the gap."
        )


def encoded(arrays: list[np.ndarray], batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """(classes, labels (N,) in the order of the batch)."""
    classes = sorted_labels(arrays)
    return classes, codes_of(arrays, classes, batch)


def codes_of(arrays: list[np.ndarray], classes: np.ndarray, batch: Batch) -> np.ndarray:
    """(N,) index of every label in ``classes``, in the order of the batch."""
    kinds = {array.dtype.kind for array in arrays}
    if len(kinds) == 1 and "O" not in kinds:
        codes = encode_labels(np.concatenate(arrays), classes, "y")
    else:
        codes = np.concatenate([encode_labels(a, classes, f"y[{s}]") for s, a in enumerate(arrays)])
    return np.ascontiguousarray(batch.from_user(codes))


def node_weights(node_weight: Any, batch: Batch, flat: bool) -> np.ndarray:
    """(N,) in the order of the batch."""
    if node_weight is None:
        return np.ones(batch.n_nodes)
    if flat:
        weights = _weights(node_weight, batch.n_nodes, "node_weight", "row of X")
    else:
        if len(node_weight) != batch.n_samples:
            raise InvalidInputError(
                f"node_weight has {len(node_weight)} items but X has {batch.n_samples} samples."
            )
        sizes = np.diff(batch.node_offsets).tolist()
        weights = np.concatenate(
            [
                _weights(weight, size, f"node_weight[{s}]", "node")
                for s, (weight, size) in enumerate(zip(node_weight, sizes, strict=True))
            ]
        )
    return np.ascontiguousarray(batch.from_user(weights))


def sample_shares(sample_weight: Any, n_samples: int) -> np.ndarray:
    """(S,) weights that sum to 1."""
    if sample_weight is None:
        return np.full(n_samples, 1.0 / n_samples)
    weights = _weights(sample_weight, n_samples, "sample_weight", "sample")
    if weights.sum() == 0:
        raise InvalidInputError("sample_weight is zero for every sample; nothing is left to learn.")
    return weights / weights.sum()


def _weights(weight: Any, size: int, field: str, unit: str) -> np.ndarray:
    try:
        array = np.asarray(weight, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{field} must hold numbers, one per {unit}.") from error
    if array.ndim == 0:
        array = np.full(size, float(array))
    if array.shape != (size,):
        raise InvalidInputError(f"{field} has shape {array.shape}; expected ({size},), one per {unit}.")
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise InvalidInputError(f"{field} holds a negative, NaN or infinite weight; weights are >= 0.")
    return array


def in_user_form(values: np.ndarray, batch: Batch, flat: bool) -> Any:
    """Rows in the order of the batch as the user expects them: a list of arrays, or one array."""
    rows = batch.to_user(values)
    return rows if flat else batch.split_nodes(rows)


def chunks(batch: Batch, n_numbers: int, limit: int = 2**24) -> Sequence[tuple[int, int]]:
    """Ranges of samples whose nodes need at most ``limit`` numbers at ``n_numbers`` per node."""
    per_chunk = max(1, limit // max(n_numbers, 1))
    ranges, first = [], 0
    while first < batch.n_samples:
        goal = batch.node_offsets[first] + per_chunk
        last = max(first + 1, int(np.searchsorted(batch.node_offsets, goal, side="right")) - 1)
        ranges.append((first, last))
        first = last
    return ranges
