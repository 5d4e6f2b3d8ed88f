"""On one node the AGM is the adversarial surrogate loss, which has a closed form."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from training_cases import Enumerated, random_case

from robustruct import AGM
from robustruct.game.game import Game
from robustruct.game.solve import solve_batch


def surrogate(scores, label):
    """Zero-one loss: max over label sets S of (Σ_S ψ_j + |S| − 1) / |S|, ψ_j = f_j − f_label."""
    margins = scores - scores[label]
    k = len(scores)
    return max(
        (margins[list(chosen)].sum() + size - 1) / size
        for size in range(1, k + 1)
        for chosen in combinations(range(k), size)
    )


def objective(case, theta):
    k = case.n_labels
    total = 0.5 * case.alpha * theta @ theta
    cut = (case.graphs[0].node_features.shape[1] + 1) * k  # what follows belongs to edges
    for share, graph, labels in zip(case.share, case.graphs, case.y, strict=True):
        row = np.append(graph.node_features[0], 1.0)
        total += share * surrogate(row @ theta[:cut].reshape(-1, k), labels[0])
    return total


@pytest.mark.parametrize("k", [2, 3, 5])
def test_the_primal_at_given_weights_is_the_surrogate(k):
    case = random_case(40 + k, sizes=(1,) * 12, n_labels=k, n_edge_features=0)
    problem = case.problem()
    rng = np.random.default_rng(k)
    for scale in (0.1, 1.0, 5.0):
        theta = scale * rng.normal(size=problem.n_weights)
        game = Game(problem.scores(theta), problem.cost, problem.node_weight)
        p = solve_batch(game, "interior_point", 1e-9).p
        assert problem.primal(theta, p) == pytest.approx(objective(case, theta), rel=1e-7)


@pytest.mark.parametrize("k", [2, 4])
def test_the_trained_objective_is_the_least_of_the_surrogate(k):
    case = random_case(50 + k, sizes=(1,) * 20, n_labels=k, n_edge_features=0, alpha=0.3)
    X = np.concatenate([graph.node_features for graph in case.graphs])
    y = np.concatenate(case.y)
    model = AGM(alpha=0.3, tol=1e-6, random_state=0, standardize=False).fit(X, y)
    found = objective(case, model.coef_)
    assert model.objective_ * (1 - 1e-6) - 1e-12 <= found <= model.objective_ * (1 + 1e-12)
    _, best, _ = Enumerated(case).optimum()
    assert found == pytest.approx(best, rel=2e-6)


def test_two_labels_make_a_hinge():
    assert surrogate(np.array([0.3, 0.0]), 0) == pytest.approx((1 - 0.3) / 2)
    assert surrogate(np.array([2.0, 0.0]), 0) == 0.0
    assert surrogate(np.array([0.0, 2.0]), 0) == 2.0
