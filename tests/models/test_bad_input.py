"""Bad input gets a message that names the sample and the field, and an error of our own type."""

import inspect
import pickle
import re
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from model_cases import MODELS, chains, same, sentences
from sklearn.exceptions import NotFittedError

from robustruct import AGM, CRF, SSVM, AutoModel, Graph
from robustruct.errors import (
    FileFormatError,
    IncompatibleError,
    InvalidInputError,
    RobustructError,
    errors_at_lines,
)
from robustruct.losses import CostMatrix, Loss
from robustruct.models.parameters import MOVED, OF_A_FIT, PARAMETERS

X3 = [np.ones((2, 3)), np.ones((3, 3))]
Y3 = [["a", "b"], ["b", "a", "b"]]
ROWS = np.arange(12.0).reshape(6, 2)


class Unknown:
    """As what pandas has for missing values: nobody knows whether it equals itself."""

    __hash__ = object.__hash__

    def __eq__(self, other):
        return self

    def __ne__(self, other):
        return self

    def __bool__(self):
        raise TypeError("ambiguous")


OF_ARRAYS, OF_UNKNOWN = np.empty(6, object), np.array([0, Unknown(), 1, 1, 0, 1], object)
for i, row in enumerate(ROWS):
    OF_ARRAYS[i] = row


def fields_agree(error):
    """Whether the fields say what the message says to people."""
    found = re.search(r"sample (\d+)|y\[(\d+)\]", str(error))
    if not isinstance(error, InvalidInputError) or found is None:
        return True
    node = re.search(
        r"sample \d+, node (\d+)|label of node (\d+)|node (\d+) has the|\]: node (\d+):", str(error)
    )
    nodes = None if node is None else int(next(filter(None, node.groups())))
    return (error.sample, error.node) == (int(found[1] or found[2]), nodes)


def with_value(value):
    X = [x.copy() for x in X3]
    X[1][2, 1] = value
    return X


