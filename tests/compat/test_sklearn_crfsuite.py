"""One import changed: the same optimum, the same answers, and a message for what is not there."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import robustruct
from robustruct.compat.sklearn_crfsuite import CRF
from robustruct.errors import IncompatibleError

sklearn_crfsuite = pytest.importorskip("sklearn_crfsuite")


def sentences(n: int = 40, seed: int = 0):
    rng = np.random.default_rng(seed)
    X, y = [], []
    for length in rng.integers(1, 8, size=n):
        tags = rng.integers(3, size=length)
        words = (tags * 4 + rng.integers(6, size=length)) % 12
        X.append([{"w": str(w), "even": bool(w % 2), "size": w / 10} for w in words.tolist()])
        y.append([f"T{tag}" for tag in tags])
    return X, y


@pytest.fixture(scope="module", params=[None, 0.1])
def pair(request):
    """Ours and theirs, trained on the same data."""
    X, y = sentences()
    ours = CRF(algorithm="lbfgs", c2=request.param, all_possible_transitions=True).fit(X, y)
    theirs = sklearn_crfsuite.CRF(
        algorithm="lbfgs",
        c2=request.param,
        all_possible_states=True,
        all_possible_transitions=True,
        epsilon=1e-7,
        delta=1e-9,
    ).fit(X, y)
    return ours, theirs


def test_predictions_and_marginals_agree(pair) -> None:
    ours, theirs = pair
    X, y = sentences(seed=1)
    assert ours.predict(X) == [list(labels) for labels in theirs.predict(X)]
    assert ours.predict_single(X[0]) == theirs.predict_single(X[0])
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y))
    for mine, other in zip(ours.predict_marginals(X), theirs.predict_marginals(X), strict=True):
        for p, q in zip(mine, other, strict=True):
            assert p == pytest.approx(q, abs=2e-3)
    assert ours.predict_marginals_single(X[0]) == ours.predict_marginals(X)[0]


def test_weights_agree(pair) -> None:
    ours, theirs = pair
    assert sorted(ours.classes_) == sorted(theirs.classes_)
    assert sorted(ours.attributes_) == sorted(theirs.attributes_)
    assert ours.num_attributes_ == theirs.num_attributes_
    for name in ("state_features_", "transition_features_"):
        mine, other = getattr(ours, name), getattr(theirs, name)
        assert set(other) <= set(mine)
        assert mine == pytest.approx({key: other.get(key, 0.0) for key in mine}, abs=0.02)


def test_empty_sequences_stay_empty(pair) -> None:
    ours, theirs = pair
    X, y = sentences(3)
    assert ours.predict([[], X[0]]) == [[], ours.predict_single(X[0])]
    assert ours.predict_marginals_single([]) == theirs.predict_marginals_single([]) == []
    CRF().fit([[], *X], [[], *y])


def test_scikit_learn_habits() -> None:
    X, y = sentences(20)
    search = GridSearchCV(CRF(), {"c2": [0.01, 1.0]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.5
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    assert again.predict(X) == search.predict(X)
    assert clone(CRF(c2=3.0)).c2 == 3.0


def test_the_model_behind_can_be_saved(tmp_path) -> None:
    X, y = sentences(10)
    crf = CRF().fit(X, y)
    crf.model_.save(tmp_path / "model")
    loaded = robustruct.load(tmp_path / "model")
    assert [labels.tolist() for labels in loaded.predict(X)] == crf.predict(X)


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"algorithm": "l2sgd"}, "algorithm='lbfgs'"),
        ({"algorithm": "ap"}, r"robustruct\.SSVM"),
        ({"algorithm": "pa"}, r"robustruct\.SSVM"),
        ({"algorithm": "arow"}, r"robustruct\.SSVM"),
        ({"algorithm": "sgd"}, "use algorithm='lbfgs'"),
        ({"c1": 0.1}, "use c2"),
        ({"c2": 0.0}, "c2=1e-4"),
        ({"min_freq": 5}, "leave rare attributes out"),
        ({"all_possible_states": False}, "leave it out"),
        ({"epsilon": 1e-3}, r"robustruct\.CRF\(tol"),
        ({"num_memories": 3}, "leave it out"),
        ({"pa_type": 0}, "leave it out"),
        ({"averaging": True}, "leave it out"),
        ({"model_filename": "x.crfsuite"}, "model_.save"),
        ({"keep_tempfiles": True}, "model_.save"),
        ({"trainer_cls": object}, r"robustruct\.CRF"),
    ],
)
def test_what_is_not_supported_says_what_to_do(options, advice) -> None:
    X, y = sentences(3)
    with pytest.raises(IncompatibleError, match=advice):
        CRF(**options).fit(X, y)


def test_dev_data_says_what_to_do() -> None:
    X, y = sentences(3)
    with pytest.raises(IncompatibleError, match="validation"):
        CRF().fit(X, y, X, y)


def test_parameters_are_those_of_sklearn_crfsuite() -> None:
    assert CRF().get_params() == sklearn_crfsuite.CRF().get_params()
