"""Samples on which the methods disagree, with both players' strategies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from robustruct.comparison.samples import Split
from robustruct.graphs import Graph, chain_edges, n_rows

if TYPE_CHECKING:
    from robustruct.comparison.compare import SplitFit

GAME_TOL = 1e-3  # enough for a drawing
MOST_NODES = 80  # of an example that fits a page; larger ones come after all that do


@dataclass(frozen=True, eq=False)
class Example:
    """One test sample."""

    place: int
    """Which test sample it is."""
    edges: np.ndarray
    """(m, 2)"""
    is_chain: bool
    captions: Sequence[str] | None
    truth: np.ndarray
    predicted: Mapping[str, np.ndarray]
    """Labels by method."""
    costs: Mapping[str, float]
    """Total cost by method."""
    classes: np.ndarray
    """Labels that the columns of ``predictor`` and ``adversary`` stand for."""
    predictor: np.ndarray
    """(n, k) p, the AGM predictor's distribution on each node."""
    adversary: np.ndarray
    """(n, k) q, the adversary's marginals."""
    gap: float
    """How far p and q are from equilibrium at most, in units of cost."""


def disagreements(
    parts: Sequence[Split],
    fits: Sequence[SplitFit],
    predicted: Mapping[str, Sequence[np.ndarray]],
    costs: Mapping[str, np.ndarray],
    truth: Sequence[np.ndarray],
    n_examples: int,
) -> list[Example]:
    """The test samples whose costs differ most between methods, the largest difference first."""
    table = np.column_stack(list(costs.values()))
    spread = np.ptp(table, axis=1)
    fits_page = np.array([len(labels) <= MOST_NODES for labels in truth])
    order = np.lexsort((-spread, ~fits_page))
    chosen = [int(s) for s in order[:n_examples] if spread[s] > 0]
    starts = np.cumsum([0, *(len(part.test) for part in parts)])
    made = []
    for s in chosen:
        split = int(np.searchsorted(starts, s, side="right")) - 1
        part, i = parts[split].test, s - int(starts[split])
        model, x = fits[split].model, part.X[i]
        weight = None if part.node_weight is None else [part.node_weight[i]]
        (game,) = model.predict_games([x], weight, solver="pairwise", tol=GAME_TOL)
        edges, is_chain = edges_of(x)
        made.append(
            Example(
                place=s,
                edges=edges,
                is_chain=is_chain,
                captions=None if part.captions is None else part.captions[i],
                truth=truth[s],
                predicted={name: labels[s] for name, labels in predicted.items()},
                costs={name: float(of[s]) for name, of in costs.items()},
                classes=model.classes_,
                predictor=game.predictor,
                adversary=game.adversary_nodes,
                gap=game.gap,
            )
        )
    return made


def edges_of(x: Any) -> tuple[np.ndarray, bool]:
    """(edges of a sample, whether they are those of a chain)."""
    if not isinstance(x, Graph):
        return chain_edges(n_rows(x)), True
    chain = chain_edges(x.n_nodes)
    return x.edges, x.n_edges == len(chain) and bool((np.sort(x.edges, axis=1) == chain).all())
