"""What users of such tools expect: labels, weights, rules, warm starts, stopping, seeds."""

import itertools
import os
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest
from model_cases import MODELS, bio, chains, same, sentences, trees
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, cross_val_score

from robustruct import AGM, CRF, SSVM, Constraints
from robustruct.errors import InvalidInputError
from robustruct.losses import Absolute, CostMatrix
from robustruct.models import base
from robustruct.objectives.build import in_memory
from robustruct.optimizers.certificates import Progress
from robustruct.optimizers.dual_ascent import DualAscent
from robustruct.optimizers.lbfgs import LBFGS


def close(a, b, tol):
    """Whether two fits have certified the same optimum."""
    return abs(a.objective_ - b.objective_) <= 2 * tol * max(a.objective_, b.objective_)


# ------------------------------------------------------------------------- labels


@pytest.mark.parametrize("Model", MODELS)
@pytest.mark.parametrize(
    "names",
    [
        ["x", "yy", "z"],
        [1, 5, 3],
        [0.5, -1.5, 2.0],
        [1, "one", 2.5],
        [("a", 1), ("b", 2), ("a", 3)],
    ],
    ids=repr,
)
def test_labels_come_back_as_they_were_given(Model, names):
    X, codes = chains()
    y = [[names[c] for c in labels] for labels in codes]
    model = Model(alpha=0.05).fit(X, y)
    assert set(model.classes_.tolist()) == set(names)
    predicted = model.predict(X)
    for labels in predicted:
        assert all(label in names and type(label) in map(type, names) for label in labels)
    plain = Model(alpha=0.05, random_state=0).fit(X, codes)
    assert -plain.score(X, codes) < 0.5
    assert len(model.predict_k_best(X, 2)[0]) == 2


def test_bool_labels():
    X, codes = chains(n_labels=2)
    model = CRF(alpha=0.05).fit(X, [labels == 1 for labels in codes])
    assert model.classes_.dtype == bool
    assert model.predict(X)[0].dtype == bool


def test_numbers_and_strings_in_rows():
    rows = np.array([[-1.0], [1.0], [-2.0], [2.0]])
    model = CRF().fit(rows, [1, "one", 1, "one"])
    assert model.predict(rows).tolist() == [1, "one", 1, "one"]


def test_the_loss_uses_the_values_of_numeric_labels():
    X, codes = chains()
    model = AGM("absolute", alpha=0.1).fit(X, [np.array([0, 1, 10])[labels] for labels in codes])
    np.testing.assert_array_equal(model.cost_[0], [0, 1, 10])


# ------------------------------------------------------------------------- weights


@pytest.mark.parametrize("Model", MODELS)
@pytest.mark.parametrize("alpha", [None, 0.1])
def test_integer_sample_weights_repeat_the_samples(Model, alpha):
    X, y = chains(10)
    weight = np.array([1, 2, 0, 3, 1, 1, 2, 0, 1, 4])
    repeated = np.repeat(np.arange(10), weight)
    tol = 5e-3
    options = {"alpha": alpha, "tol": tol, "random_state": 0}
    weighted = Model(**options).fit(X, y, sample_weight=weight)
    plain = Model(**options).fit([X[i] for i in repeated], [y[i] for i in repeated])
    assert weighted.alpha_ == plain.alpha_
    assert close(weighted, plain, tol)


@pytest.mark.parametrize("Model", MODELS)
def test_equal_weights_change_nothing_but_the_default_penalty(Model):
    X, y = chains()
    plain = Model(alpha=0.1, random_state=0).fit(X, y)
    weighted = Model(alpha=0.1, random_state=0).fit(X, y, sample_weight=np.full(len(X), 2.5))
    assert close(plain, weighted, plain.tol)


@pytest.mark.parametrize("Model", [AGM, SSVM])
def test_a_node_of_zero_weight_costs_nothing(Model):
    X, y = chains(8)
    weight = [np.ones(len(labels)) for labels in y]
    for w in weight:
        w[0] = 0.0
    model = Model(alpha=0.1, random_state=0).fit(X, y, node_weight=weight)
    assert model.objective_ < Model(alpha=0.1, random_state=0).fit(X, y).objective_
    wrong = [p != t for p, t in zip(model.predict(X), y, strict=True)]
    counted = np.concatenate([row[1:] for row in wrong])
    assert model.score(X, y, node_weight=weight) == pytest.approx(-np.mean(counted))


