"""Readers and writers of files against what nobody would write: success, or an error of ours."""

from __future__ import annotations

import gzip
import io
import json
import os
import stat
import threading

import numpy as np
import pytest

import robustruct
from robustruct import CRF
from robustruct.errors import FileFormatError, InvalidInputError, MissingDataError
from robustruct.formats import text
from robustruct.formats.conll import sentences
from robustruct.formats.container import ContainerKind, read_container, write_container
from robustruct.formats.corpus import read_corpus
from robustruct.formats.costs import read_costs
from robustruct.formats.output import is_special, opened_output
from robustruct.formats.shards import ShardedData
from robustruct.formats.templates import Template
from robustruct.formats.text import Lines


@pytest.fixture
def write(tmp_path):
    def written(content: str | bytes, name: str = "data") -> str:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return written


@pytest.mark.parametrize("content", ["a O\rb P\r", "a\tO\rb\tP\r\r", "a O\rb P\r\n"])
@pytest.mark.parametrize("name", ["data", "data.conll", "data.crfsuite", "data.jsonl"])
def test_lines_that_end_with_a_carriage_return_alone_are_refused(write, content, name):
    """They would be one sample of one node."""
    with pytest.raises(
        FileFormatError, match=r"line 1: its lines end with a carriage return .* tr"
    ):
        read_corpus(write(content, name))


def test_lines_that_end_as_on_windows_are_read(write):
    assert [len(labels) for labels in read_corpus(write("a O\r\nb P\r\n\r\nc O\r\n")).y] == [2, 1]


# ------------------------------------------------------------------------- costs


def test_empty_lines_before_costs_are_passed_over(write):
    table = read_costs(write("\n \n,A,B\n\nA,0,1\nB,2,0\n"))
    assert table.matrix(["A", "B"]).tolist() == [[0, 1], [2, 0]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (",A,B\rA,0,1\rB,1,0\r", "line 1: its lines end with a carriage return alone"),
        (",A\n" + "x" * 200_000 + ",0\n", "line 2: this is not CSV (field larger"),
        ("true\n", "line 1: no label is named"),
        (",A\nA," + "9" * 400 + "\n", "line 2: the cost '999"),
        ("\n \n", "the file is empty"),
    ],
    ids=["CR only", "huge field", "corner only", "400 digits", "blank"],
)
def test_costs_that_are_none(write, content, message):
    with pytest.raises(FileFormatError) as caught:
        read_costs(write(content))
    assert message in str(caught.value)
    assert len(str(caught.value)) < 500


# ------------------------------------------------------------------------- JSON


def graph(**changes: object) -> str:
    return json.dumps({"nodes": [[1.0], [2.0]], "labels": ["A", "B"], **changes})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"nodes": ' + "[" * 100_000, "nested too deeply"),
        (graph(weight=1).replace('"weight": 1', '"weight": 1' + "0" * 5000), "a number cannot be"),
        (graph(nodes=[[10**400], [1]]), "too large for a float"),
        (graph(labels=[10**400, 1]), '"labels" holds 1000'),
        (graph(weight=10**400), '"weight" is 1000'),
        (graph(weights=[10**400, 1]), '"weights" holds 1000'),
        (graph(weights=[float("nan"), 1]), '"weights" holds nan for node 0'),
        (graph(weight=float("inf")), '"weight" is inf'),
        (graph(labels=["A", "A\0"]), r"'A\x00' for node 1"),
        (graph(nodes=[1, {"a": 1}]), '"nodes" holds 1 at place 0'),
        (graph(edges=[[0, 10**30]]), "node indices must be integers"),
    ],
    ids=lambda value: value[:40] if value.isascii() and len(value) < 60 else "line",
)
@pytest.mark.parametrize("name", ["data.jsonl", "data"])
def test_json_that_is_no_sample(write, line, message, name):
    with pytest.raises(FileFormatError) as caught:
        read_corpus(write(line + "\n", name))
    assert "line 1: " in str(caught.value)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 500


def test_deep_features_are_refused_in_training():
    nested: dict = {"a": 1}
    for _ in range(5000):
        nested = {"a": nested}
    with pytest.raises(InvalidInputError, match="nested too deeply"):
        CRF(alpha=1.0).fit([[nested]], [["A"]])


# ------------------------------------------------------------------------- columns and templates


