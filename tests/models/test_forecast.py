"""The forecast of a choice: without the bias of the best of many, kept, held against new data."""

import math
import warnings

import numpy as np
import pytest

from robustruct import AGM, CRF, AutoModel, load
from robustruct.errors import InvalidInputError
from robustruct.models.fitting.forecast import Candidates, Forecast, forecast

COST = np.array([[0.0, 5.0], [1.0, 0.0]])


def chains(n, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(4, 6)) for _ in range(n)]
    y = [(x[:, 0] + 1.5 * rng.normal(size=4) > shift).astype(int) for x in X]
    return X, y


@pytest.mark.parametrize(("n_settings", "gap"), [(1, 0.0), (20, 0.0), (20, 0.1), (20, 1.0)])
def test_the_least_of_many_costs_is_too_low_and_the_forecast_is_not(n_settings, gap):
    """Settings of known cost: all level, one ahead by little, one ahead by far."""
    rng = np.random.default_rng(0)
    true = np.r_[1.0, np.full(n_settings - 1, 1.0 + gap)]
    bias, plain_bias, covered, reps = [], [], 0, 60
    for _ in range(reps):
        costs = true[:, None] + rng.gamma(2, 0.2, 60) - 0.4
        costs = costs + 0.5 * rng.normal(size=(n_settings, 60))
        best, weights = costs.mean(axis=1).argmin(), np.ones(60)
        found = forecast(costs[best], weights, [Candidates(costs, costs[best], weights)], 60)
        bias.append(found.mean - true[best])
        plain_bias.append(costs[best].mean() - true[best])
        covered += found.lower <= true[best] <= found.upper
    error = np.std(bias) / math.sqrt(reps)
    assert abs(np.mean(bias)) < 3 * error
    assert covered >= 0.88 * reps  # at 95 %, fewer than this in one of 100 runs
    if n_settings > 1 and gap == 0:
        assert np.mean(plain_bias) < -5 * error


def test_settings_of_fewer_folds_are_priced_by_how_far_they_are_behind():
    """One that is level on the first fold, where it is cheap for both, is no better in all."""
    rng = np.random.default_rng(0)
    cheap, dear = rng.gamma(1, 0.1, 50), rng.gamma(1, 1.0, 50)
    best, first = np.r_[cheap, dear], np.r_[np.ones(50), np.zeros(50)]
    alone = [Candidates(best[None], best, np.ones(100))]
    dropped = Candidates((best * first)[None], best * first, first)
    one = forecast(best, np.ones(100), alone, 100)
    assert forecast(best, np.ones(100), [*alone, dropped], 100) == one
    assert one.mean == pytest.approx(best.mean(), rel=0.05)


def test_what_was_never_seen_may_still_happen():
    zero, ones = np.zeros(30), np.ones(30)
    found = forecast(zero, ones, [Candidates(zero[None], zero, ones)], 30, 1 / 30)
    assert (found.mean, found.lower, found.upper) == (0.0, 0.0, pytest.approx(0.1))
    assert forecast(zero[:1], ones[:1], [Candidates(zero[None, :1], zero[:1], ones[:1])], 1) is None


def test_new_samples_are_a_draw_themselves():
    found = Forecast(1.0, 0.8, 1.3, 100)
    assert found.around(10**12) == pytest.approx((0.8, 1.3))
    assert found.around(100) == pytest.approx((1 - 0.2 * math.sqrt(2), 1 + 0.3 * math.sqrt(2)))
    assert found.contradicted(1.29, 1000) is None
    said = found.contradicted(2.0, 1000)
    assert said.startswith("These samples cost more per node (2) than")
    assert "cost less" in found.contradicted(0.1, 1000)


def test_costs_of_new_samples_lie_within_it_and_those_of_others_do_not():
    inside = 0
    for seed in range(8):
        model = CRF(COST, alpha=[1.0, 0.1, 0.01, 1e-3], random_state=0).fit(*chains(60, seed))
        X, y = chains(300, 100 + seed)
        inside += model.forecast_.contradicted(-model.score(X, y), 300) is None
        X, y = chains(300, 100 + seed, shift=-2.5)
        assert "cost more" in model.forecast_.contradicted(-model.score(X, y), 300)
    assert inside >= 7


@pytest.mark.parametrize("grouped", [False, True])
def test_a_choice_keeps_its_forecast(tmp_path, grouped):
    X, y = chains(40, 0)
    groups = np.repeat(np.arange(10), 4) if grouped else None
    model = AutoModel(COST, random_state=0).fit(X, y, groups=groups)
    best = max(model.trials_, key=lambda one: (one.trusted, one.score))
    assert model.forecast_.lower <= model.forecast_.mean <= model.forecast_.upper
    assert model.forecast_.mean >= -best.score - 0.05 * (model.forecast_.upper + best.score)
    model.save(tmp_path / "m")
    assert load(tmp_path / "m").forecast_ == model.forecast_
    model.forecast_ = Forecast(1.0, 2.0, 3.0, 40)
    model.save(tmp_path / "bad")
    with pytest.raises(InvalidInputError, match="forecast_"):
        load(tmp_path / "bad")


def test_groups_widen_it():
    """Copies of a sample tell nothing new."""
    X, y = chains(20, 0)
    copies = [values * 6 for values in (X, y)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = CRF(COST, alpha=[1.0], decision="map", random_state=0)
        wide = model.fit(*copies, groups=list(range(20)) * 6, cv=4).forecast_
        narrow = model.fit(*copies, cv=4).forecast_
    assert wide.upper - wide.lower > 1.5 * (narrow.upper - narrow.lower)


def test_without_a_choice_there_is_none(tmp_path):
    model = AGM(COST, alpha=0.1).fit(*chains(10, 0))
    assert not hasattr(model, "forecast_")


def test_a_fit_that_goes_on_has_the_forecast_of_the_choice(tmp_path):
    from robustruct import Checkpoint

    X, y = chains(20, 0)
    fits = [
        CRF(COST, alpha=[1.0, 0.1], random_state=0).fit(
            X, y, checkpoint=Checkpoint(tmp_path / "kept", every=1, resume=True)
        )
        for _ in range(2)
    ]
    assert fits[0].forecast_ == fits[1].forecast_
