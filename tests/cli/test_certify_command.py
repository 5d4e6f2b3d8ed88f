"""certify and the bound of evaluate on files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

import robustruct

CITIES, PEOPLE = ["Bonn", "Turin", "Lyon", "Quito"], ["Ann", "Bob", "Cy", "Di"]


def written(path: Path, first: int, last: int) -> Path:
    """Sentences "Ann saw Bonn <number>", four to a document; some names are those of a city."""
    rng = np.random.default_rng(0)
    lines = []
    for i in range(last):
        odd = rng.random() < 0.3
        name = "Bonn" if odd else PEOPLE[rng.integers(4)]
        city, number = CITIES[rng.integers(4)], f"n{i}"
        rows = [(name, "B-PER"), ("saw", "O"), (city, "B-LOC"), (number, "O")]
        if i >= first:
            lines.append("".join(f"{w}\td{i // 4}\t{y}\n" for w, y in rows))
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("certify")


@pytest.fixture
def trained(folder: Path, here) -> Path:
    if not (folder / "model").exists():
        train = written(folder / "train.conll", 0, 40)
        options = ("--model", "crf", "--columns", "0", "--cost", "B-PER>O=5", "-q")
        code, _, err = here("train", train, "-o", "model", *options, cwd=folder)
        assert code == 0, err
        written(folder / "held.conll", 40, 160)
    return folder


def test_the_bound_is_that_of_python(trained: Path, here) -> None:
    code, out, err = here("certify", "model", "held.conll", "--json", cwd=trained)
    assert code == 0, err
    result = json.loads(out)
    assert result["n"] == 120
    assert 0 <= result["lower"] <= result["mean"] < result["upper"] < 1
    code, out, _ = here("certify", "model", "held.conll", cwd=trained)
    assert out.strip() == result["sentence"]
    code, out, _ = here("evaluate", "model", "held.conll", "--json", "-q", cwd=trained)
    evaluated = json.loads(out)["certificate"]
    for name in ("lower", "mean", "upper"):
        assert evaluated[name] == pytest.approx(result[name])
    assert evaluated["assumptions"] == result["assumptions"]
    code, out, _ = here("evaluate", "model", "held.conll", "-q", cwd=trained)
    assert f"sample by sample at most (95 % sure)  {result['upper']:.5g}" in out


def test_groups_are_read_from_a_column(trained: Path, here) -> None:
    for column in ("1", "-2"):
        arguments = ("certify", "model", "held.conll", "--groups", column, "--json")
        result = json.loads(here(*arguments, cwd=trained)[1])
        assert (result["n"], result["grouped"]) == (30, True)
    code, _, err = here("certify", "model", "held.conll", "--groups", "7", cwd=trained)
    assert code == 3
    assert "there is no column '7': the tokens have 3 columns" in err


def test_groups_of_json_lines_are_fields(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(3, 2)) for _ in range(40)]
    y = [["a" if row[0] > 0 else "b" for row in x] for x in X]
    model = robustruct.CRF().fit(X[:20], y[:20])
    model.save(tmp_path / "model")
    with gzip.open(tmp_path / "held.jsonl.gz", "wt") as file:
        for i in range(20, 40):
            sample = {"nodes": X[i].tolist(), "labels": y[i], "text": i // 5}
            file.write(json.dumps(sample) + "\n")
    from robustruct.cli.certify import CertifyOptions, certify

    options = {"model": str(tmp_path / "model"), "data": str(tmp_path / "held.jsonl.gz")}
    found = certify(CertifyOptions(**options, groups="text"))
    expected = model.certify(X[20:], y[20:], groups=np.arange(20, 40) // 5)
    assert found["upper"] == expected.upper
    assert found["n"] == 4


def test_what_trained_the_model_proves_nothing(trained: Path, here) -> None:
    code, _, err = here("certify", "model", "train.conll", cwd=trained)
    assert code == 3
    assert "40 of 40 samples had a part in making the model" in err
    code, out, err = here("evaluate", "model", "train.conll", "-q", cwd=trained)
    assert code == 0
    assert "40 of 40 samples had a part in making the model" in err
    assert "sure" not in out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--confidence", "95"), 2, "above 0 and below 1, such as 0.95"),
        (("--per", "token"), 2, "token"),
        (("--decision", "spam"), 2, "spam"),
    ],
)
def test_wrong_usage(trained: Path, here, arguments, code: int, message: str) -> None:
    found, _, err = here("certify", "model", "held.conll", *arguments, cwd=trained)
    assert found == code
    assert message in err


def test_an_empty_file_is_bad_input(trained: Path, here) -> None:
    (trained / "empty.conll").write_text("")
    code, _, err = here("certify", "model", "empty.conll", cwd=trained)
    assert code == 3
    assert "empty" in err
