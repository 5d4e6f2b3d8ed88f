"""The games behind predictions: in the user's order, and about the weighted cost."""

import copy
from itertools import pairwise, product

import numpy as np
import pytest

from robustruct import AGM, CRF, Graph, solve_game
from robustruct.metrics import mean_loss
from robustruct.models import prediction


@pytest.fixture(scope="module")
def model() -> AGM:
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(4, 3)) for _ in range(15)]
    y = [np.digitize(x[:, 0] + 0.5 * rng.normal(size=4), [-0.5, 0.5]) for x in X]
    return AGM("absolute", alpha=0.05, random_state=0).fit(X, y)


# A tree whose nodes the batch has to put in another order.
TREE = Graph(np.random.default_rng(1).normal(size=(4, 3)), [(2, 0), (3, 2), (2, 1)])
WEIGHT = np.array([0.5, 2.0, 1.0, 3.0])


def clone_with(model: AGM, **parameters: object) -> AGM:
    """The fitted model with other parameters."""
    return copy.copy(model).set_params(**parameters)


@pytest.mark.parametrize("x", [TREE, TREE.node_features], ids=["tree", "chain"])
@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_games_are_those_of_the_scores(model: AGM, x: object, weight: np.ndarray | None) -> None:
    weights = None if weight is None else [weight]
    (found,) = model.predict_games([x], weights, solver="pairwise", tol=1e-3)
    edges = x.edges if isinstance(x, Graph) else [(0, 1), (1, 2), (2, 3)]
    (unary,) = model.decision_function([x])
    pairwise = np.repeat(model.transitions_[None], len(edges), axis=0)
    exact = solve_game(unary, edges, pairwise, model.cost_, weight, solver="linear_program")
    assert found.lower - 1e-7 <= exact.value <= found.upper + 1e-7
    scale = np.ptp(model.cost_) * (4 if weight is None else weight.sum())
    assert found.gap <= 1e-3 * scale + 1e-9
    # Against the adversary found, the predictor found does as well as any.
    factor = np.ones(4) if weight is None else weight
    answers = found.adversary_nodes @ model.cost_
    regret = (found.predictor * answers).sum(axis=1) - answers.min(axis=1)
    assert factor @ regret <= found.gap + 1e-9


@pytest.mark.parametrize("weight", [None, [WEIGHT]])
def test_the_predictor_is_what_predict_proba_says(model: AGM, weight: object) -> None:
    (game,), (p,) = model.predict_games([TREE], weight), model.predict_proba([TREE], weight)
    np.testing.assert_allclose(game.predictor, p, atol=1e-9)
    chosen = clone_with(model, decision="predictor").predict([TREE], weight)
    np.testing.assert_array_equal(chosen[0], model.classes_[p.argmax(axis=1)])


def test_node_weights_reach_every_prediction(model: AGM) -> None:
    (p,) = model.predict_proba([TREE], [WEIGHT])
    assert np.abs(p - model.predict_proba([TREE])[0]).max() > 0.01


def test_score_decides_with_the_weights_it_measures_with(model: AGM) -> None:
    rng = np.random.default_rng(3)
    X = [rng.normal(size=(5, 3)) for _ in range(30)]
    y = [rng.integers(3, size=5) for _ in X]
    weight = [rng.choice([0.1, 4.0], size=5) for _ in X]
    player = clone_with(model, decision="predictor")
    labels = player.predict(X, weight)
    assert any((a != b).any() for a, b in zip(labels, player.predict(X), strict=True))
    assert player.score(X, y, None, weight) == pytest.approx(
        -mean_loss(y, labels, "absolute", weight)
    )


def test_games_in_parts_take_the_weights_of_their_nodes(
    model: AGM, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(4)
    X = [TREE, *(rng.normal(size=(n, 3)) for n in (2, 5, 3)), TREE]
    weight = [rng.uniform(0, 3, size=n) for n in (4, 2, 5, 3, 4)]
    whole = model.predict_proba(X, weight)
    monkeypatch.setattr(prediction, "chunks", lambda batch, _: [(s, s + 1) for s in range(5)])
    for a, b in zip(whole, model.predict_proba(X, weight), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)


def test_a_sample_without_weight_is_played_too(model: AGM) -> None:
    (p,) = model.predict_proba([TREE], [np.zeros(4)])
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert (model.predict_risk([TREE], [np.zeros(4)]) == 0).all()


def test_a_crf_weighs_risks_and_not_marginals() -> None:
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(4, 3)) for _ in range(15)]
    crf = CRF("absolute", alpha=0.05).fit(X, [np.digitize(x[:, 0], [-0.5, 0.5]) for x in X])
    (p,) = crf.predict_proba(X[:1], [WEIGHT])
    np.testing.assert_array_equal(p, crf.predict_proba(X[:1])[0])
    expected = WEIGHT @ (p @ crf.cost_).min(axis=1)
    assert crf.predict_risk(X[:1], [WEIGHT]) == pytest.approx(expected * np.ones((1, 2)))


def test_a_bayes_decision_under_rules_minimises_the_weighted_cost() -> None:
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(4, 2)) for _ in range(15)]
    y = [np.eye(4, dtype=int)[x[:, 0].argmax()] for x in X]
    crf = CRF(np.array([[0.0, 1.0], [9.0, 0.0]]), alpha=0.5, constraints=[(1, 1)]).fit(X, y)
    allowed = [np.array(a) for a in product([0, 1], repeat=4) if (1, 1) not in pairwise(a)]
    differ = 0
    for x in X:
        p = crf.predict_proba([x])[0] @ crf.cost_  # expected cost of each label on each node
        best = min(allowed, key=lambda labels: WEIGHT @ p[np.arange(4), labels])
        np.testing.assert_array_equal(crf.predict([x], [WEIGHT])[0], best)
        differ += (best != crf.predict([x])[0]).any()
    assert differ > 0
