"""What docs/theory.md says about decisions at the optimal scores, on one node."""

import numpy as np
import pytest
from game_cases import node_game
from scipy.optimize import linprog

TIED = np.array([[0.0, 1, 1], [0, 0, 1], [1, 1, 0]]), np.array([0.4, 0.5, 0.1])


def least_risk(cost, truth):
    """min over scores of V(scores) - scores·truth, by a linear program over (scores, p, V)."""
    k = len(truth)
    found = linprog(
        np.concatenate([-truth, np.zeros(k), [1.0]]),
        A_ub=np.hstack([np.eye(k), cost, -np.ones((k, 1))]),
        b_ub=np.zeros(k),
        A_eq=np.concatenate([np.zeros(k), np.ones(k), [0.0]])[None],
        b_eq=[1.0],
        bounds=[(-100, 100)] * k + [(0, None)] * k + [(None, None)],
    )
    return found.fun


def random_cost(seed):
    """Costs without a diagonal of zeros, and a distribution in which every label occurs."""
    rng = np.random.default_rng(seed)
    return rng.random((4, 4)), rng.dirichlet(np.ones(4))


@pytest.mark.parametrize(
    ("cost", "truth"), [TIED, *map(random_cost, range(20))], ids=["tied", *map(str, range(20))]
)
def test_the_predictor_plays_labels_of_least_cost_whatever_scores_are_best(cost, truth):
    risks = truth @ cost
    best = int(risks.argmin())
    scores = -cost[:, best]
    game = node_game(scores, cost)
    assert game.value - scores @ truth == pytest.approx(risks[best], abs=1e-12)
    assert least_risk(cost, truth) == pytest.approx(risks[best], abs=1e-8)  # no scores do better
    assert game.predictor[best] == pytest.approx(1.0)


def test_where_being_wrong_costs_nothing_scores_are_tied():
    cost, truth = TIED
    scores = -cost[:, (truth @ cost).argmin()]
    assert scores[0] == scores[1] == scores.max()
    assert (truth @ cost).tolist() == pytest.approx([0.1, 0.5, 0.9])
