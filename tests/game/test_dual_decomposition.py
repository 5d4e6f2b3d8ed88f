"""The paper's algorithm: Theorem 2, its options, and the pieces it is made of."""

import numpy as np
import pytest
from game_cases import assert_honest, cost_range, masked_dot, random_game, solved
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from robustruct import solve_game
from robustruct.core.decomposition import recover_edges
from robustruct.core.structs import ScoreArrays, Structure
from robustruct.errors import InvalidInputError
from robustruct.game import DualDecomposition, Status
from robustruct.testing.oracles import matrix_game
from robustruct.testing.strategies import GameData, games


def rooted(game):
    """(parent, table [child, parent]) of each node, by plain recursion from node 0 of each tree."""
    n, k = game.unary.shape
    parent, table = np.full(n, -1), np.zeros((n, k, k))
    seen, stack, order = set(), [], []
    for root in range(n):
        if root in seen:
            continue
        seen.add(root)
        stack.append(root)
        while stack:
            i = stack.pop()
            order.append(i)
            for e, (a, b) in enumerate(game.edges):
                for child, above, scores in (
                    (a, b, game.pairwise[e]),
                    (b, a, game.pairwise[e].T),
                ):
                    if above == i and child not in seen:
                        seen.add(child)
                        parent[child], table[child] = i, scores
                        stack.append(child)
    return parent, table, order


def dual_value(game, parent, table, u):
    """g(u) of Theorem 2, from its definition, with every node game solved as a linear program."""
    total = game.unary.copy()
    for i, above in enumerate(parent):
        if above >= 0:
            total[above] += u[i]
    value = 0.0
    for i, above in enumerate(parent):
        a = total[i] + ((table[i] - u[i]).max(axis=1) if above >= 0 else 0.0)
        value += matrix_game(game.node_weight[i] * game.cost.T + a)[0]
    return value


def best_messages(game, parent, table, order, p):
    """Max-product messages of the scores that the adversary sees against p."""
    best = game.unary + game.node_weight[:, None] * (p @ game.cost.T)
    u = np.zeros_like(best)
    for i in reversed(order):
        if parent[i] >= 0:
            u[i] = (best[i][:, None] + table[i]).max(axis=0)
            best[parent[i]] += u[i]
    return u


@settings(max_examples=25)
@given(
    game=games(
        max_nodes=5,
        max_labels=3,
        min_exponent=-2,
        max_exponent=1,
        max_weight_exponent=1,
        forbid=False,
    ),
    seed=st.integers(0, 1000),
)
def test_theorem_2(game, seed):
    """g(u) is never below the value of the game, and attains it."""
    parent, table, order = rooted(game)
    exact = solved(game, "linear_program")
    slack = 1e-8 * (1 + abs(exact.value) + cost_range(game))
    rng = np.random.default_rng(seed)
    for scale in (0.0, 1.0, 10.0):
        u = scale * rng.normal(size=game.unary.shape)
        assert dual_value(game, parent, table, u) >= exact.value - slack
    u = best_messages(game, parent, table, order, exact.predictor)
    assert dual_value(game, parent, table, u) == pytest.approx(exact.value, abs=slack)


@pytest.mark.parametrize("step", ["polyak", "diminishing"])
@pytest.mark.parametrize("loss", ["hamming", "absolute", "squared", "any"])
def test_every_option_converges(step, loss):
    place = np.arange(4.0)
    cost = {
        "hamming": 1 - np.eye(4),
        "absolute": np.abs(place[:, None] - place),
        "squared": (place[:, None] - place) ** 2,
        "any": None,
    }[loss]
    game = random_game(15, 4, seed=3, cost=cost)
    solver = DualDecomposition(step=step)
    solution = solve_game(*game, solver=solver, tol=1e-2)
    assert solution.status is Status.CONVERGED
    assert_honest(solution, game, 1e-2)
    exact = solved(game, "linear_program")
    assert solution.lower - 1e-9 <= exact.value <= solution.upper + 1e-9


def test_more_steps_close_the_gap():
    game = random_game(12, 4, seed=9)
    gaps = [
        solve_game(*game, solver=DualDecomposition(max_iter=n), tol=0.0).gap
        for n in (50, 400, 6400)
    ]
    assert gaps[2] < gaps[1] < gaps[0]
    assert gaps[2] < 2e-3 * cost_range(game)