@pytest.mark.parametrize("Model", MODELS)
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": 0}, r"alpha=0; alpha is the strength of the penalty .* must be > 0"),
        ({"alpha": -1.0}, r"alpha=-1\.0"),
        ({"alpha": float("nan")}, "alpha=nan"),
        ({"alpha": "big"}, "alpha='big'"),
        ({"alpha": []}, "alpha is empty"),
        ({"alpha": "many"}, r"alpha='many'; .* must be > 0\. Or use 'auto'"),
        ({"alpha": [1.0, 0.0]}, r"alpha=0\.0"),
        ({"alpha": [1.0, None]}, "alpha"),
        ({"alpha": np.array(1.0)}, r"alpha=array\(1\.\)"),
        ({"tol": 0.0}, r"tol=0\.0; tol is the relative duality gap"),
        ({"max_iter": 0}, "max_iter=0"),
        ({"max_iter": 2.5}, r"max_iter=2\.5; .* must be an integer"),
        ({"n_jobs": 0}, "n_jobs=0; give a number of threads"),
        ({"n_jobs": 1.5}, r"n_jobs=1\.5"),
        ({"n_jobs": "all"}, "n_jobs='all'; give a number of threads"),
        ({"verbose": -1}, "verbose=-1; give 0"),
        ({"random_state": "now"}, "random_state='now'; give an integer"),
        ({"inference": "exakt"}, "inference='exakt' .*; did you mean 'exact'. Use one of 'auto'"),
        ({"decision": "vote"}, "decision='vote' is not known; use one of"),
        ({"optimizer": "adam"}, "optimizer='adam' is not known; use one of 'auto'"),
        ({"loss": "l2"}, r"loss='l2' is not known; use one of 'hamming', 'absolute', 'squared'"),
        ({"loss": 3}, "loss is a int"),
        ({"loss": np.ones((3, 3))}, r"for 3 labels but the data have 2: \['a', 'b'\]"),
        ({"loss": np.ones((2, 3))}, r"shape \(2, 3\); it must be square"),
        ({"loss": [[0, np.nan], [1, 0]]}, r"holds nan at \[0, 1\]; costs must be finite"),
        ({"loss": CostMatrix(np.ones((2, 2)), ["a", "c"])}, "the data holds the label 'b'"),
        ({"class_weight": [1, 2]}, "class_weight is a list; give a dict"),
        ({"class_weight": "heavy"}, "class_weight is a str; give a dict"),
        ({"class_weight": {"a": -1}}, r"class_weight\['a'\] = -1"),
        ({"constraints": [("a",)]}, r"each entry is a pair \(label, next label\)"),
        ({"constraints": iter([("a", "b")])}, "constraints is an iterator"),
        ({"constraints": [("a", "b")]}, "y: sample 0, node 0: 'a' is followed by 'b'"),
        ({"constraints": "IOB"}, "constraints='IOB' is not known"),
        ({"constraints": 5}, "constraints is 5; give a list of pairs"),
        ({"constraints": "BIO"}, "'a' is not a BIO label"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_parameters(Model, parameters, message):
    with pytest.raises(InvalidInputError, match=message) as caught:
        Model(**parameters).fit(X3, Y3)
    assert fields_agree(caught.value)


@pytest.mark.parametrize("Model", MODELS)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cv": 1}, "cv=1 folds, but there are 2 samples"),
        ({"cv": 7}, "cv=7 folds, but there are 2 samples"),
        ({"cv": "many"}, "cv='many'; give 'auto', a number of folds"),
        ({"max_time": 0}, "max_time=0; max_time is the number of seconds"),
        ({"patience": 0}, "patience=0"),
        ({"engine": "dask"}, "engine='dask'; give a DaskEngine, or None"),
        ({"warm_start": "no"}, "warm_start='no'; give True or False"),
        ({"checkpoint": 3}, "checkpoint=3; give a Checkpoint, the path of a folder"),
        ({"validation": 3}, r"validation must be a pair \(X, y\)"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_options_of_a_fit(Model, options, message):
    with pytest.raises(InvalidInputError, match=message) as caught:
        Model(alpha=[1.0]).fit(X3, Y3, **options)
    assert fields_agree(caught.value)


@pytest.mark.parametrize("Model", [*MODELS, AutoModel])
def test_names_that_are_no_parameters_lead_to_those_that_are(Model):
    for name, instead in MOVED.items():
        if name in Model._parameters:
            continue
        said = f"^{Model.__name__}\\(\\) has no parameter '{name}': use {re.escape(instead)}"
        with pytest.raises(TypeError, match=said):
            Model(**{name: None})
        with pytest.raises(ValueError, match=said):
            Model().set_params(**{name: None})
    with pytest.raises(TypeError, match="nonsense"):
        Model(nonsense=1)
    with pytest.raises(ValueError, match="nonsense"):
        Model().set_params(nonsense=1)


def test_every_option_of_a_fit_is_declared_and_its_default_accepted():
    options = list(inspect.signature(AGM.fit).parameters.values())[5:]
    assert {option.name for option in options} == {"validation", *OF_A_FIT}
    for option in options[1:]:
        assert OF_A_FIT[option.name].complaint(option.name, option.default) is None
    chosen = set(inspect.signature(AutoModel).parameters) & set(OF_A_FIT)
    assert chosen == set(OF_A_FIT) - set(inspect.signature(AutoModel.fit).parameters)


@pytest.mark.parametrize("Model", MODELS)
def test_every_parameter_is_declared_and_its_default_accepted(Model):
    model = Model()
    assert set(Model._parameters) == set(model.get_params())
    for name, accepted in Model._parameters.items():
        assert accepted.complaint(name, getattr(model, name)) is None


@pytest.mark.parametrize("value", [1, 0.5, np.float32(2), np.int64(3), Fraction(1, 3)])
def test_numbers_of_any_type_are_numbers(value):
    assert PARAMETERS["alpha"].complaint("alpha", value) is None
    assert PARAMETERS["alpha"].complaint("alpha", [value]) is None


@pytest.mark.parametrize("value", [True, 0, -1e-300, np.inf, np.nan, "1", [1.0], 1j])
def test_what_is_no_positive_number(value):
    wanted = f"tol={value!r}; tol is the relative duality gap"
    assert PARAMETERS["tol"].complaint("tol", value).startswith(wanted)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([], [], "X is empty; give at least one sample"),
        (X3, None, "y is missing"),
        (X3, Y3[:1], "X has 2 samples but y has 1"),
        (X3, 5, "X has 2 samples but y is a int"),
        (X3, [["a", "b"], ["b", "a"]], r"y\[1\] has 2 labels but sample 1 has 3 nodes"),
        (X3, [["a", "b"], "bab"], r"y\[1\] is 'bab'; expected the list of labels of sample 1"),
        (X3, [["a", "b"], 3], r"y\[1\] is 3"),
        (X3, [["a", "b"], ["b", set(), "a"]], r"y\[1\]: node 1: the set of labels is empty"),
        (X3, [["a", "b"], ["b", {"a": -1.0}, "a"]], r"y\[1\]: node 1: the weights of labels"),
        (X3, [[0.0, 1.0], [1.0, np.inf, 0.0]], r"y\[1\]: node 1 has the label inf"),
        (X3, [["a", "b"], [["b", []], "a", "b"]], r"y\[1\]: node 0: a set of labels holds \[\]"),
        ([X3[0], np.ones((3, 2))], Y3, "sample 1: node features have 2 columns; expected 3"),
        ([X3[0], np.ones((0, 3))], [Y3[0], []], "sample 1 is empty"),
        ([X3[0], []], [Y3[0], []], "sample 1 is empty"),
        ([X3[0], np.ones(3)], Y3, r"sample 1 has shape \(3,\); expected two dimensions"),
        ([X3[0], "text"], Y3, "sample 1 is a str"),
        ([X3[0], [["a"]] * 3], Y3, "sample 1: node features are dicts or lists of strings, but"),
        ([X3[0], np.full((3, 3), "a")], Y3, "sample 1: node features hold values of type <U1"),
        (with_value(np.nan), Y3, r"sample 1, node 2: feature 1 is nan"),
        (with_value(-np.inf), Y3, r"sample 1, node 2: feature 1 is -inf"),
        ([[{"w": "a"}], [{"w": None}]], [["a"], ["b"]], "sample 1, node 0: the attribute 'w'"),
        ([[{"w": 1.0}], [{"w": np.nan}]], [["a"], ["b"]], "sample 1, node 0: a feature is nan"),
        ("text", Y3, "X is a str; expected a list of samples"),
        (Graph(np.eye(2), [(0, 1)]), Y3, "X is a Graph; expected a list of samples"),
        (np.ones((2, 3, 4)), Y3, r"shape \(2, 3, 4\).*pass list\(X\)"),
    ],
)
def test_samples_and_labels(X, y, message):
    with pytest.raises(InvalidInputError, match=message) as caught:
        AGM().fit(X, y)
    assert fields_agree(caught.value)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (ROWS, [0, 1, 0], "inconsistent numbers of samples"),
        (ROWS, [0, 1, None, 1, 0, 1], r"y: the label of node 2 is missing \(None\)"),
        (ROWS, np.array([0, 1, None, 1, 0, 1], object), "the label of node 2 is missing"),
        (ROWS, OF_ARRAYS, r"node 0 has the label array\(\[0\., 1\.\]\); a label is"),
        (ROWS, OF_UNKNOWN, "the label of node 1 is missing"),
        (ROWS, [0, 1, np.nan, 1, 0, 1], "node 2 has the label nan"),
        (ROWS, np.array([0, 1, np.nan, 1, 0, 1]), "y contains NaN"),
        (ROWS, None, "requires y to be passed"),
        (np.where(ROWS == 5, np.nan, ROWS), [0, 1] * 3, "sample 2, feature 1 is NaN"),
        (np.where(ROWS == 4, np.inf, ROWS), [0, 1] * 3, "sample 2, feature 0 is infinite"),
        (sp.csr_array(np.where(ROWS == 5, np.nan, ROWS)), [0, 1] * 3, "sample 2, feature 1 is NaN"),
        (np.full((2, 2), "a"), [0, 1], "could not convert string to float"),
        (np.arange(3.0), [0, 1, 0], "Expected 2D array, got 1D array"),
        (np.ones((0, 2)), [], "0 sample"),
    ],
)
def test_plain_rows(X, y, message):
    with pytest.raises(InvalidInputError, match=message) as caught:
        CRF().fit(X, y)
    assert fields_agree(caught.value)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"sample_weight": [1.0]}, r"sample_weight has shape \(1,\); expected \(2,\)"),
        ({"sample_weight": [1.0, -1]}, "sample_weight holds a negative"),
        ({"sample_weight": [1.0, np.nan]}, "sample_weight holds a negative, NaN"),
        ({"sample_weight": ["a", "b"]}, "sample_weight must hold numbers"),
        ({"node_weight": 3}, "node_weight: got 3, but X has 2 samples"),
        ({"node_weight": [[1, 1]]}, "node_weight: got 1 items, but X has 2 samples"),
        ({"node_weight": [[1, 1], [1, 1]]}, r"node_weight\[1\] has shape \(2,\); expected \(3,\)"),
        ({"node_weight": [[1, 1], [1, -1, 1]]}, r"node_weight\[1\] holds a negative"),
    ],
)
def test_weights(weights, message):
    with pytest.raises(InvalidInputError, match=message):
        SSVM().fit(X3, Y3, **weights)
    model = CRF(alpha=1.0).fit(X3, Y3)
    with pytest.raises(InvalidInputError, match=message):
        model.score(X3, Y3, **weights)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"sample_weight": [0, 0]}, "sample_weight is zero for every sample"),
        ({"node_weight": [[0, 0], [0, 0, 0]]}, "node_weight is zero for every node"),
    ],
)
def test_weights_of_zero(weights, message):
    with pytest.raises(InvalidInputError, match=message):
        SSVM().fit(X3, Y3, **weights)
    model = CRF(alpha=1.0).fit(X3, Y3)
    with pytest.raises(InvalidInputError, match=r"^weight is zero for every node; give some node"):
        model.score(X3, Y3, **weights)


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        ((X3, Y3[:1]), "validation: X has 2 samples but y has 1"),
        (([np.ones((2, 2))], [["a", "b"]]), "validation: sample 0: node features have 2 columns"),
        (5, r"validation must be a pair \(X, y\)"),
    ],
)
def test_validation_data(validation, message):
    with pytest.raises(InvalidInputError, match=message) as caught:
        AGM().fit(X3, Y3, validation=validation)
    assert fields_agree(caught.value)


