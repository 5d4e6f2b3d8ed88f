"""Dense columns are standardised inside the fit; references are scikit-learn's StandardScaler, a
general convex solver, and the theorem that a strongly convex objective has one optimum."""

import warnings

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from model_cases import chains, trees
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from robustruct import AGM, CRF, SSVM, AutoModel, Graph, load
from robustruct.engines.engine import MemorySamples
from robustruct.engines.local import MemoryShards
from robustruct.errors import IncompatibleError, InvalidInputError
from robustruct.features import FeatureSpace, Moments, Parts, Standardization
from robustruct.formats.shards import ShardedData
from robustruct.models.fitting.choice import Setting
from robustruct.models.fitting.trials import Fold
from robustruct.optimizers.checkpoints import Checkpoint

MEMBERS = {
    "CRF": (CRF, {}),
    "AGM": (AGM, {}),
    "AGM at .3": (AGM, {"temperature": 0.3}),
    "AGM at 1": (AGM, {"temperature": 1.0}),
    "SSVM": (SSVM, {}),
    "SSVM at 1": (SSVM, {"temperature": 1.0}),
}
CHANGES = {
    "1e4 beside 1e-2": (np.array([1e4, 1e-2, 1.0, -1.0]), 0.0),
    "1000 added": (1.0, np.array([1000.0, 0.0, 0.0, 0.0])),
    "times 100": (100.0, 0.0),
    "1000 with a spread of thousandths": (1e-3, 1000.0),
    "tiny and huge": (np.array([1e-60, 1e60, 1e-9, 1e9]), 0.0),
}


def iris():
    X, y = load_iris(return_X_y=True)
    return X, y


def certified_distance(model):
    """By how much the objective of a fit may lie above its least value."""
    return model.objective_ - max(record.dual for record in model.history_)


def standard(X, weight=None):
    """The columns of samples, or of rows, as StandardScaler has them."""
    if isinstance(X, np.ndarray):
        return StandardScaler().fit(X, sample_weight=weight).transform(X)
    weight = None if weight is None else np.repeat(weight, [len(x) for x in X])
    scaler = StandardScaler().fit(np.concatenate(X), sample_weight=weight)
    return [scaler.transform(x) for x in X]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("member", MEMBERS)
def test_affine_changes_of_columns_change_no_answer(member, change):
    """The objective is alpha-strongly convex in standardised weights: two fits that are certified
    to be within g of its least value are within 2 sqrt(2 g / alpha) of each other."""
    Model, options = MEMBERS[member]
    X, y = iris()
    a, b = CHANGES[change]
    plain = Model(random_state=0, **options).fit(X, y)
    changed = Model(random_state=0, **options).fit(a * X + b, y)  # a warning would be an error
    assert changed.duality_gap_ <= changed.tol
    assert changed.n_iter_ <= 1.5 * plain.n_iter_ + 5
    spread, centre = X.std(axis=0), X.mean(axis=0)
    weights, distances = [], []
    for model, factor, shift in ((plain, np.ones(4), np.zeros(4)), (changed, a + np.zeros(4), b)):
        columns, bias = model.node_weights_[:-1], model.node_weights_[-1]
        in_standard = columns * (factor * spread)[:, None]
        weights.append(np.vstack([in_standard, bias + (factor * centre + shift) @ columns]))
        distances.append(np.sqrt(2 * certified_distance(model) / model.alpha_))
    apart = np.linalg.norm(weights[0] - weights[1])
    assert apart <= 1.001 * sum(distances)
    assert np.linalg.norm(weights[0]) > 3 * apart  # so the theorem says something


