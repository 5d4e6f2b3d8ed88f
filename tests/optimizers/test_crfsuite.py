"""The CRF has the optimum that CRFsuite finds on the same features."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from corpora import chunking_attributes, load_conll2000
from robustruct import CRF
from robustruct.inference import marginals

pycrfsuite = pytest.importorskip("pycrfsuite")


def trained_by_crfsuite(X, y, c2, file):
    """(Σ NLL + c2 |w|² as it reports it, its weights); with an explicit bias, as ours is one."""
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    for sample, labels in zip(X, y, strict=True):
        trainer.append([[*attributes, "(bias)"] for attributes in sample], labels)
    trainer.set_params(
        {
            "c1": 0.0,
            "c2": c2,
            "feature.possible_states": True,
            "feature.possible_transitions": True,
            "max_iterations": 1000,
            "epsilon": 1e-6,
            "delta": 1e-8,
        }
    )
    trainer.train(str(file))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(file))
    return trainer.logparser.last_iteration["loss"], tagger.info()


def as_our_weights(model, info):
    theta, k = np.zeros_like(model.coef_), len(model.classes_)
    code = {label: a for a, label in enumerate(model.classes_.tolist())}
    row = {name: i for i, name in enumerate(model.get_feature_names_out())}
    for (name, label), weight in info.state_features.items():
        theta[row[name] * k + code[label]] = weight
    for (before, after), weight in info.transitions.items():
        theta[len(row) * k + code[before] * k + code[after]] = weight
    return theta


def objective_at(model, X, y, theta):
    """Mean of -log p(y | x) under any weights, and the penalty."""
    other = copy.copy(model)
    other.coef_ = theta
    design, _ = other._encode(X)
    log_z = marginals(other._scores(design)).log_partition
    value = float((log_z - other.log_score(X, y)).mean())
    return value + 0.5 * model.alpha_ * float(theta @ theta)


def assert_same_optimum(X, y, c2, file):
    n = len(X)
    model = CRF(alpha=2 * c2 / n, tol=1e-6).fit(X, y)
    loss, info = trained_by_crfsuite(X, y, c2, file)
    assert n * model.objective_ == pytest.approx(loss, rel=1e-4)
    theirs = objective_at(model, X, y, as_our_weights(model, info))
    assert model.objective_ == pytest.approx(theirs, rel=1e-4)
    assert model.objective_ <= theirs * (1 + 1e-6)  # ours is certified to be the lower one


@pytest.mark.parametrize("c2", [0.1, 1.0])
def test_made_up_sentences(c2, tmp_path):
    rng = np.random.default_rng(0)
    X, y = [], []
    for n in rng.integers(1, 9, size=60):
        tags = rng.integers(3, size=n)
        words = (tags * 4 + rng.integers(6, size=n)) % 12
        X.append([[f"w{a}", f"next{b}"] for a, b in zip(words, [*words[1:], 99], strict=True)])
        y.append([f"T{tag}" for tag in tags])
    assert_same_optimum(X, y, c2, tmp_path / "model")


@pytest.mark.data
def test_sentences_of_conll2000(data_home, tmp_path):
    data = load_conll2000(data_home=data_home).subset(slice(200))
    X = [chunking_attributes(sentence) for sentence in data.X]
    assert_same_optimum(X, [labels.tolist() for labels in data.y], 1.0, tmp_path / "model")
