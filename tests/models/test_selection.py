"""The choice on held-out samples: as far as scores ask, not further than training can go."""

import itertools
import math
import time
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_rel
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold, KFold, RepeatedKFold

from corpora import load_wnut17, name_attributes
from robustruct import AGM, CRF, SSVM, AutoModel, load
from robustruct.datasets import load_counter, make_grids
from robustruct.errors import IncompatibleError, InvalidInputError
from robustruct.formats.shards import ShardedData
from robustruct.losses import CostMatrix, as_loss
from robustruct.models.fitting import selection
from robustruct.models.fitting.choice import Choice, Tried
from robustruct.models.fitting.selection import Entry, Place, Race, steps_to_unfelt
from robustruct.models.fitting.splitting import dealt_out, group_codes, shuffler, splits
from robustruct.models.fitting.trials import Trial, Variant, best_constant, unit_of_alpha
from robustruct.objectives.build import in_memory
from robustruct.status import Status

N = 50  # held-out samples of the trials made up here
CRF_ALONE = [("likelihood", math.inf)]


def trial(costs):
    return Trial(np.broadcast_to(np.asarray(costs, float), N), np.ones(N))


def a_race(members=CRF_ALONE, baseline=1000.0, enough=14):
    """A race without samples: whoever tests it says how settings do."""
    race = Race.__new__(Race)
    race.members, race.alphas, race.entries = list(members), [], {}
    race.baseline, race.enough = trial(baseline), enough
    race.max_time, race.cut, race.share = None, False, math.inf
    race.splits = [None] * 5
    race.plan = SimpleNamespace(unit=1.0, usual_alpha=lambda temperature: 1.0)
    return race


def enter(race, place, found, trusted=True, unfinished=False):
    entry = race.entries.get(place) or Entry(place)
    entry.found, entry.trial, entry.best = [{Variant("map"): found}], found, Variant("map")
    entry.trusted, entry.unfinished = trusted, unfinished
    race.entries[place] = entry


def run(race, trial_of, trusted_of=lambda place: True):
    """The search on the first fold; the places in the order in which they were tried."""
    order = []
    for place in race.starts():
        enter(race, place, trial_of(place), trusted_of(place))
        order.append(place)
    for place in race.search():
        enter(race, place, trial_of(place), trusted_of(place))
        order.append(place)
        assert len(order) < 100
    return order


def walked(trial_of_step, trusted_of_step=lambda step: True, **options):
    """(steps in the order in which they were tried, the best): 1 is the next weaker penalty."""
    race = a_race(**options)
    order = run(race, lambda p: trial_of_step(p.step), lambda p: trusted_of_step(p.step))
    return [place.step for place in order], race.ranked()[0].place.step


@given(st.integers(-10, 10))
def test_a_single_peak_is_found_wherever_it_lies(peak):
    steps, best = walked(lambda step: trial(1 + abs(step - peak)))
    assert best == peak
    assert {peak - 1, peak + 1} <= {*steps}
    assert len(steps) <= abs(peak) + 4


def test_the_walk_ends_even_if_ever_weaker_is_ever_better():
    assert max(walked(lambda step: trial(100.0 - step))[0]) == 14


def test_penalties_too_strong_to_learn_anything_are_passed():
    def found(step):
        return trial(5.0 - 0.1 * step if step < 9 else 1.0 + abs(step - 9))

    assert walked(found, baseline=4.0)[1] == 9


@pytest.mark.parametrize("enough", [0, 1, 5])
def test_penalties_that_are_not_felt_are_not_passed(enough):
    """Whatever was learnt is no better than the best constant, and will not be."""
    noise = np.random.default_rng(0).normal(size=(40, N))
    noise -= noise.mean(axis=1, keepdims=True)
    steps, _ = walked(
        lambda step: trial(5.0 + noise[step] - 0.01 * step), baseline=4.0, enough=enough
    )
    assert sorted(steps) == list(range(-1, max(enough, 1) + 1))


