"""Batches: any forest, rooted, and every array findable again in the user's order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robustruct.graphs import Batch, chain_edges
from robustruct.scores import Scores
from robustruct.testing.oracles import labelling_score
from robustruct.testing.strategies import forests, graphs


def edges_of(pairs):
    return np.array(pairs, dtype=np.intp).reshape(-1, 2)


def assert_rooted(batch, structures):
    """The rooted forest is the user's forest: same edges, children first, samples together."""
    n = batch.n_nodes
    assert sorted(batch.node_of.tolist()) == list(range(n))
    inner = np.flatnonzero(batch.parent >= 0)
    assert (batch.parent[inner] > batch.child[inner]).all()
    assert ((batch.edge_of >= 0) == (batch.parent >= 0)).all()
    assert sorted(batch.edge_of[inner].tolist()) == list(range(batch.n_edges))
    listed = [
        edges + first if edges is not None else chain_edges(size) + first
        for (size, edges), first in zip(structures, batch.node_offsets, strict=False)
    ]
    user = np.concatenate(listed)
    child, parent = batch.node_of[batch.child[inner]], batch.node_of[batch.parent[inner]]
    turned = batch.flipped[inner]
    np.testing.assert_array_equal(user[batch.edge_of[inner], 0], np.where(turned, parent, child))
    np.testing.assert_array_equal(user[batch.edge_of[inner], 1], np.where(turned, child, parent))
    for s in range(batch.n_samples):
        lo, hi = batch.node_offsets[s : s + 2]
        assert ((batch.node_of[lo:hi] >= lo) & (batch.node_of[lo:hi] < hi)).all()
        assert (batch.parent[(batch.child >= lo) & (batch.child < hi)] < hi).all()
    for array in (
        batch.node_offsets,
        batch.edge_offsets,
        batch.parent,
        batch.node_of,
        batch.edge_of,
    ):
        assert array.dtype == np.intp


@given(st.lists(forests(max_nodes=9), min_size=1, max_size=4))
def test_any_forests(structures):
    assert_rooted(Batch.build(structures), structures)


@given(st.lists(forests(max_nodes=6), min_size=1, max_size=3), st.integers(1, 3), st.data())
def test_scores_mean_the_same_in_the_batch(structures, k, data):
    batch = Batch.build(structures)
    rng = np.random.default_rng(0)
    unary, pairwise = rng.normal(size=(batch.n_nodes, k)), rng.normal(size=(batch.n_edges, k, k))
    scores = Scores.from_user(batch, unary, pairwise)
    y = rng.integers(0, k, batch.n_nodes)
    edges = np.concatenate(
        [e + first for (_, e), first in zip(structures, batch.node_offsets, strict=False)]
    )
    labels = batch.from_user(y)
    total = scores.unary[np.arange(batch.n_nodes), labels].sum()
    for i in np.flatnonzero(batch.parent >= 0):
        total += scores.tables[scores.table_of[i], labels[i], labels[batch.parent[i]]]
    assert total == pytest.approx(labelling_score(unary, edges, pairwise, y))


@given(st.lists(forests(max_nodes=9), min_size=1, max_size=3))
def test_there_and_back(structures):
    batch = Batch.build(structures)
    rows = np.arange(2.0 * batch.n_nodes).reshape(-1, 2)
    np.testing.assert_array_equal(batch.to_user(batch.from_user(rows)), rows)
    np.testing.assert_array_equal(batch.from_user(rows), rows[batch.node_of])
    pieces = batch.split_nodes(rows)
    assert [len(piece) for piece in pieces] == [n for n, _ in structures]
    tables = np.random.default_rng(0).normal(size=(batch.n_edges, 2, 2))
    inside = np.zeros((batch.n_nodes, 2, 2))
    inside[batch.slot_of_edge] = tables
    inside[batch.flipped] = inside[batch.flipped].transpose(0, 2, 1)
    np.testing.assert_array_equal(batch.edges_to_user(inside), tables)


