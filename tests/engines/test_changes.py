"""What a worker tells the others is what a pass of its own would have done to θ."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from robustruct import AGM
from robustruct.datasets import make_chains
from robustruct.engines import ShardedData
from robustruct.engines.local import FileShards
from robustruct.optimizers.local_shards import LocalShards
from robustruct.optimizers.shards import PassSpec
from robustruct.optimizers.tuning import UNSCALED, Scales

CHAINS = make_chains(n_samples=60, n_nodes=(2, 6), noise=2.0, seed=5)


class Encoded(Exception):
    """The shards of a fit."""


def shards_of(monkeypatch, X, n_shards, temperature):
    """The encoded samples of a fit, twice."""

    def stop(shards, optimizer):
        raise Encoded(shards)

    monkeypatch.setattr(FileShards, "placed", stop)
    model = AGM(alpha=0.01, temperature=temperature)
    with pytest.raises(Encoded) as caught:
        model.fit(ShardedData.from_samples(X, CHAINS.y, n_shards))
    found = caught.value.args[0]
    problems = {number: shard.given for number, shard in found.shards.items()}
    return [LocalShards(problems, found.tuning) for _ in range(2)]


def words(X):
    """Few features of many columns, as words are."""
    rng = np.random.default_rng(0)
    found = []
    for x in X:
        rows = np.zeros((len(x), 40))
        rows[np.arange(len(x))[:, None], rng.integers(0, 40, (len(x), 3))] = 1.0
        found.append(sparse.csr_array(rows))
    return found


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("n_shards", [1, 3])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_changes_are_those_of_a_round(monkeypatch, kind, n_shards, temperature):
    X = CHAINS.X if kind == "dense" else words(CHAINS.X)
    one, other = shards_of(monkeypatch, X, n_shards, temperature)
    if temperature:
        from robustruct.optimizers.tuning import SMOOTH

        for shards in (one, other):
            shards.retune(SMOOTH)
    theta = np.zeros(one.first.problem.n_weights)
    for number in range(3):
        for part in range(2):
            spec = PassSpec(number + 1, 0, 0.05, one.tuning.inner, part=part, parts=2)
            slower = replace(spec, penalty=2 * spec.penalty)  # which the pace makes up for
            before, apart = theta.copy(), theta.copy()
            seen = one.round(theta, spec)
            found, index, value = other.changes(apart, slower, np.array([2.0]))
            assert found == seen
            np.testing.assert_array_equal(apart, before)
            assert (np.diff(index) > 0).all()
            np.testing.assert_array_equal(index, np.flatnonzero(theta != before))
            np.testing.assert_allclose(value, 0.5 * (theta - before)[index], rtol=1e-6)
            assert len(index) > 0


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_pace_by_row_is_that_of_scaled_features(monkeypatch, kind):
    """Weights that move σ times as far are those of features times √σ, which are over √σ."""
    X = CHAINS.X if kind == "dense" else words(CHAINS.X)
    one, other = shards_of(monkeypatch, X, 2, 0.0)
    problem = one.first.given
    k, d, e = problem.n_labels, problem.design.nodes.shape[1], problem.design.edges.shape[1]
    roots = np.random.default_rng(1).choice([1.0, 2.0, 4.0], d + e)
    scales = Scales.of(roots, (d, e), k)
    tuning = replace(one.tuning, scales=scales)
    one = LocalShards(one.local_problems, tuning)
    other = LocalShards(other.local_problems, replace(tuning, scales=UNSCALED))
    pace = np.concatenate([roots[:d], np.repeat(roots[d:], k)]) ** 2
    theta = np.zeros(problem.n_weights)
    for number in range(3):
        spec = PassSpec(
            number + 1, 0, 0.2, 1
        )  # later steps may take either of two equal labellings
        scaled = scales.divided(theta)
        seen = one.round(scaled, spec)
        found, index, value = other.changes(theta, spec, pace)
        assert found.gap == pytest.approx(seen.gap, rel=1e-9)
        moved = (scales.unscaled(scaled) - theta) / np.repeat(pace, k)
        np.testing.assert_allclose(value, moved[index], rtol=1e-5, atol=1e-9)
        moved[index] = 0.0
        np.testing.assert_allclose(moved, 0.0, atol=1e-12)
        theta = scales.unscaled(scaled)
