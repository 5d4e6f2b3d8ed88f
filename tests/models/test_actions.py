"""Answers other than labels: taken where they cost less, refused where nothing says so."""

import itertools

import numpy as np
import pytest
from model_cases import chains, sentences

from robustruct import AGM, CRF, SSVM
from robustruct.constraints import Constraints
from robustruct.errors import IncompatibleError, InvalidInputError
from robustruct.losses import CostMatrix

DEAR = CostMatrix([[0, 1, 1], [4, 0, 1], [1, 2, 0]], labels=[0, 1, 2])


def reviewed(answers: list) -> np.ndarray:
    return np.concatenate([np.asarray(labels, object) == "review" for labels in answers])


def test_on_one_node_it_is_chows_rule() -> None:
    """0-1 cost: ask where the likeliest label is less likely than 1 - price."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.where(X[:, 0] + rng.normal(size=300) > 0, "yes", "no")
    model = CRF(alpha=0.01).fit(X[:150], y[:150])
    for price in (0.1, 0.25, 0.4):
        answers = model.predict(X[150:], actions={"review": price})
        p = model.predict_proba(X[150:])
        chow = np.where(p.max(axis=1) < 1 - price, "review", model.classes_[p.argmax(axis=1)])
        assert answers.tolist() == chow.tolist()
        assert 0 < (answers == "review").mean() < 1


def test_a_price_for_each_label_is_expected_under_the_marginals() -> None:
    X, y = chains(80)
    model = CRF(DEAR, alpha=0.1).fit(X[:40], y[:40])
    prices = {0: 0.1, 1: 0.9, 2: 0.4}
    answers = model.predict(X[40:], actions={"review": prices})
    cost = np.hstack([DEAR.matrix([0, 1, 2]), [[0.1], [0.9], [0.4]]])
    best = [np.argmin(p @ cost, axis=1) for p in model.predict_proba(X[40:])]
    names = np.array([0, 1, 2, "review"], object)
    assert [labels.tolist() for labels in answers] == [names[codes].tolist() for codes in best]
    assert 0 < reviewed(answers).mean() < 1


@pytest.mark.parametrize(
    "model",
    [
        CRF(DEAR, alpha=0.1),
        AGM(DEAR, alpha=0.1),
        AGM(DEAR, alpha=0.1, temperature=1.0),
        SSVM(DEAR, alpha=0.1, temperature=1.0),
        AGM("hamming", alpha=0.1, decision="predictor"),
    ],
    ids=["crf", "agm", "warm agm", "warm ssvm", "predictor"],
)
def test_lower_prices_ask_more_often(model) -> None:
    X, y = chains(120)
    model.fit(X[:60], y[:60])
    shares = [
        reviewed(model.predict(X[60:], actions={"review": price})).mean()
        for price in (0.02, 0.2, 0.9)
    ]
    # At temperature 0 equilibria are not unique: a node or two may go the other way.
    assert np.diff(shares).max() <= 0.02
    assert shares[0] > 2 * shares[-1]
    assert shares[0] - shares[-1] > 0.2


def test_agm_plays_the_game_with_one_more_row() -> None:
    """Where the predictor of the game asks nearly always, the model asks; and the other way."""
    from robustruct import solve_game

    X, y = chains(60)
    model = AGM(DEAR, alpha=0.1).fit(X[:30], y[:30])
    answers = model.predict(X[30:], actions={"review": 0.5})
    cost = np.hstack([DEAR.matrix([0, 1, 2]), np.full((3, 1), 0.5)])
    pair = model.coef_[-9:].reshape(3, 3)
    seen = 0
    for x, labels, unary in zip(X[30:], answers, model.decision_function(X[30:]), strict=True):
        edges = [(i, i + 1) for i in range(len(x) - 1)]
        p = solve_game(unary, edges, np.tile(pair, (len(edges), 1, 1)), cost, tol=1e-8).predictor
        sure = p.max(axis=1) > 0.95
        seen += sure.sum()
        expected = np.array([0, 1, 2, "review"], object)[p.argmax(axis=1)]
        assert (labels[sure] == expected[sure]).all()
    assert seen > 20


def test_without_actions_worth_taking_answers_stay() -> None:
    X, y = chains(60)
    for model in (CRF(DEAR), AGM(DEAR), AGM(DEAR, temperature=0.5)):
        model.fit(X[:30], y[:30])
        with pytest.warns(UserWarning, match="'review' is never worth its price: answering"):
            answers = model.predict(X[30:], actions={"review": 9.0})
        plain = model.predict(X[30:])
        assert [a.tolist() for a in answers] == [a.tolist() for a in plain]


def test_free_review_of_costly_answers_is_always_taken() -> None:
    X, y = chains(20)
    model = CRF(CostMatrix(DEAR.costs + 1.0, labels=[0, 1, 2])).fit(X, y)
    with pytest.warns(UserWarning, match="'review' is always taken"):
        answers = model.predict(X, actions={"review": 0.5})
    assert reviewed(answers).all()


def test_rules_hold_for_labels_and_for_some_completion() -> None:
    """By enumeration over all answers whose labels an allowed labelling has."""
    rng = np.random.default_rng(0)
    names = ["B", "I", "O"]
    X = [rng.normal(size=(4, 3)) for _ in range(60)]
    y = []
    for x in X:
        raw = [names[a] for a in np.argmax(x + rng.normal(size=x.shape), axis=1)]
        for i, label in enumerate(raw):
            if label == "I" and (i == 0 or raw[i - 1] == "O"):
                raw[i] = "B"
        y.append(raw)
    rules = Constraints(forbidden=[("O", "I")])
    model = CRF(alpha=0.1, constraints=rules).fit(X[:30], y[:30])
    price, n_mixed = 0.35, 0
    allowed = [
        labels
        for labels in itertools.product(range(3), repeat=4)
        if not any(pair == (2, 1) for pair in itertools.pairwise(labels))
    ]
    for x, found in zip(X[30:], model.predict(X[30:], actions={"review": price}), strict=True):
        p = model.predict_proba([x])[0]
        cost = np.concatenate([1 - p, np.full((4, 1), price)], axis=1)

        def total(labels, cost=cost) -> float:
            return sum(min(cost[i, a], price) for i, a in enumerate(labels))

        best = min(allowed, key=total)
        codes = [names.index(a) if a != "review" else 3 for a in found]
        assert sum(cost[i, a] for i, a in enumerate(codes)) == pytest.approx(total(best))
        n_mixed += len({*codes} & {3}) and len({*codes} - {3}) > 0
    assert n_mixed > 5


def test_map_refuses_with_the_reason() -> None:
    X, y = chains(20)
    with pytest.raises(IncompatibleError, match=r"not in the units of the cost.*'predictor'"):
        AGM().fit(X, y).predict(X, actions={"review": 0.1})
    with pytest.raises(IncompatibleError, match="set decision='bayes'"):
        CRF(decision="map").fit(X, y).predict(X, actions={"review": 0.1})
    with pytest.raises(IncompatibleError, match="temperature above 0, or take a CRF"):
        SSVM().fit(X, y).predict(X, actions={"review": 0.1})


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ({}, "give their prices by name"),
        (0.1, "give their prices by name"),
        ({"review": -0.1}, "'review' costs -0.1; a price is a finite number >= 0"),
        ({"review": np.inf}, "'review' costs inf"),
        ({"review": np.nan}, "'review' costs nan"),
        ({"review": "cheap"}, "costs 'cheap'"),
        ({"review": {"N": 0.1}}, "'review' has no price where 'A' is true"),
        ({"N": 0.1}, "the action 'N' must be a text that is no label"),
        ({3: 0.1}, "the action 3 must be a text"),
    ],
)
def test_bad_prices(actions, message: str) -> None:
    X, y = sentences(2)
    model = CRF().fit(X, y)
    with pytest.raises(InvalidInputError, match=message) as error:
        model.predict(X, actions=actions)
    assert error.value.field == "actions"


def test_answers_have_the_form_of_labels() -> None:
    X, y = sentences(2)
    model = CRF(alpha=10.0).fit(X, y)
    answers = model.predict([*X, []], actions={"review": 0.3, "skip": 0.29})
    assert all(isinstance(labels, list) for labels in answers)
    assert answers[-1] == []
    assert {"skip"} <= {label for labels in answers for label in labels}
    assert "review" not in {label for labels in answers for label in labels}


def test_certificates_count_prices() -> None:
    X, y = chains(150)
    model = CRF(DEAR, alpha=0.1).fit(X[:50], y[:50])
    found = model.certify(X[50:], y[50:], actions={"review": 0.3})
    answers = model.predict(X[50:], actions={"review": 0.3})
    cost = DEAR.matrix([0, 1, 2])
    each = [
        np.mean([0.3 if a == "review" else cost[b, a] for a, b in zip(labels, true, strict=True)])
        for labels, true in zip(answers, y[50:], strict=True)
    ]
    assert found.mean == pytest.approx(np.mean(each))
    assert found.upper < model.certify(X[50:], y[50:]).upper
    unknown = [np.full(len(true), 7) for true in y[50:]]
    with pytest.warns(UserWarning, match="never worth"):
        priced = model.certify(X[50:], unknown, actions={"review": {0: 3, 1: 9, 2: 4}})
    assert priced.mean == pytest.approx(4.0)
