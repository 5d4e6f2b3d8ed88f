"""Models are estimators of scikit-learn."""

import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import sklearn
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold

from robustruct import AGM, CRF, SSVM


def test_an_unknown_parameter_is_named():
    with pytest.raises(ValueError, match="Invalid parameter 'alhpa' for estimator AGM"):
        AGM().set_params(alhpa=1.0)
    with pytest.raises(ValueError, match="Invalid parameter 'alhpa'"):
        AGM().set_params(alhpa__inner=1.0)


@pytest.mark.parametrize("Model", [AGM, CRF, SSVM])
def test_notebooks_show_models_alone_and_inside_others(Model):
    model = Model(alpha=0.125)
    assert "0.125" in model._repr_html_()
    assert model._repr_mimebundle_()["text/plain"] == repr(model)
    search = GridSearchCV(model, {"alpha": [1.0]}, cv=KFold(2))
    assert "0.125" in search._repr_html_()
    assert repr(model) in repr(search)


def test_requests_for_metadata_survive_pickling():
    with sklearn.config_context(enable_metadata_routing=True):
        model = CRF().set_fit_request(sample_weight=True)
        other = pickle.loads(pickle.dumps(model))
        assert other.get_metadata_routing().fit.requests["sample_weight"] is True
        assert CRF().get_metadata_routing().fit.requests["sample_weight"] is None


def test_a_fit_that_failed_leaves_an_unfitted_model():
    model = AGM(loss=np.ones((3, 3)))
    with pytest.raises(ValueError, match="for 3 labels but the data have 2"):
        model.fit(np.eye(3), ["a", "b", "a"])
    assert model.n_features_in_ == 3
    with pytest.raises(NotFittedError):
        model.predict(np.eye(3))


def test_what_is_not_there_is_not_there():
    model = AGM()
    for name in ("coef_", "transform", "_no_such_thing", "__no_such_thing__"):
        assert not hasattr(model, name)
        with pytest.raises(AttributeError, match=f"'AGM' object has no attribute '{name}'"):
            getattr(model, name)
    with pytest.raises(NotFittedError, match="This AGM instance is not fitted yet"):
        _ = model.node_weights_


@pytest.mark.parametrize("random_state", ["seed", 1.5, [1, 2]])
def test_a_random_state_that_is_none(random_state):
    with pytest.raises(ValueError, match="give an integer, a numpy RandomState, or None"):
        CRF(random_state=random_state).fit([[["a"], ["b"]]], [["A", "B"]])


def run(code: str) -> str:
    """What a process of its own prints, in which scikit-learn is not loaded yet."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], check=True, capture_output=True, text=True
    ).stdout


def test_models_made_before_scikit_learn_is_loaded_inherit_when_it_meets_them():
    found = run(
        """
        import sys
        from robustruct import AGM, load

        class Mine(AGM):
            def fit(self, X, y, extra=None):
                return self

        model = Mine(alpha=0.5)
        assert not any(name.startswith("sklearn") for name in sys.modules)

        import sklearn
        from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier

        assert is_classifier(model)
        assert isinstance(model, BaseEstimator) and isinstance(model, ClassifierMixin)
        assert issubclass(AGM, BaseEstimator)
        assert clone(model).alpha == 0.5 and type(clone(model)) is Mine
        with sklearn.config_context(enable_metadata_routing=True):
            routed = model.set_fit_request(extra=True).get_metadata_routing()
            assert routed.fit.requests == {"extra": True}
            routed = AGM().set_fit_request(node_weight=True).get_metadata_routing()
            assert routed.fit.requests["node_weight"] is True
        print(Mine.__mro__ == (Mine, *AGM.__mro__), AGM.__mro__.index(BaseEstimator) > 0)
        """
    )
    assert found == "True True\n"


@pytest.mark.parametrize(
    "make", ["AGM()", "pickle.loads(pickle.dumps(old))", "clone(old)", "copy.copy(old)"]
)
def test_models_made_while_scikit_learn_is_loaded_inherit_from_it(make):
    found = run(
        f"""
        import copy, pickle
        from robustruct import AGM
        old = AGM()
        from sklearn.base import BaseEstimator, clone
        print(isinstance({make}, BaseEstimator), isinstance(old, BaseEstimator))
        """
    )
    assert found == "True True\n"


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("repr(model)", "AGM(alpha=0.5)"),
        ("model.get_params()['alpha']", "0.5"),
        ("'0.5' in model._repr_html_()", "True"),
        ("model.get_metadata_routing().fit.requests['node_weight']", "None"),
    ],
)
def test_what_scikit_learn_hands_down_is_there_before_it_is_loaded(use, expected):
    found = run(
        f"""
        import sys
        from robustruct import AGM
        model = AGM(alpha=0.1).set_params(alpha=0.5)
        assert "sklearn" not in sys.modules
        print({use}, "sklearn" in sys.modules)
        """
    )
    assert found == f"{expected} True\n"


def test_errors_are_scikit_learns_before_it_is_loaded():
    found = run(
        """
        from robustruct import AGM

        for wrong in (
            lambda: AGM().set_params(alhpa=1.0),
            lambda: AGM().node_weights_,
            lambda: AGM().predict([[["a"]]]),
            lambda: AGM().no_such_thing,
        ):
            try:
                wrong()
            except Exception as error:
                print(type(error).__name__, str(error)[:45])
        """
    )
    assert found.splitlines() == [
        "ValueError Invalid parameter 'alhpa' for estimator AGM()",
        "NotFittedError This AGM instance is not fitted yet. Call 'fi",
        "NotFittedError This AGM instance is not fitted yet. Call 'fi",
        "AttributeError 'AGM' object has no attribute 'no_such_thing'",
    ]


def test_models_are_copied_and_pickled_without_scikit_learn():
    found = run(
        """
        import copy, pickle, sys
        from robustruct import CRF

        X, y = [[["a"], ["b"]], [["b"], ["a"]]], [["A", "B"], ["B", "A"]]
        model = CRF(alpha=1.0).fit(X, y)
        for other in (copy.deepcopy(model), copy.copy(model), pickle.loads(pickle.dumps(model))):
            assert other.predict(X) == model.predict(X)
        print("sklearn" in sys.modules)
        """
    )
    assert found == "False\n"