@pytest.mark.parametrize("member", MEMBERS)
def test_the_fit_is_that_on_columns_standardised_beforehand(member):
    Model, options = MEMBERS[member]
    X, y = chains(20, seed=1)
    X = [x * [1e3, 1e-2, 1.0] + [0.0, 5.0, -7.0] for x in X]
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    inside = Model(random_state=0, **options).fit(X, y, weight)
    Z = standard(X, weight)
    before = Model(random_state=0, standardize=False, **options).fit(Z, y, weight)
    too_high = np.array([certified_distance(one) for one in (inside, before)])
    assert abs(inside.objective_ - before.objective_) <= too_high.max()
    apart = np.sqrt(2 * too_high / before.alpha_).sum()  # of the weights, at most
    for z, ours, theirs in zip(
        Z, inside.decision_function(X), before.decision_function(Z), strict=True
    ):
        most = apart * np.sqrt(1.0 + np.sum(z**2, axis=1))
        assert (np.abs(ours - theirs).max(axis=1) <= 1.001 * most).all()


def test_probabilities_are_those_of_a_general_solver_on_standardised_columns():
    """Multinomial logistic regression with all weights penalised, the bias too."""
    X, y = iris()
    X = X * [1e4, 1e-2, 1.0, 1.0] + [0.0, 0.0, 1000.0, 0.0]
    Z = np.column_stack([standard(X), np.ones(len(X))])
    alpha = 0.01

    def objective(theta):
        scores = Z @ theta.reshape(5, 3)
        top = scores.max(axis=1, keepdims=True)
        p = np.exp(scores - top)
        total = p.sum(axis=1, keepdims=True)
        loss = np.mean(np.log(total[:, 0]) + top[:, 0] - scores[np.arange(len(y)), y])
        gradient = Z.T @ (p / total - np.eye(3)[y]) / len(y)
        return loss + 0.5 * alpha * theta @ theta, gradient.ravel() + alpha * theta

    found = scipy.optimize.minimize(objective, np.zeros(15), jac=True, method="BFGS", tol=1e-9)
    model = CRF(alpha=alpha, tol=1e-9).fit(X, y)
    assert model.objective_ == pytest.approx(found.fun, rel=1e-8)
    scores = Z @ found.x.reshape(5, 3)
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    np.testing.assert_allclose(model.predict_proba(X), p / p.sum(axis=1, keepdims=True), atol=1e-4)


def test_edge_features_are_standardised_too():
    X, y = trees(12)
    a, b = np.array([1e4, 1e-3]), np.array([-3.0, 1000.0])
    far = [Graph(x.node_features, x.edges, x.edge_features * a + b) for x in X]
    plain, changed = (CRF(tol=1e-7).fit(samples, y) for samples in (X, far))
    assert changed.objective_ == pytest.approx(plain.objective_, rel=1e-6)
    for ours, theirs in zip(changed.predict_proba(far), plain.predict_proba(X), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-3)
    edges = np.concatenate([x.edge_features for x in X])
    before = StandardScaler().fit(edges)
    nodes = StandardScaler().fit(np.concatenate([x.node_features for x in X]))
    Z = [
        Graph(nodes.transform(x.node_features), x.edges, before.transform(x.edge_features))
        for x in X
    ]
    reference = CRF(tol=1e-7, standardize=False).fit(Z, y)
    assert plain.objective_ == pytest.approx(reference.objective_, rel=1e-6)


@pytest.mark.parametrize("Model", [AGM, CRF, SSVM])
def test_a_weight_of_two_is_the_sample_twice(Model):
    X, y = chains(10)
    weight = np.array([2.0, 0.0, *[1.0] * 8])
    weighted = Model(tol=1e-6, max_iter=5000).fit(X, y, weight)
    repeated = Model(tol=1e-6, max_iter=5000).fit([X[0], X[0], *X[2:]], [y[0], y[0], *y[2:]])
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-5)


def test_columns_that_do_not_vary_divide_by_nothing():
    X, y = iris()
    noise = np.nextafter(0.3, np.arange(len(X)) % 2)  # what rounding leaves of a constant
    X = np.column_stack([X, np.full(len(X), 1000.1), np.zeros(len(X)), noise])
    model = CRF().fit(X, y)
    reference = CRF().fit(X[:, :4], y)
    assert np.isfinite(model.coef_).all()
    np.testing.assert_allclose(model.predict_proba(X), reference.predict_proba(X[:, :4]), atol=1e-3)


