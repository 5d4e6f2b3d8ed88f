"""`Progress`: when training stops, what it is then called, and what a checkpoint keeps of it."""

from __future__ import annotations

from dataclasses import astuple
from unittest import mock

import numpy as np
import pytest

from robustruct.objectives.adversarial import Outline
from robustruct.optimizers.certificates import Progress, inside
from robustruct.optimizers.shards import PassSpec
from robustruct.status import Status

WEIGHTS = 4
THETA = np.arange(1.0, WEIGHTS + 1)


def progress_of(tol=1e-3, *, untrained=10.0, unavoidable=0.0, taken_off=0.0, **options):
    """Of a fit with four weights; the gap is measured against no less than 0.1."""
    outline = Outline(0.1, WEIGHTS, 2, 7, untrained, 11.0, 13.0, unavoidable, taken_off)
    return Progress(outline, tol, **options)


def clock(now):
    """A clock that shows ``now[0]``."""
    return mock.patch("time.perf_counter", side_effect=lambda: now[0])


def test_before_the_first_certificate_nothing_is_known():
    progress = progress_of()
    np.testing.assert_array_equal(progress.theta, np.zeros(WEIGHTS))
    assert (progress.n_iter, progress.gap, progress.primal) == (0, np.inf, np.inf)
    assert [progress.finished, progress.out_of_time, progress.idle()] == [False] * 3
    assert progress.advice == "Raise max_iter or tol."


def test_what_is_known_without_a_pass():
    progress = progress_of(untrained=10.0, unavoidable=2.0, taken_off=5.0)
    progress.report_start()
    (record,) = progress.history
    assert (record.n_iter, record.primal, record.dual, record.gap) == (0, 15.0, 7.0, 1.0)
    started = progress_of()
    started.theta = np.array([0.0, 0.0, 3.0, 0.0])  # a warm start: nothing is known of it
    started.report_start()
    assert not started.history


def test_a_gap_that_equals_the_tolerance_is_small_enough():
    for tol, converged in ((0.25, True), (0.249, False)):
        progress = progress_of(tol)
        assert progress.report(3, THETA, 4.0, 3.0) == converged
        assert progress.converged == progress.finished == converged


def test_better_weights_take_the_place_of_those_before():
    progress = progress_of()
    progress.report(1, THETA, 4.0, 0.0)
    place = progress.theta
    progress.report(2, -3 * THETA, 3.0, 0.0)
    assert progress.theta is place
    np.testing.assert_array_equal(progress.theta, -3 * THETA)


def test_how_training_ended():
    now = [50.0]
    with clock(now):
        progress = progress_of(0.25, max_time=8.0)
        progress.report(5, THETA, 4.0, 1.0)
        assert progress.status(6) is Status.STALLED
        assert progress.status(5) is progress.status(4) is Status.MAX_ITER
        now[0] = 58.0
        assert progress.status(6) is Status.STALLED  # no pass yet: there always is one
        assert not progress.finished
        progress.passed(6, 0.5)
        assert progress.status(6) is Status.MAX_TIME
        assert progress.status(5) is Status.MAX_ITER
        progress.report(6, THETA, 4.0, 3.5)
        assert progress.status(6) is Status.CONVERGED
        progress.stopped = True
        assert progress.status(6) is Status.STOPPED_EARLY
        progress.interrupted = True
        assert progress.status(6) is Status.INTERRUPTED


def test_the_time_of_a_fit():
    now = [50.0]
    with clock(now):
        progress, untimed = progress_of(max_time=8.0), progress_of()
        for one in (progress, untimed):
            one.passed(1, np.inf)
        now[0] = 57.9
        assert not progress.report(1, THETA, 4.0, 1.0)
        assert progress.history[0].time == pytest.approx(7.9)
        now[0] = 58.0
        assert progress.out_of_time
        assert progress.report(2, THETA, 4.0, 1.0)
        assert not untimed.out_of_time


def test_ticks_and_checkpoints_are_passed_on():
    progress, keeper, reached = progress_of(), mock.Mock(), object()
    progress.passed(1, 0.5)
    progress.resume(reached)
    progress.keep(reached)
    assert progress.due(1) is False
    ticks = []
    progress = progress_of(tick=lambda *seen: ticks.append(seen), keeper=keeper)
    progress.passed(3, 0.25)
    assert ticks == [(3, 0.25, "")]
    progress.resume(reached)
    keeper.restore.assert_called_once_with(reached)
    for due in (True, False):
        keeper.due.return_value = due
        assert progress.due(7) is due
    keeper.due.assert_called_with(7)
    progress.keep(reached)
    keeper.keep.assert_called_once_with(reached)


