"""Where to draw the nodes of a graph."""

from __future__ import annotations

import numpy as np


def positions(n_nodes: int, edges: np.ndarray) -> np.ndarray:
    """(n, 2) places: leaves side by side at whole numbers, parents in the middle of their children.

    The second coordinate is the depth, 0 at the roots. Trees of a forest stand side by side. Edges
    that close a cycle have no influence.

    Parameters
    ----------
    n_nodes : int
    edges : ndarray of shape (m, 2)

    Examples
    --------
    >>> positions(3, np.array([[0, 1], [0, 2]])).tolist()
    [[0.5, 0.0], [0.0, 1.0], [1.0, 1.0]]
    """
    neighbours: list[list[int]] = [[] for _ in range(n_nodes)]
    for a, b in edges.tolist():
        neighbours[a].append(b)
        neighbours[b].append(a)
    placed = np.zeros((n_nodes, 2))
    seen = np.zeros(n_nodes, bool)
    next_leaf = 0.0
    for root in _roots_first(n_nodes, edges):
        if seen[root]:
            continue
        order, found = _depth_first(root, neighbours, seen)
        for node in order:
            depth, children = found[node]
            placed[node, 1] = depth
            if not children:
                placed[node, 0] = next_leaf
                next_leaf += 1
        for node in reversed(order):  # children before parents
            children = found[node][1]
            if children:
                placed[node, 0] = (placed[children[0], 0] + placed[children[-1], 0]) / 2
    return placed


def _roots_first(n_nodes: int, edges: np.ndarray) -> list[int]:
    """All nodes, those first that look like roots.

    Where every edge is listed from parent to child (or from child to parent) throughout, the root
    is the node that is nobody's child; elsewhere the node with the most neighbours will do.
    """
    for child_side in (1, 0):
        n_parents = np.bincount(edges[:, child_side], minlength=n_nodes)
        if (n_parents <= 1).all():
            return np.argsort(n_parents, kind="stable").tolist()
    degree = np.bincount(edges.ravel(), minlength=n_nodes)
    return np.argsort(-degree, kind="stable").tolist()


def _depth_first(
    root: int, neighbours: list[list[int]], seen: np.ndarray
) -> tuple[list[int], dict[int, tuple[int, list[int]]]]:
    """(nodes in the order met, for each its depth and its children from left to right)."""
    found: dict[int, tuple[int, list[int]]] = {root: (0, [])}
    order, stack = [], [(root, -1)]
    while stack:
        node, parent = stack.pop()
        if seen[node]:
            continue
        seen[node] = True
        order.append(node)
        if parent >= 0:
            found[node] = (found[parent][0] + 1, [])
            found[parent][1].append(node)
        stack += [(other, node) for other in sorted(neighbours[node], reverse=True)]
    return order, found
