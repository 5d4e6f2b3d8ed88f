"""Choosing alpha on the training data: a path from strong to weak penalty in every fold."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold, check_cv
from sklearn.utils import _safe_indexing

from robustruct.errors import InvalidInputError
from robustruct.losses import CostMatrix, LossLike, as_loss
from robustruct.progress import Pace, progress

if TYPE_CHECKING:
    from robustruct.models.base import StructuredModel

FIRST = 10.0  # times 1 / n_samples: where the walk of alphas="auto" starts
STEP = 10.0**0.5
PATIENCE = 2  # steps without a better score after which the walk ends
FARTHEST = 14  # steps in either direction: seven orders of magnitude


def select_alpha(
    model: StructuredModel,
    classes: np.ndarray,
    X: Any,
    y: Any,
    sample_weight: Any,
    node_weight: Any,
) -> tuple[float, dict[float, float]]:
    """(best alpha, mean score of each) by cross-validation over ``model.alphas``.

    Each fold goes from the largest alpha to the smallest, starting from the weights before.
    """
    # With its rows named, the cost stays the same in a fold that lacks a label.
    loss = CostMatrix(as_loss(model.loss).matrix(classes), classes)
    splits = _splitter(model, len(y)).split(np.arange(len(y)))
    folds = [_Fold(model, loss, (X, y, sample_weight, node_weight), *split) for split in splits]
    scores: dict[float, float] = {}
    if isinstance(model.alphas, str):
        total = float(len(y) if sample_weight is None else np.sum(sample_weight))
        steps = walk(FIRST / total, scores)
    else:
        steps = iter(sorted({float(a) for a in np.ravel(np.asarray(model.alphas))}, reverse=True))
    pace = Pace()
    with progress(f"{type(model).__name__} choosing alpha", bool(model.verbose)) as show:
        for alpha in steps:
            held_out = 0.0
            for f, fold in enumerate(folds):
                done = (len(scores) + f / len(folds)) / _expected(model, scores)
                show(f"alpha {alpha:.2g}, fold {f + 1} of {len(folds)}", pace.left(done))
                held_out += fold.score(alpha)
            scores[alpha] = held_out / len(folds)
    return best_alpha(scores), dict(sorted(scores.items(), reverse=True))


def best_alpha(scores: Mapping[float, float]) -> float:
    """The alpha of the highest score; among equals the strongest: it varies least."""
    return max(scores, key=lambda alpha: (scores[alpha], alpha))


def walk(first: float, scores: Mapping[float, float]) -> Iterator[float]:
    """Penalties to try, given the ``scores`` of those tried so far.

    Down from ``first`` until the score has not improved for two steps; if nothing was better than
    ``first``, up as well. So the best is never at the edge of what was tried, however the features
    and the cost are scaled, unless it lies beyond seven orders of magnitude.
    """

    def from_best(step: int) -> int:
        return abs(step - round(np.log(first / best_alpha(scores)) / np.log(STEP)))

    yield first
    for direction in (1, -1):
        step = 0
        while from_best(step) < PATIENCE and abs(step) < FARTHEST:
            step += direction
            yield first / STEP**step


def _expected(model: StructuredModel, scores: Mapping[float, float]) -> int:
    """How many alphas will be tried in the end, as far as one can say now."""
    if isinstance(model.alphas, str):
        return max(6, len(scores) + 1)
    return np.size(np.asarray(model.alphas))


class _Fold:
    """A part to train on, a part to score, and the model that goes down the path."""

    def __init__(
        self,
        model: StructuredModel,
        loss: LossLike,
        values: tuple[Any, ...],
        train: np.ndarray,
        test: np.ndarray,
    ) -> None:
        self.model = clone(model).set_params(alphas=None, loss=loss, verbose=0)
        self.train = [_part(value, train) for value in values]
        self.test = [_part(value, test) for value in values]
        self.alpha = np.inf

    def score(self, alpha: float) -> float:
        """Held-out score after training; a smaller alpha than the last starts from its weights."""
        self.model.set_params(alpha=alpha, warm_start=True)
        if alpha > self.alpha:
            self.model.__dict__.pop("coef_")
        self.alpha = alpha
        with warnings.catch_warnings():  # the final fit reports its own convergence
            warnings.simplefilter("ignore", UserWarning)
            self.model.fit(*self.train)
        if self.model._interrupted:
            raise KeyboardInterrupt("interrupted while choosing alpha; no model was trained")
        return float(self.model.score(*self.test))


def _splitter(model: StructuredModel, n_samples: int) -> Any:
    """The folds that ``cv`` asks for."""
    if not isinstance(model.cv, int | np.integer):
        return check_cv(model.cv)
    if not 2 <= model.cv <= n_samples:
        raise InvalidInputError(
            f"{type(model).__name__}: cv={model.cv} folds, but there are {n_samples} samples; "
            f"choose between 2 and {n_samples}, or pass a scikit-learn splitter."
        )
    return KFold(int(model.cv), shuffle=True, random_state=model.random_state)


def _part(values: Any, indices: np.ndarray) -> Any:
    return None if values is None else _safe_indexing(values, indices)
