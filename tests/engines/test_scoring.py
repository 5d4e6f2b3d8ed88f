"""Shards are labelled and evaluated as one file, or one list of samples, would be."""

import gzip
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from robustruct import AGM
from robustruct.cli.evaluate import EvaluateOptions
from robustruct.cli.evaluate import evaluate as evaluated
from robustruct.cli.predict import PredictOptions, predict
from robustruct.engines import ShardedData
from robustruct.errors import InvalidInputError
from robustruct.evaluation import evaluate_shards, predict_shards
from robustruct.formats.corpus import read_corpus
from robustruct.formats.recognise import stored
from robustruct.losses import CostMatrix
from robustruct.metrics import confusion, mean_loss, span_scores

SENTENCES = ["the D\ncat N\nsleeps V\n", "a D\ndog N\n", "dogs N\nbark V\n", "cats N\n"]


class Elsewhere:
    """Runs what it is sent as another process would: from bytes, and answers in bytes."""

    def map(self, function, items):
        sent = [pickle.dumps((function, item)) for item in items]
        done = []
        for work in sent:
            remote, item = pickle.loads(work)
            done.append(pickle.loads(pickle.dumps(remote(item))))
        return done


ENGINES = pytest.mark.parametrize("engine", [None, Elsewhere()], ids=["here", "elsewhere"])


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, text: str) -> str:
    Path(name).parent.mkdir(exist_ok=True, parents=True)
    content = text.encode()
    Path(name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return name


def read(name: str) -> str:
    content = Path(name).read_bytes()
    return (gzip.decompress(content) if name.endswith(".gz") else content).decode()


def evaluate(data: str) -> dict:
    return evaluated(EvaluateOptions(model="model", data=data, quiet=True))


def trained(name: str, text: str, **options) -> AGM:
    """A model that knows how to read files like this one, stored as the command stores it."""
    corpus = read_corpus(write(name, text))
    model = AGM(alpha=0.05, random_state=0, **options).fit(corpus.X, corpus.y, **corpus.weights)
    model.input_ = stored(corpus.format)
    model.save("model")
    return model


# ---------------------------------------------------------------------------------- prediction


@ENGINES
def test_columns_are_labelled_as_the_command_does(folder, engine):
    model = trained("train.conll", "\n".join(SENTENCES))
    parts = {"in/p0.conll": SENTENCES[0], "in/p1.conll.gz": "\n".join(SENTENCES[1:]), "in/p2": ""}
    for name, text in parts.items():
        write(name, text)
    data = ShardedData.from_files("in/*")
    written = predict_shards(model, data, "out", engine)
    assert [Path(name).relative_to(folder).as_posix() for name in written] == [
        "out/p0.conll",
        "out/p1.conll.gz",
        "out/p2",
    ]
    for name in list(parts)[:2]:
        predict(PredictOptions(model="model", data=name, output="expected" + name[-3:], quiet=True))
        assert read(name.replace("in/", "out/")) == read("expected" + name[-3:])
    assert read("out/p0.conll") == "the D D\ncat N N\nsleeps V V\n\n"
    assert read("out/p2") == ""
    assert not list(Path("out").glob("*.tmp"))


def test_files_without_labels_and_names_that_meet(folder):
    model = trained("train.conll", "\n".join(SENTENCES))
    write("a/part", "dogs\nbark\n")
    write("b/part", "the\n")
    form = read_corpus("train.conll").format
    data = ShardedData.from_files("*/part", form=form)
    predict_shards(model, data, "out")
    assert read("out/a/part") == "dogs N\nbark V\n\n"
    assert read("out/b/part") == "the D\n\n"


@ENGINES
def test_parquet_keeps_its_columns_and_gets_one_more(folder, engine):
    pa = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow (robustruct[dask])")
    pq = pytest.importorskip("pyarrow.parquet")
    rows = [
        {"nodes": [{"w": "a"}, {"w": "b"}][: 1 + i % 2], "labels": [1, 2][: 1 + i % 2], "id": i}
        for i in range(4500)
    ]
    Path("in").mkdir()
    for number in range(2):
        pq.write_table(pa.Table.from_pylist(rows[number * 3000 :][:3000]), f"in/{number}.parquet")
    pq.write_table(pa.Table.from_pylist(rows[:1])[:0], "in/2.parquet")
    corpus = read_corpus("in/0.parquet")
    model = AGM(alpha=0.05, random_state=0).fit(corpus.X[:50], corpus.y[:50])
    data = ShardedData.from_files("in/*.parquet")
    predict_shards(model, data, "out", engine)
    found = [pq.read_table(f"out/{number}.parquet") for number in range(3)]
    assert [table.num_rows for table in found] == [3000, 1500, 0]
    assert found[2].schema == found[0].schema
    assert found[0].schema.field("predicted").type == pa.list_(pa.int64())
    for number, table in enumerate(found):
        original = pq.read_table(f"in/{number}.parquet")
        assert table.drop_columns("predicted").equals(original)
        assert table["predicted"].to_pylist() == original["labels"].to_pylist()
    # Labelled again, the column takes the place of the old one.
    again = predict_shards(model, ShardedData.from_files("out/*"), "again")
    assert pq.read_table(again[0]).equals(found[0])


def test_the_command_takes_parquet_for_json_lines(folder):
    pa = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow (robustruct[dask])")
    pq = pytest.importorskip("pyarrow.parquet")
    rows = [{"nodes": [["a"], ["b"]], "labels": ["A", "B"], "weight": 2.0}, {"nodes": [["b"]]}]
    text = "".join(json.dumps({"labels": ["B"], **row}) + "\n" for row in rows)
    trained("train.jsonl", text)
    pq.write_table(pa.Table.from_pylist([{"labels": ["B"], **row} for row in rows]), "rows.parquet")
    assert evaluate("rows.parquet") == {
        **evaluate("train.jsonl"),
        "data": "rows.parquet",
    }
    options = PredictOptions(model="model", data="rows.parquet", output="out.jsonl", quiet=True)
    assert predict(options) == {"n_samples": 2}
    answers = [json.loads(line) for line in read("out.jsonl").splitlines()]
    assert [answer["predicted"] for answer in answers] == [["A", "B"], ["B"]]
    assert [answer.get("weight") for answer in answers] == [2.0, None]


@ENGINES
def test_samples_in_memory_become_json_lines(folder, engine):
    X, y = [np.eye(2), np.eye(2)[:1], np.eye(2)[1:]], [[3, 4], [3], [4]]
    model = AGM(alpha=0.05, random_state=0).fit(X, y)
    data = ShardedData.from_samples(X, y, 4)
    written = predict_shards(model, data, "out", engine)
    assert [Path(name).name for name in written] == [f"shard-{i}.jsonl" for i in range(4)]
    for shard, name in zip(data, written, strict=True):
        answers = [json.loads(line)["predicted"] for line in read(name).splitlines()]
        assert answers == [list(labels) for labels in shard.read().y]


def test_the_data_are_not_overwritten(folder):
    model = trained("in/train.conll", "\n".join(SENTENCES))
    with pytest.raises(InvalidInputError, match="holds the data themselves"):
        predict_shards(model, ShardedData.from_files("in/*"), "in")
    assert read("in/train.conll") == "\n".join(SENTENCES)


# ---------------------------------------------------------------------------------- evaluation


def assert_like_the_command(found, expected) -> None:
    for field in ("n_samples", "n_nodes", "accuracy", "whole_samples"):
        assert getattr(found, field) == pytest.approx(expected[field]), field
    assert found.loss == pytest.approx(expected["loss"])
    assert found.labels.tolist() == expected["labels"]
    assert found.confusion.tolist() == expected["confusion"]
    assert [d.f1 for d in found.by_label.values()] == pytest.approx(
        [d["f1"] for d in expected["by_label"].values()]
    )


@ENGINES
def test_columns_are_evaluated_as_one_file_is(folder, engine):
    """With a label that training has not seen, in one shard only, and an empty shard."""
    model = trained(
        "train.conll",
        "\n".join(SENTENCES),
        loss=CostMatrix([[0, 1, 4], [2, 0, 1], [1, 5, 0]], labels=["D", "N", "V"]),
    )
    test = ["cat V\nthe D\n\nthe N\n", "", "dogs Q\nbark V\n\nsleeps D\n"]
    for number, text in enumerate(test):
        write(f"in/{number}.conll", text)
    data = ShardedData.from_files("in/*")
    found = evaluate_shards(model, data, engine)
    write("all.conll", "\n".join(test))
    expected = evaluate("all.conll")
    assert_like_the_command(found, expected)
    assert len(expected["notes"]) == 1
    # The same from the definition: a label that training never saw is the dearest mistake.
    predicted = model.predict(read_corpus("all.conll").X)
    truth = [["V", "D"], ["N"], ["Q", "V"], ["D"]]
    pairs = [
        (t, p) for ts, ps in zip(truth, predicted, strict=True) for t, p in zip(ts, ps, strict=True)
    ]
    place = {label: a for a, label in enumerate("DNV")}
    costs = [5.0 if t == "Q" else model.cost_[place[t], place[p]] for t, p in pairs]
    assert found.loss == pytest.approx(np.mean(costs))
    np.testing.assert_array_equal(found.confusion, confusion(truth, predicted, list("DNQV")))
    hamming = evaluate_shards(model, data, loss="hamming")
    assert hamming.loss == pytest.approx(mean_loss(truth, predicted)) == 1 - hamming.accuracy


@ENGINES
def test_samples_in_memory_are_evaluated_with_their_weights(engine):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(int(n), 2)) for n in rng.integers(1, 5, size=30)]
    y = [(rows @ [1.0, 2.0] + rng.normal(size=len(rows)) > 0).astype(int) * 3 for rows in X]
    weight = rng.uniform(size=30)
    node_weight = [rng.uniform(size=len(rows)) for rows in X]
    model = AGM(loss="absolute", alpha=0.05, random_state=0).fit(X[:20], y[:20])
    data = ShardedData.from_samples(X, y, 4, sample_weight=weight, node_weight=node_weight)
    found = evaluate_shards(model, data, engine)
    assert found.loss == pytest.approx(-model.score(X, y, weight, node_weight))
    assert 0 < found.loss < 3
    predicted = model.predict(X)
    right = [bool((a == b).all()) for a, b in zip(predicted, y, strict=True)]
    assert found.whole_samples == pytest.approx(np.mean(right))
    np.testing.assert_array_equal(found.confusion, confusion(y, predicted))