@pytest.mark.parametrize("digits", [19, 400, 5000])
def test_labels_of_many_digits_stay_texts(write, digits):
    label = "9" * digits
    assert read_corpus(write(f"a {label}\nb 1\n")).y[0].tolist() == [label, "1"]


def test_a_text_in_one_line_is_no_token(write):
    words = " ".join(["word"] * 4000)
    with pytest.raises(FileFormatError, match="line 1: there are 4000 columns"):
        read_corpus(write(f"{words}\n"))
    chosen = read_corpus(write(f"{words}\n"), columns=[0, 3])
    assert len(chosen.X[0][0]) > 10


@pytest.mark.parametrize(
    "macro",
    ["%x[-300000000,0]", f"%x[{2**70},0]", f"%x[0,{'9' * 5000}]", f"%prefix[0,0,{'9' * 5000}]"],
    ids=["row", "2**70", "column", "prefix"],
)
def test_a_template_does_not_count_beyond_a_million(macro):
    with pytest.raises(FileFormatError, match=r"line 1: .* has a number beyond 999999"):
        Template.parse(f"U0:{macro}\n")


@pytest.mark.parametrize("row", [-900_000, 900_000, -3, 3, -2, 2, 1])
def test_marks_far_beyond_a_sentence(row, write):
    with Lines(write("a\nb\nc\n\nd\n")) as lines:
        read = list(sentences(lines, [1]))
    found = Template.parse(f"U:%x[{row},0]\n").attributes(read)
    for rows, item in zip(read, found, strict=True):
        for i in range(len(rows)):
            at = i + row
            expected = f"_B-{-at}" if at < 0 else f"_B+{at - len(rows) + 1}"
            if 0 <= at < len(rows):
                expected = rows[at][0]
            assert item[i] == [f"U:{expected}"]
    assert len(found[0].names) <= 4


# ------------------------------------------------------------------------- Parquet


def bad_text(pa):
    offsets = pa.py_buffer(np.array([0, 2], np.int32))
    words = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(b"\xff\xfe")])
    ends = pa.py_buffer(np.array([0, 1], np.int32))
    return pa.Array.from_buffers(pa.list_(pa.string()), 1, [None, ends], children=[words])


