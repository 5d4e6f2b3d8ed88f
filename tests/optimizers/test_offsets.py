"""A constant added to all costs changes the objective by that constant, and nothing else."""

import numpy as np
import pytest

from robustruct import AGM, CRF, SSVM


def chains(seed=0, n=25, k=4):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(6, k))
    X = [rng.normal(size=(rng.integers(2, 7), 6)) for _ in range(n)]
    y = [np.argmax(x @ truth + rng.normal(size=(len(x), k)), axis=1) for x in X]
    weights = [rng.uniform(0.5, 2.0, len(x)) for x in X]
    return X, y, weights


HAMMING = 1.0 - np.eye(4)
RANDOM = np.random.default_rng(5).integers(1024, 3072, (4, 4)) / 1024 * HAMMING  # no rounding


@pytest.mark.parametrize("Model", [AGM, SSVM])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("cost", "offset"), [(HAMMING, -1.0), (HAMMING, 100.0), (RANDOM, -7.25), (RANDOM, 2.0**20)]
)
def test_offsets_leave_the_fit_as_it_is(Model, weighted, cost, offset):
    X, y, weights = chains()
    node_weight = weights if weighted else None
    plain, moved = (
        Model(loss, alpha=0.02, tol=1e-3, random_state=0).fit(X, y, node_weight=node_weight)
        for loss in (cost, cost + offset)
    )
    assert moved.n_iter_ == plain.n_iter_ > 5
    assert moved.duality_gap_ == plain.duality_gap_
    np.testing.assert_array_equal(moved.coef_, plain.coef_)
    mean_weight = np.mean([np.sum(w) if weighted else len(w) for w in weights])
    added = offset * mean_weight
    assert moved.objective_ == pytest.approx(plain.objective_ + added, rel=1e-9)
    for before, after in zip(plain.history_, moved.history_, strict=True):
        assert after.primal - after.dual == pytest.approx(before.primal - before.dual, abs=1e-7)


def test_offsets_do_not_touch_a_crf():
    X, y, _ = chains()
    plain, moved = (CRF(loss, alpha=0.02, tol=1e-4).fit(X, y) for loss in (HAMMING, HAMMING + 1e6))
    assert moved.n_iter_ == plain.n_iter_
    np.testing.assert_array_equal(moved.coef_, plain.coef_)
    assert moved.duality_gap_ == plain.duality_gap_ <= 1e-4


def test_what_right_answers_cost_is_not_in_the_scale_of_the_gap():
    """Right answers that cost 1000 must not make a gap of 1 % of that good enough."""
    X, y, _ = chains()
    fine = AGM(HAMMING, alpha=0.02, tol=1e-4, random_state=0).fit(X, y)
    moved = AGM(HAMMING + 1000.0, alpha=0.02, tol=1e-2, random_state=0).fit(X, y)
    excess = moved.objective_ - 1000.0 * np.mean([len(labels) for labels in y])
    assert fine.objective_ <= excess * (1 + 1e-4)
    assert excess <= fine.objective_ * 1.011
