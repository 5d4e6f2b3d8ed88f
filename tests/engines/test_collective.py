"""Sums that processes make among themselves are those that one process would make."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robustruct import CRF
from robustruct.engines import ShardedData
from robustruct.engines.local import LocalEngine
from robustruct.optimizers.collective import Collective, MessageCollective, OutOfStep, Stopped
from robustruct.optimizers.distributed_shards import Damping, DistributedShards
from robustruct.optimizers.local_shards import LocalShards
from robustruct.optimizers.natural_ascent import NaturalAscent
from robustruct.optimizers.optimizer import Progress, Task
from robustruct.optimizers.shards import PassSpec, PassStats
from robustruct.optimizers.tuning import DENSE


class ThreadCollective(Collective):
    """Processes that are threads of one: the smallest implementation of the contract."""

    def __init__(self, rank: int, size: int, shared: dict, barrier: threading.Barrier) -> None:
        self.rank, self.size, self.shared, self.barrier = rank, size, shared, barrier
        self.number = 0

    def allgather(self, arrays, label):
        self.number += 1
        self.shared[self.number, self.rank] = label, list(arrays)
        self.barrier.wait(30)
        told = [self.shared[self.number, rank] for rank in range(self.size)]
        if any(other != label for other, _ in told):
            raise OutOfStep
        return [given for _, given in told]

    def allreduce(self, vector, label):
        gathered = self.allgather([vector.copy()], label)
        vector[:] = np.sum([arrays[0] for arrays in gathered], axis=0)


def together(size, work, make=ThreadCollective):
    """Return what ``work(collective)`` finds, on every rank."""
    shared, barrier = {}, threading.Barrier(size)
    collectives = [make(rank, size, shared, barrier) for rank in range(size)]
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(work, collectives))


def vectors(rng, size, n, density):
    return [rng.normal(size=n) * (rng.random(n) < density) for _ in range(size)]


class ThreadMessages(MessageCollective):
    """The same by messages, which are handed over as they are."""

    def __init__(self, rank: int, size: int, shared: dict, barrier: threading.Barrier) -> None:
        self.rank, self.size, self.shared, self.barrier = rank, size, shared, barrier
        self.number = 0

    def exchange(self, parts, label):
        self.number += 1
        others = [rank for rank in range(self.size) if rank != self.rank]
        self.bytes_sent += sum(one.nbytes for rank in others for one in parts[rank])
        self.shared[self.number, self.rank] = parts
        self.barrier.wait(30)
        return [self.shared[self.number, rank][self.rank] for rank in range(self.size)]


@given(st.integers(1, 5), st.integers(1, 60), st.floats(0, 1), st.integers(0, 2**31))
def test_vectors_are_added_up(size, n, density, seed):
    given = vectors(np.random.default_rng(seed), size, n, density)

    def work(collective):
        own = given[collective.rank].copy()
        collective.allreduce(own, "test")
        return own, collective.bytes_sent

    found = together(size, work, ThreadMessages)
    for own, sent in found:
        np.testing.assert_allclose(own, np.sum(given, axis=0), rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(own, found[0][0])  # to the bit
        assert sent <= 2 * 8 * (n + size)  # two vectors, however many there are


class FixedChanges:
    """Samples whose visits change θ by given vectors."""

    tuning = DENSE

    def __init__(self, rounds):
        self.rounds = iter(rounds)

    def changes(self, theta, spec, pace):
        own = next(self.rounds)
        index = np.flatnonzero(own).astype(np.int32)
        return PassStats(1.0, 2.0, 3.0, 4.0), index, own[index]


class FixedOutline:
    n_samples = 100

    def __init__(self, n_weights):
        self.n_weights = n_weights


@given(st.integers(2, 5), st.integers(1, 60), st.floats(0, 1), st.integers(0, 2**31))
def test_changes_are_added_up(size, n, density, seed):
    """Few or so many that whole vectors are summed, with the squares that damping goes by."""
    rng = np.random.default_rng(seed)
    rounds = [[one.astype(np.float32) for one in vectors(rng, size, n, density)] for _ in range(3)]
    kind = rng.integers(0, 3, n).astype(np.uint8)
    sums = np.sum(rounds, axis=1, dtype=float)

    class Damped(Damping):
        def see(self, of_sums, of_parts):
            clashes.append((of_sums, of_parts))

    clashes = []

    def work(collective):
        local = FixedChanges([sent[collective.rank] for sent in rounds])
        shards = DistributedShards(local, collective, FixedOutline(n), len(rounds))
        shards.damping = Damped(kind, np.full(3, float(size)))
        theta = np.zeros(n)
        seen = shards.round(theta, PassSpec(1, 0, 1.0, 1))
        assert seen == PassStats(size * 1.0, size * 2.0, size * 3.0, size * 4.0)
        assert shards.n_rounds == len(rounds)
        return theta, shards.sums_vectors

    found = together(size, work)
    entries = sum(np.count_nonzero(one) for one in rounds[-1])
    for theta, sums_vectors in found:
        np.testing.assert_allclose(theta, sums.sum(axis=0), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(theta, found[0][0])
        assert sums_vectors == (entries > 2 * n)
    assert len(clashes) == size * len(rounds)
    for at in range(len(rounds)):
        of_sums, of_parts = clashes[at * size]  # ranks are in step
        for which in range(3):
            own = kind == which
            parts = np.sum(np.square(rounds[at], dtype=float)[:, own])
            assert of_parts[which] == pytest.approx(parts, rel=1e-6)
            expected = sums[at][own] @ sums[at][own]
            assert of_sums[which] == pytest.approx(expected, rel=1e-4, abs=1e-6 * parts)
            assert of_sums[which] <= size * (1 + 1e-6) * of_parts[which]


def test_the_value_of_rank_0_is_that_of_all():
    value = {"theta": np.arange(9000.0), "n_passes": np.array(7), "none": np.zeros((0, 5))}

    def work(collective):
        return collective.broadcast(value if collective.rank == 0 else None, "test")

    for found in together(3, work):
        assert set(found) == set(value)
        for name, expected in value.items():
            np.testing.assert_array_equal(found[name], expected)
            assert found[name].dtype == expected.dtype
            assert found[name].shape == expected.shape


def in_step(numbers, interrupted=False):
    """Whether processes that are about to use these numbers notice that they differ."""

    def work(collective):
        shards = DistributedShards(
            FixedChanges([]), collective, FixedOutline(1), interrupted=lambda: interrupted
        )
        try:
            shards._gather("test", [1.0], [numbers[collective.rank]])
        except OutOfStep:
            return False
        except KeyboardInterrupt:
            return None
        return True

    (found,) = set(together(len(numbers), work))
    return found


def test_numbers_that_differ_by_more_than_rounding():
    assert in_step([1e6, 1e6 * (1 + 1e-12)])
    assert in_step([0.0, 0.0])
    assert in_step([-np.inf, -np.inf, -np.inf])
    assert not in_step([1.0, 1.001])
    assert not in_step([1.0, 1.0, np.inf])


def test_an_interrupt_of_rank_0_reaches_all():
    assert in_step([1.0, 1.0, 1.0], interrupted=True) is None


def test_labels_that_differ():
    def work(collective):
        try:
            collective.allgather([], f"from {collective.rank}")
        except Stopped as error:
            return type(error)

    assert together(2, work) == [OutOfStep, OutOfStep]


def test_lbfgs_takes_over_where_natural_ascent_cannot_reach_the_tolerance():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(4, 3)) for _ in range(20)]
    data = ShardedData.from_samples(X, [(one @ [1, 2, 3] > 0).astype(int) for one in X], 2)
    with LocalEngine().shards(data) as shards:
        shards.prepare(CRF(alpha=0.01), lambda _: None)
    outline, tuning, problems = shards.outline, shards.tuning, shards.local_problems

    def work(collective):
        own = LocalShards({collective.rank: problems[collective.rank]}, tuning)
        progress = Progress(outline, tol=1e-9)
        task = Task(DistributedShards(own, collective, outline), progress, 1000, 0)
        NaturalAscent().minimise(task)
        return progress

    one, other = together(2, work)
    assert one.gap <= 1e-9  # float32 does not get there
    assert one.gap == other.gap
    np.testing.assert_array_equal(one.theta, other.theta)
