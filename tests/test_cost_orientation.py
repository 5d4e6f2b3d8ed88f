"""Rows: true label, columns: predicted label, at every public entry, in one asymmetric example.

Where "entity" is true, predicting "other" costs 5; where "other" is true, predicting "entity" costs
1. Of 10 nodes that look alike 3 are entities. "entity" everywhere costs 7 of them 1 each, 0.7 a
node; "other" everywhere costs 3 of them 5 each, 1.5 a node. Read the other way round, "other"
would be the best answer.
"""

import json

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix

import robustruct
from robustruct import AGM, CRF, SSVM, solve_game, solve_games
from robustruct.cli.loss import ChosenLoss
from robustruct.comparison import Samples, compare
from robustruct.engines import ShardedData
from robustruct.evaluation import evaluate_shards
from robustruct.inference import bayes_decision
from robustruct.losses import CostMatrix, LabelSets, Loss, as_loss
from robustruct.metrics import confusion, mean_loss
from robustruct.multilabel import MultiLabel
from robustruct.report import render
from robustruct.testing.oracles import full_game_value, local_polytope_value

LABELS = ["entity", "other"]
COSTS = [[0.0, 5.0], [1.0, 0.0]]
Y = [["entity"]] * 3 + [["other"]] * 7
X = [np.zeros((1, 0))] * 10
CSV = "true\\predicted,entity,other\nentity,0,5\nother,1,0\n"


class MissedIsWorse(Loss):
    """A user's own."""

    def matrix(self, classes):
        place = {label: a for a, label in enumerate(classes)}
        costs = 1.0 - np.eye(len(classes))
        costs[place["entity"], place["other"]] = 5.0
        return costs


LOSSES = {
    "array": np.array(COSTS),
    "list": COSTS,
    "unnamed": CostMatrix(COSTS),
    "named": CostMatrix([[0, 1], [5, 0]], LABELS[::-1]),
    "dict": {("entity", "other"): 5},
    "single costs": CostMatrix({("entity", "other"): 5.0}, default="hamming"),
    "single costs, named": CostMatrix({("entity", "other"): 5}, [*LABELS, "absent"]),
    "other default": CostMatrix({("other", "entity"): 1.0}, default=5 * (1 - np.eye(2))),
    "own": MissedIsWorse(),
    "sets": LabelSets(CostMatrix(COSTS, LABELS), CostMatrix([[0]], ["absent"])),
    "command": ChosenLoss("hamming", ["entity>other=5"]),
}


@pytest.mark.parametrize("kind", LOSSES)
def test_a_loss(kind):
    loss = as_loss(LOSSES[kind])
    np.testing.assert_array_equal(loss.matrix(LABELS), COSTS)
    assert loss.evaluate(["entity", "other"], ["other", "entity"]).tolist() == [5.0, 1.0]
    assert mean_loss(Y, [["other"]] * 10, loss) == pytest.approx(1.5)
    assert mean_loss(Y, [["entity"]] * 10, loss) == pytest.approx(0.7)


@pytest.mark.parametrize("kind", LOSSES)
def test_a_model(kind, tmp_path):
    loss = LOSSES[kind]
    crf = CRF(loss, alpha=1e-5, tol=1e-6).fit(X, Y)
    agm = AGM(loss, alpha=1e-3, decision="predictor", random_state=0).fit(X, Y)
    for model in (crf, agm):
        np.testing.assert_array_equal(model.cost_, COSTS)
        model.save(tmp_path / "model")
        for one in (model, robustruct.load(tmp_path / "model")):
            assert np.concatenate(one.predict(X)).tolist() == ["entity"] * 10
            assert one.score(X, Y) == pytest.approx(-0.7)
    expected = crf.explain(X[0], 0).expected_cost
    assert expected == pytest.approx({"entity": 0.7, "other": 1.5}, abs=1e-3)
    assert crf.predict_risk(X)[0] == pytest.approx([0.7, 0.7], abs=1e-3)
    # So strong a penalty leaves all weights at 0, where the hinge is the dearest mistake of each.
    ssvm = SSVM(loss, alpha=1e9, random_state=0).fit(X, Y)
    assert ssvm.objective_ == pytest.approx((3 * 5 + 7 * 1) / 10, rel=1e-3)
    np.testing.assert_array_equal(ssvm.cost_, COSTS)


def test_temperatures():
    for temperature in (0.5, np.inf):
        model = AGM(COSTS, alpha=1e-3, temperature=temperature, decision="bayes", random_state=0)
        assert set(np.concatenate(model.fit(X, Y).predict(X)).tolist()) == {"entity"}


def test_class_weights_are_of_the_true_label():
    model = CRF(class_weight={"entity": 5.0}, alpha=1e-5).fit(X, Y)
    np.testing.assert_array_equal(model.cost_, COSTS)


def test_validation_and_choice_of_alpha():
    crf = CRF(COSTS, alpha=1e-3).fit(X, Y, validation=(X, Y))
    assert crf.validation_loss_ == pytest.approx(0.7)
    folds = [(np.arange(10), np.arange(10))]
    scores = CRF(COSTS, alpha=[1e-3]).fit(X, Y, cv=folds).alpha_scores_
    assert list(scores.values()) == pytest.approx([-0.7])


