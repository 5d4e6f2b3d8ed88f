"""Features of any size, costs of any ratio: the certified optimum is found, and it is the same."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from robustruct import AGM, CRF, SSVM
from robustruct.objectives.build import in_memory
from robustruct.optimizers.tuning import Columns, Density, Scales


def chains(n=60, length=12, d=20, k=5, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(d, k))
    X = [rng.normal(size=(length, d)) for _ in range(n)]
    y = [np.argmax(x @ truth + 2 * rng.normal(size=(length, k)), axis=1) for x in X]
    return X, y


def uneven(X):
    """A column of 1e4 beside one of 1e-2."""
    sizes = np.ones(X[0].shape[1])
    sizes[:2] = 1e4, 1e-2
    return [x * sizes for x in X]


@pytest.mark.parametrize("Model", [AGM, SSVM, CRF])
@pytest.mark.parametrize("change", [10.0, 30.0, "uneven"])
@pytest.mark.parametrize("standardize", [False, True])
def test_default_settings_converge_for_features_of_any_size(Model, change, standardize):
    X, y = chains()
    X = uneven(X) if change == "uneven" else [change * x for x in X]
    model = Model(random_state=0, standardize=standardize).fit(X, y)  # a warning would be an error
    assert model.duality_gap_ <= model.tol
    assert model.n_iter_ < 900


@pytest.mark.parametrize("Model", [AGM, SSVM, CRF])
def test_scaling_finds_the_optimum_of_the_problem_given(Model):
    """The objective reported is that of the weights, under the penalty and features given."""
    X, y = chains(20, 5, 4, 3)
    X = uneven(X)
    model = Model(random_state=0, standardize=False).fit(X, y)
    _, problem = in_memory(model, X, y)
    assert not Density.of(problem).tuning().scales.trivial
    if Model is CRF:
        from robustruct.objectives.likelihood import Likelihood

        value, *_ = Likelihood(problem)(model.coef_)
        assert model.objective_ == pytest.approx(
            value + 0.5 * model.alpha_ * model.coef_ @ model.coef_, rel=1e-9
        )
    else:
        p = problem.truth if Model is SSVM else None
        if p is not None:
            assert model.objective_ == pytest.approx(problem.primal(model.coef_, p), rel=1e-9)
    again = Model(random_state=0, standardize=False).fit(X, y).fit(X, y, warm_start=True)
    assert again.objective_ <= model.objective_ * 1.01


def test_scales_are_powers_of_two_that_even_columns_out():
    squares, entries = np.array([1e8, 4.0, 1e-4, 0.0]) * 7, np.array([7.0, 7.0, 7.0, 0.0])
    columns = Columns(squares, entries, 7)
    scales = columns.scales(1e-9)
    np.testing.assert_array_equal(np.log2(scales), np.round(np.log2(scales)))
    size = scales[:3] * np.array([1e4, 2.0, 1e-2])
    assert scales.max() == 1.0
    assert size.max() / size.min() < 2.0
    np.testing.assert_array_equal(columns.scales(1e5), 1.0)  # alpha alone holds all of them
    assert Scales.of(columns.scales(1e5), (3, 1), 2).trivial


def test_features_of_one_size_are_left_alone():
    X, y = chains(10)
    _, problem = in_memory(AGM(standardize=False), X, y)
    tuning = Density.of(problem).tuning()
    assert tuning.scales.trivial
    assert tuning.scales.scaled(problem) is problem


# ------------------------------------------------------------------------------ unequal costs


def names(n=40, k=8, seed=3):
    """Sentences of words of which few are names of some kind."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        words = rng.zipf(1.6, size=12) % 200
        X.append([[f"w{w}", f"p{w % 7}", f"s{w % 11}"] for w in words])
        y.append(np.where(words % 5 == 1, 1 + words % (k - 1), 0))
    return X, y


@pytest.mark.parametrize("ratio", [5.0, 1000.0])
@pytest.mark.parametrize("alpha", [None, 1e6])
@pytest.mark.parametrize("turned", [False, True])
def test_unequal_costs_converge(ratio, alpha, turned):
    X, y = names()
    k = len(np.unique(np.concatenate(y)))
    cost = 1.0 - np.eye(k)
    cost[1:, 0] = ratio  # a name that is missed
    model = AGM(cost.T if turned else cost, alpha=alpha, random_state=0).fit(X, y)
    assert model.duality_gap_ <= 0.01
    assert model.n_iter_ < 900


def test_advice_is_about_the_cause():
    X, y = chains(20, 5, 4, 3)
    with pytest.warns(ConvergenceWarning, match="weak for features of this size"):
        AGM(alpha=1e-9, max_iter=5, tol=1e-6, random_state=0).fit(X, y)
    with pytest.warns(ConvergenceWarning) as caught:
        AGM(alpha=100.0, max_iter=1, tol=1e-9, random_state=0).fit(X, y)
    assert "alpha" not in str(caught[0].message)


@pytest.mark.parametrize("Model", [AGM, SSVM, CRF])
def test_alphas_at_the_ends_of_the_range(Model):
    X, y = chains(10, 4, 3, 3)
    strong = Model(alpha=1e30, random_state=0).fit(X, y)
    assert strong.duality_gap_ <= strong.tol
    assert np.abs(strong.coef_).max() < 1e-25
    with pytest.warns(ConvergenceWarning):
        weak = Model(alpha=1e-30, max_iter=20, random_state=0).fit(X, y)
    assert np.isfinite(weak.coef_).all()
    assert weak.duality_gap_ > 0  # not nan
    for alpha in (1e-300, 1e300):
        with pytest.raises(ValueError, match="must be from 1e-30 to 1e\\+30"):
            Model(alpha=alpha).fit(X, y)
        with pytest.raises(ValueError, match="must be from 1e-30 to 1e\\+30"):
            Model(alpha=[1.0, alpha]).fit(X, y)
