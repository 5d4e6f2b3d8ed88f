"""Checks of the constructor's parameters, made when fit is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from robustruct.errors import InvalidInputError

if TYPE_CHECKING:
    from robustruct.models.base import StructuredModel


def check_parameters(model: StructuredModel) -> None:
    name = type(model).__name__
    if model.alpha is not None:
        _check_positive(name, "alpha", model.alpha, "the strength of the penalty (None: 1 / n_samples)")
    if model.alphas is not None:
        values = list(np.atleast_1d(model.alphas))
        if not values:
            raise InvalidInputError(f"{name}: alphas is empty; list the values to choose from.")
        for value in values:
            _check_positive(name, "alphas", value, "the strengths of penalty to choose from")
    _check_positive(name, "tol", model.tol, "the relative duality gap at which training stops")
    _check_positive(name, "max_iter", model.max_iter, "the largest number of passes over the data")
    _check_choice(name, "decision", model.decision, model._decisions)
    _check_choice(name, "optimizer", model.optimizer, model._optimizers)


def _check_positive(name: str, parameter: str, value: Any, meaning: str) -> None:
    try:
        valid = bool(np.isfinite(value)) and value > 0
    except TypeError:
        valid = False
    if not valid:
        raise InvalidInputError(f"{name}: {parameter}={value!r}; {parameter} is {meaning} and must be > 0.")


def _check_choice(name: str, parameter: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidInputError(
            f"{name}: {parameter}={value!r} is not known; use one of {', '.join(map(repr, choices))}."
        )
