"""Which mistakes were made: confusion, scores of labels and of spans, against other libraries."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from robustruct.errors import InvalidInputError
from robustruct.metrics import confusion, is_span_labelling, label_scores, span_scores

seqeval = pytest.importorskip("seqeval.metrics.sequence_labeling")

BIOES = ["O", *(f"{tag}-{kind}" for tag in "BIES" for kind in ("X", "Y-Z"))]


def pairs(labels: list[str]) -> st.SearchStrategy:
    """Samples as lists of (true, predicted)."""
    node = st.tuples(st.sampled_from(labels), st.sampled_from(labels))
    return st.lists(st.lists(node, min_size=1, max_size=7), min_size=1, max_size=4)


def apart(samples: list) -> tuple[list[list[str]], list[list[str]]]:
    return [[a for a, _ in s] for s in samples], [[b for _, b in s] for s in samples]


@given(pairs(BIOES))
def test_spans_are_those_of_seqeval(samples) -> None:
    y_true, y_pred = apart(samples)
    overall, by_type = span_scores(y_true, y_pred)
    scores = seqeval.precision_recall_fscore_support(
        y_true, y_pred, average="micro", zero_division=0
    )
    assert (overall.precision, overall.recall, overall.f1) == pytest.approx(scores[:3])
    for kind, found in by_type.items():
        true = sum(len([s for s in seqeval.get_entities(y) if s[0] == kind]) for y in y_true)
        predicted = sum(len([s for s in seqeval.get_entities(y) if s[0] == kind]) for y in y_pred)
        assert (found.n_true, found.n_predicted) == (true, predicted)


@given(pairs(["a", "b", "c"]))
def test_labels_are_scored_as_by_scikit_learn(samples) -> None:
    y_true, y_pred = apart(samples)
    flat_true, flat_pred = list(chain(*y_true)), list(chain(*y_pred))
    labels = ["c", "a", "b"]
    expected = confusion_matrix(flat_true, flat_pred, labels=labels)
    np.testing.assert_array_equal(confusion(y_true, y_pred, labels), expected)
    p, r, f, n = precision_recall_fscore_support(
        flat_true, flat_pred, labels=labels, zero_division=0
    )
    for i, found in enumerate(label_scores(y_true, y_pred, labels).values()):
        assert (found.precision, found.recall, found.f1) == pytest.approx((p[i], r[i], f[i]))
        assert found.n_true == n[i]


def test_what_marks_spans() -> None:
    assert is_span_labelling(["O", "B-A", "I-A"])
    assert not is_span_labelling(["O"])
    assert not is_span_labelling(["O", "NOUN"])
    assert not is_span_labelling([1, 2])
    with pytest.raises(InvalidInputError, match="'NOUN' marks no span"):
        span_scores([["O", "NOUN"]], [["O", "B-A"]])
