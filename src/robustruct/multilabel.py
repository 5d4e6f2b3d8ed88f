"""Multi-label classification: every sample is a small graph with one node per question.

Which questions are joined is learnt from the answers in the training data: the tree of largest
mutual information (Chow and Liu, 1968), and on request more edges while the treewidth allows it.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import minimum_spanning_tree
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from robustruct.arrays import as_csr, as_floats, length, refuse_masked
from robustruct.errors import InvalidInputError, shown
from robustruct.graphs import Graph, checked_edges, treewidth
from robustruct.labels import as_labels, encode_labels, sorted_labels
from robustruct.models import AGM

__all__ = ["MultiLabel", "label_graph", "mutual_information"]


def mutual_information(Y: Any) -> np.ndarray:
    """(m, m) mutual information in nats between the columns of Y (n, m), zero on the diagonal."""
    Y = _answers(Y)
    columns = [sorted_labels([column]) for column in Y.T]
    indicators = [
        encode_labels(column, names, "Y") == np.arange(len(names))[:, None]
        for column, names in zip(Y.T, columns, strict=True)
    ]
    information = np.zeros((Y.shape[1], Y.shape[1]))
    for i, one in enumerate(indicators):
        for j in range(i):
            joint = one.astype(float) @ indicators[j].T / len(Y)
            independent = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
            some = joint > 0
            gain = float((joint[some] * np.log(joint[some] / independent[some])).sum())
            information[i, j] = information[j, i] = max(gain, 0.0)
    return information


def label_graph(Y: Any, width: int = 1) -> np.ndarray:
    """Edges (e, 2) between the columns of Y (n, m) that carry most mutual information.

    Parameters
    ----------
    Y : array-like of shape (n, m)
        Answers to m questions.
    width : int
        Largest treewidth. 1 gives the Chow-Liu tree; with more, edges are added to it in the order
        of their mutual information as long as the graph stays within it.

    Examples
    --------
    >>> Y = [[0, 0, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1], [1, 1, 1]]
    >>> label_graph(Y).tolist()
    [[0, 1], [0, 2]]
    >>> label_graph(Y, width=2).tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    if not isinstance(width, Integral) or width < 1:
        raise InvalidInputError(
            f"width = {shown(width)}; a graph with edges has treewidth 1 or more."
        )
    information = mutual_information(Y)
    # A shift keeps edges without information apart from missing ones.
    distance = np.triu(-(information + 1.0), 1)
    tree = minimum_spanning_tree(sp.csr_array(distance)).tocoo()
    edges = sorted((int(i), int(j)) for i, j in zip(tree.row, tree.col, strict=True))
    m = len(information)
    if width > 1:
        others = [(i, j) for i in range(m) for j in range(i + 1, m) if (i, j) not in edges]
        for pair in sorted(others, key=lambda pair: -information[pair]):
            if treewidth(m, np.array([*edges, pair], np.intp))[1] <= width:
                edges.append(pair)
    return np.array(sorted(edges), np.intp).reshape(-1, 2)


def label_graphs(X: Any, edges: Any, n_questions: int) -> list[Graph]:
    """A graph per row of X (n, d), in which every question and every edge has weights of its own.

    Node j has the features of the row, and a constant, in columns of its own.
    """
    rows = _rows(X)
    edges = checked_edges(edges, n_questions)
    own = sp.eye_array(len(edges), format="csr") if len(edges) else None
    width = rows.shape[1] + 1
    graphs = []
    for i in range(rows.shape[0]):
        span = slice(rows.indptr[i], rows.indptr[i + 1])
        columns = np.append(rows.indices[span], width - 1)
        values = np.append(rows.data[span], 1.0)
        size = len(columns)
        indices = (columns + width * np.arange(n_questions)[:, None]).ravel()
        indptr = size * np.arange(n_questions + 1)
        nodes = sp.csr_array(
            (np.tile(values, n_questions), indices, indptr),
            shape=(n_questions, width * n_questions),
        )
        graphs.append(Graph(nodes, edges, own))
    return graphs


