"""Plots with matplotlib, each on an Axes of its own or one you give.

Install the extra: ``pip install 'robustruct[plots]'``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from robustruct import charts
from robustruct.errors import MissingExtraError
from robustruct.metrics import confusion

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from robustruct.comparison import Comparison
    from robustruct.game.solve import GameSolution
    from robustruct.losses import Labels
    from robustruct.models.base import StructuredModel

    Models = StructuredModel | Sequence[StructuredModel] | Mapping[str, StructuredModel]

__all__ = [
    "confusion_matrix",
    "convergence",
    "cost_matrix",
    "costs",
    "label_costs",
    "regularisation_path",
    "reliability",
    "strategies",
]

PREDICTOR, ADVERSARY = "#1f5fbf", "#b3261e"
BAR_WIDTH, BAR_HEIGHT = 0.8, 0.34  # of the small charts on nodes; nodes are 1 apart
LETTER = 6.5  # points that a letter or digit of a tick takes, and a little more


def convergence(models: Models, *, against: str = "time", ax: Axes | None = None) -> Axes:
    """Certified gap of fitted models against time or passes, both axes logarithmic.

    Parameters
    ----------
    models : model, list of models, or dict from name to model
    against : "time" or "pass"
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    return _lines(charts.convergence(_named(models), against), ax)


def cost_matrix(cost: Any, classes: Labels | None = None, *, ax: Axes | None = None) -> Axes:
    """Costs of mistakes as a heat map, a row per true label.

    Parameters
    ----------
    cost : array of shape (k, k), or model
        Costs, or a fitted model for its ``cost_``; rows: true label, columns: predicted label.
    classes : sequence, optional
        Names of the labels; by default those of the model, or numbers.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    return _matrix(charts.cost_matrix(cost, classes), ax)


def confusion_matrix(
    y_true: Any,
    y_pred: Any,
    classes: Labels | None = None,
    *,
    normalise: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """How often labels were taken for others, as a heat map with a row per true label.

    Parameters
    ----------
    y_true, y_pred : list of label arrays, or one flat array
    classes : sequence, optional
        Order of the labels; by default the sorted labels found.
    normalise : bool
        Shares of each true label instead of counts.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    from robustruct.labels import as_labels, sorted_labels

    if classes is None:
        arrays = [as_labels(np.ravel(labels)) for side in (y_true, y_pred) for labels in side]
        classes = sorted_labels(arrays)
    counts = confusion(y_true, y_pred, classes)
    return _matrix(charts.confusion_matrix(counts, classes, shares=normalise), ax)


