"""Plots with matplotlib, each on an Axes of its own or one you give.

Install the extra: ``pip install 'robustruct[plots]'``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from robustruct.errors import InvalidInputError, MissingExtraError
from robustruct.graphs.graph import chain_edges, checked_edges
from robustruct.graphs.layout import positions
from robustruct.metrics import confusion

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from robustruct.game.solve import GameSolution
    from robustruct.losses import Labels
    from robustruct.models.base import StructuredModel

    Models = StructuredModel | Sequence[StructuredModel] | Mapping[str, StructuredModel]

PREDICTOR, ADVERSARY = "#1f5fbf", "#b3261e"
BAR_WIDTH, BAR_HEIGHT = 0.8, 0.34  # of the small charts on nodes; nodes are 1 apart


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
    if against not in ("time", "pass"):
        raise InvalidInputError(f"against={against!r} is not known; use 'time' or 'pass'.")
    ax = _axes(ax)
    for name, model in _named(models).items():
        records = [r for r in _fitted(model, "history_") if 0 < r.gap < np.inf]
        x = [r.time if against == "time" else r.n_iter for r in records]
        ax.plot(x, [r.gap for r in records], marker=".", label=name)
    ax.set(xscale="log", yscale="log", ylabel="certified relative gap")
    ax.set_xlabel("seconds" if against == "time" else "passes")
    ax.legend()
    return ax


def cost_matrix(cost: Any, classes: Labels | None = None, *, ax: Axes | None = None) -> Axes:
    """Costs of mistakes as a heat map, a row per true label.

    Parameters
    ----------
    cost : array of shape (k, k), or model
        Costs [predicted, true], as in `robustruct.losses`; of a fitted model its ``cost_``.
    classes : sequence, optional
        Names of the labels; by default those of the model, or numbers.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    if hasattr(cost, "cost_"):
        cost, classes = cost.cost_, cost.classes_ if classes is None else classes
    values = np.asarray(cost, float)
    return _matrix(values.T, range(len(values)) if classes is None else classes, "cost", ax)


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
    from robustruct.losses import as_labels, sorted_labels

    if classes is None:
        arrays = [as_labels(np.ravel(labels)) for side in (y_true, y_pred) for labels in side]
        classes = sorted_labels(arrays)
    counts = confusion(y_true, y_pred, classes).astype(float)
    if normalise:
        counts /= np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return _matrix(counts, classes, "share of true label" if normalise else "count", ax)


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
    n, k = p.shape
    names = [str(label) for label in (range(k) if classes is None else classes)]
    if len(names) != k or (captions is not None and len(captions) != n):
        raise InvalidInputError(
            f"the game has {n} nodes and {k} labels; give {k} classes and {n} captions, or none."
        )
    is_chain = edges is None
    joined = chain_edges(n) if is_chain else checked_edges(edges, n)
    places = np.column_stack([np.arange(n), np.zeros(n)]) if is_chain else positions(n, joined)
    places = places * [1.0, -1.4]
    ax = _axes(ax)
    for a, b in joined:
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
        label = names[int(p[i].argmax())]
        ax.text(x, y + BAR_HEIGHT + 0.05, label, ha="center", va="bottom", bbox=clear)
        if captions is not None:
            below = y - BAR_HEIGHT - 0.05
            ax.text(x, below, captions[i], ha="center", va="top", color="0.4", bbox=clear)
    ax.set_xlim(places[:, 0].min() - 0.7, places[:, 0].max() + 0.7)
    ax.set_ylim(places[:, 1].min() - 0.8, places[:, 1].max() + 0.8)
    ax.set_axis_off()
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2, frameon=False)
    return ax


def regularisation_path(models: Models, *, ax: Axes | None = None) -> Axes:
    """Held-out loss against alpha, the chosen one marked.

    Parameters
    ----------
    models : model, list of models, or dict from name to model
        Fitted with ``alphas``.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    ax = _axes(ax)
    for name, model in _named(models).items():
        path = sorted((a, -score) for a, score in _fitted(model, "alpha_scores_").items())
        (line,) = ax.plot(*zip(*path, strict=True), marker=".", label=name)
        chosen = dict(path)[model.alpha_]
        ax.plot([model.alpha_], [chosen], marker="o", markersize=9, color=line.get_color())
    ax.set(xscale="log", xlabel="alpha", ylabel="held-out loss")
    ax.legend()
    return ax


def risk_by_sample_size(
    n_samples: Sequence[int],
    risks: Mapping[str, Any],
    *,
    bayes_risk: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Risk against the number of training samples: does a method approach the best possible?

    Parameters
    ----------
    n_samples : sequence of int
    risks : dict from name to array of shape (n_sizes,) or (n_sizes, n_repeats)
        Repeats are drawn as their mean, with the range between their quartiles.
    bayes_risk : float, optional
        The least risk that any method can have, where it is known.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    ax = _axes(ax)
    for name, values in risks.items():
        table = np.asarray(values, float)
        if table.ndim not in (1, 2) or len(table) != len(n_samples):
            raise InvalidInputError(
                f"risks[{name!r}] has shape {table.shape}; expected a row for each of the "
                f"{len(n_samples)} sample sizes."
            )
        if table.ndim == 1:
            table = table[:, None]
        (line,) = ax.plot(n_samples, table.mean(axis=1), marker=".", label=name)
        if table.shape[1] > 1:
            low, high = np.quantile(table, [0.25, 0.75], axis=1)
            ax.fill_between(n_samples, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    if bayes_risk is not None:
        ax.axhline(bayes_risk, color="0.4", linestyle="--", label="best possible")
    ax.set(xscale="log", xlabel="training samples", ylabel="risk")
    ax.legend()
    return ax


# ------------------------------------------------------------------------- shared


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


def _matrix(values: np.ndarray, classes: Any, title: str, ax: Axes | None) -> Axes:
    names = [str(label) for label in classes]
    if values.shape != (len(names), len(names)):
        raise InvalidInputError(
            f"the matrix has shape {values.shape} but there are {len(names)} labels."
        )
    ax = _axes(ax)
    image = ax.imshow(values, cmap="Blues", aspect="equal")
    ax.figure.colorbar(image, ax=ax, label=title)
    ax.set_xticks(range(len(names)), names, rotation=90 if max(map(len, names)) > 3 else 0)
    ax.set_yticks(range(len(names)), names)
    ax.set(xlabel="predicted", ylabel="true")
    if len(names) <= 12:
        middle = (values.max() + values.min()) / 2
        for (b, a), value in np.ndenumerate(values):
            colour = "white" if value > middle else "black"
            ax.text(a, b, f"{value:.2g}", ha="center", va="center", color=colour, fontsize=8)
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


def _fitted(model: Any, attribute: str) -> Any:
    if not hasattr(model, attribute):
        how = "with alphas='auto' or a list of them" if attribute == "alpha_scores_" else "first"
        raise InvalidInputError(f"the {type(model).__name__} has no {attribute}; fit it {how}.")
    return getattr(model, attribute)
