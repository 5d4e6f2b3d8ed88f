"""Damping of workers that visit samples at the same time."""

from __future__ import annotations

import numpy as np
import pytest

from robustruct.optimizers.distributed_shards import FALL, MARGIN, Damping


def test_most_is_what_workers_that_meet_a_feature_can_add_up_to():
    """Against drawing: nodes with a feature on workers, each visited in one of the rounds."""
    rng = np.random.default_rng(0)
    workers, rounds, counts = 8, 6, np.array([1, 2, 8, 32, 256])
    damping = Damping.by_count(counts.astype(float), 3, workers, rounds)
    most = damping.most[damping.kind]
    assert len(most) == len(counts) + 3
    assert (most[len(counts) :] == workers).all()  # edges
    for count, bound in zip(counts, most, strict=False):
        for shares in (np.ones(workers), np.arange(workers) + 1.0, np.eye(workers)[0]):
            where = rng.choice(workers, (4000, count), p=shares / shares.sum())
            first = rng.integers(0, rounds, (4000, count)) == 0
            met = np.zeros((4000, workers), bool)
            np.logical_or.at(met, (np.nonzero(first)[0], where[first]), True)
            others = met[:, 1:].sum(axis=1)[met[:, 0]]  # where the first worker is one of them
            if len(others) > 50:
                assert 1 + others.mean() <= bound + 3 * others.std() / np.sqrt(len(others)) + 1e-9


def test_sigma_rises_at_once_and_falls_slowly_between_its_bounds():
    damping = Damping.by_count(np.array([1.0, 1000.0]), 1, 4, 4)
    high = damping.sigma.copy()
    assert high[damping.kind].tolist() == pytest.approx([1 + 3 * (1 - 0.75 ** (1 / 3)), 4.0, 4.0])
    parts = np.ones_like(high)
    damping.see(0.5 * parts, parts)
    damping.end_pass()
    np.testing.assert_allclose(damping.sigma, np.maximum(FALL * high, 1.0))
    damping.end_pass()  # nothing was seen
    np.testing.assert_allclose(damping.sigma, np.maximum(FALL * high, 1.0))
    for _ in range(20):
        damping.see(parts, parts)
        damping.end_pass()
    np.testing.assert_allclose(damping.sigma, np.minimum(MARGIN, high))
    damping.see(3.0 * parts, parts)
    np.testing.assert_allclose(damping.sigma, np.minimum(3.0 * MARGIN, high))
    assert len(damping.pace) == 3


def test_one_kind_has_one_pace():
    assert Damping.of_all(7, 3).pace.tolist() == [3.0]
