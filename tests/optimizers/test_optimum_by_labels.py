"""Optima at every number of labels below, at and above a register's width."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from smooth_cases import SmoothEnumerated
from training_cases import Case, Enumerated, fitted, random_case

from robustruct.optimizers.dual_ascent import fit_ascent
from robustruct.optimizers.local_shards import LocalShards
from robustruct.optimizers.natural_ascent import smooth_ascent
from robustruct.optimizers.optimizer import Progress

LABELS = [1, 2, 5, 8, 9, 17]


def case_of(k: int) -> Case:
    cost = np.random.default_rng(k).random((k, k)) * (1 - np.eye(k))
    return random_case(k, sizes=(2, 1, 2), n_labels=k, cost=cost, alpha=0.2)


@pytest.mark.parametrize("hinge", [False, True], ids=["agm", "ssvm"])
@pytest.mark.parametrize("k", LABELS)
def test_training(k: int, hinge: bool) -> None:
    case = case_of(k)
    lower, upper, _ = Enumerated(case).optimum(hinge=hinge)
    progress, _ = fitted(case.problem(hinge=hinge), tol=1e-5)
    assert progress.converged
    assert lower * (1 - 1e-7) <= progress.primal <= upper * (1 + 1e-5) + 1e-12
    assert lower * (1 - 1e-5) - 1e-12 <= progress.dual <= upper * (1 + 1e-7)


@pytest.mark.parametrize("player", ["nobody", "truth"])
@pytest.mark.parametrize("k", LABELS)
def test_smooth_training(k: int, player: str) -> None:
    case, temperature = case_of(k), 0.5
    problem = case.problem(hinge=player == "truth")
    cost = problem.cost * (player == "truth")
    progress = Progress(replace(problem, cost=cost, temperature=temperature), 1e-4)
    ascent = smooth_ascent(LocalShards.of(progress.problem))
    fit_ascent(ascent, progress, 300, 0)
    assert progress.converged
    listed = SmoothEnumerated(case, player, temperature)
    p = np.full((5, k), 1.0 / k)
    assert progress.primal == pytest.approx(listed.primal(progress.theta, p)[0], rel=1e-6)
    optimum = minimize(lambda x: listed.primal(x, p)[:2], progress.theta, jac=True).fun
    assert optimum * (1 - 1e-7) <= progress.primal <= optimum * (1 + 1e-4) + 1e-12
    assert progress.dual <= optimum * (1 + 1e-7) + 1e-12
