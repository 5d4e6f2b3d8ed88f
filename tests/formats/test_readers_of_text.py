"""Formats: what is read, what is refused, what is written, and how they are told apart."""

import gzip
import io
import json

import numpy as np
import pytest

from robustruct.errors import FileFormatError, InvalidInputError, MissingDataError
from robustruct.formats.conll import ConllFormat
from robustruct.formats.corpus import read_corpus
from robustruct.formats.costs import CostChange, changed_costs, named_costs, read_costs
from robustruct.formats.crfsuite import CrfsuiteFormat
from robustruct.formats.json_lines import JsonLinesFormat
from robustruct.formats.recognise import recognised, recognised_name, restored, stored
from robustruct.formats.sample import Answer
from robustruct.formats.text import Lines
from robustruct.graphs import Graph

pycrfsuite = pytest.importorskip("pycrfsuite")


@pytest.fixture
def write(tmp_path):
    def write(text: str | bytes, name: str = "data"):
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def samples(form, path, labelled=True):
    with Lines(path) as lines:
        return list(form.samples(lines, labelled=labelled))


# ------------------------------------------------------------------------- lines


def test_lines_keep_what_only_looks_like_a_line_end(write):
    text = "a\u2028b\u0085c\x0cd B\n"
    with Lines(write(text)) as lines:
        assert list(lines) == [text.strip("\n")]


def test_head_takes_nothing(write):
    with Lines(write(gzip.compress(b"1\n2\n3\n"))) as lines:
        assert lines.head(2) == ["1", "2"]
        assert lines.head(9) == ["1", "2", "3"]
        assert list(lines) == ["1", "2", "3"]
        assert lines.number == 3
        assert lines.fraction == 1.0


def test_standard_input(monkeypatch):
    class Pipe:
        buffer = io.BufferedReader(io.BytesIO(gzip.compress(b"x B\n")))

    monkeypatch.setattr("sys.stdin", Pipe())
    assert read_corpus("-").y[0].tolist() == ["B"]


def test_what_cannot_be_read(write, tmp_path):
    with pytest.raises(MissingDataError, match="no such file"):
        Lines(tmp_path / "none")
    with pytest.raises(FileFormatError, match="cannot be read"):
        Lines(tmp_path)
    with pytest.raises(InvalidInputError, match="'no-such' is not known"):
        Lines(write(""), "no-such")
    with pytest.raises(InvalidInputError, match="convert them to UTF-8"):
        Lines(write(""), "utf-16")


# ------------------------------------------------------------------------- columns


def test_columns_are_chosen(write):
    path = write("1 the DET 0.5\n2 cat NOUN 2\n\n1 a DET 1\n")
    corpus = read_corpus(path, label_column=2, columns=[1], weight_column=3)
    assert [labels.tolist() for labels in corpus.y] == [["DET", "NOUN"], ["DET"]]
    assert [weight.tolist() for weight in corpus.node_weight] == [[0.5, 2.0], [1.0]]
    assert corpus.lines == [1, 4]
    assert corpus.weights.keys() == {"node_weight"}
    assert all("DET" not in name and "0.5" not in name for name in corpus.X[0].names)
    with pytest.raises(FileFormatError, match=r"line 1: the weight 'DET' in column 2"):
        read_corpus(path, weight_column=2, label_column=1)


def test_comments_of_conllu_and_words_that_look_like_them(write):
    tabs = "# text = a\n1\ta\tX\n\n#\t#\tX\n"
    assert [len(s.content) for s in samples(found(write(tabs)), write(tabs))] == [1, 1]
    blanks = "# # X\n2 CD X\n"
    assert samples(found(write(blanks)), write(blanks))[0].content == [
        ["#", "#", "X"],
        ["2", "CD", "X"],
    ]


def found(path, **options) -> ConllFormat:
    with Lines(path) as lines:
        return ConllFormat.found(lines, **options)


def test_no_break_spaces_belong_to_words(write):
    corpus = read_corpus(write("10\u00a0000 NUM\n"))
    assert corpus.X[0][0][0] == "Uword:10\u00a0000"


