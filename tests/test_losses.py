"""Losses: cost matrices, their order, and labels of every type."""

import numpy as np
import pytest

from robustruct import AGM, CRF, SSVM
from robustruct.errors import InvalidInputError
from robustruct.labels import as_labels, encode_labels, sorted_labels
from robustruct.losses import Absolute, CostMatrix, Hamming, Loss, Squared, as_loss, class_weighted


def test_hamming_costs_one_per_mistake():
    np.testing.assert_array_equal(Hamming().matrix(["a", "b"]), [[0, 1], [1, 0]])


def test_ordinal_losses_use_the_values_of_numbers():
    np.testing.assert_array_equal(Absolute().matrix([1, 2, 5])[0], [0, 1, 4])
    np.testing.assert_array_equal(Squared().matrix([1, 2, 5])[0], [0, 1, 16])
    np.testing.assert_array_equal(Absolute().matrix([0.5, 2.0]), [[0, 1.5], [1.5, 0]])


def test_ordinal_losses_use_the_order_of_other_labels():
    order = ["low", "mid", "high"]
    np.testing.assert_array_equal(Absolute(order).matrix(order)[0], [0, 1, 2])
    np.testing.assert_array_equal(Squared(order).matrix(order)[0], [0, 1, 4])
    np.testing.assert_array_equal(Absolute(order).matrix(sorted(order))[0], [0, 2, 1])


def test_an_order_holds_whatever_labels_there_are():
    order = Absolute(["low", "mid", "high"])
    for classes in (None, ["high", "low"], ["high", "low", "mid"]):
        assert order.evaluate(["low"], ["high"], classes=classes).tolist() == [2.0]
    assert repr(order) == "Absolute(order=['low', 'mid', 'high'])"


def test_unsigned_labels_do_not_wrap_around():
    cost = Absolute().evaluate(np.array([200], np.uint8), np.array([201], np.uint8))
    assert cost.tolist() == [1.0]


def test_rows_are_truths_and_columns_predictions():
    loss = CostMatrix([[0, 5], [1, 0]])
    cost = loss.evaluate(y_true=["a", "b"], y_pred=["b", "a"])
    assert cost.tolist() == [5.0, 1.0]


def test_named_costs_follow_their_labels_in_any_order_and_subset():
    loss = CostMatrix([[0, 1, 2], [3, 0, 4], [5, 6, 0]], labels=["c", "a", "b"])
    np.testing.assert_array_equal(loss.matrix(["a", "b", "c"]), [[0, 4, 3], [6, 0, 5], [1, 2, 0]])
    np.testing.assert_array_equal(loss.matrix(["b", "c"]), [[0, 5], [2, 0]])
    assert loss.evaluate(["a"], ["c"]).tolist() == [3.0]


def test_the_cost_matrix_is_copied():
    costs = np.array([[0.0, 1.0], [1.0, 0.0]])
    loss = CostMatrix(costs)
    costs[0, 1] = 9
    loss.matrix(["a", "b"])[0, 1] = 9
    assert loss.matrix(["a", "b"])[0, 1] == 1


@pytest.mark.parametrize(
    ("matrix", "labels", "message"),
    [
        ([[0, 1, 2], [1, 0, 2]], None, r"shape \(2, 3\)"),
        ([0, 1], None, r"shape \(2,\)"),
        ([], None, r"shape \(0,\)"),
        ([[0, 1], [1]], None, "must hold numbers"),
        ([["x", 1], [1, 0]], None, "must hold numbers"),
        ([[0, np.nan], [1, 0]], None, r"holds nan at \[0, 1\].*`constraints`"),
        ([[0, 1], [np.inf, 0]], None, r"holds inf at \[1, 0\]"),
        ([[0, 1], [-1e200, 0]], None, r"holds -1e\+200 at \[1, 0\]; .* size 1e\+100 at most"),
        ([[0, 1], [1, 0]], ["a"], "2 rows, but 1 labels"),
        ([[0, 1], [1, 0]], ["a", "a"], "repeat"),
        # A right answer that costs more than a wrong one, and costs that invert the aim.
        (
            [[2, 1], [1, 0]],
            ["a", "b"],
            "'a' is true, predicting 'b' costs 1 and .*'a' costs 2;",
        ),
        ([[0, -1], [1, 0]], ["a", "b"], "'a' is true, predicting 'b' costs -1 and .*costs 0"),
        ([[0, -1, 0], [-1, 0, 0], [0, 0, 0]], None, "0 is true, predicting 1 costs -1"),
        (np.eye(2), None, "right answer must cost no more"),
    ],
)
def test_unusable_cost_matrices_are_refused(matrix, labels, message):
    with pytest.raises(InvalidInputError, match=message):
        CostMatrix(matrix, labels)


