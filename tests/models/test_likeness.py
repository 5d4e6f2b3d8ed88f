"""Whether new inputs are noticed that are not like training's, and others left in peace."""

import numpy as np
import pytest
import scipy.sparse as sp

from robustruct import CRF, load
from robustruct.comparison import Samples, compare
from robustruct.errors import InvalidInputError
from robustruct.models.fitting.likeness import LEVEL, Likeness, likeness, looks
from robustruct.objectives.build import in_memory

FORMS = ("dense", "sparse", "strings")


def week(n, seed, form="dense", shift=0.0):
    """Recordings of three sensors in units of their own; readings drift by ``shift``."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rng.integers(4, 9), 3)) + [0.0, shift, 0.0] for _ in range(n)]
    y = [(x[:, 0] > 0).astype(int) for x in X]
    if form == "strings":
        return [[[f"{c}:{v:.0f}" for c, v in enumerate(row)] for row in x] for x in X], y
    X = [x * [1.0, 100.0, 0.01] + [0.0, 1000.0, 0.0] for x in X]
    return ([sp.csr_array(x) for x in X] if form == "sparse" else X), y


@pytest.mark.parametrize("form", FORMS)
def test_new_weeks_are_told_apart_from_those_that_are_unlike(form):
    model = CRF(alpha=0.1).fit(*week(150, 0, form))
    silent = [model._doubt(model._looks(week(100, 1 + s, form)[0])) is None for s in range(30)]
    assert sum(silent) >= 28  # one alarm in a hundred is meant
    drifted = week(100, 50, form, shift=1.0)[0]
    assert "not like those of the training samples" in model._doubt(model._looks(drifted))
    longer = [week(2, s, form)[0] for s in range(60)]
    joined = [sp.vstack(two) if form == "sparse" else [*two[0], *two[1]] for two in longer]
    joined = [np.array(one) for one in joined] if form == "dense" else joined
    assert model._doubt(model._looks(joined)) is not None


@pytest.mark.parametrize("form", FORMS)
def test_p_values_are_not_too_small_on_splits_at_random(form):
    X, _ = week(120, 3, form)
    rng, p_values = np.random.default_rng(0), []
    for _ in range(100):
        order = rng.permutation(120)
        train, new = ([X[i] for i in part] for part in (order[:80], order[80:]))
        y = [np.arange(len(x) if form == "strings" else x.shape[0]) % 2 for x in train]
        plan, problem = in_memory(CRF(standardize=False), train, y)
        p_values.append(likeness(problem.design).strangeness(looks(plan.space.encode(new))))
    assert np.mean(np.array(p_values) <= 0.05) <= 0.12
    assert np.mean(np.array(p_values) <= LEVEL) <= 0.05


def test_moments_are_those_of_columns_as_given():
    X, y = week(40, 0)
    model = CRF(alpha=0.1).fit(X, y)
    means = np.array([x.mean(axis=0) for x in X])
    known = model.likeness_
    np.testing.assert_allclose(known.mean[1:4], means.mean(axis=0))
    np.testing.assert_allclose(known.variance[1:4], means.var(axis=0, ddof=1))
    assert known.mean[0] == pytest.approx(np.mean([np.log(len(x)) for x in X]))


def test_attributes_of_one_sample_alone_do_not_count():
    """Each has a word of its own: a new sample has one as well, which nobody knows."""
    X = [[["common", f"own{i}"]] * 3 for i in range(60)]
    model = CRF(alpha=0.1).fit(X, [["A", "B", "A"]] * 60)
    new = [[["common", f"other{i}"]] * 3 for i in range(60)]
    assert model._doubt(model._looks(new)) is None
    assert model._doubt(model._looks([[["other"]] * 3] * 60)) is not None


def test_files_keep_it_and_refuse_a_false_one(tmp_path):
    model = CRF(alpha=0.1).fit(*week(30, 0))
    model.save(tmp_path / "m")
    again = load(tmp_path / "m").likeness_
    for one, other in zip(again, model.likeness_, strict=True):
        np.testing.assert_array_equal(one, other)
    model.likeness_ = Likeness(np.zeros(2), -np.ones(2), 30)
    model.save(tmp_path / "bad")
    with pytest.raises(InvalidInputError, match="likeness_"):
        load(tmp_path / "bad")


def test_few_samples_are_not_judged():
    model = CRF(alpha=0.1).fit(*week(150, 0))
    assert model._doubt(model._looks(week(5, 1, shift=9.0)[0])) is None


def test_a_comparison_says_it():
    train, test = (Samples(*week(60, s, shift=h)) for s, h in ((0, 0.0), (1, 2.0)))
    found = compare(train, test, alpha=0.1, n_examples=0)
    assert sum("not like those of the training samples" in note for note in found.notes) == 1
    found = compare(train, Samples(*week(60, 2)), alpha=0.1, n_examples=0)
    assert not any("not like" in note for note in found.notes)
