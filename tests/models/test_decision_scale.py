"""The scale of scores before a decision, against an enumeration of all labellings."""

import copy
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustruct import AGM, CRF, SSVM, AutoModel, load
from robustruct.testing.oracles import all_labellings

COST = np.array([[0.0, 5.0, 1.0], [1.0, 0.0, 2.0], [3.0, 1.0, 0.0]])
MODELS = [
    CRF(COST),
    AGM(COST, temperature=0.7),
    AGM(COST, temperature=math.inf),
    SSVM(COST, temperature=2.0),
]


def chains(n=12, seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(4, 2)) for _ in range(n)]
    return X, [(x[:, 0] > 0) + (x[:, 1] > 0.5).astype(int) for x in X]


def least_expected_cost(model, x, scale):
    """Node by node the label of least expected cost under Gibbs(scale * scores / T), enumerated."""
    every = all_labellings(len(x), 3)
    scores = model.log_score([x] * len(every), list(every))
    mass = np.exp(scale * (scores - scores.max()) / model.absolute_temperature_)
    risk = np.zeros((len(x), 3))
    for labels, weight in zip(every, mass / mass.sum(), strict=True):
        risk += weight * model.cost_[labels]
    return risk


@pytest.mark.parametrize("model", MODELS, ids=repr)
@given(scale=st.floats(0.1, 10.0))
@settings(max_examples=10, deadline=None)
def test_the_bayes_decision_is_that_of_scaled_scores(model, scale):
    X, y = chains()
    model.set_params(decision="bayes", alpha=0.1, random_state=0).fit(X, y)
    assert model.decision_scale_ == 1.0
    model.decision_scale_ = scale
    for x, labels in zip(X, model.predict(X), strict=True):
        risk = least_expected_cost(model, x, scale)
        chosen = risk[np.arange(len(x)), labels]
        np.testing.assert_allclose(chosen, risk.min(axis=1), rtol=1e-6)


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_the_predictor_plays_for_scaled_scores(temperature):
    X, y = chains()
    model = AGM(COST, temperature=temperature, decision="predictor", alpha=0.1).fit(X, y)
    other = copy.copy(model)
    other.coef_ = 0.3 * model.coef_
    model.decision_scale_ = 0.3
    for one, two in zip(model.predict(X), other.predict(X), strict=True):
        np.testing.assert_array_equal(one, two)


def test_rules_are_kept_at_every_scale():
    X, y = chains()
    names = np.array(["B-x", "I-x", "O"])
    y = [
        np.where(np.concatenate([[True], labels[:-1] == 2]) & (labels == 1), 0, labels)
        for labels in y
    ]
    model = CRF(COST, constraints="BIO", alpha=0.1).fit(X, [names[labels].tolist() for labels in y])
    for scale in (0.1, 0.5, 3.0):
        model.decision_scale_ = scale
        for labels in model.predict(X):
            assert all(
                b != "I-x" or a in ("B-x", "I-x")
                for a, b in zip(["O", *labels], labels, strict=False)
            )


def test_probabilities_and_another_decision_know_no_scale():
    X, y = chains()
    model = CRF(COST, alpha=0.1).fit(X, y)
    plain, likeliest = (
        model.predict_proba(X),
        copy.copy(model).set_params(decision="map").predict(X),
    )
    model.decision_scale_ = 0.2
    np.testing.assert_array_equal(np.concatenate(model.predict_proba(X)), np.concatenate(plain))
    model.decision = "map"
    np.testing.assert_array_equal(np.concatenate(model.predict(X)), np.concatenate(likeliest))


def overconfident(n, seed):
    """Ten columns of which one says something: a weak penalty makes scores too large."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(6, 20)) for _ in range(n)]
    return X, [(x[:, 0] + 2.0 * rng.normal(size=6) > 0).astype(int) for x in X]


def test_the_scale_is_chosen_where_scores_are_too_large(tmp_path):
    cost = np.array([[0.0, 1.0], [4.0, 0.0]])
    X, y = overconfident(40, 0)
    model = CRF(cost, alpha=[1e-5], random_state=0).fit(X, y)
    assert model.decision_ == "bayes"
    assert model.decision_scale_ < 1
    assert model.decision_scale_ in [one.scale for one in model.trials_]
    new, labels = overconfident(400, 1)
    cost_with = -model.score(new, labels)
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.decision_scale_ == model.decision_scale_
    assert again.trials_ == model.trials_
    np.testing.assert_array_equal(
        np.concatenate(again.predict(new)), np.concatenate(model.predict(new))
    )
    model.decision_scale_ = 1.0
    assert cost_with < -model.score(new, labels)


def test_equal_costs_have_no_scale():
    X, y = overconfident(20, 0)
    model = AutoModel(random_state=0).fit(X, y)
    assert {one.scale for one in model.trials_} == {1.0}
