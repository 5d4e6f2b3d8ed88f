"""The worst case of a fit against a convex program over everything that the adversary may do."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

from robustruct import AGM, CRF, SSVM, load
from robustruct.losses import CostMatrix

COSTS = {"hamming": 1.0 - np.eye(2), "dear": np.array([[0.0, 1.0], [4.0, 0.0]])}


def worst_case(X, y, cost: np.ndarray, radius: float) -> float:
    """max Σ_s 1/S Σ_i min_a (L r_i)_a over q with |mean E_q Φ - mean Φ(y)| <= radius.

    q are distributions over all labellings of each sample; the minima are the least of variables
    that stay below both costs. By sequential quadratic programming.
    """
    n, (m, d) = len(X), X[0].shape
    labellings = np.array(list(itertools.product(range(2), repeat=m)))
    size = len(labellings)

    def features(x: np.ndarray, labels: np.ndarray) -> np.ndarray:
        nodes, pairs = np.zeros((d + 1, 2)), np.zeros((2, 2))
        for i, label in enumerate(labels):
            nodes[:, label] += np.append(x[i], 1.0)
            if i:
                pairs[labels[i - 1], label] += 1.0
        return np.concatenate([nodes.ravel(), pairs.ravel()])

    table = np.array([[features(x, labels) for labels in labellings] for x in X])
    target = np.mean([features(x, labels) for x, labels in zip(X, y, strict=True)], axis=0)
    of_label = [(labellings == b).astype(float) for b in (0, 1)]

    def moments(q: np.ndarray) -> np.ndarray:
        return np.einsum("sl,slf->f", q[: n * size].reshape(n, size), table) / n - target

    def slack(z: np.ndarray) -> np.ndarray:
        q, v = z[: n * size].reshape(n, size), z[n * size :].reshape(n, m)
        r = np.stack([q @ part for part in of_label], axis=2)
        return (r @ cost - v[:, :, None]).ravel()

    moment_jacobian = np.zeros((table.shape[2], n * size + n * m))
    moment_jacobian[:, : n * size] = table.reshape(n * size, -1).T / n
    start = np.concatenate([np.full(n * size, 1 / size), np.zeros(n * m)])
    sums = np.zeros((n, len(start)))
    for s in range(n):
        sums[s, s * size : (s + 1) * size] = 1.0
    gain = np.concatenate([np.zeros(n * size), np.full(n * m, 1 / n)])
    slack_jacobian = np.array([slack(row) - slack(0 * row) for row in np.eye(len(start))]).T
    found = minimize(
        lambda z: -gain @ z,
        start,
        jac=lambda z: -gain,
        bounds=[(0, 1)] * (n * size) + [(None, None)] * (n * m),
        constraints=[
            {"type": "eq", "fun": lambda z: sums @ z - 1, "jac": lambda z: sums},
            {"type": "ineq", "fun": slack, "jac": lambda z: slack_jacobian},
            {
                "type": "ineq",
                "fun": lambda z: radius**2 - moments(z) @ moments(z),
                "jac": lambda z: -2 * moments(z) @ moment_jacobian,
            },
        ],
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 500},
    )
    assert found.success, found.message
    return float(-found.fun)


@pytest.mark.parametrize("name", COSTS)
@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.5])
def test_it_is_the_value_of_a_convex_program(name: str, alpha: float) -> None:
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(2, 2)) for _ in range(4)]
    y = [(x[:, 0] + rng.normal(size=2) > 0).astype(int) for x in X]
    y[0][:] = 0, 1
    loss = CostMatrix(COSTS[name], labels=[0, 1])
    # The value is as far from the program's as the objective is from its optimum, or more.
    model = AGM(loss, alpha=alpha, tol=2e-8, max_iter=5000, standardize=False, random_state=0).fit(
        X, y
    )
    found = model.worst_case_
    assert found["radius"] == pytest.approx(alpha * np.linalg.norm(model.coef_))
    expected = worst_case(X, y, COSTS[name], found["radius"])
    assert found["value"] == pytest.approx(expected, abs=1e-6)


def test_short_of_the_optimum_it_is_an_upper_bound() -> None:
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(2, 2)) for _ in range(4)]
    y = [np.array([0, 1]), *[(x[:, 0] > 0).astype(int) for x in X[1:]]]
    model = AGM(alpha=0.1, tol=0.3, standardize=False, random_state=0).fit(X, y)
    found = model.worst_case_
    assert found["value"] >= worst_case(X, y, COSTS["hamming"], found["radius"]) - 1e-9


def test_only_the_game_without_entropy_has_one(tmp_path: Path) -> None:
    X, y = [np.eye(2), np.eye(2)[:1]], [[0, 1], [0]]
    for model in (CRF(), SSVM(), AGM(temperature=1.0)):
        assert not hasattr(model.fit(X, y), "worst_case_")
    model = AGM().fit(X, y)
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").worst_case_ == model.worst_case_
