"""scikit-learn's own checks on the plain 2-D form, and its tools on ragged samples."""

import copy
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from model_cases import MODELS, chains, same, sentences
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.metrics import make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import estimator_checks_generator

from robustruct import AGM, CRF, SSVM

CERTIFIED = (
    "training stops at a certified gap, not at the last digit; test_habits.py compares objectives"
)
# For models with classifier tags; estimator_type stays unset, because scikit-learn refuses ragged
# y for classifiers.
EXPECTED = {
    "AGM": {
        "check_sample_weight_equivalence_on_dense_data": CERTIFIED,
        "check_sample_weight_equivalence_on_sparse_data": CERTIFIED,
    },
    "SSVM": {
        "check_sample_weight_equivalence_on_dense_data": CERTIFIED,
        "check_sample_weight_equivalence_on_sparse_data": CERTIFIED,
    },
    "CRF": {},
}


class _Rows(ClassifierMixin):
    """Declared a classifier of rows, so that the checks of classifiers run as well.

    These checks also pass matrices as lists, which to our models are lists of samples.
    """

    def fit(self, X, y, sample_weight=None):
        return super().fit(np.asarray(X) if isinstance(X, list) else X, y, sample_weight)


class PlainAGM(_Rows, AGM):
    pass


class PlainCRF(_Rows, CRF):
    pass


class PlainSSVM(_Rows, SSVM):
    pass


AS_CLASSIFIER = {
    "check_classifiers_regression_target": "numbers are labels: absolute loss needs their distance",
}
# Weights of 1000 to 0.0001 scale costs, not shares of samples: the answer is chance.
CHANCE = "check_class_weight_classifiers"


def checks():
    """All checks; models are estimators by their methods, which scikit-learn warns of."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Estimator .* does not inherit", UserWarning)
        return list(_checks())


def _checks():
    for model in (AGM(), CRF(), SSVM()):
        expected = EXPECTED[type(model).__name__]
        yield from estimator_checks_generator(model, expected_failed_checks=expected, mark="xfail")
    for model in (PlainAGM(), PlainCRF(), PlainSSVM()):
        name = type(model).__name__.removeprefix("Plain")
        expected = {**EXPECTED[name], **AS_CLASSIFIER}
        known = {_name(check) for _, check in estimator_checks_generator(AGM())}
        for case in estimator_checks_generator(
            model, expected_failed_checks=expected, mark="xfail"
        ):
            inner = case.values[1] if hasattr(case, "values") else case[1]
            if _name(inner) not in known and (name == "CRF" or _name(inner) != CHANCE):
                yield case


def _name(check):
    return (check.func if hasattr(check, "func") else check).__name__


def _identity(value):
    return type(value).__name__ if hasattr(value, "get_params") else _name(value)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize(("model", "check"), checks(), ids=_identity)
def test_scikit_learn_check(model, check):
    check(model)


@pytest.mark.parametrize("Model", MODELS)
def test_predict_is_a_list_for_a_list_and_an_array_for_rows(Model):
    X, y = chains()
    model = Model(alpha=0.1).fit(X, y)
    for samples in (X, X[:1], [sp.csr_array(x) for x in X]):
        predicted = model.predict(samples)
        assert type(predicted) is list
        assert [len(labels) for labels in predicted] == [x.shape[0] for x in samples]
    rows, labels = np.concatenate(X), np.concatenate(y)
    flat = Model(alpha=0.1).fit(rows, labels)
    assert flat.predict(rows).shape == labels.shape
    assert flat.predict_proba(rows).shape == (len(labels), 3)
    assert flat.decision_function(rows).shape == (len(labels), 3)
    assert flat.score(rows, labels) == pytest.approx(-np.mean(flat.predict(rows) != labels))


def test_the_rows_of_a_matrix_are_samples_of_one_node():
    X, y = chains()
    rows, labels = np.concatenate(X), np.concatenate(y)
    flat = CRF(alpha=0.1, tol=1e-8).fit(rows, labels)
    lists = CRF(alpha=0.1, tol=1e-8).fit(list(rows[:, None, :]), list(labels[:, None]))
    np.testing.assert_allclose(flat.coef_, lists.coef_, atol=1e-5)


@pytest.mark.parametrize("Model", MODELS)
def test_clone_pickle_and_deepcopy(Model):
    X, y = sentences()
    model = Model(loss=[[0, 1, 2, 3]] * 4, alpha=0.1, random_state=0).fit(X, y)
    assert not hasattr(clone(model), "coef_")
    assert clone(model).get_params()["loss"] == [[0, 1, 2, 3]] * 4
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert same(other.predict(X), model.predict(X))
        np.testing.assert_array_equal(other.coef_, model.coef_)


@pytest.mark.parametrize("as_array", [False, True])
def test_cross_validation_on_ragged_samples(as_array):
    X, y = sentences(2)
    if as_array:
        X, y = (np.array([*values, None], dtype=object)[:-1] for values in (X, y))
    model = CRF(alpha=0.1)
    assert cross_val_score(model, X, y, cv=3).shape == (3,)
    result = cross_validate(model, X, y, cv=3, return_estimator=True, return_train_score=True)
    assert (result["test_score"] <= 0).all()
    assert len(result["estimator"][0].predict(X)) == len(X)


def test_a_fold_may_lack_a_label():
    X, y = sentences()
    split = [(np.array([0, 1, 2]), np.array([3, 4, 5]))]  # only sentences 3 and 5 hold an "A"
    for model in (AGM(alpha=0.1), CRF("absolute", alpha=0.1), SSVM(alpha=0.1)):
        scores = cross_val_score(model, X, y, cv=split, error_score="raise")
        assert -3 <= scores[0] < 0


def test_grid_search_chooses_among_losses_and_penalties():
    X, y = chains(20)
    grid = {"alpha": [1e3, 0.05], "loss": ["hamming", "absolute"]}
    search = GridSearchCV(CRF(), grid, cv=KFold(3), error_score="raise").fit(X, y)
    assert search.best_params_["alpha"] == 0.05
    assert type(search.predict(X)) is list
    assert len(search.predict_proba(X)) == len(X)


def test_a_user_scorer_on_ragged_samples():
    X, y = sentences(2)

    def all_right(truth, predicted):
        return np.mean([list(t) == list(p) for t, p in zip(truth, predicted, strict=True)])

    scores = cross_val_score(CRF(alpha=0.01), X, y, cv=2, scoring=make_scorer(all_right))
    assert (scores >= 0).all()
    assert (scores <= 1).all()


class AddShape(TransformerMixin, BaseEstimator):
    """A transformer of lists of samples."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return [[{**node, "shape": node["w"].istitle()} for node in sample] for sample in X]


