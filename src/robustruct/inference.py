"""What the scores say: the best labelling, marginals, the Bayes decision, the K best labellings.

Everything here takes and returns arrays in the order of the batch. Forests go the fast way, samples
with chords over the cliques of their junction trees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robustruct.core.cliques import clique_allowed, clique_k_best, clique_max, clique_sum
from robustruct.core.messages import forest_allowed, labelling_scores, max_product, sum_product
from robustruct.core.messages import k_best as k_best_forest
from robustruct.core.structs import Exponentials, Gibbs, JunctionTrees, ScoreArrays
from robustruct.graphs import Batch
from robustruct.parallel import over_samples
from robustruct.scores import Scores

__all__ = ["best_labelling"]


def junction_trees(scores: Scores, copies: int = 1) -> JunctionTrees:
    """What inference over cliques takes, once it is sure that their tables fit into memory."""
    batch = scores.batch
    batch.buckets.check_memory(scores.n_labels, copies)
    return JunctionTrees(batch.parent, scores.table_of, *batch.buckets.arrays)


def over_kinds(
    batch: Batch, forests: Callable[[int, int], object], cliques: Callable[[int, int], object]
) -> Callable[[int, int], object]:
    """Work on a range of samples that hands runs of forests and runs of cyclic samples on."""
    if batch.n_chords == 0:
        return forests
    cyclic = np.diff(batch.chord_offsets) > 0
    cuts = np.flatnonzero(cyclic[1:] != cyclic[:-1]) + 1

    def work(first: int, last: int) -> None:
        inner = cuts[(cuts > first) & (cuts < last)].tolist()
        for begin, end in zip([first, *inner], [*inner, last], strict=True):
            (cliques if cyclic[begin] else forests)(begin, end)

    return work


def best_labelling(scores: Scores, n_jobs: int | None = -1) -> tuple[np.ndarray, np.ndarray]:
    """MAP: (N,) labels and (S,) their scores. Ties go to the smallest label from the root down."""
    batch = scores.batch
    best = np.empty_like(scores.unary)
    labels = np.empty(batch.n_nodes, np.intp)
    values = np.empty(batch.n_samples)
    graph = junction_trees(scores) if batch.n_chords else None
    work = over_kinds(
        batch,
        lambda first, last: max_product(
            first, last, batch.structure, scores.arrays, best, labels, values
        ),
        lambda first, last: clique_max(
            first, last, batch.structure, graph, scores.arrays, labels, values
        ),
    )
    over_samples(work, batch.node_offsets, n_jobs)
    return labels, values


def allowed_labels(scores: Scores, n_jobs: int | None = -1) -> np.ndarray:
    """(N, k) bool, the labels that some labelling has at each node without a score of -inf.

    In a sample too wide for exact inference, the labels whose own score is not -inf.
    """
    batch, allowed = scores.batch, np.isfinite(scores.unary)
    if allowed.all() and np.isfinite(scores.tables).all():
        return allowed

    def cliques(first: int, last: int) -> None:
        fits = batch.buckets.fit(scores.n_labels)
        graph = JunctionTrees(batch.parent, scores.table_of, *batch.buckets.arrays)
        # Sums of 0 and -inf do not overflow, as sums of scores might.
        unary, tables = (
            np.where(np.isfinite(x), 0.0, -np.inf) for x in (scores.unary, scores.tables)
        )
        given = ScoreArrays(unary, tables, scores.table_of)
        for s in first + np.flatnonzero(fits[first:last]):
            clique_allowed(s, s + 1, batch.structure, graph, given, allowed)

    work = over_kinds(
        batch,
        lambda first, last: forest_allowed(first, last, batch.structure, scores.arrays, allowed),
        cliques,
    )
    over_samples(work, batch.node_offsets, n_jobs)
    return allowed


def without_impossible(scores: Scores, n_jobs: int | None = -1) -> Scores:
    """The same scores of all labellings, with every label that cannot occur at -inf by itself."""
    allowed = allowed_labels(scores, n_jobs)
    if allowed.all():
        return scores
    return scores.with_unary(np.where(allowed, scores.unary, -np.inf))


def score_of(scores: Scores, labels: np.ndarray) -> np.ndarray:
    """(S,) score of the given labels (N,)."""
    batch = scores.batch
    values = np.empty(batch.n_samples)
    labelling_scores(0, batch.n_samples, batch.structure, scores.arrays, labels, values)
    return values


@dataclass(frozen=True, eq=False)
class NodeMarginals:
    """The Gibbs distribution exp(score) / Z of every sample, by its marginals."""

    log_partition: np.ndarray
    """(S,) log Z."""
    nodes: np.ndarray
    """(N, k)"""
    edges: np.ndarray | None
    """(slots, k, k) [child, parent], zero where a slot holds no edge; None unless asked for."""
    table_sums: np.ndarray
    """(T, k, k) edge marginals, times the share of their sample, added up by table."""


def marginals(
    scores: Scores,
    *,
    edges: bool = False,
    share: np.ndarray | None = None,
    n_jobs: int | None = -1,
) -> NodeMarginals:
    """Exact marginals by sum-product.

    ``edges=True`` also keeps them edge by edge; ``share`` (S,) weighs the samples in
    ``table_sums``, 1 by default.
    """
    batch, k = scores.batch, scores.n_labels
    weight = np.ones(batch.n_samples) if share is None else share
    log_partition = np.empty(batch.n_samples)
    r = np.empty((batch.n_nodes, k))
    q = np.empty((batch.n_slots if edges else 0, k, k))
    table_max, exp_tables = np.empty(len(scores.tables)), np.empty(scores.tables.shape)
    flat = (-1, k * k)
    relative_exponentials(scores.tables.reshape(flat), table_max, exp_tables.reshape(flat))
    graph = junction_trees(scores) if batch.n_chords else None
    # The marginals of a node replace the exponentials, which are needed no longer.
    top = np.empty(batch.n_nodes)
    exponentials = Exponentials(r, top, exp_tables, table_max)

    def work(first: int, last: int) -> np.ndarray:
        gibbs = Gibbs(log_partition, r, q, np.zeros(scores.tables.shape))
        nodes = slice(batch.node_offsets[first], batch.node_offsets[last])
        relative_exponentials(scores.unary[nodes], top[nodes], r[nodes])
        over_kinds(
            batch,
            lambda begin, end: sum_product(
                begin, end, batch.structure, scores.arrays, exponentials, weight, gibbs
            ),
            lambda begin, end: clique_sum(
                begin, end, batch.structure, graph, scores.arrays, weight, gibbs
            ),
        )(first, last)
        return gibbs.table_sums

    parts = over_samples(work, batch.node_offsets, n_jobs)
    table_sums = parts[0]
    for part in parts[1:]:
        table_sums += part
    return NodeMarginals(log_partition, r, q if edges else None, table_sums)


def relative_exponentials(values: np.ndarray, top: np.ndarray, out: np.ndarray) -> None:
    """out = exp(values - top), top the largest of each row (or 0 if that is -inf)."""
    np.maximum.reduce(values, axis=1, out=top)
    top[~np.isfinite(top)] = 0.0
    np.subtract(values, top[:, None], out=out)
    np.exp(out, out=out)


def bayes_decision(node_marginals: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """(N,) the label of least expected cost [true, predicted]; ties go to the smallest label."""
    return np.argmin(node_marginals @ cost, axis=1)


def k_best(scores: Scores, size: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each sample its ``size`` best labellings (fewer if fewer exist), best first.

    Each item is (labels (m, n) in the order of the batch, scores (m,)).
    """
    batch = scores.batch
    found: list[tuple[np.ndarray, np.ndarray]] = []
    graph = junction_trees(scores, size) if batch.n_chords else None

    def one(s: int, kernel: Any, arguments: Sequence[Any]) -> None:
        lo, hi = batch.node_offsets[s : s + 2]
        labels, values = np.empty((size, hi - lo), np.intp), np.empty(size)
        m = kernel(lo, hi, *arguments, size, labels, values)
        found.append((labels[:m], values[:m]))

    work = over_kinds(
        batch,
        lambda first, _: one(first, k_best_forest, (batch.structure, scores.arrays)),
        lambda first, _: one(first, clique_k_best, (graph, scores.arrays)),
    )
    for s in range(batch.n_samples):
        work(s, s + 1)
    return found
