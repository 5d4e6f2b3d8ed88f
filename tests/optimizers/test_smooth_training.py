"""Dual ascent in natural parameters against enumeration, and against the ends of the family."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from smooth_cases import smooth_optimum
from training_cases import CASES, Case, enumerated, optimum, random_case

from corpora import load_wnut17, name_attributes
from robustruct import AGM, SSVM
from robustruct.losses import CostMatrix
from robustruct.objectives.adversarial import Problem
from robustruct.optimizers import natural_variables
from robustruct.optimizers.certificates import Progress
from robustruct.optimizers.dual_ascent import fit_ascent
from robustruct.optimizers.local_shards import LocalShards
from robustruct.optimizers.natural_ascent import smooth_ascent


def smooth_problem(case: Case, player: str, temperature: float, **options: Any) -> Problem:
    problem = case.problem(hinge=player == "truth", **options)
    cost = np.zeros_like(problem.cost) if player == "nobody" else problem.cost
    return replace(problem, cost=cost, temperature=temperature)


def fitted(
    problem: Problem, *, tol: float = 1e-5, max_iter: int = 300, check_every: int | None = None
) -> Progress:
    progress = Progress(problem, tol, check_every=check_every)
    fit_ascent(smooth_ascent(LocalShards.of(problem)), progress, max_iter, 0)
    return progress


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    ("player", "temperature"), [("nobody", 1.0), ("truth", 0.5), ("free", 1.0), ("free", 0.2)]
)
def test_optimum(name: str, player: str, temperature: float) -> None:
    lower, upper, theta = smooth_optimum(name, player, temperature)
    tol = 1e-4 if player == "free" else 1e-5  # what float32 can tell
    progress = fitted(smooth_problem(CASES[name], player, temperature), tol=tol)
    assert progress.converged
    assert progress.dual <= upper * (1 + 1e-9)
    assert progress.primal >= lower * (1 - 1e-9)
    assert progress.primal <= upper * (1 + tol)
    # |θ - optimum|² <= 2 (primal - optimum) / alpha, by strong convexity
    slack = 2 * (progress.primal - lower) / CASES[name].alpha
    assert np.sum((progress.theta - theta) ** 2) <= slack + 1e-9


@pytest.mark.parametrize("name", ["trees, asymmetric, weighted", "cycles"])
def test_every_certificate_brackets_the_optimum(name: str) -> None:
    lower, upper, _ = smooth_optimum(name, "free", 0.2)
    progress = fitted(smooth_problem(CASES[name], "free", 0.2), check_every=1, max_iter=20)
    for record in progress.history:
        assert record.dual <= upper * (1 + 1e-9)
        assert record.primal >= lower * (1 - 1e-9)
    assert len(progress.history) > 5


@pytest.mark.parametrize("name", ["chains", "trees", "cycles, asymmetric, weighted"])
@pytest.mark.parametrize("hinge", [False, True])
@pytest.mark.parametrize("T", [0.03, 1e-6])
def test_small_temperatures_come_close_to_the_hinge_and_the_game(
    name: str, hinge: bool, T: float
) -> None:
    lower, upper, _ = optimum(name, hinge)
    progress = fitted(smooth_problem(CASES[name], "truth" if hinge else "free", T), tol=1e-2)
    most = max(len(y) for y in enumerated(name).labellings)
    # V <= V_T <= V + T log(number of labellings)
    assert progress.dual <= upper + T * np.log(most) + 1e-9
    assert progress.primal >= lower - 1e-9
    assert progress.converged


def test_large_temperatures_come_close_to_the_crf() -> None:
    case, T = CASES["chains, asymmetric"], 1e4
    progress = fitted(smooth_problem(case.with_alpha(case.alpha / T), "free", T))
    _, theta = enumerated("chains, asymmetric").likelihood_optimum()
    # With θ / T in the place of θ, the objective over T is that of a CRF with penalty alpha T.
    assert np.allclose(progress.theta / T, theta, atol=2e-2 * np.abs(theta).max())


def test_a_constant_in_the_cost_moves_no_weight() -> None:
    case = CASES["chains, asymmetric"]
    plain = fitted(smooth_problem(case, "free", 0.5), tol=1e-4)
    moved = fitted(smooth_problem(replace(case, cost=case.cost + 5.0), "free", 0.5), tol=1e-5)
    assert np.allclose(plain.theta, moved.theta, atol=3e-2)


def many(seed: int = 0, **options: Any) -> Case:
    rng = np.random.default_rng(seed)
    return random_case(seed, sizes=tuple(rng.integers(1, 7, size=400).tolist()), **options)


@pytest.mark.parametrize("options", [{}, {"tree": True, "cost": [[0, 1, 1], [3, 0, 1], [1, 2, 0]]}])
def test_threads_change_nothing(options: dict[str, Any]) -> None:
    case = many(alpha=0.01, **options)
    one, two = (
        fitted(smooth_problem(case, "free", 0.5, n_jobs=jobs), max_iter=4) for jobs in (1, 3)
    )
    assert np.array_equal(one.theta, two.theta)
    assert one.primal == pytest.approx(two.primal, rel=1e-12)


def test_long_samples_need_no_gram_matrices() -> None:
    """Above 64 nodes a sample's rows are not multiplied: the optimum must be the same."""
    case = random_case(3, sizes=(90, 5, 80, 3), n_edge_features=0, alpha=0.1)
    with_features = fitted(smooth_problem(case, "free", 0.5), tol=1e-4)
    assert with_features.converged
    small = natural_variables.SMALL
    try:
        natural_variables.SMALL = 1000
        with_grams = fitted(smooth_problem(case, "free", 0.5), tol=1e-4)
    finally:
        natural_variables.SMALL = small
    assert with_features.primal == pytest.approx(with_grams.primal, rel=1e-4)