def test_a_gap_must_fall_by_some_part_while_passes_double():
    """Of the gaps after at most half of the passes the smallest counts."""
    progress = progress_of()
    progress.least_fall = 0.25
    for n_iter, dual, stalled in (
        (1, 0.0, False),  # a gap of 1
        (3, 0.1875, True),  # 0.8125 is more than 0.75
        (4, 0.25, False),
        (7, 0.375, True),  # 0.625 is more than 3/4 of 0.8125, that after the third
        (8, 0.4375, False),  # 3/4 of that after the fourth
        (9, 0.5, False),
        (16, 0.578125, False),  # 3/4 of that after the eighth
        (17, 0.578125, False),
        (18, 0.578125, True),
    ):
        assert progress.report(n_iter, THETA, 1.0, dual) == stalled, n_iter
        assert progress.stalled == stalled
    progress.least_fall = 0.0  # now it may stay what it is
    progress.stalled = False
    assert not progress.report(64, THETA, 1.0, 0.6)


def reported(progress, records):
    """The progress after some (pass, primal, dual)."""
    for record in records:
        progress.report(record[0], THETA, *record[1:])
    return progress


def test_idle_is_a_quarter_of_the_passes_without_a_fall():
    # IDLE times tol times the scale: 0.01 * 0.125 * 4 = 0.005, exact in binary with a tol of 2**-3.
    fall = 0.01 * 0.125 * 4.0
    begun = [(1, 4.0 + fall, 0.0)]
    options = {"taken_off": 3.0}
    for n_iter, idle in ((20, False), (21, True), (22, True)):  # at least FEWEST
        assert reported(progress_of(0.125, **options), [*begun, (n_iter, 4.0001, 0.0)]).idle() == (
            idle
        )
    for fallen in (1.01, 0.99):
        found = reported(progress_of(0.125), [(1, 4.0 + fallen * fall, 0.0), (30, 4.0, 0.0)])
        assert found.idle() == (fallen < 1.0)
    # The least primal before the last quarter counts, and what is left of it.
    records = [(75, 4.001, 0.0), (76, 6.0, 0.0), (100, 4.0, 0.0)]
    assert reported(progress_of(0.125), [(50, 4.1, 0.0), *records]).idle()
    assert not reported(progress_of(0.125), [(50, 4.1, 0.0), *records[1:]]).idle()
    assert not reported(progress_of(0.125), [(50, 4.1, 0.0), (76, 4.001, 0.0), records[-1]]).idle()
    # From pass 24 on 76 have passed, of which a quarter is 19, so that it is 20 again.
    late = [(24, 4.001, 0.0), (81, 4.001, 0.0), (100, 4.0, 0.0)]
    assert reported(progress_of(0.125), late).idle()
    assert not reported(progress_of(0.125), late).idle(begun=24)
    assert reported(progress_of(0.125), [(80, 4.001, 0.0), late[-1]]).idle(begun=24)
    assert reported(progress_of(0.125), [(60, 4.001, 0.0), late[-1]]).idle(begun=0)


def test_a_descent_whose_gap_has_halved_is_not_idle():
    for dual, idle in ((3.0, False), (2.999, True), (3.001, False)):  # of a gap of 2 / 4
        records = [(1, 9.0, 0.0), (2, 4.0, 2.0), (40, 4.0, dual)]
        assert reported(progress_of(1e-6), records).idle() == idle, dual


def test_what_was_found_so_far_is_kept_with_the_clock():
    now = [100.0]
    with clock(now):
        progress = progress_of(taken_off=2.0)
        for kept in (progress_of().state(), progress.state()):
            assert kept["history"].shape == (0, 5)
        now[0] = 107.0
        progress.report(3, THETA, 4.0, 1.0)
        progress.report(5, 2 * THETA, 4.5, 2.0)
        progress.stopped = True
        now[0] = 110.0
        state = progress.state()
        now[0] = 500.0
        other = progress_of(taken_off=2.0)
        other.restore(state)
        assert (other.primal, other.dual, other.stopped) == (4.0, 2.0, True)
        np.testing.assert_array_equal(other.theta, THETA)
        assert [astuple(record) for record in other.history] == [
            (3, 7.0, 6.0, 3.0, 0.75),
            (5, 7.0, 6.5, 4.0, 0.5),
        ]
        assert isinstance(other.n_iter, int)
        now[0] = 503.0
        other.report(6, THETA, 4.0, 2.0)
        assert other.history[-1].time == 13.0


def test_orders_of_a_pass_skip_nothing_and_are_a_whole_one():
    spec = PassSpec(1, 0, 0.1, 4)
    assert (spec.skip_below, spec.part, spec.parts) == (-np.inf, 0, 1)


def test_entries_of_a_part_of_a_state():
    assert inside("a", {"a.b": 1, "a.c.d": 2, "ab": 3, "b.a": 4}) == {"b": 1, "c.d": 2}