def test_parquet_that_python_cannot_take(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    labels = pa.array([["A"]])
    twice = pa.array([[[("a", 1.0), ("a", 2.0)]]], pa.list_(pa.map_(pa.string(), pa.float64())))
    for nodes, message in ((bad_text(pa), "not UTF-8"), (twice, "a map has a key twice")):
        table = pa.Table.from_arrays([nodes, labels], names=["nodes", "labels"])
        parquet.write_table(table, tmp_path / "data.parquet")
        with pytest.raises(FileFormatError, match=message):
            read_corpus(tmp_path / "data.parquet")
    table = pa.Table.from_arrays([labels, labels], names=["nodes", "nodes"])
    parquet.write_table(table, tmp_path / "data.parquet")
    with pytest.raises(FileFormatError, match='several columns "nodes"'):
        read_corpus(tmp_path / "data.parquet")


# ------------------------------------------------------------------------- files as such


@pytest.mark.parametrize(
    "use",
    [
        lambda path: read_corpus(path),
        lambda path: read_costs(path),
        lambda path: ShardedData.from_files(path),
        lambda path: robustruct.load(path),
        lambda path: CRF(alpha=1.0).fit([[["a"]], [["b"]]], [["x"], ["y"]]).save(path),
        lambda path: CRF(alpha=1.0).fit([[["a"]], [["b"]]], [["x"], ["y"]], checkpoint=path),
    ],
    ids=["corpus", "costs", "shards", "load", "save", "checkpoint"],
)
def test_a_zero_character_is_in_no_name(use):
    with pytest.raises(InvalidInputError, match=r"'a\\x00b' cannot name a file"):
        use("a\0b")


def test_a_line_without_end_does_not_fill_the_memory(write, monkeypatch):
    monkeypatch.setattr(text, "LONGEST", 1000)
    packed = gzip.compress(b"word O\n" + b"a" * 10_000)
    with pytest.raises(FileFormatError, match="line 2: the line is longer than 1,000 bytes"):
        read_corpus(write(packed))


def test_long_lines_are_not_all_read_ahead(write, monkeypatch):
    monkeypatch.setattr(text, "AHEAD", 100)
    with Lines(write("\n".join(["x" * 60] * 50))) as lines:
        assert len(lines.head(20)) == 2
        assert len(list(lines)) == 50


def test_what_the_system_cannot_read_is_our_error(monkeypatch, write):
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(MissingDataError, match="standard input is closed"):
        Lines("-")

    class Broken(io.BytesIO):
        def peek(self, size=0):
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(text, "_opened", lambda path: Broken())
    with pytest.raises(FileFormatError, match="it cannot be read: Input/output error"):
        Lines("data")


@pytest.mark.parametrize("encoding", ["undefined", "a\0b", "rot13", "utf-16"])
def test_encodings_that_are_none(write, encoding):
    with pytest.raises(InvalidInputError):
        read_corpus(write("a b\n"), encoding=encoding)


# ------------------------------------------------------------------------- writing

KIND = ContainerKind("test", 1, "this test")


def write_both(path) -> None:
    with opened_output(str(path)) as stream:
        stream.write(b"labels")


def write_model(path) -> None:
    write_container(path, KIND, {"a": 1}, {"x": np.arange(3.0)})


posix = pytest.mark.skipif(os.name == "nt", reason="Windows has neither pipes nor modes like these")


@posix
@pytest.mark.parametrize("write_to", [write_both, write_model])
@pytest.mark.parametrize("through_link", [False, True])
def test_a_pipe_stays_a_pipe(tmp_path, write_to, through_link):
    pipe = path = tmp_path / "pipe"
    os.mkfifo(pipe)
    if through_link:
        path = tmp_path / "link"
        path.symlink_to(pipe)
    assert is_special(path)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_to(path)
    reader.join(10)
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)
    assert os.path.islink(path) == through_link
    if write_to is write_both:
        assert received == [b"labels"]
    else:
        copy = tmp_path / "copy"
        copy.write_bytes(received[0])
        assert read_container(copy, KIND)[0] == {"a": 1}
    assert not list(tmp_path.glob("*.tmp"))


@posix
@pytest.mark.parametrize("write_to", [write_both, write_model])
def test_a_device_stays_a_device(write_to):
    import pty

    leader, follower = pty.openpty()
    name = os.ttyname(follower)
    before = os.stat(name)
    write_to(name)
    assert os.read(leader, 6)
    after = os.stat(name)
    assert (after.st_ino, after.st_rdev) == (before.st_ino, before.st_rdev)
    assert stat.S_ISCHR(after.st_mode)
    os.close(leader)
    os.close(follower)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs descriptors with names")
def test_a_descriptor_is_written_to_where_it_stands(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"before, ")
    with open(log, "ab") as file:
        inode = os.stat(log).st_ino
        write_both(f"/proc/self/fd/{file.fileno()}")
        link = tmp_path / "stdout"
        link.symlink_to(f"/proc/self/fd/{file.fileno()}")
        write_both(link)
    assert log.read_bytes() == b"before, labelslabels"
    assert os.stat(log).st_ino == inode


@posix
@pytest.mark.parametrize("write_to", [write_both, write_model])
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_new_files_follow_the_umask_and_old_ones_keep_their_mode(tmp_path, write_to, mask):
    before = os.umask(mask)
    try:
        write_to(tmp_path / "new")
        old = tmp_path / "old"
        old.write_bytes(b"")
        old.chmod(0o640)
        link = tmp_path / "link"
        link.symlink_to(old)
        write_to(link)
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(tmp_path / "new").st_mode) == 0o666 & ~mask
    assert stat.S_IMODE(os.stat(old).st_mode) == 0o640
    assert link.is_symlink()
    assert old.stat().st_size > 0
    assert sorted(os.listdir(tmp_path)) == ["link", "new", "old"]


def test_a_folder_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(IsADirectoryError):
        write_both(tmp_path)
    with pytest.raises(OSError):
        write_model(tmp_path)


def test_a_link_to_nothing_yet_makes_what_it_points_to(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "there")
    write_both(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there").read_bytes() == b"labels"


def test_standard_output_that_is_closed(monkeypatch):
    monkeypatch.setattr("sys.stdout", None)
    with pytest.raises(OSError, match="standard output is closed"), opened_output(None):
        pass