@pytest.mark.parametrize(("Model", "tol"), [(AGM, 5e-3), (SSVM, 1e-4)])
def test_node_weights_scale_the_cost(Model, tol):
    X, y = chains(8)
    doubled = [np.full(len(labels), 2.0) for labels in y]
    a = Model(alpha=0.1, tol=tol).fit(X, y, node_weight=doubled)
    b = Model(2 * (1 - np.eye(3)), alpha=0.1, tol=tol).fit(X, y)
    assert close(a, b, tol)


def test_class_weights_scale_the_row_of_the_truth():
    X, y = chains()
    model = AGM(alpha=0.1, class_weight={2: 5.0}).fit(X, y)
    np.testing.assert_array_equal(model.cost_, (1 - np.eye(3)) * [[1], [1], [5]])
    frequent = np.mean(np.concatenate(model.predict(X)) == 2)
    assert frequent >= np.mean(np.concatenate(AGM(alpha=0.1).fit(X, y).predict(X)) == 2)


def test_balanced_class_weights():
    X, y = chains()
    count = np.bincount(np.concatenate(y))
    model = CRF(alpha=0.1, class_weight="balanced").fit(X, y)
    np.testing.assert_allclose(model.cost_, (1 - np.eye(3)) * count.sum() / (3 * count[:, None]))


def test_a_class_weight_without_a_label_warns():
    X, y = chains()
    with pytest.warns(
        UserWarning, match=r"class_weight names \['x'\], which no training label equals"
    ):
        CRF(alpha=0.1, class_weight={"x": 2.0, 0: 1.5}).fit(X, y)


# ------------------------------------------------------------------------- rules


def breaks_bio(labels):
    before = "O"
    for label in labels:
        if label[0] == "I" and before not in (f"B{label[1:]}", label):
            return True
        before = label
    return False


def deciding(Model, decision):
    """Options for a decision; Bayes's and that of spans need probabilities."""
    smooth = decision in ("bayes", "spans") and Model is not CRF
    return {"decision": decision, "temperature": 1.0} if smooth else {"decision": decision}


@pytest.mark.parametrize("Model", MODELS)
def test_tagging_schemes_hold_in_every_kind_of_prediction(Model):
    X, y = bio()
    rng = np.random.default_rng(0)
    words = sorted({tuple(word) for sample in X for word in sample})
    new = [[list(words[i]) for i in rng.integers(len(words), size=6)] for _ in range(30)]
    loose = Model(alpha=0.02).fit(X, y)
    assert any(breaks_bio(labels) for labels in loose.predict(new))
    for decision in Model._parameters["decision"].choices:
        model = Model(alpha=0.02, constraints="BIO", **deciding(Model, decision)).fit(X, y)
        assert not any(breaks_bio(labels) for labels in model.predict(new))
        for ranked in model.predict_k_best(new, 5):
            assert not any(breaks_bio(labels) for labels, _ in ranked)
        for p in model.predict_proba(new):
            np.testing.assert_allclose(p.sum(axis=1), 1)


@pytest.mark.parametrize("Model", MODELS)
def test_forbidden_transitions_are_never_predicted(Model):
    X, y = chains(20)
    pairs = {(int(a), int(b)) for labels in y for a, b in itertools.pairwise(labels)}
    forbidden = [(0, 1), (2, 2)]
    kept = [
        s
        for s, labels in enumerate(y)
        if not any((a, b) in forbidden for a, b in itertools.pairwise(labels))
    ]
    assert set(forbidden) <= pairs
    X_kept, y_kept = [X[s] for s in kept], [y[s] for s in kept]
    # Of these labels nothing says which are spans.
    for decision in set(Model._parameters["decision"].choices) - {"spans"}:
        options = deciding(Model, decision)
        model = Model(alpha=0.1, constraints=forbidden, **options).fit(X_kept, y_kept)
        for labels in model.predict(X):
            assert not {(0, 1), (2, 2)} & set(
                zip(labels[:-1].tolist(), labels[1:].tolist(), strict=True)
            )


