"""Two small comparisons: sequences of numbers, and trees whose labels look like markup."""

import numpy as np
import pytest
from report_cases import NASTY

from robustruct import Graph
from robustruct.comparison import Comparison, Samples, compare
from robustruct.datasets import load_counter


@pytest.fixture(scope="session")
def sequences() -> Comparison:
    train, test = (load_counter(part, n_sequences=15, length=5) for part in ("train", "test"))
    return compare(
        Samples(train.X, train.y),
        Samples(test.X, test.y),
        "absolute",
        data="counter",
        alpha=[0.1, 0.01],
        n_examples=3,
    )


@pytest.fixture(scope="session")
def trees() -> Comparison:
    rng = np.random.default_rng(0)
    labels = np.array(["a & b", '"quoted"', NASTY])

    def samples(n: int) -> Samples:
        X, y, words = [], [], []
        for _ in range(n):
            codes = rng.integers(3, size=5)
            features = np.eye(3)[codes] + 1.2 * rng.normal(size=(5, 3))
            X.append(Graph(features, [(0, 1), (0, 2), (2, 3), (2, 4)]))
            y.append(labels[codes])
            words.append([f"<w{i}> {NASTY}" for i in range(5)])
        return Samples(X, y, captions=words)

    return compare(samples(12), samples(10), data=NASTY, alpha=[0.1, 0.01], n_examples=2)