def test_a_chain_keeps_its_order():
    for edges in (None, chain_edges(5)):
        batch = Batch.build([(5, edges)])
        assert batch.keeps_order
        assert batch.parent.tolist() == [1, 2, 3, 4, -1]
        assert not batch.flipped.any()


def test_single_nodes():
    for edges in (None, edges_of([])):
        batch = Batch.build([(1, edges), (1, edges)])
        assert batch.parent.tolist() == [-1, -1]
        assert batch.n_edges == 0
        assert batch.edges_to_user(np.zeros((2, 3, 3))).shape == (0, 3, 3)


def test_isolated_nodes_are_roots():
    batch = Batch.build([(4, edges_of([]))])
    assert (batch.parent == -1).all()


@pytest.mark.parametrize("hub", [0, 2, 5])
def test_stars(hub):
    others = [i for i in range(6) if i != hub]
    structure = (6, edges_of([(hub, i) for i in others]))
    batch = Batch.build([structure])
    assert_rooted(batch, [structure])
    assert (batch.parent == -1).sum() == 1


def test_several_components():
    structure = (7, edges_of([(0, 1), (2, 3), (3, 4), (6, 2)]))
    batch = Batch.build([structure])
    assert_rooted(batch, [structure])
    assert (batch.parent == -1).sum() == 3


@pytest.mark.parametrize("backwards", [False, True])
def test_a_path_of_100_000_nodes(backwards):
    n = 100_000
    edges = chain_edges(n)
    edges = np.ascontiguousarray(n - 1 - edges) if backwards else edges
    assert_rooted(Batch.build([(n, edges)]), [(n, edges)])


def test_a_path_with_names_at_random():
    names = np.random.default_rng(0).permutation(20_000)
    edges = np.ascontiguousarray(names[chain_edges(20_000)])
    batch = Batch.build([(20_000, edges)])
    assert_rooted(batch, [(20_000, edges)])


def test_samples_with_one_structure_share_the_work_and_not_the_arrays():
    structure = (4, edges_of([(3, 0), (3, 1), (3, 2)]))
    batch = Batch.build([structure, (2, None), structure])
    assert_rooted(batch, [structure, (2, None), structure])
    np.testing.assert_array_equal(batch.parent[:3], 3)
    np.testing.assert_array_equal(batch.parent[6:9], 9)


@given(st.lists(graphs(max_nodes=9), min_size=1, max_size=4))
def test_graphs_with_cycles_keep_their_edges_and_their_order(structures):
    batch = Batch.build(structures)
    assert_rooted(batch, structures)
    n, chords = batch.n_nodes, batch.child[batch.n_nodes :]
    np.testing.assert_array_equal(batch.child[:n], np.arange(n))
    assert (np.diff(chords) >= 0).all(), "chords come in the order of their children"
    assert (batch.parent[chords] >= 0).all(), "a chord needs an edge beside it"
    samples = np.arange(len(structures))[::-1].copy()
    taken = batch.take(samples)
    again = Batch.build([structures[s] for s in samples])
    for name in ("node_offsets", "edge_offsets", "chord_offsets", "child", "parent", "node_of"):
        np.testing.assert_array_equal(getattr(taken, name), getattr(again, name), err_msg=name)
    np.testing.assert_array_equal(taken.edge_of, again.edge_of)
    np.testing.assert_array_equal(taken.flipped, again.flipped)


@given(graphs(max_nodes=9, max_width=4))
def test_buckets_form_a_junction_tree(structure):
    batch = Batch.build([structure])
    buckets = batch.buckets
    members = np.split(buckets.members, buckets.offsets[1:-1])
    for i, later in enumerate(members):
        assert (np.diff(later) > 0).all()
        assert set(batch.parent[(batch.child == i) & (batch.parent >= 0)]) <= set(later)
        if len(later):
            assert set(later[1:]) <= set(members[later[0]]), "the parent contains the others"
