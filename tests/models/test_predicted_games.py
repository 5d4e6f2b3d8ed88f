"""``predict_games``: the games behind predictions, in the user's order."""

import numpy as np
import pytest

from robustruct import AGM, Graph, solve_game


@pytest.fixture(scope="module")
def model() -> AGM:
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(4, 3)) for _ in range(15)]
    y = [np.digitize(x[:, 0] + 0.5 * rng.normal(size=4), [-0.5, 0.5]) for x in X]
    return AGM("absolute", alpha=0.05, random_state=0).fit(X, y)


# A tree whose nodes the batch has to put in another order.
TREE = Graph(np.random.default_rng(1).normal(size=(4, 3)), [(2, 0), (3, 2), (2, 1)])


@pytest.mark.parametrize("x", [TREE, TREE.node_features], ids=["tree", "chain"])
@pytest.mark.parametrize("weight", [None, np.array([0.5, 2.0, 1.0, 3.0])])
def test_games_are_those_of_the_scores(model: AGM, x: object, weight: np.ndarray | None) -> None:
    weights = None if weight is None else [weight]
    (found,) = model.predict_games([x], weights, solver="pairwise", tol=1e-3)
    edges = x.edges if isinstance(x, Graph) else [(0, 1), (1, 2), (2, 3)]
    (unary,) = model.decision_function([x])
    pairwise = np.repeat(model.transitions_[None], len(edges), axis=0)
    exact = solve_game(unary, edges, pairwise, model.cost_, weight, solver="linear_program")
    assert found.lower - 1e-7 <= exact.value <= found.upper + 1e-7
    scale = np.ptp(model.cost_) * (4 if weight is None else weight.sum())
    assert found.gap <= 1e-3 * scale + 1e-9
    # Against the adversary found, the predictor found does as well as any.
    factor = np.ones(4) if weight is None else weight
    answers = found.adversary_nodes @ model.cost_.T
    regret = (found.predictor * answers).sum(axis=1) - answers.min(axis=1)
    assert factor @ regret <= found.gap + 1e-9


def test_the_predictor_is_what_predict_proba_says(model: AGM) -> None:
    (game,), (p,) = model.predict_games([TREE]), model.predict_proba([TREE])
    np.testing.assert_allclose(game.predictor, p, atol=1e-9)
