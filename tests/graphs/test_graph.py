"""Graphs as users give them: what is accepted, what is refused and in which words."""

import numpy as np
import pytest
import scipy.sparse as sp

from robustruct import Graph
from robustruct.errors import InvalidInputError
from robustruct.graphs import chain_edges, checked_edges, n_rows


def test_features_of_any_kind():
    for features in (
        np.eye(3),
        sp.csr_array(np.eye(3)),
        [{"a": 1}, {}, {"b": 2}],
        [["a"], [], ["b"]],
    ):
        graph = Graph(features, [(0, 1), (2, 1)])
        assert (graph.n_nodes, graph.n_edges) == (3, 2)
        assert repr(graph) == "Graph(3 nodes, 2 edges)"


def test_edge_features_go_with_edges():
    graph = Graph(np.eye(3), [(0, 1), (1, 2)], np.ones((2, 4)))
    assert graph.edge_features.shape == (2, 4)
    with pytest.raises(
        InvalidInputError, match="edge_features describes 3 edges but edges lists 2"
    ):
        Graph(np.eye(3), [(0, 1), (1, 2)], np.ones((3, 4)))
    with pytest.raises(InvalidInputError, match="edge_features has shape"):
        Graph(np.eye(3), [(0, 1), (1, 2)], np.ones(2))


def test_no_edges():
    for edges in ([], (), np.empty((0, 2), int), np.empty((0, 2))):
        assert checked_edges(edges, 3).shape == (0, 2)
    assert Graph(np.eye(3), []).n_edges == 0
    assert Graph(np.eye(3), [], np.empty((0, 2))).n_edges == 0


def test_chains():
    assert chain_edges(1).shape == (0, 2)
    assert chain_edges(0).shape == (0, 2)
    assert chain_edges(3).tolist() == [[0, 1], [1, 2]]
    chain = Graph.chain([{"a": 1}] * 4)
    assert chain.edges.tolist() == [[0, 1], [1, 2], [2, 3]]


def test_rows_are_counted():
    assert n_rows(np.ones((3, 2))) == n_rows([1, 2, 3]) == n_rows(sp.eye_array(3)) == 3


def test_edges_become_contiguous_indices():
    edges = checked_edges(np.array([[0, 2], [1, 1]], dtype=np.uint8).T, 3)
    assert edges.dtype == np.intp
    assert edges.flags.c_contiguous
    assert edges.tolist() == [[0, 1], [2, 1]]


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([(0, 3)], r"edge 0 is \(0, 3\), but the graph has nodes 0..2"),
        ([(0, 1), (-1, 2)], r"edge 1 is \(-1, 2\)"),
        ([(0, 1), (2, 2)], "edge 1 joins node 2 to itself"),
        ([(0, 1), (1, 2), (0, 1)], r"edge 2 \(0, 1\) appears twice"),
        ([(0, 1), (1, 2), (1, 0)], r"edge 2 \(1, 0\) appears twice"),
        ([(0, 1), (0, 1), (1, 2), (1, 2)], r"edge 1 \(0, 1\) appears twice"),
        ([0, 1], r"edges has shape \(2,\)"),
        ([(0, 1, 2)], r"edges has shape \(1, 3\)"),
        ([(0, 1), (1,)], "edges must be pairs"),
        ([(0.0, 1.0)], "edges holds float64 values; node indices must be integers"),
        ([("a", "b")], "edges holds"),
        ([(True, False)], "edges holds bool values"),
    ],
)
def test_bad_edges_are_named(edges, message):
    with pytest.raises(InvalidInputError, match=message):
        Graph(np.eye(3), edges)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.empty((0, 3)), "node_features is empty"),
        ([], "node_features is empty"),
        (np.ones(3), r"node_features has shape \(3,\)"),
        (np.ones((1, 2, 3)), "expected two dimensions"),
        ("abc", "node_features is a str"),
        (b"abc", "node_features is a bytes"),
        (7, "node_features is a int"),
        (None, "node_features is a NoneType"),
        ({"a": 1}, "node_features is a dict"),
        (sp.coo_array(np.ones(3)), "sparse array of 1 dimension"),
    ],
)
def test_bad_features_are_named(features, message):
    with pytest.raises(InvalidInputError, match=message):
        Graph(features, [])
