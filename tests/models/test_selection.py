"""The choice of alpha: as far as the scores ask, not further than training can go."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_rel
from sklearn.exceptions import ConvergenceWarning

from robustruct import AGM, CRF, SSVM
from robustruct.models.selection import Trial, best_alpha, best_constant, walk
from robustruct.objectives.build import in_memory

STEP = math.sqrt(10)
N = 50  # held-out samples of the trials made up here


def trial(costs, trusted=True):
    costs = np.broadcast_to(np.asarray(costs, float), N)
    return Trial(costs, np.ones(N), trusted)


def walked(trial_of_step, first=1.0, baseline=1000.0):
    """Trials by step: 1 is the next weaker penalty, -1 the next stronger."""
    trials, steps = {}, {}
    for alpha in walk(first, trials, trial(baseline)):
        assert alpha not in trials
        step = round(-math.log(alpha / first, STEP))
        trials[alpha] = steps[step] = trial_of_step(step)
    return steps


def best_step(steps):
    return max((step for step in steps if steps[step].trusted), key=lambda s: steps[s].score)


@given(st.integers(-10, 10), st.floats(1e-4, 1e4))
def test_a_single_peak_is_found_wherever_it_lies(peak, first):
    steps = walked(lambda step: trial(1 + abs(step - peak)), first)
    assert best_step(steps) == peak
    assert peak + 2 in steps
    assert peak - 1 in steps
    assert len(steps) <= abs(peak) + 5


def test_a_small_dip_does_not_end_the_walk():
    heights = {0: 4.0, 1: 3.0, 2: 3.1, 3: 2.0, 4: 2.5, 5: 2.6}
    assert best_step(walked(lambda step: trial(heights[step]))) == 3


def test_the_walk_ends_even_if_ever_weaker_is_ever_better():
    assert max(walked(lambda step: trial(100.0 - step))) == 14


def test_penalties_too_strong_to_learn_anything_are_passed():
    def found(step):
        return trial(5.0 - 0.1 * (step % 2) if step < 9 else 1.0 + abs(step - 9))

    assert best_step(walked(found, baseline=4.5)) == 9
    assert max(walked(found, baseline=6.0)) == 3


def test_among_equals_the_strongest_penalty():
    assert best_alpha({1.0: 0.5, 0.1: 0.5, 0.01: 0.2}) == 1.0


@given(st.integers(0, 1000))
def test_noise_does_not_lengthen_the_walk(seed):
    """Every step is a little better, and far from clearly so."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(40, N))
    noise -= noise.mean(axis=1, keepdims=True)
    steps = walked(lambda step: trial(5.0 + noise[step] - 0.01 * step))
    assert sorted(steps) == [-2, -1, 0, 1, 2]


@given(st.integers(0, 10**6), st.floats(-0.5, 0.5))
def test_clearly_better_is_one_standard_error_of_a_paired_comparison(seed, shift):
    a, b = np.random.default_rng(seed).normal(3.0, 1.0, size=(2, N)) + [[shift], [0.0]]
    assert trial(a).clearly_better(trial(b)) == (ttest_rel(b, a).statistic > 1)


