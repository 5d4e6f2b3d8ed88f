"""Models are estimators to scikit-learn, although they do not load it."""

import pickle

import pytest
import sklearn
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold

from robustruct import AGM, CRF, SSVM


class Reference(BaseEstimator):
    """scikit-learn's own way with the same parameters; named alike where names are shown."""

    __init__ = AGM.__init__


Reference.__name__ = "AGM"


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"alpha": 0.1, "loss": "absolute"},
        {"tol": 0.01, "alpha": None},
        {"forbidden": [("a", "b")]},
    ],
)
def test_parameters_are_read_and_shown_as_scikit_learn_would(params):
    model, reference = AGM(**params), Reference(**params)
    assert model.get_params() == reference.get_params()
    assert list(model.get_params(deep=False)) == list(reference.get_params(deep=False))
    assert repr(model) == repr(reference)


def test_parameters_of_parameters():
    inner = CRF(alpha=2.0)
    model = AGM(loss=inner)  # whatever has parameters would do
    assert model.get_params() == Reference(loss=inner).get_params()
    assert "loss__alpha" not in model.get_params(deep=False)
    assert model.set_params(alpha=1.0, loss__alpha=3.0) is model
    assert (model.alpha, inner.alpha) == (1.0, 3.0)


def test_an_unknown_parameter_is_named():
    with pytest.raises(ValueError, match="AGM has no parameter 'alhpa'; it has alpha, alphas"):
        AGM().set_params(alhpa=1.0)
    with pytest.raises(ValueError, match="no parameter 'alhpa'"):
        AGM().set_params(alhpa__inner=1.0)


def test_long_parameters_are_cut_short():
    shown = repr(AGM(forbidden=[(f"from {i}", f"to {i}") for i in range(1000)]))
    assert shown.startswith("AGM(forbidden=[('from 0', ")
    assert shown.endswith("('from 999', 'to 999')])")
    assert len(shown) < 720


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


def test_what_is_not_there_is_not_there():
    model = AGM()
    for name in ("coef_", "transform", "_no_such_thing", "__no_such_thing__"):
        assert not hasattr(model, name)
        with pytest.raises(AttributeError, match=f"'AGM' object has no attribute '{name}'"):
            getattr(model, name)
    with pytest.raises(NotFittedError, match="This AGM instance is not fitted yet; call fit first"):
        _ = model.node_weights_


@pytest.mark.parametrize("random_state", ["seed", 1.5, [1, 2]])
def test_a_random_state_that_is_none(random_state):
    with pytest.raises(ValueError, match="give an integer, a numpy RandomState, or None"):
        CRF(random_state=random_state).fit([[["a"], ["b"]]], [["A", "B"]])
