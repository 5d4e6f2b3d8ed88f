"""Charts as data: what is drawn, and what is written where, before anybody draws it.

`robustruct.report` makes SVG and tables of them, `robustruct.plots` matplotlib's axes. Both get the
same numbers, the same words and the same ticks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from robustruct._lazy import cached_property
from robustruct.errors import InvalidInputError
from robustruct.graphs.graph import chain_edges, checked_edges
from robustruct.graphs.layout import positions

if TYPE_CHECKING:
    from robustruct.comparison import Comparison
    from robustruct.comparison.examples import Example

MOST_TICKS = 7  # more do not fit below each other's neighbours on a phone
SHORTEST_TIME = 1e-4  # seconds; a logarithmic axis has no place for 0

# ---------------------------------------------------------------------------- numbers in words


def number(value: float) -> str:
    """Three digits, short."""
    return f"{value:.3g}"


def percent(value: float) -> str:
    """A share as a percentage, two digits."""
    shown = f"{100 * value:.2g}" if abs(value) < 1 else f"{100 * value:.0f}"
    return f"{shown} %"


def magnitude(value: float) -> str:
    """A number of any size, short."""
    if 1e-3 <= value < 1e4:
        return f"{value:g}"
    return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")


# ---------------------------------------------------------------------------------------- axes


@dataclass(frozen=True)
class Axis:
    """What is measured along one side of a chart."""

    label: str
    log: bool = False
    written: Callable[[float], str] = number
    """How its ticks are written."""


def ticks(low: float, high: float, *, log: bool) -> list[float]:
    """Round numbers from ``low`` to ``high``; on a logarithmic axis as fine as there is room.

    Examples
    --------
    >>> ticks(0.0, 9.0, log=False)
    [0.0, 2.0, 4.0, 6.0, 8.0]
    >>> [f"{tick:g}" for tick in ticks(0.04, 3.0, log=True)]
    ['0.05', '0.1', '0.2', '0.5', '1', '2']
    >>> [f"{tick:g}" for tick in ticks(0.021, 0.046, log=True)]
    ['0.025', '0.03', '0.035', '0.04', '0.045']
    """
    if not log:
        return _linear_ticks(low, high)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        marks = [10.0**power * factor for power in powers for factor in factors]
        inside = [mark for mark in marks if low * 0.9999 <= mark <= high * 1.0001]
        if len(inside) <= MOST_TICKS:
            break
    if len(inside) < 3:
        return _linear_ticks(low, high)
    return inside[:: math.ceil(len(inside) / MOST_TICKS)]


def _linear_ticks(low: float, high: float) -> list[float]:
    if not high > low:
        return [low]
    rough = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(rough))
    unit = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first = math.ceil(low / unit - 1e-9)
    return [float(i * unit) for i in range(first, math.floor(high / unit + 1e-9) + 1)]


# -------------------------------------------------------------------------------- kinds of charts


@dataclass(frozen=True, eq=False)
class Line:
    """A line of a chart."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    tips: Sequence[str]
    """What there is to say about every point."""
    marked: int | None = None
    """Place of a point to be emphasised."""


@dataclass(frozen=True, eq=False)
class LineChart:
    """Lines over common axes."""

    title: str
    lines: Sequence[Line]
    x: Axis
    y: Axis


@dataclass(frozen=True)
class Interval:
    """A value that is known up to an interval."""

    name: str
    low: float
    value: float
    high: float
    tip: str


@dataclass(frozen=True, eq=False)
class IntervalChart:
    """Values with their intervals, one below the other."""

    title: str
    intervals: Sequence[Interval]
    axis: Axis


@dataclass(frozen=True, eq=False)
class BarChart:
    """For each label one bar per name."""

    title: str
    labels: Sequence[str]
    heights: Mapping[str, np.ndarray]
    unit: str

    def tip(self, name: str, i: int) -> str:
        """What there is to say about the bar of ``name`` at label ``i``."""
        return f"{self.labels[i]}, {name}: {number(float(self.heights[name][i]))} {self.unit}"


@dataclass(frozen=True, eq=False)
class Matrix:
    """A table with a row and a column per label, coloured by its values."""

    title: str
    values: np.ndarray
    """(k, k), what colours stand for."""
    labels: Sequence[str]
    rows: str
    columns: str
    unit: str
    full: float
    """Value of the deepest colour."""
    cell: Callable[[int, int], str]
    """What is written into (row, column)."""
    tip: Callable[[int, int], str]

    def __post_init__(self) -> None:
        k = len(self.labels)
        if self.values.shape != (k, k):
            raise InvalidInputError(
                f"the matrix has shape {self.values.shape} but there are {k} labels."
            )

    @property
    def signed(self) -> bool:
        """Whether values of both signs may occur."""
        return bool((self.values < 0).any())