@given(st.integers(0, 100))
@settings(max_examples=20, deadline=None)
def test_the_standard_error_takes_weights_into_account(seed):
    """Against the spread of the difference over samples drawn with replacement."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 20, size=400).astype(float)
    a, b = (weights * rng.normal(mean, 1.0, size=400) for mean in (3.0, 3.2))
    drawn = rng.integers(400, size=(1000, 400))
    gains = (b - a)[drawn].sum(axis=1) / weights[drawn].sum(axis=1)
    gain = (b - a).sum() / weights.sum()
    for threshold in (0.8, 1.25):  # shift the difference to just below and above one spread
        moved = a + weights * (gain - threshold * gains.std())
        better = Trial(moved, weights, True).clearly_better(Trial(b, weights, True))
        assert better == (threshold > 1)


def test_a_walk_ends_where_training_misses_its_tolerance():
    steps = walked(lambda step: trial(10.0 - step, trusted=step < 4))
    assert max(steps) == 4
    assert best_step(steps) == 3


def test_an_untrusted_trial_is_never_better():
    assert not trial(1.0, trusted=False).clearly_better(trial(2.0))
    assert not trial(1.0, trusted=False).clearly_better(trial(2.0, trusted=False))
    assert trial(2.0).clearly_better(trial(1.0, trusted=False))


def test_a_first_penalty_too_weak_to_train_is_left_upwards():
    steps = walked(lambda step: trial(20.0 - step, trusted=step < -4))
    assert sorted(steps) == list(range(-7, 1))
    assert best_step(steps) == -5


def data(scale=1.0, n=20):
    rng = np.random.default_rng(0)
    X = [scale * rng.normal(size=(4, 3)) for _ in range(n)]
    return X, [(x[:, 0] + 0.5 * scale * rng.normal(size=4) > 0).astype(int) for x in X]


@pytest.mark.parametrize(
    ("model", "scale"),
    [(AGM, 1.0), (AGM, 100.0), (SSVM, 1.0), (SSVM, 100.0), (CRF, 0.01), (CRF, 100.0)],
)
@pytest.mark.filterwarnings(f"ignore::{ConvergenceWarning.__module__}.ConvergenceWarning")
def test_the_scale_of_the_features_does_not_matter(model, scale):
    X, y = data(scale)
    fitted = model(alphas="auto", cv=3, random_state=0).fit(X, y)
    assert fitted.alpha_scores_[fitted.alpha_] == max(fitted.alpha_scores_.values())
    assert -fitted.score(X, y) < 0.3


@pytest.mark.parametrize("weighted", [False, True])
def test_the_baseline_is_the_cheapest_constant_answer(weighted):
    X, y = data(n=8)
    cost = np.array([[0.0, 1.0, 4.0], [2.0, 0.0, 1.0], [3.0, 5.0, 0.0]])
    y = [labels + (i % 2) for i, labels in enumerate(y)]
    sample_weight = np.arange(1.0, 9.0) if weighted else None
    node_weight = [np.array([1.0, 0.0, 2.0, 0.5])] * 8 if weighted else None
    _, problem = in_memory(CRF(cost), X, y, sample_weight, node_weight)
    found = best_constant(cost, problem, 36.0 if weighted else 8.0)
    w = np.outer(sample_weight, node_weight[0]) if weighted else np.ones((8, 4))
    by_label = [(w * cost[np.array(y), label]).sum(axis=1) for label in range(3)]
    np.testing.assert_allclose(found.costs, min(by_label, key=np.sum))
    np.testing.assert_allclose(found.weights, w.sum(axis=1))


@pytest.mark.parametrize("alphas", ["auto", [10.0, 1.0, 1e-9]])
def test_an_alpha_that_was_not_trained_to_tolerance_is_not_chosen(alphas):
    X, y = data()
    model = AGM(alphas=alphas, cv=3, random_state=0, tol=1e-3, max_iter=60)
    with pytest.warns(ConvergenceWarning, match="missed tol=0.001 within the 30 passes"):
        model.fit(X, y)
    assert model.duality_gap_ <= 1e-3
    for alpha in model.alpha_scores_:
        alone = AGM(alpha=alpha, random_state=0, tol=1e-3, max_iter=60).fit(X[:13], y[:13])
        assert alone.duality_gap_ <= 1e-3


@pytest.mark.filterwarnings(f"ignore::{ConvergenceWarning.__module__}.ConvergenceWarning")
def test_where_nothing_reaches_its_tolerance_scores_decide():
    X, y = data()
    model = AGM(alphas=[10.0, 0.01], cv=3, random_state=0, tol=1e-9, max_iter=4).fit(X, y)
    assert list(model.alpha_scores_) == [10.0, 0.01]
    assert model.alpha_scores_[0.01] > model.alpha_scores_[10.0]
    assert model.alpha_ == 0.01


def test_scores_are_those_of_all_held_out_samples():
    X, y = data(n=10)
    folds = [(np.arange(3, 10), np.arange(3)), (np.arange(3), np.arange(3, 10))]
    node_weight = [np.arange(1.0, 5.0) + i for i in range(10)]
    sample_weight = np.arange(1.0, 11.0)
    model = CRF("hamming", alphas=[0.1], cv=folds).fit(X, y, sample_weight, node_weight)
    cost = weight = 0.0
    for train, test in folds:
        part = CRF("hamming", alpha=0.1).fit(
            *([v[i] for i in train] for v in (X, y, sample_weight, node_weight))
        )
        for i in test:
            w = sample_weight[i] * node_weight[i]
            cost += w @ (part.predict([X[i]])[0] != y[i])
            weight += w.sum()
    assert model.alpha_scores_[0.1] == pytest.approx(-cost / weight)
