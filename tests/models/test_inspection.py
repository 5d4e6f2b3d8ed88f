"""Named weights, and explanations that add up."""

import numpy as np
import pytest
from model_cases import MODELS, bio, chains, sentences, trees
from sklearn.exceptions import NotFittedError

from robustruct import AGM, CRF, SSVM
from robustruct.errors import InvalidInputError


def test_named_weights_are_views_of_the_coefficients():
    X, y = sentences()
    model = CRF(alpha=0.1).fit(X, y)
    names = model.get_feature_names_out()
    d, k = len(names), len(model.classes_)
    assert names[-1] == "(bias)"
    assert {"w:cat", "end:t", "long", "len"} <= set(names)
    assert model.node_weights_.shape == (d, k)
    assert model.edge_weights_.shape == (1, k, k)
    np.testing.assert_array_equal(
        np.concatenate([model.node_weights_.ravel(), model.edge_weights_.ravel()]), model.coef_
    )
    assert np.shares_memory(model.node_weights_, model.coef_)
    assert model.get_edge_feature_names_out().tolist() == ["(transition)"]


def test_numeric_columns_are_numbered():
    X, y = chains()
    assert CRF().fit(X, y).get_feature_names_out().tolist() == ["x0", "x1", "x2", "(bias)"]


def test_top_features_are_the_largest_and_the_smallest_weights():
    X, y = sentences()
    model = SSVM(alpha=0.01).fit(X, y)
    column = model.node_weights_[:, model.classes_.tolist().index("V")]
    best, worst = model.top_features("V", 3), model.top_features("V", 3, negative=True)
    assert [weight for _, weight in best] == sorted(column, reverse=True)[:3]
    assert [weight for _, weight in worst] == sorted(column)[:3]
    by_name = dict(zip(model.get_feature_names_out(), column, strict=True))
    assert all(by_name[name] == weight for name, weight in best + worst)
    assert len(model.top_features("V", 10_000)) == len(column)


def test_transitions_are_indexed_by_label_and_next_label():
    X = [np.zeros((3, 1))] * 5
    model = CRF(alpha=0.01).fit(X, [["a", "b", "c"]] * 5)
    a, b, c = range(3)
    assert model.transitions_[a, b] > model.transitions_[b, a]
    assert model.transitions_[b, c] > model.transitions_[c, b]
    assert {pair for pair, _ in model.top_transitions(2)} == {("a", "b"), ("b", "c")}
    assert model.top_transitions(1, negative=True)[0][1] == model.transitions_.min()


@pytest.mark.parametrize("Model", MODELS)
@pytest.mark.parametrize("data", [sentences, chains, trees], ids=lambda make: make.__name__)
def test_contributions_add_up_to_the_difference_of_two_labellings(Model, data):
    X, y = data()
    model = Model(alpha=0.05, random_state=0).fit(X, y)
    for s in (0, 1, 2):
        predicted = model.predict([X[s]])[0]
        for node in range(len(predicted)):
            for against in model.classes_[model.classes_ != predicted[node]]:
                found = model.explain(X[s], node, against=against)
                other = predicted.copy()
                other[node] = against
                best, rival = (
                    model.log_score([X[s]], [labels])[0] for labels in (predicted, other)
                )
                assert found.label == predicted[node] == found.predicted
                assert found.margin == pytest.approx(best - rival, abs=1e-9)
                assert found.margin == pytest.approx(
                    found.scores[found.label] - found.scores[against], abs=1e-9
                )


def test_contributions_per_label_add_up_to_the_scores():
    X, y = trees()
    model = AGM(alpha=0.05).fit(X, y)
    found = model.explain(X[0], 1)
    parts = (*found.features, *found.transitions)
    for label in model.classes_.tolist():
        assert sum(part.per_label[label] for part in parts) == pytest.approx(found.scores[label])


def test_the_default_rival_is_the_best_other_label():
    X, y = chains()
    found = CRF(alpha=0.1).fit(X, y).explain(X[0], 0)
    others = {label: score for label, score in found.scores.items() if label != found.label}
    assert found.against == max(others, key=others.get)


def test_expected_costs_are_those_of_the_probabilities():
    X, y = chains()
    model = AGM("absolute", alpha=0.1).fit(X, y)
    found = model.explain(X[3], 1, label=2, against=0)
    p = model.predict_proba([X[3]])[0][1]
    np.testing.assert_allclose(list(found.probabilities.values()), p)
    np.testing.assert_allclose(list(found.expected_cost.values()), p @ model.cost_)
    assert (found.label, found.against) == (2, 0)


def test_rules_show_up_as_infinite_contributions():
    X, y = bio()
    model = CRF(alpha=0.1, constraints="BIO").fit(X, y)
    found = model.explain(X[0], 0, against="I-PER")
    assert found.margin == np.inf
    assert any("rules" in part.name and part.amount == np.inf for part in found.features)
    assert np.isfinite(model.explain(X[0], 2).margin)
    assert "(rules)" in str(model.explain(X[0], 2, against="I-LOC"))


def test_an_explanation_reads_well():
    X, y = sentences()
    text = str(CRF(alpha=0.1).fit(X, y).explain(X[0], 1, against="V"))
    assert text.startswith("node 1: 'N' rather than 'V', margin +")
    assert "w:cat" in text
    assert "(transition) from node 0 'D'" in text
    assert "(transition) to node 2 'V'" in text
    assert "len = 0.75" in text
    assert "expected cost" in text
    many = [[{f"f{i}": i + 1 for i in range(40)}], [{"f0": 1}]]
    long = str(CRF(alpha=0.1).fit(many, [["a"], ["b"]]).explain(many[0], 0))
    assert "more)" in long
    assert long.count("\n") < 30


def test_one_row_one_label_and_a_plain_matrix():
    rows, labels = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 3
    model = CRF().fit(rows, labels)
    assert model.explain(rows[0], 0).predicted == model.predict(rows[:1])[0]
    single = CRF(alpha=0.1).fit([np.eye(2)], [["a", "a"]])
    found = single.explain(np.eye(2), 0)
    assert found.against is None
    assert found.margin == pytest.approx(found.scores["a"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model, x: model.top_features("X"), r"the label 'X'.*not among the known labels"),
        (lambda model, x: model.top_features("N", 0), "n = 0; ask for at least one"),
        (lambda model, x: model.explain(x, 7), r"node = 7, but the sample has nodes 0\.\.2"),
        (lambda model, x: model.explain(x, 0, against="X"), "the label 'X'"),
    ],
)
def test_questions_that_cannot_be_answered(call, message):
    X, y = sentences()
    model = CRF(alpha=0.1).fit(X, y)
    with pytest.raises(InvalidInputError, match=message):
        call(model, X[0])


def test_before_fit_there_is_nothing_to_see():
    model = AGM()
    assert not hasattr(model, "transitions_")
    for call in (
        model.get_feature_names_out,
        lambda: model.top_features("a"),
        lambda: model.explain([], 0),
    ):
        with pytest.raises(NotFittedError):
            call()
