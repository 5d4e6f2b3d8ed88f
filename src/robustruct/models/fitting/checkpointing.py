"""The checkpoints of a model's fit: what they are about, and what goes into them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import astuple, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from robustruct.engines.engine import PreparedShards
from robustruct.errors import InvalidInputError, shown
from robustruct.formats.container import checksum
from robustruct.metrics import SpanCost
from robustruct.models.fitting.choice import Choice, Tried
from robustruct.models.fitting.early_stopping import EarlyStopping
from robustruct.models.fitting.forecast import Forecast
from robustruct.models.fitting.targets import TargetLike
from robustruct.models.parameters import is_search
from robustruct.objectives.adversarial import arrays_of
from robustruct.optimizers.certificates import Progress
from robustruct.optimizers.checkpoints import Checkpoint, Checkpoints, Keepable
from robustruct.optimizers.optimizer import Optimizer

if TYPE_CHECKING:
    from robustruct.models.base import StructuredModel


def opened(given: Checkpoint | str | os.PathLike[str] | None) -> Checkpoints | None:
    """The folder of checkpoints, if there is one; refused before any work is done."""
    if given is None:
        return None
    kept = given if isinstance(given, Checkpoint) else Checkpoint(given)
    return Checkpoints(kept.folder, kept.every, kept.resume)


def kept_choice(checkpoints: Checkpoints | None, objectives: Sequence[str]) -> Choice | None:
    """What was chosen of the ``objectives`` before the fit was stopped, if it was."""
    if checkpoints is None or "trials" not in checkpoints.description:
        return None
    listed = checkpoints.description["trials"]
    try:
        rows: list[list[Any]] = [
            [SpanCost(*x) if type(x) is list else x for x in row] for row in listed
        ]
        tried = [Tried(kind, float(heat), *others) for kind, heat, *others in rows]
        sound = tried and all(one.is_sound and one.objective in objectives for one in tried)
        given = checkpoints.description.get("forecast")
        expected = None if given is None else Forecast(*given)
        sound = sound and (expected is None or expected.is_sound)
    except (TypeError, ValueError, OverflowError):
        sound = False
    if not sound:
        raise InvalidInputError(
            f"the checkpoint in {checkpoints.folder!r} lists trials that no fit has made: "
            f"{shown(listed)}. Remove it."
        )
    return replace(Choice.of(tried), forecast=expected)


def claim(
    checkpoints: Checkpoints | None,
    model: StructuredModel,
    settings: StructuredModel,
    optimizer: Optimizer,
    shards: PreparedShards,
    stopper: EarlyStopping | None,
    inference: str,
    target: TargetLike | None = None,
) -> None:
    """Refuse checkpoints of another fit, while the model is still what an earlier fit made it.

    ``settings`` are the model's parameters with all that was chosen.
    """
    if checkpoints is not None:
        found = _identity(settings, optimizer, shards, stopper)
        if is_search(model.alpha):
            found["alphas"] = np.asarray(model.alpha).tolist()
        if target is not None:
            found["target"] = target.__name__ if hasattr(target, "__name__") else str(target)
        checkpoints.claim({"inference": inference, **found})


def begun(
    checkpoints: Checkpoints | None,
    model: StructuredModel,
    progress: Progress,
    stopper: EarlyStopping | None,
) -> tuple[int, AbstractContextManager[None]]:
    """(the seed of the fit, what to hold while it lasts)."""
    seed = _drawn_seed(model.random_state)
    if checkpoints is None:
        return seed, contextlib.nullcontext()
    extra: dict[str, Any] = {"seed": seed}
    if hasattr(model, "trials_"):
        # As text: JSON has no infinite temperature.
        extra["trials"] = [
            [one[0], str(one[1]), *(astuple(x) if isinstance(x, SpanCost) else x for x in one[2:])]
            for one in model.trials_
        ]
        extra["forecast"] = getattr(model, "forecast_", None)
    parts: dict[str, Keepable] = {"progress": progress}
    if stopper is not None:
        parts["stopping"] = stopper
    progress.keeper = checkpoints
    return checkpoints.description.get("seed", seed), checkpoints.begin(extra, parts)


def _drawn_seed(random_state: Any) -> int:
    """As scikit-learn would draw it: None is numpy's global generator."""
    if random_state is None:
        return int(np.random.randint(2**31))  # noqa: NPY002 (what np.random.seed is about)
    if isinstance(random_state, Integral):
        random_state = np.random.RandomState(int(random_state))
    return int(random_state.randint(2**31))


def _identity(
    model: StructuredModel,
    optimizer: Optimizer,
    shards: PreparedShards,
    stopper: EarlyStopping | None,
) -> dict[str, Any]:
    """All that a fit depends on, but for its tolerance and its number of passes."""
    outline = shards.outline
    is_fixed = isinstance(model.random_state, Integral)
    found = {
        "the model": type(model).__name__,
        "optimizer": optimizer.name if isinstance(model.optimizer, str) else repr(optimizer),
        "random_state": int(model.random_state) if is_fixed else None,
        "alpha": outline.alpha,
        "the number of samples": outline.n_samples,
        "the number of weights": outline.n_weights,
        **shards.fingerprint(),
    }
    if model.l1 > 0:
        found["l1"] = float(model.l1)
    if getattr(model, "temperature", 0.0) > 0:
        found["temperature"] = str(float(model.temperature))
    if not model.standardize:
        found["standardize"] = False
    if stopper is not None:
        held_out = stopper.held_out
        arrays = {"truth": held_out.truth, "cost": held_out.cost}
        arrays |= arrays_of("nodes", held_out.design.nodes)
        found["validation samples"] = f"sha256 {checksum('', arrays)}"
        found["patience"], found["decision"] = int(stopper.patience), str(model.decision)
    return found