def test_truth_that_breaks_a_rule_names_sample_and_node():
    X, y = bio()
    y[1] = ["O", "I-LOC", "I-LOC"]
    with pytest.raises(InvalidInputError, match="sample 1, node 0: 'O' is followed by 'I-LOC'"):
        CRF(constraints=Constraints("BIO", bad_labels="error")).fit(X, y)
    y[1] = ["I-LOC", "O", "O"]
    with pytest.raises(InvalidInputError, match="sample 1, node 0: 'I-LOC' starts a sequence"):
        AGM(constraints=Constraints("BIO", bad_labels="error")).fit(X, y)


# ------------------------------------------------------------------------- warm starts and paths


@pytest.mark.parametrize("Model", MODELS)
def test_a_warm_start_takes_fewer_passes(Model):
    X, y = chains(30, n_features=6)
    model = Model(alpha=0.02, tol=3e-3, random_state=0).fit(X, y, warm_start=True)
    first = model.n_iter_
    assert model.fit(X, y, warm_start=True).n_iter_ <= first / 2
    cold = Model(alpha=0.02, tol=3e-3, random_state=0).fit(X, y)
    assert close(model, cold, 3e-3)


@pytest.mark.parametrize("Model", MODELS)
def test_a_warm_start_with_another_rule_or_order_is_certified_anew(Model):
    X, y = bio()
    model = Model(alpha=0.1, random_state=0).fit(X, y, warm_start=True)
    order = sorted({label for labels in y for label in labels})
    for change in ({"constraints": "BIO"}, {"alpha": 0.3}, {"loss": Absolute(order)}):
        model.set_params(**change).fit(X[::-1], y[::-1], warm_start=True)
        cold = Model(random_state=0).set_params(**model.get_params()).fit(X, y)
        assert model.duality_gap_ <= model.tol
        assert close(model, cold, model.tol)


def test_a_warm_start_on_other_labels_or_features_starts_anew():
    X, y = chains()
    model = CRF(alpha=0.1).fit(X, y, warm_start=True)
    model.fit(*sentences(), warm_start=True)
    assert same(
        model.predict(sentences()[0]), CRF(alpha=0.1).fit(*sentences()).predict(sentences()[0])
    )


@pytest.mark.parametrize("Model", MODELS)
def test_alpha_is_chosen_on_held_out_folds(Model):
    X, y = chains(24)
    model = Model(alpha=[10.0, 0.05], random_state=0).fit(X, y, cv=3)
    folds = KFold(3, shuffle=True, random_state=0)
    for alpha, score in model.alpha_scores_.items():
        alone = cross_val_score(Model(alpha=alpha, random_state=0), X, y, cv=folds)
        assert score == pytest.approx(alone.mean(), abs=0.05)
    assert model.alpha_ == max(model.alpha_scores_, key=model.alpha_scores_.get)
    plain = Model(alpha=model.alpha_, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    model.set_params(alpha=None).fit(X, y)
    assert not hasattr(model, "alpha_scores_")


def test_choosing_alpha_when_a_fold_lacks_a_label():
    X, y = sentences()
    y = [[{"D": 0, "N": 1, "V": 2, "A": 9}[tag] for tag in tags] for tags in y]
    folds = [(np.array([0, 1, 2, 4]), np.array([3, 5]))]  # 9 is in the held-out part only
    loss = np.abs(np.subtract.outer([0, 1, 2, 9], [0, 1, 2, 9])).astype(float)
    by_matrix = CRF(loss, alpha=[1.0, 0.1], class_weight={9: 2.0}).fit(X, y, cv=folds)
    by_name = CRF(Absolute(), alpha=[1.0, 0.1], class_weight={9: 2.0}).fit(X, y, cv=folds)
    assert by_matrix.alpha_scores_ == by_name.alpha_scores_


def test_a_cost_matrix_may_name_labels_that_are_absent():
    X, y = chains(n_labels=2)
    names = [["b", "c"][c] for labels in y for c in labels]
    assert set(names) == {"b", "c"}
    y = [[["b", "c"][c] for c in labels] for labels in y]
    model = AGM(CostMatrix([[0, 1, 2], [3, 0, 4], [5, 6, 0]], ["a", "b", "c"]), alpha=0.1).fit(X, y)
    np.testing.assert_array_equal(model.cost_, [[0, 4], [6, 0]])


# ------------------------------------------------------------------------- stopping


def test_early_stopping_keeps_the_weights_that_did_best():
    X, y = chains(60, n_features=6, seed=3)
    model = AGM(alpha=1e-3, tol=1e-6, random_state=0, max_iter=200)
    model.fit(X[:30], y[:30], validation=(X[30:], y[30:]), patience=2)
    assert model.n_iter_ < 200
    assert model.validation_loss_ == pytest.approx(-model.score(X[30:], y[30:]))
    assert model.duality_gap_ > 1e-6
    model.set_params(max_iter=20, tol=0.5).fit(X[:30], y[:30])
    assert not hasattr(model, "validation_loss_")


@pytest.mark.parametrize("Model", MODELS)
def test_validation_on_rows_with_a_label_of_its_own(Model):
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(40, 3)), rng.integers(3, size=40)
    other = np.where(labels == 0, 7, labels)
    model = Model(alpha=0.1).fit(rows, labels, validation=(rows[:10], other[:10]), patience=1)
    assert 0 <= model.validation_loss_ <= 1


