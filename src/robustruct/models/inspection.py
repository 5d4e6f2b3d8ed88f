"""What a fitted model has learnt, by name, and why a node got its label."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from robustruct.constraints import TransitionMasks, node_kinds
from robustruct.errors import InvalidInputError
from robustruct.features import Design, FeatureMatrix, FeatureSpace, split_weights
from robustruct.labels import as_labels, encode_labels
from robustruct.models.estimator import Estimator

if TYPE_CHECKING:
    from robustruct.models.base import StructuredModel


class Inspection(Estimator):
    """The part of a model that shows its weights."""

    classes_: np.ndarray
    coef_: np.ndarray
    cost_: np.ndarray
    _space: FeatureSpace
    _rules: TransitionMasks

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the node features: the rows of ``node_weights_``.

        ``input_features`` is ignored; scikit-learn passes it.
        """
        self._check_fitted()
        names = self._space.node_feature_names
        given = getattr(self, "feature_names_in_", ())
        return np.array([*given, *names[len(given) :]], dtype=object)

    def get_edge_feature_names_out(self) -> np.ndarray:
        """Names of the edge features: the rows of ``edge_weights_``."""
        self._check_fitted()
        return np.array(self._space.edge_feature_names, dtype=object)

    @property
    def node_weights_(self) -> np.ndarray:
        """(n_node_features, n_labels) view of ``coef_``."""
        self._check_fitted()
        return split_weights(self._space, self.coef_, len(self.classes_))[0]

    @property
    def edge_weights_(self) -> np.ndarray:
        """(n_edge_features, n_labels, n_labels) view of ``coef_``, [feature, label, next label]."""
        self._check_fitted()
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
            label. Print it, or read its attributes: ``features`` and ``transitions`` (largest
            first; each with its ``name``, its ``amount`` and what it adds ``per_label``), their sum
            ``margin``, and by label ``scores``, ``probabilities`` and ``expected_cost``.
        """
        self._check_fitted()
        codes = [None if name is None else self._code(name) for name in (label, against)]
        return explanation(self, x, node, *codes)

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


@dataclass(frozen=True)
class Contribution:
    """One part of a score."""

    name: str
    amount: float
    """What it adds to the score of the label over that of the label it is compared with."""
    per_label: Mapping[Any, float]
    """What it adds to the score of every label."""


@dataclass(frozen=True)
class Explanation:
    """Why one node has its label, its neighbours being labelled as predicted.

    The amounts of ``features`` and ``transitions`` add up to ``margin``.
    """

    node: int
    label: Any
    against: Any
    """The label it is compared with; None if there is only one label."""
    predicted: Any
    """What the model predicts for the node."""
    features: tuple[Contribution, ...]
    """Active features of the node, the largest amount first."""
    transitions: tuple[Contribution, ...]
    """Edge features and rules between the node and its neighbours, the largest amount first."""
    scores: Mapping[Any, float]
    """Score of every label of the node."""
    probabilities: Mapping[Any, float]
    """What ``predict_proba`` says."""
    expected_cost: Mapping[Any, float]
    """Cost of predicting each label, expected under ``probabilities``."""

    @property
    def margin(self) -> float:
        """Score of the label minus that of the label it is compared with."""
        return float(sum(part.amount for part in (*self.features, *self.transitions)))

    def __str__(self) -> str:
        rival = "" if self.against is None else f" rather than {self.against!r}"
        lines = [f"node {self.node}: {self.label!r}{rival}, margin {self.margin:+.4g}"]
        if self.label != self.predicted:
            lines[0] += f" (predicted: {self.predicted!r})"
        for title, parts in (("features", self.features), ("transitions", self.transitions)):
            if parts:
                lines.append(f"  {title} {sum(part.amount for part in parts):+.4g}")
                lines += [f"    {part.amount:+10.4f}  {part.name}" for part in _shortened(parts)]
        lines.append("  label: score, probability, expected cost")
        ranked = sorted(self.scores, key=lambda label: -self.scores[label])
        for label in ranked[:10]:
            lines.append(
                f"    {label!r}: {self.scores[label]:.4g}, {self.probabilities[label]:.3f}, "
                f"{self.expected_cost[label]:.4g}"
            )
        return "\n".join(lines)


def _shortened(parts: tuple[Contribution, ...], n: int = 12) -> list[Contribution]:
    """The parts that matter most, in their order; the others as one."""
    if len(parts) <= n:
        return list(parts)
    limit = sorted((abs(part.amount) for part in parts), reverse=True)[n - 1]
    shown = [part for part in parts if abs(part.amount) >= limit][:n]
    rest = sum(part.amount for part in parts) - sum(part.amount for part in shown)
    return [*shown, Contribution(f"({len(parts) - len(shown)} more)", rest, {})]


def explanation(
    model: StructuredModel, x: Any, node: int, label: int | None, against: int | None
) -> Explanation:
    """The explanation for codes ``label`` and ``against`` (None: as predicted, best other)."""
    one_row = isinstance(x, np.ndarray) and x.ndim == 1 and x.dtype != object
    design = model._space.encode([x[None, :] if one_row else x])
    n_nodes = design.batch.n_nodes
    if not 0 <= node < n_nodes:
        raise InvalidInputError(f"node = {node}, but the sample has nodes 0..{n_nodes - 1}.")
    position = int(np.flatnonzero(design.batch.node_of == node)[0])
    found = model._feasible(model._scores(design))
    codes = model._decide(found)
    features = list(_node_parts(model, design, position))
    transitions = list(_edge_parts(model, design, position, codes))
    score = sum((values for _, values in features + transitions), np.zeros(len(model.classes_)))
    if label is None:
        label = int(codes[position])
    if against is None and len(score) > 1:
        against = int(np.argmax(np.where(np.arange(len(score)) == label, -np.inf, score)))
        against = against if against != label else int(label == 0)
    names = model.classes_.tolist()
    p = model._probabilities(found)[position]

    def by_label(values: np.ndarray) -> dict[Any, float]:
        return dict(zip(names, values.tolist(), strict=True))

    def contributions(parts: list[tuple[str, np.ndarray]]) -> tuple[Contribution, ...]:
        made = [Contribution(n, _difference(v, label, against), by_label(v)) for n, v in parts]
        return tuple(sorted(made, key=lambda part: -part.amount))

    return Explanation(
        node=int(node),
        label=names[label],
        against=None if against is None else names[against],
        predicted=names[codes[position]],
        features=contributions(features),
        transitions=contributions(transitions),
        scores=by_label(score),
        probabilities=by_label(p),
        expected_cost=by_label(p @ model.cost_),
    )


def _difference(values: np.ndarray, label: int, against: int | None) -> float:
    if against is None:
        return float(values[label])
    if values[label] == values[against]:  # also where a rule forbids both
        return 0.0
    return float(values[label] - values[against])


def _node_parts(
    model: StructuredModel, design: Design, position: int
) -> Iterator[tuple[str, np.ndarray]]:
    """(name, (k,) what it adds to each label) of what speaks about the node alone."""
    names, weights = model.get_feature_names_out(), model.node_weights_
    for column, value in _active(design.nodes, position):
        name = str(names[column]) if value == 1.0 else f"{names[column]} = {value:.4g}"
        yield name, value * weights[column]
    mask = model._rules.unary_masks()[node_kinds(design)[position]]
    if np.isinf(mask).any():
        yield "(rules for the place and type of the node)", mask


def _edge_parts(
    model: StructuredModel, design: Design, position: int, codes: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    """The same for the edges that join the node to its neighbours, labelled ``codes``."""
    batch, names = design.batch, model.get_edge_feature_names_out()
    above = (batch.child == position) & (batch.parent >= 0)
    for slot in [*np.flatnonzero(batch.parent == position), *np.flatnonzero(above)]:
        other = int(batch.parent[slot] if above[slot] else batch.child[slot])
        node_comes_first = above[slot] != batch.flipped[slot]
        neighbour = model.classes_[codes[other] : codes[other] + 1].tolist()[0]
        where = f"{'to' if node_comes_first else 'from'} node {batch.node_of[other]} {neighbour!r}"

        def towards(
            table: np.ndarray, first: bool = bool(node_comes_first), b: int = int(codes[other])
        ) -> np.ndarray:
            return table[:, b] if first else table[b]

        row = int(design.table_row[design.table_of[slot]])
        for column, value in _active(design.edges, row):
            yield f"{names[column]} {where}", value * towards(model.edge_weights_[column])
        mask = towards(model._rules.pairs)
        if np.isinf(mask).any():
            yield f"(rules) {where}", mask


def _active(matrix: FeatureMatrix, row: int) -> Iterator[tuple[int, float]]:
    """(column, value) of the features that are not zero."""
    if isinstance(matrix, np.ndarray):
        columns = np.flatnonzero(matrix[row])
        values = matrix[row, columns]
    else:
        span = slice(matrix.indptr[row], matrix.indptr[row + 1])
        columns, values = matrix.indices[span], matrix.data[span]
    yield from zip(columns.tolist(), values.tolist(), strict=True)
