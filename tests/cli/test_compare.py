"""``robustruct compare`` on less data than it normally takes."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from robustruct.cli import compare as command
from robustruct.cli.app import app

runner = CliRunner()


@pytest.fixture(autouse=True)
def few_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "N_TRAIN", 12)
    monkeypatch.setattr(command, "N_TEST", 10)
    monkeypatch.setattr(command, "ALPHAS", (1e-1, 1e-2))


@pytest.mark.parametrize("loss", ["hamming", "absolute", "squared"])
def test_result_holds_what_was_measured(loss: str) -> None:
    result = command.compare(loss, seed=1)
    assert [entry["model"] for entry in result["models"]] == ["AGM", "CRF", "SSVM"]
    assert (result["loss"], result["seed"], result["n_test"]) == (loss, 1, 10)
    for entry in result["models"]:
        assert entry["alpha"] in (1e-1, 1e-2)
        assert 0 <= entry["accuracy"] <= 1
        assert entry["gap"] <= 1e-2 or result["notes"]
        assert entry["seconds"] > 0
        assert entry["standard_error"] > 0
        if loss == "hamming":
            assert entry["cost"] == pytest.approx(1 - entry["accuracy"])


def test_same_seed_same_result() -> None:
    first, second = (command.compare("absolute", seed=3) for _ in range(2))
    for one, other in zip(first["models"], second["models"], strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}


def test_json_is_the_result() -> None:
    result = runner.invoke(app, ["compare", "--json", "--loss", "hamming", "--seed", "2"])
    assert result.exit_code == 0
    printed = json.loads(result.stdout)
    assert printed["loss"] == "hamming"
    assert np.isfinite([entry["cost"] for entry in printed["models"]]).all()


def test_table_shows_every_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    result = runner.invoke(app, ["compare"])
    assert result.exit_code == 0
    for text in ("AGM", "CRF", "SSVM", "test cost", "certified gap"):
        assert text in result.stdout
