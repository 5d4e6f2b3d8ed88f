"""How tree-like a graph is, and in which order to eliminate its nodes.

Exact inference on a graph with cycles costs O(n k^(w+1)) for an elimination order of width w. Two
greedy orders are tried, fewest neighbours and fewest new edges. The first is exact up to width 2
(any graph of treewidth 2 has a node of degree 2 or less, and stays one when it is removed), hence
also where it finds 3. Small graphs get an order of least width by dynamic programming. On others
greedy orders can be far off (28 on a grid of 20 x 20 nodes, whose treewidth is 20), so sweeps
through the graph and greedy orders with ties broken at random are tried as well; the best is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robustruct.core.elimination import (
    AS_LISTED,
    BY_DEGREE,
    BY_FILL,
    best_order,
    contraction_bound,
    greedy_order,
)

WIDEST = 40  # wider orders are not searched: two labels would already need 2^41 numbers a table
EXACT_NODES = 14  # dynamic programming over subsets takes 2^n steps
FILL_NODES = 2000  # counting new edges takes too long on larger graphs that are wide
RESTARTS = 4
"""Orders with random ties. Mean width on 60 random graphs of 30 to 150 nodes, sparse and planar:
11.0 and 12.3 with none, 10.7 and 12.0 with 4, 10.7 and 11.9 with 16."""


@dataclass(frozen=True, eq=False)
class Elimination:
    """An order of elimination."""

    order: np.ndarray
    """(n,) nodes, the first to go first."""
    width: int
    """Most neighbours a node has when it goes; ``WIDEST + 1`` means more than that."""
    exact: bool
    """True if no order has a smaller width: then it is the treewidth."""


def elimination(n_nodes: int, edges: np.ndarray) -> Elimination:
    """The best order found for the graph with edges (m, 2)."""
    best = _searched(n_nodes, edges, BY_DEGREE)
    if best.width <= 3:
        return Elimination(best.order, best.width, True)
    if n_nodes <= EXACT_NODES:
        order = np.empty(n_nodes, np.intp)
        return Elimination(order, best_order(n_nodes, len(edges), edges, order), True)
    for nodes in _sweeps(n_nodes, edges):
        best = min(best, _searched(n_nodes, edges, AS_LISTED, nodes), key=lambda one: one.width)
    if n_nodes <= FILL_NODES or best.width <= WIDEST:
        best = min(best, _searched(n_nodes, edges, BY_FILL), key=lambda one: one.width)
        for seed in range(RESTARTS):
            nodes = np.random.default_rng(seed).permutation(n_nodes)
            again = _searched(n_nodes, edges, BY_FILL, nodes)
            best = min(best, again, key=lambda one: one.width)
    return best


def _searched(
    n_nodes: int, edges: np.ndarray, rule: int, nodes: np.ndarray | None = None
) -> Elimination:
    """A greedy order; ties go to the node that comes first in ``nodes`` (n,), if given."""
    order = np.empty(n_nodes, np.intp)
    if nodes is None:
        width = greedy_order(n_nodes, len(edges), edges, rule, WIDEST, order)
        return Elimination(order, width, False)
    place = np.argsort(nodes)
    width = greedy_order(n_nodes, len(edges), place[edges], rule, WIDEST, order)
    return Elimination(nodes[order], width, False)


def _sweeps(n_nodes: int, edges: np.ndarray) -> list[np.ndarray]:
    """Orders that go through the graph from one side to the other: as listed, and by breadth."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee  # wide graphs only wait for SciPy

    ends = np.concatenate([edges, edges[:, ::-1]]).T
    adjacency = coo_array((np.ones(ends.shape[1]), ends), shape=(n_nodes, n_nodes)).tocsr()
    by_breadth = reverse_cuthill_mckee(adjacency, symmetric_mode=True)
    return [np.arange(n_nodes), by_breadth.astype(np.intp)]


def treewidth(n_nodes: int, edges: np.ndarray) -> tuple[int, int]:
    """(lower, upper) bound on the treewidth; equal where it is known.

    The upper bound is a number of nodes minus one where the graph is wider than any order tried.
    """
    found = elimination(n_nodes, edges)
    if found.exact:
        return found.width, found.width
    upper = found.width if found.width <= WIDEST else n_nodes - 1
    # The bound keeps an (n, n) matrix; a graph too large for it has at least width 4 here.
    lower = contraction_bound(n_nodes, len(edges), edges) if n_nodes <= FILL_NODES else 4
    return min(max(lower, 4), upper), upper


def structure_name(n_nodes: int, edges: np.ndarray) -> str:
    """What the graph is: "chain", "forest", "cycle", "ladder", "skip chain", "series-parallel",
    or "general"."""
    pairs = {(int(min(i, j)), int(max(i, j))) for i, j in edges}
    degree = np.bincount(np.ravel(edges), minlength=n_nodes) if len(edges) else np.zeros(n_nodes)
    width = elimination(n_nodes, edges).width
    consecutive = all((i, i + 1) in pairs for i in range(n_nodes - 1))
    if width <= 1:
        return "chain" if consecutive else "forest"
    if width == 2 and (degree == 2).all() and _is_connected(n_nodes, pairs):
        return "cycle"
    if width == 2 and _is_ladder(n_nodes, pairs):
        return "ladder"
    if consecutive:
        return "skip chain"
    return "series-parallel" if width == 2 else "general"


def _neighbours(n_nodes: int, pairs: set[tuple[int, int]]) -> list[set[int]]:
    near: list[set[int]] = [set() for _ in range(n_nodes)]
    for i, j in pairs:
        near[i].add(j)
        near[j].add(i)
    return near


def _is_connected(n_nodes: int, pairs: set[tuple[int, int]]) -> bool:
    near = _neighbours(n_nodes, pairs)
    reached, waiting = {0}, [0]
    while waiting:
        new = near[waiting.pop()] - reached
        reached |= new
        waiting.extend(new)
    return len(reached) == n_nodes


def _is_ladder(n_nodes: int, pairs: set[tuple[int, int]]) -> bool:
    """A 2 x m grid with m >= 2: take off rungs at one end until one rung is left."""
    near = _neighbours(n_nodes, pairs)
    left = set(range(n_nodes))
    corners = [i for i in left if len(near[i]) == 2]
    ends = [(i, j) for i in corners for j in corners if i < j and j in near[i]]
    if n_nodes < 4 or n_nodes % 2 or len(pairs) != 3 * (n_nodes // 2) - 2 or not ends:
        return False
    rung = ends[0]
    while len(left) > 2:
        nexts = [near[i] & left - set(rung) for i in rung]
        left -= set(rung)
        if [len(after) for after in nexts] != [1, 1]:
            return False
        rung = (nexts[0].pop(), nexts[1].pop())
        if rung[0] == rung[1] or rung[1] not in near[rung[0]]:
            return False
    return True