def test_tabs_alone_may_separate(write):
    path = write("New York\tB\n\tO\n")
    (sample,) = samples(found(path, separator="tab"), path)
    assert sample.content == [["New York", "B"], ["", "O"]]
    with pytest.raises(FileFormatError, match=r"line 2: 1 column instead of 3; .*--separator tab"):
        read_corpus(path)


def test_labels_may_be_missing_only_if_they_come_last_and_are_not_needed(write):
    form = found(write("a X B\n"))
    path = write("a X\nb Y\n")
    (sample,) = samples(form, path, labelled=False)
    assert sample.labels is None
    with pytest.raises(FileFormatError, match="line 1: 2 columns instead of 3"):
        samples(form, path)
    with pytest.raises(FileFormatError, match="line 2: 3 columns instead of 2"):
        samples(form, write("a X\nb Y B\n"), labelled=False)
    with pytest.raises(FileFormatError, match="line 1: 2 columns instead of 3"):
        samples(found(write("a B X\n", "other"), label_column=1), path, labelled=False)


def test_the_format_survives_storage(write):
    form = found(write("a 1 X B\n"), columns=[2], weight_column=1)
    assert restored(json.loads(json.dumps(stored(form)))) == form
    with pytest.raises(InvalidInputError, match=r"version 2 .*upgrade robustruct"):
        restored({**stored(form), "version": 2})
    with pytest.raises(InvalidInputError, match="format 'xml'"):
        restored({**stored(form), "format": "xml"})


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["1", "10", "2"], [1, 10, 2]),
        (["1", "2.5", "0.0"], ["1", "2.5", "0.0"]),  # 1 would come out as 1.0
        (["0.5", "2.5"], [0.5, 2.5]),
        (["+1", "-1"], ["+1", "-1"]),
        (["01", "1"], ["01", "1"]),
        (["1", "a"], ["1", "a"]),
        (["nan", "inf"], ["nan", "inf"]),
    ],
)
def test_numbers_become_numbers_if_nothing_is_lost(write, labels, expected):
    corpus = read_corpus(write("\n".join(f"w {label}" for label in labels)))
    assert corpus.y[0].tolist() == expected


# ------------------------------------------------------------------------- CRFsuite

CRFSUITE = "@weight:2\nB\tw=a\tlen:2.5\nI\tw\\:b\\\\\tw=a\tw=a\n\n@weight:0.5\tB\tw=c:1\n"


def test_crfsuite_attributes(write):
    first, second = samples(CrfsuiteFormat(), write(CRFSUITE))
    assert first.content == [{"w=a": 1.0, "len": 2.5}, ["w:b\\", "w=a", "w=a"]]
    assert (first.labels, first.weight, first.line) == (["B", "I"], 2.0, 1)
    assert (second.content, second.labels, second.weight) == ([["w=c"]], ["B"], 0.5)
    corpus = read_corpus(write(CRFSUITE))
    assert corpus.format == CrfsuiteFormat()
    assert corpus.sample_weight.tolist() == [2.0, 0.5]


def test_items_listed_by_python_crfsuite_are_read_back(write):
    """Escaping is the inverse of what the file format asks for."""
    items = [{"a:b": 1.5, "c\\d": 1.0}, {"plain": 1.0, "x=y": -2.0}]
    listed = pycrfsuite.ItemSequence(items).items()

    def escaped(name: str) -> str:
        return name.replace("\\", "\\\\").replace(":", "\\:")

    lines = [
        "\t".join(["L", *(f"{escaped(name)}:{value}" for name, value in item.items())])
        for item in listed
    ]
    (sample,) = samples(CrfsuiteFormat(), write("\n".join(lines)))
    assert sample.content == listed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("B\tw:a\n", "line 1: the attribute 'w:a' has the value 'a'"),
        ("B\tw\n@weight:-1\nB\tw\n", "line 2: '@weight:-1'"),
        ("B\tw\\\n", "ends with a backslash"),
        ("\tw\n", "its label is missing"),
    ],
)
def test_crfsuite_mistakes_are_shown(write, text, message):
    with pytest.raises(FileFormatError) as caught:
        samples(CrfsuiteFormat(), write(text))
    assert message in str(caught.value)


