"""Choosing alpha on the training data: a path from strong to weak penalty in every fold."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold, check_cv
from sklearn.utils import _safe_indexing

from robustruct.errors import InvalidInputError
from robustruct.losses import CostMatrix, as_loss
from robustruct.progress import Pace, progress

if TYPE_CHECKING:
    from robustruct.models.base import StructuredModel


def select_alpha(
    model: StructuredModel,
    classes: np.ndarray,
    X: Any,
    y: Any,
    sample_weight: Any,
    node_weight: Any,
) -> tuple[float, dict[float, float]]:
    """(best alpha, mean score of each) by cross-validation over ``model.alphas``.

    Each fold walks from the largest alpha to the smallest, starting from the weights before.
    """
    alphas = sorted({float(alpha) for alpha in np.ravel(np.asarray(model.alphas))}, reverse=True)
    # With its rows named, the cost stays the same in a fold that lacks a label.
    loss = CostMatrix(as_loss(model.loss).matrix(classes), classes)
    folds = list(_splitter(model, len(y)).split(np.arange(len(y))))
    totals = dict.fromkeys(alphas, 0.0)
    pace, n_fits, done = Pace(), len(folds) * len(alphas), 0
    with progress("cross-validation", bool(model.verbose)) as show:
        for fold, (train, test) in enumerate(folds):
            one = clone(model).set_params(alphas=None, loss=loss, warm_start=True, verbose=0)
            fields = (X, y, sample_weight, node_weight)
            X_train, y_train, *weights = (_part(values, train) for values in fields)
            X_test, y_test, *test_weights = (_part(values, test) for values in fields)
            for alpha in alphas:
                state = f"fold {fold + 1} of {len(folds)}, alpha {alpha:g}"
                show(state, pace.left(done / n_fits))
                with warnings.catch_warnings():  # the final fit reports its own convergence
                    warnings.simplefilter("ignore", UserWarning)
                    one.set_params(alpha=alpha).fit(X_train, y_train, *weights)
                if one._interrupted:
                    raise KeyboardInterrupt("interrupted while choosing alpha; nothing was trained")
                totals[alpha] += one.score(X_test, y_test, *test_weights) / len(folds)
                done += 1
    # Among equals the strongest penalty: it trains fastest and varies least.
    return max(alphas, key=lambda alpha: totals[alpha]), totals


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