def test_games():
    """Without scores the predictor hedges where a miss costs 5, the adversary seldom needs it."""
    (first,) = solve_games([[[0, 0]]], [[]], [[]], COSTS)
    for found in (solve_game([[0, 0]], [], [], COSTS), first):
        np.testing.assert_allclose(found.predictor, [[5 / 6, 1 / 6]], atol=1e-6)
        np.testing.assert_allclose(found.adversary_nodes, [[1 / 6, 5 / 6]], atol=1e-6)
    # Where "entity" scores 1, t of it earns min(5 t, 1 - t) + t: at most 1.
    for solver in ("auto", "linear_program", "pairwise"):
        assert solve_game([[1, 0]], [], [], COSTS, solver=solver).value == pytest.approx(
            1, abs=1e-3
        )
    assert full_game_value([[1, 0]], [], [], COSTS) == pytest.approx(1)
    assert local_polytope_value([[1, 0]], [], np.zeros((0, 2, 2)), COSTS) == pytest.approx(1)
    warm = solve_game([[1, 0]], [], [], COSTS, temperature=1e-3)
    assert warm.value == pytest.approx(1, abs=0.01)
    assert bayes_decision(np.array([[0.3, 0.7]]), np.array(COSTS)).tolist() == [0]


def test_the_game_behind_a_prediction():
    model = AGM(COSTS, alpha=1e9, random_state=0).fit(X, Y)  # weights of about 0
    np.testing.assert_allclose(model.predict_games(X[:1])[0].predictor, [[5 / 6, 1 / 6]], atol=1e-4)


def test_questions_of_many_answers():
    model = MultiLabel(CRF(np.array([[0.0, 1.0], [5.0, 0.0]]), alpha=1e-4), edges=[])
    yes = np.array([[1], [1], [1], *[[0]] * 7])
    assert model.fit(np.zeros((10, 1)), yes).predict(np.zeros((1, 1))).tolist() == [[1]]


def test_counts_are_as_scikit_learn_has_them():
    true, predicted = ["entity", "entity", "other"], ["other", "entity", "other"]
    np.testing.assert_array_equal(confusion(true, predicted), confusion_matrix(true, predicted))


@pytest.mark.parametrize("costs", ["string", "csv", "transposed csv"])
def test_the_command(costs, tmp_path, here):
    rows = [f"w {label}\n\n" for (label,) in Y]
    (tmp_path / "data.conll").write_text("".join(rows))
    turned = "predicted\\true,entity,other\nentity,0,1\nother,5,0\n"
    (tmp_path / "costs.csv").write_text(turned if costs == "transposed csv" else CSV)
    if costs == "csv":
        np.testing.assert_array_equal(CostMatrix.from_csv(tmp_path / "costs.csv").costs, COSTS)
    options = ("--cost", "entity>other=5") if costs == "string" else ("--loss", "costs.csv")
    kind = ("--model", "crf", "--alpha", "0.001", "-q", "-o", "model")
    assert here("train", "data.conll", *kind, *options)[0] == 0
    np.testing.assert_array_equal(robustruct.load(tmp_path / "model").cost_, COSTS)
    assert json.loads(here("inspect", "model", "--json")[1])["costs"] == COSTS
    for more in ((), options):
        found = json.loads(here("evaluate", "model", "data.conll", "--json", "-q", *more)[1])
        assert found["loss"] == pytest.approx(0.7)
        assert found["costs"] == COSTS
        assert found["confusion"] == [[3, 0], [7, 0]]
    shards = ShardedData.from_files(str(tmp_path / "data.conll"))
    model = CRF(COSTS, alpha=1e-3).fit(shards)
    found = evaluate_shards(model, shards)
    assert found.loss == pytest.approx(0.7)
    np.testing.assert_array_equal(found.costs, COSTS)
    np.testing.assert_array_equal(found.confusion, [[3, 0], [7, 0]])


def test_comparison_report_and_plots():
    plots = pytest.importorskip("robustruct.plots")
    pytest.importorskip("matplotlib").use("Agg")
    samples = Samples([np.zeros((1, 1))] * 10, Y)
    compared = compare(samples, samples, loss=COSTS, data="ten", alpha=[0.1], n_examples=0)
    np.testing.assert_array_equal(compared.cost_matrix, COSTS)
    crf = next(method for method in compared.methods if method.name == "CRF")
    assert crf.cost == pytest.approx(0.7)
    np.testing.assert_array_equal(crf.confusion, [[3, 0], [7, 0]])
    np.testing.assert_allclose(crf.label_costs, [0.0, 0.7])
    assert "predicting other where entity is true costs 5" in render(compared)
    image = plots.cost_matrix(COSTS, LABELS).images[0]
    np.testing.assert_array_equal(image.get_array(), COSTS)
    image = plots.confusion_matrix(Y, [["entity"]] * 10).images[0]
    np.testing.assert_array_equal(np.asarray(image.get_array()) > 0, [[1, 0], [1, 0]])


def test_a_matrix_shows_which_way_round_it_is():
    assert repr(CostMatrix(COSTS, LABELS)) == (
        "CostMatrix, rows: true label, columns: predicted label\n"
        "        entity  other\n"
        "entity       0      5\n"
        "other        1      0"
    )
    assert repr(CostMatrix({("entity", "other"): 5})) == (
        "CostMatrix, other mistakes as 'hamming'\ntrue    predicted  cost\nentity  other         5"
    )
    assert "40 labels in all" in repr(CostMatrix(1 - np.eye(40)))
