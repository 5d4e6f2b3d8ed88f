"""Readers on files of our own: parsing, features, and what is said when a file is missing."""

import gzip

import numpy as np
import pytest

import corpora
from corpora import chunking_attributes, word_attributes
from corpora.sst import parsed_tree
from robustruct.datasets import position_weights
from robustruct.errors import InvalidInputError, MissingDataError

READERS = {
    corpora.load_emotion: "emotion/ck.mat",
    corpora.emotion_splits: "emotion/ids_random.csv",
    corpora.load_conll2000: "conll2000/train.txt.gz",
    corpora.load_ocr: "ocr/letters.npz",
    corpora.load_sst: "sst/train.txt.gz",
    corpora.load_wnut17: "wnut17/train.txt.gz",
    corpora.load_ewt_pos: "ewt_pos/train.conll.gz",
    corpora.load_multilabel: "multilabel/scene.npz",
    corpora.load_snakes: "snakes/snakes.npz",
    corpora.load_srl: "srl/ewt.train.pruned.jsonl.gz",
}


def write_gz(home, path, text):
    file = home / path
    file.parent.mkdir()
    with gzip.open(file, "wt", encoding="utf-8") as stream:
        stream.write(text)


@pytest.mark.parametrize("load", READERS, ids=lambda load: load.__name__)
def test_without_a_folder_the_message_says_how_to_set_it(load, monkeypatch):
    monkeypatch.delenv("ROBUSTRUCT_DATA", raising=False)
    with pytest.raises(MissingDataError) as caught:
        load()
    for part in (READERS[load], "ROBUSTRUCT_DATA", "data_home"):
        assert part in str(caught.value)


