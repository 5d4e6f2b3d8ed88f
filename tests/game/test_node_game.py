"""Single nodes: closed forms and simplex against the linear program of the matrix game."""

import numpy as np
import pytest
from game_cases import node_game
from hypothesis import given, settings
from hypothesis import strategies as st

from robustruct.core.node_games import ABSOLUTE, ANY, SQUARED, ZERO_ONE
from robustruct.game.node_games import cost_form
from robustruct.testing.oracles import matrix_game
from robustruct.testing.strategies import cost_matrices


def cost_of(kind, k, rng):
    even, places = np.arange(float(k)), np.sort(rng.normal(size=k))
    return {
        "zero-one": 1 - np.eye(k),
        "absolute": np.abs(even[:, None] - even),
        "absolute, uneven": np.abs(places[:, None] - places),
        "absolute, unsorted": np.abs(np.subtract.outer(*[rng.permutation(places)] * 2)),
        "squared": (even[:, None] - even) ** 2,
        "squared, uneven": (places[:, None] - places) ** 2,
        "squared, repeated": (even[:, None] // 2 - even // 2) ** 2,
        "asymmetric": np.where(even[:, None] < even, 3.0, 1.0) * (1 - np.eye(k)),
        "random": rng.random((k, k)),
        "negative": rng.normal(size=(k, k)) - 2,
        "whole numbers": rng.integers(0, 3, (k, k)).astype(float),
        "reward": -np.eye(k),
        "punishment": np.eye(k),
        "zero": np.zeros((k, k)),
    }[kind]


KINDS = [
    "zero-one",
    "absolute",
    "absolute, uneven",
    "absolute, unsorted",
    "squared",
    "squared, uneven",
    "squared, repeated",
    "asymmetric",
    "random",
    "negative",
    "whole numbers",
    "reward",
    "punishment",
    "zero",
]


def assert_equilibrium(scores, cost, weight=1.0, check_value=True):
    """p and r prove each other optimal; the value is also that of the linear program."""
    game = node_game(scores, cost, weight)
    allowed = np.isfinite(scores)
    payoff = weight * np.asarray(cost).T[np.ix_(allowed, allowed)] + scores[allowed]
    slack = 1e-13 * (np.abs(payoff).max() + weight * np.abs(cost).max())
    for strategy in (game.predictor, game.adversary):
        assert (strategy >= 0).all()
        assert strategy.sum() == pytest.approx(1, abs=1e-12)
    assert (game.adversary[~allowed] == 0).all()
    assert (game.predictor[~allowed] == 0).all()
    assert (game.predictor[allowed] @ payoff).max() <= game.value + slack
    assert (payoff @ game.adversary[allowed]).min() >= game.value - slack
    if check_value:
        value = matrix_game(payoff)[0]
        assert game.value == pytest.approx(value, abs=1e-8 * max(np.ptp(payoff), 1e-300) + slack)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 2, 3, 5, 13, 60])
def test_agrees_with_the_linear_program(kind, k):
    rng = np.random.default_rng(k)
    for scale in (0.0, 1e-6, 0.3, 3.0, 1e6):
        scores = scale * rng.normal(size=k)
        assert_equilibrium(scores, cost_of(kind, k, rng), weight=rng.choice([1e-3, 1.0, 50.0]))


@pytest.mark.parametrize("kind", KINDS)
def test_ties_and_forbidden_labels(kind):
    for seed in range(40):
        rng = np.random.default_rng(seed)
        k = int(rng.integers(2, 9))
        scores = rng.integers(-2, 3, k) / 2
        scores[rng.random(k) < 0.3] = -np.inf
        scores[rng.integers(k)] = 0.5
        assert_equilibrium(scores, cost_of(kind, k, rng), check_value=seed < 10)


@settings(max_examples=100)
@given(data=st.data(), k=st.integers(1, 6))
def test_any_scores_and_costs(data, k):
    cost = data.draw(cost_matrices(k))
    scores = data.draw(st.lists(st.floats(-1e3, 1e3), min_size=k, max_size=k))
    weight = data.draw(st.sampled_from([1e-6, 0.5, 1.0, 1e6]))
    assert_equilibrium(np.array(scores), cost, weight)


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        ("zero-one", ZERO_ONE),
        ("absolute", ABSOLUTE),
        ("absolute, uneven", ABSOLUTE),
        ("absolute, unsorted", ABSOLUTE),
        ("squared", SQUARED),
        ("squared, uneven", SQUARED),
        ("squared, repeated", SQUARED),
        ("asymmetric", ANY),
        ("random", ANY),
        ("reward", ZERO_ONE),
        ("punishment", ANY),
        ("zero", ZERO_ONE),
    ],
)
def test_the_form_of_a_cost_is_recognised(kind, form):
    rng = np.random.default_rng(0)
    cost = cost_of(kind, 6, rng)
    for factor in (1e-5, 1.0, 1e4):
        assert cost_form(factor * cost).kind == form
        if form != ANY:
            # A constant per column only moves the scores.
            assert cost_form(factor * (cost + rng.normal(size=6))).kind == form
    if form != ANY and kind != "zero":
        broken = cost.copy()
        broken[2, 4] += 1e-6
        assert cost_form(broken).kind == ANY


def test_without_weight_the_best_score_is_played():
    game = node_game([1.0, 4.0, 2.0], 1 - np.eye(3), weight=0)
    assert game.value == 4
    assert game.adversary.tolist() == [0, 1, 0]
