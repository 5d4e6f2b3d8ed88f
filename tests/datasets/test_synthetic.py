"""Generators: their data follow the model they report."""

import itertools

import numpy as np
import pytest

from robustruct.datasets import make_chains, make_grids, make_trees
from robustruct.errors import InvalidInputError

MAKERS = [make_chains, make_trees, make_grids]


def nodes(sample):
    return sample if isinstance(sample, np.ndarray) else sample.node_features


@pytest.mark.parametrize("make", MAKERS)
def test_same_seed_same_data(make):
    first, again, other = make(seed=1), make(seed=1), make(seed=2)
    for a, b in zip(first.X, again.X, strict=True):
        np.testing.assert_array_equal(nodes(a), nodes(b))
    np.testing.assert_array_equal(np.concatenate(first.y), np.concatenate(again.y))
    assert not np.array_equal(first.truth.means, other.truth.means)


@pytest.mark.parametrize("make", MAKERS)
def test_true_scores_recover_labels_when_there_is_little_noise(make):
    data = make(n_samples=10, n_labels=4, noise=0.05)
    for sample, labels in zip(data.X, data.y, strict=True):
        np.testing.assert_array_equal(data.truth.unary(nodes(sample)).argmax(axis=1), labels)


@pytest.mark.parametrize("make", MAKERS)
def test_subset_keeps_the_truth(make):
    data = make(n_samples=4)
    assert data.subset(slice(2)).truth is data.truth


def test_scores_are_the_log_likelihood_up_to_a_constant():
    data = make_chains(n_samples=1, n_nodes=5, noise=0.7)
    x, truth = data.X[0], data.truth
    exact = -0.5 * ((x[:, None] - truth.means) ** 2).sum(axis=2) / 0.7**2
    shift = truth.unary(x) - exact
    np.testing.assert_allclose(shift, np.broadcast_to(shift[:, :1], shift.shape))


@pytest.mark.parametrize("make", [make_chains, make_trees])
def test_steps_have_the_frequencies_of_the_model(make):
    data = make(n_samples=400, n_nodes=30, n_labels=3, n_features=1, coupling=0.8)
    count = np.zeros((3, 3))
    for sample, labels in zip(data.X, data.y, strict=True):
        first, second = (
            (labels[:-1], labels[1:])
            if make is make_chains
            else (labels[sample.edges[:, 0]], labels[sample.edges[:, 1]])
        )
        np.add.at(count, (first, second), 1)
    frequency = count / count.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(frequency, np.exp(data.truth.pairwise), atol=0.02)


def test_grids_have_the_frequencies_of_the_model():
    data = make_grids(n_samples=8000, shape=(2, 2), n_labels=2, n_features=1, coupling=1.5)
    edges = data.X[0].edges
    all_labels = np.array(list(itertools.product(range(2), repeat=4)))
    score = data.truth.pairwise[all_labels[:, edges[:, 0]], all_labels[:, edges[:, 1]]].sum(axis=1)
    expected = np.exp(score) / np.exp(score).sum()
    drawn = np.bincount(np.array(data.y) @ [8, 4, 2, 1], minlength=16) / len(data)
    np.testing.assert_allclose(drawn, expected, atol=0.02)


def test_sizes_lie_in_the_range():
    sizes = [len(labels) for labels in make_chains(n_samples=200, n_nodes=(2, 4)).y]
    assert set(sizes) == {2, 3, 4}


def test_a_tree_is_one_tree():
    for graph in make_trees(n_samples=20, n_nodes=(1, 9)).X:
        assert graph.n_edges == graph.n_nodes - 1
        assert (graph.edges[:, 0] < graph.edges[:, 1]).all()
        assert sorted(graph.edges[:, 1].tolist()) == list(range(1, graph.n_nodes))


def test_grid_edges_go_right_then_down():
    graph = make_grids(n_samples=1, shape=(2, 3)).X[0]
    assert graph.edges.tolist() == [[0, 1], [1, 2], [3, 4], [4, 5], [0, 3], [1, 4], [2, 5]]


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (make_chains, {"n_labels": 1}, "at least 2 labels"),
        (make_chains, {"noise": 0}, "noise=0"),
        (make_chains, {"coupling": float("inf")}, "coupling=inf"),
        (make_trees, {"n_nodes": (3, 2)}, "3 to 2 nodes"),
        (make_trees, {"n_samples": 0}, "at least one sample"),
        (make_grids, {"shape": (0, 3)}, "rows, columns"),
        (make_grids, {"n_samples": 0}, "at least one sample"),
    ],
)
def test_bad_arguments_are_named(make, arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        make(**arguments)