def test_crfsuite_answers_look_like_crfsuite_tag(write):
    (sample, _) = samples(CrfsuiteFormat(), write(CRFSUITE))
    answer = Answer(["B", "I"], [{"B": 0.75, "I": 0.25}] * 2, [(["B", "I"], 1.5), (["I", "I"], 1)])
    assert CrfsuiteFormat().render(sample, answer) == (
        "@scores\t1.5\t1\nB\tB\tI\tB:0.750000\tI:0.250000\nI\tI\tI\tB:0.750000\tI:0.250000\n\n"
    )


# ------------------------------------------------------------------------- JSON lines

GRAPH = {
    "id": 7,
    "nodes": [{"w": "a"}, {"w": "b", "n": 2}, {"w": "c"}],
    "edges": [[0, 1], [0, 2]],
    "edge_features": [["left"], ["right"]],
    "labels": [1, 2, 1],
    "weights": [1, 0.5, 2],
    "weight": 3,
}


def test_graphs_as_json(write):
    dense = {"nodes": [[1, 2.5], [0, 1]], "labels": ["X", "Y"]}
    path = write(f"{json.dumps(GRAPH)}\n\n{json.dumps(GRAPH)}\n", "g.jsonl")
    corpus = read_corpus(path)
    graph = corpus.X[0]
    assert isinstance(graph, Graph)
    assert graph.edges.tolist() == GRAPH["edges"]
    assert graph.edge_features == GRAPH["edge_features"]
    assert corpus.y[0].tolist() == [1, 2, 1]
    assert corpus.sample_weight.tolist() == [3.0, 3.0]
    assert corpus.node_weight[1].tolist() == [1.0, 0.5, 2.0]
    assert corpus.lines == [1, 3]
    (chain,) = read_corpus(write(json.dumps(dense))).X
    np.testing.assert_array_equal(chain, dense["nodes"])
    digits = read_corpus(write(json.dumps({**dense, "labels": ["1", "2"]})))
    assert digits.y[0].tolist() == ["1", "2"]  # JSON has types


def test_an_answer_is_added_to_the_object(write):
    (sample,) = samples(JsonLinesFormat(), write(json.dumps(GRAPH)))
    answer = Answer([1, 1, 2], [{1: 0.5, 2: 0.5}] * 3, [([1, 1, 2], 0.25)])
    written = json.loads(JsonLinesFormat().render(sample, answer))
    assert {key: written[key] for key in GRAPH} == GRAPH
    assert written["predicted"] == [1, 1, 2]
    assert written["probabilities"][0] == {"1": 0.5, "2": 0.5}
    assert written["best"] == [{"labels": [1, 1, 2], "score": 0.25}]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes": []}, '"nodes" must be a list'),
        ({"nodes": [[1, 2], [3], [4]], "edges": []}, "different lengths"),
        ({"nodes": [[1], [None], [2]]}, "something else than numbers"),
        ({"edges": [[0, 9], [0, 1]]}, "edge 0 is (0, 9)"),
        ({"edge_features": [["left"]]}, "describes 1 edges"),
        ({"labels": [1, 2]}, '"labels" has 2 items, but there are 3 nodes'),
        ({"labels": [1, {"a": "much"}, 2]}, "node 1"),
        ({"labels": None}, '"labels" is missing'),
        ({"weights": [1, -1, 1]}, "holds -1 for node 1, not a finite number >= 0"),
        ({"weight": "much"}, "\"weight\" is 'much'"),
    ],
)
def test_json_mistakes_are_shown(write, change, message):
    path = write(f"\n{json.dumps({**GRAPH, **change})}\n")
    with pytest.raises(FileFormatError) as caught:
        samples(JsonLinesFormat(), path)
    assert "line 2: " in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize("line", ["{", "[1]", '{"nodes": [1'])
