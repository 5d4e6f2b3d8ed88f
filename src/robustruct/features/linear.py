"""Scores, a linear function of the weights θ, and its transpose ``adjoint``.

θ is one flat vector: a node block (d, k) and an edge block (d_e, k, k), whose entry [l, a, b]
belongs to edge feature l, label a of the node listed first and label b of the node listed second.
"""

from __future__ import annotations

import numpy as np

from robustruct.core.messages import table_label_sums, table_sums
from robustruct.features.matrix import (
    SlicedRows,
    for_kernels,
    label_sums,
    product,
    transposed_product,
)
from robustruct.features.space import Design, FeatureSpace
from robustruct.scores import Scores


def n_weights(features: FeatureSpace | Design, n_labels: int) -> int:
    """Return the length of θ."""
    return features.n_node_features * n_labels + features.n_edge_features * n_labels**2


def split_weights(
    features: FeatureSpace | Design, theta: np.ndarray, n_labels: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return views of θ: the node block (d, k) and the edge block (d_e, k, k)."""
    cut = features.n_node_features * n_labels
    return (
        theta[:cut].reshape(features.n_node_features, n_labels),
        theta[cut:].reshape(features.n_edge_features, n_labels, n_labels),
    )


def scores(design: Design, theta: np.ndarray, n_labels: int, n_jobs: int | None = -1) -> Scores:
    """Return unary scores (N, k) and tables of pairwise scores (T, k, k) under θ."""
    k = n_labels
    theta = for_kernels(theta)
    node_weights, edge_weights = split_weights(design, theta, k)
    unary = product(design.nodes, node_weights, n_jobs)
    rows = product(design.edges, edge_weights.reshape(-1, k * k), n_jobs).reshape(-1, k, k)
    if _one_table_per_row(design):
        tables = rows
    else:
        tables = rows[design.table_row]
        tables[design.table_transposed] = tables[design.table_transposed].transpose(0, 2, 1)
    return Scores(design.batch, unary, tables, design.table_of)


def adjoint(
    design: Design,
    node_values: SlicedRows,
    table_values: np.ndarray,
    n_jobs: int | None = -1,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Return Φ' (r, q) in the shape of θ, so that <scores(θ), (r, q)> = <θ, adjoint(r, q)>.

    ``node_values`` r (N, k) in the order of the batch; ``table_values`` q (T, k, k), summed over
    the edges of each table (see ``sum_over_tables``). The result is written into ``out``, if given.
    """
    k = table_values.shape[1]
    theta = np.empty(n_weights(design, k)) if out is None else out
    node_block, edge_block = split_weights(design, theta, k)
    transposed_product(design.nodes, node_values, node_block, n_jobs)
    _edge_adjoint(design, table_values, edge_block, n_jobs)
    return theta


def sum_over_tables(design: Design, edge_values: np.ndarray) -> np.ndarray:
    """(T, k, k) sums of values (slots, k, k) [child, parent] over the edges of each table."""
    k = edge_values.shape[1]
    total = np.zeros((design.n_tables, k, k))
    parent = design.batch.parent
    table_sums(len(parent), parent, design.table_of, k, for_kernels(edge_values), total)
    return total


def labelling_features(
    design: Design, labels: np.ndarray, n_labels: int, sample_weight: np.ndarray | None = None
) -> np.ndarray:
    """Σ_s weight_s Φ_s(y_s), the features of one labelling: the adjoint of its indicators.

    ``labels`` (N,) in the order of the batch; ``sample_weight`` (S,), ones by default.
    """
    batch, k = design.batch, n_labels
    labels = for_kernels(labels, np.intp)
    weight = np.ones(batch.n_nodes)
    if sample_weight is not None:
        weight = np.repeat(np.asarray(sample_weight, float), np.diff(batch.node_offsets))
    pairs = np.zeros((design.n_tables, k, k))
    table_label_sums(batch.structure, design.table_of, labels, weight, k, pairs)
    theta = np.empty(n_weights(design, k))
    node_block, edge_block = split_weights(design, theta, k)
    label_sums(design.nodes, labels, weight, node_block)
    _edge_adjoint(design, pairs, edge_block)
    return theta


def _edge_adjoint(
    design: Design, values: np.ndarray, out: np.ndarray, n_jobs: int | None = -1
) -> None:
    """Write the edge block (d_e, k, k) of the adjoint of values (T, k, k) into ``out``."""
    k = values.shape[1]
    if _one_table_per_row(design):
        rows = for_kernels(values)
    else:
        rows = np.zeros((design.edges.shape[0], k, k))
        transposed = design.table_transposed
        # A row has at most one table of each orientation, so += sees no index twice.
        rows[design.table_row[~transposed]] += values[~transposed]
        rows[design.table_row[transposed]] += values[transposed].transpose(0, 2, 1)
    transposed_product(design.edges, rows.reshape(-1, k * k), out.reshape(-1, k * k), n_jobs)


def _one_table_per_row(design: Design) -> bool:
    return design.n_tables == design.edges.shape[0] and not design.table_transposed.any()
