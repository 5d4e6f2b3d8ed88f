"""Games without edges: exact by closed form, against the linear program."""

import numpy as np
import pytest

from robustruct import solve_game, solve_games
from robustruct.errors import IncompatibleError
from robustruct.losses import Absolute, Hamming, Squared


@pytest.mark.parametrize("loss", ["hamming", "absolute", "squared", "any"])
def test_nodes_that_stand_alone_are_solved_exactly(loss):
    rng = np.random.default_rng(0)
    k = 5
    cost = {
        "hamming": Hamming().matrix(range(k)),
        "absolute": Absolute().matrix(range(k)),
        "squared": Squared().matrix(range(k)),
        "any": rng.normal(size=(k, k)),
    }[loss]
    unary, weight = rng.normal(size=(7, k)), rng.random(7)
    unary[2, 3] = -np.inf
    exact = solve_game(unary, [], [], cost, weight, tol=1e-9)
    reference = solve_game(unary, [], [], cost, weight, solver="linear_program", tol=1e-9)
    assert exact.solver == "closed_form"
    assert exact.gap <= 1e-12 * (1 + abs(exact.value))
    assert exact.value == pytest.approx(reference.value, rel=1e-9)
    assert exact.adversary_nodes[2, 3] == 0


def test_auto_runs_closed_forms_only_where_no_game_has_an_edge():
    unary = np.zeros((2, 2))
    alone = solve_games([unary, unary], [[], []], [[], []], np.eye(2))
    joined = solve_games([unary, unary], [[], [(0, 1)]], [[], np.zeros((1, 2, 2))], np.eye(2))
    assert {solution.solver for solution in alone} == {"closed_form"}
    assert "closed_form" not in {solution.solver for solution in joined}


def test_edges_are_refused_with_a_way_out():
    with pytest.raises(IncompatibleError, match=r"has edges; use solver='auto'"):
        solve_game(np.zeros((2, 2)), [(0, 1)], np.zeros((1, 2, 2)), np.eye(2), solver="closed_form")
