"""The experiment on the family: its costs, its marks, and what a cell holds."""

import numpy as np
import pytest

import family
from robustruct import CRF
from robustruct.comparison import Samples

RESULT = {
    "data": "digits",
    "loss": "absolute",
    "n": 100,
    "costs": {"auto": 0.25, "AGM": 0.2, "CRF": 0.5, "SSVM": 0.26},
    "chosen": {"auto": "AGM at temperature 1, decision map"},
    "log_loss": {"auto": 0.5, "AGM": None, "CRF": 0.75, "SSVM": None},
    "p": {"auto - AGM": 0.01, "auto - CRF": 0.01, "auto - SSVM": 0.5},
}


def test_marks_say_where_the_family_is_better_or_worse():
    found = [family.standing(RESULT, name) for name in family.METHODS]
    assert found == ["0.2500", "**0.2000 −**", "0.5000 +", "0.2600"]
    costs, logs = family.tables([RESULT])
    assert "AGM in 0, CRF in 1, SSVM in 0 of 1 cells" in costs.caption
    assert "more (1)" in costs.caption
    assert logs.rows == [["digits, absolute, 100 samples", "0.5000", "", "0.7500", ""]]


def test_costs_are_what_the_cells_say():
    _, _, cost = family.digits("asymmetric", 3)
    assert cost[7, 5] == 6.0  # 7 read as 5: too low
    assert cost[5, 7] == 2.0


@pytest.mark.data
def test_costs_of_letters_and_names(data_home, monkeypatch):
    monkeypatch.setenv("ROBUSTRUCT_DATA", str(data_home))
    train, test, cost = family.ocr("look-alike", 5)
    assert (len(train), len(test)) == (5, 704)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    matrix = cost.matrix(letters)
    assert (matrix[2, 4], matrix[0, 1], matrix[3, 3]) == (0.5, 1.0, 0.0)
    train, test, cost = family.names("5", 10)
    assert (len(train), len(test)) == (10, 1287)
    matrix = cost.matrix(["B-person", "O"])
    np.testing.assert_array_equal(matrix, [[0.0, 5.0], [1.0, 0.0]])
    train, test, cost = family.roles("5", 10)
    assert (len(train), len(test)) == (10, 500)
    columns = {graph.node_features.shape[1] for graph in (*train.X, *test.X)}
    assert len(columns) == 1  # those of the training nodes
    np.testing.assert_array_equal(cost.matrix([0, 8]), [[0.0, 5.0], [1.0, 0.0]])  # 8: no role
    train, _, cost = family.scene("5", 20)
    assert len(train) == 20
    np.testing.assert_array_equal(cost, [[0.0, 1.0], [5.0, 0.0]])


def test_log_loss_is_that_of_the_true_labels():
    X, y = [np.eye(2), np.eye(2)], [np.array(["a", "b"]), np.array(["b", "b"])]
    model = CRF(alpha=1.0).fit(X, y)
    p = model.predict_proba(X)
    wanted = -np.log([p[0][0, 0], p[0][1, 1], p[1][0, 1], p[1][1, 1]]).mean()
    assert family.log_loss(model, Samples(X, y)) == pytest.approx(wanted)
    unseen = Samples([np.eye(2)], [np.array(["a", "z"])])
    assert family.log_loss(model, unseen) > 6
