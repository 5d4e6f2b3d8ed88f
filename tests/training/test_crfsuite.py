"""Our CRF and CRFsuite minimise the same function: same features, same penalty, same optimum."""

import numpy as np
import pycrfsuite
import pytest

from robustruct import CRF
from robustruct.datasets import chunking_attributes, load_conll2000, make_chains


def crfsuite_weights(X, y, c2, path):
    trainer = pycrfsuite.Trainer("lbfgs", verbose=False)
    options = {"c1": 0.0, "c2": c2, "epsilon": 1e-9, "delta": 1e-9, "max_iterations": 1000}
    trainer.set_params(
        options | {"feature.possible_states": True, "feature.possible_transitions": True}
    )
    for sentence, labels in zip(X, y, strict=True):
        trainer.append([[*token, "(bias)"] for token in sentence], labels)
    trainer.train(str(path))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    return tagger.info()


def check_same_optimum(X, y, tmp_path):
    c2 = 1.0
    model = CRF(alpha=2 * c2 / len(X), tol=1e-7).fit(X, y)
    info = crfsuite_weights(X, y, c2, tmp_path / "model.crfsuite")
    theirs = np.zeros_like(model.coef_)
    k = len(model.classes_)
    code = {label: a for a, label in enumerate(model.classes_.tolist())}
    names = {name: i for i, name in enumerate(model.get_feature_names_out())}
    for (name, label), weight in info.state_features.items():
        theirs[names[name] * k + code[label]] = weight
    for (before, after), weight in info.transitions.items():
        theirs[len(names) * k + code[before] * k + code[after]] = weight
    with np.errstate(all="raise"):
        objective = penalised_likelihood(model, X, y, theirs)
    assert model.objective_ == pytest.approx(objective, rel=1e-4)
    assert model.objective_ <= objective * (1 + 1e-7), "ours is certified to be the lower one"


def penalised_likelihood(model, X, y, theta):
    """The CRF's objective at any weights, by sequence: -log p(y | x) and the penalty."""
    mine = model.coef_
    try:
        model.coef_ = theta
        design, _ = model._encode(X)
        from robustruct.inference import marginals

        log_z = marginals(model._scores(design)).log_partition
        value = float((log_z - model.log_score(X, y)).mean())
    finally:
        model.coef_ = mine
    return value + 0.5 * model.alpha_ * float(theta @ theta)


def test_same_optimum_on_synthetic_chains(tmp_path):
    data = make_chains(n_samples=40, n_nodes=(3, 8), n_labels=3, n_features=3, seed=0)
    X = [[[f"f{j}={int(v > 0)}" for j, v in enumerate(row)] for row in sample] for sample in data.X]
    check_same_optimum(X, [[str(label) for label in labels] for labels in data.y], tmp_path)


@pytest.mark.data
def test_same_optimum_on_chunking(tmp_path, data_home):
    data = load_conll2000("train").subset(slice(0, 100))
    X = [chunking_attributes(sentence) for sentence in data.X]
    check_same_optimum(X, [list(labels) for labels in data.y], tmp_path)
