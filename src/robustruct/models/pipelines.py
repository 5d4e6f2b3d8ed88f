"""Tools of scikit-learn for lists of samples: transformers of nodes, predictions in folds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted

from robustruct.arrays import is_sparse, length
from robustruct.errors import InvalidInputError, InvalidTypeError, shown
from robustruct.graphs import Graph
from robustruct.graphs.graph import n_rows
from robustruct.labels import encode_labels, sorted_labels
from robustruct.validation import as_listed, is_flat, label_arrays


class NodeTransformer(TransformerMixin, BaseEstimator):
    """Apply a transformer of scikit-learn to the nodes of all samples.

    The nodes of all samples are the rows that it is fitted on and transforms; the result is split
    into samples again, and graphs keep their edges. So a scaler, an imputer, a
    `ColumnTransformer`, a `TfidfVectorizer` and the like stand in a pipeline in front of a model of
    sequences, and are fitted on the training samples alone.

    Parameters
    ----------
    transformer : transformer
        Of scikit-learn, or with its methods ``fit`` and ``transform``. It is cloned, not changed.
        Its parameters are ``transformer__name``, for `GridSearchCV`, say.

    Attributes
    ----------
    transformer_ : transformer
        The one that was fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from robustruct import CRF, NodeTransformer
    >>> X = [np.array([[1.0], [3.0]]), np.array([[5.0]])]
    >>> NodeTransformer(StandardScaler(with_std=False)).fit_transform(X)
    [array([[-2.],
           [ 0.]]), array([[2.]])]
    >>> tagger = make_pipeline(NodeTransformer(StandardScaler()), CRF(alpha=0.1))
    >>> tagger.fit(X, [["low", "low"], ["high"]]).predict([[[5.0]]])
    [['high']]
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the transformer on the nodes of all samples.

        Parameters
        ----------
        X : list of samples, or 2-D array
            Samples as models take them: arrays, sparse matrices, tables, lists with an item for
            each node, or graphs of these. Tables and lists may hold anything that the transformer
            takes.
        y : list of label sequences, optional
            Labels of the nodes, for transformers that use them.

        Returns
        -------
        self
        """
        X = as_listed(X)
        flat = is_flat(X)
        nodes = X if flat else _joined(X)
        labels = y
        if y is not None and not flat:
            labels = np.concatenate(label_arrays(y, _sizes(X), flat=False))
        self.transformer_ = clone(self.transformer).fit(nodes, labels)
        return self

    def transform(self, X: Any) -> Any:
        """Return the samples with transformed nodes.

        Parameters
        ----------
        X : as for ``fit``
        """
        check_is_fitted(self)
        X = as_listed(X)
        if is_flat(X):
            return self.transformer_.transform(X)
        if not len(X):
            return []
        sizes = _sizes(X)
        nodes = self.transformer_.transform(_joined(X))
        if n_rows(nodes) != sizes.sum():
            raise InvalidInputError(
                f"{type(self.transformer).__name__} made {n_rows(nodes)} rows of {sizes.sum()} "
                "nodes; a transformer of nodes must keep their number.",
                field="transformer",
            )
        if is_sparse(nodes):
            nodes = nodes.tocsr()
        rows = getattr(nodes, "iloc", nodes)
        cuts = np.concatenate([[0], np.cumsum(sizes)]).tolist()
        parts = [rows[lo:hi] for lo, hi in pairwise(cuts)]
        return [_replaced(sample, part) for sample, part in zip(X, parts, strict=True)]

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns that the transformer makes.

        Parameters
        ----------
        input_features : array-like of str, optional
        """
        check_is_fitted(self)
        return self.transformer_.get_feature_names_out(input_features)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "transformer_")


METHODS = ("predict", "predict_proba", "predict_risk")


