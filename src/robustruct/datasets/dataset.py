"""Samples and their labels, and weights of nodes by their position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from robustruct.errors import InvalidInputError


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Samples ``X`` and their labels ``y``, ready for ``model.fit(data.X, data.y)``.

    Attributes
    ----------
    name : str
        The data set and the part of it, such as ``"conll2000/train"``.
    X : sequence
        One item per sample.
    y : sequence of arrays
        The labels of each sample, one per node.
    groups : ndarray of shape (n_samples,), optional
        A fold, author or kind for each sample, where the data define one.

    Examples
    --------
    >>> data = Dataset("toy", X=["first", "second", "third"], y=[[0], [1], [0]])
    >>> data
    Dataset('toy': 3 samples, 3 nodes)
    >>> data.subset([2, 0]).X
    ['third', 'first']
    """

    name: str
    X: Sequence[Any] | np.ndarray
    y: Sequence[Any] | np.ndarray
    groups: np.ndarray | None = None

    def __post_init__(self) -> None:
        for field in ("y", "groups"):
            values = getattr(self, field)
            if values is not None and len(values) != len(self.X):
                raise InvalidInputError(
                    f"data set {self.name!r} has {len(self.X)} samples in X but {len(values)} in "
                    f"{field}; give one entry per sample."
                )

    def __len__(self) -> int:
        return len(self.X)

    @property
    def n_nodes(self) -> int:
        """Number of labels, over all samples."""
        return sum(len(labels) for labels in self.y)

    def subset(self, samples: Any) -> Self:
        """The samples chosen by a slice, an array of indices or a boolean mask."""
        rows = np.atleast_1d(np.arange(len(self))[samples])
        return replace(
            self,
            X=_take(self.X, rows),
            y=_take(self.y, rows),
            groups=None if self.groups is None else self.groups[rows],
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}: {len(self)} samples, {self.n_nodes} nodes)"


def position_weights(y: Sequence[Any] | np.ndarray) -> list[np.ndarray]:
    """Node weights that grow with the position in a sequence and sum to 1 in each.

    Examples
    --------
    >>> position_weights([["a", "b", "b"]])
    [array([0.16666667, 0.33333333, 0.5       ])]
    """
    weights = []
    for labels in y:
        position = np.arange(1.0, len(labels) + 1)
        weights.append(position / position.sum())
    return weights


def _take(values: Any, rows: np.ndarray) -> Any:
    return values[rows] if isinstance(values, np.ndarray) else [values[i] for i in rows]
