"""Real data sets: the counts their publishers state."""

from collections import Counter

import numpy as np
import pytest

import corpora
from robustruct.datasets import position_weights

pytestmark = pytest.mark.data


def counts(data):
    labels, number = np.unique(np.concatenate(data.y), return_counts=True)
    return dict(zip(labels.tolist(), number.tolist(), strict=True))


def test_emotion(data_home):
    data = corpora.load_emotion(data_home=data_home)
    assert (len(data), data.n_nodes) == (167, 3026)
    assert counts(data) == {1: 585, 2: 1261, 3: 1180}
    assert np.bincount(data.groups).tolist() == [0, 17, 26, 26, 39, 21, 38]
    for graph, labels, kind in zip(data.X, data.y, data.groups, strict=True):
        n = len(labels)
        assert graph.node_features.shape == (n, 156)
        assert graph.edge_features.shape == (n - 1, 156)
        assert labels[0] == 1
        assert (np.diff(labels) >= 0).all()
        block = slice((kind - 1) * 26, kind * 26)
        for features in (graph.node_features, graph.edge_features):
            assert (features[:, block.stop - 1] == 1).all()
            assert not np.delete(features, np.arange(156)[block], axis=1).any()
        frames = graph.node_features[:, block]
        differences = np.abs(frames[1:] - frames[:-1])[:, :25]
        np.testing.assert_array_equal(graph.edge_features[:, block][:, :25], differences)


def test_emotion_splits(data_home):
    splits = corpora.emotion_splits(data_home=data_home)
    assert len(splits) == 20
    for train, test in splits:
        assert (len(train), len(test)) == (120, 47)
        assert sorted([*train, *test]) == list(range(167))
    assert splits[0][0][:3].tolist() == [122, 60, 134]  # the file counts from 1


def test_emotion_always_increasing_costs_what_its_readme_says(data_home):
    from robustruct.metrics import mean_loss

    data = corpora.load_emotion(data_home=data_home)
    plain, weighted = [], []
    for _, test in corpora.emotion_splits(data_home=data_home):
        y = data.subset(test).y
        guess = [np.full(len(labels), 2) for labels in y]
        weight = position_weights(y)
        plain.append(mean_loss(y, guess, "absolute", average="sample"))
        weighted.append(mean_loss(y, guess, "squared", weight, average="sample"))
    assert np.mean(plain) == pytest.approx(0.579, abs=5e-4)
    assert np.mean(weighted) == pytest.approx(0.670, abs=5e-4)


@pytest.mark.parametrize(
    ("split", "sentences", "tokens", "n_labels"),
    [("train", 8936, 211727, 22), ("test", 2012, 47377, 19)],
)
def test_conll2000(data_home, split, sentences, tokens, n_labels):
    data = corpora.load_conll2000(split, data_home=data_home)
    assert (len(data), data.n_nodes) == (sentences, tokens)
    assert len(counts(data)) == n_labels
    assert [len(sentence) for sentence in data.X] == [len(labels) for labels in data.y]
    if split == "train":
        assert counts(data)["I-NP"] == 63307
        assert data.X[0][:2] == [("Confidence", "NN"), ("in", "IN")]
        assert max(map(len, data.X)) == 78


def test_snakes(data_home):
    train, test = (corpora.load_snakes(split, data_home=data_home) for split in ("train", "test"))
    assert (len(train), len(test)) == (200, 100)
    for data in (train, test):
        for graph, labels in zip(data.X, data.y, strict=True):
            assert (
                np.bincount(labels, minlength=11)[1:].tolist() == [1] * 10
            )  # a snake of ten cells
            assert graph.n_nodes == len(labels)
            assert graph.node_features.sum() == 9 * len(labels)  # a colour in each window's cell
            assert graph.edge_features.sum() == 18 * len(graph.edges)
    plain = corpora.load_snakes("test", conditional=False, data_home=data_home).X[0]
    assert plain.edge_features.shape[1] == 2


