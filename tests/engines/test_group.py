"""Sums that workers make among themselves are those that one process would make."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("distributed")

from robustruct.engines.dask.group import Group, Message, OutOfStep, Updates


class ThreadGroup(Group):
    """Workers that are threads of one process; messages are handed over as they are."""

    def __init__(self, rank: int, size: int, shared: dict, barrier: threading.Barrier) -> None:
        self.rank, self.size, self.shared, self.barrier = rank, size, shared, barrier
        self.number = self.bytes_sent = 0

    def exchange(self, about, facts=(), arrays=None):
        self.number += 1
        given = arrays if arrays is not None else [[]] * self.size
        self.shared[self.number, self.rank] = about, facts, given
        self.barrier.wait(30)
        told = [self.shared[self.number, rank] for rank in range(self.size)]
        assert all(list(one[0]) == list(about) for one in told)
        return [Message(a, list(f), g[self.rank], 0.0, "") for a, f, g in told]


def together(size, work):
    """What ``work(group)`` finds, on every worker."""
    shared, barrier = {}, threading.Barrier(size)
    groups = [ThreadGroup(rank, size, shared, barrier) for rank in range(size)]
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(work, groups))


def vectors(rng, size, n, density):
    return [rng.normal(size=n) * (rng.random(n) < density) for _ in range(size)]


@given(st.integers(1, 5), st.integers(1, 60), st.floats(0, 1), st.integers(0, 2**31))
def test_vectors_are_added_up(size, n, density, seed):
    given = vectors(np.random.default_rng(seed), size, n, density)

    def work(group):
        own = given[group.rank].copy()
        facts = group.add_up(own, "test", [float(group.rank), 1.0])
        return own, facts

    found = together(size, work)
    for own, facts in found:
        np.testing.assert_allclose(own, np.sum(given, axis=0), rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(own, found[0][0])  # to the bit
        np.testing.assert_array_equal(facts, [[rank, 1.0] for rank in range(size)])


@given(st.integers(1, 5), st.integers(1, 60), st.floats(0, 1), st.integers(0, 2**31))
def test_changes_are_added_up(size, n, density, seed):
    rng = np.random.default_rng(seed)
    rounds = [[one.astype(np.float32) for one in vectors(rng, size, n, density)] for _ in range(2)]
    kind = rng.integers(0, 3, n).astype(np.uint8)

    def work(group):
        updates, found = Updates(group, n, kind), []
        for sent in rounds:
            own = sent[group.rank]
            index = np.flatnonzero(own).astype(np.int32)
            sums, facts, *squares = updates.add_up(index, own[index], ["test"], [group.rank])
            total = np.zeros(n)
            for first, arrays in sums:
                if len(arrays) == 1:
                    total[first : first + len(arrays[0])] += arrays[0]
                else:
                    np.add.at(total, arrays[0], arrays[1])
            found.append((total, facts, squares))
        return found

    for found in together(size, work):
        for sent, (total, facts, (of_sums, of_parts)) in zip(rounds, found, strict=True):
            expected = np.sum(sent, axis=0, dtype=float)
            np.testing.assert_allclose(total, expected, rtol=1e-6, atol=1e-6)
            np.testing.assert_array_equal(facts[:, 0], range(size))
            for which in range(kind.max() + 1):
                own = kind == which
                parts = np.sum(np.square(sent, dtype=float)[:, own])
                assert of_parts[which] == pytest.approx(parts, rel=1e-6)
                sums = expected[own] @ expected[own]
                assert of_sums[which] == pytest.approx(sums, rel=1e-4, abs=1e-6 * parts)
                assert of_sums[which] <= size * (1 + 1e-6) * of_parts[which]


@pytest.mark.parametrize("source", [0, 2])
def test_the_state_of_one_is_that_of_all(source):
    rng = np.random.default_rng(0)
    state = {
        "theta": rng.normal(size=9000),
        "rows": rng.normal(size=(3, 2000)),
        "n_passes": np.array(7),
        "stopped": np.array(True),
        "none": np.zeros((0, 9000)),
    }

    def work(group):
        return group.share(state if group.rank == source else {}, source)

    for found in together(3, work):
        assert set(found) == set(state)
        for name, value in state.items():
            np.testing.assert_array_equal(found[name], value)
            assert found[name].dtype == value.dtype
            assert found[name].shape == value.shape


def test_numbers_that_differ_by_more_than_rounding():
    group = ThreadGroup(0, 1, {}, threading.Barrier(1))
    group.check_alike([1e6, 1e6 * (1 + 1e-12)])
    group.check_alike([0.0, 0.0])
    with pytest.raises(OutOfStep):
        group.check_alike([1.0, 1.001])
