"""Templates make the attributes that CRF++ would, for all tokens at once."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora import chunking_attributes, load_conll2000
from robustruct import AGM
from robustruct.errors import FileFormatError
from robustruct.features import CodedAttributes, FeatureSpace, PackedNames
from robustruct.formats import tokens
from robustruct.formats.conll import sentences as read_sentences
from robustruct.formats.templates import Template, default_template
from robustruct.formats.tokens import TAB, Sentence

CHUNKING = """
U00:%x[-2,0]
U01:%x[-1,0]
U02:%x[0,0]
U03:%x[1,0]
U04:%x[2,0]
U05:%x[-1,0]/%x[0,0]
U06:%x[0,0]/%x[1,0]
U10:%x[-2,1]
U11:%x[-1,1]
U12:%x[0,1]
U13:%x[1,1]
U14:%x[2,1]
U15:%x[-2,1]/%x[-1,1]
U16:%x[-1,1]/%x[0,1]
U17:%x[0,1]/%x[1,1]
U18:%x[1,1]/%x[2,1]
U20:%x[-2,1]/%x[-1,1]/%x[0,1]
U21:%x[-1,1]/%x[0,1]/%x[1,1]
U22:%x[0,1]/%x[1,1]/%x[2,1]
"""

words = st.lists(st.text("abAB1-", min_size=1, max_size=5), min_size=2, max_size=2)
sentences = st.lists(st.lists(words, min_size=1, max_size=6), min_size=1, max_size=4)


def expanded(line: str, rows: list[list[str]], i: int) -> str:
    """One line at one token, macro by macro."""

    def value(found: re.Match) -> str:
        row, column = i + int(found[2]), int(found[3])
        if row < 0:
            word, outside = f"_B{row}", True
        elif row >= len(rows):
            word, outside = f"_B+{row - len(rows) + 1}", True
        else:
            word, outside = rows[row][column], False
        if outside or found[1] == "x":
            return word
        if found[1] == "lower":
            return word.lower()
        if found[1] == "prefix":
            return word[: int(found[4])]
        if found[1] == "suffix":
            return word[-int(found[4]) :]
        kinds = [
            "X" if c.isupper() else "d" if c.isdigit() else "x" if c.isalpha() else c for c in word
        ]
        return "".join(c for j, c in enumerate(kinds) if j == 0 or c != kinds[j - 1])

    return re.sub(r"%(\w+)\[(-?\d+),(\d+),?(\d+)?\]", value, line)


class Text:
    """Lines with columns apart by tabs, in blocks."""

    def __init__(self, data: list[list[list[str]]]):
        self.data = data

    def blocks(self):
        for rows in self.data:
            yield "".join("\t".join(row) + "\n" for row in [*rows, []]).encode()


def read(data: list[list[list[str]]]) -> list[Sentence]:
    return list(read_sentences(Text(data), [len(data[0][0])], TAB))


@pytest.mark.parametrize("at_once", [1, 2**18])
@given(data=sentences)
def test_every_token_gets_what_its_line_says(at_once, data):
    template = default_template([0, 1])
    lines = [line for line in template.source.splitlines() if line.startswith("U")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "AT_ONCE", at_once)
        found = template.attributes(read(data))
    for rows, of_tokens in zip(data, found, strict=True):
        assert list(of_tokens) == [
            [expanded(line, rows, i) for line in lines] for i in range(len(rows))
        ]


@pytest.mark.data
def test_the_chunking_template_on_real_sentences(data_home):
    data = load_conll2000("test", data_home=data_home).subset(slice(300))
    found = Template.parse(CHUNKING).attributes(read([list(map(list, x)) for x in data.X]))
    for sentence, of_tokens in zip(data.X, found, strict=True):
        expected = chunking_attributes(sentence)
        expected[0].remove("__BOS__")
        expected[-1].remove("__EOS__")
        assert list(of_tokens) == expected


def test_transitions_may_depend_on_the_token():
    template = Template.parse("U:%x[0,0]\nB\nB1:%x[-1,0]/%x[0,0]\n")
    (found,) = template.edge_attributes(read([[["a"], ["b"], ["c"]]]))
    assert list(found) == [["B1:a/b"], ["B1:b/c"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("U:%x[0,0]\nX:%x[0,0]", "line 2: a line starts with U, B or #"),
        ("B\n", "no line that starts with U"),
        ("U:%x[0]", r"line 1: 'U:%x\[0\]' is not complete"),
        ("U:%y[0,1]", r"%y\[0,1\] is not known"),
        ("U:%prefix[0,1]", "is not known"),
        ("U:%prefix[0,1,0]", "is not known"),
    ],
)
def test_mistakes_are_shown(text, message):
    with pytest.raises(FileFormatError, match=message):
        Template.parse(text)


# ------------------------------------------------------------------------- attributes by number


@given(data=st.lists(sentences, min_size=1, max_size=3))
def test_coded_attributes_are_encoded_like_the_strings_they_stand_for(data):
    """Even if several lists of names are used, and names repeat."""
    template = Template.parse("U:%x[0,0]\nU:%x[0,1]\nU2:%x[-1,0]\n")
    coded = [sample for part in data for sample in template.attributes(read(part))]
    plain = [list(sample) for sample in coded]
    space, design = FeatureSpace.fit(coded)
    space_plain, design_plain = FeatureSpace.fit(plain)
    assert space.state() == space_plain.state()
    for X in (coded, coded[:1], plain):
        for name in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(
                getattr(space.encode(X).nodes, name),
                getattr(space_plain.encode([list(x) for x in X]).nodes, name),
            )
    np.testing.assert_array_equal(design.nodes.indices, design_plain.nodes.indices)


def test_coded_attributes_are_a_sequence():
    sample = CodedAttributes(PackedNames.of(["a", "b"]), np.array([[0], [1], [1]], np.int32))
    assert len(sample) == 3
    assert list(sample[1:]) == [["b"], ["b"]]
    assert sample[-1] == ["b"]


def test_models_take_both_forms():
    template = Template.parse("U:%x[0,0]")
    X = template.attributes(read([[["a"], ["b"]], [["b"], ["b"]]]))
    y = [["A", "B"], ["B", "B"]]
    model = AGM(alpha=0.1, random_state=0).fit(X, y)
    assert model.predict([list(x) for x in X]) == y
    assert model.explain(X[0], 1).predicted == "B"
