"""Training labels that break their tagging scheme: repaired, dropped or refused, always said."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import robustruct
from corpora import load_wnut17
from robustruct import AGM, CRF, Constraints, Graph
from robustruct.bad_labels import repaired
from robustruct.constraints import TransitionMasks
from robustruct.engines import ShardedData
from robustruct.errors import FileFormatError, InvalidInputError
from robustruct.labels import as_labels
from robustruct.metrics import span_scores

X = [[{"w": w} for w in text.split()] for text in ("Ada writes", "Bob Ray sees Ada", "it rains")]
CLEAN = [["B-PER", "O"], ["B-PER", "I-PER", "O", "B-PER"], ["O", "O"]]
DIRTY = [["I-PER", "O"], ["B-PER", "I-PER", "O", "I-PER"], ["O", "O"]]
SAID = (
    r"2 labels in 2 samples break constraints='BIO' and .*the first: sample 0, node 0: I-PER, not B"
)


def fitted(y=DIRTY, Model=CRF, constraints="BIO"):
    return Model(alpha=0.1, constraints=constraints, random_state=0).fit(X, y)


@pytest.mark.parametrize("Model", [AGM, CRF])
def test_repaired_labels_train_the_model_of_clean_ones(Model):
    with pytest.warns(UserWarning, match=SAID) as caught:
        model = fitted(Model=Model)
    assert len([one for one in caught if "break constraints" in str(one.message)]) == 1
    expected = fitted(CLEAN, Model)
    np.testing.assert_array_equal(model.classes_, expected.classes_)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert DIRTY[0] == ["I-PER", "O"]  # what the user has stays as it is
    assert type(model.predict(X)[0]) is list


def test_dropped_samples_are_as_if_never_given():
    weights = np.array([1.0, 2.0, 3.0])
    nodes = [[1.0, 0.5], [1.0] * 4, [2.0, 1.0]]
    y = [CLEAN[0], DIRTY[1], CLEAN[2]]
    model = CRF(alpha=0.1, constraints=Constraints("BIO", bad_labels="drop"))
    with pytest.warns(UserWarning, match=r"1 labels in 1 samples .* samples be left out"):
        model.fit(X, y, weights, nodes)
    rest = CRF(alpha=0.1, constraints="BIO").fit(X[::2], y[::2], weights[::2], nodes[::2])
    assert model.n_samples_ == 2
    np.testing.assert_array_equal(model.coef_, rest.coef_)


def test_errors_and_clean_labels():
    with pytest.raises(InvalidInputError, match="'O' is followed by 'I-PER'"):
        fitted(constraints=Constraints("BIO", bad_labels="error"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for action in ("repair", "drop", "error"):
            fitted(CLEAN, constraints=Constraints("BIO", bad_labels=action))
    with pytest.raises(InvalidInputError, match="is not a BIO label"):
        fitted([["Q", "O"], *CLEAN[1:]])
    with pytest.raises(InvalidInputError, match=r"y\[0\] has 1 labels"):
        fitted([["O"], *CLEAN[1:]])


TAGS = st.sampled_from(["O", *(f"{tag}-{kind}" for tag in "BIES" for kind in "xy")])


@given(st.lists(st.lists(TAGS, min_size=1, max_size=8), min_size=1, max_size=4), st.booleans())
def test_repaired_labels_keep_the_rules_and_the_spans(samples, bioes):
    """Against the rules as masks, and the scorer, which reads spans on its own."""
    scheme = "BIOES" if bioes else "BIO"
    if not bioes:
        samples = [[tag.replace("E-", "I-").replace("S-", "B-") for tag in y] for y in samples]
    found = repaired([None] * len(samples), [np.array(y) for y in samples], scheme)
    assert span_scores(samples, found)[0].f1 == (1.0 if span_scores(samples, samples)[0].f1 else 0)
    classes = sorted({label for y in found for label in y.tolist()})
    rules = TransitionMasks.build(classes, scheme)
    for y in found:
        codes = [classes.index(label) for label in y.tolist()]
        allowed = rules.starts[codes[0]] + rules.ends[codes[-1]]
        allowed += sum(rules.pairs[a, b] for a, b in pairwise(codes))
        assert allowed == 0
    again = repaired([None] * len(found), found, scheme)
    assert all(one is other for one, other in zip(again, found, strict=True))


def test_edges_of_graphs_tell_what_comes_before():
    """Listed from the last node to the first, the chain begins at its last node."""
    x = Graph([{"w": "Ray"}, {"w": "Bob"}], [(1, 0)])
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        CRF(alpha=0.1, constraints="BIO").fit([x], [["I-PER", "B-PER"]])
    with pytest.warns(UserWarning, match="sample 0, node 1: I-PER, not B-PER"):
        CRF(alpha=0.1, constraints="BIO").fit([x], [["I-PER", "I-PER"]])


def text(labels):
    nodes = ([node["w"] for node in x] for x in X)
    rows = (zip(words, y, strict=True) for words, y in zip(nodes, labels, strict=True))
    return "\n\n".join("\n".join(f"{word} {label}" for word, label in of) for of in rows) + "\n"


@pytest.mark.parametrize("action", ["repair", "drop"])
def test_shards(action, tmp_path):
    for name, labels in (("a", DIRTY), ("b", CLEAN)):
        (tmp_path / f"{name}.conll").write_text(text(labels))
    data = ShardedData.from_files(str(tmp_path / "*.conll"))
    model = CRF(alpha=0.1, constraints=Constraints("BIO", bad_labels=action))
    with pytest.warns(UserWarning, match=r"2 labels in 2 samples .*a\.conll, line 1, node 0"):
        model.fit(data)
    assert model.n_samples_ == (6 if action == "repair" else 4)
    assert model.classes_.tolist() == ["B-PER", "I-PER", "O"]
    assert hasattr(model, "input_")
    with pytest.raises(FileFormatError, match=r"a\.conll, line 4"):
        model.set_params(constraints=Constraints("BIO", bad_labels="error")).fit(data)


def test_the_command(tmp_path, here):
    (tmp_path / "data").write_text(text([["I-LOC", "O"], *DIRTY[1:]]))
    kind = ("--model", "crf", "--alpha", "0.1", "--constraints", "BIO")
    train = ("train", "data", "-o", "m", "-q", *kind)
    code, _, err = here(*train, "--cost", "B-LOC>O=5")
    assert code == 0
    assert "2 labels in 2 samples break constraints='BIO'" in err
    assert "data, line 1, node 0: I-LOC, not B-LOC" in err
    model = robustruct.load(tmp_path / "m")
    assert model.classes_.tolist() == ["B-LOC", "B-PER", "I-PER", "O"]
    assert model.cost_[0].tolist() == [0, 1, 1, 5]
    assert here(*train, "--bad-labels", "drop")[0] == 0
    assert robustruct.load(tmp_path / "m").n_samples_ == 1
    code, _, err = here(*train, "--bad-labels", "error")
    assert code != 0
    assert "data, line 4: y: sample 1, node 2: 'O' is followed by 'I-PER'" in err


@pytest.mark.data
def test_a_corpus_of_noisy_text(data_home):
    """Where no span of the same type goes before, an I for a B is put right."""
    data = load_wnut17("train")
    arrays = [as_labels(labels) for labels in data.y]
    assert all(one is other for one, other in zip(clean(arrays), arrays, strict=True))
    dirty = [labels.astype(object) for labels in arrays]
    n_changed = 0
    for old, labels in zip(arrays, dirty, strict=True):
        for i, label in enumerate(old.tolist()):
            if label[0] == "B" and (i == 0 or old[i - 1][1:] != label[1:]):
                labels[i], n_changed = f"I{label[1:]}", n_changed + 1
    assert n_changed > 1900
    for found, labels in zip(clean(dirty), arrays, strict=True):
        assert found.tolist() == labels.tolist()


def clean(labels):
    return repaired([None] * len(labels), labels, "BIO")
