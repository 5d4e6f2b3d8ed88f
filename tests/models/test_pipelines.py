"""Lists of samples in pipelines, searches and cross-validation of scikit-learn."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)

from robustruct import CRF, Graph, NodeTransformer, cross_val_predict
from robustruct.errors import InvalidInputError, InvalidTypeError
from robustruct.tables import sequences

rng = np.random.default_rng(0)
SIZES = [3, 1, 5, 2, 4, 6, 2, 3]
X = [rng.normal(size=(n, 3)) * [1, 100, 0.01] + [0, 5, 0] for n in SIZES]
y = [(x[:, 0] + x[:, 1] / 100 > 0).astype(int) for x in X]
CRF_ = {"alpha": 0.1, "random_state": 0, "standardize": False}


def split(rows):
    return np.split(rows, np.cumsum(SIZES)[:-1])


def equal(found, wanted):
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(
            one.toarray() if sp.issparse(one) else one,
            other.toarray() if sp.issparse(other) else other,
        )


@pytest.mark.parametrize("transformer", [StandardScaler(), PCA(2), PolynomialFeatures(2)])
def test_it_is_the_transformer_on_all_rows_split_back(transformer):
    wanted = clone(transformer).fit_transform(np.concatenate(X))
    equal(NodeTransformer(transformer).fit_transform(X), split(wanted))
    assert not hasattr(transformer, "n_features_in_")
    again = NodeTransformer(transformer).fit(X)
    equal(again.transform(X[2:3]), [split(wanted)[2]])
    names = again.get_feature_names_out()
    assert len(names) == wanted.shape[1]


def test_labels_reach_transformers_that_use_them():
    best = NodeTransformer(SelectKBest(k=1)).fit(X, y)
    wanted = SelectKBest(k=1).fit(np.concatenate(X), np.concatenate(y))
    np.testing.assert_array_equal(best.transformer_.get_support(), wanted.get_support())


def test_sparse_samples_stay_sparse():
    given = [sp.csr_array(x) for x in X]
    found = NodeTransformer(MaxAbsScaler()).fit_transform(given)
    assert all(sp.issparse(x) for x in found)
    equal(found, split(MaxAbsScaler().fit_transform(np.concatenate(X))))


def test_graphs_keep_their_edges():
    graphs = [Graph(x, [(0, i) for i in range(1, len(x))], np.ones((len(x) - 1, 1))) for x in X]
    found = NodeTransformer(StandardScaler()).fit_transform(graphs)
    equal(
        [g.node_features for g in found], split(StandardScaler().fit_transform(np.concatenate(X)))
    )
    for one, other in zip(found, graphs, strict=True):
        np.testing.assert_array_equal(one.edges, other.edges)
        np.testing.assert_array_equal(one.edge_features, other.edge_features)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_and_a_column_transformer(library):
    given = pytest.importorskip(library)
    columns = {
        "who": np.repeat(np.arange(len(SIZES)), SIZES),
        "pulse": [None if i == 4 else float(i) for i in range(sum(SIZES))],
        "device": [["ring", "watch"][i % 2] for i in range(sum(SIZES))],
        "stage": np.concatenate(y),
    }
    df = given.DataFrame(columns)
    data = sequences(df, by="who", label="stage", form="tables")
    encoder = ColumnTransformer(
        [
            ("text", OneHotEncoder(handle_unknown="ignore"), ["device"]),
            ("numbers", SimpleImputer(add_indicator=True), ["pulse"]),
        ]
    )
    wanted = clone(encoder).fit_transform(df[["pulse", "device"]])
    equal(NodeTransformer(encoder).fit_transform(data.X), split(wanted))
    tagger = make_pipeline(NodeTransformer(encoder), CRF(**CRF_)).fit(data.X, data.y)
    assert [len(labels) for labels in tagger.predict(data.X)] == SIZES
    if library == "pandas":
        scaled = NodeTransformer(SimpleImputer().set_output(transform="pandas"))
        numbers = [x[["pulse"]] for x in data.X]
        found = scaled.fit_transform(numbers)
        assert [list(x.columns) for x in found] == [["pulse"]] * len(SIZES)
        assert not any(x.isna().any(axis=None) for x in found)


def test_tokens_dicts_and_lists_of_strings():
    tokens = [["not", "bad"], ["good"], ["bad", "film"]]
    found = NodeTransformer(TfidfVectorizer(analyzer="char", ngram_range=(1, 2)))
    rows = TfidfVectorizer(analyzer="char", ngram_range=(1, 2)).fit_transform(
        [t for x in tokens for t in x]
    )
    for x, lo, hi in zip(found.fit_transform(tokens), (0, 2, 3), (2, 3, 5), strict=True):
        np.testing.assert_allclose(x.toarray(), rows[lo:hi].toarray())
    dicts = [[{"w": token} for token in sentence] for sentence in tokens]
    found = NodeTransformer(DictVectorizer(sparse=False)).fit_transform(dicts)
    assert [x.shape for x in found] == [(2, 4), (1, 4), (2, 4)]
    attributes = [[[token, token[0]] for token in sentence] for sentence in tokens]
    joined = NodeTransformer(TfidfVectorizer(analyzer=list)).fit_transform(attributes)
    assert [x.shape[0] for x in joined] == [2, 1, 2]
    labels = [["x", "y"], ["y"], ["y", "x"]]
    tagger = make_pipeline(NodeTransformer(TfidfVectorizer(analyzer="char")), CRF(**CRF_))
    assert tagger.fit(tokens, labels).predict(tokens) == labels


def test_lists_of_numbers_are_arrays():
    equal(NodeTransformer(StandardScaler()).fit_transform([x.tolist() for x in X]),
          NodeTransformer(StandardScaler()).fit_transform(X))  # fmt: skip


def test_a_pipeline_is_its_steps_one_after_the_other():
    tagger = Pipeline([("scale", NodeTransformer(StandardScaler())), ("model", CRF(**CRF_))])
    tagger.fit(X, y)
    rows = split(StandardScaler().fit_transform(np.concatenate(X)))
    alone = CRF(**CRF_).fit(rows, y)
    np.testing.assert_array_equal(tagger[-1].coef_, alone.coef_)
    equal(tagger.predict(X), alone.predict(rows))
    equal(tagger.predict_proba(X), alone.predict_proba(rows))
    assert tagger.score(X, y) == alone.score(rows, y)


def test_folds_fit_the_transformer_on_their_training_samples():
    tagger = make_pipeline(NodeTransformer(StandardScaler()), CRF(**CRF_))
    found = cross_val_score(tagger, X, y, cv=KFold(2))
    wanted = []
    for train, test in KFold(2).split(X):
        scaler = StandardScaler().fit(np.concatenate([X[s] for s in train]))
        model = CRF(**CRF_).fit([scaler.transform(X[s]) for s in train], [y[s] for s in train])
        wanted.append(model.score([scaler.transform(X[s]) for s in test], [y[s] for s in test]))
    assert found.tolist() == wanted


def test_a_search_over_parameters_inside():
    tagger = Pipeline([("nodes", NodeTransformer(PCA(2))), ("model", CRF(**CRF_))])
    grid = {"nodes__transformer__n_components": [1, 3], "model__alpha": [0.1, 1.0]}
    search = GridSearchCV(tagger, grid, cv=GroupKFold(2))
    search.fit(X, y, groups=[0, 0, 0, 0, 1, 1, 1, 1])
    assert len(search.cv_results_["params"]) == 4
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_[0].transformer_.n_components in (1, 3)


def test_it_passes_through_skops_and_what_cannot_is_refused_with_the_reason():
    io = pytest.importorskip("skops.io")
    tagger = make_pipeline(NodeTransformer(StandardScaler()), CRF(**CRF_)).fit(X, y)
    data = io.dumps(tagger)
    again = io.loads(data, trusted=io.get_untrusted_types(data=data))
    equal(again.predict_proba(X), tagger.predict_proba(X))
    coded = make_pipeline(NodeTransformer(FunctionTransformer(lambda x: x)), CRF(**CRF_)).fit(X, y)
    with pytest.raises(Exception, match=r"(?i)lambda|not.*support|pickle"):
        io.loads(io.dumps(coded), trusted=io.get_untrusted_types(data=io.dumps(coded)))


class Halving(StandardScaler):
    def transform(self, X):
        return super().transform(X)[::2]


BAD = {
    "no list": (1.5, InvalidTypeError, "X is a float; give a list of samples"),
    "no samples": ([], InvalidTypeError, "X is empty"),
    "several kinds": ([X[0], sp.csr_array(X[1])], InvalidInputError, "arrays and sparse matrices"),
    "widths": ([X[0], X[1][:, :2]], InvalidInputError, r"sample 1 has shape \(1, 2\)"),
    "one dimension": ([X[0][:, 0]], InvalidInputError, r"sample 0 has shape \(3,\)"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(case):
    given, kind, message = BAD[case]
    with pytest.raises(kind, match=message):
        NodeTransformer(StandardScaler()).fit(given)


def test_rows_that_go_missing_and_labels_of_the_wrong_length():
    with pytest.raises(InvalidInputError, match="made 13 rows of 26 nodes"):
        NodeTransformer(Halving()).fit_transform(X)
    with pytest.raises(InvalidInputError, match=r"y\[1\] has 2 labels but sample 1 has 1 nodes"):
        NodeTransformer(SelectKBest(k=1)).fit(X, [y[0], [0, 1], *y[2:]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert NodeTransformer(StandardScaler()).fit(X).transform([]) == []


# ----------------------------------------------------------------------------- cross-validation

GROUPS = [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_risk"])
def test_each_sample_is_answered_by_the_model_of_the_other_folds(method):
    given = {"sample_weight": np.arange(8.0), "patience": 3}
    options = {"groups": GROUPS, "cv": GroupKFold(2), "method": method, "params": given}
    found = cross_val_predict(CRF(**CRF_), X, y, **options)
    for train, test in GroupKFold(2).split(X, groups=GROUPS):
        model = CRF(**CRF_).fit([X[s] for s in train], [y[s] for s in train], sample_weight=train)
        for s, answer in zip(test, getattr(model, method)([X[s] for s in test]), strict=True):
            np.testing.assert_array_equal(found[s], answer)


def test_labels_that_a_fold_lacks_have_probability_0():
    labels = [["a"] * n for n in SIZES[:-1]] + [["b"] * SIZES[-1]]
    found = cross_val_predict(CRF(**CRF_), X, labels, cv=KFold(8), method="predict_proba")
    assert [rows.shape for rows in found] == [(n, 2) for n in SIZES]
    np.testing.assert_array_equal(found[-1], [[1.0, 0.0]] * SIZES[-1])
    assert all((rows[:, 1] > 0).all() for rows in found[:-1])
    as_lists = cross_val_predict(CRF(**CRF_), X, labels, cv=KFold(4))
    assert all(isinstance(answer, list) for answer in as_lists)


def test_folds_that_are_none_are_refused():
    options = {"cv": GroupKFold(2), "groups": GROUPS}
    wrong = {
        "method='guess'": {"method": "guess"},
        "groups has 2 entries for 8": {"groups": [0, 1]},
        "holds sample 0 out 0 times": {"cv": [(np.arange(4), np.arange(4, 8))], "groups": None},
    }
    for message, change in wrong.items():
        with pytest.raises(InvalidInputError, match=message):
            cross_val_predict(CRF(**CRF_), X, y, **{**options, **change})
    with pytest.raises(InvalidTypeError, match="use scikit-learn's"):
        cross_val_predict(CRF(**CRF_), np.concatenate(X), np.concatenate(y))


def test_groups_and_weights_are_routed():
    """A search that routes them is the fits by hand, whose choice keeps groups together too."""
    weight = np.linspace(0.5, 2, 8)
    model = CRF(alpha=[0.1, 1.0], random_state=0)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = clone(model).set_fit_request(groups=True, sample_weight=True)
        routed.set_score_request(sample_weight=True)
        search = GridSearchCV(routed, {"tol": [0.01]}, cv=GroupKFold(2))
        search.fit(X, y, groups=np.array(GROUPS), sample_weight=weight)
    wanted = []
    for train, test in GroupKFold(2).split(X, groups=GROUPS):
        given = {"groups": np.array(GROUPS)[train], "sample_weight": weight[train]}
        by_hand = clone(model).set_params(tol=0.01)
        by_hand.fit([X[s] for s in train], [y[s] for s in train], **given)
        score = by_hand.score([X[s] for s in test], [y[s] for s in test], weight[test])
        wanted.append(score)
    found = [search.cv_results_[f"split{i}_test_score"][0] for i in range(2)]
    assert found == pytest.approx(wanted, abs=1e-12)