@dataclass(frozen=True, eq=False)
class SampleChart:
    """A sequence or graph whose nodes show p, the predictor's distribution, and the adversary's q.

    ``truth`` and ``predicted``, where known, hold the true labels and those of each method.
    """

    title: str
    predictor: np.ndarray
    """(n, k)"""
    adversary: np.ndarray
    """(n, k)"""
    labels: Sequence[str]
    edges: np.ndarray
    is_chain: bool
    captions: Sequence[str] | None = None
    truth: Sequence[str] | None = None
    predicted: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n, k = self.predictor.shape
        if len(self.labels) != k or (self.captions is not None and len(self.captions) != n):
            raise InvalidInputError(
                f"the game has {n} nodes and {k} labels; give {k} classes and {n} captions, or "
                "none."
            )

    @property
    def n_nodes(self) -> int:
        return len(self.predictor)

    @cached_property
    def places(self) -> np.ndarray:
        """(n, 2) where nodes stand: how far to the right, and how deep."""
        if self.is_chain:
            return np.column_stack([np.arange(self.n_nodes), np.zeros(self.n_nodes)])
        return positions(self.n_nodes, self.edges)

    def likeliest(self, node: int) -> str:
        """The predictor's likeliest label."""
        return self.labels[int(self.predictor[node].argmax())]

    def is_right(self, name: str, node: int) -> bool:
        """Whether a method has found the true label."""
        return self.truth is not None and self.predicted[name][node] == self.truth[node]

    def head(self, node: int) -> str:
        """The true label, or the predictor's likeliest where the truth is not known."""
        return self.likeliest(node) if self.truth is None else self.truth[node]

    def tip(self, node: int) -> str:
        """All there is to say about a node."""
        caption = "" if self.captions is None else f" “{self.captions[node]}”"
        true = "" if self.truth is None else f": true {self.truth[node]}"
        lines = [f"node {node}{caption}{true}"]
        lines += [f"{name}: {labels[node]}" for name, labels in self.predicted.items()]
        lines.append(f"predictor p: {self._shares(self.predictor[node])}")
        lines.append(f"adversary q: {self._shares(self.adversary[node])}")
        return "\n".join(lines)

    def _shares(self, shares: np.ndarray) -> str:
        order = np.argsort(-shares, kind="stable")[:4]
        return ", ".join(f"{self.labels[a]} {shares[a]:.0%}" for a in order if shares[a] >= 0.005)


# ----------------------------------------------------------------------------- charts of models


def convergence(models: Mapping[str, Any], against: str = "time") -> LineChart:
    """Certified gap of fitted models against "time" or "pass"."""
    if against not in ("time", "pass"):
        raise InvalidInputError(f"against={against!r} is not known; use 'time' or 'pass'.")
    lines = []
    for name, model in models.items():
        history = [r for r in _fitted(model, "history_") if 0 < r.gap < np.inf]
        x = [max(r.time, SHORTEST_TIME) if against == "time" else r.n_iter for r in history]
        tips = [f"{name}, pass {r.n_iter}, {r.time:.3g} s: gap {percent(r.gap)}" for r in history]
        lines.append(Line(name, x, [r.gap for r in history], tips))
    return LineChart(
        f"certified gap against {against}",
        lines,
        Axis("seconds" if against == "time" else "passes", log=True, written=magnitude),
        Axis("certified gap", log=True, written=percent),
    )


def regularisation_path(models: Mapping[str, Any]) -> LineChart:
    """Held-out cost of fitted models against alpha, the chosen one marked."""
    lines = []
    for name, model in models.items():
        path = sorted((alpha, -score) for alpha, score in _fitted(model, "alpha_scores_").items())
        alphas, costs = [alpha for alpha, _ in path], [cost for _, cost in path]
        tips = [f"{name}, alpha {number(a)}: held-out cost {number(c)}" for a, c in path]
        lines.append(Line(name, alphas, costs, tips, marked=alphas.index(model.alpha_)))
    return LineChart(
        "held-out cost against alpha",
        lines,
        Axis("alpha", log=True, written=magnitude),
        Axis("held-out cost"),
    )


def reliability(models: Mapping[str, Any], X: Any, y: Any, n_bins: int = 10) -> LineChart:
    """How often models are right against how sure they say they are."""
    truth = np.concatenate([np.asarray(labels).ravel() for labels in y])
    if not 1 <= n_bins <= len(truth):
        raise InvalidInputError(
            f"n_bins={n_bins}; expected 1 to {len(truth)}, the nodes there are."
        )
    lines = [Line("as sure as right", [0.0, 1.0], [0.0, 1.0], ["", ""])]
    for name, model in models.items():
        p = np.concatenate([np.atleast_2d(of_sample) for of_sample in model.predict_proba(X)])
        sure, right = p.max(axis=1), np.asarray(model.classes_)[p.argmax(axis=1)] == truth
        bins = np.array_split(np.argsort(sure, kind="stable"), n_bins)
        said = [float(sure[nodes].mean()) for nodes in bins]
        found = [float(right[nodes].mean()) for nodes in bins]
        tips = [
            f"{name}, {len(nodes)} nodes: {percent(a)} sure, {percent(b)} right"
            for nodes, a, b in zip(bins, said, found, strict=True)
        ]
        lines.append(Line(name, said, found, tips))
    return LineChart(
        "share of right labels against their probability",
        lines,
        Axis("probability of the most probable label", written=percent),
        Axis("share that is right", written=percent),
    )