def test_a_pipeline_of_samples():
    X, y = sentences()
    pipeline = make_pipeline(AddShape(), AGM(alpha=0.1)).fit(X, y)
    assert "shape" in pipeline[-1].get_feature_names_out()
    assert type(pipeline.predict(X)) is list
    assert pipeline.score(X, y) <= 0
    search = GridSearchCV(pipeline, {"agm__alpha": [1.0, 0.1]}, cv=2, error_score="raise")
    assert search.fit(X, y).best_params_["agm__alpha"] in (1.0, 0.1)


def test_weights_are_routed_as_metadata():
    X, y = chains(10)
    seen = []

    class Recorder(CRF):
        def fit(self, X, y, sample_weight=None, node_weight=None):
            seen.append((len(X), sample_weight, node_weight))
            return super().fit(X, y, sample_weight, node_weight)

    weights = np.arange(1.0, 11)
    nodes = [np.full(len(labels), float(i)) for i, labels in enumerate(y)]
    with sklearn.config_context(enable_metadata_routing=True):
        model = Recorder(alpha=0.1).set_fit_request(sample_weight=True, node_weight=True)
        model.set_score_request(sample_weight=True, node_weight=False)
        search = GridSearchCV(model, {"alpha": [0.1]}, cv=KFold(2), refit=False)
        search.fit(X, y, sample_weight=weights, node_weight=nodes)
    assert [n for n, _, _ in seen] == [5, 5]
    assert list(seen[0][1]) == [6, 7, 8, 9, 10]
    assert [part[0] for part in seen[1][2]] == [0, 1, 2, 3, 4]


def test_predictions_of_cross_validation_on_rows():
    X, y = chains()
    rows, labels = np.concatenate(X), np.concatenate(y)
    assert cross_val_predict(CRF(), rows, labels, cv=3).shape == labels.shape
