"""Labels that are known at prediction: what is answered is conditional on them."""

from itertools import product

import numpy as np
import pytest

from robustruct import AGM, CRF, SSVM, Graph
from robustruct.errors import InvalidInputError
from robustruct.losses import CostMatrix
from robustruct.testing.oracles import full_game_value, labelling_score

LABELS = ["B-x", "I-x", "O"]
COST = CostMatrix([[0, 1, 4], [1, 0, 4], [1, 1, 0]], LABELS)
KNOWN = [None, {"I-x", "O"}, None, "O"]


def samples(n=12, length=4, seed=0):
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        labels = ["B-x" if rng.random() < 0.5 else "O"]
        for _ in range(length - 1):
            labels.append(str(rng.choice(["I-x", "O"] if labels[-1] != "O" else ["B-x", "O"])))
        X.append(np.eye(3)[[LABELS.index(a) for a in labels]] + 2 * rng.normal(size=(length, 3)))
        y.append(labels)
    return X, y


def scores_of(model, x, edges, known):
    """Unary and pairwise scores with -inf for what rules and known labels exclude."""
    unary = model.decision_function([x])[0].copy()
    tables = np.repeat(model.transitions_[None], len(edges), axis=0)
    if model.constraints == "BIO":
        unary[0, 1] = -np.inf
        tables[:, 2, 1] = -np.inf
    for i, labels in enumerate(known):
        if labels is not None:
            labels = {labels} if isinstance(labels, str) else labels
            unary[i, [a for a, name in enumerate(LABELS) if name not in labels]] = -np.inf
    return unary, tables


def enumerated(unary, tables, edges):
    """All labellings that can occur, and their scores."""
    labellings = [
        (y, labelling_score(unary, edges, tables, y)) for y in product(range(3), repeat=len(unary))
    ]
    return [(y, score) for y, score in labellings if score > -np.inf]


CHAIN = [(0, 1), (1, 2), (2, 3)]
CYCLE = [(0, 1), (1, 2), (2, 3), (0, 3)]


def fitted(model, edges):
    X, y = samples()
    if edges is CYCLE:
        X = [Graph(x, np.array(edges)) for x in X]
    return model.fit(X, y), X


@pytest.mark.parametrize(("edges", "rules"), [(CHAIN, "BIO"), (CHAIN, None), (CYCLE, None)])
def test_marginals_and_k_best_are_those_of_the_labellings_that_agree(edges, rules):
    model, X = fitted(CRF(COST, constraints=rules), edges)
    for x, r, best in zip(
        X[:4],
        model.predict_proba(X[:4], known=[KNOWN] * 4),
        model.predict_k_best(X[:4], 3, known=[KNOWN] * 4),
        strict=True,
    ):
        found = enumerated(*scores_of(model, x, edges, KNOWN), edges)
        weight = np.exp([score for _, score in found])
        expected = np.zeros((4, 3))
        for (y, _), w in zip(found, weight / weight.sum(), strict=True):
            expected[range(4), y] += w
        np.testing.assert_allclose(r, expected, atol=1e-9)
        ranked = sorted(found, key=lambda one: -one[1])[:3]
        assert [labels for labels, _ in best] == [[LABELS[a] for a in y] for y, _ in ranked]


@pytest.mark.parametrize("rules", ["BIO", None])
@pytest.mark.parametrize("model", [AGM, SSVM])
def test_the_best_labelling_that_agrees(model, rules):
    model, X = fitted(model(COST, decision="map", constraints=rules, alpha=0.01), CHAIN)
    changed = 0
    for x, labels, free in zip(
        X, model.predict(X, known=[KNOWN] * len(X)), model.predict(X), strict=True
    ):
        found = enumerated(*scores_of(model, x, CHAIN, KNOWN), CHAIN)
        assert labels == [LABELS[a] for a in max(found, key=lambda one: one[1])[0]]
        changed += (labels[0], labels[2]) != (free[0], free[2])
    assert changed  # a known label tells about nodes beside it


@pytest.mark.parametrize("temperature", [0.0, 0.5])
def test_the_game_is_played_among_labellings_that_agree(temperature):
    model, X = fitted(AGM(COST, temperature=temperature, constraints="BIO", alpha=0.1), CHAIN)
    known = [KNOWN] * len(X)
    for x, p, labels in zip(
        X, model.predict_proba(X, known=known), model.predict(X, known=known), strict=True
    ):
        unary, tables = scores_of(model, x, CHAIN, KNOWN)
        possible = np.isfinite(unary)
        assert (p[~possible] == 0).all()
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        assert labels[3] == "O"
        assert labels[1] in {"I-x", "O"}
        if temperature == 0.0:
            value = full_game_value(unary, CHAIN, tables, COST.matrix(LABELS))
            # The predictor's strategy guarantees the value against every labelling that agrees.
            cost = COST.matrix(LABELS)
            answers = [
                score + sum(p[i] @ cost[b] for i, b in enumerate(y))
                for y, score in enumerated(unary, tables, CHAIN)
            ]
            assert max(answers) <= value + 1e-4


def test_nothing_known_changes_nothing():
    model, X = fitted(AGM(COST, constraints="BIO"), CHAIN)
    nothing = [[None, float("nan"), set(LABELS), None]] * len(X)
    assert model.predict(X, known=nothing) == model.predict(X)
    assert model.predict(X, known=[None] * len(X)) == model.predict(X)


def test_rows_of_an_array():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    model = AGM().fit(X, np.where(X[:, 0] > 0, "a", "b"))
    free = model.predict(X)
    known = [None] * 15 + ["a"] * 15
    assert (model.predict(X, known=known)[15:] == "a").all()
    assert (model.predict(X, known=known)[:15] == free[:15]).all()


@pytest.mark.parametrize(
    ("known", "node", "part"),
    [
        ([None, "O", "I-x", None], 2, "keeps the rules"),
        ([{"I-x"}, None, None, None], 0, "keeps the rules"),
        ([None, "Z", None, None], 1, "'Z' is not among"),
        ([None, {"O", "Z"}, None, None], 1, "'Z' is not among"),
        ([None, set(), None, None], 1, "set of labels is empty"),
        ([None, {"O": 0.5, "B-x": 0.5}, None, None], None, "a dict of weights"),
        ([None, "O"], None, "2 labels"),
        ("O", None, "list of labels"),
    ],
)
def test_bad_known_labels_are_errors_with_their_place(known, node, part):
    model, X = fitted(CRF(COST, constraints="BIO"), CHAIN)
    with pytest.raises(InvalidInputError, match=part) as error:
        model.predict(X, known=[None] * 3 + [known] + [None] * (len(X) - 4))
    if node is not None:
        assert (error.value.sample, error.value.node, error.value.field) == (3, node, "known")


def test_uncertainty_is_what_a_prediction_is_expected_to_cost():
    model, X = fitted(CRF(COST), CHAIN)
    expected = [
        sum(r @ model.cost_[:, LABELS.index(a)] for r, a in zip(rows, labels, strict=True))
        for rows, labels in zip(model.predict_proba(X), model.predict(X), strict=True)
    ]
    np.testing.assert_allclose(model.uncertainty(X), expected)
    whole = [["O"] * 4] * len(X)
    np.testing.assert_allclose(model.uncertainty(X, known=whole), 0.0, atol=1e-12)
