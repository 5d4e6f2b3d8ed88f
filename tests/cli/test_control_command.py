"""control writes a model whose rule predict uses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

WORDS = ["Ann", "Bob", "Cy", "tree", "house", "sky", "may", "will"]


def written(path: Path, seed: int, n: int) -> Path:
    """Two words each; "may" and "will" are names half of the time."""
    rng, texts = np.random.default_rng(seed), []
    for i in range(n):
        rows = []
        for word in rng.choice(WORDS, size=2):
            name = word in WORDS[:3] or (word in WORDS[6:] and rng.random() < 0.5)
            rows.append(f"{word}\tn{seed}-{i}\t{'NAME' if name else 'O'}\n")
        texts.append("".join(rows))
    path.write_text("\n".join(texts))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("control")
    for name, n in (("train", 80), ("held", 200), ("new", 100)):
        written(folder / f"{name}.conll", {"train": 0, "held": 1, "new": 2}[name], n)
    return folder


@pytest.fixture
def trained(folder: Path, here) -> Path:
    if not (folder / "model").exists():
        options = ("--model", "crf", "--columns", "0,1", "-q")
        assert here("train", "train.conll", "-o", "model", *options, cwd=folder)[0] == 0
    return folder


def answers(here, folder: Path, *arguments) -> list[str]:
    code, out, err = here("predict", *arguments, "new.conll", "--json", "-q", cwd=folder)
    assert code == 0, err
    return [a for line in out.splitlines() for a in json.loads(line)["predicted"]]


def test_the_rule_is_kept_and_used(trained: Path, here) -> None:
    arguments = ("model", "held.conll", "--miss", "0.05", "--most", "2", "-o", "safe")
    code, out, err = here("control", *arguments, "--json", cwd=trained)
    assert code == 0, err
    rule = json.loads(out)
    assert (rule["label"], rule["n"], rule["most"], rule["miss"]) == ("O", 200, 2, 0.05)
    assert 0 < rule["price"] < 0.5
    assert rule["missed"] <= 0.05
    code, out, _ = here("control", *arguments, cwd=trained)
    assert out.strip() == rule["sentence"]
    rows = (trained / "new.conll").read_text().split("\n")
    truth = [row.split("\t")[2] for row in rows if row]
    plain, safe = answers(here, trained, "model"), answers(here, trained, "safe", "--rule", "O")

    def missed(found: list[str]) -> int:
        return sum(a == "O" != b for a, b in zip(found, truth, strict=True))

    assert missed(safe) < missed(plain)
    assert answers(here, trained, "safe") == plain


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        (("--miss", "0.0001"), 3, "it takes about"),
        (("--miss", "2"), 3, "above 0 and below 1"),
        (("--most", "1"), 3, "a calibration sample has 2"),
        (("--label", "CITY"), 2, "none of the model's labels"),
    ],
)
def test_targets_that_cannot_be_reached(trained: Path, here, given, code, message) -> None:
    options = {"--miss": "0.05", "--most": "2", "--label": "O", **dict([given])}
    flat = [part for pair in options.items() for part in pair]
    found, _, err = here("control", "model", "held.conll", *flat, "-o", "no", cwd=trained)
    assert found == code
    assert message in " ".join(err.split())
    assert not (trained / "no").exists()


def test_a_model_without_the_rule_says_so(trained: Path, here) -> None:
    code, _, err = here("predict", "model", "new.conll", "--rule", "O", cwd=trained)
    assert code in (2, 3)
    assert "no rule for the label 'O'" in err