def test_without_a_bias_columns_are_scaled_and_not_shifted():
    X, y = iris()
    rms = np.sqrt(np.mean(X**2, axis=0))
    fits = []
    for rows, options in ((X * [1e4, 1e-2, 1.0, -1.0], {}), (X / rms, {"standardize": False})):
        model = CRF(tol=1e-7, **options)
        model.bias = False
        fits.append(model.fit(rows, y))
    assert fits[0].objective_ == pytest.approx(fits[1].objective_, rel=1e-6)


@pytest.mark.parametrize("form", ["sparse", "dicts"])
def test_sparse_features_stay_as_they_are(form):
    X, y = iris()
    rows = 10.0 * X[::3]
    if form == "sparse":
        given, labels = sp.csr_array(rows), y[::3]
    else:
        given = [[{f"x{j}": value for j, value in enumerate(row)}] for row in rows]
        labels = [[label] for label in y[::3]]
    on, off = (CRF(standardize=flag).fit(given, labels) for flag in (True, False))
    np.testing.assert_array_equal(on.coef_, off.coef_)
    dense = CRF(standardize=False).fit(rows, y[::3])
    assert on.objective_ == pytest.approx(dense.objective_, rel=1e-3)


def test_a_model_of_dense_rows_takes_sparse_ones():
    X, y = iris()
    model = AGM(random_state=0).fit(X + 10.0, y)
    np.testing.assert_array_equal(model.predict(sp.csr_array(X + 10.0)), model.predict(X + 10.0))


@pytest.mark.parametrize("n_shards", [1, 3, 7])
@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_moments_of_shards_add_up_to_those_of_all(n_shards, shift):
    rng = np.random.default_rng(n_shards)
    X = [
        rng.normal(size=(rng.integers(1, 9), 4)) * [1.0, 1e3, 1e-3, 0.0] + shift for _ in range(50)
    ]
    weight = rng.uniform(0.0, 2.0, len(X)) * (rng.random(len(X)) < 0.8)
    found = None
    for part in np.array_split(np.arange(len(X)), n_shards):
        one = Moments.of(Parts.of([X[s] for s in part]).nodes, weight[part])
        found = one if found is None else found.merged(one)
    rows, of_rows = np.concatenate(X), np.repeat(weight, [len(x) for x in X])
    mean = np.average(rows, axis=0, weights=of_rows)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-12, atol=1e-12)
    variance = np.average((rows - mean) ** 2, axis=0, weights=of_rows)
    spread = np.sqrt(found.squares / found.weight)
    np.testing.assert_allclose(spread[:3], np.sqrt(variance)[:3], rtol=1e-6 if shift else 1e-12)
    assert spread[3] == 0.0


def test_pieces_of_a_large_table_add_up(monkeypatch):
    from robustruct.features import summary

    monkeypatch.setattr(summary, "PIECE", 10)
    rows = np.random.default_rng(0).normal(size=(101, 3)) + 50.0
    blocks = Parts.of([rows[:40], rows[40:41], rows[41:]]).nodes
    found = Moments.of(blocks, np.ones(3))
    np.testing.assert_allclose(found.mean, rows.mean(axis=0))
    np.testing.assert_allclose(found.squares / found.weight, rows.var(axis=0))


@pytest.mark.parametrize("member", MEMBERS)
def test_shards_are_standardised_as_one(member):
    Model, options = MEMBERS[member]
    X, y = chains(30)
    X = [x * [1e3, 1.0, 1e-3] + 10.0 for x in X]
    whole = Model(random_state=0, **options).fit(X, y)
    shards = Model(random_state=0, **options).fit(ShardedData.from_samples(X, y, 4))
    too_high = max(map(certified_distance, (whole, shards)))
    assert abs(whole.objective_ - shards.objective_) <= too_high


