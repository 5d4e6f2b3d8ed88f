"""Shards: files of every format and samples in memory, read where they are needed."""

import gzip
import json
import pickle
import sys
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from robustruct import AGM, CRF, Graph
from robustruct.errors import (
    FileFormatError,
    InvalidInputError,
    MissingDataError,
    MissingExtraError,
)
from robustruct.formats.corpus import read_corpus
from robustruct.formats.parquet import FIELDS
from robustruct.formats.shards import ShardedData
from robustruct.formats.text import Lines
from robustruct.objectives import build
from robustruct.objectives.build import in_memory, summarise

pa = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow (robustruct[dask])")
pq = pytest.importorskip("pyarrow.parquet")

ROWS = [
    {"nodes": [{"w": "the"}, {"w": "cat"}], "labels": ["D", "N"]},
    {"nodes": [{"w": "dogs", "len": 4}], "labels": ["N"], "weight": 2.0, "weights": [0.5]},
    {
        "nodes": [{"w": "a"}, {"w": "b"}, {"w": "c"}],
        "edges": [[0, 1], [2, 0]],
        "edge_features": [{"e": "x"}, {"e": "y"}],
        "labels": ["X", "D", "N"],
    },
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, text: str) -> None:
    content = text.encode()
    Path(name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)


def json_lines(rows: list) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def plan_of(data: ShardedData, model=None):
    shards = [shard.read() for shard in pickle.loads(pickle.dumps(data))]
    summary, *others = [summarise(shard, hashed=data.hashed) for shard in shards]
    for other in others:
        summary = summary.merged(other)
    plan = build.plan_of(model or AGM(), summary, data.min_count)
    return plan, [plan.assembled(shard) for shard in shards]


# ------------------------------------------------------------------------------------- files

CONLL = "the D\ncat N\n\n", "", "dogs N\nbark V\n\na D\n"


@pytest.mark.parametrize("ending", ["conll", "txt", "conll.gz"])
def test_files_are_shards_in_the_order_of_their_names(folder, ending):
    for number in (2, 0, 1):
        write(f"part-{number}.{ending}", CONLL[number])
    data = ShardedData.from_files("part-*")
    assert [Path(shard.name).name for shard in data] == [f"part-{i}.{ending}" for i in range(3)]
    assert len(data) == 3
    corpora = [shard.read() for shard in pickle.loads(pickle.dumps(list(data)))]
    assert [len(corpus) for corpus in corpora] == [1, 0, 2]
    assert [labels.tolist() for labels in corpora[2].y] == [["N", "V"], ["D"]]
    plan, problems = plan_of(data)
    assert plan.classes.tolist() == ["D", "N", "V"]
    assert problems[1] is None
    # The same samples from one file: the same columns, and shares that sum to 1.
    write("whole.conll", CONLL[0] + CONLL[2])
    whole = read_corpus("whole.conll")
    in_one, problem = in_memory(AGM(), whole.X, whole.y)
    assert plan.space.state() == in_one.space.state()
    np.testing.assert_allclose(
        np.concatenate([problems[0].share, problems[2].share]), problem.share
    )


def test_the_format_of_the_first_filled_file_holds_for_all(folder):
    write("a", "\n\n")
    write("b", "N\tw=cat\nV\tw=sleeps\n")
    write("c", "D N\nx N\n")
    data = ShardedData.from_files(["c", "b", "a"])
    assert data[0].read().format.name == "crfsuite"
    with pytest.raises(FileFormatError, match="c, line 1"):
        ShardedData.from_files(["a", "b", "c"], form="json-lines")[2].read()
    write("c", "just one column\n")
    write("b", "D N V\n")
    data = ShardedData.from_files(["b", "c", "d"][:2], form="conll", label_column=0)
    assert data[0].read().y[0].tolist() == ["D"]


def test_json_lines_with_weights_and_graphs(folder):
    write("part-0.jsonl", json_lines(ROWS[:2]))
    write("part-1.jsonl.gz", json_lines(ROWS[:1] * 7))
    data = ShardedData.from_files("part-*.jsonl*", hashed=2**10)
    plan, (first, second) = plan_of(data)
    np.testing.assert_allclose(first.share, [0.1, 0.2])
    np.testing.assert_allclose(second.share, np.full(7, 0.1))
    assert first.node_weight.tolist() == [1.0, 1.0, 0.5]
    assert plan.space.n_node_features == 2**10 + 1


def test_digits_are_numbers_only_if_all_shards_agree(folder):
    write("a.conll", "w 1\nv 2\n")
    write("b.conll", "w 1\nv 10\n")
    assert plan_of(ShardedData.from_files("*.conll"))[0].classes.tolist() == [1, 2, 10]
    write("b.conll", "w 1\nv x\n")
    plan, problems = plan_of(ShardedData.from_files("*.conll"))
    assert plan.classes.tolist() == ["1", "2", "x"]
    assert [problem.labels.tolist() for problem in problems] == [[0, 1], [0, 2]]


