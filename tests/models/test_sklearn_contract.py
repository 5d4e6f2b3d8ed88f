"""scikit-learn's own checks on the plain 2-D form, and its tools on ragged samples."""

import copy
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from model_cases import MODELS, bio, chains, same, sentences
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone, is_classifier
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    StratifiedKFold,
    check_cv,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import estimator_checks_generator

from robustruct import AGM, CRF, SSVM, Constraints
from robustruct.losses import Absolute

CERTIFIED = (
    "training stops at a certified gap, not at the last digit; test_habits.py compares objectives"
)
LISTS = "a matrix as a list is a list of samples; PlainAGM and the like are checked instead"
EXPECTED = {
    "check_classifiers_train": LISTS,
    "check_classifiers_regression_target": "numbers are labels: absolute loss needs their distance",
}
CERTIFIED_ONLY = {
    "check_sample_weight_equivalence_on_dense_data": CERTIFIED,
    "check_sample_weight_equivalence_on_sparse_data": CERTIFIED,
}
# Weights of 1000 to 0.0001 scale costs, not shares of samples: the answer is chance.
CHANCE = "check_class_weight_classifiers"


class _Rows:
    """Takes lists for matrices."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(np.asarray(X) if isinstance(X, list) else X, y, sample_weight)


class PlainAGM(_Rows, AGM):
    pass


class PlainCRF(_Rows, CRF):
    pass


class PlainSSVM(_Rows, SSVM):
    pass


def checks():
    for model in (AGM(), CRF(), SSVM()):
        is_crf = isinstance(model, CRF)
        expected = EXPECTED if is_crf else {**EXPECTED, **CERTIFIED_ONLY}
        for case in estimator_checks_generator(
            model, expected_failed_checks=expected, mark="xfail"
        ):
            if is_crf or _name(_check(case)) != CHANCE:
                yield case
    for model in (PlainAGM(), PlainCRF(), PlainSSVM()):
        for case in estimator_checks_generator(model):
            if EXPECTED.get(_name(_check(case))) == LISTS:
                yield case


def _check(case):
    return case.values[1] if hasattr(case, "values") else case[1]


def _name(check):
    return (check.func if hasattr(check, "func") else check).__name__


def _identity(value):
    return type(value).__name__ if hasattr(value, "get_params") else _name(value)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize(("model", "check"), list(checks()), ids=_identity)
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
    model = Model(loss=[[a] * 4 for a in range(4)], alpha=0.1, random_state=0).fit(X, y)
    assert not hasattr(clone(model), "coef_")
    assert clone(model).get_params()["loss"] == [[a] * 4 for a in range(4)]
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert same(other.predict(X), model.predict(X))
        np.testing.assert_array_equal(other.coef_, model.coef_)


def labels_as_arrays(y):
    """scikit-learn takes lists in y for another form of its own, unless ``cv`` is a splitter."""
    return [np.array(labels) for labels in y]


@pytest.mark.parametrize("as_array", [False, True])
@pytest.mark.parametrize("cv", [3, KFold(3)])
def test_cross_validation_on_ragged_samples(as_array, cv):
    X, y = sentences(2)
    if isinstance(cv, int):
        y = labels_as_arrays(y)
    if as_array:
        X, y = (np.array([*values, None], dtype=object)[:-1] for values in (X, y))
    model = CRF(alpha=0.1)
    assert cross_val_score(model, X, y, cv=cv).shape == (3,)
    result = cross_validate(model, X, y, cv=cv, return_estimator=True, return_train_score=True)
    assert (result["test_score"] <= 0).all()
    assert len(result["estimator"][0].predict(X)) == len(X)


def test_a_fold_may_lack_a_label():
    X, y = sentences()
    split = [(np.array([0, 1, 2]), np.array([3, 4, 5]))]  # only sentences 3 and 5 hold an "A"
    order = Absolute(order=["A", "D", "N", "V"])
    for model in (AGM(alpha=0.1), CRF(order, alpha=0.1), SSVM(alpha=0.1)):
        scores = cross_val_score(model, X, y, cv=split, error_score="raise")
        assert -3 <= scores[0] < 0


def test_grid_search_chooses_among_losses_and_penalties():
    X, y = chains(20)
    grid = {"alpha": [1e3, 0.05], "loss": ["hamming", "absolute"]}
    # As GridSearchCV asks: sequences cannot be stratified.
    assert isinstance(check_cv(3, y, classifier=is_classifier(CRF())), KFold)
    search = GridSearchCV(CRF(), grid, cv=3, error_score="raise").fit(X, y)
    assert search.best_params_["alpha"] == 0.05
    assert type(search.predict(X)) is list
    assert len(search.predict_proba(X)) == len(X)


def test_a_user_scorer_on_ragged_samples():
    X, y = sentences(2)

    def all_right(truth, predicted):
        return np.mean([list(t) == list(p) for t, p in zip(truth, predicted, strict=True)])

    scores = cross_val_score(CRF(alpha=0.01), X, y, cv=KFold(2), scoring=make_scorer(all_right))
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
    assert search.fit(X, labels_as_arrays(y)).best_params_["agm__alpha"] in (1.0, 0.1)


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


@pytest.mark.parametrize("Model", MODELS)
def test_models_are_classifiers(Model):
    assert isinstance(Model(), BaseEstimator)
    assert isinstance(Model(), ClassifierMixin)
    assert is_classifier(Model())
    assert is_classifier(make_pipeline(Model()))


@pytest.mark.parametrize("voting", ["hard", "soft"])
def test_models_vote_and_are_stacked_with_other_classifiers(voting):
    X, y = chains(30)
    rows, labels = np.concatenate(X), np.array(list("abc"))[np.concatenate(y)]
    members = [
        ("agm", AGM(alpha=0.1)),
        ("crf", CRF()),
        ("tree", DecisionTreeClassifier(max_depth=2)),
    ]
    vote = VotingClassifier(members, voting=voting).fit(rows, labels)
    assert vote.score(rows, labels) > 0.6
    if voting == "soft":
        mean = np.mean([model.predict_proba(rows) for model in vote.estimators_], axis=0)
        np.testing.assert_allclose(vote.predict_proba(rows), mean)
    else:
        stack = StackingClassifier(members, LogisticRegression(), cv=2).fit(rows, labels)
        assert stack.score(rows, labels) > 0.6


def test_rows_are_dealt_out_in_proportion_to_their_labels():
    X, y = chains(30)
    rows, labels = np.concatenate(X), np.concatenate(y)
    search = GridSearchCV(CRF(), {"alpha": [1.0, 0.1]}, cv=3, error_score="raise")
    assert isinstance(check_cv(3, labels, classifier=is_classifier(CRF())), StratifiedKFold)
    assert np.mean(search.fit(rows, labels).predict(rows) == labels) > 0.6


RULES = ["BIO", [("O", "I-LOC")], Constraints("BIO", [("I-LOC", "B-LOC")], bad_labels="drop")]


@pytest.mark.parametrize("rules", RULES, ids=repr)
def test_rules_are_a_parameter_like_any_other(rules):
    model = CRF(alpha=0.1, constraints=rules)
    others = clone(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))
    for other in (*others, CRF().set_params(**model.get_params())):
        assert other.constraints == rules
        assert repr(other) == repr(model)
    assert eval(repr(model)).constraints == rules


def test_a_grid_search_over_rules():
    X, y = bio()
    search = GridSearchCV(CRF(alpha=0.1), {"constraints": [None, *RULES]}, cv=KFold(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitFailedWarning)
        warnings.simplefilter("ignore", UserWarning)
        search.fit(X, y)
    assert [given["constraints"] for given in search.cv_results_["params"]] == [None, *RULES]
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_options_of_a_fit_go_through_tools(tmp_path):
    X, y = chains(12)
    options = {"max_time": 60.0, "checkpoint": tmp_path / "kept"}
    make_pipeline("passthrough", AGM(alpha=0.1)).fit(
        X, y, **{f"agm__{name}": value for name, value in options.items()}
    )
    assert any((tmp_path / "kept").iterdir())
