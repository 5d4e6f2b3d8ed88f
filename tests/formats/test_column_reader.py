"""The column reader of the core reads what plain Python reads, wherever blocks of text end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robustruct.errors import FileFormatError
from robustruct.formats import text, tokens
from robustruct.formats.conll import sentences
from robustruct.formats.text import Lines

WORDS = [
    "a",
    "B",
    "é",
    "日本",
    "\u00a0",
    "\u3000x",
    "#",
    "_B-1",
    "",
    "\x0b",
    "\x85",
    "\u2028",
    "😀",
]
BLANK = ["", " ", "\t", "\u3000", "\x0c", " \u2003", "\x1f"]
COMMENTS = ["# text", "#\tx y", "#", "# a b"]
separators = st.sampled_from([" ", "\t", "  ", "\t\t", " \t"])
fields = st.lists(st.sampled_from(WORDS), min_size=2, max_size=3)
token = st.builds(lambda between, words: between.join(words), separators, fields)
line = token | token | st.sampled_from(BLANK) | st.sampled_from(COMMENTS)
lines_of_text = st.lists(
    st.builds(str.__add__, line, st.sampled_from(["\n", "\n", "\r\n", "\r\r\n"])), max_size=25
)


def in_plain_python(content: str, n_columns: list[int], separator: str, comment: str | None):
    """Yields (rows, lines of the rows, all lines), then "line N: k instead of n" or nothing."""
    rows, numbers, whole = [], [], []
    for number, one in enumerate(content.split("\n"), 1):
        one = one.rstrip("\r")
        if not one or one.isspace():
            if rows:
                yield rows, numbers, whole
                rows, numbers, whole = [], [], []
            continue
        whole.append(one)
        if comment is not None and one.startswith(comment) and "\t" not in one:
            continue
        row = one.split("\t")
        if separator == "blanks":
            row = [word for word in one.replace("\t", " ").split(" ") if word]
        expected = [len(rows[0])] if rows else n_columns
        if len(row) not in expected:
            yield f"line {number}: {len(row)} column", f"instead of {expected[0]};"
            return
        rows.append(row)
        numbers.append(number)
    if rows:
        yield rows, numbers, whole


@pytest.mark.parametrize(("block", "at_once"), [(2**20, 2**18), (7, 1), (40, 60)])
@given(
    content=lines_of_text.map("".join),
    n_columns=st.sampled_from([[3], [2], [3, 2]]),
    separator=st.sampled_from(["blanks", "blanks", "tab"]),
    comment=st.sampled_from([None, "#", "# ", "", "é"]),
    looked_at=st.booleans(),
)
def test_as_plain_python_reads(
    tmp_path_factory, block, at_once, content, n_columns, separator, comment, looked_at
):
    path = tmp_path_factory.getbasetemp() / "columns"
    path.write_bytes(content.encode())
    expected = list(in_plain_python(content, n_columns, separator, comment))
    with pytest.MonkeyPatch.context() as patch, Lines(path) as lines:
        patch.setattr(text, "BLOCK", block)
        patch.setattr(tokens, "AT_ONCE", at_once)
        if looked_at:
            lines.head(3)
        reader = sentences(lines, n_columns, separator, comment)
        for one in expected:
            if isinstance(one[0], str):
                with pytest.raises(FileFormatError) as caught:
                    next(reader)
                assert all(part in str(caught.value) for part in one)
                return
            found = next(reader)
            rows, numbers, whole = one
            assert (list(found), found.lines, found.text) == (rows, numbers, whole)
            assert (found.line, found.n_columns) == (numbers[0], len(rows[0]))
            assert found.column(1) == [row[1] for row in rows]
        assert next(reader, None) is None


def test_sentences_before_a_fault_are_read(tmp_path):
    """Whatever the fault, and although the text is read in large blocks."""
    path = tmp_path / "columns"
    for fault, message in (
        (b"\xff B", "line 3: the byte 0xff is not UTF-8"),
        (b"a\0 B", "line 3: it holds a zero byte"),
        (b"a b B", "line 3: 3 columns instead of 2"),
        (b"c " + b"x" * 2**10, "line 3: the line is longer"),
    ):
        path.write_bytes(b"a B\n\n" + fault + b"\n\n\xff \0\n")
        with pytest.MonkeyPatch.context() as patch, Lines(path) as lines:
            patch.setattr(text, "LONGEST", 100)
            reader = sentences(lines, [2])
            assert next(reader) == [["a", "B"]]
            with pytest.raises(FileFormatError) as caught:
                next(reader)
            assert message in str(caught.value)


def test_a_line_may_be_longer_than_what_is_read_at_once(tmp_path):
    path = tmp_path / "columns"
    words = [f"{'x' * n} B" for n in (3, 100, 5, 1000)]
    path.write_text("\n".join(words), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "BLOCK", 16)
        with Lines(path) as lines:
            assert list(lines) == words
        with Lines(path) as lines:
            assert next(sentences(lines, [2])).text == words


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-7"])
def test_other_encodings(tmp_path, encoding):
    path = tmp_path / "columns"
    path.write_bytes("é B\nü O\n\n£ O".encode(encoding))
    with Lines(path, encoding) as lines:
        found = list(sentences(lines, [2]))
    assert found == [[["é", "B"], ["ü", "O"]], [["£", "O"]]]


def test_a_bad_line_in_another_encoding(tmp_path):
    path = tmp_path / "columns"
    path.write_bytes(b"a B\n\nb O\n\x81 O\n")
    with Lines(path, "cp1252") as lines:
        reader = sentences(lines, [2])
        assert next(reader) == [["a", "B"]]
        with pytest.raises(FileFormatError, match="line 4: the byte 0x81 is not CP1252"):
            next(reader)
