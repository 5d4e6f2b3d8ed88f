"""How much the mistakes of a prediction cost."""

from __future__ import annotations

from typing import Any

import numpy as np

from robustruct.errors import InvalidInputError
from robustruct.losses import Labels, LossLike, as_labels, as_loss


def mean_loss(
    y_true: Any,
    y_pred: Any,
    loss: LossLike = "hamming",
    node_weight: Any = None,
    average: str = "node",
    classes: Labels | None = None,
) -> float:
    """Mean cost of a prediction, per node or per sample.

    Parameters
    ----------
    y_true, y_pred : list of label arrays, or one flat array
        The true and the predicted labels of each sample. A flat array is read as samples of one
        node each.
    loss : str, array of shape (k, k) or Loss
        As in the models: "hamming", "absolute", "squared", costs [predicted, true], or a Loss.
    node_weight : list of arrays or flat array, optional
        How much each node counts, in the form of ``y_true``; by default 1.
    average : "node" or "sample"
        "node": the total cost over the total weight. "sample": the same within each sample, then
        the plain mean over samples, so that long samples do not count more.
    classes : sequence, optional
        Order of the labels for losses that need one, such as a plain array; by default the sorted
        labels found in ``y_true`` and ``y_pred``. Usually ``model.classes_``.

    Returns
    -------
    float

    Examples
    --------
    >>> y_true, y_pred = [[1, 2, 3, 3], [1, 1]], [[1, 2, 3, 3], [2, 3]]
    >>> mean_loss(y_true, y_pred, "absolute")
    0.5
    >>> mean_loss(y_true, y_pred, "absolute", average="sample")
    0.75
    """
    if average not in ("node", "sample"):
        raise InvalidInputError(f"average={average!r} is not known; use 'node' or 'sample'.")
    true, n_nodes = _flat_labels(y_true, "y_true")
    predicted, n_predicted = _flat_labels(y_pred, "y_pred")
    _check_same_sizes(n_nodes, n_predicted, "y_pred")
    weight = _flat_weights(node_weight, n_nodes)
    cost = weight * as_loss(loss).evaluate(true, predicted, classes)

    sample_of = np.repeat(np.arange(len(n_nodes)), n_nodes)
    sample_weight = np.bincount(sample_of, weights=weight, minlength=len(n_nodes))
    if average == "node":
        if not sample_weight.sum() > 0:
            raise InvalidInputError("all node weights are zero; give some node a positive weight.")
        return float(cost.sum() / weight.sum())
    if not (sample_weight > 0).all():
        s = int(np.argmin(sample_weight))
        raise InvalidInputError(
            f"the node weights of sample {s} sum to zero, so it has no mean; leave the sample out, "
            "or use average='node'."
        )
    sample_cost = np.bincount(sample_of, weights=cost, minlength=len(n_nodes))
    return float((sample_cost / sample_weight).mean())


def _flat_labels(y: Any, field: str) -> tuple[np.ndarray, np.ndarray]:
    """All labels in one array, and the number of nodes of each sample."""
    samples = _checked_samples(y, field)
    if _is_flat(samples, field):
        labels = as_labels(samples)
        return labels, np.ones(len(labels), np.intp)
    arrays = [as_labels(labels) for labels in samples]
    # numpy would turn numbers into strings where samples differ in type.
    if len({"n" if a.dtype.kind in "iufb" else a.dtype.kind for a in arrays if len(a)}) > 1:
        arrays = [labels.astype(object) for labels in arrays]
    sizes = np.array([len(labels) for labels in arrays], dtype=np.intp)
    return np.concatenate([a for a in arrays if len(a)] or arrays), sizes


def _flat_weights(node_weight: Any, n_nodes: np.ndarray) -> np.ndarray:
    if node_weight is None:
        return np.ones(int(n_nodes.sum()))
    samples = _checked_samples(node_weight, "node_weight")
    try:
        if _is_flat(samples, "node_weight"):
            weight = np.asarray(samples, dtype=float)
            sizes = np.ones(len(weight), np.intp)
        else:
            arrays = [np.asarray(sample, dtype=float) for sample in samples]
            sizes = np.array([len(array) for array in arrays], dtype=np.intp)
            weight = np.concatenate(arrays)
    except (TypeError, ValueError) as error:
        raise InvalidInputError("node_weight must hold one number per node.") from error
    _check_same_sizes(n_nodes, sizes, "node_weight")
    wrong = ~(np.isfinite(weight) & (weight >= 0))
    if weight.ndim != 1 or wrong.any():
        shown = weight[wrong][0] if weight.ndim == 1 else f"an array of shape {weight.shape}"
        raise InvalidInputError(
            f"node_weight holds {shown}; weights are finite numbers, 0 or more, one per node."
        )
    return weight


def _checked_samples(values: Any, field: str) -> Any:
    if not hasattr(values, "__len__") or isinstance(values, str | bytes | dict):
        raise InvalidInputError(
            f"{field} is a {type(values).__name__}; give a list with one array per sample."
        )
    if len(values) == 0:
        raise InvalidInputError(f"{field} is empty; there is no sample to take a mean over.")
    return values


def _is_flat(samples: Any, field: str) -> bool:
    """Whether the items are labels themselves, not arrays of labels."""
    if isinstance(samples, np.ndarray) and samples.dtype.kind != "O":
        return samples.ndim == 1
    scalar = [isinstance(item, str | bytes) or not hasattr(item, "__len__") for item in samples]
    if any(scalar) and not all(scalar):
        s = scalar.index(not scalar[0])
        raise InvalidInputError(
            f"{field} mixes labels and arrays of labels (sample {s} differs from sample 0); give "
            "an array for each sample, or one flat array."
        )
    return scalar[0]


def _check_same_sizes(n_nodes: np.ndarray, other: np.ndarray, field: str) -> None:
    if len(n_nodes) != len(other):
        raise InvalidInputError(f"y_true has {len(n_nodes)} samples but {field} has {len(other)}.")
    if (n_nodes != other).any():
        s = int(np.argmax(n_nodes != other))
        raise InvalidInputError(
            f"sample {s}: y_true labels {n_nodes[s]} nodes but {field} has {other[s]} entries."
        )
