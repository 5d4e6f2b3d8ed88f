"""Hypothesis strategies: small forests and graphs, scores of every size, awkward cost matrices.

Needs hypothesis, which is not a dependency of the library itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

Draw = Any


class GameData(NamedTuple):
    """One game as `robustruct.solve_game` takes it."""

    unary: np.ndarray
    edges: np.ndarray
    pairwise: np.ndarray
    cost: np.ndarray
    node_weight: np.ndarray


def _numbers(shape: Any) -> st.SearchStrategy[np.ndarray]:
    """Values in [-1, 1]: smooth ones, or a few levels so that ties abound."""
    smooth = hnp.arrays(float, shape, elements=st.floats(-1, 1, allow_subnormal=False, width=32))
    levels = hnp.arrays(float, shape, elements=st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]))
    return st.one_of(smooth, levels)


@st.composite
def forests(draw: Draw, min_nodes: int = 1, max_nodes: int = 6) -> tuple[int, np.ndarray]:
    """(n_nodes, edges (m, 2)): several components, any shape, edges in any order and direction."""
    n_nodes = draw(st.integers(min_nodes, max_nodes))
    names = draw(st.permutations(range(n_nodes)))
    edges = []
    for i in range(1, n_nodes):
        other = draw(st.integers(-1, i - 1))
        if other >= 0:
            pair = (names[i], names[other])
            edges.append(pair if draw(st.booleans()) else pair[::-1])
    edges = draw(st.permutations(edges))
    return n_nodes, np.array(edges, dtype=np.intp).reshape(-1, 2)


@st.composite
def graphs(
    draw: Draw, min_nodes: int = 1, max_nodes: int = 6, max_width: int = 3
) -> tuple[int, np.ndarray]:
    """(n_nodes, edges (m, 2)): any graph of treewidth ``max_width`` or less, cycles or none.

    Every node joins some of up to ``max_width`` nodes that were all joined by those before: what
    can be built this way, with edges left out, are exactly these graphs.
    """
    n_nodes = draw(st.integers(min_nodes, max_nodes))
    names = draw(st.permutations(range(n_nodes)))
    cliques: list[tuple[int, ...]] = [()]
    edges = []
    for i in range(n_nodes):
        clique = draw(st.sampled_from(cliques))
        cliques += [(*clique[:j], *clique[j + 1 :], i) for j in range(len(clique))]
        if len(clique) < max_width:
            cliques.append((*clique, i))
        for j in clique:
            if draw(st.integers(0, 4)):
                pair = (names[i], names[j])
                edges.append(pair if draw(st.booleans()) else pair[::-1])
    edges = draw(st.permutations(edges))
    return n_nodes, np.array(edges, dtype=np.intp).reshape(-1, 2)


@st.composite
def cost_matrices(draw: Draw, n_labels: int) -> np.ndarray:
    """(k, k) [true, predicted]: the usual losses and those that break solvers."""
    kind = draw(
        st.sampled_from(
            [
                "hamming",
                "absolute",
                "squared",
                "any",
                "negative",
                "constant",
                "equal columns",
                "dominated",
            ]
        )
    )
    k = n_labels
    places = np.arange(k, dtype=float)
    if kind == "hamming":
        return 1.0 - np.eye(k)
    if kind == "absolute":
        return np.abs(places[:, None] - places)
    if kind == "squared":
        return (places[:, None] - places) ** 2
    if kind == "constant":
        return np.full((k, k), draw(st.sampled_from([0.0, 1.0, -3.0])))
    matrix = draw(_numbers((k, k)))
    if kind == "negative":
        return matrix - 1.0
    if kind == "equal columns":
        matrix[:, draw(st.integers(0, k - 1))] = matrix[:, 0]
    if kind == "dominated":
        more = draw(st.sampled_from([0.0, 1.0]))
        matrix[:, draw(st.integers(0, k - 1))] = matrix.max(axis=1) + more
    return matrix


def node_weights(n_nodes: int, max_exponent: int = 6) -> st.SearchStrategy[np.ndarray]:
    """(n,) equal, some zero, or spread over many orders of magnitude."""
    spread = st.integers(-max_exponent, max_exponent).map(lambda power: 10.0**power)
    return st.one_of(
        st.just(np.ones(n_nodes)),
        hnp.arrays(float, n_nodes, elements=st.sampled_from([0.0, 1.0, 2.0])),
        hnp.arrays(float, n_nodes, elements=spread),
    )


@st.composite
def games(
    draw: Draw,
    min_nodes: int = 1,
    max_nodes: int = 6,
    max_labels: int = 4,
    *,
    min_labels: int = 1,
    min_exponent: int = -8,
    max_exponent: int = 6,
    max_weight_exponent: int = 6,
    forbid: bool = True,
    max_width: int = 1,
) -> GameData:
    """A game on a forest, or on a graph of treewidth ``max_width`` or less.

    With ``forbid``, some scores are -inf, yet never all labellings'.
    """
    shapes = forests(min_nodes, max_nodes)
    if max_width > 1:
        shapes = graphs(min_nodes, max_nodes, max_width)
    n_nodes, edges = draw(shapes)
    k = draw(st.integers(min_labels, max_labels))
    scale = 10.0 ** draw(st.integers(min_exponent, max_exponent))
    unary = draw(_numbers((n_nodes, k))) * scale
    pairwise = draw(_numbers((len(edges), k, k))) * scale
    if forbid and draw(st.booleans()):
        allowed = draw(hnp.arrays(np.intp, n_nodes, elements=st.integers(0, k - 1)))
        no_label = draw(hnp.arrays(bool, unary.shape))
        no_pair = draw(hnp.arrays(bool, pairwise.shape))
        no_label[np.arange(n_nodes), allowed] = False
        no_pair[np.arange(len(edges)), allowed[edges[:, 0]], allowed[edges[:, 1]]] = False
        unary[no_label] = -np.inf
        pairwise[no_pair] = -np.inf
    cost = draw(cost_matrices(k))
    return GameData(unary, edges, pairwise, cost, draw(node_weights(n_nodes, max_weight_exponent)))
