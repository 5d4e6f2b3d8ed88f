"""``robustruct compare`` as a user runs it: on files, on the default data, with mistakes."""

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import COMMAND, golden, run
from typer.testing import CliRunner

from robustruct.cli import compare as command
from robustruct.cli.app import app, main
from robustruct.cli.reading import Layout
from robustruct.comparison import Samples
from robustruct.datasets import position_weights

WORDS = {
    "D": ["the", "a", "that"],
    "N": ["fish", "can", "flies", "cat", "light", "watch"],
    "V": ["fish", "can", "flies", "sees", "lights", "watch"],
}
NEXT = {"D": "N", "N": "VVVD", "V": "DDDN"}


def conll(n_sentences: int, seed: int, weights: bool = False) -> str:
    """Sentences full of words that may be nouns or verbs."""
    draw = random.Random(seed)
    lines = []
    for _ in range(n_sentences):
        tag = draw.choice("DN")
        for position in range(draw.randint(3, 6)):
            fields = [draw.choice(WORDS[tag]), *([str(position)] if weights else []), tag]
            lines.append(" ".join(fields))
            tag = draw.choice(NEXT[tag])
        lines.append("")
    return "\n".join(lines) + "\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.conll").write_text(conll(25, 0))
    (tmp_path / "test.conll").write_text(conll(20, 1))
    (tmp_path / "weighted.conll").write_text(conll(25, 2, weights=True))
    (tmp_path / "costs.csv").write_text("true\\predicted,D,N,V\nD,0,1,1\nN,1,0,5\nV,1,1,0\n")
    return tmp_path


def test_a_file_a_cost_and_a_report(folder: Path) -> None:
    done = run(
        "compare", "train.conll", "--test", "test.conll", "--cost", "N>V=5", "-q", cwd=folder
    )
    assert (done.returncode, done.stderr) == (0, "")
    golden("compare.txt", done.stdout)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "watch" in page  # words of the examples


def test_json_with_folds_and_a_table_of_costs(folder: Path) -> None:
    options = ("--loss", "costs.csv", "--folds", "2", "--json", "--no-report")
    done = run("compare", "train.conll", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert not (folder / "report.html").exists()
    assert result["report"] is None
    assert (result["loss"], result["labels"]) == ("costs.csv", ["D", "N", "V"])
    assert result["split"] == "each of them once, in 2 folds"
    assert result["n_test"] == 25
    for entry in result["models"]:
        assert len(entry["alpha"]) == 2
        assert entry["cost_low"] <= entry["cost"] <= entry["cost_high"]
    assert len(result["differences"]) == 6
    assert (
        "AGM choosing alpha: AGM, temperature 0, alpha" in done.stderr
    )  # plain lines: stderr is no terminal
    assert "\x1b" not in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
def test_progress_on_a_terminal(folder: Path) -> None:
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "compare", "train.conll", "--no-report"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    output, _ = process.communicate()
    assert process.returncode == 0, shown
    text = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", shown).decode()
    assert "AutoModel choosing temperature and alpha" in text
    for name in ("AGM", "CRF", "SSVM"):
        assert f"{name} choosing alpha" in text
        assert re.search(rf"{name} training +pass \d+ .*gap \d+\.\d\d%", text), text
    assert "\x1b" not in output
    assert "tested on 9 others, held out at random" in output


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nowhere.conll"], 3, "nowhere.conll"),
        (["train.conll", "--test", "nowhere.conll"], 3, "nowhere.conll"),
        (["train.conll", "--loss", "cubic"], 2, "--loss cubic is not known"),
        (["train.conll", "--loss", "absolute"], 2, "--label-order LOWEST"),
        (["train.conll", "--cost", "N>X=5"], 2, "names the label 'X'"),
        (["train.conll", "--weights", "0.conll"], 2, "say position, or the number of a column"),
        (["weighted.conll", "--weights", "0"], 3, "in column 0 is not a number"),
        (["train.conll", "--folds", "1"], 2, "--folds"),
        (["train.conll", "--folds", "99"], 3, "99 folds of 25 samples"),
        (["train.conll", "--folds", "3", "--test", "test.conll"], 2, "give one of both"),
        (["--test", "test.conll"], 2, "need a file"),
        (["--weights", "1"], 2, "need a file"),
        (["train.conll", "--template", "t", "--columns", "0"], 2, "names its own columns"),
        (["train.conll", "--report", "no/such/folder.html"], 1, "there is no folder"),
        (["two.conll"], 3, "at least 5 to train on"),
        (["broken.conll"], 3, "broken.conll, line 3"),
    ],
)
def test_mistakes_are_explained(
    folder: Path,
    arguments: list[str],
    code: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (folder / "two.conll").write_text(conll(2, 0))
    (folder / "broken.conll").write_text("the D\nfish N\nsees\n\n")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["robustruct", "compare", "--quiet", *arguments])
    with pytest.raises(SystemExit) as exit_:
        main()
    shown = capsys.readouterr()
    assert exit_.value.code == code
    assert message in shown.err
    assert shown.out == ""
    assert not (folder / "report.html").exists()


# ------------------------------------------------------------------- in this process, on less data


@pytest.fixture
def few_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "N_TRAIN", 12)
    monkeypatch.setattr(command, "N_TEST", 10)


@pytest.mark.usefixtures("few_data")
def test_without_data_the_digits_are_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["compare", "--quiet", "--seed", "3"])
    assert done.exit_code == 0, done.output
    assert "handwritten digits that count, absolute loss" in done.output
    assert (tmp_path / "report.html").stat().st_size > 10_000


class Trained(Exception):
    """Raised in place of training, with the samples that would have been trained on."""


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(samples: Samples, others: Samples | None, *arguments: object, **options: object):
        raise Trained(samples, others)

    monkeypatch.setattr(command, "_compared", stop)


@pytest.mark.usefixtures("untrained")
def test_position_weights_are_those_of_training_and_test() -> None:
    with pytest.raises(Trained) as reached:
        command.compare(command.CompareOptions(layout=Layout(weights="position"), no_report=True))
    for samples in reached.value.args:
        wanted = position_weights(samples.y)
        for weights, expected in zip(samples.node_weight, wanted, strict=True):
            np.testing.assert_array_equal(weights, expected)


@pytest.mark.usefixtures("untrained")
def test_weights_from_a_column_and_words_as_captions(folder: Path) -> None:
    with pytest.raises(Trained) as reached:
        command.compare(
            command.CompareOptions(
                data=str(folder / "weighted.conll"), layout=Layout(weights="1"), no_report=True
            )
        )
    samples, others = reached.value.args
    assert others is None
    for weights, labels, words in zip(
        samples.node_weight, samples.y, samples.captions, strict=True
    ):
        np.testing.assert_array_equal(weights, np.arange(len(labels)))
        assert all(word in WORDS[label] for word, label in zip(words, labels, strict=True))


@pytest.mark.usefixtures("few_data")
def test_ctrl_c_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from robustruct.comparison import compare as module

    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(module.__globals__, "splits", interrupted)
    done = CliRunner().invoke(app, ["compare", "--quiet"])
    assert done.exit_code == 130
    assert not (tmp_path / "report.html").exists()
