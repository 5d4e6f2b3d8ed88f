"""Models are estimators of scikit-learn."""

import pickle

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
