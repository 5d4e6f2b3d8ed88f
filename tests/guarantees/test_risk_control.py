"""Thresholds keep the expected share of misses below the target, on the next sample as well."""

import numpy as np
import pytest

from robustruct.errors import InvalidInputError
from robustruct.guarantees.risk_control import Calibration


def drawn(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Samples with 0 to 4 counted nodes; those with more have higher levels."""
    counted = rng.choice(5, size=n, p=[0.5, 0.2, 0.1, 0.1, 0.1])
    return counted, rng.random(counted.sum()) ** np.repeat(1 / np.maximum(counted, 1), counted)


@pytest.mark.parametrize(("miss", "n"), [(0.2, 60), (0.1, 200), (0.05, 300)])
def test_the_expected_share_is_at_most_the_target(miss: float, n: int) -> None:
    rng = np.random.default_rng(0)
    misses, nodes = 0, 0
    for _ in range(400):
        counted, levels = drawn(rng, n)
        threshold, _ = Calibration(levels, counted).controlled(miss, 4)
        new, new_levels = drawn(rng, 200)
        misses, nodes = misses + int((new_levels > threshold).sum()), nodes + int(new.sum())
    assert misses / nodes <= miss
    assert misses / nodes > 0.6 * miss  # and not far below


def test_the_threshold_is_the_smallest() -> None:
    """By trying every level that occurs."""
    rng = np.random.default_rng(1)
    for _ in range(30):
        counted, levels = drawn(rng, 80)
        found, needed = Calibration(levels, counted).controlled(0.2, 4)

        def excess(threshold, counted=counted, levels=levels) -> float:
            return (levels > threshold).sum() - 0.2 * counted.sum() + 0.8 * 4

        assert excess(found) <= 1e-9
        assert all(excess(level) > 0 for level in levels if level < found)
        assert needed == int(np.ceil(0.8 * 4 / (0.2 * counted.mean()) - 1e-9))


def test_what_cannot_be_promised_says_how_many_samples_it_takes() -> None:
    rng = np.random.default_rng(2)
    counted, levels = drawn(rng, 100)
    needed = int(np.ceil(0.99 * 4 / (0.01 * counted.mean())))
    with pytest.raises(InvalidInputError, match=f"it takes about {needed:,} samples") as error:
        Calibration(levels, counted).controlled(0.01, 4)
    assert error.value.field == "miss"
    more, levels = drawn(rng, 2 * needed)
    Calibration(levels, more).controlled(0.01, 4)
    with pytest.raises(InvalidInputError, match="cannot be reached"):
        Calibration(np.full(len(levels), np.inf), more).controlled(0.01, 4)


def test_a_generous_target_bars_nothing() -> None:
    counted = np.ones(20, np.intp)
    assert Calibration(np.zeros(20), counted).controlled(0.99, 1)[0] <= 0
