"""Checks of arguments, made once; errors name the argument and its shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from robustruct.errors import IncompatibleError, InvalidInputError, InvalidTypeError, shown
from robustruct.losses import as_loss

REDUCTIONS = ("none", "sum", "mean", "token_mean")


def shape_of(tensor: Tensor) -> str:
    """Return the shape of a tensor for messages."""
    return str(tuple(tensor.shape))


def checked_cost(cost: Any, labels: Sequence[Any]) -> np.ndarray:
    """Convert a name, a matrix or a Loss to (k, k) costs; rows: true, columns: predicted."""
    if isinstance(cost, Tensor):
        cost = cost.detach().cpu().double().numpy()
    if isinstance(cost, np.ndarray | list | tuple):
        matrix = np.asarray(cost, dtype=float)
        if matrix.shape != (len(labels), len(labels)):
            raise InvalidInputError(
                f"cost has shape {matrix.shape}; expected ({len(labels)}, {len(labels)}): rows are "
                "true tags, columns predicted ones.",
                field="cost",
            )
        cost = matrix
    return as_loss(cost).matrix(labels)


def shown_cost(cost: Any, matrix: np.ndarray) -> str:
    """Return costs for a repr: their name, or the matrix if it is small."""
    if isinstance(cost, str):
        return repr(cost)
    if len(matrix) > 6:
        return f"{matrix.shape} matrix of {matrix.min():g} to {matrix.max():g}"
    rows = (", ".join(f"{value:g}" for value in row) for row in matrix)
    return f"[{', '.join(f'[{row}]' for row in rows)}]"


def check_temperature(temperature: Any) -> None:
    """Refuse values that are no temperature."""
    is_number = isinstance(temperature, Real) and not isinstance(temperature, bool)
    if not is_number or not 0 <= float(temperature) <= math.inf:
        raise InvalidInputError(
            f"temperature={shown(temperature)}; it weighs the log loss against the cost and is a "
            "number >= 0 (0: the cost alone) or inf (the log loss alone).",
            field="temperature",
        )


def check_one_of(name: str, value: Any, known: Sequence[str]) -> None:
    """Refuse a value that is not among the known names."""
    if value not in known:
        raise InvalidInputError(
            f"{name}={shown(value)} is not known; use one of {', '.join(map(repr, known))}.",
            field=name,
        )


def check_needs_temperature(what: str, temperature: float) -> None:
    """Refuse a method or decision that has no meaning at temperature 0."""
    if temperature == 0:
        raise IncompatibleError(
            f"{what} needs a temperature above 0, but this layer has temperature=0, where no "
            "distribution is unique; export() it and ask the model, or train at a temperature."
        )


def check_scores(scores: Tensor, name: str, n_tags: int | None, *, layout: str) -> None:
    """Refuse scores that are no numbers of shape (B, n, k)."""
    if not isinstance(scores, Tensor) or not scores.is_floating_point():
        what = scores.dtype if isinstance(scores, Tensor) else type(scores).__name__
        raise InvalidTypeError(f"{name} is {what}; expected a tensor of floats.", field=name)
    if (
        scores.dim() != 3
        or (n_tags is not None and scores.shape[2] != n_tags)
        or not scores.numel()
    ):
        tags = "n_tags" if n_tags is None else n_tags
        raise InvalidInputError(
            f"{name} has shape {shape_of(scores)}; expected ({layout}, {tags}), none of them 0.",
            field=name,
        )


def checked_mask(mask: Tensor | None, like: Tensor) -> Tensor | None:
    """Check a mask of the first two dimensions of ``like``; return it as bools."""
    if mask is None:
        return None
    if not isinstance(mask, Tensor) or mask.is_floating_point() or mask.is_complex():
        what = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise InvalidTypeError(
            f"mask is {what}; expected a tensor of bools, or of 0 and 1, True where there is a "
            "token. Pass mask.bool().",
            field="mask",
        )
    _check_shape("mask", mask, like)
    bools = mask.bool()
    if mask.dtype != torch.bool and values_known(mask) and bool((mask != bools).any()):
        other = int(mask[mask != bools][0])
        raise InvalidInputError(
            f"mask of shape {shape_of(mask)} holds {other}; expected 1 where there is a token and "
            "0 elsewhere.",
            field="mask",
        )
    return bools


def check_tags_type(tags: Tensor, like: Tensor) -> None:
    """Refuse tags that are no integers of the right shape."""
    if not isinstance(tags, Tensor) or tags.dtype not in (torch.int64, torch.int32):
        what = tags.dtype if isinstance(tags, Tensor) else type(tags).__name__
        raise InvalidTypeError(f"tags is {what}; expected a tensor of integers.", field="tags")
    _check_shape("tags", tags, like)


def check_weight_type(weight: Tensor | None, like: Tensor) -> None:
    """Refuse weights that are no tensor of the right shape."""
    if weight is None:
        return
    if not isinstance(weight, Tensor):
        raise InvalidTypeError(
            f"node_weight is {type(weight).__name__}; expected a tensor.", field="node_weight"
        )
    _check_shape("node_weight", weight, like)


def _check_shape(name: str, given: Tensor, like: Tensor) -> None:
    if given.shape != like.shape[:2]:
        raise InvalidInputError(
            f"{name} has shape {shape_of(given)}; expected {shape_of(like[..., 0])}, as there are "
            f"scores of shape {shape_of(like)}.",
            field=name,
        )


# ------------------------------------------------------------------------- checks of values


def values_known(tensor: Tensor) -> bool:
    """Return whether values can be read: not while compiling, nor on meta devices."""
    return not (
        torch.compiler.is_compiling()
        or tensor.is_meta
        or isinstance(tensor, torch._subclasses.fake_tensor.FakeTensor)
    )


def check_values(
    scores: Tensor,
    name: str,
    alive: Tensor,
    tags: Tensor | None = None,
    weight: Tensor | None = None,
) -> None:
    """Refuse bad scores, tags or weights at living nodes; one transfer to the host if none is."""
    if not values_known(scores):
        return
    there = alive[:, :, None]
    detached = scores.detach()
    empty = ~alive.any(1).all()
    wrong = [empty, (~torch.isfinite(detached) & there).any()]
    if tags is not None:
        wrong.append(((tags < 0) | (tags >= scores.shape[2])).logical_and(alive).any())
    if weight is not None:
        wrong.append((~torch.isfinite(weight) | (weight < 0)).logical_and(alive).any())
    if not bool(torch.stack(wrong).any()):
        return
    if bool(empty):
        row = int(torch.nonzero(~alive.any(1))[0])
        raise InvalidInputError(
            f"mask of shape {shape_of(alive)} leaves nothing of sequence {row}; every sequence "
            "needs a token. Drop it from the batch.",
            sample=row,
            field="mask",
        )
    if bool(wrong[1]):
        row, place, tag = torch.nonzero(~torch.isfinite(detached) & there)[0].tolist()
        raise InvalidInputError(
            f"{name} of shape {shape_of(scores)} holds {float(detached[row, place, tag])} "
            f"(sequence {row}, position {place}, tag {tag}); scores must be finite.",
            sample=row,
            node=place,
            field=name,
        )
    _refuse_tags_or_weights(scores, alive, tags, weight)


def _refuse_tags_or_weights(
    scores: Tensor, alive: Tensor, tags: Tensor | None, weight: Tensor | None
) -> None:
    k = scores.shape[2]
    if tags is not None:
        outside = torch.nonzero(((tags < 0) | (tags >= k)) & alive)
        if len(outside):
            row, place = outside[0].tolist()
            raise InvalidInputError(
                f"tags of shape {shape_of(tags)} holds {int(tags[row, place])} (sequence {row}, "
                f"position {place}); tags are 0..{k - 1}. Mask positions that have none.",
                sample=row,
                node=place,
                field="tags",
            )
    assert weight is not None
    row, place = torch.nonzero((~torch.isfinite(weight) | (weight < 0)) & alive)[0].tolist()
    raise InvalidInputError(
        f"node_weight of shape {shape_of(weight)} holds {float(weight[row, place])} (sequence "
        f"{row}, position {place}); weights are finite numbers >= 0.",
        sample=row,
        node=place,
        field="node_weight",
    )
