"""Data drawn from a known Markov model, on chains, trees and grids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robustruct.datasets.dataset import Dataset
from robustruct.errors import InvalidInputError
from robustruct.graphs.graph import Graph

_GIBBS_SWEEPS = 50  # through a grid; neighbours that agree strongly would need more to mix


@dataclass(frozen=True, eq=False)
class MarkovModel:
    """The distribution that data were drawn from.

    Labels: p(y) is proportional to the product of exp(pairwise[y_i, y_j]) over edges (i, j).
    Features: x_i is Gaussian around ``means[y_i]`` with standard deviation ``noise``.
    Hence p(y | x) is a graphical model with scores ``unary(x)`` and ``pairwise``.

    Attributes
    ----------
    means : ndarray of shape (n_labels, n_features)
    pairwise : ndarray of shape (n_labels, n_labels)
        Log-probability of the second label of an edge given the first.
    noise : float
    """

    means: np.ndarray
    pairwise: np.ndarray
    noise: float

    @property
    def weights(self) -> np.ndarray:
        """(n_features, n_labels): the true weights of the node features."""
        return self.means.T / self.noise**2

    @property
    def bias(self) -> np.ndarray:
        """(n_labels,): the true weights of the constant node feature."""
        return -0.5 * (self.means**2).sum(axis=1) / self.noise**2

    def unary(self, x: np.ndarray) -> np.ndarray:
        """(n_nodes, n_labels): log-likelihood of each label, up to a constant per node."""
        return x @ self.weights + self.bias


@dataclass(frozen=True, eq=False, repr=False)
class SyntheticDataset(Dataset):
    """A `Dataset` with the model it was drawn from."""

    truth: MarkovModel | None = None


def make_chains(
    *,
    n_samples: int = 100,
    n_nodes: int | tuple[int, int] = (5, 15),
    n_labels: int = 3,
    n_features: int = 5,
    noise: float = 1.0,
    coupling: float = 1.0,
    seed: int = 0,
) -> SyntheticDataset:
    """Sequences drawn exactly from a Markov chain with ordinal labels.

    Parameters
    ----------
    n_samples : int
    n_nodes : int or (int, int)
        Nodes of each sample: a number, or the smallest and the largest.
    n_labels, n_features : int
    noise : float
        Standard deviation of the features around the mean of their label; the means are drawn
        from a standard normal distribution.
    coupling : float
        How strongly neighbours agree: a step between labels a and b is drawn with a probability
        proportional to exp(-coupling * abs(a - b)).
    seed : int
        It draws the model too: for training and test data of one model, take subsets of one call.

    Returns
    -------
    SyntheticDataset
        A `Dataset`: arrays of shape (n_nodes, n_features), labels 0..n_labels-1, and ``truth``, the
        model they were drawn from (``means``, ``pairwise``, ``noise``; ``unary(x)`` and
        ``pairwise`` are the scores of p(y | x)).

    Examples
    --------
    >>> data = make_chains(n_samples=4, n_nodes=6, n_features=2)
    >>> data.X[0].shape, data.y[0].shape, data.truth.pairwise.shape
    ((6, 2), (6,), (3, 3))
    """
    rng = np.random.default_rng(seed)
    model = _drawn_model(rng, n_labels, n_features, noise, coupling)
    parents = [np.arange(-1, n - 1) for n in _sizes(rng, n_samples, n_nodes)]
    y = [_ancestral_labels(rng, model, parent) for parent in parents]
    X = [_features(rng, model, labels) for labels in y]
    return SyntheticDataset("chains", X, y, truth=model)


def make_trees(
    *,
    n_samples: int = 100,
    n_nodes: int | tuple[int, int] = (5, 15),
    n_labels: int = 3,
    n_features: int = 5,
    noise: float = 1.0,
    coupling: float = 1.0,
    seed: int = 0,
) -> SyntheticDataset:
    """Random trees, labels drawn exactly from the root down; arguments as in `make_chains`.

    Each node hangs below an earlier one chosen at random; edges are (parent, child).

    Examples
    --------
    >>> data = make_trees(n_samples=4, n_nodes=6)
    >>> data.X[0]
    Graph(6 nodes, 5 edges)
    """
    rng = np.random.default_rng(seed)
    model = _drawn_model(rng, n_labels, n_features, noise, coupling)
    parents = [_random_parents(rng, n) for n in _sizes(rng, n_samples, n_nodes)]
    y = [_ancestral_labels(rng, model, parent) for parent in parents]
    X = [
        Graph(_features(rng, model, labels), np.stack([parent, np.arange(len(parent))], axis=1)[1:])
        for parent, labels in zip(parents, y, strict=True)
    ]
    return SyntheticDataset("trees", X, y, truth=model)


def make_grids(
    *,
    n_samples: int = 20,
    shape: tuple[int, int] = (4, 4),
    n_labels: int = 3,
    n_features: int = 5,
    noise: float = 1.0,
    coupling: float = 1.0,
    seed: int = 0,
) -> SyntheticDataset:
    """Grids with edges to the right and downwards, labels drawn by Gibbs sampling.

    ``shape`` is (rows, columns); nodes are numbered row by row. Other arguments as in
    `make_chains`. A grid has cycles: exact models go over its junction tree, at a cost that
    grows with the shorter side.

    Examples
    --------
    >>> data = make_grids(n_samples=2, shape=(3, 4))
    >>> data.X[0]
    Graph(12 nodes, 17 edges)
    """
    if len(shape) != 2 or min(shape) < 1:
        raise InvalidInputError(f"shape={shape}; give (rows, columns), both at least 1.")
    _sizes_checked(n_samples, 1, 1)
    rng = np.random.default_rng(seed)
    model = _drawn_model(rng, n_labels, n_features, noise, coupling)
    edges = grid_edges(*shape)
    y = list(_gibbs_labels(rng, model, n_samples, shape).reshape(n_samples, -1))
    X = [Graph(_features(rng, model, labels), edges) for labels in y]
    return SyntheticDataset("grids", X, y, truth=model)


def grid_edges(rows: int, columns: int) -> np.ndarray:
    """Edges (left, right) and then (upper, lower) of a grid numbered row by row."""
    node = np.arange(rows * columns).reshape(rows, columns)
    right = np.stack([node[:, :-1].ravel(), node[:, 1:].ravel()], axis=1)
    down = np.stack([node[:-1].ravel(), node[1:].ravel()], axis=1)
    return np.concatenate([right, down])


def _drawn_model(
    rng: np.random.Generator, n_labels: int, n_features: int, noise: float, coupling: float
) -> MarkovModel:
    if n_labels < 2 or n_features < 1:
        raise InvalidInputError(
            f"n_labels={n_labels}, n_features={n_features}: at least 2 labels and 1 feature needed."
        )
    if not (np.isfinite(noise) and noise > 0):
        raise InvalidInputError(
            f"noise={noise}; it must be positive, for the true weights grow as 1/noise²."
        )
    if not np.isfinite(coupling):
        raise InvalidInputError(f"coupling={coupling}; it must be a finite number.")
    place = np.arange(n_labels)
    agreement = -coupling * np.abs(place[:, None] - place)
    pairwise = agreement - np.logaddexp.reduce(agreement, axis=1, keepdims=True)
    return MarkovModel(rng.standard_normal((n_labels, n_features)), pairwise, float(noise))


def _sizes(rng: np.random.Generator, n_samples: int, n_nodes: int | Sequence[int]) -> np.ndarray:
    low, high = (n_nodes, n_nodes) if isinstance(n_nodes, int | np.integer) else n_nodes
    _sizes_checked(n_samples, int(low), int(high))
    return rng.integers(low, high, endpoint=True, size=n_samples)


def _sizes_checked(n_samples: int, low: int, high: int) -> None:
    if n_samples < 1 or not 1 <= low <= high:
        raise InvalidInputError(
            f"n_samples={n_samples} with {low} to {high} nodes; give at least one sample and "
            "n_nodes as a number or (smallest, largest), both at least 1."
        )


def _random_parents(rng: np.random.Generator, n_nodes: int) -> np.ndarray:
    """Parent of each node: an earlier one; -1 at the root, node 0."""
    return np.concatenate([[-1], rng.integers(0, np.arange(1, n_nodes))])


def _ancestral_labels(
    rng: np.random.Generator, model: MarkovModel, parent: np.ndarray
) -> np.ndarray:
    """One exact draw: a uniform label at the root, then each child given its parent."""
    n_labels = len(model.pairwise)
    cumulative = np.exp(model.pairwise).cumsum(axis=1)
    cumulative[:, -1] = 1.0  # rounding must not leave a gap below 1
    chance = rng.random(len(parent))
    labels = np.empty(len(parent), np.int64)
    labels[0] = int(chance[0] * n_labels)
    for i in range(1, len(parent)):
        labels[i] = np.searchsorted(cumulative[labels[parent[i]]], chance[i], side="right")
    return labels


def _gibbs_labels(
    rng: np.random.Generator, model: MarkovModel, n_samples: int, shape: tuple[int, int]
) -> np.ndarray:
    """Labels (n_samples, rows, columns) after sweeps that redraw the grid like a chessboard."""
    pairwise = model.pairwise
    labels = rng.integers(len(pairwise), size=(n_samples, *shape))
    black = np.add.outer(np.arange(shape[0]), np.arange(shape[1])) % 2 == 0
    for _ in range(_GIBBS_SWEEPS):
        # Squares of one colour touch only the other: given it, they are independent.
        for colour in (black, ~black):
            score = np.zeros((*labels.shape, len(pairwise)))
            score[:, :, 1:] += pairwise[labels[:, :, :-1]]
            score[:, 1:] += pairwise[labels[:, :-1]]
            score[:, :, :-1] += pairwise.T[labels[:, :, 1:]]
            score[:, :-1] += pairwise.T[labels[:, 1:]]
            drawn = (score + rng.gumbel(size=score.shape)).argmax(axis=-1)
            labels = np.where(colour, drawn, labels)
    return labels


def _features(rng: np.random.Generator, model: MarkovModel, labels: np.ndarray) -> np.ndarray:
    x = model.means[labels]
    return x + model.noise * rng.standard_normal(x.shape)
