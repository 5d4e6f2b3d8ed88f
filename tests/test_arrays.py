"""Arrays that users pass: broken sparse matrices, masks, labels beyond 2**53, long messages."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from robustruct import AGM, CRF, Graph, solve_game
from robustruct.arrays import all_sound_csr, as_csr
from robustruct.errors import (
    LONGEST_MESSAGE,
    FileFormatError,
    InvalidInputError,
    InvalidTypeError,
    MissingDataError,
    shown,
)
from robustruct.formats.shards import ShardedData
from robustruct.labels import as_labels, encode_labels, sorted_labels
from robustruct.losses import Absolute, CostMatrix
from robustruct.metrics import confusion, mean_loss
from robustruct.multilabel import MultiLabel

DENSE = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0], [0.0, 4.0, 0.0], [5.0, 6.0, 7.0]])
LABELS = [0, 1, 0, 1]


def spoilt(form, field, place, value):
    """A matrix of a sparse format with one index changed after SciPy has looked at it."""
    matrix = sp.coo_array(DENSE).asformat(form)
    indices = getattr(matrix, field)
    indices[place] = value
    return matrix


BROKEN = {
    "column too large": lambda: spoilt("csr", "indices", 2, 10**9),
    "column one too large": lambda: spoilt("csr", "indices", -1, 3),
    "column negative": lambda: spoilt("csr", "indices", 0, -1),
    "indptr too large": lambda: spoilt("csr", "indptr", -1, 10**9),
    "indptr falls": lambda: spoilt("csr", "indptr", 1, 6),
    "indptr negative": lambda: spoilt("csr", "indptr", 1, -5),
    "indptr starts late": lambda: spoilt("csr", "indptr", 0, 1),
    "csc row too large": lambda: spoilt("csc", "indices", 1, 10**9),
    "csc indptr": lambda: spoilt("csc", "indptr", -1, 10**9),
    "bsr column": lambda: spoilt("bsr", "indices", 0, 10**9),
    "coo row": lambda: spoilt("coo", "row", 0, 10**9),
    "coo column": lambda: spoilt("coo", "col", 0, -7),
    "lil column": lambda: lil_with(99),
    "few values": lambda: cut("data"),
    "few indices": lambda: cut("indices"),
    "short indptr": lambda: cut("indptr"),
    "64-bit column": lambda: wide_column(),
}


def lil_with(column):
    matrix = sp.lil_array(DENSE)
    matrix.rows[1][0] = column
    return matrix


def cut(field):
    matrix = sp.csr_array(DENSE)
    setattr(matrix, field, getattr(matrix, field)[:-1])
    return matrix


def wide_column():
    """A column that 32 bits would turn into a valid one."""
    matrix = sp.csr_array(DENSE)
    matrix.indices = matrix.indices.astype(np.int64)
    matrix.indptr = matrix.indptr.astype(np.int64)
    matrix.indices[0] = 2**32 + 1
    return matrix


@pytest.mark.parametrize("name", BROKEN)
def test_broken_sparse_matrices_are_refused_wherever_they_come_in(name):
    rows = CRF(alpha=1.0).fit(sp.csr_array(DENSE), LABELS)
    chains = CRF(alpha=1.0).fit([sp.csr_array(DENSE)], [LABELS])
    broken, edges = BROKEN[name], [(i, i + 1) for i in range(4)]
    calls = [
        lambda: CRF().fit(broken(), LABELS),
        lambda: CRF().fit([broken()], [LABELS]),
        lambda: CRF().fit([Graph(broken(), edges[:3])], [LABELS]),
        lambda: CRF().fit([Graph(np.eye(5), edges, broken())], [[0, *LABELS]]),
        lambda: rows.predict(broken()),
        lambda: chains.predict([broken()]),
        lambda: MultiLabel(CRF()).fit(broken(), np.ones((4, 2))),
        lambda: CRF().fit(ShardedData.from_samples(broken(), LABELS, 2)),
    ]
    for call in calls:
        with pytest.raises(InvalidInputError, match=r"broken: .* Make it again"):
            call()


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_matrix_among_sound_ones_is_seen(name):
    sound = [sp.csr_array(DENSE), sp.csr_matrix(DENSE[:1]), sp.csr_array(DENSE[:2] * 0)]
    assert all_sound_csr(sound, 3)
    assert not all_sound_csr([*sound, sp.csr_array(DENSE[:, :2])], 3)
    for place in range(4):
        assert not all_sound_csr([*sound[:place], BROKEN[name](), *sound[place:]], 3)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "lil", "dok", "dia"])
@pytest.mark.parametrize("make", [sp.coo_array, sp.coo_matrix])
def test_every_sparse_format_is_the_dense_array(form, make):
    found = as_csr(make(DENSE).asformat(form), "X")
    np.testing.assert_array_equal(found.toarray(), DENSE)


def test_a_matrix_with_room_behind_its_last_row():
    """SciPy keeps such matrices; what is behind the last row belongs to none."""
    matrix = sp.csr_array(DENSE)
    matrix.indices = np.append(matrix.indices, [99, -3]).astype(matrix.indices.dtype)
    matrix.data = np.append(matrix.data, [np.nan, 1e9])
    options = {"alpha": 0.1, "tol": 1e-6}
    plain = CRF(**options).fit([DENSE, DENSE[::-1]], [LABELS, LABELS])
    roomy = CRF(**options).fit([matrix, sp.csr_array(DENSE[::-1])], [LABELS, LABELS])
    np.testing.assert_allclose(roomy.coef_, plain.coef_, rtol=1e-4, atol=1e-6)


def test_64_bit_indices_are_as_good_as_32_bit_ones():
    wide = sp.csr_array(DENSE)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    one, other = (
        CRF(alpha=0.1).fit(X, y) for X, y in ((wide, LABELS), (sp.csr_array(DENSE), LABELS))
    )
    np.testing.assert_array_equal(one.coef_, other.coef_)


# ------------------------------------------------------------------------------------------- masks


def masked(values, place=0):
    array = np.ma.array(values, mask=np.zeros(np.shape(values), bool))
    array.flat[place] = np.ma.masked
    return array


MASKED = {
    "rows": lambda: CRF().fit(masked(DENSE), LABELS),
    "chain": lambda: CRF().fit([masked(DENSE)], [LABELS]),
    "list of rows": lambda: CRF().fit([[masked(row) for row in DENSE]], [LABELS]),
    "nodes": lambda: CRF().fit([Graph(masked(DENSE), [(0, 1)])], [LABELS]),
    "edges": lambda: Graph(DENSE, masked([[0, 1], [1, 2]])),
    "edge features": lambda: CRF().fit([Graph(DENSE, [(0, 1)], masked([[1.0]]))], [LABELS]),
    "flat y": lambda: CRF().fit(DENSE, masked(LABELS)),
    "y": lambda: CRF().fit([DENSE], [masked(LABELS)]),
    "y list": lambda: CRF().fit([DENSE], [[0, np.ma.masked, 0, 1]]),
    "sample_weight": lambda: CRF().fit(DENSE, LABELS, masked(np.ones(4))),
    "sample_weight list": lambda: CRF().fit(DENSE, LABELS, [1.0, np.ma.masked, 1.0, 1.0]),
    "node_weight": lambda: CRF().fit([DENSE], [LABELS], None, [masked(np.ones(4))]),
    "cost": lambda: CostMatrix(masked([[0.0, 1.0], [1.0, 0.0]], 1)),
    "loss": lambda: AGM(masked([[0.0, 1.0], [1.0, 0.0]], 1)).fit(DENSE, LABELS),
    "unary": lambda: solve_game(masked([[0.0, 0.0]]), [], [], [[0, 1], [1, 0]]),
    "pairwise": lambda: solve_game(
        np.zeros((2, 2)), [(0, 1)], masked(np.zeros((1, 2, 2))), [[0, 1], [1, 0]]
    ),
    "metrics": lambda: mean_loss(masked(LABELS), LABELS),
    "metric weights": lambda: mean_loss(LABELS, LABELS, node_weight=masked(np.ones(4))),
    "shards": lambda: CRF().fit(ShardedData.from_samples(masked(DENSE), LABELS, 2)),
    "answers": lambda: MultiLabel(CRF()).fit(DENSE, masked(np.ones((4, 2)))),
}


@pytest.mark.parametrize("name", MASKED)
def test_masked_values_are_refused(name):
    with pytest.raises(InvalidInputError, match=r"masked|label --"):
        MASKED[name]()


def test_a_mask_that_hides_nothing_is_no_mask():
    plain = CRF(alpha=0.1).fit([DENSE], [LABELS])
    hidden = CRF(alpha=0.1).fit([np.ma.array(DENSE, mask=False)], [np.ma.array(LABELS)])
    np.testing.assert_array_equal(plain.coef_, hidden.coef_)
    assert type(hidden.classes_) is np.ndarray


@pytest.mark.filterwarnings("ignore:.*matrix subclass:PendingDeprecationWarning")
def test_np_matrix_is_the_array_it_holds():
    expected = CRF(alpha=0.1).fit(DENSE, LABELS)
    found = CRF(alpha=0.1).fit(np.matrix(DENSE), LABELS)
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    np.testing.assert_array_equal(found.predict(np.matrix(DENSE)), expected.predict(DENSE))
    expected = CRF(alpha=0.1).fit([DENSE], [LABELS])
    found = CRF(np.matrix([[0, 1], [1, 0]]), alpha=0.1).fit([np.matrix(DENSE)], [LABELS])
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    with pytest.raises(InvalidInputError, match=r"shape \(1, 4\); expected one label per node"):
        CRF().fit([DENSE], [np.matrix(LABELS)])


# ------------------------------------------------------------------------------------------ labels

CLOSE = 2**53, 2**53 + 1


@pytest.mark.parametrize(
    "labels",
    [
        [*CLOSE],
        [*CLOSE, 0.5],
        [*CLOSE, 2.0**53],
        [2**63, 2**63 + 1, -1],
        [2**70, 2**70 + 1],
        [2**70, 2**70 + 1, 0.5],
    ],
)
def test_large_integers_stay_apart(labels):
    array = as_labels(labels)
    assert array.tolist() == labels
    classes = sorted_labels([array])
    assert classes.tolist() == sorted(set(labels))
    assert [classes.tolist()[code] for code in encode_labels(array, classes, "y")] == labels


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.array(CLOSE), np.array([0.5, 2.0**53])),
        (np.array(CLOSE, np.uint64), np.array([-1])),
        (np.array([2**63 + 1, 2**63], np.uint64), np.array([-1, 2**62 + 1])),
    ],
)
def test_arrays_of_different_numbers_are_compared_exactly(one, other):
    distinct = {*one.tolist(), *other.tolist()}
    classes = sorted_labels([one, other])
    assert set(classes.tolist()) == distinct
    assert len(classes) == len(distinct)
    for array in (one, other):
        codes = encode_labels(array, classes, "y")
        assert [classes.tolist()[code] for code in codes] == array.tolist()
    assert np.trace(confusion([one, other], [one, other])) == len(one) + len(other)


def test_models_tell_large_integers_apart():
    y = [CLOSE[0], CLOSE[1], CLOSE[0], CLOSE[1]]
    X = np.array([[0.0], [1.0], [0.0], [1.0]])
    for labels in (y, np.array(y)):
        model = CRF(alpha=1e-3).fit(X, labels)
        assert model.predict(X).tolist() == y
    chains = CRF(alpha=1e-3).fit([X, X], [[*y[:3], 0.5], np.array(y)])
    assert chains.classes_.tolist() == [0.5, *CLOSE]


def test_distances_of_large_integers():
    np.testing.assert_array_equal(Absolute().matrix([*CLOSE]), [[0, 1], [1, 0]])
    np.testing.assert_array_equal(Absolute().matrix([2**53 + 1, 2.0**53]), [[0, 1], [1, 0]])
    np.testing.assert_array_equal(
        Absolute().matrix(np.array([-(2**63), 2**63 - 1])), [[0, 2.0**64], [2.0**64, 0]]
    )
    with pytest.raises(InvalidInputError, match="too far apart"):
        Absolute().matrix([-1.7e308, 1.7e308])


# ---------------------------------------------------------------------------------------- messages


LONG = {
    "label": lambda: CRF().fit([DENSE], [["a" * 90_000, ["b" * 90_000, []], "c", "d"]]),
    "unknown label": lambda: encode_labels(
        as_labels(["x" * 90_000]), as_labels(["y" * 90_000, "z" * 90_000]), "y"
    ),
    "loss": lambda: AGM("l" * 90_000).fit(DENSE, LABELS),
    "text": lambda: CRF().fit(np.full((2, 2), "a" * 90_000), [0, 1]),
    "repeated labels": lambda: CostMatrix(np.zeros((300, 300)), ["a" * 300] * 300),
    "attribute": lambda: CRF().fit([[{"a" * 90_000: None}]], [["a"]]),
    "type": lambda: Graph(DENSE, [], node_types=["a", "b", "c", ("d",) * 90_000]),
    "alpha": lambda: CRF(alpha="a" * 90_000).fit(DENSE, LABELS),
    "digits": lambda: CRF(alpha=-(10**9000)).fit(DENSE, LABELS),
    "digits of a label": lambda: encode_labels(as_labels([10**9000]), as_labels([1]), "y"),
    "forbidden": lambda: CRF(constraints=["f" * 90_000]).fit(DENSE, LABELS),
}


@pytest.mark.parametrize("name", LONG)
def test_messages_are_bounded(name):
    with pytest.raises(InvalidInputError) as caught:
        LONG[name]()
    assert len(str(caught.value)) <= LONGEST_MESSAGE


def test_a_shortened_message_keeps_its_beginning_and_its_end():
    error = InvalidInputError(f"y is {'a' * 90_000}; do this.")
    assert str(error).startswith("y is aaa")
    assert str(error).endswith("aaa; do this.")
    assert "characters) ... aaa" in str(error)
    for kind in (InvalidInputError, MissingDataError, InvalidTypeError):
        again = pickle.loads(pickle.dumps(kind("b" * 5000)))
        assert type(again) is kind
        assert str(again) == str(kind("b" * 5000))
    assert len(str(FileFormatError("f" * 5000, 3, "m"))) <= LONGEST_MESSAGE


def test_what_cannot_be_shown_is_named_by_its_type():
    class Shy:
        def __repr__(self):
            raise RuntimeError

    assert "Shy" in shown(Shy())
    assert len(shown([["a" * 999] * 999] * 999)) <= 200


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_numbers_whose_squares_are_infinite_are_refused(make):
    with pytest.raises(InvalidInputError, match=r"sample 0, node 1: .* is -1e\+200; .* Scale"):
        CRF().fit([make([[1.0, 2.0], [3.0, -1e200]])], [[0, 1]])
    with pytest.raises(InvalidInputError, match=r"weights are >= 0 and at most 1e\+100"):
        CRF().fit([make(np.eye(2))], [[0, 1]], sample_weight=[1e200])
