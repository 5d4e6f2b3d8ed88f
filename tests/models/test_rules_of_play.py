"""Rules bind the predictor too: no mass on what cannot occur, and decisions that keep the rules."""

from itertools import pairwise

import numpy as np
import pytest

from robustruct import AGM, Graph, solve_game
from robustruct.losses import CostMatrix
from robustruct.testing.oracles import full_game_value, possible_labels

LABELS = ["B-x", "I-x", "O"]
# I-x is a cheap answer to everything: without rules the predictor would give it at the start.
COST = CostMatrix([[0, 0.1, 1], [1, 0, 1], [1, 0.1, 0]], LABELS)


@pytest.fixture(scope="module")
def tagger():
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(30):
        labels = ["B-x" if rng.random() < 0.5 else "O"]
        for _ in range(2):
            labels.append(rng.choice(["I-x", "O"] if labels[-1] != "O" else ["B-x", "O"]))
        X.append(np.eye(3)[[LABELS.index(a) for a in labels]] + rng.normal(size=(3, 3)))
        y.append(labels)
    return AGM(COST, alpha=0.02, tol=1e-4, constraints="BIO", random_state=0).fit(X, y), X


def game_of(model, x):
    """Scores of a chain under BIO, from the weights."""
    (unary,) = model.decision_function([x])
    unary[0, 1] = -np.inf
    tables = np.repeat(model.transitions_[None], len(x) - 1, axis=0)
    tables[:, 2, 1] = -np.inf
    return unary, [(i, i + 1) for i in range(len(x) - 1)], tables, model.cost_


def test_the_predictor_plays_no_label_that_cannot_occur(tagger):
    model, X = tagger
    losses = []
    for x, p, game in zip(
        X[:8], model.predict_proba(X[:8]), model.predict_games(X[:8]), strict=True
    ):
        scores = game_of(model, x)
        assert not possible_labels(*scores[:3])[0, 1]
        assert p[0, 1] == game.predictor[0, 1] == 0
        value = full_game_value(*scores)
        assert game.lower - 1e-7 <= value <= game.upper + 1e-7
        assert game.gap <= 1e-5
        free = np.where(np.isneginf(scores[0]), -100.0, scores[0])
        losses.append(value - full_game_value(free, *scores[1:]))
    # The rule matters: over all labels the predictor would do better with I-x at the start.
    assert min(losses) > -1e-7
    assert max(losses) > 0.01


def test_labels_that_only_neighbours_rule_out(tagger):
    """Where the second node must be O, the third cannot go on with I-x."""
    model, X = tagger
    unary, edges, tables, cost = game_of(model, X[0])
    unary[1, :2] = -np.inf
    for solver, tol in (("interior_point", 1e-6), ("pairwise", 1e-3), ("linear_program", 1e-6)):
        solution = solve_game(unary, edges, tables, cost, solver=solver, tol=tol)
        assert solution.predictor[2, 1] == 0
        value = full_game_value(unary, edges, tables, cost)
        assert solution.lower - 1e-7 <= value <= solution.upper + 1e-7


def test_the_decision_keeps_the_rules_and_the_likeliest_labels_where_these_do(tagger):
    model, X = tagger
    model.set_params(decision="predictor")
    kept = 0
    for labels, p in zip(model.predict(X), model.predict_proba(X), strict=True):
        assert labels[0] != "I-x"
        assert ("O", "I-x") not in pairwise(labels)
        likeliest = [LABELS[a] for a in p.argmax(axis=1)]
        if ("O", "I-x") not in pairwise(likeliest):
            assert labels == likeliest
            kept += 1
    model.set_params(decision="map")
    assert kept > 10


@pytest.mark.parametrize(("weight", "labels"), [([1.0, 3.0], [1, 0]), ([3.0, 1.0], [0, 1])])
def test_where_the_likeliest_labels_exclude_each_other_the_adversary_decides(weight, labels):
    """0 is the safe answer on both nodes, but not on both at once.

    Of the others, 1 is dearer where 2 is true than 0, and 2 dearer still where 1 is true. So the
    lighter node has to give way, and to 1; what rounding leaves of p would say nothing.
    """
    cost = [[0, 1, 1], [0.1, 0, 2], [0.1, 1, 0]]
    X = [np.ones((2, 1))] * 3
    model = AGM(cost, alpha=1.0, constraints=[(0, 0)], decision="predictor")
    model.fit(X, [[0, 1], [1, 0], [2, 2]])
    model.coef_[:] = 0
    (p,) = model.predict_proba(X[:1], [weight])
    assert (p[:, 0] > 0.99).all()
    np.testing.assert_array_equal(model.predict(X[:1], [weight])[0], labels)


def test_rules_on_cycles():
    """A triangle on which 1 may follow nothing: every node is entered, so 1 cannot occur."""
    rng = np.random.default_rng(0)
    place = np.arange(3.0)
    squared = (place[:, None] - place) ** 2
    X = [Graph(rng.normal(size=(3, 2)), [(0, 1), (1, 2), (2, 0)]) for _ in range(8)]
    X.append(Graph(rng.normal(size=(1, 2)), []))
    y = [rng.choice([0, 2], size=3) for _ in range(8)] + [np.array([1])]
    model = AGM(squared, alpha=0.1, constraints=[(a, 1) for a in range(3)], random_state=0)
    model.fit(X, y)
    for x, game in zip(X[:3], model.predict_games(X[:3]), strict=True):
        assert (game.predictor[:, 1] == 0).all()
        (unary,), tables = model.decision_function([x]), np.repeat(model.transitions_[None], 3, 0)
        tables[:, :, 1] = -np.inf
        value = full_game_value(unary, x.edges, tables, squared)
        assert game.lower - 1e-6 <= value <= game.upper + 1e-6
    for labels in model.set_params(decision="predictor").predict(X[:8]):
        assert set(labels) <= {0, 2}