def test_spans_add_up(folder):
    text = ["Ann B-PER\nLee I-PER\nruns O\n", "Bob B-PER\nin O\nRio B-LOC\n", "so O\n"]
    model = trained("train.conll", "\n".join(text))
    test = ["Ann B-PER\nruns O\n\nBob B-LOC\nLee O\n", "so O\nin O\n", "Rio B-LOC\n"]
    for number, part in enumerate(test):
        write(f"in/{number}.conll", part)
    found = evaluate_shards(model, ShardedData.from_files("in/*"))
    corpora = [read_corpus(f"in/{number}.conll") for number in range(3)]
    truth = [labels for corpus in corpora for labels in corpus.y]
    predicted = model.predict([x for corpus in corpora for x in corpus.X])
    overall, by_type = span_scores(truth, predicted)
    assert found.spans == overall
    assert found.spans_by_type == by_type
    write("in/3.conll", "so Q\n")
    assert evaluate_shards(model, ShardedData.from_files("in/*")).spans is None


def test_numbers_in_text_are_the_models_numbers(folder):
    model = trained("train.conll", "a 1\nb 2\n\nb 2\na 1\n", loss="absolute")
    write("in/0.conll", "a 1\nb 2\n")
    write("in/1.conll", "a 4\n")
    found = evaluate_shards(model, ShardedData.from_files("in/*"))
    assert found.loss == pytest.approx(1.0)
    assert found.labels.tolist() == [1, 2, 4]


def test_nothing_to_evaluate_and_wrong_lengths_are_refused():
    X, y = [np.eye(2)], [[0, 1]]
    model = AGM(alpha=0.1, random_state=0).fit(X, y)
    with pytest.raises(InvalidInputError, match="no sample to evaluate"):
        evaluate_shards(model, ShardedData.from_samples([], [], 2))
    with pytest.raises(InvalidInputError, match=r"shard 0: y\[0\] has 1 labels but sample 0 has 2"):
        evaluate_shards(model, ShardedData.from_samples(X, [[0]], 1))
