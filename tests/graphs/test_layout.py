"""Drawings of graphs: nothing overlaps, and parents stand above their children."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from robustruct.graphs import chain_edges
from robustruct.graphs.layout import positions


@st.composite
def trees(draw):
    n = draw(st.integers(1, 15))
    parents = [draw(st.integers(0, i - 1)) for i in range(1, n)]
    order = draw(st.permutations(range(n)))
    edges = [(order[parent], order[i + 1]) for i, parent in enumerate(parents)]
    return n, order[0], np.array(draw(st.permutations(edges)), dtype=np.intp).reshape(-1, 2)


@given(trees(), st.booleans())
def test_trees_keep_their_levels_and_do_not_overlap(tree, flipped):
    n, root, edges = tree
    found = positions(n, edges[:, ::-1] if flipped else edges)
    assert len({tuple(place) for place in found.tolist()}) == n
    depth = found[:, 1]
    if flipped and (np.bincount(edges[:, 0], minlength=n) <= 1).all():
        return  # a path listed from either end: which is its root cannot be told
    assert depth[root] == 0
    np.testing.assert_array_equal(depth[edges[:, 1]], depth[edges[:, 0]] + 1)
    for node in range(n):
        children = edges[edges[:, 0] == node, 1]
        if len(children):
            left, right = found[children, 0].min(), found[children, 0].max()
            assert found[node, 0] == (left + right) / 2


def test_forests_and_cycles_are_placed_too():
    two = positions(4, np.array([[0, 1], [2, 3]]))
    assert len({tuple(place) for place in two.tolist()}) == 4
    cycle = np.array([[0, 1], [1, 2], [2, 0]])
    assert len({tuple(place) for place in positions(3, cycle).tolist()}) == 3
    assert positions(1, np.empty((0, 2), np.intp)).tolist() == [[0.0, 0.0]]
    assert positions(3, chain_edges(3))[:, 1].tolist() == [0, 1, 2]
