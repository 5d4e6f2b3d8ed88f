"""The experiment on promises: what it counts, and a reduced run."""

import numpy as np
import pytest

import promises
from robustruct.guarantees.certificate import Observed


def test_violations_are_counted_against_the_population() -> None:
    rng = np.random.default_rng(0)
    costs = (rng.random(500) < 0.2).astype(float)
    observed = Observed(costs, np.ones(500), 0.0, 1.0)
    found = promises.coverage(observed, 100, "sample", 40)
    assert found["violated"] <= 0.15
    assert found["width"] > 1


def test_groups_taken_for_samples_are_violated_more_often() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 15)
    costs = (rng.random(40) < 0.3)[groups] * (rng.random(600) < 0.9)
    observed = Observed(costs.astype(float), np.ones(600), 0.0, 1.0)
    found = promises.grouped_coverage(observed, groups, 60)
    assert found["violated"] <= 0.1 < found["violated as samples"]
    assert found["n"] == 40


@pytest.mark.data
@pytest.mark.parametrize("data", ["pii", "OCR"])
def test_a_reduced_run_fills_all_tables(data_home, monkeypatch, data: str) -> None:
    monkeypatch.setenv("ROBUSTRUCT_DATA", str(data_home))
    found = promises.solve({"limit": 80, "draws": 3, "splits": 3}, {"data": data})
    assert found["n"] == 240
    tables = promises.tables([{**found, "data": data}])
    assert [len(table.rows) > 0 for table in tables] == [True, data != "OCR", True, True]
    for prices in found["reviews"].values():
        assert 0 <= prices["share"] <= 1
    assert found["sets"]["covered"] > 0.8
