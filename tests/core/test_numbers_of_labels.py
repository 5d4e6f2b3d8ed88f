"""Kernels at every number of labels below, at and above a register's width, against plain numpy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from core_cases import LABELS, forests, scores
from scipy.special import logsumexp

from robustruct.core.messages import k_best, labelling_scores, max_product, sum_product
from robustruct.core.structs import Exponentials, Gibbs, ScoreArrays, Structure
from robustruct.game.solve import solve_game
from robustruct.graphs import Batch
from robustruct.inference import best_labelling, marginals, relative_exponentials
from robustruct.scores import Scores
from robustruct.testing.oracles import all_labellings, local_polytope_value

SOME = [1, 2, 5, 8, 9, 17]


def upward(structure: Structure, given: ScoreArrays, add) -> tuple[np.ndarray, np.ndarray]:
    """(inside, message): what each node and all below it add up to, and what its parent gets."""
    inside, message = given.unary.copy(), np.zeros_like(given.unary)
    for i, parent in enumerate(structure.parent):  # children come first
        if parent >= 0:
            message[i] = add(inside[i][:, None] + given.tables[given.table_of[i]], axis=0)
            inside[parent] += message[i]
    return inside, message


def by_sample(structure: Structure, inside: np.ndarray, add) -> list[float]:
    roots = np.where(structure.parent < 0, add(inside, axis=1), 0.0)
    return [roots[lo:hi].sum() for lo, hi in itertools.pairwise(structure.offsets)]


def downward(structure: Structure, given: ScoreArrays) -> tuple[np.ndarray, np.ndarray]:
    """Marginals of nodes and of edges [child, parent], in logarithms."""
    with np.errstate(invalid="ignore"):
        inside, message = upward(structure, given, logsumexp)
        r, q = inside.copy(), np.full((len(inside), *given.tables.shape[1:]), -np.inf)
        for i in reversed(range(len(inside))):
            parent = structure.parent[i]
            if parent < 0:
                r[i] -= logsumexp(r[i])
                continue
            outside = np.where(r[parent] > -np.inf, r[parent] - message[i], -np.inf)
            q[i] = inside[i][:, None] + given.tables[given.table_of[i]] + outside
            r[i] = logsumexp(q[i], axis=1)
    return np.exp(r), np.exp(q)


@pytest.mark.parametrize("forbidden", [0.0, 0.3])
@pytest.mark.parametrize("k", LABELS)
def test_messages_on_forests(k: int, forbidden: float) -> None:
    structure = forests(k, k)
    given = scores(structure, k, k, forbidden=forbidden)
    n, n_samples = len(structure.parent), len(structure.offsets) - 1
    best, labels = np.empty((n, k)), np.empty(n, np.intp)
    values, again = np.empty(n_samples), np.empty(n_samples)
    max_product(0, n_samples, structure, given, best, labels, values)
    labelling_scores(0, n_samples, structure, given, labels, again)
    expected = by_sample(structure, upward(structure, given, np.max)[0], np.max)
    np.testing.assert_allclose(values, expected, rtol=1e-13)
    np.testing.assert_allclose(again, values, rtol=1e-13)

    r, q = np.empty((n, k)), np.empty((n, k, k))
    top, table_top, tables = np.empty(n), np.empty(3), np.empty_like(given.tables)
    relative_exponentials(given.unary, top, r)
    relative_exponentials(given.tables.reshape(3, -1), table_top, tables.reshape(3, -1))
    out = Gibbs(again, r, q, np.zeros_like(tables))
    share = np.arange(1.0, 1.0 + n_samples)
    relative = Exponentials(r, top, tables, table_top)
    sum_product(0, n_samples, structure, given, relative, share, out)
    nodes, edges = downward(structure, given)
    expected = by_sample(structure, upward(structure, given, logsumexp)[0], logsumexp)
    np.testing.assert_allclose(again, expected, rtol=1e-12)
    np.testing.assert_allclose(r, nodes, atol=1e-12)
    np.testing.assert_allclose(q, edges, atol=1e-12)
    sums, sample = np.zeros_like(tables), np.repeat(share, np.diff(structure.offsets))
    np.add.at(sums, given.table_of, edges * sample[:, None, None])
    np.testing.assert_allclose(out.table_sums, sums, atol=1e-10)


@pytest.mark.parametrize("k", LABELS)
def test_the_best_labellings_of_a_pair(k: int) -> None:
    """All k² labellings of two nodes, or the ten best of them."""
    structure = Structure(*(np.array(x, np.intp) for x in ([0, 2], [0, 0], [0, 1], [1, -1])))
    given = scores(structure, k, k, n_tables=1)
    size = min(10, k * k)
    labels, values = np.zeros((size, 2), np.intp), np.empty(size)
    count = k_best(0, 2, structure, given, size, labels, values)
    total = given.unary[0][:, None] + given.tables[0] + given.unary[1]
    expected = np.sort(total.ravel())[::-1][:size]
    expected = expected[np.isfinite(expected)]
    assert count == len(expected)
    np.testing.assert_allclose(values[:count], expected, rtol=1e-13)
    chosen = labels[:count]
    np.testing.assert_allclose(total[chosen[:, 0], chosen[:, 1]], expected, rtol=1e-13)
    assert len(np.unique(chosen, axis=0)) == count


@pytest.mark.parametrize("k", SOME)
def test_messages_on_a_triangle(k: int) -> None:
    rng = np.random.default_rng(k)
    edges = np.array([(0, 1), (2, 1), (0, 2)])
    unary, tables = rng.normal(size=(3, k)), rng.normal(size=(3, k, k))
    tables[:, 1:, 1:][rng.random((3, k - 1, k - 1)) < 0.2] = -np.inf
    given = Scores.from_user(Batch.build([(3, edges)]), unary, tables)
    y = all_labellings(3, k)
    total = unary[np.arange(3), y].sum(axis=1)
    for table, (i, j) in zip(tables, edges, strict=True):
        total += table[y[:, i], y[:, j]]
    labels, values = best_labelling(given)
    assert values[0] == pytest.approx(total.max(), rel=1e-13)
    np.testing.assert_array_equal(given.batch.to_user(labels), y[total.argmax()])
    found = marginals(given)
    assert found.log_partition[0] == pytest.approx(logsumexp(total), rel=1e-12)
    mass = np.exp(total - logsumexp(total))
    expected = [np.bincount(y[:, i], mass, minlength=k) for i in range(3)]
    np.testing.assert_allclose(given.batch.to_user(found.nodes), expected, atol=1e-12)


@pytest.mark.parametrize("k", [*SOME, 24])
def test_games(k: int) -> None:
    rng = np.random.default_rng(k)
    edges, cost = np.array([(0, 1), (2, 1)]), rng.random((k, k)) * (1 - np.eye(k))
    unary, tables = rng.normal(size=(3, k)), rng.normal(size=(2, k, k))
    unary[:, 1:][rng.random((3, k - 1)) < 0.2] = -np.inf
    found = solve_game(unary, edges, tables, cost, tol=1e-8)
    value = local_polytope_value(unary, edges, tables, cost)
    assert found.lower <= value + 1e-7
    assert found.upper >= value - 1e-7
    assert found.upper - found.lower <= 1e-7 * max(1.0, abs(value))
