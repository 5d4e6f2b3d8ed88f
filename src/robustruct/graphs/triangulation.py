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
