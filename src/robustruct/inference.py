"""What the scores say: the best labelling, marginals, the Bayes decision, the K best labellings.

Everything here takes and returns arrays in the order of the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robustruct.kernels.k_best import k_best as k_best_kernel
from robustruct.kernels.max_product import labelling_scores, max_product
from robustruct.kernels.sum_product import sum_product
from robustruct.parallel import over_samples
from robustruct.scores import Scores


def best_labelling(scores: Scores, n_jobs: int | None = -1) -> tuple[np.ndarray, np.ndarray]:
    """MAP: (N,) labels and (S,) their scores. Ties go to the smallest label from the root down."""
    batch = scores.batch
    best = np.empty_like(scores.unary)
    labels = np.empty(batch.n_nodes, np.intp)
    values = np.empty(batch.n_samples)
    over_samples(
        lambda first, last: max_product(
            first, last, batch.node_offsets, batch.parent, scores.unary, scores.tables,
            scores.table_of, best, labels, values,
        ),
        batch.node_offsets,
        n_jobs,
    )  # fmt: skip
    return labels, values


def score_of(scores: Scores, labels: np.ndarray) -> np.ndarray:
    """(S,) score of the given labels (N,)."""
    batch = scores.batch
    values = np.empty(batch.n_samples)
    labelling_scores(
        0, batch.n_samples, batch.node_offsets, batch.parent, scores.unary, scores.tables,
        scores.table_of, labels, values,
    )  # fmt: skip
    return values


@dataclass(frozen=True, eq=False)
class Marginals:
    """The Gibbs distribution exp(score) / Z of every sample, by its marginals."""

    log_partition: np.ndarray
    """(S,) log Z."""
    nodes: np.ndarray
    """(N, k)"""
    edges: np.ndarray | None
    """(N, k, k) [child, parent], zero at roots; None unless asked for."""
    table_sums: np.ndarray
    """(T, k, k) edge marginals, times the share of their sample, added up by table."""


def marginals(
    scores: Scores,
    *,
    edges: bool = False,
    share: np.ndarray | None = None,
    n_jobs: int | None = -1,
) -> Marginals:
    """Exact marginals by sum-product.

    ``edges=True`` also keeps them edge by edge; ``share`` (S,) weighs the samples in
    ``table_sums``, 1 by default.
    """
    batch, k = scores.batch, scores.n_labels
    weight = np.ones(batch.n_samples) if share is None else share
    table_max = scores.tables.max(axis=(1, 2))
    table_max[~np.isfinite(table_max)] = 0.0
    exp_tables = np.exp(scores.tables - table_max[:, None, None])
    log_partition = np.empty(batch.n_samples)
    r = np.empty((batch.n_nodes, k))
    q = np.empty((batch.n_nodes if edges else 0, k, k))

    def work(first: int, last: int) -> np.ndarray:
        sums = np.zeros_like(scores.tables)
        sum_product(
            first, last, batch.node_offsets, batch.parent, scores.unary, scores.tables,
            scores.table_of, exp_tables, table_max, log_partition, r, q, weight, sums,
        )  # fmt: skip
        return sums

    parts = over_samples(work, batch.node_offsets, n_jobs)
    table_sums = parts[0]
    for part in parts[1:]:
        table_sums += part
    return Marginals(log_partition, r, q if edges else None, table_sums)


def bayes_decision(node_marginals: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """(N,) the label of least expected cost on each node; ties go to the smallest label."""
    return np.argmin(node_marginals @ cost.T, axis=1)


def k_best(scores: Scores, size: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each sample its ``size`` best labellings (fewer if fewer exist), best first.

    Each item is (labels (m, n) in the order of the batch, scores (m,)).
    """
    batch = scores.batch
    found: list[tuple[np.ndarray, np.ndarray]] = []
    for lo, hi in zip(batch.node_offsets[:-1], batch.node_offsets[1:], strict=True):
        labels = np.empty((size, hi - lo), np.intp)
        values = np.empty(size)
        m = k_best_kernel(
            lo, hi, batch.parent, scores.unary, scores.tables, scores.table_of, size, labels, values
        )
        found.append((labels[:m], values[:m]))
    return found