def _rows(X: Any) -> sp.csr_array:
    """X (n, d) as sparse rows of finite numbers."""
    given: Any = X if sp.issparse(X) else as_floats(X, "X")
    if given.ndim != 2:
        raise InvalidInputError(f"X has shape {given.shape}; expected one row per sample.")
    if given.dtype.kind not in "fiub":
        raise InvalidInputError(f"X holds values of type {given.dtype}; expected real numbers.")
    rows = sp.csr_array(as_csr(given, "X") if sp.issparse(X) else given, dtype=float)
    if not np.isfinite(rows.data).all():
        raise InvalidInputError("X holds NaN or infinite values; features must be finite.")
    return rows


def _answers(Y: Any) -> np.ndarray:
    """Y (n, m) as an array that has changed none of the labels."""
    if not isinstance(Y, np.ndarray):
        rows = [as_labels(row) for row in Y] if length(Y) else []
        widths = {len(row) for row in rows}
        if len(widths) != 1:
            raise InvalidInputError(
                f"Y holds {len(rows)} rows of {sorted(widths)[:5]} answers; give one row per "
                "sample and one column per question."
            )
        labels = [label for row in rows for label in row.tolist()]
        Y = as_labels(labels).reshape(len(rows), -1)
    refuse_masked(Y, "Y")
    answers = np.asarray(Y)
    if answers.ndim != 2 or 0 in answers.shape:
        raise InvalidInputError(
            f"Y has shape {answers.shape}; expected one row per sample and one column per question."
        )
    as_labels(answers.ravel())
    return answers


class MultiLabel(ClassifierMixin, BaseEstimator):
    """Several questions about each sample, answered together.

    Parameters
    ----------
    model : AGM, CRF or SSVM, optional
        What to train on the graphs, with its loss and options; by default ``AGM()``.
    edges : array-like of shape (e, 2), optional
        Which questions are joined; by default learnt, see `label_graph`.
    width : int
        Largest treewidth of learnt edges.

    Attributes
    ----------
    model_ : the fitted model
    edges_ : ndarray of shape (e, 2)

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.2], [0.9], [1.0]])
    >>> Y = np.array([[0, 1], [0, 1], [1, 0], [1, 0]])
    >>> MultiLabel(AGM(alpha=0.01, random_state=0)).fit(X, Y).predict([[0.1], [0.8]])
    array([[0, 1],
           [1, 0]])
    """

    def __init__(self, model: Any = None, *, edges: Any = None, width: int = 1) -> None:
        self.model = model
        self.edges = edges
        self.width = width

    def fit(self, X: Any, Y: Any) -> MultiLabel:
        """Learn from rows X (n, d) and their answers Y (n, m)."""
        rows, answers = _rows(X), _answers(Y)
        if len(answers) != rows.shape[0]:
            raise InvalidInputError(
                f"Y has shape {answers.shape}; expected one row per row of X ({rows.shape[0]}) and "
                "one column per question."
            )
        m = answers.shape[1]
        edges = label_graph(answers, self.width) if self.edges is None else self.edges
        self.edges_ = checked_edges(edges, m)
        self.n_questions_ = m
        self.model_ = clone(AGM() if self.model is None else self.model)
        self.model_.fit(label_graphs(rows, self.edges_, m), list(answers))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """(n, m) answers."""
        return np.stack(self.model_.predict(self._graphs(X)))

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, m, k) distributions over ``model_.classes_``."""
        return np.stack(self.model_.predict_proba(self._graphs(X)))

    def score(self, X: Any, Y: Any) -> float:
        """Minus the mean loss per question."""
        return self.model_.score(self._graphs(X), list(_answers(Y)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output, tags.target_tags.multi_output = False, True
        return tags

    def _graphs(self, X: Any) -> list[Graph]:
        check_is_fitted(self, "model_")
        return label_graphs(X, self.edges_, self.n_questions_)