@pytest.mark.parametrize("form", ["dense", "sparse", "dicts"])
def test_what_is_enough_follows_the_feature_that_varies_least(form):
    """At the weakest penalty of the walk weights are what they are without any."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(4, 2)) * [1.0, 0.03] for _ in range(25)]
    y = [(x @ [1.0, 30.0] + rng.normal(size=4) > 0).astype(int) for x in X]
    given = {
        "dense": X,
        "sparse": [sp.csr_array(x) for x in X],
        "dicts": [[{"a": a, "b": b} for a, b in x] for x in X],
    }[form]
    plan, problem = in_memory(CRF(standardize=False), given, y)
    first = 10.0 / plan.weight
    enough = steps_to_unfelt(problem, first)
    assert enough == np.ceil(2 * np.log10(first / (0.01 * np.mean(4 * np.square(X)[..., 1]))))
    weakest, none = (
        CRF(alpha=alpha, tol=1e-6, standardize=False).fit(X, y).coef_
        for alpha in (first / 10 ** (enough / 2), 1e-9)
    )
    np.testing.assert_allclose(weakest, none, atol=0.2 * np.abs(none).max())


def tried(alpha, score, trusted=True, decision="map", temperature=0.0, n_folds=5):
    return Tried("game", temperature, alpha, decision, 1.0, score, trusted, n_folds)


def few_samples(n_nodes):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n_nodes, 2)) for _ in range(20)]
    return X, [(x[:, 0] + rng.normal(size=n_nodes) > 0).astype(int) for x in X]


def test_the_best_settings_are_compared_in_all_folds():
    X, y = few_samples(5)
    alphas = [100.0, 1.0, 0.5, 0.25, 0.1, 0.05]
    model = CRF(alpha=alphas, decision="map", random_state=0).fit(X, y)
    folds = {one.alpha: one.n_folds for one in model.trials_}
    assert folds[model.alpha_] == max(folds.values()) == 5
    assert sum(n == 5 for n in folds.values()) <= selection.FINALISTS[-1]
    assert sum(n > 1 for n in folds.values()) <= selection.FINALISTS[0]
    for one in model.trials_:  # trained to 3 % from other starts: a few of 100 labels may differ
        folds = list(KFold(5, shuffle=True, random_state=0).split(X))[: one.n_folds]
        alone = CRF(alpha=one.alpha, decision="map", random_state=0)
        wrong = [
            np.concatenate([y[i] for i in test])
            != np.concatenate(
                alone.fit([X[i] for i in train], [y[i] for i in train]).predict(
                    [X[i] for i in test]
                )
            )
            for train, test in folds
        ]
        if one.n_folds == 5:
            assert -one.score == pytest.approx(np.mean(wrong), abs=0.06)


def test_among_equals_the_first():
    choice = Choice.of([tried(0.01, 0.2), tried(1.0, 0.5), tried(0.1, 0.5)])
    assert choice.best.alpha == 1.0
    assert choice.alpha_scores() == {1.0: 0.5, 0.1: 0.5, 0.01: 0.2}


def test_what_is_not_trusted_is_chosen_only_where_nothing_is():
    choice = Choice.of([tried(1.0, 0.1), tried(0.1, 0.9, trusted=False)])
    assert choice.best.alpha == 1.0
    assert choice.alpha_scores() == {1.0: 0.1}
    lost = Choice.of([tried(1.0, 0.1, trusted=False), tried(0.1, 0.9, trusted=False)])
    assert lost.best.alpha == 0.1


def test_scores_along_alpha_are_those_of_the_best_decision_at_the_temperature_chosen():
    choice = Choice.of(
        [tried(1.0, 0.1), tried(1.0, 0.3, decision="predictor"), tried(2.0, 0.2, temperature=1.0)]
    )
    assert choice.best.decision == "predictor"
    assert choice.alpha_scores() == {1.0: 0.3}


@given(st.integers(0, 1000))
def test_noise_does_not_lengthen_the_walk(seed):
    """Every step is a little better, and far from clearly so."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(40, N))
    noise -= noise.mean(axis=1, keepdims=True)
    steps, _ = walked(lambda step: trial(5.0 + noise[step] - 0.01 * step))
    assert sorted(steps) == [-1, 0, 1]