@pytest.mark.parametrize(
    "matrix",
    [[[-5, 0], [0, -1]], [[-1, -1], [-1, -1]], [[0, 1], [0, 0]], [[7, 9], [8, 7]]],
    ids=["rewards", "constant", "two answers as good", "offset"],
)
def test_rewards_and_ties_are_costs_like_any_other(matrix):
    np.testing.assert_array_equal(CostMatrix(matrix).matrix(["a", "b"]), matrix)


@pytest.mark.parametrize("Model", [AGM, CRF, SSVM])
def test_a_loss_of_ones_own_is_checked_with_the_labels(Model):
    class Gain(Loss):
        def matrix(self, classes):
            return np.eye(len(classes))

    with pytest.raises(InvalidInputError, match="'a' is true, predicting 'b' costs 0"):
        Model(Gain()).fit([[{"x": 1.0}], [{"x": 2.0}]], [["a"], ["b"]])


def test_a_cost_matrix_of_the_wrong_size_says_how_to_name_its_rows():
    with pytest.raises(InvalidInputError, match=r"for 2 labels .* have 3.*labels=\[\.\.\.\]"):
        CostMatrix([[0, 1], [1, 0]]).matrix(["a", "b", "c"])


def test_a_label_without_costs_is_named():
    with pytest.raises(InvalidInputError, match=r"'c'.*not among the known labels"):
        CostMatrix([[0, 1], [1, 0]], labels=["a", "b"]).matrix(["a", "c"])


@pytest.mark.parametrize(
    ("costs", "labels", "message"),
    [
        ({"a>b": 5}, None, r"hold 'a>b': 5; write \(true label, predicted label\): cost"),
        ({("a", "b", "c"): 5}, None, "true label, predicted label"),
        ({("a", "b"): "5"}, None, "true label, predicted label"),
        ({("a", "b"): np.inf}, None, "true label, predicted label"),
        ({("a", "x"): 5}, ["a", "b"], "names the label 'x', which is not among"),
        ({("a", "b"): -1}, ["a", "b"], "'a' is true, predicting 'b' costs -1"),
    ],
)
def test_single_costs_that_make_no_sense_are_refused(costs, labels, message):
    with pytest.raises(InvalidInputError, match=message):
        CostMatrix(costs, labels)


def test_single_costs_are_of_labels_that_the_data_have():
    costs = CostMatrix({("a", "b"): 5})
    with pytest.raises(InvalidInputError, match=r"names the label 'a'.*labels=\[\.\.\.\]"):
        costs.matrix(["b", "c"])
    with pytest.raises(InvalidInputError, match=r"matrix\(classes\)"):
        _ = costs.costs
    assert costs.evaluate(["c"], ["c"]).tolist() == [0.0]
    named = CostMatrix({("a", "b"): 5}, ["a", "b", "c"])
    np.testing.assert_array_equal(named.matrix(["b", "c"]), [[0, 1], [1, 0]])


def test_names_arrays_and_losses_are_losses():
    assert isinstance(as_loss("hamming"), Hamming)
    assert isinstance(as_loss("absolute"), Absolute)
    assert isinstance(as_loss("squared"), Squared)
    assert isinstance(as_loss([[0, 2], [1, 0]]), CostMatrix)
    loss = Squared()
    assert as_loss(loss) is loss


@pytest.mark.parametrize(("loss", "message"), [("hinge", "'absolute'"), (3.0, "is a float")])
def test_unknown_losses_are_refused(loss, message):
    with pytest.raises(InvalidInputError, match=message):
        as_loss(loss)


def test_class_weights_scale_the_row_of_the_truth():
    costs = np.array([[0.0, 1.0], [5.0, 0.0]])
    weighted = class_weighted(costs, ["a", "b"], {"a": 3})
    np.testing.assert_array_equal(weighted, [[0, 3], [5, 0]])
    np.testing.assert_array_equal(costs, [[0, 1], [5, 0]])
    assert class_weighted(costs, ["a", "b"], None) is costs


@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ({"c": 1}, "names 'c', which is not a label"),
        ({"a": -1}, "0 or more"),
        ({"a": np.nan}, "finite"),
        ({"a": "2"}, "'2'"),
        ("balanced", "a dict from label to weight"),
    ],
)
def test_unusable_class_weights_are_refused(class_weight, message):
    with pytest.raises(InvalidInputError, match=message):
        class_weighted(np.zeros((2, 2)), ["a", "b"], class_weight)