def cross_val_predict(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    cv: Any = None,
    method: Literal["predict", "predict_proba", "predict_risk"] = "predict",
    params: Mapping[str, Any] | None = None,
) -> list[Any]:
    """Return for each sample what a model says that was trained on other folds.

    scikit-learn's function of this name puts answers into one array, which sequences of different
    lengths do not form.

    Parameters
    ----------
    estimator : model or pipeline
        It is cloned for each fold.
    X : list of samples
    y : list of label sequences
    groups : array-like of shape (n_samples,), optional
        For splitters that keep groups together, such as `GroupKFold`.
    cv : int or scikit-learn splitter, optional
        Folds, by default five.
    method : "predict", "predict_proba" or "predict_risk", default="predict"
        Probabilities have a column for each label in y, sorted; 0 where a fold lacks the label.
    params : dict, optional
        Options of ``fit``. Lists and arrays with an item for each sample, such as a
        ``sample_weight``, are split like them.

    Returns
    -------
    list
        An answer for each sample.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import KFold
    >>> from robustruct import CRF, cross_val_predict
    >>> X = [np.array([[-1.0], [2.0]]), np.array([[1.5]]), np.array([[-2.0], [1.0], [3.0]])]
    >>> y = [["low", "high"], ["high"], ["low", "high", "high"]]
    >>> cross_val_predict(CRF(alpha=0.1), X, y, cv=KFold(3))
    [['low', 'high'], ['high'], ['low', 'high', 'high']]
    """
    if method not in METHODS:
        raise InvalidInputError(
            f"method={shown(method)} is not known; use one of {', '.join(map(repr, METHODS))}."
        )
    X, y = as_listed(X), as_listed(y)
    if not isinstance(X, list | tuple) or not len(X):
        raise InvalidTypeError(
            "X must be a list of samples; for rows of one array use scikit-learn's function.",
            field="X",
        )
    n = len(X)
    classes = sorted_labels(label_arrays(y, _sizes(X), flat=False))
    if groups is not None and length(groups) != n:
        raise InvalidInputError(
            f"groups has {length(groups)} entries for {n} samples; give one for each.",
            field="groups",
        )
    answers: list[Any] = [None] * n
    times = np.zeros(n, int)
    for train, test in check_cv(cv).split(np.arange(n), groups=groups):
        options = {name: _part(value, train, n) for name, value in (params or {}).items()}
        model = clone(estimator).fit([X[s] for s in train], [y[s] for s in train], **options)
        found = getattr(model, method)([X[s] for s in test])
        if method == "predict_proba":
            columns = encode_labels(np.asarray(model.classes_), classes, "classes_")
            found = [_in_columns(rows, columns, len(classes)) for rows in found]
        for s, answer in zip(test, found, strict=True):
            answers[s] = answer
        times[test] += 1
    if (times != 1).any():
        s = int(np.argmax(times != 1))
        raise InvalidInputError(
            f"cv holds sample {s} out {times[s]} times; use a splitter that holds each sample out "
            "once, such as KFold."
        )
    return answers


def _part(value: Any, chosen: np.ndarray, n_samples: int) -> Any:
    """The items of the chosen samples, if there is one for each."""
    if isinstance(value, str | Mapping) or length(value) != n_samples:
        return value
    return value[chosen] if isinstance(value, np.ndarray) else [value[s] for s in chosen]


def _in_columns(rows: np.ndarray, columns: np.ndarray, k: int) -> np.ndarray:
    wide = np.zeros((len(rows), k))
    wide[:, columns] = rows
    return wide


def _nodes(sample: Any) -> Any:
    return sample.node_features if isinstance(sample, Graph) else sample


def _replaced(sample: Any, nodes: Any) -> Any:
    """The sample with other features of its nodes."""
    if not isinstance(sample, Graph):
        return nodes
    return Graph(nodes, sample.edges, sample.edge_features, sample.node_types)


def _sizes(X: Sequence[Any]) -> np.ndarray:
    return np.array([n_rows(_nodes(sample)) for sample in X], np.intp)


def _joined(X: Any) -> Any:
    """The nodes of all samples, in the form that samples have."""
    if not isinstance(X, list | tuple) or not len(X):
        raise InvalidTypeError(
            f"X is {'empty' if isinstance(X, list | tuple) else f'a {type(X).__name__}'}; give a "
            "list of samples, or a 2-D array whose rows are samples of one node.",
            field="X",
        )
    parts = [_nodes(sample) for sample in X]
    kinds = {_kind(part) for part in parts}
    if len(kinds) > 1:
        raise InvalidInputError(
            f"X holds samples of several kinds, {' and '.join(sorted(kinds))}; give all in one "
            "form.",
            field="X",
        )
    (kind,) = kinds
    if kind == "lists":
        return list(chain.from_iterable(parts))
    if kind == "sparse matrices":
        import scipy.sparse

        return scipy.sparse.vstack(parts, format="csr")
    if kind == "tables":
        import narwhals

        frames = [narwhals.from_native(part, eager_only=True) for part in parts]
        return narwhals.concat(frames).to_native()
    widths = [np.shape(part)[1:] for part in parts]
    other = next((s for s, width in enumerate(widths) if width != widths[0]), None)
    if other is not None or len(widths[0]) != 1:
        s = other or 0
        raise InvalidInputError(
            f"sample {s} has shape {np.shape(parts[s])}; expected two dimensions, and as many "
            "columns as sample 0.",
            sample=s,
            field="X",
        )
    return np.concatenate([np.asarray(part) for part in parts])


def _kind(part: Any) -> str:
    if is_sparse(part):
        return "sparse matrices"
    if hasattr(part, "columns") and not isinstance(part, np.ndarray):
        return "tables"
    rows = isinstance(part, list | tuple) and not any(isinstance(one, list) for one in part[:1])
    return "lists" if rows or _is_text(part) else "arrays"


def _is_text(part: Any) -> bool:
    """Whether a list has a list of texts, such as attributes, for each node."""
    return isinstance(part, list | tuple) and any(isinstance(one, str) for one in part[0][:1])
