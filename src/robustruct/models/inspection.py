"""What a fitted model has learnt, by name, and why a node got its label."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from robustruct.constraints import Constraints
from robustruct.errors import InvalidInputError
from robustruct.features import FeatureSpace, split_weights
from robustruct.losses import as_labels, encode_labels
from robustruct.models.explanation import Explanation, explanation


class Inspection:
    """The part of a model that shows its weights."""

    classes_: np.ndarray
    coef_: np.ndarray
    cost_: np.ndarray
    _space: FeatureSpace
    _rules: Constraints

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the node features: the rows of ``node_weights_``.

        ``input_features`` is ignored; scikit-learn passes it.
        """
        check_is_fitted(self)
        names = self._space.node_feature_names
        given = getattr(self, "feature_names_in_", ())
        return np.array([*given, *names[len(given) :]], dtype=object)

    def get_edge_feature_names_out(self) -> np.ndarray:
        """Names of the edge features: the rows of ``edge_weights_``."""
        check_is_fitted(self)
        return np.array(self._space.edge_feature_names, dtype=object)

    @property
    def node_weights_(self) -> np.ndarray:
        """(n_node_features, n_labels) view of ``coef_``."""
        check_is_fitted(self)
        return split_weights(self._space, self.coef_, len(self.classes_))[0]

    @property
    def edge_weights_(self) -> np.ndarray:
        """(n_edge_features, n_labels, n_labels) view of ``coef_``, [feature, label, next label]."""
        check_is_fitted(self)
        return split_weights(self._space, self.coef_, len(self.classes_))[1]

    @property
    def transitions_(self) -> np.ndarray:
        """(n_labels, n_labels) weight of each [label, next label], whatever the edge's features.

        The next label is that of the node an edge is listed to: in a chain, of the next node.
        """
        return self.edge_weights_[-1]

    def top_features(
        self, label: Any, n: int = 10, *, negative: bool = False
    ) -> list[tuple[str, float]]:
        """The node features that speak most for a label, as (name, weight), strongest first.

        Parameters
        ----------
        label : a member of ``classes_``
        n : int
            How many at most.
        negative : bool
            Those that speak most against it instead.
        """
        weights = self.node_weights_[:, self._code(label)]
        names = self.get_feature_names_out()
        return [(names[i], float(weights[i])) for i in _largest(weights, n, negative)]

    def top_transitions(
        self, n: int = 10, *, negative: bool = False
    ) -> list[tuple[tuple[Any, Any], float]]:
        """The transitions of largest weight, as ((label, next label), weight), largest first.

        With ``negative`` those of smallest weight, smallest first.
        """
        weights, names = self.transitions_, self.classes_.tolist()
        order = _largest(weights.ravel(), n, negative)
        pairs = zip(*np.unravel_index(order, weights.shape), strict=True)
        return [((names[a], names[b]), float(weights[a, b])) for a, b in pairs]

    def explain(self, x: Any, node: int, label: Any = None, against: Any = None) -> Explanation:
        """Why a node of one sample got its label.

        Parameters
        ----------
        x : one sample, in any form that ``predict`` takes in its list
        node : int
            Which of its nodes.
        label : optional
            The label to explain; by default the predicted one.
        against : optional
            The label to compare it with; by default the best other one.

        Returns
        -------
        Explanation
            What each feature and each transition adds to the score of ``label`` over that of
            ``against``, the neighbours being labelled as predicted, and the expected cost of every
            label. Print it.
        """
        check_is_fitted(self)
        codes = [None if name is None else self._code(name) for name in (label, against)]
        return explanation(self, x, node, *codes)  # type: ignore[arg-type]

    def _code(self, label: Any) -> int:
        return int(encode_labels(as_labels([label]), self.classes_, "the question")[0])


def _largest(weights: np.ndarray, n: int, negative: bool) -> np.ndarray:
    """Places of the n largest (or smallest) weights; ties in their own order."""
    if n < 1:
        raise InvalidInputError(f"n = {n}; ask for at least one.")
    signed = weights if negative else -weights
    if n < len(signed):
        few = np.flatnonzero(signed <= np.partition(signed, n - 1)[n - 1])
    else:
        few = np.arange(len(signed))
    return few[np.argsort(signed[few], kind="stable")][:n]
