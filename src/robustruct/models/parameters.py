"""Checks of the constructor's parameters, made when fit is called."""

from __future__ import annotations

import os
from collections.abc import Iterator
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from robustruct.errors import InvalidInputError
from robustruct.training.checkpoints import interval

if TYPE_CHECKING:
    from robustruct.models.base import StructuredModel


def check_parameters(model: StructuredModel) -> None:
    """Refuse values that no fit can use; what depends on the data is checked where it is used."""
    name = type(model).__name__
    if model.alpha is not None:
        _check_positive(
            name, "alpha", model.alpha, "the strength of the penalty (None: 1 / n_samples)"
        )
    if isinstance(model.alphas, str):
        _check_choice(name, "alphas", model.alphas, ("auto",))
    elif model.alphas is not None:
        values = list(np.atleast_1d(model.alphas))
        if not values:
            raise InvalidInputError(f"{name}: alphas is empty; list the values to choose from.")
        for value in values:
            _check_positive(name, "alphas", value, "the strengths of penalty to choose from")
    _check_positive(name, "tol", model.tol, "the relative duality gap at which training stops")
    _check_count(name, "max_iter", model.max_iter, "the largest number of passes over the data")
    _check_count(name, "patience", model.patience, "the number of evaluations without improvement")
    _check_choice(name, "decision", model.decision, model._decisions)
    _check_choice(name, "optimizer", model.optimizer, model._optimizers)
    _check_choice(name, "inference", model.inference, model._inferences)
    _check_temperature(model)
    if model.checkpoint is not None and not isinstance(model.checkpoint, str | os.PathLike):
        raise InvalidInputError(
            f"{name}: checkpoint={model.checkpoint!r}; give the path of a folder, or None."
        )
    interval(model.checkpoint_every)
    if model.resume and model.checkpoint is None:
        raise InvalidInputError(
            f"{name}: resume=True, but no folder to resume from; name it in checkpoint=..."
        )
    if isinstance(model.forbidden, Iterator):
        raise InvalidInputError(
            f"{name}: forbidden is an iterator, which is empty after one use; give a list."
        )
    if model.n_jobs is not None and (not isinstance(model.n_jobs, Integral) or model.n_jobs == 0):
        raise InvalidInputError(
            f"{name}: n_jobs={model.n_jobs!r}; give a number of threads, -1 for all cores, or None "
            "for one."
        )


def _check_temperature(model: StructuredModel) -> None:
    """Refuse temperatures that mean nothing, and what does not go with them."""
    name, value = type(model).__name__, model.temperature
    if "temperature" not in model._get_param_names():
        return
    try:
        valid = not isinstance(value, bool) and bool(value >= 0)
    except (TypeError, ValueError):
        valid = False
    if not valid:
        raise InvalidInputError(
            f"{name}: temperature={value!r}; temperature weighs the log loss against the cost and "
            "must be a number >= 0 (0: the cost alone) or inf (the log loss alone)."
        )
    if value == 0:
        if model.optimizer == "natural":
            raise InvalidInputError(
                f"{name}: optimizer='natural' needs a temperature > 0; use optimizer='auto'."
            )
        if model.decision == "bayes":
            raise InvalidInputError(
                f"{name}: decision='bayes' needs probabilities, hence a temperature > 0; use "
                "decision='map' or 'predictor', or a CRF."
            )
        return
    if model.optimizer not in ("auto", "natural"):
        raise InvalidInputError(
            f"{name}: optimizer={model.optimizer!r} is for temperature=0; use optimizer='auto' "
            f"with temperature={value!r}."
        )
    if model.inference == "relaxed":
        raise InvalidInputError(
            f"{name}: inference='relaxed' is for temperature=0, as a relaxed adversary has no "
            "entropy; use inference='exact'."
        )
    if model.engine is not None:
        raise InvalidInputError(
            f"{name}: an engine trains with temperature=0 only so far; leave out engine or "
            "temperature."
        )
    if value == np.inf and model.decision == "map":
        raise InvalidInputError(
            f"{name}: at temperature=inf the cost plays a part in the decision alone, and "
            "decision='map' ignores it; use decision='bayes'."
        )


def _check_count(name: str, parameter: str, value: Any, meaning: str) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise InvalidInputError(
            f"{name}: {parameter}={value!r}; {parameter} is {meaning} and must be an integer > 0."
        )


def _check_positive(name: str, parameter: str, value: Any, meaning: str) -> None:
    try:
        valid = not isinstance(value, bool) and bool(np.isfinite(value)) and value > 0
    except (TypeError, ValueError):
        valid = False
    if not valid:
        raise InvalidInputError(
            f"{name}: {parameter}={value!r}; {parameter} is {meaning} and must be > 0."
        )


def _check_choice(name: str, parameter: str, value: Any, choices: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in choices:
        raise InvalidInputError(
            f"{name}: {parameter}={value!r} is not known; use one of "
            f"{', '.join(map(repr, choices))}."
        )