def test_weights_go_there_and_back():
    rng = np.random.default_rng(0)
    X, _ = trees(6)
    space, design = FeatureSpace.fit(X)
    parts = Parts.of(X)
    change = Standardization.of(space, Moments.of(parts.nodes), Moments.of(parts.edges))
    theta = rng.normal(size=space.n_node_features * 3 + space.n_edge_features * 9)
    given = change.weights_for_given(space, theta, 3)
    np.testing.assert_allclose(change.weights_for_training(space, given, 3), theta, rtol=1e-12)
    nodes, edges = theta[: space.n_node_features * 3], theta[space.n_node_features * 3 :]
    raw = [design.nodes @ given[: len(nodes)].reshape(-1, 3)]
    raw.append(design.edges @ given[len(nodes) :].reshape(-1, 9))
    seen = change.applied(design)
    np.testing.assert_allclose(seen.nodes @ nodes.reshape(-1, 3), raw[0], atol=1e-12)
    np.testing.assert_allclose(seen.edges @ edges.reshape(-1, 9), raw[1], atol=1e-12)


@pytest.mark.parametrize("Model", [AGM, CRF, SSVM])
def test_warm_starts_go_on_from_the_weights_reached(Model):
    X, y = iris()
    X = 1e3 * X + 500.0
    model = Model(random_state=0).fit(X, y, warm_start=True)
    n_iter = model.n_iter_
    assert model.fit(X, y, warm_start=True).n_iter_ < n_iter
    model.fit(X[::2] * 2.0, y[::2], warm_start=True)  # other data, other centres and scales
    assert model.duality_gap_ <= model.tol


def test_early_stopping_sees_the_columns_as_training_does():
    X, y = iris()
    train, held_out = slice(0, None, 2), slice(1, None, 2)
    a, b = np.array([1e4, 1e-2, 1.0, 1.0]), np.array([0.0, 0.0, 1000.0, 0.0])
    plain, changed = (
        AGM(temperature=1.0, tol=1e-4, random_state=0).fit(
            rows[train], y[train], validation=(rows[held_out], y[held_out]), patience=2
        )
        for rows in (X, a * X + b)
    )
    assert changed.validation_loss_ == plain.validation_loss_
    assert changed.validation_loss_ == np.mean(
        changed.predict((a * X + b)[held_out]) != y[held_out]
    )


def test_folds_see_columns_as_the_last_fit_does_and_no_label_held_out():
    """Samples are encoded once, so a penalty means the same in a fold as in the fit on all."""
    X, y = iris()
    train, test = np.arange(0, 150, 2), np.arange(1, 150, 2)
    found = []
    for labels in (y, np.where(np.arange(150) % 2, (y + 1) % 3, y)):
        shards = MemoryShards(MemorySamples(X, labels))
        plan = shards.prepare(CRF(), lambda _: None)
        fold = Fold(CRF(random_state=0), shards, plan, train, test)
        setting = Setting("likelihood", np.inf, 0.01)
        fold.train(setting, 100, None)
        found.append(fold.fits[setting].theta)
        scaled = StandardScaler().fit(X).transform(X)
        np.testing.assert_allclose(fold.shards.first.given.design.nodes[:, :-1], scaled[train])
        np.testing.assert_allclose(fold.held_out.design.nodes[:, :-1], scaled[test])
    np.testing.assert_array_equal(*found)


def test_what_is_chosen_does_not_depend_on_units():
    X, y = iris()
    order = np.random.default_rng(0).permutation(len(y))  # by species, neighbours look dependent
    X, y = X[order], y[order]
    a, b = np.array([1e4, 1e-2, 1.0, 100.0]), np.array([0.0, 0.0, 1000.0, 0.0])
    plain, changed = (
        AutoModel(random_state=0, cv=3, alpha=[0.1, 0.001]).fit(rows, y) for rows in (X, a * X + b)
    )
    trained = [{(*one[:4], one.trusted) for one in model.trials_} for model in (plain, changed)]
    assert trained[0] == trained[1]
    assert changed.alpha_ == plain.alpha_
    assert changed.duality_gap_ <= changed.tol


