"""Choices by F1, recall, costs of spans or any score, against these computed by themselves."""

from dataclasses import astuple

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import f1_score

from robustruct import AGM, CRF, AutoModel, load
from robustruct.errors import IncompatibleError, InvalidInputError
from robustruct.metrics import ComparedLabels, SpanCost, span_scores
from robustruct.models.fitting.targets import THRESHOLDS, Target, _recall
from robustruct.models.fitting.trials import Trial
from robustruct.optimizers.checkpoints import Checkpoint

CLASSES = np.array(["B-x", "B-y", "I-x", "I-y", "O"])
OF_LABELS = ["B-x", "B-y", "I-x", "I-y"]


def tagged(n=40, seed=0, sure=1.5):
    """Chains with rare spans of two types, and features that hint at them."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        labels = ["O"] * int(rng.integers(3, 9))
        for i in range(len(labels) - 1):
            if labels[i] == "O" and rng.random() < 0.2:
                kind = "xy"[int(rng.integers(2))]
                labels[i] = f"B-{kind}"
                if rng.random() < 0.5:
                    labels[i + 1] = f"I-{kind}"
        rows = rng.normal(size=(len(labels), 3))
        for i, label in enumerate(labels):
            rows[i, "BIO".index(label[0])] += sure
            rows[i, 2] += sure * (label[2:] == "x")
        X.append(rows)
        y.append(labels)
    return X, y


def other_answers(y, seed):
    rng = np.random.default_rng(seed)
    return [
        [str(rng.choice(CLASSES)) if rng.random() < 0.3 else label for label in labels]
        for labels in y
    ]


def flat(y):
    return [label for labels in y for label in labels]


def token_f1(y_true, y_pred):
    """As scikit-learn computes it."""
    return f1_score(flat(y_true), flat(y_pred), labels=OF_LABELS, average="micro", zero_division=0)


def one_label_f1(y_true, y_pred):
    return f1_score(flat(y_true), flat(y_pred), labels=["I-y"], average="micro", zero_division=0)


def span_f1(y_true, y_pred):
    return span_scores(y_true, y_pred)[0].f1


def span_f1_of_y(y_true, y_pred):
    return span_scores(y_true, y_pred)[1]["y"].f1


SCORES = {
    "f1": token_f1,
    "f1:I-y": one_label_f1,
    "span_f1": span_f1,
    "span_f1:y": span_f1_of_y,
}


@pytest.mark.parametrize("name", SCORES)
def test_costs_are_minus_the_pseudo_values_of_the_jackknife(name):
    y, score = tagged(15)[1], SCORES[name]
    answers = other_answers(y, 1)
    costs, weights = Target.of(name, CLASSES).costs(ComparedLabels.of(y, answers), np.ones(15))
    assert Trial(costs, weights).score == pytest.approx(score(y, answers), abs=1e-9)
    every = score(y, answers)
    left_out = np.array(
        [score(y[:s] + y[s + 1 :], answers[:s] + answers[s + 1 :]) for s in range(15)]
    )
    pseudo = 15 * every - 14 * left_out
    np.testing.assert_allclose(-costs, pseudo - pseudo.mean() + every, atol=1e-12)
    # A function is asked the same where no part has two samples.
    np.testing.assert_allclose(
        Target.of(score, CLASSES).costs(ComparedLabels.of(y, answers), np.ones(15))[0],
        costs,
        atol=1e-12,
    )


@pytest.mark.parametrize("target", ["span_f1", span_f1], ids=["counted", "function"])
def test_standard_errors_are_those_of_a_bootstrap(target):
    y = tagged(300, seed=3)[1]
    both = [other_answers(y, seed) for seed in (1, 2)]
    judge = Target.of(target, CLASSES)
    one, two = (
        Trial(*judge.costs(ComparedLabels.of(y, answers), np.ones(300))) for answers in both
    )
    gain = one.score - two.score
    deviations = two.costs - one.costs - gain
    error = np.sqrt(np.sum(deviations**2)) / 300
    counts = np.array(  # [answers, sample, (true, predicted, right)]
        [
            [astuple(span_scores([t], [a])[0]) for t, a in zip(y, found, strict=True)]
            for found in both
        ]
    )
    some = np.random.default_rng(0).integers(300, size=(2000, 300))
    true, predicted, right = counts[:, some].sum(axis=2).transpose(2, 0, 1)
    first, second = 2 * right / (true + predicted)
    # The parts of a function are few, and their errors rough.
    assert error == pytest.approx(np.std(first - second), rel=0.1 if target == "span_f1" else 0.4)
    assert one.better(two) == (gain > 0)
    assert not one.better(one, 1.0)


def test_weights_of_samples_count():
    y = tagged(6)[1]
    answers = other_answers(y, 1)
    twice = np.array([2, 1, 1, 0, 1, 1])
    for target in ("span_f1", "f1", SpanCost(5, 1)):
        judge = Target.of(target, CLASSES)
        weighted = Trial(*judge.costs(ComparedLabels.of(y, answers), twice.astype(float)))
        repeated = np.repeat(np.arange(6), twice)
        true, predicted = ([labels[s] for s in repeated] for labels in (y, answers))
        plain = Trial(*judge.costs(ComparedLabels.of(true, predicted), np.ones(6)))
        assert weighted.score == pytest.approx(plain.score, abs=1e-8)


def test_recall_counts_only_where_precision_is_high_enough():
    right, true, predicted = np.array([[6.0, 6, 0]]), np.full((1, 3), 10.0), np.array([[8.0, 6, 0]])
    assert _recall(0.8, right, true, predicted)[0].tolist() == [pytest.approx(-0.05), 0.6, 0.0]


def test_the_threshold_is_the_best_on_held_out_samples():
    X, y = tagged(120, seed=1, sure=0.7)
    train, test = np.arange(80), np.arange(80, 120)
    model = CRF(alpha=0.05, decision="spans", constraints="BIO", standardize=False)
    model.fit(X, y, cv=[(train, test)])
    alone = CRF(alpha=0.05, tol=0.03, constraints="BIO", standardize=False)
    alone.fit(X[:80], y[:80])
    alone.decision = "spans"
    scores = {}
    for threshold in THRESHOLDS:
        alone.span_rule_ = threshold
        scores[threshold] = span_f1(y[80:], alone.predict(X[80:]))
    (tried,) = model.trials_
    assert model.decision_ == "spans"
    assert model.span_rule_ == tried.rule == max(scores, key=scores.get)
    assert tried.score == pytest.approx(max(scores.values()), abs=1e-8)
    assert model.alpha_ == 0.05
    assert len(set(scores.values())) > 5


def test_a_choice_by_span_f1_is_a_choice_of_the_best_score():
    X, y = tagged(24, seed=2, sure=0.7)
    model = AutoModel(target="span_f1", alpha=0.05, constraints="BIO", cv=2, random_state=0)
    model.fit(X, y)
    assert {one.decision for one in model.trials_} >= {"map", "bayes", "spans"}
    trusted = [one for one in model.trials_ if one.trusted]
    assert max(one.score for one in trusted) <= 1
    best = max(trusted, key=lambda one: one.score)
    assert model.decision_ == best.decision
    assert model.alpha_ == best.alpha
    # A function of the user is no other target, but for its parts.
    by_function = clone(model).set_params(target=span_f1).fit(X, y)
    assert by_function.trials_[0].score == pytest.approx(model.trials_[0].score, abs=1e-6)


def test_costs_of_spans_as_target_and_as_decision(tmp_path):
    X, y = tagged(150, seed=4, sure=0.7)
    cost = SpanCost(miss=5, false=1, wrong_type=2)
    model = CRF(alpha="auto", constraints="BIO").fit(X, y, target=cost, cv=2)
    assert all(one.score < 0 for one in model.trials_)
    decided = CRF(alpha=0.003, decision=cost, constraints="BIO").fit(X, y)
    assert decided.decision_ == "spans"
    assert not hasattr(decided, "trials_")
    for one in (model, decided):
        one.save(tmp_path / "model")
        again = load(tmp_path / "model")
        assert again.predict(X) == one.predict(X)
        assert again.predict_spans(X) == one.predict_spans(X)
        assert again.get_params()["decision"] == one.decision
    both = CRF(alpha=[0.01, 0.1], decision=cost, constraints="BIO").fit(X, y, cv=2)
    assert {one.decision for one in both.trials_} == {"spans"}
    assert both.span_rule_ == cost
    # It is worth it: the Bayes rule for labels knows nothing of the price of a span.
    labels = CRF(alpha=0.003, constraints="BIO").fit(X, y)
    X, y = tagged(200, seed=5, sure=0.7)
    assert cost.mean(y, decided.predict(X)) < cost.mean(y, labels.predict(X))


def test_choices_with_spans_are_kept_with_checkpoints(tmp_path):
    X, y = tagged(30)
    cost = SpanCost(5, 1)
    model = CRF(alpha=[0.01, 0.1], decision=cost, constraints="BIO", random_state=0)
    tried = model.fit(X, y, cv=2, checkpoint=Checkpoint(tmp_path, 1)).trials_
    again = clone(model).fit(X, y, cv=2, checkpoint=Checkpoint(tmp_path, 1, resume=True))
    assert again.trials_ == tried
    assert again.span_rule_ == cost
    with pytest.raises(IncompatibleError, match="target was None and is 'f1'"):
        clone(model).fit(X, y, cv=2, target="f1", checkpoint=Checkpoint(tmp_path, 1, resume=True))


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("span_f2", "did you mean 'span_f1'"),
        ("recall", "'recall@PRECISION'"),
        ("recall@1.5", "above 0, and 1 at most"),
        ("recall@0.9.1", "above 0, and 1 at most"),
        (3, "target=3 is not known"),
    ],
)
def test_targets_that_are_none(target, said):
    X, y = tagged(10)
    with pytest.raises(InvalidInputError, match=said) as error:
        CRF(alpha="auto").fit(X, y, target=target)
    assert error.value.field == "target"
    with pytest.raises(InvalidInputError, match=said):
        AutoModel(target=target).fit(X, y)


def test_targets_that_the_labels_cannot_have():
    X, y = tagged(10)
    with pytest.raises(IncompatibleError, match="no label 'B-z'"):
        CRF(alpha="auto").fit(X, y, target="f1:B-z")
    with pytest.raises(IncompatibleError, match="no type of span 'z'; there are x, y"):
        CRF(alpha="auto").fit(X, y, target="span_f1:z")
    words = [["noun"] * len(labels) for labels in y]
    words[0][0] = "verb"
    for asked in ({"target": "span_f1"}, {"target": SpanCost()}):
        with pytest.raises(IncompatibleError, match="tagging scheme"):
            CRF(alpha="auto").fit(X, words, **asked)
    for decision in ("spans", SpanCost()):
        with pytest.raises(IncompatibleError, match="tagging scheme"):
            CRF(decision=decision).fit(X, words)


def test_functions_that_return_no_score():
    X, y = tagged(10)
    for answer in (None, "good", np.nan, [1.0]):

        def score(y_true, y_pred, answer=answer):
            return answer

        with pytest.raises(InvalidInputError, match=r"score\(y_true, y_pred\) returned"):
            CRF(alpha="auto").fit(X, y, target=score, cv=2)


def test_a_target_without_a_choice_and_spans_without_probabilities():
    X, y = tagged(10)
    with pytest.raises(InvalidInputError, match="nothing is chosen"):
        CRF(alpha=0.1).fit(X, y, target="f1")
    for decision in ("spans", SpanCost()):
        with pytest.raises(InvalidInputError, match="needs probabilities"):
            AGM(decision=decision).fit(X, y)
    with pytest.raises(InvalidInputError, match="or a SpanCost"):
        CRF(decision="span").fit(X, y)


def test_labels_that_mark_no_spans_have_targets_too():
    X, y = tagged(30)
    numbers = [["BIO".index(label[0]) for label in labels] for labels in y]
    model = AutoModel(target="f1:0", alpha=[0.1], cv=2).fit(X, numbers)
    assert {one.decision for one in model.trials_} <= {"map", "bayes", "predictor"}
    rows, labels = np.concatenate(X), np.concatenate(numbers)

    def score(y_true, y_pred):
        return f1_score(y_true, y_pred, average="macro")

    flat_model = AutoModel(target=score, alpha=[0.1], cv=2).fit(rows, labels)
    assert 0 < flat_model.trials_[0].score < 1


def test_a_target_needs_all_labels():
    X, y = tagged(10)
    y[0][0] = None
    with pytest.raises(IncompatibleError, match="some labels in y are not known"):
        CRF(alpha=[0.1, 0.01]).fit(X, y, target="span_f1", cv=2)
