"""Tables on the command line: CSV and Parquet, with a row for each node."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest

from robustruct import CRF
from robustruct.cli.train import TrainOptions, train
from robustruct.formats.corpus import read_corpus
from robustruct.formats.rows import Roles
from robustruct.tables import frame_of, sequences

pandas = pytest.importorskip("pandas")
KEYS = ("--by", "subject,night", "--order", "time")
ROLES = (*KEYS, "--label", "stage")


def nights(seed, n=240):
    """Shuffled rows of nights of subjects."""
    rng = np.random.default_rng(seed)
    stage = rng.integers(3, size=n)
    return pandas.DataFrame(
        {
            "subject": rng.choice(["ada", "bob, jr", "cy"], size=n),
            "night": rng.integers(2, size=n),
            "time": rng.permutation(n) / 4,
            "pulse": stage + 0.5 * rng.normal(size=n),
            "asleep": stage > 0,
            "dear": rng.integers(1, 4, size=n),
            "stage": np.array(["wake", "light", "deep"])[stage],
        }
    )


WRITERS = {
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "csv.gz": lambda frame, path: frame.to_csv(path, index=False, sep=";"),
    "parquet": lambda frame, path: frame.to_parquet(path),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("pyarrow")
    folder = tmp_path_factory.mktemp("tables")
    for ending, write in WRITERS.items():
        write(nights(0), folder / f"train.{ending}")
        write(nights(1), folder / f"test.{ending}")
    write(nights(1).drop(columns=["stage", "dear"]), folder / "new.parquet")
    nights(1).drop(columns=["stage", "dear"]).to_csv(folder / "new.csv", index=False)
    return folder


def python_model():
    frame = nights(0)
    by = {"by": ["subject", "night"], "order": "time"}
    data = sequences(frame, **by, label="stage", weight="dear")
    model = CRF(alpha=0.1, random_state=0)
    return model.fit(data.X, data.y, node_weight=data.node_weight), by


@pytest.mark.parametrize("ending", WRITERS)
def test_the_command_does_what_python_does(folder, ending, here, tmp_path):
    model, by = python_model()
    kind = ("--model", "crf", "--alpha", "0.1", "--weights", "dear", "-q")
    data = folder / f"train.{ending}"
    assert here("train", data, "-o", tmp_path / "m", *ROLES, *kind)[0] == 0
    for new in ("new.csv", "new.parquet", f"test.{ending}"):
        code, out, err = here("predict", tmp_path / "m", folder / new, "--proba")
        assert (code, err) == (0, "")
        found = pandas.read_csv(io.StringIO(out))
        frame = nights(1)
        weight = "dear" if "test" in new else None
        test = sequences(frame, **by, weight=weight, features=["pulse", "asleep"])
        asked = test.X, test.node_weight
        values = {"predicted": model.predict(*asked), "p": model.predict_proba(*asked)}
        expected = frame_of(frame, values, **by, classes=model.classes_)
        assert found["predicted"].tolist() == expected["predicted"].tolist()
        assert found["subject"].tolist() == frame["subject"].tolist()
        np.testing.assert_allclose(found["p[deep]"], expected["p[deep]"], atol=1e-6)
    code, out, _ = here("evaluate", tmp_path / "m", folder / f"test.{ending}", "--json", "-q")
    assert code == 0
    wrong = (expected["predicted"] != frame["stage"]).to_numpy()
    test = sequences(nights(1), **by, label="stage", weight="dear", features=["pulse", "asleep"])
    loss = -model.score(test.X, test.y, node_weight=test.node_weight)
    assert json.loads(out)["loss"] == pytest.approx(loss)
    assert json.loads(out)["n_nodes"] == len(wrong)


def test_names_of_columns_are_those_of_the_model(folder, here, tmp_path):
    kind = ("--model", "crf", "--features", "pulse,asleep", "-q")
    here("train", folder / "train.csv", "-o", tmp_path / "m", *ROLES, *kind)
    assert "pulse" in here("inspect", tmp_path / "m")[1]
    assert "pulse = " in here("inspect", tmp_path / "m", "--why", folder / "new.csv")[1]


def test_a_model_made_in_python_is_told_the_columns(folder, here, tmp_path):
    model, _ = python_model()
    model.save(tmp_path / "m")
    code, out, _ = here("predict", tmp_path / "m", folder / "new.csv", *KEYS)
    assert code == 0
    assert len(list(csv.reader(io.StringIO(out)))) == 241
    code, out, _ = here("evaluate", tmp_path / "m", folder / "test.parquet", *ROLES, "--features",
                        "pulse,asleep", "--json")  # fmt: skip
    assert code == 0
    assert json.loads(out)["accuracy"] > 0.6
    code, _, err = here("predict", tmp_path / "m", folder / "new.csv")
    assert code == 3
    assert "--by COLUMN" in err


def test_k_best_and_columns_that_are_replaced(folder, here, tmp_path):
    kind = ("--model", "crf", "--features", "pulse", "-q")
    here("train", folder / "train.csv", "-o", tmp_path / "m", *ROLES, *kind)
    rows = "subject,night,time,pulse,predicted\na,0,1,0.1,x\na,0,2,2,x\nb,0,1,2,x\n"
    (tmp_path / "few.csv").write_text(rows)
    _, out, _ = here("predict", tmp_path / "m", tmp_path / "few.csv", "--k-best", "5")
    head, *found = csv.reader(io.StringIO(out))
    best = [f"best {i}" for i in range(1, 6)]
    assert head == ["subject", "night", "time", "pulse", "predicted", *best]
    assert found[0][4] == found[0][5] != "x"
    assert found[2][5:8] != ["", "", ""] == [*found[2][8:], ""]  # one node has three labellings
    known = rows.replace(",x\n", ",deep\n", 1).replace(",x\n", ",?\n")
    (tmp_path / "some.csv").write_text(known)
    _, out, _ = here("predict", tmp_path / "m", tmp_path / "some.csv", "--known", "predicted")
    assert [row[4] for row in csv.reader(io.StringIO(out))][:2] == ["predicted", "deep"]
    _, out, _ = here("predict", tmp_path / "m", tmp_path / "few.csv", "--json")
    assert [len(json.loads(line)["predicted"]) for line in out.splitlines()] == [2, 1]


def test_groups_are_the_first_column_of_several(folder):
    roles = Roles(("subject", "night"), label="stage", features=("pulse",))
    corpus = read_corpus(folder / "train.csv", roles=roles)
    assert sorted(set(corpus.groups)) == ["ada", "bob, jr", "cy"]
    assert len(corpus.groups) == 6
    assert read_corpus(folder / "train.csv", roles=replace(roles, by=("subject",))).groups is None


def test_compare_reads_tables(folder, here, tmp_path):
    frame = nights(3, 600)
    frame["subject"] = np.arange(600) % 20
    frame.to_csv(tmp_path / "data.csv", index=False)
    limits = ("--no-report", "--max-time", "4", "--json", "-q")
    keys = ("--by", "subject", "--order", "time", "--label", "stage", "--features", "pulse,asleep")
    code, out, _ = here("compare", tmp_path / "data.csv", *keys, *limits)
    assert code == 0
    assert json.loads(out)["n_test_nodes"] == 210


BAD = {
    "a gap": ("a,1,,x\n", "'pulse' has no value in line 2. Fill .* or leave out"),
    "text": ("a,1,high,x\n", "'pulse' holds 'high', no number, in line 2. Leave .*--features"),
    "a label": ("a,1,2,\n", "'stage', which is the label, has no value in line 2"),
    "a short row": ("a,1,2\n", r"line 2: the row has 3 fields, .* names 4 columns"),
    "times twice": ("a,1,2,x\nb,1,2,x\na,1,3,x\n", "'a' has time 1.0 twice, in lines 2, 4"),
    "no rows": ("", "has no rows"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_exit_with_3_and_name_lines(case, tmp_path, here):
    rows, message = BAD[case]
    (tmp_path / "t.csv").write_text(f"subject,time,pulse,stage\n{rows}")
    roles = ("--by", "subject", "--order", "time", "--label", "stage")
    code, out, err = here("train", tmp_path / "t.csv", "-o", tmp_path / "m", "-q", *roles)
    assert (code, out) == (3, "")
    assert pytest.importorskip("re").search(message, err)


WRONG = {
    "no --by": (("--order", "time"), 2, "--by COLUMN). The order of labels is --label-order."),
    "no roles": ((), 3, "t.csv: it is a table; name the column"),
    "a template": (("--by", "s", "--template", "x"), 2, "--template does not go with --by"),
    "shards": (("--by", "s", "--shards", "*.csv"), 2, "leave out --shards"),
    "no label": (("--by", "s"), 3, "no column holds labels"),
    "a column": (("--by", "s", "--label", "y"), 3, "label='y' is no column of the table"),
    "two names": (("--by", "s,s"), 2, "'s' is named twice"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_usage_says_what_to_do(case, tmp_path, here):
    options, code, message = WRONG[case]
    (tmp_path / "t.csv").write_text("s,x\na,1\n")
    data = () if "--shards" in options else (tmp_path / "t.csv",)
    found, _, err = here("train", *data, "-o", tmp_path / "m", "-q", *options)
    assert (found, message in err) == (code, True), err


def test_two_columns_of_one_name_are_refused(tmp_path, here):
    (tmp_path / "t.csv").write_text("s,x,x\na,1,2\n")
    _, _, err = here("train", tmp_path / "t.csv", "-o", tmp_path / "m", "--by", "s")
    assert "two columns 'x'" in err


def test_quoted_cells_and_numbers_as_labels(tmp_path, here):
    (tmp_path / "t.csv").write_text('s,x,"y, z"\na,0,1\n"a",1,2\nb,"0",1\n\nb,1,2\n')
    roles = ("--by", "s", "--label", "y, z", "--features", "x")
    options = {"by": "s", "label": "y, z", "features": "x"}
    assert roles[1::2] == tuple(options.values())
    from robustruct.cli.options import TableOptions
    from robustruct.cli.reading import Layout

    layout = Layout(table=TableOptions(**options))
    data, model = [str(tmp_path / "t.csv")], str(tmp_path / "m")
    result = train(TrainOptions(data=data, output=model, layout=layout, model="crf", quiet=True))
    assert result["labels"] == [1, 2]
    assert result["n_samples"] == 2