@pytest.mark.parametrize("temperature", [1e-6, 1.0])
@pytest.mark.parametrize("player", ["truth", "free"])
def test_nothing_overflows(temperature: float, player: str) -> None:
    case = CASES["trees, asymmetric, weighted"]
    graphs = [type(g)(1e3 * g.node_features, g.edges, 1e3 * g.edge_features) for g in case.graphs]
    case = replace(case, graphs=graphs, alpha=1e-6)
    with np.errstate(all="raise", under="ignore"):
        progress = fitted(smooth_problem(case, player, temperature), max_iter=30, check_every=5)
    for record in progress.history:
        assert np.isfinite([record.primal, record.dual]).all()
        assert record.dual <= record.primal
    assert np.isfinite(progress.theta).all()


def steering(ascent: Any) -> np.ndarray:
    return np.append(ascent.shards.state()["0.at_once"], ascent.mu)


@pytest.mark.parametrize(
    ("case", "steered"),
    [(CASES["trees, asymmetric, weighted"], False), (many(alpha=1e-5), True)],
    ids=["few", "many"],
)
def test_state_goes_on_where_it_was(case: Case, steered: bool) -> None:
    problem = smooth_problem(case, "free", 0.5)
    whole, parts = (Progress(problem, 1e-12, check_every=1) for _ in range(2))
    ascent = smooth_ascent(LocalShards.of(problem))
    started = steering(ascent)
    fit_ascent(ascent, whole, 12, 0)
    first = smooth_ascent(LocalShards.of(problem))
    fit_ascent(first, parts, 5, 0)
    assert (steering(first) != started).any() == steered
    state = {name: np.array(value) for name, value in first.state().items()}
    second = smooth_ascent(LocalShards.of(problem))
    second.restore(state)
    fit_ascent(second, parts, 12, 0)
    assert np.array_equal(whole.history[-1].primal, parts.history[-1].primal)
    assert np.array_equal(steering(ascent), steering(second))


@pytest.mark.data
@pytest.mark.parametrize("missed", [5.0, 20.0])
@pytest.mark.parametrize(("kind", "temperature"), [(SSVM, 1.0), (SSVM, 0.3), (AGM, 1.0)])
def test_weak_penalties_and_dear_mistakes_converge(
    missed: float, kind: type[AGM | SSVM], temperature: float, data_home: str
) -> None:
    """With eight samples at once the softmax margin stayed at gaps of 0.4 to 1."""
    names = load_wnut17("train", data_home=data_home).subset(slice(1000))
    labels = np.unique(np.concatenate(names.y))
    cost = 1 - np.eye(len(labels))
    cost[:, labels == "O"] *= missed
    model = kind(
        CostMatrix(cost, labels), alpha=4e-4, temperature=temperature, max_iter=40, random_state=0
    )
    model.fit([name_attributes(words) for words in names.X], list(names.y))
    assert model.duality_gap_ <= model.tol
