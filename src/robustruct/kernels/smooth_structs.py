"""Arrays that travel together through the kernels of the smooth objectives (T > 0).

Rows over labels are padded to ``width``, a multiple of eight, so that loops over labels are whole
vectors. A label that is forbidden, or that only pads, scores FORBIDDEN: a finite number that
swallows whatever is added to it, so that differences of scores are 0 there and never NaN.

A sample keeps one table per different row of edge features on its edges: its own tables, numbered
from table_start[s]; they are indexed [label of the first node, label of the second], as users list
edges. ``n`` counts the nodes of one sample, ``m`` its own tables, ``k`` labels.
"""

from typing import NamedTuple

import numpy as np

FORBIDDEN = -1e30


class Samples(NamedTuple):
    """The graphs of all samples."""

    offsets: np.ndarray
    """(S+1,) sample s owns nodes offsets[s] .. offsets[s+1]-1."""
    parent: np.ndarray
    """(slots,) flat index of the parent, or -1."""
    child: np.ndarray
    """(slots,) flat index of the other end."""
    chord_offsets: np.ndarray
    """(S+1,) sample s owns slots N + chord_offsets[s] .. N + chord_offsets[s+1]-1 too."""
    table: np.ndarray
    """(slots,) which of the sample's own tables scores the edge in the slot."""
    turned: np.ndarray
    """(slots,) 1 where the edge was listed as (parent, child)."""
    table_start: np.ndarray
    """(S+1,)"""
    labels: np.ndarray
    """(N,) the truth."""


class Features(NamedTuple):
    """Sparse rows of nodes and of own tables."""

    x_indptr: np.ndarray
    x_indices: np.ndarray
    x_data: np.ndarray
    f_indptr: np.ndarray
    f_indices: np.ndarray
    f_data: np.ndarray
    row: np.ndarray
    """(tables,) the row of f behind each own table."""


class Weights(NamedTuple):
    """Views of θ."""

    nodes: np.ndarray
    """(d, k)"""
    edges: np.ndarray
    """(d_e, k * k)"""


class Rules(NamedTuple):
    """What is forbidden, to either player: 0 or FORBIDDEN, to be added."""

    kind: np.ndarray
    """(N,) the row of ``nodes`` for each node."""
    nodes: np.ndarray
    """(kinds, width)"""
    pairs: np.ndarray
    """(k, width)"""


class Costs(NamedTuple):
    """The cost matrix L both ways, and the weights of the nodes."""

    of_labels: np.ndarray
    """(k, width) L transposed: Σ_b r_b of_labels[b] = L r."""
    of_predictor: np.ndarray
    """(k, width) L: Σ_a p_a of_predictor[a] = L'p."""
    weight: np.ndarray
    """(N,)"""
    p0: np.ndarray
    """(N, width) centre of the predictor; unused unless it is free."""


class Settings(NamedTuple):
    """Numbers of one pass."""

    temperature: float
    inv_mu: float
    """1 / mu of the predictor's centre."""
    player: int
    """NOBODY, TRUTH or FREE: who the predictor is."""


NOBODY, TRUTH, FREE = 0, 1, 2


class Adversary(NamedTuple):
    """Gibbs distributions of all samples: natural parameters, and what they amount to."""

    psi: np.ndarray
    """(N, width) natural parameters of the nodes."""
    tables: np.ndarray
    """(tables, k, width) and of the own tables."""
    r: np.ndarray
    """(N, width) node marginals."""
    sums: np.ndarray
    """(tables, k, width) edge marginals added up by own table."""
    entropy: np.ndarray
    """(S,)"""


class Grams(NamedTuple):
    """Products of a sample's rows of features: of nodes (n, n) and of own tables (m, m).

    Samples with many nodes have no products of nodes, but numbers for the columns that they use.
    """

    node_start: np.ndarray
    nodes: np.ndarray
    table_start: np.ndarray
    tables: np.ndarray
    local: np.ndarray
    """(entries of x,) the number of each entry's column in its sample; empty if nobody needs it."""
    n_columns: np.ndarray
    """(S,) how many columns a sample without products uses, else 0."""


class Seen(NamedTuple):
    """What visits report, sample by sample."""

    gap: np.ndarray
    """(S,) T KL(q | Gibbs distribution of the scores)."""
    given: np.ndarray
    """(S,) what the predictor gives away, Σ_i w_i (p'L r − min L r)."""


class Changes(NamedTuple):
    """How the samples of a turn change θ, until they are applied in their order."""

    nodes: np.ndarray
    """(at once, longest, width)"""
    tables: np.ndarray
    """(at once, most tables, k, width)"""
    moved: np.ndarray
    """(at once,) whether there is a change."""


class Local(NamedTuple):
    """One sample's tree, with nodes counted from its first."""

    up: np.ndarray
    """(longest,) the parent, or -1."""
    table: np.ndarray
    turned: np.ndarray


class Exponentials(NamedTuple):
    """Scores of one sample, exponentiated relative to the largest of each row or table."""

    nodes: np.ndarray
    """(longest, width)"""
    tables: np.ndarray
    """(most tables, k, width)"""
    transposed: np.ndarray
    """(most tables, k, width)"""


class Messages(NamedTuple):
    """Scratch of one sweep up and one down."""

    inside: np.ndarray
    """(longest, width)"""
    message: np.ndarray
    share: np.ndarray
