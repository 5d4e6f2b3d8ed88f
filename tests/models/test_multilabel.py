"""Multi-label classification: the label graph, and a model per question where there is none."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import mutual_info_score

from corpora import load_multilabel
from robustruct import AGM, CRF
from robustruct.errors import InvalidInputError
from robustruct.graphs import treewidth
from robustruct.multilabel import MultiLabel, label_graph, label_graphs, mutual_information


def answers(n=200, m=6, seed=0):
    """A chain of noisy copies, columns shuffled."""
    rng = np.random.default_rng(seed)
    Y = np.empty((n, m), int)
    Y[:, 0] = rng.integers(2, size=n)
    for j in range(1, m):
        Y[:, j] = np.where(rng.random(n) < 0.8, Y[:, j - 1], rng.integers(2, size=n))
    names = rng.permutation(m)
    return Y[:, names], np.argsort(names)


def test_mutual_information_is_that_of_scikit_learn():
    Y = np.random.default_rng(0).integers(3, size=(50, 4))
    found = mutual_information(Y)
    for i, j in itertools.combinations(range(4), 2):
        assert found[i, j] == pytest.approx(mutual_info_score(Y[:, i], Y[:, j]), abs=1e-12)


def test_the_tree_carries_most_information_of_all_trees():
    Y, place = answers(m=5)
    information = mutual_information(Y)
    edges = label_graph(Y)
    best = max(
        sum(information[i, j] for i, j in tree)
        for tree in itertools.combinations(itertools.combinations(range(5), 2), 4)
        if treewidth(5, np.array(tree))[1] == 1 and len({i for pair in tree for i in pair}) == 5
    )
    assert sum(information[i, j] for i, j in edges) == pytest.approx(best)
    chain = {tuple(sorted(pair)) for pair in itertools.pairwise(place)}
    assert set(map(tuple, edges.tolist())) == chain


@pytest.mark.parametrize("width", [1, 2, 3])
def test_more_edges_stay_within_the_width_and_no_more_would(width):
    Y, _ = answers()
    edges = label_graph(Y, width)
    assert treewidth(6, edges)[1] == width
    known = set(map(tuple, edges.tolist()))
    for pair in set(itertools.combinations(range(6), 2)) - known:
        assert treewidth(6, np.array([*known, pair]))[1] > width


def test_columns_without_any_variation_are_joined_too():
    Y = np.zeros((10, 3), int)
    assert len(label_graph(Y)) == 2
    with pytest.raises(InvalidInputError, match="treewidth 1 or more"):
        label_graph(Y, 0)


def test_without_edges_every_question_is_a_classifier_of_its_own():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 3))
    Y = (X @ rng.normal(size=(3, 2)) + 0.5 * rng.normal(size=(60, 2)) > 0).astype(int)
    # Both objectives are means over questions and samples; the penalty is per question.
    together = MultiLabel(CRF(alpha=0.1, tol=1e-8), edges=[]).fit(X, Y)
    for j in range(2):
        one = CRF(alpha=0.1, tol=1e-8, standardize=False).fit(
            np.column_stack([X, np.ones(60)]), Y[:, j]
        )
        alone = one.predict_proba(np.column_stack([X, np.ones(60)]))
        np.testing.assert_allclose(together.predict_proba(X)[:, j], alone, atol=0.02)


def test_sparse_rows_are_the_dense_ones():
    X = np.array([[0.0, 2.0], [1.0, 0.0]])
    for one, other in zip(
        label_graphs(X, [(0, 1)], 2), label_graphs(sp.csr_array(X), [(0, 1)], 2), strict=True
    ):
        np.testing.assert_array_equal(one.node_features.toarray(), other.node_features.toarray())
    first = label_graphs(X, [(0, 1)], 2)[0].node_features.toarray()
    np.testing.assert_array_equal(first, [[0, 2, 1, 0, 0, 0], [0, 0, 0, 0, 2, 1]])


@pytest.mark.parametrize("width", [1, 2])
def test_answers_are_better_than_the_commonest(width):
    Y, _ = answers(300, seed=3)
    rng = np.random.default_rng(4)
    X = Y + 1.2 * rng.normal(size=Y.shape)
    train, test = slice(0, 200), slice(200, None)
    joined = MultiLabel(AGM(alpha=0.01, random_state=0), width=width).fit(X[train], Y[train])
    assert joined.predict(X[test]).shape == (100, 6)
    commonest = np.round(Y[train].mean(axis=0))
    assert -joined.score(X[test], Y[test]) < 0.6 * np.mean(Y[test] != commonest)
    np.testing.assert_allclose(joined.predict_proba(X[test]).sum(axis=2), 1.0)
    with pytest.raises(InvalidInputError, match="one column per question"):
        joined.fit(X, Y[:, 0])


@pytest.mark.data
def test_scene_is_answered_better_together(data_home):
    train, test = (load_multilabel(split, data_home=data_home) for split in ("train", "test"))
    some = slice(None, None, 3)  # the photographs come sorted by label
    error = {}
    for name, edges in (("alone", []), ("together", None)):
        model = MultiLabel(CRF(alpha=0.01, tol=1e-2), edges=edges, width=2)
        model.fit(train.X[some], train.y[some])
        error[name] = -model.score(test.X, test.y)
    assert error["together"] < error["alone"] < 0.14