def strategies(
    game: GameSolution,
    classes: Labels | None = None,
    *,
    edges: Any = None,
    captions: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """A sequence or tree with the predictor's p (upwards) and the adversary's q (downwards).

    Parameters
    ----------
    game : GameSolution
        From `robustruct.solve_game` or ``model.predict_games``.
    classes : sequence, optional
        Names of the labels; each node's likeliest one under p is written above it.
    edges : array of shape (m, 2), optional
        By default the nodes form a chain.
    captions : sequence of str, optional
        What to write below each node.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    p, q = game.predictor, game.adversary_nodes
    return _sample(charts.strategies(p, q, classes, edges=edges, captions=captions), ax)


def regularisation_path(models: Models, *, ax: Axes | None = None) -> Axes:
    """Held-out cost against alpha, the chosen one marked.

    Parameters
    ----------
    models : model, list of models, or dict from name to model
        Fitted with ``alpha="auto"`` or a list.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    return _lines(charts.regularisation_path(_named(models)), ax)


def reliability(
    models: Models, X: Any, y: Any, *, n_bins: int = 10, ax: Axes | None = None
) -> Axes:
    """Are probabilities of 0.8 right eight times in ten? On the diagonal they are.

    Parameters
    ----------
    models : model, list of models, or dict from name to model
        Fitted. Probabilities are estimates for the CRF and for temperatures above 0; those of a
        model at temperature 0 say how it mixes its answers.
    X : list of samples
        Which no model has been trained on.
    y : list of arrays of labels
    n_bins : int, default 10
        Points of a line: nodes are sorted by the probability of their most probable label and
        divided into so many groups of the same size.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    return _lines(charts.reliability(_named(models), X, y, n_bins), ax)


def costs(comparison: Comparison, *, ax: Axes | None = None) -> Axes:
    """Mean cost of each method of a comparison, with 95 % intervals.

    Parameters
    ----------
    comparison : Comparison
        From `robustruct.comparison.compare`.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    chart = charts.costs(comparison)
    ax = _axes(ax)
    for i, one in enumerate(chart.intervals):
        ax.errorbar(
            one.value, i, xerr=[[one.value - one.low], [one.high - one.value]], fmt="o", capsize=4
        )
    ax.set_yticks(range(len(chart.intervals)), [one.name for one in chart.intervals])
    ax.margins(y=0.3)
    ax.invert_yaxis()
    _label(ax, "x", chart.axis)
    return ax


def label_costs(comparison: Comparison, *, ax: Axes | None = None) -> Axes:
    """Part of each method's mean cost that is due to each true label.

    Parameters
    ----------
    comparison : Comparison
        From `robustruct.comparison.compare`.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    chart = charts.label_costs(comparison)
    ax = _axes(ax)
    width = BAR_WIDTH / len(chart.heights)
    middles = np.arange(len(chart.labels))
    for i, (name, heights) in enumerate(chart.heights.items()):
        ax.barh(middles + (i - (len(chart.heights) - 1) / 2) * width, heights, width, label=name)
    ax.set_yticks(middles, chart.labels)
    ax.invert_yaxis()
    ax.set_xlabel(chart.unit)
    ax.legend()
    return ax


# ---------------------------------------------------------------- one function per kind of chart


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise MissingExtraError(
            "plots need matplotlib; install it with pip install 'robustruct[plots]'."
        ) from None
    return pyplot.subplots(layout="constrained")[1]


def _lines(chart: charts.LineChart, ax: Axes | None) -> Axes:
    ax = _axes(ax)
    for line in chart.lines:
        (drawn,) = ax.plot(line.x, line.y, marker=".", label=line.name)
        colour = drawn.get_color()
        if line.marked is not None:
            x, y = line.x[line.marked], line.y[line.marked]
            ax.plot([x], [y], marker="o", markersize=9, color=colour)
    _label(ax, "x", chart.x)
    _label(ax, "y", chart.y)
    ax.legend()
    return ax


def _label(ax: Axes, which: str, axis: charts.Axis) -> None:
    """Scale, ticks and words of the x or y axis; the ticks are those of the report."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    scale = "log" if axis.log else "linear"
    ax.set(**{f"{which}scale": scale, f"{which}label": axis.label})
    side = getattr(ax, f"{which}axis")
    side.set_major_locator(_round_numbers()(axis.log, axis.written))
    side.set_major_formatter(FuncFormatter(lambda value, _: axis.written(value)))
    side.set_minor_formatter(NullFormatter())


@cache
def _round_numbers() -> Any:
    """`charts.ticks` as a class of matplotlib, made here because that is not loaded early."""
    from matplotlib.ticker import Locator

    class RoundNumbers(Locator):
        def __init__(self, log: bool, written: Callable[[float], str]) -> None:
            self.log, self.written = log, written

        def __call__(self) -> list[float]:
            axis: Any = self.axis  # set by the axis that uses it
            values = self.tick_values(*axis.get_view_interval())
            return values if axis.axis_name == "y" else self._apart(values, axis)

        def _apart(self, values: list[float], axis: Any) -> list[float]:
            """Those whose texts, side by side, do not touch."""
            pixels = LETTER * axis.figure.dpi / 72
            kept, end = list[float](), -np.inf
            for value in values:
                middle = axis.axes.transData.transform((value, 1.0))[0]
                half = pixels * (len(self.written(value)) + 1) / 2
                if middle - half > end:
                    kept.append(value)
                    end = middle + half
            return kept

        def tick_values(self, vmin: float, vmax: float) -> list[float]:
            low, high = sorted((vmin, vmax))
            return charts.ticks(low, high, log=self.log)

    return RoundNumbers


def _matrix(chart: charts.Matrix, ax: Axes | None) -> Axes:
    names, values = chart.labels, chart.values
    ax = _axes(ax)
    low, cmap = (-chart.full, "RdBu") if chart.signed else (0.0, "Blues")
    image = ax.imshow(values, cmap=cmap, aspect="equal", vmin=low, vmax=chart.full)
    ax.figure.colorbar(image, ax=ax, label=chart.unit)
    ax.set_xticks(range(len(names)), names, rotation=90 if max(map(len, names)) > 3 else 0)
    ax.set_yticks(range(len(names)), names)
    ax.set(xlabel=chart.columns, ylabel=chart.rows)
    if len(names) <= 12:
        for (b, a), value in np.ndenumerate(values):
            colour = "white" if abs(value) > chart.full / 2 else "black"
            shown = f"{value:.2g}"  # what the colour bar measures
            ax.text(a, b, shown, ha="center", va="center", color=colour, fontsize=8)
    return ax


def _sample(chart: charts.SampleChart, ax: Axes | None) -> Axes:
    p, q = chart.predictor, chart.adversary
    k = p.shape[1]
    places = chart.places * [1.0, -1.4]
    ax = _axes(ax)
    for a, b in chart.edges:
        ax.plot(*places[[a, b]].T, color="0.7", zorder=0)
    bar = BAR_WIDTH / k
    left = places[:, :1] + (np.arange(k) - (k - 1) / 2) * bar
    base = np.repeat(places[:, 1:], k, axis=1)
    ax.bar(
        left.ravel(),
        BAR_HEIGHT * p.ravel(),
        bar,
        base.ravel(),
        color=PREDICTOR,
        label="predictor p",
    )
    ax.bar(
        left.ravel(),
        -BAR_HEIGHT * q.ravel(),
        bar,
        base.ravel(),
        color=ADVERSARY,
        label="adversary q",
    )
    clear = {"facecolor": ax.get_facecolor(), "edgecolor": "none", "pad": 0.5}  # of the edges
    for i, (x, y) in enumerate(places):
        above, below = y + BAR_HEIGHT + 0.05, y - BAR_HEIGHT - 0.05
        ax.text(x, above, chart.head(i), ha="center", va="bottom", bbox=clear)
        if chart.captions is not None:
            caption = chart.captions[i]
            ax.text(x, below, caption, ha="center", va="top", color="0.4", bbox=clear)
    ax.set_xlim(places[:, 0].min() - 0.7, places[:, 0].max() + 0.7)
    ax.set_ylim(places[:, 1].min() - 0.8, places[:, 1].max() + 0.8)
    ax.set_axis_off()
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2, frameon=False)
    return ax


def _named(models: Any) -> dict[str, Any]:
    if isinstance(models, Mapping):
        return dict(models)
    if not isinstance(models, Sequence):
        models = [models]
    names = [type(model).__name__ for model in models]
    return {
        name if names.count(name) == 1 else f"{name} {i}": model
        for i, (name, model) in enumerate(zip(names, models, strict=True))
    }
