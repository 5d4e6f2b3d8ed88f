"""What any weights, predictors and Gibbs distributions prove, number by number by enumeration."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp
from smooth_cases import PLAYERS, SmoothEnumerated
from training_cases import CASES, Case, enumerated, random_case

from robustruct.core.structs import FORBIDDEN, GibbsAdversary
from robustruct.features import split_weights
from robustruct.objectives.adversarial import Problem
from robustruct.objectives.likelihood import Likelihood
from robustruct.objectives.smooth import SmoothObjective, padded

T = 0.7

# Rows of weights longer than a register, and not a multiple of it.
TEN = random_case(
    21, sizes=(2, 3, 1), n_labels=10, cost=np.random.default_rng(0).uniform(0.5, 2.0, (10, 10)),
    tree=True, weighted=True,
)  # fmt: skip
SEVENTEEN = random_case(22, sizes=(2, 1), n_labels=17, weighted=True)  # more than two registers
BOTH = {**CASES, "ten labels": TEN, "seventeen labels": SEVENTEEN}


def smooth_problem(case: Case, player: str) -> Problem:
    problem = case.problem(hinge=player == "truth")
    cost = np.zeros_like(problem.cost) if player == "nobody" else problem.cost
    return replace(problem, cost=cost, temperature=T)


def drawn(listed: SmoothEnumerated) -> tuple[np.ndarray, np.ndarray]:
    """Weights, and a predictor (N, k) on the labels that can occur, in the user's order."""
    rng = np.random.default_rng(1)
    p = rng.uniform(0.1, 1.0, listed.possible.shape) * listed.possible
    return rng.normal(size=listed.all.n_weights), p / p.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("player", PLAYERS)
@pytest.mark.parametrize("name", BOTH)
def test_primal(name: str, player: str) -> None:
    case = BOTH[name]
    listed = SmoothEnumerated(case, player, T)
    theta, p = drawn(listed)
    problem = smooth_problem(case, player)
    given = padded(3.0 * problem.design.batch.from_user(p), 0.0)  # the kernel makes sums 1
    found = SmoothObjective(problem).regret(theta, given) + 0.5 * case.alpha * theta @ theta
    assert found == pytest.approx(listed.primal(theta, p)[0], rel=1e-6)


def gibbs(objective: SmoothObjective, theta: np.ndarray, p: np.ndarray) -> GibbsAdversary:
    """The natural parameters (θ·Φ + w L'p) / T; what follows from them is left at nonsense."""
    problem, rules, samples = objective.problem, objective.rules, objective.samples
    design, k = problem.design, problem.n_labels
    nodes, edges = split_weights(design, theta, k)
    player = problem.truth if problem.truth_is_predictor else p
    unary = design.nodes @ nodes + problem.node_weight[:, None] * (player @ problem.cost)
    psi = padded(unary / T, FORBIDDEN) + rules.unary_mask[rules.node_kind]
    rows = np.einsum("rl,lab->rab", design.edges, edges)[samples.row]
    tables = padded(rows / T, FORBIDDEN) + rules.pair_mask
    natural = np.empty((len(psi) + k * len(tables), objective.width), np.float32)
    natural[objective.node_rows] = psi
    natural[objective.table_rows] = tables.reshape(-1, objective.width)
    nonsense = np.full_like(natural, np.nan)
    n_samples = len(problem.share)
    unused = np.full(n_samples, np.nan, np.float32)
    return GibbsAdversary(natural, nonsense, np.full(n_samples, np.nan), unused)


@pytest.mark.parametrize("player", PLAYERS)
@pytest.mark.parametrize("name", BOTH)
def test_dual(name: str, player: str) -> None:
    case = BOTH[name]
    listed = SmoothEnumerated(case, player, T)
    theta, p = drawn(listed)
    problem = smooth_problem(case, player)
    batch, objective = problem.design.batch, SmoothObjective(problem)
    adversary = gibbs(objective, theta, batch.from_user(p))
    moments = np.empty(problem.n_weights)
    gain = objective.moments(adversary, moments)
    mixtures = []
    for s in range(len(case.y)):
        x = (listed.all.features[s] @ theta + listed._costs(s, listed._split(p))) / T
        mixtures.append(np.exp(x - logsumexp(x)))
    np.testing.assert_allclose(moments, listed.all.moments(mixtures), atol=1e-5)
    dual = gain - moments @ moments / (2 * case.alpha)
    assert dual == pytest.approx(listed.dual(theta, p), rel=1e-4, abs=1e-5)
    entropies = [-float(q[q > 0] @ np.log(q[q > 0])) for q in mixtures]
    np.testing.assert_allclose(adversary.entropy, entropies, atol=1e-5)
    marginals = np.concatenate([listed.all.marginals(s, q) for s, q in enumerate(mixtures)])
    k = case.n_labels
    r, edges = (
        adversary.marginals[rows, :k] for rows in (objective.node_rows, objective.table_rows)
    )
    np.testing.assert_allclose(batch.to_user(r), marginals, atol=1e-5)
    assert edges.sum() == pytest.approx(
        sum(len(graph.edges) for graph in case.graphs), rel=1e-5
    )  # a mass of 1 each


@pytest.mark.parametrize("name", CASES)
def test_likelihood(name: str) -> None:
    case, listed = CASES[name], enumerated(name)
    theta = np.random.default_rng(2).normal(size=listed.n_weights)
    value, gradient, _ = Likelihood(smooth_problem(case, "nobody"))(theta)
    expected, slope = listed.likelihood(theta)
    assert value == pytest.approx(expected - 0.5 * case.alpha * theta @ theta, rel=1e-9)
    np.testing.assert_allclose(gradient, slope - case.alpha * theta, atol=1e-9)


def sample_by_sample(work, node_offsets, n_jobs, *arguments):
    """As many threads as samples would call it; only thousands of nodes have several."""
    return [work(s, s + 1, *arguments) for s in range(len(node_offsets) - 1)]


@pytest.mark.parametrize("name", ["trees, asymmetric, weighted", "cycles"])
def test_parts_of_the_samples_add_up(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = smooth_problem(CASES[name], "free")
    objective, listed = SmoothObjective(problem), SmoothEnumerated(CASES[name], "free", T)
    theta, p = drawn(listed)
    p = problem.design.batch.from_user(p)
    found = []
    for _ in range(2):
        moments = np.empty(problem.n_weights)
        gain = objective.moments(gibbs(objective, theta, p), moments)
        found.append([*moments, gain, objective.regret(theta, padded(p, 0.0))])
        monkeypatch.setattr("robustruct.objectives.smooth.over_samples", sample_by_sample)
    np.testing.assert_allclose(*found, rtol=1e-12, atol=1e-12)
