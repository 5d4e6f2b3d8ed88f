"""Fits that tests of faults run in threads and in other processes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from robustruct import AGM, CRF, SSVM
from robustruct.datasets import make_chains

MODELS = {"AGM": AGM, "CRF": CRF, "SSVM": SSVM}
DATA = make_chains(n_samples=60, n_nodes=(5, 25), n_features=6, noise=2.0, seed=1)


def model(name: str, seed: int = 0, **parameters: Any) -> Any:
    """A model that takes a few dozen passes."""
    given = {"alpha": 1e-2, "tol": 1e-4, "max_iter": 60, "random_state": seed, **parameters}
    return MODELS[name](**given)


def weights(name: str, seed: int = 0, n_jobs: int | None = None) -> np.ndarray:
    """What a fit finds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model(name, seed, n_jobs=n_jobs).fit(DATA.X, DATA.y).coef_
