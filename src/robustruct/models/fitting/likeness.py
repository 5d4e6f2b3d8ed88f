"""Whether new inputs look like those of training: their means, compared without any labels.

Of every sample a few numbers are kept in view: its length; the mean of every dense column; or, of
attributes, how many a node has that other samples have too, and sums of them under a few patterns
of signs. A model keeps their mean and variance over its training samples. Each number is one
two-sample test; the least p-value counts, times how many there are (Bonferroni).

Attributes that no other sample has are left out of training's numbers, as new samples cannot have
any that training did not have: so a training sample is seen as if it were new.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from robustruct.features import Design
from robustruct.features.matrix import SparseRows
from robustruct.features.standardization import StandardColumns

PATTERNS = 12
FEWEST = 20  # samples on either side: means of fewer are not normal enough
LEVEL = 0.01  # of false alarms; neighbouring samples that depend on each other raise it
MOST_SAMPLES = 2000  # of training: more tell little more, and take time


class Likeness(NamedTuple):
    """Mean and variance of what is kept in view, over the training samples."""

    mean: np.ndarray
    variance: np.ndarray
    n_samples: int

    def strangeness(self, seen: np.ndarray) -> float:
        """Return the p-value of new samples (n, k), or 1 where too few would have to tell."""
        n = len(seen)
        if min(n, self.n_samples) < FEWEST or seen.shape[1] != len(self.mean):
            return 1.0
        error = np.sqrt(seen.var(axis=0, ddof=1) / n + self.variance / self.n_samples)
        apart = np.abs(seen.mean(axis=0) - self.mean)
        rounding = 1e-9 * (1.0 + np.abs(self.mean))
        largest = float((apart / np.maximum(error, rounding)).max())
        return min(1.0, 2.0 * NormalDist().cdf(-largest) * len(self.mean))

    def doubt(self, seen: np.ndarray) -> str | None:
        """Return a sentence if new samples do not look like those of training."""
        if self.strangeness(seen) > LEVEL:
            return None
        return (
            "The features of these samples are not like those of the training samples, so what "
            "held-out training samples said of the cost need not hold here."
        )

    @property
    def is_sound(self) -> bool:
        """Whether a fit could have made it; for those that were read from a file."""
        for values in (self.mean, self.variance):
            if not isinstance(values, np.ndarray) or values.ndim != 1 or values.dtype.kind != "f":
                return False
        same = self.mean.shape == self.variance.shape and bool((self.variance >= 0).all())
        return same and type(self.n_samples) is int and self.n_samples >= 0


def likeness(design: Design, standard: StandardColumns | None = None) -> Likeness:
    """Return what training samples look like; ``standard`` is how dense columns were changed."""
    n = design.batch.n_samples
    samples = np.arange(n)
    if n > MOST_SAMPLES:
        samples = np.sort(np.random.default_rng(0).choice(n, MOST_SAMPLES, replace=False))
    seen = looks(design, samples, among_others=True)
    variance = seen.var(axis=0, ddof=1) if len(seen) > 1 else np.zeros(seen.shape[1])
    mean = seen.mean(axis=0)
    if standard is not None:
        mean[1:] = mean[1:] * standard.scale + standard.centre
        variance[1:] *= standard.scale**2
    return Likeness(mean, variance, len(seen))


def looks(
    design: Design, samples: np.ndarray | None = None, *, among_others: bool = False
) -> np.ndarray:
    """(n, k) what is kept in view of some samples, by default all.

    ``among_others`` leaves out attributes that no other sample of the design has.
    """
    offsets = design.batch.node_offsets
    samples = np.arange(design.batch.n_samples) if samples is None else samples
    lengths = np.diff(offsets)[samples]
    starts = np.repeat(offsets[samples] - np.cumsum(lengths) + lengths, lengths)
    rows = starts + np.arange(len(starts))
    sample_of = np.repeat(np.arange(len(samples)), lengths)
    nodes, n = design.nodes, len(samples)
    columns = [np.log(np.maximum(lengths, 1))]
    per_node = 1.0 / np.maximum(lengths, 1)
    if not isinstance(nodes, SparseRows):
        columns += [np.bincount(sample_of, column, n) * per_node for column in nodes[rows].T]
        return np.stack(columns, axis=1)
    widths = np.diff(nodes.indptr)[rows]
    firsts = np.repeat(nodes.indptr[rows] - np.cumsum(widths) + widths, widths)
    entries = firsts + np.arange(len(firsts))
    attribute, of_entry = nodes.indices[entries].astype(np.int64), np.repeat(sample_of, widths)
    values = nodes.data[entries]
    if among_others:
        total = np.bincount(nodes.indices, minlength=nodes.shape[1])
        key = of_entry * np.int64(nodes.shape[1]) + attribute
        _, place, times = np.unique(key, return_inverse=True, return_counts=True)
        kept = total[attribute] > times[place]
        attribute, of_entry, values = attribute[kept], of_entry[kept], values[kept]
    columns.append(np.bincount(of_entry, minlength=n) * per_node)
    mixed = _mixed(attribute)
    for bit in range(PATTERNS):
        signs = 1.0 - 2.0 * ((mixed >> np.uint64(bit)) & np.uint64(1))
        columns.append(np.bincount(of_entry, signs * values, n) * per_node)
    return np.stack(columns, axis=1)


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """Bits without a pattern for each number (splitmix64): signs that no model has to keep."""
    z = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
