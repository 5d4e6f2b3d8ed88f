"""Samples of every form enter one space; what cannot enter is refused by name."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from robustruct.errors import InvalidInputError
from robustruct.features import FeatureSpace, SparseRows, n_weights, scores
from robustruct.graphs import Graph


def dense(rows):
    return rows.to_scipy().toarray() if isinstance(rows, SparseRows) else rows


def edge_rows(design):
    """Features of the user's edges, in the user's order."""
    return dense(design.edges)[design.table_row[design.table_of[design.batch.slot_of_edge]]]


def test_nodes_and_edges_keep_the_users_order_through_trees():
    rng = np.random.default_rng(0)
    nodes = [rng.normal(size=(5, 2)), rng.normal(size=(4, 2))]
    edges = [[(0, 1), (2, 0), (0, 3), (4, 3)], [(3, 1), (1, 2)]]
    features = [rng.normal(size=(4, 3)), rng.normal(size=(2, 3))]
    graphs = [Graph(*parts) for parts in zip(nodes, edges, features, strict=True)]
    for make in (np.asarray, sp.csr_array):
        graphs = [
            Graph(make(n), e, make(f)) for n, e, f in zip(nodes, edges, features, strict=True)
        ]
        _, design = FeatureSpace.fit(graphs)
        assert not design.batch.keeps_order
        np.testing.assert_array_equal(
            design.batch.to_user(dense(design.nodes)),
            np.hstack([np.vstack(nodes), np.ones((9, 1))]),
        )
        np.testing.assert_array_equal(
            edge_rows(design), np.hstack([np.vstack(features), np.ones((6, 1))])
        )


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, sp.coo_array])
def test_a_plain_array_holds_one_node_samples(make):
    rows = np.random.default_rng(0).normal(size=(6, 3))
    space, design = FeatureSpace.fit(make(rows))
    _, listed = FeatureSpace.fit([row[None] for row in rows])
    assert design.batch.n_samples == 6
    np.testing.assert_array_equal(dense(design.nodes), listed.nodes)
    for field in ("node_offsets", "edge_offsets", "parent", "node_of", "edge_of", "flipped"):
        ours, theirs = getattr(design.batch, field), getattr(listed.batch, field)
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(dense(space.encode(make(rows[:2])).nodes), listed.nodes[:2])


def test_dense_and_sparse_samples_share_numeric_columns():
    rows = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]])
    space, _ = FeatureSpace.fit([rows])
    np.testing.assert_array_equal(
        dense(space.encode([sp.csc_array(rows)]).nodes), space.encode([rows]).nodes
    )
    space, _ = FeatureSpace.fit([sp.coo_array(rows)])
    np.testing.assert_array_equal(space.encode([rows]).nodes, [[1, 0, 2, 1], [0, 0, 3, 1]])


def test_sparse_input_with_repeated_entries_is_summed():
    raw = sp.csr_matrix((np.ones(3), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    _, design = FeatureSpace.fit([raw])
    np.testing.assert_array_equal(dense(design.nodes), [[0, 2, 1], [1, 0, 1]])
    assert raw.nnz == 3


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint16, bool, ">f8"])
def test_numbers_of_any_type_become_float64(dtype):
    rows = np.array([[1, 0], [1, 1]]).astype(dtype)
    for sample in (
        rows,
        np.asfortranarray(rows)[::-1],
        sp.csr_matrix(rows.astype(dtype).astype("f4")),
    ):
        _, design = FeatureSpace.fit([sample])
        data = design.nodes.data if isinstance(design.nodes, SparseRows) else design.nodes
        assert data.dtype == np.float64
        assert data.flags.c_contiguous


def test_nested_lists_of_numbers_are_dense():
    _, design = FeatureSpace.fit([[[1, 2], [3, 4]], ((5.0, 6.0),)])
    np.testing.assert_array_equal(design.nodes, [[1, 2, 1], [3, 4, 1], [5, 6, 1]])


def test_without_bias_there_is_no_last_column():
    space, design = FeatureSpace.fit([np.ones((2, 3))], bias=False)
    assert space.n_node_features == design.nodes.shape[1] == 3
    space, design = FeatureSpace.fit([[["a"], ["b"]]], bias=False)
    assert space.node_feature_names == ["a", "b"]
    np.testing.assert_array_equal(dense(design.nodes), np.eye(2))


def test_names_tell_the_columns():
    graph = Graph.chain([{"w": "a"}, ["b"]], [{"gap": 2.0, "rel": "next"}])
    space, design = FeatureSpace.fit([graph])
    assert space.node_feature_names == ["w:a", "b", "(bias)"]
    assert space.edge_feature_names == ["gap", "rel:next", "(transition)"]
    assert (space.n_node_features, space.n_edge_features) == (3, 3)
    np.testing.assert_array_equal(edge_rows(design), [[2.0, 1.0, 1.0]])
    space, _ = FeatureSpace.fit([np.ones((2, 2))])
    assert space.node_feature_names == ["x0", "x1", "(bias)"]
    assert space.edge_feature_names == ["(transition)"]


SPACES = {
    "dense": [np.arange(6.0).reshape(3, 2)],
    "attributes": [[["a", "é"], {"w": 2.5}]],
    "edges": [Graph.chain(np.ones((3, 1)), [["x"], {"y": "z"}])],
    "dense edges": [Graph.chain([["a"], ["b"]], np.ones((1, 2)))],
}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("samples", SPACES.values(), ids=SPACES.keys())
def test_the_state_survives_pickle_and_copies(samples, bias):
    space, design = FeatureSpace.fit(samples, bias=bias)
    theta = np.random.default_rng(0).normal(size=n_weights(space, 2))
    psi = scores(design, theta, 2)
    for twin in (
        FeatureSpace.from_state(space.state()),
        pickle.loads(pickle.dumps(space)),
        copy.deepcopy(space),
    ):
        assert twin.state() == space.state()
        again = scores(twin.encode(samples), theta, 2)
        np.testing.assert_array_equal(again.unary, psi.unary)
        np.testing.assert_array_equal(again.tables, psi.tables)


@pytest.mark.parametrize(
    ("samples", "told"),
    [
        ([], "X is empty"),
        (np.empty((0, 3)), "X is empty"),
        (sp.csr_matrix((0, 3)), "X is empty"),
        ("text", "X is a str"),
        (None, "X is a NoneType"),
        (Graph(np.ones((1, 1)), []), "X is a Graph"),
        ((x for x in []), "X is a generator"),
        ({"w": "a"}, "X is a dict"),
        (np.ones(3), r"X is an array of shape \(3,\)"),
        (np.ones((2, 3, 4)), r"X is an array of shape \(2, 3, 4\)"),
        (np.array([["a"], ["b"]]), "rows of X hold values of type <U1"),
        (np.array([[1], [None]], object), "rows of X hold values of type object"),
        (np.array([[1.0], [np.nan]]), "sample 1, node 0: feature 0 is nan"),
        (sp.csr_matrix([[1.0], [np.inf]]), "sample 1, node 0: a feature is inf"),
        ([np.ones((1, 2)), np.empty((0, 2))], "sample 1 is empty"),
        ([[["a"]], []], "sample 1 is empty"),
        ([sp.csr_matrix((0, 2))], "sample 0 is empty"),
        ([np.ones((1, 2)), np.ones((1, 3))], "sample 1: node features have 3 columns; expected 2"),
        ([sp.eye_array(2), sp.eye_array(3)], "sample 1: node features have 3 columns"),
        ([[[1.0, 2.0], [3.0]]], "sample 0: node features do not form an array"),
        ([[[1.0, 2.0], ["a"]]], "sample 0: node features"),
        ([np.ones((1, 2)), np.ones(2)], r"sample 1 has shape \(2,\)"),
        ([np.ones((1, 2, 3))], r"sample 0 has shape \(1, 2, 3\)"),
        ([[1.0, 2.0]], r"sample 0: node features have shape \(2,\)"),
        ([[[[1.0]]]], r"sample 0: node features have shape \(1, 1, 1\)"),
        ([np.ones((1, 2), complex)], "sample 0: node features hold values of type complex128"),
        ([np.ones((1, 1)), np.array([["a"]])], "sample 1: node features hold values of type <U1"),
        ([np.array([[{}]], object)], "sample 0: node features hold values of type object"),
        ([np.array([[1.0, 2.0], [3.0, -np.inf]])], "sample 0, node 1: feature 1 is -inf"),
        ([{"w": "a"}], "sample 0 is a dict"),
        (["word"], "sample 0 is a str"),
        ([np.ones((1, 1)), None], "sample 1 is a NoneType"),
        ([3.0], "sample 0 is a float"),
        ([np.ones((1, 1)), sp.eye_array(1)], "sample 1: node features are a sparse matrix, but"),
        ([np.ones((1, 1)), [["a"]]], "sample 1: node features are dicts or lists of strings, but"),
        ([[["a"]], np.ones((1, 1))], "sample 1: node features are a dense array, but"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_samples_are_named(samples, told):
    with pytest.raises(InvalidInputError, match=told):
        FeatureSpace.fit(samples)


def chain(edge_features, n_nodes=3):
    return Graph.chain(np.ones((n_nodes, 1)), edge_features)


@pytest.mark.parametrize(
    ("samples", "told"),
    [
        ([chain(np.ones((2, 1))), chain(None)], "sample 1 has no edge_features, but sample 0 has"),
        ([np.ones((2, 1)), chain(np.ones((2, 1)))], "sample 0 has no edge_features, but sample 1"),
        (
            [chain(np.ones((2, 1))), chain(np.ones((2, 2)))],
            "sample 1: edge features have 2 columns",
        ),
        (
            [chain(np.ones((2, 1))), chain([["a"], []])],
            "sample 1: edge features are dicts or lists",
        ),
        ([chain([["a"], [None]])], "sample 0, edge 1: the attribute name None"),
        ([chain([["a"], {"b": np.nan}])], "sample 0, edge 1: a feature is nan"),
        ([chain([[1.0], [np.nan]])], "sample 0, edge 1: feature 0 is nan"),
        ([chain([1.0, 2.0])], r"sample 0: edge features have shape \(2,\)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_edge_features_are_named(samples, told):
    with pytest.raises(InvalidInputError, match=told):
        FeatureSpace.fit(samples)


def test_samples_without_edges_need_no_edge_features():
    for features in (np.ones((2, 2)), sp.csr_array(np.ones((2, 2))), [["a"], {"b": 2}]):
        alone = [Graph(np.ones((1, 1)), [], []), Graph(np.ones((2, 1)), []), np.ones((1, 1))]
        space, design = FeatureSpace.fit([*alone, chain(features)])
        assert space.n_edge_features == 3
        assert edge_rows(design).shape == (2, 3)
        assert space.encode(alone).edges.shape == (1, 3)


def test_encoding_refuses_what_training_did_not_have():
    numeric, _ = FeatureSpace.fit([np.ones((2, 2))])
    words, _ = FeatureSpace.fit([[["a"]]])
    with_edges, _ = FeatureSpace.fit([chain(np.ones((2, 1)))])
    with pytest.raises(InvalidInputError, match="have 3 columns; expected 2"):
        numeric.encode([np.ones((2, 3))])
    with pytest.raises(InvalidInputError, match="rows of X have 3 columns; expected 2"):
        numeric.encode(np.ones((2, 3)))
    with pytest.raises(InvalidInputError, match=r"sample 0: node features are dicts .* numeric"):
        numeric.encode([[["a"]]])
    with pytest.raises(InvalidInputError, match=r"sample 0: node features are a dense .* strings"):
        words.encode([np.ones((1, 1))])
    with pytest.raises(InvalidInputError, match="rows of X are a dense array"):
        words.encode(np.ones((2, 1)))
    with pytest.raises(
        InvalidInputError, match=r"sample 0 has edge features, .* trained without any"
    ):
        numeric.encode([Graph.chain(np.ones((2, 2)), np.ones((1, 1)))])
    with pytest.raises(InvalidInputError, match="sample 1 has no edge features"):
        with_edges.encode([np.ones((1, 1)), np.ones((2, 1))])
    with pytest.raises(InvalidInputError, match="edge features are dicts"):
        with_edges.encode([chain([["a"], ["b"]])])


def test_many_real_valued_edge_rows_are_kept_as_they_are():
    rows = np.random.default_rng(0).normal(size=(40, 3))
    _, design = FeatureSpace.fit([chain(rows, 41)])
    assert design.n_tables == 40
    np.testing.assert_array_equal(design.edges[:, :-1], rows)


def test_the_users_arrays_are_neither_changed_nor_shared():
    rows = np.ones((3, 2))
    _, design = FeatureSpace.fit([rows])
    design.nodes[:] = 9.0
    assert (rows == 1.0).all()


def test_an_array_of_objects_is_a_list_of_samples():
    samples = np.empty(2, object)
    samples[:] = [np.ones((2, 1)), np.zeros((3, 1))]
    assert FeatureSpace.fit(samples)[1].batch.node_offsets.tolist() == [0, 2, 5]
