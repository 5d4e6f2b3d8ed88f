"""Costs and intervals of the experiment on personal data, against counts by hand."""

import numpy as np
import pytest

import personal_data


def test_costs_are_those_of_the_table() -> None:
    truth = [np.array(["B-X", "O", "I-X"]), np.array(["O"])]
    predicted = [["O", "B-X", "B-X"], ["O"]]
    assert personal_data.token_costs(truth, predicted).tolist() == [7.0, 0.0]


def test_models_are_told_the_same_cost() -> None:
    given = personal_data.models(["B-X", "I-X", "O"])
    costs = [model.loss.matrix(["B-X", "I-X", "O"]) for model in list(given.values())[1:]]
    for cost in costs:
        np.testing.assert_array_equal(cost, [[0, 1, 5], [1, 0, 5], [1, 1, 0]])
    assert given["CRF, best labelling"].decision == "map"


def test_intervals_draw_groups() -> None:
    """Groups that are all alike leave no doubt; two that differ leave much."""
    tokens, groups = np.array([2, 4, 2]), np.array(["a", "b", "c"])
    alike = personal_data.interval(np.array([1.0, 2.0, 1.0]), tokens, groups)
    assert alike == pytest.approx([0.5, 0.5])
    low, high = personal_data.interval(np.array([0.0, 4.0, 0.0]), tokens, groups)
    assert (low, high) == (0.0, 1.0)
