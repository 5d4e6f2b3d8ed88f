"""How tree-like a graph is, and in which order to eliminate its nodes.

Exact inference on a graph with cycles costs O(n k^(w+1)) for an elimination order of width w. Two
greedy orders are tried, fewest neighbours and fewest new edges, and the better one is kept. The
first is exact up to width 2 (any graph of treewidth 2 has a node of degree 2 or less, and stays
one when it is removed), hence also where it finds 3; wider graphs that are small get an order of
least width by dynamic programming.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robustruct.core.elimination import best_order, contraction_bound, greedy_order

WIDEST = 40  # wider orders are not searched: two labels would already need 2^41 numbers a table
EXACT_NODES = 14  # dynamic programming over subsets takes 2^n steps
FILL_NODES = 2000  # counting new edges takes too long on larger graphs that are wide


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
    order, other = np.empty(n_nodes, np.intp), np.empty(n_nodes, np.intp)
    width = greedy_order(n_nodes, len(edges), edges, False, WIDEST, order)
    if width <= 3:
        return Elimination(order, width, True)
    if n_nodes <= FILL_NODES or width <= WIDEST:
        fill_width = greedy_order(n_nodes, len(edges), edges, True, WIDEST, other)
        if fill_width < width:
            order, width = other, fill_width
    if n_nodes <= EXACT_NODES:
        order = np.empty(n_nodes, np.intp)
        return Elimination(order, best_order(n_nodes, len(edges), edges, order), True)
    return Elimination(order, width, False)


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
