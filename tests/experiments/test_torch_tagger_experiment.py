"""The neural tagger: its data, its costs, and the reduced experiment."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("torchcrf")

import torch_tagger


def test_a_missed_name_is_a_true_name_predicted_as_other() -> None:
    costs = torch_tagger.cost_matrix(torch_tagger.LABELS, 5)
    assert costs.tolist() == [[0, 1, 5], [1, 0, 5], [1, 1, 0]]
    other = torch_tagger.cost_of(5, torch_tagger.torch.zeros(3, 3))
    assert other.tolist() == costs.tolist()


def test_every_sentence_is_seen_once_an_epoch() -> None:
    torch = torch_tagger.torch
    data = [(torch.zeros(n, 4), torch.zeros(n)) for n in range(1, 80)]
    parts = torch_tagger.shuffled(data, np.random.default_rng(0))
    assert sorted(np.concatenate(parts).tolist()) == list(range(79))
    assert max(map(len, parts)) == torch_tagger.BATCH


@pytest.mark.data
@pytest.mark.parametrize("fit", list(torch_tagger.FITS))
def test_reduced_experiment(fit: str, data_home: Path) -> None:
    result = torch_tagger.solve({"limit": 24, "epochs": 1}, {"fit": fit, "seed": 0})
    decisions = {
        (decision, missed)
        for missed, rows in torch_tagger.ROWS.items()
        for name, decision in rows
        if name == fit
    }
    for decision, missed in decisions:
        found = result["chosen"][f"{decision}, {missed}"]
        assert 0 <= found["cost"] <= 5
        assert 0 <= found["f1"] <= 1


def test_tables_have_a_row_for_every_decision() -> None:
    chosen = {
        f"{decision}, {missed}": {"cost": 0.25, "f1": 0.3}
        for missed, rows in torch_tagger.ROWS.items()
        for _, decision in rows
    }
    results = [
        {"fit": fit, "chosen": chosen, "epoch_cpu_seconds": 1.0}
        for fit in torch_tagger.FITS
        for _ in range(3)
    ]
    one, five = torch_tagger.tables(results)
    assert [len(one.rows), len(five.rows)] == [4, 8]
    assert five.rows[0][2] == "0.2500 ± 0.0000"
