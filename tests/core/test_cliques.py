"""The core over cliques is equal to the kernels, to the bit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from robustruct.core import cliques as core
from robustruct.core.structs import Gibbs, JunctionTrees, ScoreArrays
from robustruct.graphs import Batch
from robustruct.kernels import allowed, buckets, cliques

LABELS = [1, 2, 3, 4, 5, 7, 8, 9]
WIDE = [16, 17, 24, 33, 64]


def graphs(seed: int, k: int, dense: bool = True) -> Batch:
    """Random graphs with and without cycles, some of one node or of several components."""
    rng = np.random.default_rng([seed, k])
    structures = []
    for n, share in ((7, 0.4), (1, 0.0), (9, 0.25), (4, 1.0), (8, 0.15)):
        pairs = np.array([(i, j) for i in range(n) for j in range(i)]).reshape(-1, 2)
        kept = pairs[rng.random(len(pairs)) < (share if dense else 0.5 * share)]
        flip = rng.random(len(kept)) < 0.5
        kept[flip] = kept[flip, ::-1]
        structures.append((n, np.ascontiguousarray(rng.permutation(kept), np.intp)))
    if not dense:
        structures = [(3, np.array([(0, 1), (2, 1), (0, 2)], np.intp)), *structures[1:2]]
    return Batch.build(structures)


def scored(batch: Batch, seed: int, k: int, forbidden: float = 0.2, scale: float = 1.0):
    """Scores of which some are -inf; label 0 is always allowed."""
    rng = np.random.default_rng([seed, k, 1])
    n, n_tables = batch.n_nodes, 4
    unary, tables = 3 * rng.normal(size=(n, k)), rng.normal(size=(n_tables, k, k))
    unary[:, 1:][rng.random((n, k - 1)) < forbidden] = -np.inf
    tables[:, 1:, 1:][rng.random((n_tables, k - 1, k - 1)) < forbidden] = -np.inf
    table_of = rng.integers(0, n_tables, batch.n_slots).astype(np.intp)
    given = ScoreArrays(unary * scale, tables * scale, table_of)
    return given, JunctionTrees(batch.parent, table_of, *batch.buckets.arrays)


def cases(seed: int, k: int, **options):
    batch = graphs(seed, k, dense=k not in WIDE)
    return batch, *scored(batch, seed, k, **options)


@pytest.mark.parametrize("k", LABELS + WIDE)
@pytest.mark.parametrize("forbidden", [0.0, 0.3])
def test_best_labellings(k, forbidden):
    batch, given, trees = cases(0, k, forbidden=forbidden)
    results = []
    for mine in (True, False):
        labels, values = np.empty(batch.n_nodes, np.intp), np.empty(batch.n_samples)
        if mine:
            core.clique_max(0, batch.n_samples, batch.structure, trees, given, labels, values)
        else:
            arrays = batch.node_offsets, trees, given.unary, given.tables
            buckets.bucket_max(0, batch.n_samples, *arrays, labels, values)
        results.append((labels, values))
    for mine, kernels in zip(*results, strict=True):
        np.testing.assert_array_equal(mine, kernels)


@pytest.mark.parametrize("k", LABELS + WIDE)
@pytest.mark.parametrize(("forbidden", "scale"), [(0.0, 1.0), (0.3, 1.0), (0.2, 1e3), (0.0, 1e17)])
@pytest.mark.parametrize("edges", [False, True])
def test_marginals(k, forbidden, scale, edges):
    batch, given, trees = cases(1, k, forbidden=forbidden, scale=scale)
    share, results = np.linspace(0.5, 2.0, batch.n_samples), []
    for mine in (True, False):
        gibbs = Gibbs(
            np.empty(batch.n_samples),
            np.empty((batch.n_nodes, k)),
            np.empty((batch.n_slots if edges else 0, k, k)),
            np.zeros(given.tables.shape),
        )
        if mine:
            core.clique_sum(0, batch.n_samples, batch.structure, trees, given, share, gibbs)
        else:
            arrays = batch.node_offsets, trees, given.unary, given.tables
            buckets.bucket_sum(0, batch.n_samples, *arrays, share, gibbs)
        results.append(gibbs)
    for mine, kernels in zip(*results, strict=True):
        np.testing.assert_array_equal(mine, kernels)


@pytest.mark.parametrize("k", LABELS + WIDE)
def test_allowed_labels(k):
    batch, given, trees = cases(2, k, forbidden=0.8)
    results = np.zeros((2, batch.n_nodes, k), np.bool_)
    core.clique_allowed(0, batch.n_samples, batch.structure, trees, given, results[0])
    arrays = batch.node_offsets, trees, given.unary, given.tables
    allowed.bucket_allowed(0, batch.n_samples, *arrays, results[1])
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 17])
@pytest.mark.parametrize("size", [1, 4, 20])
@pytest.mark.parametrize("forbidden", [0.0, 0.6])
def test_k_best(k, size, forbidden):
    batch, given, trees = cases(3, k, forbidden=forbidden)
    for lo, hi in itertools.pairwise(batch.node_offsets.tolist()):
        results = []
        for mine in (True, False):
            labels, values = np.zeros((size, hi - lo), np.intp), np.zeros(size)
            if mine:
                found = core.clique_k_best(lo, hi, trees, given, size, labels, values)
            else:
                arrays = trees, given.unary, given.tables
                found = buckets.bucket_k_best(lo, hi, *arrays, size, labels, values)
            results.append((found, labels, values))
        for mine, kernels in zip(*results, strict=True):
            np.testing.assert_array_equal(mine, kernels)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 9, 17])
@pytest.mark.parametrize("forbidden", [0.0, 0.3])
def test_linear_programs(k, forbidden):
    batch, given, trees = cases(4, k, forbidden=forbidden)
    rng = np.random.default_rng(k)
    for lo, hi in itertools.pairwise(batch.node_offsets.tolist()):
        size = int((k ** (batch.buckets.sizes[lo:hi] + 1)).sum())
        start, place = np.empty((2, hi - lo + 1), np.intp), np.empty(hi - lo + 1, np.intp)
        regret, total = np.empty((2, 2, size))
        core.clique_regrets(lo, hi, trees, given, start[0], regret[0], total[0])
        arrays = trees, given.unary, given.tables
        cliques.clique_regrets(lo, hi, *arrays, start[1], place, regret[1], total[1])
        for pair in (start, regret, total):
            np.testing.assert_array_equal(*pair)
        room = (hi - lo) * k + (hi - lo + 2) * size
        rows, columns = np.zeros((2, 2, room), np.intp)
        values = np.zeros((2, room))
        out = list(zip(rows, columns, values, strict=True))
        used = core.clique_rows(lo, hi, trees, k, start[0], *out[0])
        assert used == cliques.clique_rows(lo, hi, trees, k, start[0], place, *out[1])
        for pair in (rows, columns, values):
            np.testing.assert_array_equal(*pair)
        tables = np.maximum(rng.normal(size=size), 0.0) * (rng.random(size) < 0.6)
        results = []
        for own, where in ((core, start[:1]), (cliques, (start[0], place))):
            own_tables = tables.copy()
            r, q = np.zeros((batch.n_nodes, k)), np.zeros((batch.n_slots, k, k))
            own.consistent_marginals(lo, hi, trees, k, *where, regret[0], own_tables, r, q)
            results.append((own_tables, r, q))
        for mine, kernels in zip(*results, strict=True):
            np.testing.assert_array_equal(mine, kernels)
