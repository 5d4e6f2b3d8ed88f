"""The experiment on decisions: what it counts, and a reduced run."""

import numpy as np
import pytest

import decisions


def result(model: str, loss: str, costs: list[float], p: float) -> dict:
    return {
        "model": model,
        "loss": loss,
        "costs": dict(zip(decisions.DECISIONS, costs, strict=True)),
        "p": {"predictor": p, "bayes": 1.0},
        "gap": 0.01,
    }


def test_counts_are_of_significant_differences() -> None:
    results = [
        result("AGM", "1", [2.0, 1.0, 2.0], 0.01),
        result("AGM", "hamming", [2.0, 3.0, 2.0], 0.01),
        result("AGM", "equal, hamming", [2.0, 1.0, 2.0], 0.5),
        *(result("AGM", "squared", [1.0, 1.0, 2.0], 0.5),),
        *(result("SSVM", loss, [1.0, 1.0, 1.0], 1.0) for loss in ("1", "absolute")),
    ]
    (table,) = decisions.tables(results)
    assert table.rows[0][1:] == ["-16.7 %", "1 / 1 of 3", "+0.0 %", "0 / 0 of 3"]
    assert table.rows[1][1:] == ["+0.0 %", "0 / 0 of 1", "+100.0 %", "0 / 0 of 1"]


def test_costs_are_those_of_the_same_fits_by_three_decisions() -> None:
    key = {"data": "digits", "loss": "absolute", "n": 12, "model": "AGM", "temperature": 1.0}
    found = decisions.solve({"limit": None}, {**key, "penalty": 1.0})
    assert set(found["costs"]) == set(decisions.DECISIONS)
    assert all(0 <= cost <= 9 for cost in found["costs"].values())
    assert found["gap"] <= 0.02


@pytest.mark.data
def test_weights_of_emotion_add_up_to_1(data_home, monkeypatch) -> None:
    monkeypatch.setenv("ROBUSTRUCT_DATA", str(data_home))
    samples, cost = decisions.samples_of("emotion", "equal, squared", 0)
    assert cost == "squared"
    assert samples.node_weight is not None
    assert [w.sum() for w in samples.node_weight] == pytest.approx(np.ones(len(samples)))
