"""Bounds that contradict each other are a defect, and never reported as an answer."""

import math

import numpy as np
import pytest
from game_cases import random_game
from hypothesis import given
from hypothesis import strategies as st

from robustruct import solve_game
from robustruct.errors import InternalError
from robustruct.game import game, relaxed
from robustruct.game.certified import certified, in_order, rounding_of
from robustruct.game.solvers import SOLVERS


def test_bounds_in_order_are_what_they_are():
    lower, upper = certified([1.0, -np.inf], [2.0, np.inf], np.zeros(2), "game")
    assert lower.tolist() == [1.0, -np.inf]
    assert upper.tolist() == [2.0, np.inf]


@pytest.mark.parametrize(
    ("lower", "upper", "fine"),
    [
        ([1.0, -np.inf], [1.0, np.inf], True),
        ([1.5, 0.0], [1.0, 2.0], False),
        ([0.0, 1.5], [2.0, 1.0], False),
        ([np.nan, 0.0], [1.0, 1.0], False),
        ([0.0, 0.0], [1.0, np.nan], False),
        ([0.0, np.inf], [1.0, np.inf], False),
        ([-np.inf, 0.0], [-np.inf, 1.0], False),
    ],
)
def test_whether_bounds_are_in_order_is_what_certified_would_say(lower, upper, fine):
    assert in_order(np.array(lower), np.array(upper)) is fine
    if fine:
        found = certified(lower, upper, 0.0, "game")
        assert [one.tolist() for one in found] == [lower, upper]
    else:
        with pytest.raises(InternalError):
            certified(lower, upper, 0.0, "game")


def test_a_crossing_within_rounding_is_put_in_order():
    lower, upper = certified([1.0, 3.0], [2.0, 3.0 - 1e-9], [0.0, 1e-8], "game")
    assert lower.tolist() == [1.0, 3.0 - 1e-9]
    assert upper.tolist() == [2.0, 3.0]


def test_a_crossing_by_all_that_rounding_explains_is_put_in_order():
    lower, upper = certified(1.5, 1.0, 0.5, "game")
    assert (lower, upper) == (1.0, 1.5)


def test_what_rounding_explains():
    """Each of two sums is off by an eps (2**-52) of the sizes per term; 10 more to be sure."""
    assert rounding_of(22, 3.0) == 2 * 2.0**-52 * (22 + 10) * 3.0


@pytest.mark.parametrize(
    ("lower", "upper"),
    [(1.5, 1.0), (np.nan, 1.0), (0.0, np.nan), (np.inf, np.inf), (-np.inf, -np.inf)],
)
def test_anything_else_is_a_defect_with_its_numbers(lower, upper):
    with pytest.raises(InternalError, match=f"game 1 .* lower = {lower}, upper = {upper}.*report"):
        certified([0.0, lower], [0.0, upper], 0.25, "game")
    with pytest.raises(InternalError, match="bounds of the objective contradict"):
        certified(lower, upper, 0.25, "the objective")


@given(st.lists(st.floats(-1e6, 1e6), max_size=60), st.lists(st.floats(-1e-6, 1e-6), max_size=60))
def test_no_sum_is_off_by_more_than_is_allowed_for(large, small):
    numbers = large + small + [-x for x in large]
    total = 0.0
    for x in numbers:
        total += x
    assert abs(total - math.fsum(numbers)) <= rounding_of(len(numbers), sum(map(abs, numbers)))


@pytest.mark.parametrize("solver", [name for name in SOLVERS if name != "relaxed"])
def test_a_false_bound_of_any_solver_is_found_out(solver, monkeypatch):
    data = random_game(1 if solver == "closed_form" else 4, 3, seed=1)
    honest = game.upper_bounds
    monkeypatch.setattr(game, "upper_bounds", lambda *given: honest(*given) - 10.0)
    with pytest.raises(InternalError, match="bounds of game 0 contradict each other"):
        solve_game(*data, solver=solver, tol=1e-2)


def test_a_false_bound_of_the_relaxation_is_found_out(monkeypatch):
    kernel = relaxed.solve_relaxed

    def false(*arguments):
        kernel(*arguments)
        upper = arguments[-1]
        upper -= 10.0

    monkeypatch.setattr(relaxed, "solve_relaxed", false)
    edges = [(0, 1), (1, 2), (2, 0)]
    with pytest.raises(InternalError, match="bounds of relaxed game 0 contradict each other"):
        solve_game(np.zeros((3, 2)), edges, np.zeros((3, 2, 2)), 1 - np.eye(2), solver="relaxed")
