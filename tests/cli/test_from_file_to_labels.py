"""The functions behind the commands: every format from file to labels, costs, and memory."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import robustruct
from robustruct.cli.errors import BadInputError
from robustruct.cli.evaluate import EvaluateOptions
from robustruct.cli.evaluate import evaluate as evaluate_any
from robustruct.cli.inspect import explain, inspect
from robustruct.cli.options import CostOptions
from robustruct.cli.predict import PredictOptions, predict
from robustruct.cli.reading import Layout
from robustruct.cli.train import TrainOptions
from robustruct.cli.train import train as train_any
from robustruct.datasets import position_weights
from robustruct.errors import FileFormatError, InvalidInputError
from robustruct.evaluation.predict_files import answered, input_format
from robustruct.formats.conll import ConllFormat
from robustruct.formats.corpus import read_corpus
from robustruct.formats.text import Lines
from robustruct.metrics import mean_loss


def train(data: str, *, alpha: float = 0.1, validation: str | None = None, **options) -> dict:
    """Files and formats are the subject here, not the choice of a model."""
    costs = {name: options[name] for name in ("loss", "cost", "label_order") if name in options}
    layout = {name: value for name, value in options.items() if name not in costs}
    given = TrainOptions(
        data=[data],
        output="m",
        model="agm",
        alpha=[str(alpha)],
        validation=validation,
        quiet=True,
        costs=CostOptions(**costs),
        layout=Layout(**layout),
    )
    return train_any(given)


def evaluate(data: str, **costs) -> dict:
    return evaluate_any(
        EvaluateOptions(model="m", data=data, costs=CostOptions(**costs), quiet=True)
    )


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, text: str) -> str:
    Path(name).write_text(text)
    return name


def labelled(model: str, data: str, **options) -> str:
    predict(PredictOptions(model=model, data=data, output="out", quiet=True, **options))
    return Path("out").read_text()


RATINGS = "bad 1\nfine 3\n\ngood 5\nfine 3\n\nbad 1\nbad 1\ngood 5\n"


def test_ordinal_labels_keep_their_distances() -> None:
    data = write("ratings", RATINGS)
    result = train(data, loss="absolute")
    assert result["labels"] == [1, 3, 5]
    model = robustruct.load("m")
    np.testing.assert_array_equal(model.cost_, [[0, 2, 4], [2, 0, 2], [4, 2, 0]])
    assert labelled("m", data).split()[2::3] == ["1", "3", "5", "3", "1", "1", "5"]
    test = write("test", "bad 5\nfine 4\n")  # 4 was not seen in training
    assert evaluate(test)["loss"] == pytest.approx((4 + 1) / 2)
    assert evaluate(test, loss="hamming")["loss"] == 1.0


def test_an_order_of_words() -> None:
    data = write("ratings", RATINGS.replace("1", "low").replace("3", "mid").replace("5", "high"))
    train(data, loss="squared", label_order="low,mid,high")
    model = robustruct.load("m")
    place = {label: i for i, label in enumerate(model.classes_.tolist())}
    assert model.cost_[place["low"], place["high"]] == 4
    with pytest.raises(InvalidInputError, match="--label-order lacks the label high"):
        train(data, loss="squared", label_order="low,mid")
    with pytest.raises(InvalidInputError, match="--label-order goes with"):
        train(data, label_order="low, mid, high")


def test_costs_of_a_file_reach_the_model() -> None:
    data = write("data", "a X\nb Y\n\na X\nb Y\n")
    costs = write("costs.csv", "true\\predicted,X,Y,Z\nX,0,2,9\nY,3,0,9\nZ,9,9,0\n")
    train(data, loss=costs, cost=["Y>X=7"], alpha=1.0)
    np.testing.assert_array_equal(robustruct.load("m").cost_, [[0, 2], [7, 0]])
    # Z has costs but was never seen; W has none.
    result = evaluate(write("test", "a X\na Y\na Z\na W\n"))
    found = [int(label == "X") for label in labelled("m", "test").split()[2::3]]
    costs = [0 if found[0] else 2, 7 if found[1] else 0, 9, 9]
    assert result["loss"] == pytest.approx(np.mean(costs))
    assert result["notes"] == [
        f"1 nodes have the label {label!r}, which training never saw; they count as mistakes."
        for label in "WZ"
    ]


def test_weights_in_the_file_count() -> None:
    data = write("data", "a 1 X\nb 2 Y\n\na 0.5 X\nc 4 Y\n")
    train(data, weights="1", alpha=0.5)
    corpus = read_corpus(data, weight_column=1)
    model = robustruct.load("m")
    expected = mean_loss(corpus.y, model.predict(corpus.X), "hamming", corpus.node_weight)
    assert evaluate(data)["loss"] == pytest.approx(expected)
    assert labelled("m", data).splitlines()[0].startswith("a 1 X ")


def test_weights_by_position_count() -> None:
    data = write("data", "a X\na Y\na Y\n\na Y\na X\n")
    train(data, weights="position", alpha=0.5)
    corpus = read_corpus(data)
    weighted = robustruct.AGM(alpha=0.5, random_state=0)
    weighted.fit(corpus.X, corpus.y, node_weight=position_weights(corpus.y))
    np.testing.assert_array_equal(robustruct.load("m").coef_, weighted.coef_)
    plain = robustruct.AGM(alpha=0.5, random_state=0).fit(corpus.X, corpus.y)
    assert np.abs(plain.coef_ - weighted.coef_).max() > 1e-3


def test_crfsuite_files() -> None:
    data = write("data", "@weight:2\nX\tw=a\tn:0.5\nY\tw=b\n\nX\tw=a\nX\tw=a\n")
    assert train(data)["format"] == "crfsuite"
    assert labelled("m", data) == "X\nY\n\nX\nX\n\n"
    lines = labelled("m", data, proba=True).splitlines()
    assert lines[0].split("\t")[0] == "X"
    assert sum(float(f.split(":")[1]) for f in lines[0].split("\t")[1:]) == pytest.approx(1, 1e-5)


def test_graphs_as_json_lines() -> None:
    star = {"nodes": [{"w": "hub"}, {"w": "a"}, {"w": "b"}], "edges": [[0, 1], [0, 2]]}
    samples = [{**star, "labels": ["H", "L", "L"]}] * 3
    data = write("data.jsonl", "".join(json.dumps(sample) + "\n" for sample in samples))
    train(data)
    new = write("new.jsonl", json.dumps({**star, "id": 5}))
    written = json.loads(labelled("m", new, k_best=2))
    assert written["predicted"] == ["H", "L", "L"]
    assert written["id"] == 5
    assert len(written["best"]) == 2
    with pytest.raises(FileFormatError, match='line 1: "labels" is missing'):
        evaluate(new)
    text, why = explain(robustruct.load("m"), new, node=1)
    assert (text, why.predicted) == ("", "L")


def test_transitions_that_depend_on_tokens() -> None:
    template = write("template", "U:%x[0,0]\nB1:%x[0,0]\n")
    data = write("data", "a X\nb Y\n\na X\nc X\n")
    train(data, template=template)
    model = robustruct.load("m")
    assert model.get_edge_feature_names_out().tolist() == ["B1:b", "B1:c", "(transition)"]
    assert labelled("m", data).split()[2::3] == ["X", "Y", "X", "X"]
    assert inspect(model)["input"]["template"] == "U:%x[0,0]\nB1:%x[0,0]\n"


def test_answers_keep_comments_and_tabs() -> None:
    data = write("data", "# id = 1\na\tX\nb\tY\n\n# id = 2\na\tX\n")
    train(data)
    expected = "# id = 1\na\tX\tX\nb\tY\tY\n\n# id = 2\na\tX\tX\n\n"
    assert labelled("m", data) == expected


def test_models_of_python_take_attributes_but_no_columns() -> None:
    model = robustruct.AGM(alpha=0.1, random_state=0)
    model.fit([[["w=a"], ["w=b"]]], [["X", "Y"]]).save("m")
    assert labelled("m", write("data", "?\tw=b\n?\tw=a\n")) == "Y\nX\n\n"
    with pytest.raises(BadInputError, match="made in Python"):
        labelled("m", write("columns", "a X\n"))


def test_an_input_description_of_the_future_is_refused() -> None:
    train(write("data", "a X\nb Y\n"))
    model = robustruct.load("m")
    model.input_["version"] = 99
    model.save("m")
    with pytest.raises(BadInputError, match=r"version 99 .*upgrade robustruct"):
        labelled("m", "data")


def test_few_samples_are_in_memory_at_once(monkeypatch) -> None:
    monkeypatch.setattr("robustruct.evaluation.predict_files.CHUNK", 3)
    train(write("data", "a X\nb Y\n"))
    write("long", "a X\n\n" * 1000)
    model = robustruct.load("m")
    with Lines("long") as lines:
        form = input_format(model, lines)
        assert isinstance(form, ConllFormat)
        answers = answered(model, form, lines, labelled=False)
        next(answers)
        assert lines.number < 10
        assert sum(1 for _ in answers) == 999


def test_validation_data_stop_training() -> None:
    data = write("data", "a X\nb Y\n\nb Y\na X\n" * 5)
    held_out = write("dev", "a X\nb Y\nb Q\n")
    result = train(data, validation=held_out, cost=["X>Y=2"], alpha=1e-3)
    assert result["validation_loss"] == pytest.approx(1 / 3)


def test_a_fault_of_the_validation_file_is_not_blamed_on_the_training_file(tmp_path, here):
    good = [{"nodes": [[1, 2], [0, 1]], "labels": ["X", "Y"]}] * 3
    bad = [good[0], {"nodes": [[1, 2, 3]], "labels": ["X"]}]
    for name, samples in (("train.jsonl", good), ("dev.jsonl", bad)):
        (tmp_path / name).write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    code, _, err = here(
        "train", "train.jsonl", "--model", "agm", "--validation", "dev.jsonl", "-o", "m", "-q"
    )
    assert code == 3
    assert "dev.jsonl, line 2: validation: sample 1: node features have 3 columns" in err


def test_known_labels_in_a_column_or_a_field() -> None:
    tokens = "the DT\nsaw NN\n\nI PRP\nsaw VB\n\n" * 3
    train(write("tags.txt", tokens))
    write("new.txt", "the PRP\nsaw ?\n\nI DT|NN\nsaw NN\n\n")

    def last_column(**options) -> list[str]:
        predict(PredictOptions(model="m", data="new.txt", output="o", quiet=True, **options))
        return [line.split()[-1] for line in Path("o").read_text().split("\n") if line]

    assert last_column()[::2] == ["DT", "PRP"]
    first, _, third, fourth = last_column(known="-1")
    assert (first, third in {"DT", "NN"}, fourth) == ("PRP", True, "NN")
    with pytest.raises(FileFormatError, match="there is no column '7'"):
        predict(PredictOptions(model="m", data="new.txt", known="7", quiet=True))


def test_known_labels_of_json_lines() -> None:
    samples = [(["the", "saw"], [1, 2]), (["I", "saw"], [3, 4])] * 3
    rows = [{"nodes": [{"w": w} for w in words], "labels": y} for words, y in samples]
    train(write("g.jsonl", "\n".join(map(json.dumps, rows))))
    new = {"nodes": [{"w": "that"}, {"w": "saw"}], "given": [[1, 3], 4]}
    write("new.jsonl", json.dumps(new))
    predict(PredictOptions(model="m", data="new.jsonl", output="o", known="given", quiet=True))
    assert json.loads(Path("o").read_text())["predicted"] == [3, 4]
    with pytest.raises(FileFormatError, match="no list 'labels'"):
        predict(PredictOptions(model="m", data="new.jsonl", known="labels", quiet=True))


def test_labels_known_in_part_in_columns_and_json_lines() -> None:
    sentences = "the DT\nsaw ?\n\nI PRP\nsaw VB|NN\n\nthe DT\nsaw NN\n\nI ?\nsaw VB\n\n"
    train(write("part.txt", sentences), partial=True)
    model = robustruct.load("m")
    assert model.classes_.tolist() == ["DT", "NN", "PRP", "VB"]
    assert model.status_.name == "LOCAL_OPTIMUM"
    rows = [
        {"nodes": [{"w": "the"}, {"w": "saw"}], "labels": [1, None]},
        {"nodes": [{"w": "I"}, {"w": "saw"}], "labels": [3, [2, 4]]},
        {"nodes": [{"w": "I"}, {"w": "saw"}], "labels": [3, 4]},
        {"nodes": [{"w": "a"}, {"w": "saw"}], "labels": [1, 2]},
    ]
    train(write("g.jsonl", "\n".join(map(json.dumps, rows))))
    assert robustruct.load("m").classes_.tolist() == [1, 2, 3, 4]
    with pytest.raises(FileFormatError, match="line 1: a label is known in part"):
        evaluate("g.jsonl")
