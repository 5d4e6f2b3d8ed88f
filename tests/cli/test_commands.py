"""train, predict, evaluate and inspect on files, in processes of their own."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
from commands import COMMAND, TEST, TRAIN, golden, run

import robustruct
from robustruct import AGM, CRF, AutoModel
from robustruct.cli.train import _summary
from robustruct.formats.corpus import read_corpus
from robustruct.losses import CostMatrix

COST = "B-PER>O=5"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with ``ner.model``, trained with a cost."""
    folder = tmp_path_factory.mktemp("command")
    options = ("--cost", COST, "--model", "agm", "--alpha", "0.05", "--decision", "predictor")
    done = run("train", TRAIN, "-o", "ner.model", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    (folder / "train.out").write_text(done.stdout)
    (folder / "train.err").write_text(done.stderr)
    return folder


def last_column(text: str) -> list[list[str]]:
    blocks = text.strip().split("\n\n")
    return [[line.split()[-1] for line in block.splitlines()] for block in blocks]


def test_outputs_are_the_stored_ones(folder, here) -> None:
    golden("train.txt", (folder / "train.out").read_text())
    golden("predict.txt", run("predict", "ner.model", TEST, cwd=folder).stdout)
    golden("evaluate.txt", run("evaluate", "ner.model", TEST, "-q", cwd=folder).stdout)
    golden("inspect.txt", here("inspect", "ner.model", "-n", "2", cwd=folder)[1])
    why = ("--why", TEST, "--sample", "1", "--token", "2")
    golden("why.txt", here("inspect", "ner.model", *why, cwd=folder)[1])


def test_progress_is_plain_lines_without_a_terminal(folder) -> None:
    lines = (folder / "train.err").read_text().splitlines()
    assert lines[0].endswith("people.conll: 8 samples")
    assert re.fullmatch(r"AGM training: pass 1 of at most 1000, gap .*% \(goal 1.00%\)", lines[1])
    assert not any("\x1b" in line for line in lines)


def test_predict_in_a_pipe_gives_pythons_answers(folder) -> None:
    unlabelled = re.sub(r" [^ \n]+$", "", TEST.read_text(), flags=re.MULTILINE)
    piped = run("predict", "ner.model", stdin=unlabelled, cwd=folder)
    assert piped.stderr == ""

    train, test = read_corpus(TRAIN), read_corpus(TEST)
    labels = ["B-LOC", "B-PER", "I-LOC", "I-PER", "O"]
    costs = 1 - np.eye(5)
    costs[1, 4] = 5.0  # O where B-PER is true
    model = AGM(CostMatrix(costs, labels), alpha=0.05, decision="predictor", random_state=0)
    # Python's own way: lists of strings.
    model.fit([[list(token) for token in sample] for sample in train.X], train.y)
    loaded = robustruct.load(folder / "ner.model")
    np.testing.assert_array_equal(loaded.coef_, model.coef_)
    expected = [found.tolist() for found in model.predict([list(x) for x in test.X])]
    assert [found.tolist() for found in loaded.predict(test.X)] == expected
    assert last_column(piped.stdout) == expected


def test_probabilities_and_best_labellings(folder, here) -> None:
    asked = ("predict", "ner.model", TEST, "--proba", "--k-best", "2")
    text = run(*asked, cwd=folder).stdout
    lines = [json.loads(line) for line in here(*asked, "--json", cwd=folder)[1].splitlines()]
    test, model = read_corpus(TEST), robustruct.load(folder / "ner.model")
    for entry, rows, best in zip(
        lines, model.predict_proba(test.X), model.predict_k_best(test.X, 2), strict=True
    ):
        found = [[node[label] for label in model.classes_] for node in entry["probabilities"]]
        np.testing.assert_allclose(found, rows)
        assert [one["labels"] for one in entry["best"]] == [row.tolist() for row, _ in best]
        assert [one["score"] for one in entry["best"]] == [score for _, score in best]
    first = text.splitlines()[:2]
    assert first[0].startswith("# scores ")
    columns = first[1].split()
    best = [one["labels"][0] for one in lines[0]["best"]]
    assert columns[:6] == ["Hugo", "NNP", "B-PER", lines[0]["predicted"][0], *best]
    assert columns[6:] == [f"{label}/{p:.6f}" for label, p in lines[0]["probabilities"][0].items()]


def test_files_may_be_compressed_and_are_written_whole(folder, here) -> None:
    (folder / "test.gz").write_bytes(gzip.compress(TEST.read_bytes()))
    done = run("predict", "ner.model", "test.gz", "-o", "out.gz", "-q", cwd=folder)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
    written = gzip.decompress((folder / "out.gz").read_bytes()).decode()
    assert written == here("predict", "ner.model", TEST, cwd=folder)[1]
    (folder / "broken.conll").write_text(TEST.read_text() + "\none_column\n")
    code, _, err = here("predict", "ner.model", "broken.conll", "-o", "other", cwd=folder)
    assert code == 3
    assert "broken.conll, line 20: 1 column" in err
    assert not [name for name in os.listdir(folder) if name.startswith("other")]


def test_json_of_train_evaluate_and_inspect(folder, here) -> None:
    done = run(
        "train",
        TRAIN,
        "-o",
        "crf.model",
        "--model",
        "crf",
        "--json",
        "--validation",
        TEST,
        "--alpha",
        "1",
        "--alpha",
        "0.1",
        "--folds",
        "2",
        cwd=folder,
    )
    result = json.loads(done.stdout)
    assert (result["model"], result["n_samples"], result["n_nodes"]) == ("CRF", 8, 45)
    assert set(result["alpha_scores"]) == {"1.0", "0.1"}
    assert "CRF choosing alpha: CRF, alpha 1, fold 1 of 2" in done.stderr
    result = json.loads(here("evaluate", "crf.model", TEST, "--json", cwd=folder)[1])
    model, test = robustruct.load(folder / "crf.model"), read_corpus(TEST)
    assert result["loss"] == pytest.approx(-model.score(test.X, test.y))
    assert result["accuracy"] == pytest.approx(1 - result["loss"])
    assert np.sum(result["confusion"]) == 16
    result = json.loads(here("inspect", "crf.model", "--json", cwd=folder)[1])
    assert result["features"]["O"]["for"][0] == list(model.top_features("O", 1)[0])
    assert result["history"][-1]["gap"] == model.history_[-1].gap


def test_alpha_is_found_as_in_python(folder, here) -> None:
    options = ("--model", "crf", "--alpha", "auto", "--folds", "2", "--json", "-q")
    code, out, _ = here("train", TRAIN, "-o", "auto.model", *options, cwd=folder)
    assert code == 0
    train = read_corpus(TRAIN)
    model = CRF(alpha="auto", random_state=0).fit(train.X, train.y, cv=2)
    result = json.loads(out)
    assert result["alpha"] == model.alpha_
    assert [float(alpha) for alpha in result["alpha_scores"]] == list(model.alpha_scores_)


def test_a_closed_pipe_is_no_drama(folder) -> None:
    long = folder / "long.conll"
    long.write_text((TEST.read_text() + "\n") * 1200)
    with subprocess.Popen(
        [*COMMAND, "predict", "ner.model", "long.conll", "-q"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 1


def test_ctrl_c_leaves_nothing_behind(folder) -> None:
    with subprocess.Popen(
        [
            *COMMAND,
            "train",
            str(TRAIN),
            "-o",
            "no.model",
            "--model",
            "agm",
            "--tol",
            "1e-15",
            "--alpha",
            "1e-6",
            "--max-iter",
            "100000000",
        ],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Tests that run in the background of a shell would hand down that it is to be ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        while "pass" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (130, "")
        assert "interrupted; no model was written" in err
    assert not [name for name in os.listdir(folder) if name.startswith("no.model")]


def test_progress_on_a_terminal(folder) -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [
            *COMMAND,
            "train",
            str(TRAIN),
            "-o",
            "tty.model",
            "--model",
            "agm",
            "--alpha",
            "0.05",
            "--json",
        ],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "150"},
    ) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # what Linux says when the other end is closed
                break
            if not part:
                break
            shown += part
        os.close(ours)
        assert json.loads(process.stdout.read())["model"] == "AGM"
        assert process.wait() == 0
    assert b"\x1b[" in shown
    assert re.search(rb"AGM training .*pass \d+ of at most 1000, gap [\d.]+%", shown)


# ------------------------------------------------------------------------- bad input

CUT_GZIP = gzip.compress(b"".join(b"w%d B\n" % (i * i) for i in range(500)))[:900]
BAD = {
    "missing file": (None, (), "data.conll: there is no such file."),
    "wrong column": (b"a b\n", ("--label-column", "4"), "there is no label column 4"),
    "ragged": (b"a X B\nb B\n", (), "data.conll, line 2: 2 columns instead of 3"),
    "binary file": (b"a B\n\0\1\2\n", (), "data.conll, line 2: it holds a zero byte"),
    "empty file": (b"", (), "data.conll: the file is empty"),
    "blank file": (b"\n \r\n\n", (), "data.conll: the file is empty"),
    "latin-1": (b"a B\n\ncaf\xe9 B\n", (), "data.conll, line 3: the byte 0xe9 is not UTF-8"),
    "utf-16": ("a B\n".encode("utf-16"), (), "data.conll, line 1: the file is in UTF-16"),
    "cut gzip": (CUT_GZIP, (), "the gzip file is damaged or cut off"),
    "unknown label in costs": (b"a B\nb I\n", ("--loss", "costs.csv"), "costs.csv: the data have"),
    "no costs": (b"a B\nb I\n", ("--loss", "none.csv"), "none.csv: there is no such file."),
    "not BIO": (
        b"a I-X\nb B-X\n",
        ("--constraints", "BIO", "--bad-labels", "error"),
        "data.conll, line 1: y: sample 0",
    ),
}


def prepared(folder: Path, content: bytes | None) -> None:
    if content is not None:
        (folder / "data.conll").write_bytes(content)
    (folder / "costs.csv").write_text("true\\predicted,B,J\nB,0,1\nJ,1,0\n")


@pytest.mark.parametrize("case", BAD)
def test_bad_input_exits_with_3_and_says_where(case, tmp_path, here) -> None:
    content, options, message = BAD[case]
    prepared(tmp_path, content)
    code, out, err = here("train", "data.conll", "-o", "m", "-q", *options)
    assert (code, out) == (3, "")
    assert message in err
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("case", ["latin-1", "unknown label in costs"])
def test_another_process_says_the_same(case, tmp_path, here) -> None:
    content, options, _ = BAD[case]
    prepared(tmp_path, content)
    arguments = ("train", "data.conll", "-o", "m", "-q", *options)
    done = run(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == here(*arguments)


WRONG = {
    "unknown label": (("--cost", "X>B=1"), "names the label 'X', which the data lack", 2),
    "mistakes that pay": (("--cost", "B>I=-1"), "where 'B' is true, predicting 'I' costs -1", 2),
    "no cost": (("--cost", "B>I"), "write TRUE>PREDICTED=COST", 2),
    "unknown loss": (("--loss", "cubic"), "use hamming, absolute, squared or a CSV file", 2),
    "no order": (("--loss", "absolute"), "say --label-order LOWEST,...,HIGHEST", 2),
    "negative alpha": (("--alpha", "-1"), "alpha=-1.0", 2),
    "alpha in words": (("--alpha", "weak"), "give numbers such as 0.01, or auto once", 2),
    "auto among alphas": (("--alpha", "auto", "--alpha", "1"), "or auto once", 2),
    "columns and a template": (("--columns", "0", "--template", "t"), "leave out --columns", 2),
    "columns": (("--columns", "one"), "is not a list of numbers", 2),
    "no folder": (("-o", "no/where"), "there is no folder", 1),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_usage_says_what_to_do(case, tmp_path, here) -> None:
    options, message, code = WRONG[case]
    prepared(tmp_path, b"a B\nb I\n")
    found, out, err = here("train", "data.conll", "-o", "m", "-q", *options)
    assert (found, out) == (code, "")
    assert message in re.sub(r"\s+", " ", err)


def test_harmless_oddities_are_read(tmp_path) -> None:
    """CRLF, a byte order mark, tabs and blanks mixed, Latin-1 if named, no newline at the end."""
    plain = "the DT B\ncafé NN I\n\na DT B\ndog NN I\n"
    odd = plain.replace("the DT", "the\tDT  ").replace("NN I", "NN\t I").strip()
    forms = {
        "odd": b"\xef\xbb\xbf" + odd.replace("\n", "\r\n").encode(),
        "latin": odd.encode("latin-1"),
    }
    expected = read_corpus_text(tmp_path / "plain", plain.encode())
    assert read_corpus_text(tmp_path / "odd", forms["odd"]) == expected
    assert read_corpus_text(tmp_path / "latin", forms["latin"], encoding="latin-1") == expected


def read_corpus_text(path: Path, content: bytes, **options) -> tuple[list, list]:
    path.write_bytes(content)
    corpus = read_corpus(path, **options)
    return [list(x) for x in corpus.X], [labels.tolist() for labels in corpus.y]


def test_without_a_model_the_family_is_searched(folder, here) -> None:
    arguments = ("train", TRAIN, "-o", "auto.model", "--cost", COST, "-q")
    code, out, _ = here(*arguments, "--json", cwd=folder)
    assert code == 0
    result, model = json.loads(out), robustruct.load(folder / "auto.model")
    train = read_corpus(TRAIN)
    costs = {(b, "O"): 5.0 for b in ("B-PER",)}
    alone = AutoModel(costs, random_state=0).fit(train.X, train.y)
    assert result["model"] == "AutoModel"
    assert (result["chosen"], result["decision"]) == (alone.member_, alone.decision_)
    assert result["n_tried"] == len({one.setting for one in alone.trials_})
    np.testing.assert_array_equal(model.coef_, alone.coef_)
    said = f"{alone.member_}.*, of {result['n_tried']} settings tried"
    assert re.search(rf"chosen +{said}", _summary(result))


def test_temperature_time_and_decision(folder, here) -> None:
    options = ("--model", "ssvm", "--temperature", "1", "--alpha", "0.1", "-q", "--json")
    code, out, _ = here("train", TRAIN, "-o", "warm.model", *options, cwd=folder)
    assert (code, json.loads(out)["temperature"]) == (0, 1.0)
    for decision in ("map", "bayes", "predictor"):
        model, test = robustruct.load(folder / "warm.model"), read_corpus(TEST)
        wanted = -model.set_params(decision=decision).score(test.X, test.y)
        decided = ("--decision", decision)
        code, out, _ = here("evaluate", "warm.model", TEST, *decided, "--json", cwd=folder)
        assert json.loads(out)["loss"] == pytest.approx(wanted)
        code, out, _ = here("predict", "warm.model", TEST, *decided, cwd=folder)
        assert last_column(out) == [list(labels) for labels in model.predict(test.X)]
    limited = ("--model", "agm", "--alpha", "1e-6", "--tol", "1e-12", "--max-time", "0.001")
    code, out, err = here("train", TRAIN, "-o", "short.model", *limited, "-q", cwd=folder)
    assert code == 0
    assert "Raise max_time" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("predict", "ner.model", TEST, "--decision", "bayes"), "needs probabilities"),
        (("train", TRAIN, "-o", "m", "--temperature", "warm"), "--temperature"),
        (
            ("train", TRAIN, "-o", "m", "--model", "crf", "--temperature", "1"),
            "--temperature does not go with --model crf",
        ),
    ],
)
def test_what_does_not_go_with_a_temperature(folder, here, arguments, said) -> None:
    code, _, err = here(*arguments, cwd=folder)
    assert code == 2
    assert said in " ".join(err.split())
