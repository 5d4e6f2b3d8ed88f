"""Answers have the form of the labels that ``fit`` was given; samples come in any form."""

import numpy as np
import pytest

import robustruct
from robustruct import AGM, CRF, SSVM
from robustruct.losses import CostMatrix
from robustruct.metrics import mean_loss

X = [[{"w": "a"}, {"w": "b"}], [{"w": "b"}], [{"w": "a"}, {"w": "a"}, {"w": "b"}]]
NAMES = [["B-x", "O"], ["O"], ["B-x", "B-x", "O"]]
NUMBERS = [[1, 0], [0], [1, 1, 0]]


@pytest.mark.parametrize("Model", [AGM, CRF, SSVM])
@pytest.mark.parametrize(("y", "kind"), [(NAMES, str), (NUMBERS, int)])
def test_lists_for_lists_and_arrays_for_arrays(Model, y, kind, tmp_path):
    for given, form in ((y, list), ([np.array(labels) for labels in y], np.ndarray)):
        model = Model(alpha=0.01, random_state=0).fit(X, given)
        model.save(tmp_path / "model")
        for one in (model, robustruct.load(tmp_path / "model")):
            answers = one.predict(X)
            best = [labels for (labels, _), *_ in one.predict_k_best(X, 2)]
            for found in (answers, best):
                assert type(found) is list
                assert all(type(labels) is form for labels in found)
                assert [list(labels) for labels in found] == y
            if form is list:
                assert {type(label) for labels in answers for label in labels} == {kind}


def test_seqeval_takes_answers():
    scores = pytest.importorskip("seqeval.metrics")
    model = CRF(alpha=0.01).fit(X, NAMES)
    assert scores.f1_score(NAMES, model.predict(X)) == 1.0


def test_rows_have_one_array_for_an_answer():
    rows = np.array([[-1.0], [1.0], [-2.0], [2.0]])
    found = CRF(alpha=0.1).fit(rows, ["a", "b", "a", "b"]).predict(rows)
    assert type(found) is np.ndarray


def test_samples_without_nodes_have_empty_answers():
    model = CRF(alpha=0.01).fit(X, NAMES)
    assert model.predict([[], X[0], []]) == [[], NAMES[0], []]
    assert model.predict([[], []]) == [[], []]
    weights = [[], [1.0, 2.0]]
    assert model.predict([[], X[0]], weights) == [[], NAMES[0]]
    empty, full = model.predict_proba([[], X[0]])
    assert empty.shape == (0, 2)
    np.testing.assert_array_equal(full, model.predict_proba(X[:1])[0])
    rows = [np.ones((2, 3)), np.zeros((1, 3))]
    arrays = AGM(alpha=0.1).fit(rows, [np.array([1, 1]), np.array([0])])
    answers = arrays.predict([np.zeros((0, 3)), *rows])
    assert [labels.tolist() for labels in answers] == [[], [1, 1], [0]]
    assert answers[0].dtype == answers[1].dtype


def test_generators_are_read_once():
    model = CRF(alpha=0.01).fit((x for x in X), (y for y in NAMES))
    assert model.predict(x for x in X) == NAMES
    assert model.score((x for x in X), (y for y in NAMES)) == 0.0
    np.testing.assert_array_equal(model.coef_, CRF(alpha=0.01).fit(X, NAMES).coef_)
    assert len(model.predict_proba(x for x in X)) == 3


@pytest.mark.parametrize(
    "loss",
    [
        [[0, 5], [1, 0]],
        CostMatrix([[0, 5], [1, 0]], ["B-x", "O"]),
        CostMatrix(
            {("B-x", "O"): 5, ("O", "Q"): 5, ("Q", "O"): 5, ("Q", "B-x"): 5}, ["B-x", "O", "Q"]
        ),
    ],
    ids=["array", "named", "single"],
)
def test_gold_labels_that_training_never_saw_are_mistakes(loss):
    """One of two nodes has such a label: the dearest mistake, half of the time."""
    model = CRF(loss, alpha=1e-3).fit(X, NAMES)
    truth = [["B-x", "Q"]]
    assert model.predict(X[:1]) == [["B-x", "O"]]
    assert model.score(X[:1], truth) == pytest.approx(-2.5)
    assert mean_loss(truth, model.predict(X[:1]), loss, classes=model.classes_) == 2.5
    stopped = CRF(loss, alpha=1e-3).fit(X, NAMES, validation=(X[:1], truth))
    assert stopped.validation_loss_ == pytest.approx(2.5)