@pytest.mark.parametrize("Model", MODELS)
def test_too_few_passes_warn_with_the_gap_and_a_remedy(Model):
    X, y = chains(20)
    model = Model(alpha=1e-4, max_iter=2, tol=1e-9)
    expected = (
        r"duality gap is [\d.e+-]+ after \d+ passes, above tol=1e-09. "
        "Raise max_iter or tol, or use a larger alpha"
    )
    with pytest.warns(ConvergenceWarning, match=expected) as caught:
        model.fit(X, y)
    assert caught[0].filename == __file__
    assert model.duality_gap_ > 1e-9
    assert model.history_[-1].n_iter == model.n_iter_ == 2


@pytest.mark.parametrize("Model", MODELS)
def test_the_history_ends_with_the_certified_gap(Model):
    X, y = trees()
    model = Model(alpha=0.1).fit(X, y)
    assert model.duality_gap_ <= model.tol
    assert model.history_[-1].gap == pytest.approx(model.duality_gap_)
    assert all(record.dual <= model.objective_ + 1e-12 for record in model.history_)


class Interrupted:
    """A display whose tick raises KeyboardInterrupt in a given pass, as Ctrl-C would."""

    def __init__(self, at):
        self.at = at

    def __call__(self, *arguments):
        return self

    def __enter__(self):
        return self.tick

    def __exit__(self, *error):
        return False

    def tick(self, n_iter, gap, by_whom):
        if n_iter >= self.at:
            raise KeyboardInterrupt


@pytest.mark.parametrize("Model", MODELS)
def test_ctrl_c_keeps_the_best_model_and_says_so(Model, monkeypatch):
    X, y = chains(20)
    monkeypatch.setattr(base, "fit_progress", Interrupted(3))
    with pytest.warns(
        ConvergenceWarning, match="interrupted after .* the best model so far is kept"
    ):
        model = Model(alpha=1e-4, tol=1e-9, random_state=0).fit(X, y)
    assert np.isfinite(model.duality_gap_)
    assert -model.score(X, y) < 0.5


def test_ctrl_c_before_the_first_certificate(monkeypatch):
    X, y = chains(20)
    model = AGM(alpha=0.1).fit(X, y, warm_start=True)
    weights = model.coef_
    monkeypatch.setattr(base, "fit_progress", Interrupted(0))
    with pytest.warns(ConvergenceWarning, match="interrupted after 0 certified passes"):
        model.fit(X, y, warm_start=True)
    np.testing.assert_array_equal(model.coef_, weights)
    assert model.duality_gap_ == np.inf  # nothing is known of other weights than 0


@pytest.mark.parametrize("Model", MODELS)
@pytest.mark.parametrize("offset", [0.0, 5.0])
def test_ctrl_c_at_once_leaves_weights_of_0_and_their_certificate(Model, offset, monkeypatch):
    X, y = chains(20)
    k = len(np.unique(np.concatenate(y)))
    loss = 1.0 - np.eye(k) + offset
    best = Model(loss, alpha=0.1, tol=1e-3, random_state=0).fit(X, y)
    for optimizer in (DualAscent, LBFGS):
        monkeypatch.setattr(optimizer, "minimise", interrupt_at_once)
    with pytest.warns(ConvergenceWarning, match="after 0 certified passes; the weights it began"):
        model = Model(loss, alpha=0.1).fit(X, y, validation=(X, y))
    assert not model.coef_.any()
    assert len(model.predict(X)) == len(X)
    [record] = model.history_
    assert record.dual <= best.objective_ <= record.primal * (1 + 1e-9)
    assert model.objective_ == record.primal
    assert 0 < model.duality_gap_ <= 1 + 1e-9