def test_files_keep_weights_for_columns_as_given(tmp_path):
    X, y = iris()
    X = 1e3 * X + 500.0
    model = CRF(standardize=True).fit(X, y)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.standardize is True
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    scores = X @ model.node_weights_[:-1] + model.node_weights_[-1]
    np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-6)


def test_files_of_models_without_the_parameter_load(tmp_path):
    from robustruct.formats.container import read_container, write_container
    from robustruct.models.storage import MODEL

    X, y = iris()
    model = CRF(standardize=False).fit(X, y)
    model.save(tmp_path / "new")
    description, arrays, _ = read_container(tmp_path / "new", MODEL)
    del description["parameters"]["standardize"]
    write_container(tmp_path / "old", MODEL, description, arrays)
    again = load(tmp_path / "old")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_checkpoints_of_columns_as_given_are_of_another_fit(tmp_path):
    X, y = iris()
    X = 1e3 * X + 500.0
    short = {"random_state": 0, "max_iter": 3, "tol": 1e-4}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        AGM(**short).fit(X, y, checkpoint=Checkpoint(tmp_path, every=1))
        whole = AGM(**{**short, "max_iter": 30}).fit(X, y)
        kept = Checkpoint(tmp_path, resume=True)
        resumed = AGM(**{**short, "max_iter": 30}).fit(X, y, checkpoint=kept)
    np.testing.assert_allclose(resumed.coef_, whole.coef_, rtol=1e-9)
    other = AGM(standardize=False, **short)
    with pytest.raises(IncompatibleError, match="standardize was None and is False"):
        other.fit(X, y, checkpoint=kept)


def test_the_parameter_is_a_flag():
    with pytest.raises(InvalidInputError, match="standardize='yes'; give True or False"):
        CRF(standardize="yes").fit(*iris())


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_where_columns_differ_in_size_the_warning_says_so(form):
    X, y = iris()
    X = X * [1e4, 1e-2, 1.0, 1.0]
    with pytest.warns(ConvergenceWarning, match=r"'x0' is of size \d.*'x1' of size 0\.0"):
        CRF(max_iter=3, tol=1e-6, standardize=False).fit(form(X), y)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_where_they_do_not_it_does_not(form):
    X, y = iris()
    X = X * [1e4, 1e-2, 1.0, 1.0] if form is np.asarray else X
    with pytest.warns(ConvergenceWarning) as caught:
        CRF(max_iter=3, tol=1e-6).fit(form(X), y)
    assert not any("of size" in str(one.message) for one in caught)


@given(
    st.lists(st.floats(-8.0, 8.0), min_size=3, max_size=3),
    st.lists(st.sampled_from([-1.0, 1.0]), min_size=3, max_size=3),
    st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3),
    st.sampled_from(sorted(MEMBERS)),
)
@settings(max_examples=25, deadline=None)
def test_any_units_of_chains_give_the_same_scores(exponents, signs, spreads, member):
    """Columns of any size and sign, up to a thousand standard deviations from 0."""
    Model, options = MEMBERS[member]
    X, y = chains(12)
    a = np.array(signs) * 10.0 ** np.array(exponents)
    far = [a * (x + spreads) for x in X]
    plain, changed = (Model(random_state=0, **options).fit(one, y) for one in (X, far))
    assert changed.duality_gap_ <= changed.tol
    apart = sum(np.sqrt(2 * certified_distance(one) / one.alpha_) for one in (plain, changed))
    for z, ours, theirs in zip(
        standard(X), changed.decision_function(far), plain.decision_function(X), strict=True
    ):
        most = apart * np.sqrt(1.0 + np.sum(z**2, axis=1))
        assert (np.abs(ours - theirs).max(axis=1) <= 1.001 * most).all()