@given(st.integers(0, 10**6), st.floats(-0.5, 0.5), st.sampled_from([1.0, 2.0]))
def test_better_by_standard_errors_is_a_paired_comparison(seed, shift, errors):
    a, b = np.random.default_rng(seed).normal(3.0, 1.0, size=(2, N)) + [[shift], [0.0]]
    assert trial(a).better(trial(b), errors) == (ttest_rel(b, a).statistic > errors)
    assert trial(a).better(trial(b)) == (a.mean() < b.mean())


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
        better = Trial(moved, weights).better(Trial(b, weights), 1.0)
        assert better == (threshold > 1)


def test_a_walk_ends_where_training_misses_its_tolerance():
    steps, best = walked(lambda step: trial(10.0 - step), lambda step: step < 4)
    assert max(steps) == 4
    assert best == 3


# -------------------------------------------------------------------------------------- the race


def test_the_corners_come_first_then_what_is_between_those_that_can_win():
    """The SSVM is clearly worse, and so is the AGM at temperature 0: they are not followed."""
    rng = np.random.default_rng(0)
    of_member = {("hinge", 0.0): 9.0, ("game", 0.0): 8.0}
    members = [*selection.CORNERS, *selection.BETWEEN]
    noise = {
        member: values - values.mean()
        for member, values in zip(members, rng.normal(size=(7, N)), strict=True)
    }

    def found(place):
        return trial(of_member.get(place[:2], 5.0) + noise[place[:2]] + 0.5 * abs(place.step))

    race = a_race(members)
    order = run(race, found)
    assert order[:4] == [(*corner, 0) for corner in selection.CORNERS]
    tried_members = [place[:2] for place in order]
    assert set(tried_members) == set(members)
    assert tried_members.count(("hinge", 0.0)) == tried_members.count(("game", 0.0)) == 1
    assert tried_members.count(race.ranked()[0].place[:2]) == 3
    dear = dict.fromkeys([("game", 0.0), ("game", 1.0)], 9.0)
    race = a_race(members)
    order = run(race, lambda p: trial(dear.get(p[:2], 5.0) + noise[p[:2]] + 0.5 * abs(p.step)))
    assert ("game", 0.3) not in [place[:2] for place in order]


def test_what_missed_its_tolerance_goes_on_before_it_can_win():
    race = a_race()
    for place in race.starts():
        enter(race, place, trial(2.0))
    weaker = next(race.search())
    enter(race, weaker, trial(1.0), trusted=False, unfinished=True)
    assert next(race.search()) == weaker
    enter(race, weaker, trial(1.5), trusted=False)  # it cannot: others are followed
    assert next(race.search()) != weaker
    assert race.ranked()[0].trusted


def test_rounds_go_on_while_more_than_one_can_win():
    rng = np.random.default_rng(0)
    race = a_race()
    race.splits, race.wants_all_folds = [None] * 5, False
    for step, cost in enumerate([5.0, 5.0, 5.0, 5.0, 9.0]):
        enter(race, Place("likelihood", math.inf, step), trial(cost + 0.1 * rng.normal(size=N)))
    sizes = []
    for fold, finalists in enumerate(race.rounds(), 2):
        assert all(entry.place.step < 4 for entry in finalists)
        sizes.append(len(finalists))
        for entry in finalists:
            entry.found.append(entry.found[0])
            if fold == 4 and entry.place.step != 1:
                entry.trial = trial(9.0)
    assert sizes[0] == 4
    assert len(sizes) <= 3
    assert all(a >= b for a, b in itertools.pairwise(sizes))


@pytest.mark.parametrize("moment", [*range(1, 40, 3)])
def test_time_may_end_the_choice_at_any_moment(moment, monkeypatch):
    """What is returned costs least of all that is trusted; corners are the first to be tried."""
    X, y = data(n=30)
    asked = itertools.count(1)

    def has_time(race):
        race.cut = race.cut or next(asked) > moment
        return not race.cut

    monkeypatch.setattr(Race, "has_time", has_time)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AutoModel(COST, random_state=0, max_time=1000).fit(X, y)
    best = max(model.trials_, key=lambda one: (one.trusted, one.score))
    assert (model.temperature_, model.alpha_) == (best.temperature, best.alpha)
    assert best.n_folds == max(one.n_folds for one in model.trials_ if one.trusted)
    assert (model.decision_, model.decision_scale_) == (best.decision, best.scale)
    assert best.trusted
    order = [(*member, True) for member in selection.CORNERS]
    in_time = {(*one.setting[:2], True) for one in model.trials_}
    assert set(order[:moment]) <= in_time


