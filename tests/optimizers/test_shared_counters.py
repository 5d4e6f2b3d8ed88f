"""Counters that threads share inside kernels."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from robustruct.kernels._atomic import add_one, read, take_below, wait_for, write
from robustruct.kernels._jit import kernel


@kernel
def take_all(counters, limit, taken):
    """Take numbers below ``limit`` until there are none; count how often each was taken."""
    while True:
        at = take_below(counters, 0, limit)
        if at < 0:
            return
        taken[at] += 1
        add_one(counters, 1)


@kernel
def answer(counters, rounds, seen):
    """Wait for each round to be opened, note what is written there, and say so."""
    for i in range(rounds):
        wait_for(counters, 0, i + 1)
        seen[i] = seen[rounds + i]
        write(counters, 1, i + 1)


@kernel
def ask(counters, rounds, seen):
    """Write a number for each round, open it and wait for the answer."""
    for i in range(rounds):
        seen[rounds + i] = i * i
        write(counters, 0, i + 1)
        wait_for(counters, 1, i + 1)
    return read(counters, 1)


def test_every_number_is_taken_once_by_one_of_many_threads():
    counters, taken = np.zeros(2, np.int64), np.zeros(100_000, np.int64)
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(take_all, counters, len(taken), taken) for _ in range(4)]:
            done.result()
    assert (taken == 1).all()
    assert counters.tolist() == [len(taken), len(taken)]


def test_what_was_written_before_a_counter_is_seen_after_it():
    rounds = 2_000
    counters, seen = np.zeros(2, np.int64), np.full(2 * rounds, -1, np.int64)
    with ThreadPoolExecutor(2) as pool:
        answering = pool.submit(answer, counters, rounds, seen)
        assert ask(counters, rounds, seen) == rounds
        answering.result()
    np.testing.assert_array_equal(seen[:rounds], np.arange(rounds) ** 2)
