"""Whether samples are like their neighbours: then held-out samples are no new ones.

Sentences of a document, visits of a subject or windows of a recording stand next to each other in
most files. Their likeness is the cosine between sums of features, those of a sample over its nodes,
each feature weighted down by how common it is. If the order meant nothing, that of neighbours would
be that of any two samples: the spread of this under random orders says what chance explains.
"""

from __future__ import annotations

import numpy as np

from robustruct.features.matrix import SparseRows
from robustruct.objectives.adversarial import Problem

MOST_SAMPLES = 400  # looked at, in runs of neighbours
RUN = 25
DIRECTIONS = 32  # random ones, on which sums of features are seen; errors of cosines average out
ORDERS = 199
ALIKE = 0.1
"""Mean cosine of neighbours above that of others. Independent samples stay below 0.02; sentences of
newspapers in their order reach 0.05, which a choice can live with."""


def are_like_neighbours(problem: Problem) -> bool:
    """Return whether neighbours are far more alike than others."""
    n = problem.design.batch.n_samples
    if n < 2 * RUN:
        return False
    rng = np.random.default_rng(0)
    seen = _projected(problem, _runs(n, rng), rng)
    excess = _neighbours(seen, np.arange(len(seen)))
    chance = [_neighbours(seen, rng.permutation(len(seen))) for _ in range(ORDERS)]
    return bool(excess > max(chance) and excess - np.mean(chance) > ALIKE)


def _runs(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return the numbers of samples to look at: all of them, or some runs."""
    if n <= MOST_SAMPLES:
        return np.arange(n)
    starts = rng.choice(n // RUN, MOST_SAMPLES // RUN, replace=False)
    return np.concatenate([np.arange(RUN) + RUN * start for start in np.sort(starts)])


def _neighbours(seen: np.ndarray, order: np.ndarray) -> float:
    """Return the mean cosine of neighbours in an order of samples."""
    placed = seen[order]
    return float(np.einsum("sd,sd->s", placed[:-1], placed[1:]).mean())


def _projected(problem: Problem, samples: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the directions (n, d) of length 1 in which samples are seen, their mean taken off."""
    offsets = problem.design.batch.node_offsets
    nodes = problem.design.nodes
    parts = [np.arange(offsets[s], offsets[s + 1]) for s in samples]
    rows, sample_of = np.concatenate(parts), np.repeat(np.arange(len(parts)), list(map(len, parts)))
    sums = np.zeros((len(samples), DIRECTIONS))
    if isinstance(nodes, SparseRows):
        lengths = np.diff(nodes.indptr)[rows]
        firsts = np.repeat(nodes.indptr[rows] - np.cumsum(lengths) + lengths, lengths)
        entries = firsts + np.arange(len(firsts))
        _, columns = np.unique(nodes.indices[entries], return_inverse=True)
        of_entry = np.repeat(sample_of, lengths)
        seen_in = np.unique(columns * np.intp(len(samples)) + of_entry)
        common = np.bincount(seen_in // len(samples))
        values = nodes.data[entries] * np.log(len(samples) / common[columns])
        signs = rng.standard_normal((len(common), DIRECTIONS))
        for d in range(DIRECTIONS):
            sums[:, d] = np.bincount(of_entry, values * signs[columns, d], len(samples))
    else:
        total = np.stack([np.bincount(sample_of, column) for column in nodes[rows].T], axis=1)
        means = total / np.bincount(sample_of)[:, None]
        spread = means.std(axis=0)
        sums = (means - means.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    sums -= sums.mean(axis=0)
    lengths = np.sqrt(np.square(sums).sum(axis=1, keepdims=True))
    return sums / np.where(lengths > 0, lengths, 1.0)