@pytest.mark.parametrize("load", READERS, ids=lambda load: load.__name__)
def test_a_missing_file_is_named_in_full(load, monkeypatch, tmp_path):
    monkeypatch.setenv("ROBUSTRUCT_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match="point ROBUSTRUCT_DATA") as caught:
        load()
    assert str(tmp_path / READERS[load]) in str(caught.value)
    with pytest.raises(MissingDataError, match="point data_home"):
        load(data_home=tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("load", "arguments", "message"),
    [
        (corpora.load_conll2000, {"split": "dev"}, "split='dev'"),
        (corpora.load_sst, {"split": "valid"}, "use 'train' or 'dev' or 'test'"),
        (corpora.load_ewt_pos, {"label": "pos"}, "'upos' or 'xpos' or 'deprel'"),
        (corpora.load_ewt_pos, {"structure": "graph"}, "'chain' or 'tree'"),
        (corpora.load_multilabel, {"split": "dev"}, "split='dev'"),
        (corpora.load_snakes, {"split": "dev"}, "split='dev'"),
        (corpora.load_srl, {"corpus": "brown"}, "'ewt' or 'wsj'"),
        (corpora.load_srl, {"corpus": "wsj", "split": "dev"}, "split='dev'"),
    ],
)
def test_unknown_choices_are_listed(load, arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        load(**arguments)


def test_conll_words_may_be_a_hash_sign(tmp_path):
    write_gz(tmp_path, "conll2000/test.txt.gz", "# # B-NP\n2 CD I-NP\n\n. . O\n")
    data = corpora.load_conll2000("test", data_home=tmp_path)
    assert data.X == [[("#", "#"), ("2", "CD")], [(".", ".")]]
    assert [labels.tolist() for labels in data.y] == [["B-NP", "I-NP"], ["O"]]


def test_a_damaged_line_is_named(tmp_path):
    write_gz(tmp_path, "conll2000/test.txt.gz", "a DT B-NP\nb NN\n")
    with pytest.raises(InvalidInputError, match=r"line 2: 2 columns instead of 3"):
        corpora.load_conll2000("test", data_home=tmp_path)


@pytest.mark.parametrize("line", ["(3 (2 a)", "3 a)", ""])
def test_a_damaged_tree_is_named(tmp_path, line):
    write_gz(tmp_path, "sst/dev.txt.gz", f"(1 fine)\n{line}\n")
    with pytest.raises(InvalidInputError, match="line 2 is not a tree"):
        corpora.load_sst("dev", data_home=tmp_path)


@pytest.mark.parametrize("line", ["{", "[]", '{"y": [1]}', '{"y": [1], "parent": [-1], "odd": 1}'])
def test_a_damaged_record_is_named(tmp_path, line):
    write_gz(tmp_path, "srl/wsj.test.pruned.jsonl.gz", f"{line}\n")
    with pytest.raises(InvalidInputError, match="line 1 is not a pruned tree"):
        corpora.load_srl("wsj", "test", data_home=tmp_path)


def test_chunking_attributes_are_those_of_the_template():
    sentence = [("He", "PRP"), ("saw", "VBD"), ("it", "PRP")]
    first, middle, last = chunking_attributes(sentence)
    assert middle == [
        "U00:_B-1",
        "U01:He",
        "U02:saw",
        "U03:it",
        "U04:_B+1",
        "U05:He/saw",
        "U06:saw/it",
        "U10:_B-1",
        "U11:PRP",
        "U12:VBD",
        "U13:PRP",
        "U14:_B+1",
        "U15:_B-1/PRP",
        "U16:PRP/VBD",
        "U17:VBD/PRP",
        "U18:PRP/_B+1",
        "U20:_B-1/PRP/VBD",
        "U21:PRP/VBD/PRP",
        "U22:VBD/PRP/_B+1",
    ]
    assert len(middle) == 19
    assert first[:2] == ["U00:_B-2", "U01:_B-1"]
    assert first[-1] == "__BOS__"
    assert last[3:5] == ["U03:_B+1", "U04:_B+2"]
    assert last[-1] == "__EOS__"


def test_a_sentence_of_one_word_begins_and_ends_at_once():
    assert chunking_attributes([("Yes", "UH")])[0][-2:] == ["__BOS__", "__EOS__"]
    assert chunking_attributes([]) == []


def test_word_attributes_see_the_form():
    of_word = word_attributes(["In", "USA-2"])[1]
    assert {"word=usa-2", "before=in", "after=</s>", "start3=usa", "end4=sa-2"} <= set(of_word)
    assert {"capital", "all capitals", "digit", "hyphen"} <= set(of_word)
    assert "capital at the start" in word_attributes(["In", "USA-2"])[0]


def test_dependency_trees_join_words_to_heads(tmp_path):
    rows = ["1\tThe\tDET\tDT\t2\tdet", "2\tcat\tNOUN\tNN\t0\troot", "3\t!\tPUNCT\t.\t2\tpunct"]
    write_gz(tmp_path, "ewt_pos/dev.conll.gz", "\n".join(["# sent_id = x", *rows, "", ""]))
    data = corpora.load_ewt_pos("dev", label="deprel", structure="tree", data_home=tmp_path)
    (graph,), (labels,) = data.X, data.y
    assert graph.edges.tolist() == [[1, 0], [1, 2]]
    assert graph.edge_features == [["left"], ["right"]]
    assert labels.tolist() == ["det", "root", "punct"]
    assert "upos=DET" in graph.node_features[0]
    chain = corpora.load_ewt_pos("dev", data_home=tmp_path)
    assert not any("upos" in name for name in chain.X[0][0])
    assert chain.y[0].tolist() == ["DET", "NOUN", "PUNCT"]


def test_phrases_hold_distinct_words_and_themselves():
    graph, labels = parsed_tree("(4 (3 so) (2 (3 so) (1 good)))")
    assert labels.tolist() == [4, 3, 2, 3, 1]
    assert graph.edges.tolist() == [[0, 1], [0, 2], [2, 3], [2, 4]]
    assert graph.node_features[0] == ["word=so", "word=good", "phrase=so so good"]
    assert graph.node_features[2] == ["word=so", "word=good", "phrase=so good"]
    assert graph.node_features[4] == ["word=good", "phrase=good"]


def test_position_weights_grow_and_sum_to_one():
    weights = position_weights([[1, 1, 3], np.array([2])])
    np.testing.assert_allclose(weights[0], np.array([1, 2, 3]) / 6)
    np.testing.assert_allclose(weights[1], [1.0])


def test_wnut17_sentences_end_at_lines_of_one_tab(tmp_path):
    write_gz(tmp_path, "wnut17/dev.txt.gz", "Hi\tO\n\t\nAda\tB-person\n2\tO\n\n")
    data = corpora.load_wnut17("dev", data_home=tmp_path)
    assert data.X == [["Hi"], ["Ada", "2"]]
    assert [labels.tolist() for labels in data.y] == [["O"], ["B-person", "O"]]
    first, _ = corpora.name_attributes(data.X[1])
    assert {"0:shape=Aa", "0:end3=ada", "1:shape=0", "-1:outside", "2:outside"} <= set(first)