def cost_matrix(cost: Any, classes: Any = None) -> Matrix:
    """Costs [true, predicted], or those of a fitted model."""
    if hasattr(cost, "cost_"):
        cost, classes = cost.cost_, cost.classes_ if classes is None else classes
    values = np.asarray(cost, float)
    labels = _names(range(len(values)) if classes is None else classes)
    return Matrix(
        "Cost",
        values,
        labels,
        "true",
        "predicted",
        "cost",
        _largest(values),
        cell=lambda b, a: number(values[b, a]),
        tip=lambda b, a: (
            f"predicting {labels[a]} where {labels[b]} is true costs {number(values[b, a])}"
        ),
    )


def confusion_matrix(
    counts: np.ndarray,
    classes: Any,
    *,
    name: str = "",
    shares: bool = True,
    totals: np.ndarray | None = None,
) -> Matrix:
    """How often labels were taken for others: counts [true, predicted].

    Colours are shares of each true label (of ``totals``, where labels are left out) or counts.
    """
    totals = counts.sum(axis=1) if totals is None else totals
    values = counts / np.maximum(totals, 1)[:, None] if shares else counts.astype(float)
    labels = _names(classes)
    return Matrix(
        name,
        values,
        labels,
        "true",
        "predicted",
        "share of true label" if shares else "count",
        1.0 if shares else _largest(values),
        cell=lambda b, a: f"{counts[b, a]:.0f}",
        tip=lambda b, a: (
            f"{name or 'the model'} predicted {labels[a]} where {labels[b]} is true: "
            f"{counts[b, a]:.0f} of {totals[b]:.0f} times"
        ),
    )


def transition_matrix(weights: np.ndarray, classes: Any) -> Matrix:
    """Weights of [label, next label]."""
    labels = _names(classes)
    return Matrix(
        "Transitions",
        weights,
        labels,
        "label",
        "next label",
        "weight",
        _largest(weights),
        cell=lambda a, b: f"{weights[a, b]:+.2g}",
        tip=lambda a, b: f"{labels[a]} then {labels[b]}: {weights[a, b]:+.3g}",
    )


def strategies(
    predictor: np.ndarray,
    adversary: np.ndarray,
    classes: Any = None,
    *,
    edges: Any = None,
    captions: Sequence[str] | None = None,
) -> SampleChart:
    """Both players' distributions on the nodes of a chain, or of the graph of ``edges``."""
    n, k = predictor.shape
    return SampleChart(
        "strategies of predictor and adversary",
        predictor,
        adversary,
        _names(range(k) if classes is None else classes),
        chain_edges(n) if edges is None else checked_edges(edges, n),
        edges is None,
        captions,
    )


# ------------------------------------------------------------------------ charts of a comparison


def costs(comparison: Comparison) -> IntervalChart:
    """Mean cost of each method, with its interval."""
    intervals = [
        Interval(
            m.name,
            m.low,
            m.cost,
            m.high,
            f"{m.name}: {number(m.cost)}, 95 % interval {number(m.low)} to {number(m.high)}",
        )
        for m in comparison.methods
    ]
    unit = "mean cost per unit of weight" if comparison.weighted else "mean cost per label"
    return IntervalChart("cost of each method with its interval", intervals, Axis(unit))


def label_costs(comparison: Comparison, shown: np.ndarray | None = None) -> BarChart:
    """Part of each method's mean cost that is due to each true label, or to those ``shown``."""
    shown = np.arange(len(comparison.classes)) if shown is None else shown
    heights = {m.name: m.label_costs[shown] for m in comparison.methods}
    labels = _names(comparison.classes[shown])
    return BarChart("cost per true label", labels, heights, "of the mean cost")


def example(of: Example) -> SampleChart:
    """A test sample with all that is known about it."""
    return SampleChart(
        f"test sample {of.place}",
        of.predictor,
        of.adversary,
        _names(of.classes),
        of.edges,
        of.is_chain,
        of.captions,
        _names(of.truth),
        {name: _names(labels) for name, labels in of.predicted.items()},
    )


# ---------------------------------------------------------------------------------------- shared


def _names(labels: Any) -> list[str]:
    return [str(label) for label in labels]


def _largest(values: np.ndarray) -> float:
    return float(np.abs(values).max(initial=0.0)) or 1.0


def _fitted(model: Any, attribute: str) -> Any:
    if not hasattr(model, attribute):
        how = "with alpha='auto' or a list" if attribute == "alpha_scores_" else "first"
        raise InvalidInputError(f"the {type(model).__name__} has no {attribute}; fit it {how}.")
    return getattr(model, attribute)