def test_max_time_is_used_while_settings_are_open():
    """The clock of a busy machine is no measure of who is quick: only the order is checked."""
    race = a_race(selection.CORNERS)
    race.max_time, race.started = 100.0, time.perf_counter()
    shares = []
    for place in race.starts():
        shares.append(race._seconds())
        enter(race, place, trial(1.0))
    np.testing.assert_allclose(shares, [25, 25, 25, 50], rtol=0.01)
    race.ranked()[0].seconds = 10.0
    assert race._seconds() == pytest.approx(100 - selection.FINAL_FIT * 10, rel=0.01)
    assert race.has_time()
    race.ranked()[0].seconds = 60.0
    assert not race.has_time()


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
    fitted = model(alpha="auto", random_state=0).fit(X, y, cv=3)
    assert fitted.alpha_scores_[fitted.alpha_] == max(fitted.alpha_scores_.values())
    assert -fitted.score(X, y) < 0.3


def separable():
    """What any member learns under any penalty that is not far too strong."""
    X = [np.eye(2)[[0, 1, 0]], np.eye(2)[[1, 1, 0]]] * 6
    return X, [x.argmax(axis=1) for x in X]


@pytest.mark.parametrize("random_state", [0, 1])
def test_equal_costs_are_told_apart_by_a_rule(random_state):
    """The strongest penalty, then the member tried first: chance has no part in it."""
    X, y = separable()
    crf = CRF(alpha=[0.01, 1.0, 0.1], random_state=random_state).fit(X, y)
    assert {one.score for one in crf.trials_} == {0.0}
    assert (crf.alpha_, crf.decision_) == (1.0, "bayes")
    model = AutoModel(alpha=[0.1, 0.01], random_state=random_state).fit(X, y)
    assert {one.score for one in model.trials_} == {0.0}
    assert (model.member_, model.temperature_, model.alpha_) == ("CRF", math.inf, 0.1)
    assert model.decision_ == "bayes"


