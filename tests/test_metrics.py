"""Mean loss, against a loop written by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robustruct.errors import InvalidInputError
from robustruct.losses import CostMatrix
from robustruct.metrics import confusion, mean_loss

COSTS = np.array([[0.0, 1.0, 4.0], [2.0, 0.5, 1.0], [3.0, 7.0, 0.0]])  # [true, predicted]


def by_loop(y_true, y_pred, node_weight, average):
    """The definition: total cost over total weight, of all nodes or of each sample."""
    totals = []
    for true, predicted, weight in zip(y_true, y_pred, node_weight, strict=True):
        cost = sum(w * COSTS[a, b] for a, b, w in zip(true, predicted, weight, strict=True))
        totals.append((cost, sum(weight)))
    if average == "sample":
        return sum(cost / weight for cost, weight in totals) / len(totals)
    return sum(cost for cost, _ in totals) / sum(weight for _, weight in totals)


@st.composite
def labelled_samples(draw):
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    label, weight = st.integers(0, 2), st.floats(0.125, 8)

    def ragged(of):
        return [draw(st.lists(of, min_size=n, max_size=n)) for n in sizes]

    return ragged(label), ragged(label), ragged(weight)


@given(labelled_samples(), st.sampled_from(["node", "sample"]))
def test_mean_loss_agrees_with_a_loop(samples, average):
    y_true, y_pred, node_weight = samples
    found = mean_loss(y_true, y_pred, COSTS, node_weight, average, classes=[0, 1, 2])
    assert found == pytest.approx(by_loop(y_true, y_pred, node_weight, average))


@given(labelled_samples())
def test_without_weights_every_node_counts_one(samples):
    y_true, y_pred, _ = samples
    ones = [np.ones(len(labels)) for labels in y_true]
    for average in ("node", "sample"):
        assert mean_loss(y_true, y_pred, average=average) == mean_loss(
            y_true, y_pred, "hamming", ones, average
        )


def test_flat_labels_are_samples_of_one_node():
    assert mean_loss(np.array([1, 2, 3]), np.array([1, 2, 1]), "absolute") == pytest.approx(2 / 3)
    assert mean_loss(["a", "b"], ["a", "a"], average="sample") == 0.5
    assert mean_loss(["a", "b"], ["a", "a"], node_weight=[1, 3]) == 0.75
    assert mean_loss(["a", "b"], [["a"], ["a"]]) == 0.5


def test_rows_of_an_array_are_samples():
    y = np.array([[0, 1], [1, 1]])
    assert mean_loss(y, 1 - y) == 1.0


def test_samples_may_differ_in_label_type():
    assert mean_loss([np.array([1, 2]), np.array(["1"])], [[1, 2], [1]]) == pytest.approx(1 / 3)


def test_named_costs_need_no_classes():
    loss = CostMatrix([[0, 5], [1, 0]], labels=["entity", "other"])
    assert mean_loss([["entity"], ["other", "other"]], [["other"], ["other", "other"]], loss) == (
        pytest.approx(5 / 3)
    )


def test_zero_weights_leave_nodes_out():
    assert mean_loss([[0, 0], [0]], [[1, 0], [1]], node_weight=[[0, 2], [0]]) == 0.0


def test_a_sample_without_nodes_counts_nothing_per_node():
    assert mean_loss([["a"], []], [["b"], []]) == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"average": "token"}, "average='token' is not known; use 'node' or 'sample'"),
        ({"y_true": []}, "y_true is empty"),
        ({"y_pred": []}, "y_pred is empty"),
        ({"y_true": "abc"}, "y_true is a str"),
        ({"y_pred": 3}, "y_pred is a int"),
        ({"y_pred": [[0, 0]]}, "y_true has 2 samples but y_pred has 1"),
        ({"y_pred": [[0, 0], [0, 1]]}, "sample 1: y_true labels 1 nodes but y_pred has 2"),
        ({"y_pred": [[0, 0], 1]}, r"mixes labels and arrays of labels \(sample 1"),
        ({"y_pred": [[0, np.nan], [1]]}, "label nan"),
        ({"node_weight": [[1, 1]]}, "but node_weight has 1"),
        ({"node_weight": [[1, 1], [1, 1]]}, "sample 1: .* node_weight has 2 entries"),
        ({"node_weight": [[1, -1], [1]]}, "node_weight holds -1.0"),
        ({"node_weight": [[1, np.inf], [1]]}, "node_weight holds inf"),
        ({"node_weight": [["x", 1], [1]]}, "one number per node"),
        ({"node_weight": [[[1], [1]], [[1]]]}, "one per node"),
        ({"node_weight": [[0, 0], [0]]}, "all node weights are zero"),
        ({"node_weight": [[1, 0], [0]], "average": "sample"}, "weights of sample 1 sum to zero"),
        ({"loss": "hinge"}, "loss='hinge' is not known"),
        ({"classes": [1, 2]}, "y_pred holds the label 0"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    good = {"y_true": [[0, 1], [1]], "y_pred": [[0, 1], [1]]}
    with pytest.raises(InvalidInputError, match=message):
        mean_loss(**{**good, **arguments})


@pytest.mark.parametrize("classes", [["a", "b", "a"], "a" * 50_000], ids=["few", "many"])
def test_classes_that_are_listed_twice_are_refused(classes):
    """Before a table of all of them is made, which would take 20 GB."""
    with pytest.raises(InvalidInputError, match=r"classes hold \d+ labels, of which [12] are"):
        confusion(["a"], ["a"], classes)