def interrupt_at_once(*arguments):
    raise KeyboardInterrupt


def test_ctrl_c_while_alpha_is_chosen_leaves_the_old_model(monkeypatch):
    X, y = chains(20)
    model = AGM(alpha=0.1).fit(X, y)
    before = model.predict(X)
    monkeypatch.setattr(base, "fit_progress", Interrupted(1))
    with pytest.raises(KeyboardInterrupt, match="while choosing"):
        model.set_params(alpha=[1.0, 0.1]).fit(X, y)
    assert same(model.predict(X), before)


INTERRUPT = """
import os, signal, threading, warnings
import numpy as np
from robustruct import AGM
rng = np.random.default_rng(0)
X = [rng.normal(size=(20, 30)) for _ in range(150)]
y = [rng.integers(6, size=20) for _ in X]
AGM(alpha=1.0, tol=0.5).fit(X[:5], y[:5])  # compile first
from robustruct.optimizers.dual_ascent import CentredAscent
def run_pass(self, seed):  # a signal before the first pass is whole
    os.kill(os.getpid(), signal.SIGINT)
    whole_pass(self, seed)
whole_pass, CentredAscent.run_pass = CentredAscent.run_pass, run_pass
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model = AGM(alpha=1e-7, tol=1e-12, max_iter=10**6).fit(X, y)
print(caught[0].message)
print(model.n_iter_, model.duality_gap_, np.abs(model.coef_).max())
CentredAscent.run_pass = whole_pass
threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT)).start()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model = AGM(alpha=1e-7, tol=1e-12, max_iter=10**6).fit(X, y)
print(caught[0].message)
print(len(model.predict(X)))
"""


@pytest.mark.skipif(os.name == "nt", reason="signals differ on Windows")
def test_a_real_interrupt():
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPT],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        # Commands in the background of a shell are started with interrupts ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert done.returncode == 0, done.stderr
    first, certificate, message, count = done.stdout.splitlines()
    assert "interrupted after 0 certified passes; the weights it began with are kept" in first
    n_iter, gap, largest = map(float, certificate.split())
    assert n_iter == largest == 0
    assert 0 < gap <= 1
    assert "interrupted" in message
    assert "best model so far is kept" in message
    assert count == "150"


# ------------------------------------------------------------------------- reproducible, talkative


@pytest.mark.parametrize("Model", MODELS)
def test_equal_seeds_give_bit_equal_models(Model):
    X, y = chains(15)
    a, b = (Model(alpha=0.01, random_state=7).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(a.coef_, b.coef_)
    state = Model(alpha=0.01, random_state=np.random.RandomState(7)).fit(X, y)
    np.testing.assert_array_equal(a.coef_, state.coef_)


@pytest.mark.parametrize("Model", MODELS)
def test_two_threads_certify_the_same_tolerance(Model):
    X, y = chains(1200)  # enough nodes for two threads
    one = Model(alpha=0.01, random_state=0).fit(X, y)
    two = Model(alpha=0.01, random_state=0, n_jobs=2).fit(X, y)
    assert two.duality_gap_ <= two.tol
    assert close(one, two, one.tol)
    for a, b in zip(
        one.predict_proba(X[:5]), one.set_params(n_jobs=2).predict_proba(X[:5]), strict=True
    ):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("Model", MODELS)
def test_progress_is_shown_on_request_only(Model, capsys):
    X, y = chains()
    Model(alpha=0.1).fit(X, y)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
    Model(alpha=0.1, verbose=1).fit(X, y)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "gap" in captured.err
    assert Model.__name__ in captured.err


def test_no_warning_when_all_is_well():
    X, y = chains()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for Model in MODELS:
            Model(alpha=0.1).fit(X, y)


def test_progress_keeps_the_best_certificate():
    X, y = chains()
    _, problem = in_memory(CRF(alpha=0.1), X, y)
    progress = Progress(problem, 0.1)
    progress.report(1, np.ones(problem.n_weights), 2.0, 1.0)
    progress.report(2, np.zeros(problem.n_weights), 3.0, 0.5)
    assert progress.primal == 2.0
    assert progress.theta.all()
