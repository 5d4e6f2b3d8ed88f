"""Training on several threads finds the weights of one thread, to the bit.

`checks.py sanitize` runs this file under the thread sanitizer.
"""

from __future__ import annotations

import numpy as np
import pytest

from robustruct import AGM, CRF, SSVM, Graph
from robustruct.datasets import make_chains

MODELS = {
    "AGM": lambda n: AGM("absolute", alpha=0.02, max_iter=6, random_state=0, n_jobs=n),
    "SSVM": lambda n: SSVM("absolute", alpha=0.02, max_iter=6, random_state=0, n_jobs=n),
    "AGM, smooth": lambda n: AGM(
        "absolute", alpha=0.02, temperature=0.5, max_iter=6, random_state=0, n_jobs=n
    ),
    "SSVM, smooth": lambda n: SSVM(
        "absolute", alpha=0.02, temperature=0.5, max_iter=6, random_state=0, n_jobs=n
    ),
    "CRF": lambda n: CRF(
        alpha=0.02, optimizer="natural_ascent", max_iter=6, random_state=0, n_jobs=n
    ),
    "CRF by L-BFGS": lambda n: CRF(alpha=0.02, optimizer="lbfgs", max_iter=6, n_jobs=n),
}


def ring(features: np.ndarray) -> Graph:
    n = len(features)
    return Graph(features, [(i, (i + 1) % n) for i in range(n)] if n > 2 else [])


@pytest.mark.parametrize("shape", ["chains", "rings"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore:.*certified relative duality gap")
def test_weights_on_any_number_of_threads(name: str, shape: str) -> None:
    data = make_chains(n_samples=60, seed=0)
    X = data.X if shape == "chains" else [ring(np.asarray(sample)) for sample in data.X]
    one, two, three = (MODELS[name](n).fit(X, data.y) for n in (1, 2, 3))
    for other in (two, three):
        np.testing.assert_array_equal(other.coef_, one.coef_)
        assert other.history_[-1].gap == one.history_[-1].gap
    np.testing.assert_array_equal(np.concatenate(two.predict(X)), np.concatenate(one.predict(X)))
