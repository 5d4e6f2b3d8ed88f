"""How a fit ended, in one word and one sentence, and what the warning makes of it."""

import warnings

import numpy as np
import pytest
import scipy.optimize
from model_cases import MODELS, chains
from sklearn.exceptions import ConvergenceWarning

import robustruct
from robustruct import AGM, CRF, SSVM, AutoModel
from robustruct.optimizers.dual_ascent import DualAscent
from robustruct.optimizers.lbfgs import LBFGS
from robustruct.status import Status


@pytest.mark.parametrize("Model", MODELS)
def test_a_fit_within_its_tolerance(Model, tmp_path):
    model = Model(alpha=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(*chains())
    assert model.duality_gap_ <= model.tol
    assert model.status_ is Status.CONVERGED
    model.save(tmp_path / "model")
    assert robustruct.load(tmp_path / "model").status_ is Status.CONVERGED


@pytest.mark.parametrize("Model", MODELS)
def test_a_fit_whose_passes_ran_out(Model):
    model = Model(alpha=1e-4, tol=1e-9, max_iter=2)
    with pytest.warns(ConvergenceWarning, match="Raise max_iter or tol"):
        model.fit(*chains())
    assert model.status_ is Status.MAX_ITER


def test_a_fit_that_rounding_stopped_is_not_told_to_take_more_passes(monkeypatch):
    no_step = scipy.optimize.OptimizeResult(nit=0, fun=np.inf)
    monkeypatch.setattr(scipy.optimize, "minimize", lambda *arguments, **options: no_step)
    model = CRF(alpha=0.1)
    with pytest.warns(ConvergenceWarning, match=r"above tol=0.001\. Raise tol, use a") as caught:
        model.fit(*chains())
    assert model.status_ is Status.STALLED
    assert model.n_iter_ < model.max_iter
    assert "max_iter" not in str(caught[0].message)


@pytest.mark.parametrize("Model", MODELS)
def test_a_fit_that_validation_stopped(Model):
    X, y = chains(30)
    model = Model(alpha=1e-4, tol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X[:20], y[:20], validation=(X[20:], y[20:]), patience=1)
    assert model.status_ is Status.STOPPED_EARLY


@pytest.mark.parametrize("Model", MODELS)
def test_an_interrupted_fit(Model, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    for optimizer in (DualAscent, LBFGS):
        monkeypatch.setattr(optimizer, "minimise", interrupted)
    model = Model(alpha=0.1)
    with pytest.warns(ConvergenceWarning, match=r"interrupted after 0 .* with a Checkpoint to"):
        model.fit(*chains())
    assert model.status_ is Status.INTERRUPTED


@pytest.mark.parametrize("Model", [AGM, SSVM, CRF, AutoModel])
def test_where_there_is_nothing_to_learn_weights_of_0_are_the_optimum(Model):
    """With one label the objective is 0: no relative gap may be made of how sums are rounded."""
    X, y = chains()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = Model(random_state=0).fit(X, [np.full(len(labels), 7) for labels in y])
    assert model.status_ is Status.CONVERGED
    assert model.duality_gap_ == 0.0 == model.objective_
    assert not model.coef_.any()
    assert all((labels == 7).all() for labels in model.predict(X))
