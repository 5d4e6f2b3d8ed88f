"""Progress tells the time left, and keeps out of the way of output."""

import math

import pytest

from robustruct import progress as module
from robustruct.progress import GapPace, Pace, duration, progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""

    class Clock:
        now = 100.0

    monkeypatch.setattr(module.time, "monotonic", lambda: Clock.now)
    return Clock


def test_time_left_of_steady_work(clock) -> None:
    pace = Pace()
    assert pace.left(0.1) is None  # too early to tell
    clock.now += 10
    assert pace.left(0.25) == pytest.approx(30)
    assert pace.left(None) is None
    assert pace.left(1.0) is None


def test_time_left_of_a_gap_that_shrinks_by_a_factor(clock) -> None:
    pace = GapPace(tol=0.01, max_iter=1000)
    for second in range(1, 11):
        clock.now = 100.0 + second
        left = pace.left(second, math.exp(-second / 5))
    # The gap is exp(-2) now and reaches 0.01 at 5 log(100) seconds.
    assert left == pytest.approx(5 * math.log(100) - 10)
    assert pace.left(11, 0.005) == 0.0


def test_the_last_pass_bounds_the_time_left(clock) -> None:
    pace = GapPace(tol=1e-12, max_iter=20)
    for second in range(1, 11):
        clock.now = 100.0 + second
        left = pace.left(second, 1 / second)
    assert left == pytest.approx(10)
    clock.now += 1
    assert pace.left(11, 0.2) is None  # it grows: nobody knows


def test_plain_lines_come_now_and_then(clock, capsys) -> None:
    with progress("work") as show:
        for second in range(12):
            clock.now = 100.0 + second
            show(f"step {second}", 60.0 if second else None)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "work: step 0",
        "work: step 5, 1 min left",
        "work: step 10, 1 min left",
    ]


def test_nothing_is_shown_unless_wanted(capsys) -> None:
    with progress("work", wanted=False) as show:
        show("step", 1.0)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "0 s"), (45, "45 s"), (130, "2 min"), (7200, "2 h")]
)
def test_durations_in_words(seconds, text) -> None:
    assert duration(seconds) == text
