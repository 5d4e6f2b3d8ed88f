"""Actions beside labels on files: prices, shares, and what always and never taking them cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import TEST, TRAIN

from robustruct import load
from robustruct.evaluation.actions import action_costs
from robustruct.evaluation.held_out import read_held_out
from robustruct.formats.text import Lines


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("actions")


@pytest.fixture
def trained(folder: Path, here) -> Path:
    if not (folder / "model").exists():
        options = ("--model", "crf", "--alpha", "0.5", "-q", "--cost", "B-PER>O=5")
        assert here("train", TRAIN, "-o", "model", *options, cwd=folder)[0] == 0
    return folder


def test_evaluate_prints_costs_shares_and_baselines(trained: Path, here) -> None:
    arguments = ("evaluate", "model", TEST, "--actions", "review=0.3", "-q")
    code, out, err = here(*arguments, "--json", cwd=trained)
    assert code == 0, err
    found, loss = json.loads(out)["actions"], json.loads(out)["loss"]
    assert found["never"] == pytest.approx(loss)
    assert found["always"] == {"review": pytest.approx(0.3)}
    assert 0 < found["shares"]["review"] < 1
    out = here(*arguments, cwd=trained)[1]
    for row in ("review at 0.3 ", "review all ", "review nothing "):
        assert row in out
    assert f"{found['shares']['review']:.2%}" in out


def test_costs_are_those_of_answers(trained: Path, here) -> None:
    """Counted from the labels that predict writes."""
    arguments = ("predict", "model", TEST, "--actions", "review=0.3", "--json", "-q")
    code, out, err = here(*arguments, cwd=trained)
    assert code == 0, err
    answers = [json.loads(line)["predicted"] for line in out.splitlines()]
    model = load(trained / "model")
    with Lines(str(TEST)) as lines:
        data = read_held_out(model, lines)
    cost = dict(zip(model.classes_.tolist(), model.cost_.tolist(), strict=True))
    place = {label: a for a, label in enumerate(model.classes_.tolist())}
    each = [
        0.3 if answer == "review" else cost[true][place[answer]]
        for labels, truth in zip(answers, data.y, strict=True)
        for answer, true in zip(labels, truth, strict=True)
    ]
    found = action_costs(model, data.X, data.y, {"review": 0.3})
    assert found.cost == pytest.approx(sum(each) / len(each))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--actions", "review"), "write NAME=PRICE"),
        (("--actions", "review=cheap"), "write NAME=PRICE"),
        (("--actions", "=1"), "write NAME=PRICE"),
        (("--actions", "review=-1"), "a price is a finite number >= 0"),
        (("--actions", "O=1"), "must be a text that is no label"),
        (("--actions", "review=0.1", "--decision", "map"), "not in the units of the cost"),
    ],
)
def test_wrong_usage(trained: Path, here, arguments, message: str) -> None:
    for command in ("evaluate", "predict"):
        code, _, err = here(command, "model", TEST, "-q", *arguments, cwd=trained)
        assert code in (2, 3)
        assert message in " ".join(err.split())


def test_stdin_cannot_be_read_twice(trained: Path, here) -> None:
    code, _, err = here("evaluate", "model", "-", "--actions", "review=1", cwd=trained)
    assert code == 2
    assert "give a file, not stdin" in err
