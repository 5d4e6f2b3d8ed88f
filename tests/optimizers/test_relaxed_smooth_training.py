"""Training with relaxed games that have an entropy, against enumeration and exact training."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from smooth_cases import smooth_optimum
from training_cases import CASES, Case, random_case

from robustruct import AGM, CRF, SSVM, Graph
from robustruct.datasets import make_grids
from robustruct.objectives.adversarial import Problem
from robustruct.objectives.relaxed import RelaxedLikelihood
from robustruct.optimizers.certificates import Progress
from robustruct.optimizers.lbfgs import fit_likelihood
from robustruct.optimizers.local_shards import LocalShards

GRIDS = make_grids(n_samples=8, shape=(3, 3), n_labels=2, noise=1.5, seed=1)
# Not those whose rules about pairs rule out labels: without inference over cliques nobody knows
# which, so there the predictor may play them.
NAMES = [
    "chains, asymmetric",
    "trees, asymmetric, weighted",
    "trees, forbidden, asymmetric",
    "cycles, asymmetric, weighted",
    "cycles, forbidden",
]
PLAYERS = [("nobody", 1.0), ("truth", 0.5), ("free", 1.0), ("free", 0.2)]


def relaxed_problem(case: Case, player: str, temperature: float) -> Problem:
    problem = case.problem(hinge=player == "truth")
    cost = np.zeros_like(problem.cost) if player == "nobody" else problem.cost
    return replace(problem, cost=cost, temperature=temperature, relaxed=True)


def fitted(problem: Problem, tol: float = 1e-4) -> Progress:
    progress = Progress(problem, tol)
    fit_likelihood(LocalShards.of(problem), progress, 1000)
    return progress


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("player", "temperature"), PLAYERS)
def test_optimum_is_exact_on_trees_and_bounds_others_from_above(
    name: str, player: str, temperature: float
) -> None:
    lower, upper, theta = smooth_optimum(name, player, temperature)
    tree = "cycles" not in name
    progress = fitted(relaxed_problem(CASES[name], player, temperature), 1e-6 if tree else 1e-4)
    assert progress.converged
    for record in progress.history:
        assert record.primal >= lower * (1 - 1e-9)
    if tree:
        assert progress.dual <= upper * (1 + 1e-9)
        assert progress.primal == pytest.approx(upper, rel=2e-6)
        # |θ - optimum|² <= 2 (primal - optimum) / alpha, by strong convexity
        slack = 2 * (progress.primal - lower) / CASES[name].alpha
        assert np.sum((progress.theta - theta) ** 2) <= slack + 1e-9


@pytest.mark.parametrize(("player", "temperature"), PLAYERS[:3])  # to 1e-9 in a few sweeps
def test_the_gradient_is_that_of_the_value(player: str, temperature: float) -> None:
    case = random_case(12, sizes=(4, 5, 4), n_labels=3, cycle=True, alpha=0.1)
    objective = RelaxedLikelihood(relaxed_problem(case, player, temperature))
    rng = np.random.default_rng(0)
    theta = rng.normal(size=objective.problem.n_weights)
    value, gradient, least = objective(theta, 1e-9)
    assert 0 <= value - least <= 2e-9
    along = rng.normal(size=len(theta))
    more, less = (objective(theta + step * along, 1e-9)[0] for step in (1e-3, -1e-3))
    assert (more - less) / 2e-3 == pytest.approx(gradient @ along, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(("player", "temperature"), PLAYERS)
def test_lower_bounds_are_below_the_objective_everywhere(player: str, temperature: float) -> None:
    case = random_case(3, sizes=(4, 5, 4), n_labels=2, cycle=True, alpha=0.1)
    problem = relaxed_problem(case, player, temperature)
    progress = fitted(problem, 1e-5)
    assert progress.converged
    objective, rng = RelaxedLikelihood(problem), np.random.default_rng(1)
    for size in (0.0, 1e-3, 0.1, 1.0):
        theta = progress.theta + size * rng.normal(size=problem.n_weights)
        value, _, _ = objective(theta, 1e-8)
        value += 0.5 * problem.alpha * float(theta @ theta)
        assert value >= max(record.dual for record in progress.history) - 1e-9


MEMBERS: dict[str, tuple[type, dict[str, Any]]] = {
    "crf": (CRF, {}),
    "softmax margin": (SSVM, {"temperature": 1.0}),
    "smooth agm": (AGM, {"temperature": 1.0}),
    "agm at infinity": (AGM, {"temperature": np.inf}),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_members_train_and_predict_on_wide_graphs(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Model, options = MEMBERS[name]
    exact = Model(alpha=0.1, tol=1e-4, inference="exact", **options).fit(GRIDS.X, GRIDS.y)
    model = Model(alpha=0.1, tol=1e-4, inference="relaxed", **options).fit(GRIDS.X, GRIDS.y)
    assert model.inference_ == "relaxed"
    assert model.duality_gap_ <= 1e-4
    least = exact.objective_ * (1 - exact.duality_gap_)
    assert all(record.primal >= least for record in model.history_)
    p = np.concatenate(model.predict_proba(GRIDS.X))
    q = np.concatenate(exact.predict_proba(GRIDS.X))
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert np.abs(p - q).mean() < 0.1
    same = np.concatenate(model.predict(GRIDS.X)) == np.concatenate(exact.predict(GRIDS.X))
    assert same.mean() > 0.9
    assert model.predict_risk(GRIDS.X).shape == (8, 2)
    if model.temperature_ < np.inf:
        assert all(game.relaxed for game in model.predict_games(GRIDS.X[:2], tol=1e-3))
    monkeypatch.setattr("robustruct.graphs.elimination.TABLE_LIMIT", 20)
    auto = Model(alpha=0.1, tol=1e-4, **options).fit(GRIDS.X, GRIDS.y)
    np.testing.assert_allclose(auto.coef_, model.coef_)


def test_rules_are_kept() -> None:
    squares = [Graph(x.node_features, [(0, 1), (0, 2), (3, 1), (3, 2)]) for x in GRIDS.X]
    rules = [(1, 0)]
    y = [np.full(9, s % 2) for s in range(len(squares))]
    for model in (CRF(constraints=rules), AGM(constraints=rules, temperature=1.0)):
        model.set_params(inference="relaxed", tol=1e-3, max_iter=200).fit(squares, y)
        for labels, graph in zip(model.predict(squares), squares, strict=True):
            assert all((labels[i], labels[j]) != (1, 0) for i, j in graph.edges)
        assert model.duality_gap_ <= 1e-3


def test_a_sparse_crf_may_be_relaxed() -> None:
    options: dict[str, Any] = {"alpha": 0.01, "l1": 0.3, "tol": 1e-3}
    model = CRF(inference="relaxed", **options).fit(GRIDS.X, GRIDS.y)
    assert model.duality_gap_ <= 1e-3
    assert 0 < np.count_nonzero(model.coef_) < len(model.coef_)


@pytest.mark.parametrize("Model", [AGM, SSVM])
def test_a_fit_without_entropy_that_misses_its_tolerance_names_a_temperature(Model: type) -> None:
    with pytest.warns(ConvergenceWarning, match="use temperature=1"):
        Model(inference="relaxed", max_iter=2, tol=1e-6).fit(GRIDS.X, GRIDS.y)
