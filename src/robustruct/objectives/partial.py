"""Labels that are known in part: masks of what is possible, and contradictions with the rules."""

from __future__ import annotations

from typing import Any

import numpy as np

from robustruct.errors import InvalidInputError, shown
from robustruct.graphs import Batch
from robustruct.inference import best_labelling
from robustruct.labels import shortened
from robustruct.scores import Scores
from robustruct.validation import KnownLabels


def label_weights(known: KnownLabels, batch: Batch, classes: np.ndarray, field: str) -> np.ndarray:
    """(N, k) weight of every label at every node, in the order of the batch; 0 is impossible."""
    place = {label: a for a, label in enumerate(classes.tolist())}
    weights = np.zeros((len(known.known), len(classes)))
    single = [label for array in known.arrays for label in array.tolist()]
    named = zip(np.flatnonzero(known.known).tolist(), [(label,) for label in single], strict=True)
    some = {node: options.labels for node, options in known.options.items()}
    for node, labels in sorted([*named, *some.items()], key=lambda one: one[0]):
        wrong = [label for label in labels if label not in place]
        if wrong:
            _refuse_label(wrong[0], node, batch, classes, field)
        options = known.options.get(node)
        given = options.weights if options is not None and options.weights else 1.0
        weights[node, [place[label] for label in labels] if labels else slice(None)] = given
    return np.ascontiguousarray(batch.from_user(weights))


def _refuse_label(label: Any, node: int, batch: Batch, classes: np.ndarray, field: str) -> None:
    sample = int(np.searchsorted(batch.node_offsets, node, side="right")) - 1
    own = int(node - batch.node_offsets[sample])
    raise InvalidInputError(
        f"{field}[{sample}], node {own}: {shown(label)} is not among the labels that nodes are "
        f"known to have, {shortened(classes.tolist())}.",
        sample=sample,
        node=own,
        field=field,
    )


def log_weights(weights: np.ndarray) -> np.ndarray:
    """Return log weights, with -inf where a weight is 0."""
    with np.errstate(divide="ignore"):
        return np.log(weights)


def narrowed(scores: Scores, weights: np.ndarray) -> Scores:
    """The same scores with -inf for labels of weight 0."""
    return scores.with_unary(np.where(weights > 0.0, scores.unary, -np.inf))


def check_agreement(scores: Scores, weights: np.ndarray, field: str, numbers: np.ndarray) -> None:
    """Refuse known labels that no labelling agrees with; the error names sample and node.

    ``scores`` hold the rules as -inf, ``numbers`` (S,) are the user's numbers of the samples.
    """
    batch = scores.batch
    _, values = best_labelling(narrowed(scores, weights))
    bad = np.flatnonzero(np.isneginf(values))
    if not len(bad):
        return
    sample = int(bad[0])
    lo, hi = batch.node_offsets[sample : sample + 2]
    place = batch.node_of[lo:hi] - lo  # of each node in the user's order

    def fits(n: int) -> bool:
        """Whether some labelling agrees with the first n nodes of the sample."""
        some = np.ones_like(weights)
        some[lo:hi][place < n] = weights[lo:hi][place < n]
        return bool(np.isfinite(best_labelling(narrowed(scores, some))[1][sample]))

    least, most = 0, int(hi - lo)
    while most - least > 1:  # nodes up to ``least`` agree, those up to ``most`` do not
        middle = (least + most) // 2
        least, most = (middle, most) if fits(middle) else (least, middle)
    number = int(numbers[sample])
    raise InvalidInputError(
        f"{field}: sample {number}, node {most - 1}: no labelling that keeps the rules agrees with "
        f"what is known of this node and those before it. Correct {field}, or drop a rule from "
        "`constraints`.",
        sample=number,
        node=most - 1,
        field=field,
    )