@pytest.mark.parametrize("Model", MODELS)
def test_before_fit(Model):
    model = Model()
    calls = ["predict", "predict_proba", "predict_risk", "predict_k_best", "decision_function"]
    for name in calls:
        with pytest.raises(
            NotFittedError, match=f"This {Model.__name__} instance is not fitted yet"
        ):
            getattr(model, name)(X3)
    for name in ("score", "log_score"):
        with pytest.raises(NotFittedError):
            getattr(model, name)(X3, Y3)


@pytest.mark.parametrize("name", ["predict", "predict_proba", "predict_risk", "predict_k_best"])
@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([X3[0], np.ones((3, 2))], "sample 1: node features have 2 columns; expected 3"),
        ([[{"w": "a"}]], "sample 0: node features are dicts .* trained on numeric columns"),
        ([], "X is empty"),
        (with_value(np.nan), "sample 1, node 2: feature 1 is nan"),
        (np.ones((2, 4)), "fitted on a list of samples; pass a list"),
        ([Graph(np.ones((2, 3)), [(0, 1)], np.ones((1, 1)))], "sample 0 has edge features"),
    ],
)
def test_samples_to_predict(name, X, message):
    model = CRF(alpha=1.0).fit(X3, Y3)
    with pytest.raises(InvalidInputError, match=message) as caught:
        getattr(model, name)(X)
    assert fields_agree(caught.value)