@pytest.mark.parametrize(
    "labels",
    [
        ["a", "bb"],
        [1, 2],
        [0.5, 2.0],
        [True, False],
        ["a", 1, None],
        ["1", 1],
        [(1, 2), (3, 4)],
        [(1,), (1, 2)],
        [b"a", b"b"],
        [2**70, 1],
        [],
    ],
)
def test_labels_are_never_changed(labels):
    array = as_labels(labels)
    assert array.shape == (len(labels),)
    assert array.tolist() == labels
    assert [type(label) for label in array.tolist()] == [type(label) for label in labels]


def test_strings_of_numpy_and_python_are_one_type():
    assert as_labels([np.str_("a"), "b"]).dtype.kind == "U"


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([[1, 2], [3, 4]], r"node 0 has the label \[1, 2\]"),
        (np.zeros((2, 2)), r"shape \(2, 2\)"),
        ([1.0, float("nan")], "node 1 has the label nan"),
        (["a", float("nan")], "node 1 has the label nan"),
        ([1.0, float("inf")], "node 1 has the label inf"),
        (5, "labels are a int"),
    ],
)
def test_what_is_not_a_label_is_refused(labels, message):
    with pytest.raises(InvalidInputError, match=message):
        as_labels(labels)


def test_labels_are_sorted_type_by_type():
    arrays = [as_labels(["b", 2]), as_labels([1, "a"]), as_labels([0.5])]
    assert sorted_labels(arrays).tolist() == [0.5, 1, 2, "a", "b"]
    assert sorted_labels([np.array([3, 1]), np.array([1.5])]).tolist() == [1, 1.5, 3]
    assert sorted_labels([np.array(["b"]), np.array(["abc", "b"])]).tolist() == ["abc", "b"]


def test_labels_without_an_order_are_refused():
    with pytest.raises(InvalidInputError, match="have no order"):
        sorted_labels([as_labels([1j, 2j])])


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["b", "a", "b"], ["a", "b", "c"]),
        (["b", "a", "b"], ["c", "b", "a"]),
        ([3, 1, 2], [1, 2, 3]),
        ([3.0, 1.0], [3, 1]),
        (["1", 1], [1, "1"]),
        ([(1, 2), (0, 0)], [(0, 0), (1, 2)]),
        ([], ["a"]),
    ],
)
def test_encoding_finds_each_label(labels, classes):
    codes = encode_labels(as_labels(labels), as_labels(classes), "y")
    assert codes.dtype == np.intp
    assert [classes[code] for code in codes] == labels


@pytest.mark.parametrize(
    ("labels", "classes"),
    [(["a", "x"], ["a", "b"]), ([1, 9], [1, 2]), ([1, 0], [1, 2]), (["a", "1"], ["a", 1])],
)
def test_an_unknown_label_is_named_with_its_node(labels, classes):
    with pytest.raises(InvalidInputError, match=rf"y holds the label {labels[1]!r} \(node 1\)"):
        encode_labels(as_labels(labels), as_labels(classes), "y")


def test_long_lists_of_labels_are_shortened():
    with pytest.raises(InvalidInputError, match=r"8, 9, \.\.\. 90 more\]"):
        encode_labels(np.array([100]), np.arange(100), "y")


def test_evaluate_needs_equal_lengths():
    with pytest.raises(InvalidInputError, match="y_true labels 2 nodes but y_pred labels 1"):
        Hamming().evaluate([1, 2], [1])


@pytest.mark.parametrize("label", [10**400, 10**6000, "x" * 3000], ids=["400", "6000", "text"])
def test_long_labels_are_cut_short_where_costs_are_shown(label):
    lines = repr(CostMatrix(1 - np.eye(2), [label, "a"])).splitlines()
    assert len(lines) == 4
    assert max(map(len, lines)) < 100
    assert len(repr(CostMatrix({(label, "a"): 2.0}))) < 200
    with pytest.raises(InvalidInputError, match="the right answer must cost no more") as raised:
        CostMatrix([[0, 1], [1, 2]], ["a", label])
    assert len(str(raised.value)) < 600


@pytest.mark.parametrize("classes", [["a", "b", "a"], "a" * 50_000], ids=["few", "many"])
def test_classes_that_are_listed_twice_are_refused(classes):
    """Before a matrix of all of them is made, which would take 20 GB."""
    with pytest.raises(InvalidInputError, match=r"classes hold \d+ labels, of which [12] are"):
        Hamming().evaluate([], [], classes)
