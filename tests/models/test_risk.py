"""`predict_risk`: what all equilibria may cost, against linear programs over all labellings."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

from robustruct import AGM, CRF, Graph
from robustruct.testing.oracles import matrix_game

TOL = 5e-4  # of the range of the cost: what the tolerance of the solver may add to an interval


def equilibrium_costs(unary, edges, pairwise, cost, weight, scale=1.0):
    """(least, most) expected cost over all equilibria, from the definition.

    Variables: the mass of each labelling, v_i <= (r_i' cost)_a for all a. Of all that attain the
    value, those with the least and the most Σ w_i v_i.
    """
    n, k = unary.shape
    y = np.array(list(product(range(k), repeat=n)))
    score = unary[np.arange(n), y].sum(axis=1)
    for (i, j), table in zip(edges, pairwise, strict=True):
        score += table[y[:, i], y[:, j]]
    score -= score.max()
    m = len(y)
    below = np.zeros((n * k, m + n))
    for i in range(n):
        for a in range(k):
            below[i * k + a, :m] = -cost[y[:, i], a]
            below[i * k + a, m + i] = 1.0
    gain = np.concatenate([score, scale * weight])
    total = np.concatenate([np.ones(m), np.zeros(n)])[None]
    bounds = [(0, None)] * m + [(None, None)] * n

    def solve(goal, rows, limits):
        found = linprog(goal, rows, limits, total, [1.0], bounds, method="highs")
        assert found.status == 0
        return found.fun

    value = -solve(-gain, below, np.zeros(n * k))
    rows = np.vstack([below, -gain])
    limits = np.append(np.zeros(n * k), -value + 1e-9 * (1 + abs(value)))
    paid = np.concatenate([np.zeros(m), weight])
    return solve(paid, rows, limits), -solve(-paid, rows, limits)


@pytest.fixture(scope="module")
def trained():
    """A model of chains whose games have ties, and its samples."""
    rng = np.random.default_rng(0)
    X = [rng.integers(3, size=(3, 1)) == np.arange(3) for _ in range(60)]
    X = [x.astype(float) for x in X]
    y = [np.where(rng.random(3) < 0.25, rng.integers(3, size=3), x.argmax(axis=1)) for x in X]
    model = AGM("absolute", alpha=1e-3, tol=1e-3, standardize=False, random_state=0)
    model.fit(X, y)
    return model, X, y


@pytest.mark.parametrize("weight", [np.ones(3), np.array([0.5, 2.0, 1.0])])
def test_the_interval_is_that_of_a_linear_program_over_equilibria(trained, weight):
    model, X, _ = trained
    X = [*X[:3], Graph(X[4], [(2, 0), (1, 2)])]
    unaries = model.decision_function(X)
    risks = model.predict_risk(X, [weight] * len(X))
    slack = TOL * np.ptp(model.cost_) * weight.sum()
    for x, unary, (least, most) in zip(X, unaries, risks, strict=True):
        edges = x.edges if isinstance(x, Graph) else [(0, 1), (1, 2)]
        game = unary, edges, [model.transitions_] * len(edges), model.cost_, weight
        low, high = equilibrium_costs(*game)
        # It holds what every equilibrium costs ...
        assert least <= low + 1e-6
        assert high - 1e-6 <= most
        # ... and is no wider than what 1 % on the cost does.
        assert least >= equilibrium_costs(*game, scale=0.99)[0] - slack
        assert most <= equilibrium_costs(*game, scale=1.01)[1] + slack


def cells(n_samples):
    """Five cells, told apart by the features, that differ in how likely the second label is."""
    rng = np.random.default_rng(0)
    cell = rng.integers(5, size=n_samples)
    y = (rng.random(n_samples) < np.array([0.05, 0.2, 0.35, 0.7, 0.9])[cell]).astype(int)
    return np.eye(5)[cell], y, cell


def test_a_tie_leaves_an_interval_that_holds_the_truth():
    """Training makes ties: of one equilibrium in each cell, predict_risk once said 0 to all."""
    X, y, cell = cells(2000)
    model = AGM(alpha=1e-5, tol=1e-4, random_state=0).fit(X, y)
    p = model.predict_proba(np.eye(5))
    risks = model.predict_risk(np.eye(5))
    costs = np.array([p[c] @ (1 - np.eye(2)) @ np.bincount(y[cell == c]) for c in range(5)])
    costs /= np.bincount(cell)
    assert 0.04 < costs.min() < 0.1 < 0.3 < costs.max()
    assert (risks[:, 0] <= costs).all()
    assert (costs <= risks[:, 1]).all()
    assert (risks >= 0).all()
    assert (risks <= 0.5 + TOL).all()
    # Scores that are exactly at the tie, and far from it on either side.
    for margin, expected in ((1.0, [0, 0.5]), (1.1, [0, 0]), (0.9, [0.5, 0.5]), (0, [0.5, 0.5])):
        model.coef_[:] = 0
        model.node_weights_[:5] = margin * np.array([0.5, -0.5])
        np.testing.assert_allclose(model.predict_risk(np.eye(5)), [expected] * 5, atol=TOL)


def test_mean_on_training_data_encloses_the_objective(trained):
    """(1/N) Σ B(q_s) = objective + alpha/2 |θ|² at the optimum; docs/theory.md has the slack."""
    model, X, y = trained
    record = model.history_[-1]
    # The objective by its definition: values of games over all labellings.
    objective = 0.5 * model.alpha_ * model.coef_ @ model.coef_
    for unary, labels in zip(model.decision_function(X), y, strict=True):
        codes = np.array(list(product(range(3), repeat=3)))
        score = unary[np.arange(3), codes].sum(axis=1)
        score += model.transitions_[codes[:, :-1], codes[:, 1:]].sum(axis=1)
        truth = (codes == labels).all(axis=1)
        objective += (game_value(score, codes, model.cost_) - score[truth][0]) / len(X)
    assert record.dual <= objective + 1e-9
    assert objective <= record.primal + 1e-9
    target = objective + 0.5 * model.alpha_ * model.coef_ @ model.coef_
    least, most = model.predict_risk(X).mean(axis=0)
    slack = (record.primal - record.dual) / 0.01
    assert slack < 0.3 * target
    assert least - slack <= target <= most + slack
    assert most - least > 0.1  # there are ties: one equilibrium would have said anything between


def game_value(score, codes, cost):
    """Value of the game over all labellings."""
    losses = sum(cost[codes[:, i], codes[:, i, None]] for i in range(codes.shape[1]))
    return matrix_game(losses + score)[0]


def test_a_crf_expects_what_its_answer_costs_under_its_marginals(trained):
    _, X, y = trained
    for decision in ("bayes", "map"):
        crf = CRF("absolute", alpha=0.1, decision=decision, constraints=[(0, 2)])
        y_kept = [np.where(labels == 2, 1, labels) for labels in y]
        y_kept[0] = np.array([2, 2, 1])
        crf.fit(X, y_kept)
        risks = crf.predict_risk(X)
        for risk, p, labels in zip(risks, crf.predict_proba(X), crf.predict(X), strict=True):
            expected = sum(p[i] @ np.abs(np.arange(3) - label) for i, label in enumerate(labels))
            np.testing.assert_allclose(risk, expected)
