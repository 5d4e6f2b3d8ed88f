"""What scikit-learn's tools and libraries around it expect of a classifier of rows."""

import numpy as np
import pytest
import sklearn
from model_cases import MODELS
from sklearn.base import is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from robustruct import AGM, CRF, SSVM
from robustruct.status import Status

X, y = (part[::3] for part in load_iris(return_X_y=True))


@pytest.mark.parametrize("Model", MODELS)
@pytest.mark.parametrize(
    "client",
    [
        lambda one: VotingClassifier([("one", one), ("other", LogisticRegression())]),
        lambda one: VotingClassifier(
            [("one", one), ("other", LogisticRegression())], voting="soft"
        ),
        lambda one: StackingClassifier([("one", one)], LogisticRegression(), cv=2),
        lambda one: BaggingClassifier(one, n_estimators=2, random_state=0),
        lambda one: CalibratedClassifierCV(one, cv=2),
        lambda one: GridSearchCV(one, {"alpha": [0.01, 0.1]}, scoring="accuracy", cv=2),
    ],
)
def test_tools_take_it_for_a_classifier(Model, client) -> None:
    model = Model(alpha=0.05, random_state=0)
    assert is_classifier(model)
    assert client(model).fit(X, y).predict(X).tolist().count(0) == 17


@pytest.mark.parametrize("Model", MODELS)
def test_set_output_of_a_pipeline_passes_through(Model) -> None:
    pytest.importorskip("pandas")
    pipeline = make_pipeline(StandardScaler(), Model(alpha=0.05)).set_output(transform="pandas")
    model = pipeline.fit(X, y)[-1]
    assert model.feature_names_in_.tolist() == [f"x{i}" for i in range(4)]


@pytest.mark.parametrize("Model", MODELS)
def test_weights_are_routed(Model) -> None:
    weight = np.arange(len(y)) % 3 + 1.0
    plain = Model(alpha=0.05, random_state=0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = Model(alpha=0.05, random_state=0)
        model.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        found = cross_validate(model, X, y, params={"sample_weight": weight}, cv=KFold(2))
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        scaler = scaler.set_transform_request()
        routed = make_pipeline(scaler, model).fit(X, y, sample_weight=weight)[-1]
    direct = plain.fit(StandardScaler().fit_transform(X), y, sample_weight=weight)
    np.testing.assert_array_equal(routed.coef_, direct.coef_)
    expected = []
    for train, test in KFold(2).split(X):
        plain.fit(X[train], y[train], sample_weight=weight[train])
        expected.append(plain.score(X[test], y[test], sample_weight=weight[test]))
    assert found["test_score"].tolist() == expected


@pytest.mark.parametrize(("Model", "most"), [(AGM, 1e-3), (CRF, 1e-5), (SSVM, 1e-3)])
def test_whole_weights_are_repetitions(Model, most) -> None:
    """As closely as the gap says: |difference of the weights|² <= 4 gap objective / alpha."""
    weight = np.arange(len(y)) % 3
    options = {"alpha": 0.1, "tol": 1e-6, "max_iter": 20000, "random_state": 0}
    options["standardize"] = False  # the penalty of the bound is on the weights compared
    weighted = Model(**options).fit(X, y, sample_weight=weight)
    repeated = Model(**options).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert weighted.status_ is repeated.status_ is Status.CONVERGED
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=2e-6)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=most)
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))


@pytest.mark.parametrize("Model", MODELS)
@pytest.mark.parametrize("ragged", [True, False])
def test_models_pass_through_skops(Model, ragged) -> None:
    io = pytest.importorskip("skops.io")
    samples, labels = X, y
    if ragged:
        samples = [[{"w": "the"}, {"w": "cat"}], [{"w": "a"}, {"w": "dog"}]]
        labels = [["D", "N"], ["D", "N"]]
    model = Model(alpha=0.1, random_state=0).fit(samples, labels)
    data = io.dumps(model)
    again = io.loads(data, trusted=io.get_untrusted_types(data=data))
    assert again.status_ is model.status_
    assert again.history_ == model.history_
    for mine, theirs in zip(model.predict(samples), again.predict(samples), strict=True):
        np.testing.assert_array_equal(mine, theirs)