def test_ocr(data_home):
    data = corpora.load_ocr(data_home=data_home)
    assert (len(data), data.n_nodes) == (6877, 52152)
    assert np.bincount(data.groups).tolist() == [
        626,
        704,
        684,
        698,
        693,
        651,
        739,
        717,
        690,
        675,
    ]
    assert counts(data)["a"] == 4034
    assert counts(data)["z"] == 1094
    lengths = [len(x) for x in data.X]
    assert (min(lengths), max(lengths)) == (3, 14)
    assert all(x.shape == (len(labels), 128) for x, labels in zip(data.X, data.y, strict=True))
    assert set(np.unique(np.concatenate(data.X))) == {0.0, 1.0}
    fold = data.subset(data.groups == 0)
    assert (len(fold), fold.n_nodes) == (626, 4617)


@pytest.mark.parametrize(
    ("split", "trees", "nodes", "roots"),
    [
        ("dev", 1101, {0: 1070, 1: 4613, 2: 28305, 3: 5781, 4: 1678}, [139, 289, 229, 279, 165]),
        ("test", 2210, {0: 2008, 1: 9255, 2: 56548, 3: 10998, 4: 3791}, [279, 633, 389, 510, 399]),
    ],
)
def test_sst(data_home, split, trees, nodes, roots):
    data = corpora.load_sst(split, data_home=data_home)
    assert len(data) == trees
    assert counts(data) == nodes
    assert np.bincount([labels[0] for labels in data.y]).tolist() == roots
    for graph in data.X:
        assert graph.n_edges == graph.n_nodes - 1
        assert set(np.bincount(graph.edges[:, 0], minlength=graph.n_nodes)) <= {0, 2}


@pytest.mark.parametrize(
    ("split", "sentences", "words", "persons"),
    [("train", 3394, 62730, 660), ("dev", 1009, 15733, 470), ("test", 1287, 23394, 429)],
)
def test_wnut17(data_home, split, sentences, words, persons):
    data = corpora.load_wnut17(split, data_home=data_home)
    assert (len(data), data.n_nodes) == (sentences, words)
    found = counts(data)
    assert (len(found), found["B-person"]) == (13, persons)


@pytest.mark.parametrize("structure", ["chain", "tree"])
@pytest.mark.parametrize(
    ("split", "sentences", "words"), [("dev", 2001, 25147), ("test", 2077, 25094)]
)
def test_ewt(data_home, split, sentences, words, structure):
    data = corpora.load_ewt_pos(split, structure=structure, data_home=data_home)
    assert (len(data), data.n_nodes) == (sentences, words)
    if structure == "tree":
        assert all(graph.n_edges == graph.n_nodes - 1 for graph in data.X)


@pytest.mark.parametrize(("label", "n_labels"), [("upos", 17), ("xpos", 49), ("deprel", 51)])
def test_ewt_labels(data_home, label, n_labels):
    data = corpora.load_ewt_pos("train", label=label, data_home=data_home)
    assert (len(data), data.n_nodes) == (12544, 204577)
    assert len(counts(data)) == n_labels
    if label == "upos":
        assert counts(data)["NOUN"] == 34751


@pytest.mark.parametrize(
    ("split", "n_samples", "positive"),
    [
        ("train", 1211, [227, 165, 197, 196, 277, 224]),
        ("test", 1196, [200, 199, 200, 237, 256, 207]),
    ],
)
def test_multilabel(data_home, split, n_samples, positive):
    data = corpora.load_multilabel(split, data_home=data_home)
    assert data.X.shape == (n_samples, 294)
    assert data.y.shape == (n_samples, 6)
    assert data.y.sum(axis=0).tolist() == positive
    assert len(corpora.SCENE_LABELS) == 6


@pytest.mark.parametrize(
    ("corpus", "split", "trees", "classes"),
    [
        ("ewt", "dev", 3221, [1507, 2709, 1074, 52, 58, 4, 3221, 2398, 33715]),
        ("wsj", "test", 3323, [1951, 2996, 899, 127, 88, 4, 3323, 2437, 44686]),
    ],
)
def test_srl(data_home, corpus, split, trees, classes):
    data = corpora.load_srl(corpus, split, data_home=data_home)
    assert len(data) == trees
    assert list(counts(data).values()) == classes
    assert len(corpora.ROLES) == len(classes)
    for tree, labels in zip(data.X, data.y, strict=True):
        assert tree.n_nodes == len(labels) == len(tree.path)
        assert len(tree.edges) == tree.n_nodes - 1
        assert (tree.parent < np.arange(tree.n_nodes)).all()
        assert Counter(labels.tolist())[corpora.ROLES.index("V")] == 1
