"""Consistency: exact risks, theory in the limit, and the reduced experiment."""

import json

import numpy as np
import pytest
from scipy.optimize import linprog

import consistency


@pytest.mark.parametrize("key", consistency.CASES)
def test_the_bayes_risk_is_that_of_the_best_label_of_every_node(key):
    case = consistency.CASES[key]
    best = [(case.marginals(p) @ case.cost).argmin(axis=1) for p in case.truth]
    assert case.risk(best) == pytest.approx(case.bayes_risk)
    assert case.truth.sum(axis=1) == pytest.approx(1)
    if case.n_labels > 2:  # no majority
        assert max(case.marginals(p).max() for p in case.truth) < 0.5


def hinge_labels(case, p):
    """The label with the best score at the optimum of the expected hinge loss, one node."""
    k = case.n_labels
    rows, bounds = [], []
    for y in range(k):
        for a in range(k):
            row = np.zeros(2 * k)
            row[a] += 1
            row[y] -= 1
            row[k + y] -= 1
            rows.append(row)
            bounds.append(-case.cost[y, a])
    objective = np.concatenate([np.zeros(k), p])
    free = [(None, None)] * (2 * k)
    scores = linprog(objective, rows, bounds, bounds=free, method="highs").x[:k]
    return set(np.flatnonzero(scores > scores.max() - 1e-9).tolist())


@pytest.mark.parametrize("key", ["node zero-one", "node absolute", "node missed"])
def test_what_is_said_of_max_margin_training_holds_for_a_linear_program(key):
    case = consistency.CASES[key]
    agree = [
        hinge_labels(case, p) == {int((case.cost @ p).argmin())}
        for p in case.truth  # labellings of one node are its labels
    ]
    assert all(agree) == (case.ssvm == "consistent")


def test_reduced_run(tmp_path):
    consistency.main(
        [*["--limit", "10", "--seeds", "1", "--jobs", "1", "--results"], str(tmp_path)]
    )
    report = json.loads((tmp_path / "consistency.json").read_text())
    bayes = report["results"]["bayes_risk"]
    exact = {
        (r["case"], r["model"]): r["risk"] - bayes[r["case"]]
        for r in report["results"]["mean_risk"]
        if r["n"] == consistency.EXACT
    }
    for key, case in consistency.CASES.items():
        assert exact[key, "AGM"] == pytest.approx(0, abs=1e-9)
        assert exact[key, "CRF"] == pytest.approx(0, abs=1e-9)
        if case.ssvm == "consistent":
            assert exact[key, "SSVM"] == pytest.approx(0, abs=1e-9)
        else:
            assert exact[key, "SSVM"] > 0.03
    for fit in report["results"]["fits"]:
        assert fit["gap"] <= fit["tol"]
    assert (tmp_path / "consistency.svg").exists()