def test_bad_files_are_named(folder):
    with pytest.raises(MissingDataError, match="no file matches 'part-\\*'"):
        ShardedData.from_files("part-*")
    write("part-0.conll", "a D\n")
    with pytest.raises(MissingDataError, match=r"no file matches 'none.conll'"):
        ShardedData.from_files(["part-0.conll", "none.conll"])
    with pytest.raises(InvalidInputError, match="no file is named"):
        ShardedData.from_files([])
    write("empty-0", "")
    write("empty-1", "\n")
    with pytest.raises(FileFormatError, match="as are all 2 files"):
        ShardedData.from_files("empty-*")
    write("part-1.conll", "a b D\n")
    with pytest.raises(FileFormatError, match=r"part-1.conll, line 1: 3 columns instead of 2"):
        ShardedData.from_files("part-*")[1].read()
    write("one.jsonl", json_lines(ROWS[:1]))
    write("two.jsonl", json_lines([{"nodes": [[1.0], [2.0]], "labels": ["D", "N"]}]))
    with pytest.raises(
        InvalidInputError, match=r"strings in .*one.jsonl, but a dense array in .*two"
    ):
        plan_of(ShardedData.from_files(["one.jsonl", "two.jsonl"]))


def test_a_name_that_looks_like_a_pattern_is_a_file_if_there_is_one(folder):
    write("a[1].conll", "a D\n")
    write("a1.conll", "b N\n")
    (only,) = ShardedData.from_files("a[1].conll")
    assert Path(only.name).name == "a[1].conll"


@pytest.mark.parametrize("number", [0, -1, 1.5, "many"])
def test_options_are_checked(folder, number):
    write("a.conll", "a D\n")
    with pytest.raises(InvalidInputError, match="min_count="):
        ShardedData.from_files("a.conll", min_count=number)
    with pytest.raises(InvalidInputError, match="n_shards="):
        ShardedData.from_samples([[["a"]]], [["A"]], number)
    with pytest.raises(InvalidInputError, match="hashed="):
        ShardedData.from_files("a.conll", hashed=number)
    with pytest.raises(InvalidInputError, match="choose one of the two"):
        ShardedData.from_files("a.conll", hashed=8, min_count=2)


# ------------------------------------------------------------------------------------- Parquet


def table(rows: list, **columns) -> "pa.Table":
    return pa.Table.from_pylist(rows, pa.schema(columns) if columns else None)


def content(sample):
    """Comparable form of a sample."""
    if not isinstance(sample, Graph):
        return [sample.tolist() if isinstance(sample, np.ndarray) else sample]
    return [sample.node_features, sample.edges.tolist(), sample.edge_features]


def test_parquet_rows_are_json_lines(folder):
    """Written as structs, in which every row has every field, absent ones being null."""
    rows = [{field: row.get(field) for field in FIELDS} for row in ROWS]
    pq.write_table(table(rows), "rows.parquet", row_group_size=2)
    write("rows.jsonl", json_lines(ROWS))
    ours, theirs = read_corpus("rows.parquet"), read_corpus("rows.jsonl")
    assert [content(x) for x in ours.X] == [content(x) for x in theirs.X]
    assert [labels.tolist() for labels in ours.y] == [labels.tolist() for labels in theirs.y]
    np.testing.assert_array_equal(ours.sample_weight, theirs.sample_weight)
    for a, b in zip(ours.node_weight, theirs.node_weight, strict=True):
        np.testing.assert_array_equal(a, b)
    assert ours.format == theirs.format
    assert ours.lines == [1, 2, 3]


def test_parquet_holds_numbers_lists_of_strings_and_maps(folder):
    features = {
        "numbers": (pa.list_(pa.list_(pa.float32())), [[0.5, 1.0], [2.0, 3.0]]),
        "strings": (pa.list_(pa.list_(pa.string())), [["a", "b"], []]),
        "maps": (pa.list_(pa.map_(pa.string(), pa.float64())), [{"a": 1.0}, {"né": 2.5}]),
    }
    for name, (kind, nodes) in features.items():
        rows = [{"nodes": nodes, "labels": [3, 4], "other": b"\x00", "weight": None}]
        schema = {"nodes": kind, "labels": pa.list_(pa.int8()), "other": pa.binary()}
        pq.write_table(table(rows, **schema, weight=pa.float64()), f"{name}.parquet")
        corpus = read_corpus(f"{name}.parquet")
        assert content(corpus.X[0])[0] == nodes
        assert corpus.y[0].tolist() == [3, 4]
        assert corpus.sample_weight is None


