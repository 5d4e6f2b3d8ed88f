"""Labelled samples with their weights, and ways to part them into training and test samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from robustruct.errors import InvalidInputError
from robustruct.models.fitting.splitting import group_codes

HELD_OUT = 1 / 3  # of the samples, where no test samples are given


@dataclass(frozen=True, eq=False)
class Samples:
    """What a model is trained or tested on."""

    X: Sequence[Any]
    y: Sequence[Any]
    sample_weight: np.ndarray | None = None
    """(n_samples,) weight of each sample, in training and in the test."""
    node_weight: Sequence[np.ndarray] | None = None
    """For each sample the weight of each node's cost, in training and in the test."""
    captions: Sequence[Sequence[str]] | None = None
    """For each sample what to write at each node where it is drawn, such as its word."""
    groups: Sequence[Any] | None = None
    """What each sample belongs to, such as its document: groups are held out whole."""

    def __len__(self) -> int:
        return len(self.X)

    def take(self, indices: np.ndarray) -> Self:
        """The samples at these places."""

        def part(values: Any) -> Any:
            return None if values is None else [values[i] for i in indices]

        weight = None if self.sample_weight is None else np.asarray(self.sample_weight)[indices]
        lists = part(self.node_weight), part(self.captions), part(self.groups)
        return type(self)(part(self.X), part(self.y), weight, *lists)


@dataclass(frozen=True, eq=False)
class Split:
    """Samples to train on and samples to test."""

    train: Samples
    test: Samples


def splits(
    samples: Samples, test: Samples | None, folds: int | None, seed: int
) -> tuple[list[Split], str]:
    """(splits whose test samples are all different, how they came about, in words)."""
    if test is not None:
        return [Split(samples, test)], f"{len(test)} others"
    codes = group_codes(samples.groups, len(samples))
    n_units = int(codes.max(initial=-1)) + 1
    unit = "samples" if samples.groups is None else "groups"
    if folds is not None and not 2 <= folds <= n_units:
        raise InvalidInputError(
            f"{folds} folds of {n_units} {unit}; choose between 2 and {n_units}."
        )
    order = np.random.default_rng(seed).permutation(n_units)
    if folds is None:
        n_test = int(np.ceil(HELD_OUT * n_units))
        parts, how = [np.sort(order[:n_test])], "others, held out at random"
    else:
        parts = [np.sort(part) for part in np.array_split(order, folds)]
        how = f"each of them once, in {folds} folds"
    if samples.groups is not None:
        parts = [np.flatnonzero(np.isin(codes, part)) for part in parts]
        how += " of whole groups" if folds else " by whole groups"
    how = f"{len(parts[0])} {how}" if folds is None else how
    everything = np.arange(len(samples))
    return [
        Split(samples.take(np.setdiff1d(everything, part)), samples.take(part)) for part in parts
    ], how