@pytest.mark.parametrize("kind", [AGM, AutoModel])
def test_the_search_stays_where_something_is_to_be_gained(kind):
    """Two samples, of which one cannot teach the other: weaker penalties do not help."""
    X = [[{"w": "Ada"}, {"w": "met"}], [{"w": "Ada"}, {"w": "Lovelace"}]]
    y = [["B-PER", "O"], ["B-PER", "I-PER"]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = kind({("B-PER", "O"): 5}, alpha="auto", random_state=0).fit(X, y)
    assert min(one.alpha for one in model.trials_) > 1e-4
    assert all(one.trusted for one in model.trials_)


def test_labels_that_have_nothing_to_do_with_features_do_not_lead_far():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 4, 3)), rng.integers(2, size=(30, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = AGM(alpha="auto", random_state=0).fit(list(X), list(y))
    assert len({one.alpha for one in model.trials_}) <= 9


@pytest.mark.parametrize("kind", [AGM, SSVM])
def test_the_family_tries_the_penalties_of_its_corners(kind):
    """So it can take whatever a corner takes by itself, however costs are scaled."""
    X, y = data(n=24)
    corner = kind(7.0 * COST, alpha="auto", random_state=0).fit(X, y, cv=3)
    whole = AutoModel(7.0 * COST, cv=3, random_state=0).fit(X, y)
    objective = {AGM: "game", SSVM: "hinge"}[kind]
    of_whole = [one.alpha for one in whole.trials_ if one.setting[:2] == (objective, 0.0)]
    steps = 2 * np.log10(np.divide.outer(of_whole, [one.alpha for one in corner.trials_]))
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_baseline_is_the_cheapest_constant_answer(weighted):
    X, y = data(n=8)
    cost = np.array([[0.0, 1.0, 4.0], [2.0, 0.0, 1.0], [3.0, 5.0, 0.0]])
    y = [labels + (i % 2) for i, labels in enumerate(y)]
    sample_weight = np.arange(1.0, 9.0) if weighted else None
    node_weight = [np.array([1.0, 0.0, 2.0, 0.5])] * 8 if weighted else None
    plan, problem = in_memory(CRF(cost), X, y, sample_weight, node_weight)
    found = best_constant(plan, problem)
    w = np.outer(sample_weight, node_weight[0]) if weighted else np.ones((8, 4))
    by_label = [(w * cost[np.array(y), label]).sum(axis=1) for label in range(3)]
    np.testing.assert_allclose(found.costs, min(by_label, key=np.sum))
    np.testing.assert_allclose(found.weights, w.sum(axis=1))


def test_an_alpha_that_was_not_trained_to_tolerance_is_not_chosen():
    X, y = data()
    model = AGM(alpha=[10.0, 1.0, 1e-9], random_state=0, tol=0.05, max_iter=20)
    with warnings.catch_warnings():  # that is a matter of the trials, not of the model
        warnings.simplefilter("error")
        model.fit(X, y, cv=3)
    assert model.duality_gap_ <= 0.05
    assert {one.alpha for one in model.trials_ if not one.trusted} == {1e-9}
    for alpha in model.alpha_scores_:
        alone = AGM(alpha=alpha, random_state=0, tol=0.05, max_iter=20).fit(X[:13], y[:13])
        assert alone.duality_gap_ <= 0.05


@pytest.mark.filterwarnings(f"ignore::{ConvergenceWarning.__module__}.ConvergenceWarning")
def test_where_nothing_reaches_its_tolerance_scores_decide():
    X, y = data()
    model = AGM(alpha=[10.0, 0.01], random_state=0, tol=1e-9, max_iter=4, standardize=False).fit(
        X, y, cv=3
    )
    assert list(model.alpha_scores_) == [10.0, 0.01]
    assert model.alpha_scores_[0.01] > model.alpha_scores_[10.0]
    assert model.alpha_ == 0.01


def test_scores_are_those_of_all_held_out_samples():
    X, y = data(n=10)
    folds = [(np.arange(3, 10), np.arange(3)), (np.arange(3), np.arange(3, 10))]
    node_weight = [np.arange(1.0, 5.0) + i for i in range(10)]
    sample_weight = np.arange(1.0, 11.0)
    model = CRF("hamming", alpha=[0.1]).fit(X, y, sample_weight, node_weight, cv=folds)
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


# --------------------------------------------------------------------------- members of the family

COST = np.array([[0.0, 5.0], [1.0, 0.0]])


def test_every_corner_is_tried_and_the_best_of_all_is_taken():
    X, y = data(n=30)
    model = AutoModel(COST, cv=3, random_state=0).fit(X, y)
    members = {one.setting[:2] for one in model.trials_}
    assert {("game", 0.0), ("hinge", 0.0), ("game", math.inf), ("game", 1.0)} <= members
    best = max(model.trials_, key=lambda one: (one.trusted, one.score))
    assert (model.temperature_, model.alpha_) == (best.temperature, best.alpha)
    assert model.decision_ == best.decision
    wanted = "CRF" if best.temperature == math.inf else {"game": "AGM", "hinge": "SSVM"}
    assert model.member_ == (wanted if isinstance(wanted, str) else wanted[best.objective])


@pytest.mark.parametrize("kind", [AGM, SSVM])
def test_what_is_chosen_is_what_a_fit_with_it_gives(kind):
    X, y = data(n=24)
    chosen = kind(COST, temperature="auto", random_state=0).fit(X, y, cv=3)
    alone = kind(
        COST,
        temperature=chosen.temperature_,
        alpha=chosen.alpha_,
        decision=chosen.decision_,
        random_state=0,
    ).fit(X, y)
    alone.decision_scale_ = chosen.decision_scale_
    np.testing.assert_array_equal(chosen.coef_, alone.coef_)
    for one, other in zip(chosen.predict(X), alone.predict(X), strict=True):
        np.testing.assert_array_equal(one, other)
    assert {one.objective for one in chosen.trials_} == {chosen.objective}


def test_scores_of_trials_are_those_of_fits_on_their_own():
    """Encoded once, started from one another: the optimum of each is the same."""
    X, y = data(n=12)
    folds = [(np.arange(4, 12), np.arange(4)), (np.arange(8), np.arange(8, 12))]
    model = AutoModel(COST, cv=folds, random_state=0, tol=0.03).fit(X, y)
    for one in (one for one in model.trials_ if one.n_folds == 2):
        kind = {"game": AGM, "hinge": SSVM}[one.objective]
        cost = 0.0
        for train, test in folds:
            part = kind(
                COST, temperature=one.temperature, alpha=one.alpha, decision=one.decision, tol=1e-4
            ).fit([X[i] for i in train], [y[i] for i in train])
            part.decision_scale_ = one.scale
            cost -= part.score([X[i] for i in test], [y[i] for i in test]) / 2
        # A trial stops at a gap of 3 %: of 32 nodes some may be on the edge.
        assert -one.score == pytest.approx(cost, abs=6 / 32)


@pytest.mark.parametrize("kind", [AGM, AutoModel])
def test_files_keep_what_was_tried(tmp_path, kind):
    X, y = data()
    model = kind(COST, random_state=0, alpha=[0.1, 1.0]).fit(X, y)
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert loaded.trials_ == model.trials_
    assert loaded.decision_ == model.decision_
    for one, other in zip(loaded.predict(X), model.predict(X), strict=True):
        np.testing.assert_array_equal(one, other)


def test_relaxed_games_have_temperatures_too():
    grids = make_grids(n_samples=6, shape=(3, 3))
    model = AutoModel(cv=2, alpha=[1.0], inference="relaxed", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(grids.X, grids.y)
    tried = {one.setting[:2] for one in model.trials_}
    assert {("game", 0.0), ("hinge", 0.0), ("game", np.inf), ("game", 1.0)} <= tried
    assert model.inference_ == "relaxed"


def test_a_listed_alpha_is_taken_as_it_stands():
    X, y = data()
    model = AutoModel(COST, cv=3, alpha=[0.1, 1.0]).fit(X, y)
    assert {one.alpha for one in model.trials_} == {0.1, 1.0}
    fixed = AGM(COST, alpha=0.3, temperature="auto").fit(X, y, cv=3)
    assert {one.alpha for one in fixed.trials_} == {0.3}


def test_time_that_is_up_ends_the_choice():
    X, y = data()
    with (
        pytest.warns(UserWarning, match="max_time=1e-06 seconds ended the choice after 1 "),
        pytest.warns(ConvergenceWarning, match="Raise max_time"),
    ):
        model = AutoModel(COST, cv=3, max_time=1e-6).fit(X, y)
    assert len({one.setting for one in model.trials_}) == 1
    with pytest.raises(InvalidInputError, match="max_time=0"):
        AutoModel(COST, max_time=0).fit(X, y)


def test_many_nodes_are_judged_by_one_part_held_out(monkeypatch):
    X, y = data()
    monkeypatch.setattr("robustruct.models.fitting.splitting.LARGE", 10)
    model = CRF(COST, alpha=[1.0]).fit(X, y)
    cost = 0.0
    splits = list(KFold(5, shuffle=True, random_state=0).split(X))
    model = CRF(COST, alpha=[1.0], random_state=0).fit(X, y)
    train, test = splits[0]
    part = CRF(COST, alpha=1.0).fit([X[i] for i in train], [y[i] for i in train])
    cost = part.score([X[i] for i in test], [y[i] for i in test])
    bayes = next(one for one in model.trials_ if one.decision == "bayes")
    part.decision_scale_ = bayes.scale
    cost = part.score([X[i] for i in test], [y[i] for i in test])
    assert bayes.score == pytest.approx(cost)


def test_a_constant_factor_on_costs_changes_no_choice():
    X, y = data(n=24)
    one, other = (AutoModel(f * COST, cv=3, random_state=0).fit(X, y) for f in (1.0, 8.0))
    assert (one.member_, one.temperature_, one.decision_) == (
        other.member_,
        other.temperature_,
        other.decision_,
    )
    for a, b in zip(one.trials_, other.trials_, strict=True):
        assert b.score == pytest.approx(8 * a.score)


def test_the_unit_of_alpha_makes_penalties_those_of_a_crf():
    """T log Z(θ·Φ/T) with alpha: T times a CRF with weights θ / T and the penalty alpha T."""
    X, y = data()
    zero = np.full((2, 2), 0.0)
    crf = CRF(alpha=0.2, tol=1e-6).fit(X, y)
    hot = AGM(COST, temperature=math.inf, alpha=0.2, tol=1e-6).fit(X, y)
    np.testing.assert_allclose(hot.coef_, crf.coef_, atol=1e-3)
    assert unit_of_alpha(math.inf, 3.0) == 1.0
    warm = AGM(zero, temperature=2.0, alpha=0.2 / 2.0, tol=1e-5).fit(X, y)
    np.testing.assert_allclose(warm.coef_ / 2.0, crf.coef_, atol=1e-2)


def test_shards_have_their_parameters_chosen_elsewhere():
    X, y = data()
    shards = ShardedData.from_samples(X, y, 2)
    with pytest.raises(IncompatibleError, match="temperature and alpha is chosen on samples"):
        AutoModel(COST).fit(shards)


# ------------------------------------------------------------------------------ the usual decision


@pytest.mark.parametrize(
    ("model", "decision"),
    [
        (AGM(), "map"),
        (AGM(3.0 * (1 - np.eye(2))), "map"),
        (AGM("absolute"), "map"),
        (AGM(COST), "predictor"),
        (AGM(class_weight={0: 2.0, 1: 1.0}), "predictor"),
        (AGM(COST, temperature=1.0), "predictor"),
        (AGM(COST, temperature=math.inf), "bayes"),
        (SSVM(COST), "map"),
        (SSVM(COST, temperature=1.0), "bayes"),
        (CRF(COST), "bayes"),
        (AGM(COST, decision="map"), "map"),
    ],
)
def test_the_decision_where_nothing_is_held_out(model, decision):
    X, y = data()
    model.set_params(alpha=1.0).fit(X, y)
    assert model.decision_ == decision
    labels = [x.tolist() for x in model.predict(X)]
    model.decision = decision
    assert [x.tolist() for x in model.predict(X)] == labels


# ------------------------------------------------------------------------- what a cost is good for


@pytest.mark.parametrize("model", [AGM(), AGM(temperature=0.5), SSVM(), SSVM(temperature=2.0)])
def test_all_costs_and_weights_times_a_number_give_the_same_answers(model):
    """The usual penalty knows their unit."""
    X, y = data()
    one, costs, weights = (
        clone(model)
        .set_params(loss=factor * COST, tol=1e-4, decision="map")
        .fit(X, y, node_weight=[np.full(len(x), weight) for x in X])
        for factor, weight in ((1.0, 1.0), (8.0, 1.0), (1.0, 0.25))
    )
    for other, factor in ((costs, 8.0), (weights, 0.25)):
        assert other.objective_ == pytest.approx(factor * one.objective_, rel=2e-4)
        largest = factor * np.abs(one.coef_).max()
        np.testing.assert_allclose(other.coef_, factor * one.coef_, atol=0.03 * largest)


def lowers(kind, cost, train, test):
    """By how many standard errors a model costs less that was given the cost."""
    found = []
    for model in (kind(random_state=0), kind(cost, random_state=0)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            labels = model.fit(*train).predict(test[0])
        costs = [as_loss(cost).evaluate(a, b) for a, b in zip(test[1], labels, strict=True)]
        found.append([np.sum(of_sample) for of_sample in costs])
    return ttest_rel(*found).statistic


@pytest.mark.parametrize("kind", [AGM, CRF, SSVM])
def test_a_cost_that_is_given_is_not_raised_by_it_on_digits(kind):
    """Reading too little costs thrice."""
    digits = load_counter("train", n_sequences=300)
    distance = np.subtract.outer(np.arange(10), np.arange(10)).astype(float)  # true - predicted
    cost = CostMatrix(np.where(distance > 0, 3 * distance, -distance), np.arange(10))
    X, y = list(digits.X), list(digits.y)
    assert lowers(kind, cost, (X[:100], y[:100]), (X[100:], y[100:])) > (-1 if kind is AGM else 1)


@pytest.mark.data
@pytest.mark.parametrize("kind", [AGM, CRF, SSVM])
def test_a_cost_that_is_given_is_not_raised_by_it_on_names(kind, data_home):
    """A name taken for none costs 5."""
    parts = [load_wnut17(split, data_home=data_home) for split in ("train", "dev")]
    train, test = (
        ([name_attributes(words) for words in part.X], list(part.y))
        for part in (parts[0].subset(slice(300)), parts[1])
    )
    labels = np.unique(np.concatenate([*train[1], *test[1]]))
    cost = 1 - np.eye(len(labels))
    cost[:, labels == "O"] *= 5.0
    assert lowers(kind, CostMatrix(cost, labels), train, test) > 0


# ----------------------------------------------------------------------------- time that is limited


@pytest.mark.parametrize(
    "model",
    [
        AGM(),
        AGM(temperature=1.0),
        SSVM(),
        CRF(optimizer="lbfgs"),
        CRF(optimizer="natural_ascent"),
        AGM(optimizer="subgradient"),
    ],
    ids=repr,
)
def test_a_fit_whose_time_is_up_ends_with_a_certificate(model):
    X, y = data()
    model.set_params(alpha=1e-3, tol=1e-12)
    with pytest.warns(ConvergenceWarning, match=r"above tol=1e-12\. .*Raise max_time"):
        model.fit(X, y, max_time=1e-9)
    assert model.status_ is Status.MAX_TIME
    assert model.n_iter_ == 1
    assert np.isfinite(model.duality_gap_)
    assert model.history_[-1].dual <= model.objective_


@pytest.mark.parametrize("random_state", [3, np.random.RandomState(3), None])
@pytest.mark.parametrize(("n", "n_folds"), [(20, 5), (13, 5), (7, 7), (101, 3)])
def test_folds_are_those_of_scikit_learn(n, n_folds, random_state):
    if isinstance(random_state, np.random.RandomState):
        random_state.seed(3)
    np.random.seed(3)  # noqa: NPY002 (what None stands for)
    repeated = RepeatedKFold(n_splits=n_folds, n_repeats=2, random_state=3)
    shuffled = shuffler(random_state)
    found = [fold for _ in range(2) for fold in dealt_out(shuffled(n), n_folds)]
    for mine, theirs in zip(found, repeated.split(np.arange(n)), strict=True):
        for part, other in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(part, other)


# ---------------------------------------------------------------------------------------- groups


@given(st.lists(st.integers(0, 8), min_size=4, max_size=60), st.integers(2, 4), st.integers(0, 99))
def test_groups_are_never_split(groups, cv, seed):
    codes = group_codes(groups, len(groups))
    assert all(
        (a == b) == (c == d)
        for a, c in zip(groups, codes, strict=True)
        for b, d in zip(groups, codes, strict=True)
    )
    model = CRF(alpha="auto", random_state=seed)
    if len({*groups}) < cv:
        with pytest.raises(InvalidInputError, match="group"):
            splits(model, codes, 100, cv)
        return
    found = splits(model, codes, 100, cv)
    assert len(found) == cv
    np.testing.assert_array_equal(
        np.sort(np.concatenate([t for _, t in found])), np.arange(len(groups))
    )
    for train, test in found:
        assert not {groups[i] for i in train} & {groups[i] for i in test}
        assert len(train) + len(test) == len(groups)
        assert len(test)


def test_groups_keep_a_choice_from_learning_by_heart():
    """Copies of a sample say nothing about new ones: with groups a weak penalty does not pay."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(3, 40)) for _ in range(16)]
    y = [rng.integers(2, size=3) for _ in X]
    copies, labels, groups = X * 5, y * 5, list(range(16)) * 5
    alone = CRF(alpha=[10.0, 1e-4], decision="map", random_state=0)
    without = alone.fit(copies, labels).alpha_scores_
    grouped = alone.fit(copies, labels, groups=np.array(groups)).alpha_scores_
    assert without[1e-4] == 0.0
    assert grouped[1e-4] < -0.3


def test_groups_that_cannot_be_held_out_are_refused():
    X, y = data()
    with pytest.raises(InvalidInputError, match="groups has 3 entries for 20 samples"):
        AutoModel().fit(X, y, groups=[1, 2, 3])
    with pytest.raises(InvalidInputError, match="there is one group, so none can be held out"):
        AutoModel().fit(X, y, groups=["a"] * 20)
    with pytest.raises(InvalidInputError, match="cv=4 folds, but there are 2 groups"):
        AutoModel(cv=4).fit(X, y, groups=["a", "b"] * 10)
    model = CRF(alpha=[1.0, 0.1], random_state=0).fit(
        X, y, cv=GroupKFold(2), groups=["a", "b"] * 10
    )
    assert max(one.n_folds for one in model.trials_) == 2
