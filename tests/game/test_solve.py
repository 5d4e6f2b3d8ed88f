"""The front door: what is refused, and in which words."""

from dataclasses import fields, is_dataclass

import numpy as np
import pytest

from robustruct import solve_game, solve_games
from robustruct.errors import IncompatibleError, InvalidInputError, RobustructError
from robustruct.game import DualDecomposition, GameSolver, Status
from robustruct.game.solvers import SOLVERS, solver_by_name

COST = 1 - np.eye(2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0, 0, 0]], [], [], COST), r"game 0: unary has shape \(1, 3\); expected \(n_nodes, 2\)"),
        (([0, 0], [], [], COST), r"game 0: unary has shape \(2,\)"),
        (([], [], [], COST), "game 0: unary has shape"),
        (([[0, 0]], [], [], [[0], [1]]), "cost has shape .* matrix of finite numbers"),
        (([[0, 0]], [], [], [[0, 1]]), r"expected \(n_nodes, 1\), as cost has 1 rows"),
        (([[0, 0]], [], [], 3.0), "cost has shape .* matrix"),
        (([[0, 0]], [], [], [[0, -np.inf], [1, 0]]), "matrix of finite numbers"),
        (([[0, 0]], [], [], [[0, np.nan], [1, 0]]), "cost holds NaN"),
        (([[0, np.nan]], [], [], COST), "game 0: unary holds NaN"),
        (([[0, np.inf]], [], [], COST), r"unary holds NaN or \+inf"),
        (([["a", "b"]], [], [], COST), "unary must hold numbers"),
        (([[0, 0], [0]], [], [], COST), "unary must hold numbers"),
        (([[0, 0], [0, 0]], [(0, 1)], [], COST), r"pairwise has shape .* expected \(1, 2, 2\)"),
        (([[0, 0], [0, 0]], [(0, 2)], [COST], COST), r"game 0: edge 0 is \(0, 2\)"),
        (([[0, 0], [0, 0]], [(1, 1)], [COST], COST), "joins node 1 to itself"),
        (([[0, 0], [0, 0]], [(0, 1), (1, 0)], [COST, COST], COST), "appears twice"),
        (([[0, 0]], [], [], COST, [1, 2]), "node_weight must hold 1 finite numbers"),
        (([[0, 0]], [], [], COST, [-1]), "node_weight must hold 1 finite numbers >= 0"),
        (([[-np.inf, -np.inf]], [], [], COST), "game 0: every labelling is forbidden"),
        (([[0, 0]], [], [], 1e300 * COST), r"cost holds numbers as large as 1e\+300, .* 1e\+100"),
        (([[0, 1e308]], [], [], COST), r"game 0: unary holds numbers as large as 1e\+308"),
        (([[0, 0]] * 2, [(0, 1)], [-1e200 * COST], COST), "game 0: pairwise holds numbers"),
        (([[0, 0]], [], [], 1e80 * COST, [1e30]), r"times cost holds numbers as large as 1e\+110"),
        (([[0, 0]], [], [], COST, None, "magic"), "solver='magic' is not known; use one of"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        solve_game(*arguments)


def test_a_forbidden_pair_can_forbid_everything():
    forbidden = np.full((1, 2, 2), -np.inf)
    with pytest.raises(InvalidInputError, match="game 1: every labelling"):
        solve_games([[[0, 0]], np.zeros((2, 2))], [[], [(0, 1)]], [[], forbidden], COST)


@pytest.mark.parametrize("solver", ["interior_point", "dual_decomposition"])
def test_solvers_for_trees_refuse_cycles(solver):
    edges = [(0, 1), (1, 2), (2, 0)]
    with pytest.raises(IncompatibleError, match="has cycles; use solver='auto'"):
        solve_game(np.zeros((3, 2)), edges, np.zeros((3, 2, 2)), COST, solver=solver)


def test_lists_of_games_must_match():
    with pytest.raises(InvalidInputError, match="edges has 1 items but unary has 2"):
        solve_games([[[0, 0]], [[0, 0]]], [[]], [[], []], COST)
    with pytest.raises(InvalidInputError, match="no game given"):
        solve_games([], [], [], COST)


def test_a_warm_start_must_have_the_same_shape():
    small = solve_game(np.zeros((1, 2)), [], [], COST, solver="linear_program")
    with pytest.raises(InvalidInputError, match="warm_start comes from a game of another shape"):
        solve_game(
            np.zeros((2, 2)),
            [(0, 1)],
            np.zeros((1, 2, 2)),
            COST,
            solver="linear_program",
            warm_start=small,
        )


def test_solvers_are_found_by_name_and_taken_as_objects():
    assert all(solver_by_name(name).name == name for name in SOLVERS)
    solution = solve_game([[0, 0]], [], [], COST, solver=DualDecomposition(max_iter=100))
    assert solution.solver == "dual_decomposition"
    assert solution.value == pytest.approx(0.5)


def test_a_solver_can_refuse_a_game():
    class Picky(GameSolver):
        name = "picky"

        def refusal(self, game):
            return "it has two labels"

        def play(self, game, tol, start=None, n_jobs=-1):
            raise AssertionError("never asked")

    with pytest.raises(IncompatibleError, match="'picky' cannot take this game: it has two labels"):
        solve_game([[0, 0]], [], [], COST, solver=Picky())


def test_a_useless_solver_is_certified_as_useless():
    class Garbage(GameSolver):
        name = "garbage"

        def play(self, game, tol, start=None, n_jobs=-1):
            play = solver_by_name("linear_program").play(game, tol)
            for array in (play.p, play.r, play.q):
                array[:] = np.nan
            return play

    rng = np.random.default_rng(0)
    edges = [(0, 1), (1, 2)]
    unary, pairwise = rng.normal(size=(3, 2)), rng.normal(size=(2, 2, 2))
    solution = solve_game(unary, edges, pairwise, COST, solver=Garbage())
    exact = solve_game(unary, edges, pairwise, COST, solver="linear_program")
    assert solution.status is Status.STALLED
    assert solution.lower <= exact.value <= solution.upper
    np.testing.assert_allclose(solution.adversary_edges.sum((1, 2)), 1)


def test_every_status_tells_what_to_do():
    assert all(len(status.value) > 20 and status.value.endswith(".") for status in Status)
    for status in Status:
        fine = status in (Status.CONVERGED, Status.LOCAL_OPTIMUM, Status.STOPPED_EARLY)
        assert bool(status.remedy) != fine
        assert status.value.endswith(status.remedy)


def test_errors_are_of_one_family():
    assert issubclass(InvalidInputError, RobustructError)
    assert issubclass(InvalidInputError, ValueError)


NONSENSE = ("x", None, -1, 0, float("nan"), [1], np.array([1, 2]), True)


@pytest.mark.parametrize("solver", SOLVERS)
def test_options_of_solvers_that_make_no_sense_are_refused(solver):
    """Kernels would divide by them, or go on for ever."""
    for field in fields(SOLVERS[solver]) if is_dataclass(SOLVERS[solver]) else ():
        assert getattr(SOLVERS[solver](), field.name) == field.default
        for value in (*NONSENSE, 1.5) if field.type == "int" else NONSENSE:
            with pytest.raises(InvalidInputError, match=f"^{field.name}="):
                SOLVERS[solver](**{field.name: value})


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("tol", ["x", None, -1e-3, np.nan, np.inf, [1], np.array([1, 2]), True])
def test_a_tolerance_is_a_number(tol, temperature):
    """With NaN, which nothing is ever within, a solver went on for minutes."""
    with pytest.raises(InvalidInputError, match=r"^tol=.* a finite number >= 0"):
        solve_game([[0, 0]], [], [], COST, tol=tol, temperature=temperature)


@pytest.mark.parametrize("solver", [None, 3, [1], np.array([1, 2]), DualDecomposition])
def test_a_solver_is_a_name_or_an_object(solver):
    with pytest.raises(InvalidInputError, match=r"^solver=.*; give a name, such as 'auto', or"):
        solve_game([[0, 0]], [], [], COST, solver=solver)


@pytest.mark.parametrize("start", [3, "x", [1], DualDecomposition()])
def test_a_warm_start_is_a_solution(start):
    with pytest.raises(InvalidInputError, match=r"^warm_start=.*; give a GameSolution"):
        solve_game([[0, 0]], [], [], COST, warm_start=start)
