"""Choosing alpha on the training data: a path from strong to weak penalty in every fold."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold
from sklearn.utils import _safe_indexing

if TYPE_CHECKING:
    from robustruct.models.base import StructuredModel


def select_alpha(
    model: StructuredModel, X: Any, y: Any, sample_weight: Any, node_weight: Any
) -> tuple[float, dict[float, float]]:
    """(best alpha, mean score of each) by cross-validation over ``model.alphas``.

    Each fold walks from the largest alpha to the smallest, starting from the weights before.
    """
    alphas = sorted({float(alpha) for alpha in np.atleast_1d(model.alphas)}, reverse=True)
    folds = KFold(model.cv, shuffle=True, random_state=model.random_state)
    totals = dict.fromkeys(alphas, 0.0)
    for train, test in folds.split(np.arange(len(y))):
        one = clone(model).set_params(alphas=None, warm_start=True, verbose=0)
        parts = [_safe_indexing(values, train) for values in (X, y)]
        weights = [None if w is None else _safe_indexing(w, train) for w in (sample_weight, node_weight)]
        for alpha in alphas:
            with warnings.catch_warnings():  # the final fit reports its own convergence
                warnings.simplefilter("ignore", ConvergenceWarning)
                one.set_params(alpha=alpha).fit(*parts, *weights)
            held_out = None if node_weight is None else _safe_indexing(node_weight, test)
            score = one.score(_safe_indexing(X, test), _safe_indexing(y, test), node_weight=held_out)
            totals[alpha] += score / folds.n_splits
    # Among equals the strongest penalty: it trains fastest and varies least.
    return max(alphas, key=lambda alpha: totals[alpha]), totals
