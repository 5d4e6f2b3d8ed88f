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


def group_codes(groups: Any, n_samples: int) -> np.ndarray:
    """(n_samples,) a number for each sample's group; without groups every sample is one."""
    if groups is None:
        return np.arange(n_samples)
    listed = groups.tolist() if hasattr(groups, "tolist") else list(groups)
    if len(listed) != n_samples:
        raise InvalidInputError(
            f"groups has {len(listed)} entries for {n_samples} samples; give one for each.",
            field="groups",
        )
    code: dict[Any, int] = {}
    return np.array([code.setdefault(one, len(code)) for one in listed], np.intp)


def splits(model: StructuredModel, groups: np.ndarray, n_nodes: int, cv: Any) -> list[Split]:
    """The folds that ``cv`` asks for; "auto" holds one fifth out once where samples are many.

    No group is on both sides of a fold. A scikit-learn splitter is told the ``groups`` (n_samples,)
    and does as it likes.
    """
    n_samples, n_groups = len(groups), int(groups.max()) + 1
    if not isinstance(cv, int | np.integer | str):
        from sklearn.model_selection import check_cv  # takes long to load

        return list(check_cv(cv).split(np.arange(n_samples), groups=groups))
    name, unit = type(model).__name__, "samples" if n_groups == n_samples else "groups"
    n_folds = min(FOLDS, n_groups) if isinstance(cv, str) else int(cv)
    if n_groups < 2:
        raise InvalidInputError(
            f"{name}: there is one {unit[:-1]}, so none can be held out to choose "
            f"{model._to_choose}; give more {unit}, or the values themselves."
        )
    if not 2 <= n_folds <= n_groups:
        raise InvalidInputError(
            f"{name}: cv={n_folds} folds, but there are {n_groups} {unit}; choose between 2 and "
            f"{n_groups}, or pass a scikit-learn splitter."
        )
    order = shuffler(model.random_state)(n_groups)
    every = dealt_out(order, n_folds) if n_groups == n_samples else grouped(order, groups, n_folds)
    return every[:1] if isinstance(cv, str) and n_nodes >= LARGE else every


def grouped(order: np.ndarray, groups: np.ndarray, n_folds: int) -> list[Split]:
    """Folds of whole groups, about equal in samples; ``order`` is that of the groups.

    The largest groups are dealt out first, each to the fold that has the fewest samples.
    """
    sizes = np.bincount(groups)
    filled, fold_of = np.zeros(n_folds, np.intp), np.empty(len(sizes), np.intp)
    for group in order[np.argsort(-sizes[order], kind="stable")]:
        fold_of[group] = filled.argmin()
        filled[fold_of[group]] += sizes[group]
    held = fold_of[groups]
    return [(np.flatnonzero(held != f), np.flatnonzero(held == f)) for f in range(n_folds)]


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
