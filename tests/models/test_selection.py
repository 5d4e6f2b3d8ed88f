"""The walk of ``alphas="auto"``: it goes as far as the scores ask, and never stops at an edge."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from robustruct import AGM, CRF, SSVM
from robustruct.models.selection import best_alpha, walk

STEP = math.sqrt(10)


def walked(score, first=1.0):
    scores = {}
    for alpha in walk(first, scores):
        assert alpha not in scores
        scores[alpha] = score(alpha)
    return scores


@given(st.integers(-10, 10), st.floats(1e-4, 1e4))
def test_a_single_peak_is_found_wherever_it_lies(peak, first):
    scores = walked(lambda alpha: -abs(math.log(alpha / first, STEP) - peak), first)
    assert best_alpha(scores) == pytest.approx(first * STEP**peak)
    below = [alpha for alpha in scores if alpha < best_alpha(scores) * 0.9]
    above = [alpha for alpha in scores if alpha > best_alpha(scores) * 1.1]
    assert len(below) >= 2
    assert len(above) >= 2
    assert len(scores) <= abs(peak) + 5


def test_a_small_dip_does_not_end_the_walk():
    heights = {0: 0.0, 1: 1.0, 2: 0.9, 3: 2.0, 4: 1.5, 5: 1.4}
    scores = walked(lambda alpha: heights[round(-math.log(alpha, STEP))])
    assert best_alpha(scores) == pytest.approx(STEP**-3)


def test_the_walk_ends_even_if_ever_weaker_is_ever_better():
    assert len(walked(lambda alpha: -alpha)) == 15


def test_among_equals_the_strongest_penalty():
    assert best_alpha({1.0: 0.5, 0.1: 0.5, 0.01: 0.2}) == 1.0
    flat = walked(lambda alpha: 0.0)
    assert max(flat) == best_alpha(flat)


@pytest.mark.parametrize("model", [AGM, CRF, SSVM])
@pytest.mark.parametrize("scale", [1.0, 100.0])
@pytest.mark.filterwarnings(f"ignore::{ConvergenceWarning.__module__}.ConvergenceWarning")
def test_the_scale_of_the_features_does_not_matter(model, scale):
    rng = np.random.default_rng(0)
    X = [scale * rng.normal(size=(4, 3)) for _ in range(20)]
    y = [(x[:, 0] + 0.5 * scale * rng.normal(size=4) > 0).astype(int) for x in X]
    fitted = model(alphas="auto", cv=3, random_state=0, max_iter=200).fit(X, y)
    tried = sorted(fitted.alpha_scores_)
    assert fitted.alpha_scores_[fitted.alpha_] == max(fitted.alpha_scores_.values())
    assert fitted.alpha_ < tried[-1] or fitted.alpha_scores_[tried[-2]] == -0.0
    assert -fitted.score(X, y) < 0.3
