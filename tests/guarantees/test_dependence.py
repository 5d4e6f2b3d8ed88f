"""Neighbours that are alike are noticed, others rarely."""

import numpy as np
import pytest

from robustruct.guarantees.dependence import LEVEL, look_dependent, neighbours_p_value


def in_documents(rng: np.random.Generator, alike: float, n: int = 80, size: int = 15) -> np.ndarray:
    """Values whose documents differ: ``alike`` is their intraclass correlation."""
    shared = np.repeat(rng.normal(size=n), size)
    return np.sqrt(alike) * shared + np.sqrt(1 - alike) * rng.normal(size=n * size)


def test_p_values_of_independent_values_are_those_of_chance() -> None:
    rng = np.random.default_rng(0)
    found = [neighbours_p_value((rng.random(60) < 0.1).astype(float), seed) for seed in range(200)]
    for level in (0.05, 0.2, 0.5):
        assert np.mean(np.array(found) <= level) <= level + 3 * np.sqrt(level * (1 - level) / 200)


@pytest.mark.parametrize(("alike", "share"), [(0.06, 0.7), (0.2, 0.99)])
def test_documents_are_noticed(alike: float, share: float) -> None:
    rng = np.random.default_rng(1)
    noticed = [look_dependent(in_documents(rng, alike)) for _ in range(40)]
    assert np.mean(noticed) >= share


def test_shuffled_documents_are_not() -> None:
    rng = np.random.default_rng(2)
    noticed = [look_dependent(rng.permutation(in_documents(rng, 0.3))) for _ in range(60)]
    assert np.mean(noticed) <= LEVEL + 0.02


def test_constant_or_few_values_prove_nothing() -> None:
    assert neighbours_p_value(np.full(50, 0.1)) == 1.0
    assert neighbours_p_value(np.array([1.0, 2.0])) == 1.0
    assert neighbours_p_value(np.eye(1, 100)[0]) > 0.5  # a single mistake
