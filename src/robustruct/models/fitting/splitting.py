"""Which samples are held out, fold by fold."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from robustruct.errors import InvalidInputError

if TYPE_CHECKING:
    from robustruct.models.base import StructuredModel

FOLDS = 5
LARGE = 20_000  # nodes from which one part held out says enough

Split = tuple[np.ndarray, np.ndarray]
"""(samples to train on, samples held out)."""


def splits(model: StructuredModel, n_samples: int, n_nodes: int, cv: Any) -> list[Split]:
    """The folds that ``cv`` asks for; "auto" holds one fifth out once where samples are many."""
    if not isinstance(cv, int | np.integer | str):
        from sklearn.model_selection import check_cv  # takes long to load

        return list(check_cv(cv).split(np.arange(n_samples)))
    n_folds = min(FOLDS, n_samples) if isinstance(cv, str) else int(cv)
    if n_samples < 2:
        raise InvalidInputError(
            f"{type(model).__name__}: there is one sample, so none can be held out to choose "
            f"{model._to_choose}; give more samples, or the values themselves."
        )
    if not 2 <= n_folds <= n_samples:
        raise InvalidInputError(
            f"{type(model).__name__}: cv={n_folds} folds, but there are {n_samples} samples; "
            f"choose between 2 and {n_samples}, or pass a scikit-learn splitter."
        )
    every = dealt_out(shuffler(model.random_state)(n_samples), n_folds)
    return every[:1] if isinstance(cv, str) and n_nodes >= LARGE else every


def shuffler(random_state: Any) -> Callable[[int], np.ndarray]:
    """Permutes as scikit-learn would: None is numpy's global generator."""
    if random_state is None:
        return np.random.permutation
    if isinstance(random_state, np.random.RandomState):
        return random_state.permutation
    return np.random.RandomState(int(random_state)).permutation


def dealt_out(order: np.ndarray, n_folds: int) -> list[Split]:
    """The folds of shuffled samples, as a ``KFold`` has them."""
    every, tests = np.arange(len(order)), map(np.sort, np.array_split(order, n_folds))
    return [(np.setdiff1d(every, test, assume_unique=True), test) for test in tests]