def test_many_rows_over_several_batches(folder):
    rows = [{"nodes": [[f"w{i}"]], "labels": [str(i % 3)]} for i in range(5000)]
    for number in range(2):
        pq.write_table(table(rows[number::2]), f"part-{number}.parquet")
    pq.write_table(table(rows[:1])[:0], "part-2.parquet")
    plan, problems = plan_of(ShardedData.from_files("part-*.parquet"))
    assert problems[2] is None
    assert plan.space.n_node_features == 5001
    assert plan.classes.tolist() == ["0", "1", "2"]  # text in the table stays text
    assert problems[1].labels.tolist() == [i % 3 for i in range(5000)][1::2]


def test_bad_parquet_files_are_named(folder, monkeypatch):
    pq.write_table(pa.table({"words": [["a"]], "tags": [["A"]]}), "columns.parquet")
    with pytest.raises(FileFormatError, match=r'columns.parquet: it has no column "nodes"'):
        read_corpus("columns.parquet")
    pq.write_table(pa.table({"nodes": [[["a"]]]}), "unlabelled.parquet")
    with pytest.raises(FileFormatError, match=r'unlabelled.parquet, line 1: "labels" is missing'):
        read_corpus("unlabelled.parquet")
    whole = Path("unlabelled.parquet").read_bytes()
    Path("cut.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileFormatError, match=r"cut.parquet: the Parquet file is damaged"):
        read_corpus("cut.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with (
        Lines("unlabelled.parquet") as lines,
        pytest.raises(MissingExtraError, match=r"install robustruct\[tables\]"),
    ):
        lines.head(1)


# ------------------------------------------------------------------------------------- memory


def words(n: int):
    return [[[f"w{i}"]] * (i % 3 + 1) for i in range(n)], [["A"] * (i % 3 + 1) for i in range(n)]


def test_the_same_seed_makes_the_same_shards():
    X, y = words(20)
    weight, node_weight = np.arange(20.0), [np.full(len(labels), i) for i, labels in enumerate(y)]

    def dealt(seed):
        data = ShardedData.from_samples(
            X, y, 3, sample_weight=weight, node_weight=node_weight, random_state=seed
        )
        return [[x[0][0] for x in shard.read().X] for shard in data], data

    first, data = dealt(1)
    assert dealt(1)[0] == first
    assert dealt(2)[0] != first
    assert sorted(chain.from_iterable(first)) == sorted(x[0][0] for x in X)
    assert [len(shard) for shard in first] == [7, 7, 6]
    for shard in data:
        corpus = shard.read()
        numbers = [int(x[0][0][1:]) for x in corpus.X]
        assert corpus.sample_weight.tolist() == numbers
        assert [w.tolist() for w in corpus.node_weight] == [[i] * (i % 3 + 1) for i in numbers]


def test_more_shards_than_samples_leave_some_empty():
    X, y = words(3)
    data = ShardedData.from_samples(X, y, 5)
    assert sorted(len(shard.read()) for shard in data) == [0, 0, 1, 1, 1]
    _, problems = plan_of(data)
    assert sum(problem is None for problem in problems) == 2
    assert len(data[1:3]) == 2
    assert [shard.name for shard in data] == [f"shard {i}" for i in range(5)]


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, sp.coo_array])
def test_rows_of_an_array_are_samples_of_one_node(make):
    rows, labels = np.random.default_rng(0).normal(size=(7, 3)), list("abababa")
    data = ShardedData.from_samples(make(rows), labels, 2, node_weight=np.arange(7.0))
    plan, problems = plan_of(data)
    assert plan.space.n_node_features == 4
    found = np.concatenate([problem.node_weight for problem in problems])
    assert sorted(found.tolist()) == list(range(7))
    order = found.astype(int)
    assert np.concatenate([p.labels for p in problems]).tolist() == (order % 2).tolist()


def test_lists_of_different_lengths_are_refused():
    X, y = words(3)
    for options in ({"y": y[:2]}, {"y": y, "sample_weight": [1.0]}, {"y": y, "node_weight": [[1]]}):
        with pytest.raises(InvalidInputError, match="X has 3 samples but"):
            ShardedData.from_samples(X, n_shards=2, **options)


@pytest.mark.parametrize("field", ["y", "sample_weight", "node_weight"])
@pytest.mark.parametrize(
    "value", [5, np.array(3.0), {"a": 1, "b": 2}, {1, 2}], ids=["number", "array", "dict", "set"]
)
def test_what_is_no_list_is_refused(field, value):
    given = {"y": [[0], [1]], field: value}
    with pytest.raises(InvalidInputError, match=f"{field} is .*; give a list or array with an"):
        ShardedData.from_samples([np.eye(1), np.eye(1)], n_shards=2, **given)


@pytest.mark.parametrize("value", [["a", "b"], [[1.0], [2.0]], [1.0, None]])
def test_weights_of_samples_that_are_no_numbers_are_refused(value):
    given = [np.eye(1), np.eye(1)], [[0], [1]], 2
    with pytest.raises(InvalidInputError, match="sample_weight"):
        CRF().fit(ShardedData.from_samples(*given, sample_weight=value))