def test_what_is_not_json(write, line):
    with pytest.raises(FileFormatError, match="line 1: "):
        read_corpus(write(f"{line}\n", "data.jsonl"))


# ------------------------------------------------------------------------- telling them apart


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("x", "the DT B\n", "conll"),
        ("x", "the\tDT\tB\n", "conll"),
        ("x", "1\tthe\t_\tCase=Nom\tDT\n", "conll"),
        ("x", "the\tDT\tB\nbroken\tB\n", "conll"),
        ("x", "{ ( B\n", "conll"),
        ("x", "B\tw=the\tpos=DT\nI\tw=cat\n", "crfsuite"),
        ("x", "@weight:2\nB\tthe\n", "crfsuite"),
        ("x", '{"nodes": [[1]]}\n', "json-lines"),
        ("x", '{"nodes": \n', "json-lines"),
        ("x.conll", "B\tw=the\n", "conll"),
        ("x.crfsuite.gz", "the DT B\n", "crfsuite"),
        ("X.JSONL", "?", "json-lines"),
    ],
)
def test_formats_are_recognised(write, name, text, expected):
    with Lines(write(text, name)) as lines:
        assert recognised_name(lines) == expected


def test_columns_make_no_sense_elsewhere(write):
    with (
        Lines(write("B\tw=a\n")) as lines,
        pytest.raises(FileFormatError, match="leave out --label-column"),
    ):
        recognised(lines, label_column=0)
    with Lines(write("a B\n")) as lines, pytest.raises(InvalidInputError, match="format='xml'"):
        recognised(lines, "xml")


# ------------------------------------------------------------------------- costs


@pytest.mark.parametrize(
    "text",
    [
        ",O,B-PER\nO,0,1\nB-PER,5,0\n",
        "true\\predicted; O; B-PER\nB-PER; 5; 0\nO; 0; 1\n",
        "predicted\\true\tO\tB-PER\nO\t0\t5\nB-PER\t1\t0\n\n",
    ],
)
def test_rows_are_true_labels_unless_the_corner_says_otherwise(write, text):
    costs = read_costs(write(text))
    matrix = costs.matrix(["O", "B-PER"])
    assert matrix[1, 0] == 5  # predicting O where B-PER is true
    assert matrix[0, 1] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("costs,A\nA,0\n", "the first cell is 'costs'"),
        (",A,B\nA,0,1\n", "the label 'B' has no row"),
        (",A\nA,0\nB,1\n", "the label 'B' has no column"),
        (",A,B\nA,0\nB,0,1\n", "line 2: 1 costs for 2 labels"),
        (",A\nA,nan\n", "line 2: the cost 'nan'"),
        (",A,B\nA,2,1\nB,1,0\n", "'A' is true, predicting 'B' costs 1"),
        (",A\nA,0\nA,0\n", "line 3: the label 'A' has two rows"),
        (",A,A\nA,0,0\n", "a label is named twice"),
    ],
)
def test_mistakes_in_costs_are_shown(write, text, message):
    with pytest.raises(FileFormatError) as caught:
        read_costs(write(text))
    assert message in str(caught.value)


def test_changes_are_made_one_after_the_other():
    changes = [CostChange.parse(text) for text in ("B>*=3", "* > O = 7", "B>A=0.5")]
    costs = changed_costs(1 - np.eye(3), ["A", "B", "O"], changes)
    np.testing.assert_array_equal(
        costs.costs,
        [[0, 1, 7], [0.5, 0, 7], [1, 1, 0]],
    )
    assert CostChange.parse("a=b>c=1") == CostChange("a=b", "c", 1.0)


def test_costs_of_a_file_are_matched_with_numbers(write):
    table = read_costs(write(",1,2,3\n1,0,1,1\n2,9,0,1\n3,1,1,0\n"))
    costs = named_costs(table, np.array([1, 2]), "costs.csv")
    assert costs.matrix([1, 2])[1, 0] == 9
    with pytest.raises(FileFormatError, match=r"the label '4', but .* names 1, 3"):
        named_costs(table, np.array([2, 4]), "costs.csv")
