"""The CRF has the optimum that CRFsuite finds on the same features."""

from __future__ import annotations

import numpy as np
import pytest

from robustruct import CRF
from robustruct.datasets import chunking_attributes, load_conll2000

pycrfsuite = pytest.importorskip("pycrfsuite")


def crfsuite_objective(X, y, c2, file):
    """Σ NLL + c2 |w|² at CRFsuite's optimum, with an explicit bias as ours is one."""
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
    return trainer.logparser.last_iteration["loss"]


def assert_same_optimum(X, y, c2, file):
    n = len(X)
    model = CRF(alpha=2 * c2 / n, tol=1e-5).fit(X, y)
    assert n * model.objective_ == pytest.approx(crfsuite_objective(X, y, c2, file), rel=1e-4)


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
