"""Elimination orders: their width, the treewidth where it is known, and names of structures."""

import itertools

import numpy as np
import pytest
from hypothesis import given

from robustruct.core.elimination import (
    AS_LISTED,
    BY_DEGREE,
    BY_FILL,
    best_order,
    contraction_bound,
    greedy_order,
)
from robustruct.errors import IncompatibleError
from robustruct.graphs import Batch, chain_edges, treewidth
from robustruct.graphs.elimination import WIDEST, elimination
from robustruct.inference import best_labelling, marginals
from robustruct.scores import Scores
from robustruct.testing.strategies import graphs


def edges_of(pairs):
    return np.array(list(pairs), dtype=np.intp).reshape(-1, 2)


def grid(height, width):
    places = np.arange(height * width).reshape(height, width)
    across = np.stack([places[:, :-1].ravel(), places[:, 1:].ravel()], axis=1)
    down = np.stack([places[:-1].ravel(), places[1:].ravel()], axis=1)
    return height * width, np.concatenate([across, down])


def cycle(n):
    return n, edges_of((i, (i + 1) % n) for i in range(n))


def complete(n):
    return n, edges_of(itertools.combinations(range(n), 2))


def width_of(n, edges, order):
    """By playing the elimination with sets."""
    near = [set() for _ in range(n)]
    for i, j in edges:
        near[i].add(int(j))
        near[j].add(int(i))
    widths = []
    for node in order:
        widths.append(len(near[node]))
        for i in near[node]:
            near[i] |= near[node] - {i}
            near[i].discard(int(node))
    return max(widths)


@given(graphs(max_nodes=8, max_width=4))
def test_widths_are_those_of_the_orders(graph):
    n, edges = graph
    widths = []
    for rule in (BY_DEGREE, BY_FILL, AS_LISTED):
        order = np.empty(n, np.intp)
        widths.append(greedy_order(n, len(edges), edges, rule, n, order))
        assert sorted(order) == list(range(n))
        assert widths[-1] == width_of(n, edges, order)
    least = best_order(n, len(edges), edges, order)
    assert least == width_of(n, edges, order)
    assert contraction_bound(n, len(edges), edges) <= least <= min(widths)
    assert least <= 4
    if widths[0] <= 3:
        assert widths[0] == least, "fewest neighbours first is exact up to width 3"


@given(graphs(max_nodes=6, max_width=4))
def test_the_least_width_is_that_of_the_best_of_all_orders(graph):
    n, edges = graph
    least = min(width_of(n, edges, order) for order in itertools.permutations(range(n)))
    assert treewidth(n, edges) == (least, least)


@pytest.mark.parametrize(
    ("graph", "width"),
    [
        ((5, chain_edges(5)), 1),
        ((4, edges_of([(0, 1), (0, 2), (0, 3)])), 1),
        (cycle(7), 2),
        (grid(2, 6), 2),
        (grid(6, 2), 2),
        ((8, np.concatenate([chain_edges(8), edges_of([(0, 4), (2, 7)])])), 2),
        ((4, edges_of([(0, 2), (0, 3), (1, 2), (1, 3), (0, 1)])), 2),
        (complete(5), 4),
        (grid(3, 3), 3),
        (grid(3, 8), 3),
        ((6, edges_of([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)])), 2),
    ],
)
def test_widths_are_known_whatever_the_names_of_nodes(graph, width):
    n, edges = graph
    assert treewidth(n, edges) == (width, width)
    names = np.random.default_rng(0).permutation(n)
    assert treewidth(n, names[edges]) == (width, width)


@pytest.mark.parametrize("size", [(7, 9), (8, 8), (20, 20)])
@pytest.mark.parametrize("shuffled", [False, True])
def test_a_wide_grid_is_swept(size, shuffled):
    """The treewidth of a grid is its shorter side, and breadth first finds at most one more."""
    n, edges = grid(*size)
    if shuffled:
        edges = np.random.default_rng(0).permutation(n)[edges]
    found = elimination(n, edges)
    assert found.width == width_of(n, edges, found.order) <= min(size) + 1
    if size[0] == size[1] and not shuffled:  # row by row
        assert found.width == min(size)
    lower, upper = treewidth(n, edges)
    assert 4 <= lower <= min(size) <= upper == found.width


def test_a_long_ladder_is_fast_and_a_huge_graph_is_given_up_early():
    assert elimination(*grid(2, 20_000)).width == 2
    rng = np.random.default_rng(0)
    pairs = np.unique(np.sort(rng.integers(0, 3000, (30_000, 2)), axis=1), axis=0)
    found = elimination(3000, pairs[pairs[:, 0] < pairs[:, 1]])
    assert found.width == WIDEST + 1
    assert sorted(found.order) == list(range(3000))


@pytest.mark.parametrize("size", [20, 60])
def test_tables_that_do_not_fit_are_refused_before_they_are_made(size):
    n, edges = grid(size, size)
    scores = Scores.from_user(
        Batch.build([(n, edges)]), np.zeros((n, 9)), np.zeros((len(edges), 9, 9))
    )
    for task in (best_labelling, marginals):
        with pytest.raises(IncompatibleError, match=r"sample 0: .*treewidth.*GiB.*relaxed"):
            task(scores)