@pytest.mark.parametrize("name", ["predict_risk", "predict_k_best", "decision_function"])
def test_samples_without_nodes_have_labels_but_nothing_else(name):
    model = CRF(alpha=1.0).fit(X3, Y3)
    with pytest.raises(InvalidInputError, match="sample 0 is empty"):
        getattr(model, name)([np.ones((0, 3))])


def test_a_graph_too_wide_for_exact_inference_is_named():
    n = 40
    dense = Graph(np.eye(n), [(i, j) for i in range(n) for j in range(i)])
    truth = [[0, 1] * (n // 2)]
    with pytest.raises(
        IncompatibleError, match=r"sample 0: .* treewidth .* 39.*inference='relaxed'"
    ):
        AGM(inference="exact").fit([dense], truth)
    with pytest.raises(IncompatibleError, match=r"sample 0: .* treewidth"):
        CRF(inference="exact").fit([dense], truth)


def test_labels_unknown_to_the_model():
    model = CRF(alpha=1.0).fit(X3, Y3)
    with pytest.raises(InvalidInputError, match=r"y\[0\]|y holds the label 'c'"):
        model.log_score(X3, [["a", "c"], ["b", "a", "b"]])
    assert model.score(X3, [["a", "c"], ["b", "a", "b"]]) < 0
    with pytest.raises(InvalidInputError, match="y is missing"):
        model.score(X3, None)
    with pytest.raises(InvalidInputError, match="X has 2 samples but y has 1"):
        model.score(X3, Y3[:1])


def test_k_best_needs_a_positive_number():
    with pytest.raises(InvalidInputError, match="k = 0; ask for at least one"):
        CRF(alpha=1.0).fit(X3, Y3).predict_k_best(X3, 0)


def test_a_sample_that_no_labelling_fits():
    model = CRF(alpha=1.0, constraints=[("a", "a"), ("a", "b"), ("b", "b")])
    model.fit([np.ones((2, 1)), np.ones((1, 1))], [["b", "a"], ["a"]])
    for name in ("predict", "predict_proba", "predict_risk", "predict_k_best"):
        with pytest.raises(InvalidInputError, match="sample 1: no labelling of it keeps the rules"):
            getattr(model, name)([np.ones((2, 1)), np.ones((3, 1))])


@pytest.mark.parametrize("Model", MODELS)
def test_a_failed_fit_leaves_the_old_model(Model):
    X, y = chains()
    model = Model(alpha=0.1).fit(X, y)
    before = model.predict(X)
    with pytest.raises(RobustructError):
        model.fit(*sentences(), validation=([], []))
    with pytest.raises(RobustructError):
        model.fit(X3, Y3[:1])
    assert same(model.predict(X), before)


def test_errors_say_in_fields_what_they_are_about():
    with pytest.raises(InvalidInputError) as caught:
        CRF().fit(X3, [["a", "b"], ["b", set(), "b"]])
    error = caught.value
    assert (error.field, error.sample, error.node) == ("y", 1, 1)
    with pytest.raises(InvalidInputError) as caught:
        CRF().fit(with_value(np.nan), Y3)
    assert (caught.value.field, caught.value.sample, caught.value.node) == ("X", 1, 2)
    with pytest.raises(InvalidInputError) as caught:
        CRF(tol=0).fit(X3, Y3)
    assert (caught.value.field, caught.value.sample, caught.value.node) == ("tol", None, None)
    with pytest.raises(InvalidInputError) as caught:
        CRF().fit(X3, Y3, validation=([np.ones((2, 2))], [["a", "b"]]))
    assert (caught.value.field, caught.value.sample) == ("validation", 0)


def test_errors_keep_their_fields_on_the_way_to_another_process():
    plain = InvalidInputError("no", sample=np.int64(3), node=1, field="y")
    in_file = FileFormatError("a.txt", 7, "no", sample=3, field="y")
    for error in (plain, in_file, in_file.at("elsewhere")):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)
    assert (in_file.name, in_file.line) == ("a.txt", 7)


def test_a_place_is_written_once_and_the_innermost_fields_stay():
    error = InvalidInputError("it is a set", sample=2, node=4, field="X").at("validation")
    assert str(error) == "validation: it is a set"
    assert (error.sample, error.node, error.field) == (2, 4, "X")


def test_the_line_of_a_file_comes_from_the_sample_not_from_the_words():
    lines = [1, 5, 9]
    with pytest.raises(FileFormatError) as caught, errors_at_lines("data", lines):
        raise InvalidInputError("the label 'sample 2' of y[0] is odd", sample=1)
    assert str(caught.value) == "data, line 5: the label 'sample 2' of y[0] is odd"
    assert caught.value.sample == 1
    with (
        pytest.raises(FileFormatError, match=r"^data: it is about sample 2 of another"),
        errors_at_lines("data", lines),
    ):
        raise InvalidInputError("it is about sample 2 of another thing")
    with (
        pytest.raises(FileFormatError, match=r"^dev, line 9: no"),
        errors_at_lines("dev", lines, validation=True),
        errors_at_lines("data", [1]),
    ):
        raise InvalidInputError("no", sample=2, field="validation")


@pytest.mark.parametrize("value", [np.nan, np.inf, -1e200])
def test_costs_of_a_loss_of_your_own_are_numbers(value):
    class Odd(Loss):
        def matrix(self, classes):
            return np.where(np.eye(len(classes)), 0.0, value)

    X, y = [np.eye(2)], [[0, 1]]
    for Model in MODELS:
        with pytest.raises(InvalidInputError, match=r"the cost matrix holds .* at \[0, "):
            Model(Odd()).fit(X, y)
