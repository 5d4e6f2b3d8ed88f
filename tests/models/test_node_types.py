"""Nodes of several types in one graph: their own labels, costs and weights."""

import itertools

import numpy as np
import pytest

import robustruct
from robustruct import AGM, CRF, SSVM, Graph
from robustruct.errors import InvalidInputError
from robustruct.losses import CostMatrix, Hamming, LabelSets
from robustruct.testing.oracles import matrix_game

TOKENS, SENTENCES = ["in", "out"], ["bad", "good", "great"]
LOSS = LabelSets(
    CostMatrix([[0, 1], [3, 0]], labels=TOKENS),
    CostMatrix([[0, 1, 4], [1, 0, 2], [2, 1, 0]], labels=SENTENCES),
)


def sentences(n_samples, seed=0):
    """Three tokens in a chain and their sentence, joined to all of them: treewidth 2."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_samples):
        mood = int(rng.integers(3))
        tokens = rng.random(3) < [0.2, 0.5, 0.8][mood]
        rows = [{"word": float(t) + rng.normal()} for t in tokens]
        rows.append({"length": mood + rng.normal()})
        edges = [(0, 1), (1, 2), (0, 3), (1, 3), (3, 2)]
        types = ["token"] * 3 + ["sentence"]
        X.append(Graph(rows, edges, node_types=types))
        y.append([*(np.array(TOKENS)[(~tokens).astype(int)]), SENTENCES[mood]])
    return X, y


X, Y = sentences(30)


def allowed_labellings(model, x):
    """(labels, score) of every labelling whose labels fit the types."""
    choices = [TOKENS if kind == "token" else SENTENCES for kind in x.node_types]
    for labels in itertools.product(*choices):
        yield labels, float(model.log_score([x], [list(labels)])[0])


@pytest.mark.parametrize("Model", [AGM, SSVM, CRF])
def test_nodes_get_labels_of_their_type(Model):
    model = Model(LOSS, alpha=0.1, random_state=0).fit(X, Y)
    assert model.classes_.tolist() == ["bad", "good", "great", "in", "out"]
    assert {kind: set(labels) for kind, labels in model.type_labels_.items()} == {
        "token": set(TOKENS),
        "sentence": set(SENTENCES),
    }
    for labels in model.predict(X):
        assert set(labels[:3]) <= set(TOKENS)
        assert labels[3] in SENTENCES
    for p in model.predict_proba(X[:3]):
        assert (p[:3, :3] == 0).all()
        assert (p[3, 3:] == 0).all()


def test_best_labelling_and_marginals_are_those_of_enumeration():
    model = CRF(LOSS, alpha=0.1, decision="map").fit(X, Y)
    x = X[0]
    labellings, scores = zip(*allowed_labellings(model, x), strict=True)
    scores = np.array(scores)
    best = labellings[int(scores.argmax())]
    assert list(model.predict([x])[0]) == list(best)
    weight = np.exp(scores - scores.max())
    weight /= weight.sum()
    for i in range(4):
        for a, label in enumerate(model.classes_):
            mass = sum(w for w, y in zip(weight, labellings, strict=True) if y[i] == label)
            assert model.predict_proba([x])[0][i, a] == pytest.approx(mass, abs=1e-9)


def test_the_game_is_that_of_players_who_keep_to_the_types():
    model = AGM(LOSS, alpha=0.1, random_state=0).fit(X, Y)
    x = X[1]
    labellings, scores = zip(*allowed_labellings(model, x), strict=True)
    losses = [[LOSS.evaluate(b, a).sum() for b in labellings] for a in labellings]
    value, _, _ = matrix_game(np.array(losses) + np.array(scores))
    design, _ = model._encode([x])
    ((game, play),) = model._games(model._scores(design))
    lower, upper = play.bounds(game)
    assert lower[0] - 1e-5 <= value <= upper[0] + 1e-5
    assert upper[0] - lower[0] <= 1e-4


def test_types_survive_a_file(tmp_path):
    model = AGM(LOSS, alpha=0.1, random_state=0).fit(X, Y)
    model.save(tmp_path / "model")
    again = robustruct.load(tmp_path / "model")
    for one, other in zip(model.predict(X), again.predict(X), strict=True):
        assert one == other
    with pytest.raises(InvalidInputError, match="unlike the samples of training"):
        again.predict([Graph(x.node_features, x.edges) for x in X])
    strange = [Graph(x.node_features, x.edges, node_types=["a"] * 4) for x in X]
    with pytest.raises(InvalidInputError, match="'a', which training has not seen"):
        again.predict(strange)


@pytest.mark.parametrize("types", [["a"], "abc", [1.5] * 4, [True] * 4])
def test_types_are_checked(types):
    with pytest.raises(InvalidInputError, match="type"):
        Graph(np.eye(4), [(0, 1)], node_types=types)
    with pytest.raises(InvalidInputError, match="sample 1 has no node_types"):
        CRF().fit([X[0], Graph(X[1].node_features, X[1].edges)], Y[:2])


def test_label_sets_are_checked():
    with pytest.raises(InvalidInputError, match="CostMatrix"):
        LabelSets(Hamming())
    with pytest.raises(InvalidInputError, match="two sets"):
        LabelSets(CostMatrix(1 - np.eye(2), ["a", "b"]), CostMatrix(1 - np.eye(2), ["b", "c"]))
