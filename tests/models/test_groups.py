"""Samples that belong together: read from files, held out whole, and noticed where not declared."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustruct import CRF
from robustruct.comparison import Samples, compare
from robustruct.comparison.samples import splits
from robustruct.errors import FileFormatError, InvalidInputError
from robustruct.formats.corpus import read_corpus
from robustruct.models.fitting.dependence import are_like_neighbours
from robustruct.models.fitting.selection import Dependent
from robustruct.models.fitting.trials import Trial, pooled
from robustruct.objectives.build import in_memory

COST = np.array([[0.0, 5.0], [1.0, 0.0]])


def subjects(n=12, visits=6, spread=1.0, seed=0):
    """Samples of some subjects, one after the other; (X, y, groups)."""
    rng = np.random.default_rng(seed)
    of = [(s, m) for s, m in enumerate(spread * rng.normal(size=(n, 5))) for _ in range(visits)]
    X = [rng.normal(size=(4, 5)) + m for _, m in of]
    return X, [(x[:, 0] + rng.normal(size=4) > 0).astype(int) for x in X], [s for s, _ in of]


# ---------------------------------------------------------------------------------------- files


def written(tmp_path, text, name="data.conll"):
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_a_column_says_what_sentences_belong_to(tmp_path):
    file = written(tmp_path, "a t1 X\nb t1 Y\n\nc t2 X\n\nd t1 Y\n")
    corpus = read_corpus(file, group_column=1)
    assert corpus.groups == ["t1", "t2", "t1"]
    assert corpus.format.template.columns == [0]
    assert "group_column" not in corpus.format.state()
    assert read_corpus(file).groups is None


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("a t1 X\nb t2 X\n", 1, "line 2: column 1 says group 't2', but the sentence began in"),
        ("a t1 X\n", 2, "column 2 cannot hold both labels and groups"),
        ("a t1 X\n", 7, "there is no group column 7"),
    ],
)
def test_columns_that_are_no_groups_are_refused(tmp_path, text, column, said):
    with pytest.raises(FileFormatError, match=said):
        read_corpus(written(tmp_path, text), group_column=column)


def test_marks_of_documents_are_groups(tmp_path):
    document = "-DOCSTART- O\n\nword O\n\nother O\n\n"
    assert read_corpus(written(tmp_path, 2 * document)).groups == [1, 1, 1, 2, 2, 2]
    assert read_corpus(written(tmp_path, document)).groups is None  # one document parts nothing
    assert read_corpus(written(tmp_path, "word O\n\n" + 2 * document)).groups is None


def test_json_lines_name_their_groups(tmp_path):
    line = '{"nodes": [{"w": "a"}], "labels": ["X"], "group": %s}\n'
    file = written(tmp_path, line % '"p1"' + line % 7, "data.jsonl")
    assert read_corpus(file).groups == ["p1", 7]
    file = written(tmp_path, line % "1" + line % "null", "some.jsonl")
    with pytest.raises(FileFormatError, match="line 2: this sample has no group, but others have"):
        read_corpus(file)
    with pytest.raises(FileFormatError, match=r'"group" is \[1\]'):
        read_corpus(written(tmp_path, line % "[1]", "bad.jsonl"))


# ---------------------------------------------------------------------------------------- choices


@given(st.integers(0, 10**6), st.lists(st.integers(0, 5), min_size=12, max_size=12))
def test_groups_are_the_units_of_a_comparison(seed, groups):
    """With groups it is the comparison of their totals."""
    rng = np.random.default_rng(seed)
    a, b, weights = rng.random((3, 12))
    groups = np.array(groups)
    n = 6
    totals = [np.bincount(groups, values, n)[np.unique(groups)] for values in (a, b, weights)]
    one, other = Trial(a, weights, groups), Trial(b, weights, groups)
    of_groups = Trial(totals[0], totals[2]), Trial(totals[1], totals[2])
    for errors in (0.0, 0.5, 1.0, 2.0):
        assert one.better(other, errors) == of_groups[0].better(of_groups[1], errors)


def test_folds_are_pooled_with_their_groups():
    tests = [np.array([0, 3]), np.array([1, 2])]
    groups = np.array([7, 8, 8, 7])
    parts = [Trial(np.ones(2), np.ones(2), groups[test]) for test in tests]
    assert pooled(parts, tests).groups.tolist() == groups.tolist()


@pytest.mark.filterwarnings("error")
def test_a_label_of_one_group_alone_does_not_stop_a_choice():
    X, y, groups = subjects(n=5, visits=3, spread=0.0)
    y = [labels + 2 if group == 2 else labels for labels, group in zip(y, groups, strict=True)]
    model = CRF("hamming", alpha=[0.1, 1.0], random_state=0).fit(X, y, groups=groups)
    assert model.classes_.tolist() == [0, 1, 2, 3]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=10, max_size=30), st.integers(0, 5))
def test_a_comparison_holds_out_whole_groups(groups, seed):
    samples = Samples(list(range(len(groups))), [0] * len(groups), groups=groups)
    n = len(set(groups))
    for folds in (None, 2):
        if folds is not None and n < folds:
            with pytest.raises(InvalidInputError, match="2 folds of 1 groups"):
                splits(samples, None, folds, seed)
            continue
        parts, how = splits(samples, None, folds, seed)
        assert "groups" in how
        for part in parts:
            assert not {*part.train.groups} & {*part.test.groups}
            assert sorted(part.train.X + part.test.X) == samples.X


def test_intervals_of_a_comparison_are_those_of_groups():
    """Copies of test samples say nothing new: as groups they leave the interval as it is."""
    X, y, _ = subjects(n=20, visits=1)
    train, others = Samples(X[:10], y[:10]), (X[10:], y[10:])
    alone = compare(train, Samples(*others), COST, alpha=0.1, n_examples=0)
    copies = [values * 4 for values in others]
    groups = list(range(10)) * 4
    grouped = compare(train, Samples(*copies, groups=groups), COST, alpha=0.1, n_examples=0)
    for one, other in zip(alone.methods, grouped.methods, strict=True):
        assert (one.low, one.high) == pytest.approx((other.low, other.high))
    for one, other in zip(alone.differences, grouped.differences, strict=True):
        assert one.p_value == pytest.approx(other.p_value)


# ------------------------------------------------------------------------------------- unnoticed


@pytest.mark.parametrize("form", ["dense", "strings"])
def test_neighbours_that_are_alike_are_noticed(form):
    def given(spread, seed, shuffled=False):
        X, y, _ = subjects(20, 5, spread, seed)
        if form == "strings":
            X = [[[f"{c}:{v:.0f}" for c, v in enumerate(row)] for row in x] for x in X]
        order = np.random.default_rng(seed).permutation(len(X)) if shuffled else range(len(X))
        return in_memory(CRF(), [X[i] for i in order], [y[i] for i in order])[1]

    assert all(are_like_neighbours(given(2.0, seed)) for seed in range(5))
    assert not any(are_like_neighbours(given(2.0, seed, shuffled=True)) for seed in range(20))
    assert not any(are_like_neighbours(given(0.0, seed)) for seed in range(20))


def test_a_choice_says_that_neighbours_are_alike_unless_it_knows_groups():
    X, y, groups = subjects(20, 5, 2.0)
    model = CRF(COST, alpha=[0.1, 1.0], random_state=0)
    with pytest.warns(Dependent, match=r"X: samples are far more like .* say so with groups"):
        model.fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y, groups=groups)
        CRF(COST).fit(X, y)  # nothing is chosen