def test_nodes_that_agree_up_to_rounding_do_not_throw_the_messages_away():
    """A slope of 1e-17 once gave a step of 1e30."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        weight = rng.integers(0, 2, 24).astype(float)
        game = random_game(24, 7, seed, scale=10 ** rng.uniform(-1, 1), weight=weight)
        solution = solve_game(*game, solver="dual_decomposition", tol=1e-2)
        assert solution.status is Status.CONVERGED


def test_heavy_nodes_do_not_freeze_the_messages_of_light_ones():
    game = GameData(
        np.array(
            [[0.0, 96239.0], [34165.0, 45455.0], [85508.0, 5200.0], [0.0, -1e5], [-27983.0, 1184.0]]
        ),
        np.array([[0, 4], [2, 0], [3, 1]]),
        np.array(
            [
                [[0.0, 96239.0], [40361.0, 33333.0]],
                [[34165.0, 45455.0], [85508.0, 5200.0]],
                [[0.0, -1e5], [-27983.0, 1184.0]],
            ]
        ),
        1 - np.eye(2),
        np.array([100.0, 1.0, 1.0, 1.0, 1e6]),
    )
    solution = solve_game(*game, solver="dual_decomposition", tol=1e-4)
    assert solution.status is Status.CONVERGED


def test_running_out_of_steps_is_said():
    game = random_game(12, 4, seed=9)
    solution = solve_game(*game, solver=DualDecomposition(max_iter=10), tol=1e-9)
    assert solution.status is Status.MAX_ITER
    assert solution.n_iter == 10
    assert_honest(solution, game, 1e-9)


def test_a_warm_start_saves_steps():
    game = random_game(40, 4, seed=1)
    first = solve_game(*game, solver="dual_decomposition", tol=5e-3)
    moved = game._replace(unary=game.unary + 1e-4)
    cold = solve_game(*moved, solver="dual_decomposition", tol=1e-2)
    warm = solve_game(*moved, solver="dual_decomposition", tol=1e-2, warm_start=first)
    assert warm.status is Status.CONVERGED
    assert warm.n_iter == 0 < cold.n_iter


@pytest.mark.parametrize(
    "options",
    [
        {"step": "long"},
        {"max_iter": 0},
        {"check_every": 0},
    ],
)
def test_options_are_checked(options):
    with pytest.raises(InvalidInputError, match=next(iter(options))):
        DualDecomposition(**options)


# ---- transport, as it is run on the edge of two nodes


def joint(gain, supply, demand):
    """The plan with the given margins."""
    k = len(gain)
    offsets, chords = np.array([0, 2], np.intp), np.zeros(2, np.intp)
    structure = Structure(offsets, chords, np.arange(2), np.array([1, -1], np.intp))
    scores = ScoreArrays(np.zeros((2, k)), gain[None].copy(), np.zeros(2, np.intp))
    r, q = np.stack([supply, demand]), np.zeros((2, k, k))
    recover_edges(0, 1, structure, scores, np.ones(1, bool), r, q)
    return q[0]


def transport_by_lp(gain, supply, demand):
    k, n = gain.shape
    rows, columns = np.kron(np.eye(k), np.ones(n)), np.kron(np.ones(k), np.eye(n))
    allowed = np.isfinite(gain).ravel()
    result = linprog(
        -np.where(allowed, gain.ravel(), 0.0),
        A_eq=np.vstack([rows, columns]),
        b_eq=np.concatenate([supply, demand]),
        bounds=[(0, None if ok else 0) for ok in allowed],
        method="highs",
    )
    return -result.fun if result.status == 0 else None


def margins(rng, k, sparse):
    mass = rng.dirichlet(np.ones(k))
    if sparse:
        mass *= rng.random(k) < 0.5
        mass[rng.integers(k)] += 0.5
    return mass / mass.sum()


@pytest.mark.parametrize("k", [1, 2, 3, 7, 25, 60])
@pytest.mark.parametrize("sparse", [False, True])
def test_transport_is_optimal(k, sparse):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        gain = 10.0 ** rng.integers(-3, 4) * rng.normal(size=(k, k))
        if seed % 2:
            gain = np.round(gain, 1)
        supply, demand = margins(rng, k, sparse), margins(rng, k, sparse)
        plan = joint(gain, supply, demand)
        np.testing.assert_allclose(plan.sum(1), supply, atol=1e-13)
        np.testing.assert_allclose(plan.sum(0), demand, atol=1e-13)
        assert (plan >= 0).all()
        assert (plan > 0).sum() <= 2 * k - 1 + 2
        best = transport_by_lp(gain, supply, demand)
        assert (plan * gain).sum() == pytest.approx(best, abs=1e-9 * (1 + np.abs(gain).max()))


def test_transport_avoids_forbidden_pairs():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        k = int(rng.integers(2, 8))
        gain = rng.normal(size=(k, k))
        gain[rng.random((k, k)) < 0.4] = -np.inf
        supply, demand = margins(rng, k, True), margins(rng, k, True)
        plan = joint(gain, supply, demand)
        assert (plan[gain == -np.inf] == 0).all()
        assert (plan >= 0).all()
        assert (plan.sum(1) <= supply + 1e-13).all()
        assert (plan.sum(0) <= demand + 1e-13).all()
        best = transport_by_lp(gain, supply, demand)
        assert (best is None) == (plan.sum() < 1 - 1e-9)
        if best is not None:
            assert masked_dot(plan, gain) == pytest.approx(best, abs=1e-9)
